//! Values of metrics, read from a scrape.

use crate::simulation::harness::Simulation;

/// The value of a series, by its beginning such as `name{label="value"`; `None` where there is none. Several are added up.
pub(crate) fn value(simulation: &Simulation, series: &str) -> Option<f64> {
    let text = simulation.context.metrics.encode();
    let lines = text.lines().filter(|line| line.starts_with(series));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.reduce(|a, b| a + b)
}

/// How many series begin so.
pub(crate) fn count(simulation: &Simulation, series: &str) -> usize {
    let text = simulation.context.metrics.encode();
    text.lines().filter(|line| line.starts_with(series)).count()
}
