//! The claims of a pool by what is to become of them.

use crate::fixture::{claim, mirror, yaml};
use kerf_api::NodeClaim;
use kerf_state::{Mirror, PoolClaims};

/// The sets as text: active, pending, deleting.
fn sets(mirror: &Mirror) -> String {
    let PoolClaims {
        active,
        pending_disruption,
        deleting,
    } = mirror.pool_claims("default");
    let text = |set: std::collections::BTreeSet<std::sync::Arc<str>>| {
        let names: Vec<&str> = set.iter().map(|name| &**name).collect();
        names.join(" ")
    };
    format!("{} | {} | {}", text(active), text(pending_disruption), text(deleting))
}

fn launched(name: &str) -> NodeClaim {
    claim(name, Some(&format!("cloud://{name}")), "")
}

fn deleted(mut claim: NodeClaim) -> NodeClaim {
    claim.metadata.deletion_timestamp = Some(yaml("'2026-01-01T00:00:00Z'"));
    claim
}

// LIF-210, SCH-398
#[test]
fn a_claim_is_in_one_set() {
    let mut mirror = mirror();
    mirror.apply(launched("a"));
    mirror.apply(claim("b", None, ""));
    mirror.apply(deleted(launched("c")));
    let mut unpooled = launched("d");
    unpooled.metadata.labels = None;
    mirror.apply(unpooled);
    assert_eq!(sets(&mirror), "a b |  | c");
    assert_eq!(mirror.pool_claims("default").total(), 3);
    assert_eq!(mirror.pool_claims("other"), PoolClaims::default());
    // One that was never launched and is being deleted makes no node any more.
    mirror.apply(deleted(claim("b", None, "")));
    assert_eq!(sets(&mirror), "a |  | b c");
    mirror.delete(&launched("a"));
    mirror.delete(&claim("b", None, ""));
    mirror.delete(&launched("c"));
    assert_eq!(sets(&mirror), " |  | ");
}

// LIF-211, DIS-284, SCH-398
#[test]
fn marks_move_a_claim() {
    let mut mirror = mirror();
    mirror.apply(launched("a"));
    mirror.set_pending_disruption("a", true);
    assert_eq!(sets(&mirror), " | a | ");
    mirror.mark_for_deletion("cloud://a");
    assert_eq!(sets(&mirror), " |  | a");
    mirror.set_pending_disruption("a", false);
    mirror.unmark_for_deletion("cloud://a");
    assert_eq!(sets(&mirror), "a |  | ");
    // Taking the mark away does not bring back what is being deleted.
    mirror.mark_for_deletion("cloud://a");
    mirror.apply(deleted(launched("a")));
    mirror.unmark_for_deletion("cloud://a");
    assert_eq!(sets(&mirror), " |  | a");
    // An identity the claim no longer has says nothing about it.
    mirror.apply(launched("b"));
    mirror.apply(claim("b", Some("cloud://b2"), ""));
    mirror.mark_for_deletion("cloud://b");
    assert_eq!(sets(&mirror), "b |  | a");
}

// LIF-212
#[test]
fn a_watch_event_does_not_end_a_pending_disruption() {
    let mut mirror = mirror();
    mirror.apply(launched("a"));
    mirror.set_pending_disruption("a", true);
    let mut touched = launched("a");
    touched.metadata.annotations = Some([("x".to_owned(), "y".to_owned())].into());
    touched.metadata.resource_version = Some("9".to_owned());
    mirror.apply(touched);
    assert_eq!(sets(&mirror), " | a | ");
    // Another claim of the name is another claim.
    mirror.delete(&launched("a"));
    let mut namesake = launched("a");
    namesake.metadata.uid = Some("another".to_owned());
    mirror.apply(namesake);
    assert_eq!(sets(&mirror), "a |  | ");
}

// LIF-213, SCH-401
#[test]
fn reservations_and_claims_share_the_limit() {
    let mut mirror = mirror();
    mirror.apply(launched("a"));
    mirror.apply(launched("b"));
    mirror.apply(deleted(launched("c")));
    mirror.set_pending_disruption("b", true);
    assert_eq!(mirror.reserve_claims("default", Some(5), 9), 2);
    assert_eq!(mirror.reserve_claims("default", Some(5), 1), 0);
    mirror.release_claims("default", 1);
    assert_eq!(mirror.reserve_claims("default", Some(5), 9), 1);
    // What was created counts itself; its reservation goes.
    mirror.created(claim("d", None, ""));
    mirror.release_claims("default", 1);
    assert_eq!(mirror.reserve_claims("default", Some(5), 9), 0);
    // A limit below what there is grants nothing; no limit grants all.
    assert_eq!(mirror.reserve_claims("default", Some(1), 1), 0);
    assert_eq!(mirror.reserve_claims("default", None, 7), 7);
}

// LIF-247
#[test]
fn reservations_outlive_the_claims_and_end_at_nothing() {
    let mut mirror = mirror();
    mirror.release_claims("default", 3);
    mirror.apply(launched("a"));
    assert_eq!(mirror.reserve_claims("default", Some(3), 2), 2);
    mirror.delete(&launched("a"));
    assert_eq!(mirror.reserve_claims("default", Some(3), 3), 1);
    mirror.release_claims("default", 9);
    mirror.release_claims("default", 1);
    assert_eq!(mirror.reserve_claims("default", Some(3), 9), 3);
}
