//! Marks nobody stands behind any more: those of an earlier run, and of starts that failed (DIS-010 to DIS-014).

use futures::future::join_all;
use jiff::Timestamp;
use kerf_runtime::ReconcileError;
use kerf_runtime::client::ApiErrorKind;

use super::marking::{Marker, bears_reason, bears_taint};
use super::registry::{Member, Registry};
use crate::context::Context;

/// Nodes cleaned at once; the client's own limit sets the pace.
const AT_ONCE: usize = 100;

/// Takes the marks off every node that no command holds and that is not going. A conflict that remains is returned as such.
pub(super) async fn clean_up(
    context: &Context,
    registry: &Registry,
    marker: &Marker,
    now: Timestamp,
) -> Result<(), ReconcileError> {
    let stale = stale(context, registry, now);
    let mut errors = Vec::new();
    for some in stale.chunks(AT_ONCE) {
        let results = join_all(some.iter().map(|member| marker.unmark(member))).await;
        errors.extend(results.into_iter().filter_map(Result::err));
    }
    // An error that is no conflict says more.
    errors.sort_by_key(|error| ApiErrorKind::of(error) == ApiErrorKind::Conflict);
    errors.into_iter().next().map_or(Ok(()), |error| Err(error.into()))
}

/// The nodes that bear marks without being about to go.
fn stale(context: &Context, registry: &Registry, now: Timestamp) -> Vec<Member> {
    let cluster = &context.cluster;
    let snapshot = cluster.snapshot(now);
    let nodes = snapshot
        .nodes
        .iter()
        .filter(|node| node.managed && !node.marked_for_deletion && !registry.holds(node));
    let mut stale = Vec::new();
    for node in nodes {
        let member = Member::of(node);
        let object = member.node.as_deref().and_then(|name| cluster.node(name));
        let tainted = object.is_some_and(|object| bears_taint(&object));
        let reason = || node.initialized && cluster.claim(&member.claim).is_some_and(|claim| bears_reason(&claim));
        if tainted || reason() {
            stale.push(member);
        }
    }
    stale
}
