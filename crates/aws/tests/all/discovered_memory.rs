//! Memory that registered nodes reported.

use jiff::{SignedDuration, Timestamp};
use kerf_aws::discovered_memory::{DiscoveredMemory, TEXT_MAX, images_key, node_key};
use serde_json::json;

const MIB: i64 = 1 << 20;

fn at(days: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * days)
}

// AWS-200
#[test]
fn the_least_memory_reported_counts_until_images_change() {
    let mut memory = DiscoveredMemory::default();
    assert!(!memory.observe("m5.large", 1, 1, 7800 * MIB, true, at(0)));
    assert_eq!(memory.memory("m5.large", 1, at(0)), None);
    // A second node confirms it.
    assert!(memory.observe("m5.large", 1, 2, 7790 * MIB, true, at(1)));
    assert_eq!(memory.memory("m5.large", 1, at(1)), Some(7790 * MIB));
    assert!(!memory.observe("m5.large", 1, 3, 7900 * MIB, true, at(2)));
    assert_eq!(memory.memory("m5.large", 1, at(2)), Some(7790 * MIB));
    // A node with an older image, and one that reports nothing.
    assert!(!memory.observe("m5.large", 1, 4, 100 * MIB, false, at(2)));
    assert!(!memory.observe("m5.large", 1, 5, 0, true, at(2)));
    assert_eq!(memory.memory("m5.large", 2, at(2)), None);
    assert_eq!(memory.memory("c5.large", 1, at(2)), None);
    // The last report was on day 2.
    assert_eq!(memory.memory("m5.large", 1, at(61)), Some(7790 * MIB));
    assert_eq!(memory.memory("m5.large", 1, at(62)), None);
    assert!(!memory.observe("m5.large", 1, 6, 7850 * MIB, true, at(63)));
}

#[test]
fn a_node_counts_once_however_often_it_is_seen() {
    let mut memory = DiscoveredMemory::default();
    for day in 0..5 {
        assert!(!memory.observe("m5.large", 1, 7, 7800 * MIB, true, at(day)));
    }
    let mut restored = DiscoveredMemory::from_text(&memory.to_text(), at(5)).unwrap();
    assert!(!restored.observe("m5.large", 1, 7, 7800 * MIB, true, at(5)));
    assert!(restored.observe("m5.large", 1, 8, 7900 * MIB, true, at(5)));
    assert_ne!(node_key("a1"), node_key("a2"));
}

#[test]
fn what_is_kept_is_taken_back_after_a_restart() {
    let mut memory = DiscoveredMemory::default();
    for (images, node) in [(1, 1), (1, 0xffff_ffff), (u64::MAX, 3)] {
        memory.observe("m5.large", images, node, 7800 * MIB, true, at(0));
        memory.observe("u-6tb1.metal", images, node, 6 << 40, true, at(10));
    }
    let text = memory.to_text();
    assert_eq!(
        text,
        "v1 @0000000000000001 m5.large=8178892800,60,00000001,ffffffff u-6tb1.metal=6597069766656,70,00000001,ffffffff \
         @ffffffffffffffff m5.large=8178892800,60,00000003 u-6tb1.metal=6597069766656,70,00000003"
    );
    let restored = DiscoveredMemory::from_text(&text, at(10)).unwrap();
    assert_eq!(restored, memory);
    assert_eq!(restored.of_images(1).memory("m5.large", 1, at(11)), Some(7800 * MIB));
    assert_eq!(restored.of_images(1).memory("m5.large", u64::MAX, at(11)), None);
    // Expired observations are not merged, and no merged one lasts longer than one made now.
    let mut later = DiscoveredMemory::default();
    assert!(later.merge(&restored, at(60)));
    assert_eq!(later.memory("m5.large", 1, at(59)), None);
    let for_ever = DiscoveredMemory::from_text("v1 @0000000000000001 m5.large=1,2000000,00000001,00000002", at(0));
    let for_ever = for_ever.unwrap();
    assert_eq!(for_ever.memory("m5.large", 1, at(59)), Some(1));
    assert_eq!(for_ever.memory("m5.large", 1, at(60)), None);
}

#[test]
fn a_text_that_is_not_ours_is_not_read() {
    let good = "v1 @0000000000000001 m5.large=8178892800,60,00000001";
    assert!(DiscoveredMemory::from_text(good, at(0)).is_some() && DiscoveredMemory::from_text("v1", at(0)).is_some());
    for bad in [
        "",
        "hello",
        "v2",
        "v1 ",
        "v1 m5.large=8178892800,60,00000001",
        "v1 @1 m5.large=8178892800,60,00000001",
        "v1 @0000000000000001 =8178892800,60,00000001",
        "v1 @0000000000000001 m5.large=-1,60,00000001",
        "v1 @0000000000000001 m5.large=0,60,00000001",
        "v1 @0000000000000001 m5.large=99999999999999999999,60,00000001",
        "v1 @0000000000000001 m5.large=8178892800,9223372036854775807,00000001",
        "v1 @0000000000000001 m5.large=8178892800,60",
        "v1 @0000000000000001 m5.large=8178892800,60,1",
        "v1 @0000000000000001 m5.large=8178892800,60,00000001,00000002,00000003",
    ] {
        assert_eq!(DiscoveredMemory::from_text(bad, at(0)), None, "{bad}");
    }
}

#[test]
fn a_text_has_room_for_the_newest_only() {
    let mut memory = DiscoveredMemory::default();
    for number in 0..3000_u32 {
        let name = format!("m5.{number}xlarge");
        let day = i64::from(number % 30);
        memory.observe(&name, 1, number, 7800 * MIB, true, at(day));
    }
    let newest = memory.clone().newest();
    let text = newest.to_text();
    assert!(text.len() <= TEXT_MAX && text.len() > TEXT_MAX - 100, "{}", text.len());
    let has = |number: u32| text.contains(&format!(" m5.{number}xlarge="));
    assert!(has(29) && has(59) && !has(0) && !has(30));
    assert!(memory.is_news_to(&newest) && !newest.is_news_to(&newest));
    assert_eq!(newest.clone().newest(), newest);
}

#[test]
fn a_little_later_expiry_is_no_news() {
    let mut memory = DiscoveredMemory::default();
    memory.observe("m5.large", 1, 1, 7800 * MIB, true, at(0));
    let written = memory.clone();
    memory.observe("m5.large", 1, 1, 7800 * MIB, true, at(6));
    assert!(!memory.is_news_to(&written));
    memory.observe("m5.large", 1, 1, 7800 * MIB, true, at(7));
    assert!(memory.is_news_to(&written));
    let mut other = written.clone();
    other.observe("m5.large", 1, 2, 7800 * MIB, true, at(0));
    assert!(other.is_news_to(&written));
    assert!(written.clone().without_expired(at(60)).is_news_to(&written));
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
