//! When pods were first seen, decided on and planned.

use crate::fixture::{mirror, now, pending};
use jiff::SignedDuration;
use kerf_state::{Placed, PodTimes};

fn placed(healthy_pool: bool) -> Option<Placed> {
    Some(Placed {
        healthy_pool,
        claim: Some("c".into()),
        nominated: healthy_pool,
    })
}

// SCH-078, LIF-214
#[test]
fn the_first_decision_is_observed_once_and_only_for_acknowledged_pods() {
    let mut times = PodTimes::default();
    let second = |n| now() + SignedDuration::from_secs(n);
    times.acknowledge("default", "a", now());
    times.acknowledge("default", "a", second(1));
    assert_eq!(
        times.decide("default", "a", None, second(3)),
        Some(SignedDuration::from_secs(3))
    );
    assert_eq!(times.decide("default", "a", placed(false), second(4)), None);
    assert_eq!(times.decide("default", "b", placed(false), second(4)), None);
}

// SCH-079, SCH-080, SCH-082, LIF-215
#[test]
fn success_times_stay_while_successes_last() {
    let mut times = PodTimes::default();
    let second = |n| now() + SignedDuration::from_secs(n);
    times.decide("default", "a", placed(true), now());
    times.decide("default", "a", placed(true), second(1));
    let time = times.get("default", "a").unwrap();
    assert_eq!(
        (time.schedulable, time.healthy, time.claim.as_deref()),
        (Some(now()), Some(now()), Some("c"))
    );
    assert!(time.nominated, "as the last pass says");
    times.decide("default", "a", placed(false), second(2));
    let time = times.get("default", "a").unwrap();
    assert_eq!((time.schedulable, time.healthy), (Some(now()), None));
    assert!(!time.nominated);
    times.decide("default", "a", placed(true), second(2));
    times.planned_onto("default", "a", &"c".into());
    assert!(
        times.get("default", "a").unwrap().nominated,
        "to the node of this claim"
    );
    times.decide("default", "a", None, second(3));
    let time = times.get("default", "a").unwrap();
    assert_eq!(
        (time.schedulable, time.healthy, time.claim.as_deref()),
        (None, None, None)
    );
    assert!(!time.nominated, "no place was found");
    times.planned_onto("default", "a", &"d".into());
    assert_eq!(times.get("default", "a").unwrap().claim.as_deref(), Some("d"));
}

// SCH-082, LIF-214
#[test]
fn deleting_the_pod_forgets_it() {
    let mut mirror = mirror();
    mirror.apply(pending("a", "{}"));
    let pod = mirror.pod("default", "a").unwrap();
    let times = mirror.times_of(&pod).unwrap();
    times.acknowledge("default", "a", now());
    mirror.delete(&pending("a", "{}"));
    assert_eq!(mirror.times().get("default", "a"), None);
}
