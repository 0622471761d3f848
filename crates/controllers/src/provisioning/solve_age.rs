//! The metric of a solve's age (SCH-347).

use std::time::Duration;

use kerf_runtime::Metrics;
use kerf_runtime::metrics::catalogue::SCHEDULER_UNFINISHED_WORK;
use tokio::time::{Instant, interval};

/// How often the age is written: metrics are scraped less often.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// Waits for a solve. Meanwhile the series with these labels is its age in seconds; at the end it is removed.
pub(super) async fn measured<T>(metrics: &Metrics, labels: &[&str], solve: impl Future<Output = T>) -> T {
    let gauge = metrics.gauge(&SCHEDULER_UNFINISHED_WORK);
    let began = Instant::now();
    let mut every = interval(WRITE_EVERY);
    tokio::pin!(solve);
    let solved = loop {
        tokio::select! {
            biased;
            solved = &mut solve => break solved,
            _ = every.tick() => gauge.set(labels, began.elapsed().as_secs_f64()),
        }
    };
    gauge.remove(labels);
    solved
}

#[cfg(test)]
mod tests {
    use super::*;

    // SCH-347
    #[tokio::test(start_paused = true)]
    async fn the_age_rises_while_the_solve_runs_and_is_removed_at_its_end() {
        let metrics = Metrics::default();
        let shown = || {
            let text = metrics.encode();
            let mut lines = text.lines();
            let series = |line: &&str| line.starts_with("karpenter_scheduler_unfinished_work_seconds{");
            lines
                .find(series)
                .and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        };
        let look = async {
            let mut ages = Vec::new();
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_millis(2500)).await;
                ages.push(shown());
            }
            ages
        };
        let labels = ["provisioner", "id"];
        let solve = tokio::time::sleep(Duration::from_secs(6));
        let ((), ages) = tokio::join!(measured(&metrics, &labels, solve), look);
        assert_eq!(ages, [Some(2.0), Some(5.0), None]);
    }
}
