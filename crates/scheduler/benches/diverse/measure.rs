//! What the process of a row measures, and the line it prints.

use crate::allocations;
use kerf_model::plan::{Launch, Plan};
use kerf_model::price::Price;
use kerf_testkit::timing::{Timing, time};
use std::time::{Duration, Instant};

/// Solves are repeated for this time, at most this often.
const REPEAT_FOR: Duration = Duration::from_millis(400);
const REPEAT_MAX: u32 = 10_000;

pub(crate) fn header() {
    println!(
        "{:<44} {:>7} {:>10} {:>9} {:>9} {:>7} {:>10} {:>10} {:>7} {:>7} {:>7} {:>6} {:>11} {:>6} {:>10} {:>10} {:>9} {:>34}",
        "row",
        "pods",
        "cold ms",
        "pods/s",
        "ns/pod",
        "x",
        "again ms",
        "cpu ms",
        "allocs",
        "MB was",
        "MB max",
        "nodes",
        "$/h",
        "left",
        "build ms",
        "solve ms",
        "solved/s",
        "pods per node"
    );
}

/// The figures of the reference benchmark for a solver that `construct` makes for every solve.
pub(crate) fn timing<S>(pods: usize, construct: &dyn Fn() -> S, solve: &dyn Fn(&S) -> Plan) -> Timing {
    let start = Instant::now();
    let again = |iterations, spent| iterations < REPEAT_MAX && spent < REPEAT_FOR;
    time(pods, &|| start.elapsed(), &again, construct, solve)
}

/// Runs a solve once cold and then repeatedly, and prints the row. `baseline`: the pods per second of upstream. `timing`: the figures of
/// the reference benchmark, where the row has them.
pub(crate) fn row(
    name: &str,
    pods: usize,
    baseline: Option<f64>,
    solve: &mut dyn FnMut() -> Plan,
    timing: Option<&dyn Fn() -> Timing>,
) {
    let before_memory = megabytes("VmRSS:");
    let before = allocations::count();
    let start = Instant::now();
    let plan = solve();
    let seconds = start.elapsed().as_secs_f64();
    let allocated = allocations::count() - before;
    let peak = megabytes("VmHWM:");
    let (mut times, start, cpu) = (0, Instant::now(), cpu_seconds());
    while times < REPEAT_MAX && (times == 0 || start.elapsed() < REPEAT_FOR) {
        std::hint::black_box(solve());
        times += 1;
    }
    let again = start.elapsed().as_secs_f64() / f64::from(times);
    let cpu = (cpu_seconds() - cpu) / f64::from(times);
    let speed = pods as f64 / seconds;
    let ratio = baseline.map_or_else(|| "-".to_owned(), |baseline| format!("{:.0}", speed / baseline));
    let timing = timing.map_or_else(String::new, |timing| printed(&timing()));
    let price: Price = plan.launches.iter().filter_map(Launch::price).sum();
    println!(
        "{name:<44} {pods:>7} {:>10.3} {speed:>9.0} {:>9.0} {ratio:>7} {:>10.4} {:>10.4} {:>7.2} {before_memory:>7.0} {peak:>7.0} {:>6} {:>11.2} {:>6} {timing}",
        seconds * 1e3,
        seconds * 1e9 / pods as f64,
        again * 1e3,
        cpu * 1e3,
        allocated as f64 / pods as f64,
        plan.launches.len(),
        price.per_hour(),
        plan.unschedulable.len() + plan.unattempted.len(),
    );
}

fn printed(timing: &Timing) -> String {
    let per_node = &timing.per_node;
    let spread = format!(
        "{} on {}: {} {:.1} {} ±{:.1}",
        timing.placed, per_node.nodes, per_node.least, per_node.mean, per_node.most, per_node.deviation
    );
    format!(
        "{:>10.3} {:>10.4} {:>9.0} {spread:>34}",
        timing.construction.as_secs_f64() * 1e3,
        timing.solve.as_secs_f64() * 1e3,
        timing.pods_per_second
    )
}

/// A value of `/proc/self/status` in megabytes; zero where there is none.
fn megabytes(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}

/// User and system time of this process including ended threads, in seconds, in steps of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    // Fields 14 and 15 of the line; the name is the second.
    let ticks = after_name.split_whitespace().skip(11).take(2);
    ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
