//! Section 4: the do-not-disrupt annotation of pods.

use crate::fixture::{Cluster, ago, now};
use jiff::SignedDuration;
use kerf_disruption::{Protection, protection};
use kerf_model::pod::{DoNotDisrupt, Pod};

const HOUR: i64 = 3600 * 1_000_000_000;

#[test]
fn what_the_annotation_means() {
    let table: [(&str, fn(&mut Pod), Protection); 7] = [
        ("absent", |_| {}, Protection::None),
        // DIS-052
        (
            "true",
            |pod| pod.do_not_disrupt = DoNotDisrupt::Always,
            Protection::Open,
        ),
        // DIS-053
        (
            "nonsense",
            |pod| pod.do_not_disrupt = DoNotDisrupt::Invalid("yes".into()),
            Protection::Invalid("yes".into()),
        ),
        // DIS-054
        (
            "not started",
            |pod| pod.do_not_disrupt = DoNotDisrupt::ForNanos(HOUR),
            Protection::Open,
        ),
        // DIS-055
        (
            "running",
            |pod| (pod.do_not_disrupt, pod.started) = (DoNotDisrupt::ForNanos(HOUR), Some(ago(60))),
            Protection::Until(now() + SignedDuration::from_secs(3540)),
        ),
        // DIS-055, DIS-056
        (
            "just over",
            |pod| (pod.do_not_disrupt, pod.started) = (DoNotDisrupt::ForNanos(HOUR), Some(ago(3600))),
            Protection::Elapsed,
        ),
        // DIS-036
        (
            "terminating",
            |pod| (pod.do_not_disrupt, pod.deletion) = (DoNotDisrupt::Always, Some(now())),
            Protection::None,
        ),
    ];
    let cluster = Cluster::new();
    for (what, change, expected) in table {
        let mut pod = cluster.pod("p", 1);
        change(&mut pod);
        assert_eq!(protection(&pod, now()), expected, "{what}");
    }
}
