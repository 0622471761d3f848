//! What days cost, as a table and as plots.

use std::fmt::Write;
use std::path::Path;

use kerf_testkit::document::{replace_part, write_plots};
use kerf_testkit::plots::{Plot, Series};

use crate::day::{Day, LOOK, Look};
use crate::world::Prices;

/// Looks between two points of a plot.
const LOOKS_PER_POINT: usize = 15;

/// One line per day. Costs are relative to the first day with the same seed and prices.
pub(crate) fn table(days: &[Day]) -> String {
    let mut text = "\n| prices | seed | options | $ | relative | requests / price | nodes on average | launched | evictions | pod hours pending |\n\
                    |---|---:|---|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for day in days {
        let alike = |other: &&Day| other.setup.seed == day.setup.seed && other.setup.prices == day.setup.prices;
        let first = days.iter().find(alike).map_or(0.0, |day| sum(day, |look| look.price));
        let price = sum(day, |look| look.price);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.1} | {:.3} | {:.1} % | {:.1} | {} | {:.0} | {:.1} |",
            day.setup.prices,
            day.setup.seed,
            day.setup.name,
            hours(price),
            price / first,
            100.0 * sum(day, |look| look.requested) / price,
            sum(day, |look| look.nodes) / day.looks.len() as f64,
            day.launched,
            day.evictions,
            hours(sum(day, |look| look.waiting)),
        );
    }
    text + "\n"
}

fn sum(day: &Day, value: impl Fn(&Look) -> f64) -> f64 {
    day.looks.iter().map(value).sum()
}

/// A sum over looks as a sum over hours.
fn hours(looks: f64) -> f64 {
    looks * LOOK.as_secs_f64() / 3_600.0
}

/// Writes the table and the plots of the first seed into a folder of documents.
pub(crate) fn write(folder: &Path, days: &[Day]) {
    replace_part(&folder.join("packing.md"), "day", &table(days));
    let plots = [
        (
            "day-cost-kwok.svg",
            "Price of the cluster, prices in proportion to size",
            Prices::Kwok,
        ),
        (
            "day-cost-ec2.svg",
            "Price of the cluster, prices like EC2's",
            Prices::Ec2,
        ),
    ];
    let drawn = plots.into_iter().filter_map(|(name, title, prices)| {
        let of_prices = days.iter().filter(|day| day.setup.prices == prices);
        let seed = of_prices.clone().next()?.setup.seed;
        Some((name, cost(of_prices.filter(|day| day.setup.seed == seed), title)))
    });
    write_plots(&folder.join("packing"), drawn);
}

/// The price of the cluster over some days.
fn cost<'a>(days: impl Iterator<Item = &'a Day>, title: &str) -> String {
    let series = days.map(|day| {
        let points = day.looks.chunks(LOOKS_PER_POINT).zip(1..).map(|(looks, at)| {
            let hour = hours(f64::from(at) * LOOKS_PER_POINT as f64);
            (
                hour,
                looks.iter().map(|look| look.price).sum::<f64>() / looks.len() as f64,
            )
        });
        Series {
            name: day.setup.name.clone(),
            points: points.collect(),
            labels: Vec::new(),
        }
    });
    let plot = Plot {
        title,
        x: "hours",
        y: "$/h",
        series: series.collect(),
    };
    plot.svg(true)
}
