//! Memory that registered nodes reported.

use jiff::{SignedDuration, Timestamp};
use kerf_aws::discovered_memory::{DiscoveredMemory, images_key};
use serde_json::json;

const MIB: i64 = 1 << 20;

fn at(days: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * days)
}

// AWS-200
#[test]
fn the_least_memory_reported_counts_until_images_change() {
    let mut memory = DiscoveredMemory::default();
    assert!(!memory.observe("m5.large", 1, 7800 * MIB, true, at(0)));
    assert_eq!(memory.memory("m5.large", 1, at(0)), None);
    // A second node confirms it.
    assert!(memory.observe("m5.large", 1, 7790 * MIB, true, at(1)));
    assert_eq!(memory.memory("m5.large", 1, at(1)), Some(7790 * MIB));
    assert!(!memory.observe("m5.large", 1, 7900 * MIB, true, at(2)));
    assert_eq!(memory.memory("m5.large", 1, at(2)), Some(7790 * MIB));
    // A node with an older image, and one that reports nothing.
    assert!(!memory.observe("m5.large", 1, 100 * MIB, false, at(2)));
    assert!(!memory.observe("m5.large", 1, 0, true, at(2)));
    assert_eq!(memory.memory("m5.large", 2, at(2)), None);
    assert_eq!(memory.memory("c5.large", 1, at(2)), None);
    // The last report was on day 2.
    assert_eq!(memory.memory("m5.large", 1, at(61)), Some(7790 * MIB));
    assert_eq!(memory.memory("m5.large", 1, at(62)), None);
    assert!(!memory.observe("m5.large", 1, 7850 * MIB, true, at(63)));
}

#[test]
fn what_is_kept_is_taken_back_after_a_restart() {
    let mut memory = DiscoveredMemory::default();
    memory.observe("m5.large", 1, 7800 * MIB, true, at(0));
    memory.observe("m5.large", 1, 7800 * MIB, true, at(0));
    let mut restored = DiscoveredMemory::default();
    for (name, images, sighting) in memory.iter() {
        restored.restore(name, images, sighting);
    }
    assert_eq!(restored.memory("m5.large", 1, at(1)), Some(7800 * MIB));
}

#[test]
fn the_order_of_images_does_not_count() {
    let amis = |ids: [&str; 2]| {
        let each: Vec<_> = ids.iter().map(|id| json!({"id": id, "requirements": []})).collect();
        images_key(&serde_json::from_value::<Vec<_>>(each.into()).unwrap())
    };
    assert_eq!(amis(["ami-1", "ami-2"]), amis(["ami-2", "ami-1"]));
    assert_ne!(amis(["ami-1", "ami-2"]), amis(["ami-1", "ami-3"]));
}
