//! The cluster as it will be once every machine of a plan is ready and empty.

use kerf_model::intern::sym;
use kerf_model::node::{Node, NodeLifecycle};
use kerf_model::plan::Launch;
use kerf_model::requirement::Requirements;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use std::sync::Arc;

/// The snapshot with the launches as nodes, which come after all others and in the order of the launches. `None` where the cheapest offering
/// of a launch is not known.
pub(super) fn with_machines(snapshot: &Snapshot, launches: &[Launch]) -> Option<Snapshot> {
    let mut after = snapshot.clone();
    for (number, launch) in launches.iter().enumerate() {
        let node = machine(&mut after, launch, number)?;
        after.nodes.push(Arc::new(node));
    }
    Some(after)
}

/// A launch as a node without pods, of its cheapest type. Its capacity counts against the limits of its pool.
fn machine(snapshot: &mut Snapshot, launch: &Launch, number: usize) -> Option<Node> {
    let (instance_type, offering) = launch.cheapest?;
    let instance_type = launch.catalogue.types.get(instance_type as usize)?;
    let offering = instance_type.offerings.get(offering as usize)?;
    let interner = Arc::clone(&snapshot.interner);
    let huge_pages = |name| interner.text(name).starts_with("hugepages-");
    let allocatable = instance_type.allocatable_of(offering, huge_pages);
    let mut capacity = instance_type.capacity_of(offering);
    capacity.set(sym::NODES, 1);
    let pool = snapshot.pools.iter_mut().find(|pool| pool.name == launch.pool)?;
    if pool.limits.is_some() {
        Arc::make_mut(pool).usage.add(&capacity);
    }
    // No name of a node has a tilde, so the machines come last.
    let name: Arc<str> = format!("~{number:08}").into();
    let hostname = interner.intern(&name);
    let requirements = [
        &offering.requirements,
        &instance_type.requirements,
        &launch.requirements,
    ];
    let singles = requirements.into_iter().flat_map(Requirements::iter);
    let singles = singles.filter_map(|requirement| Some((requirement.key, requirement.single()?)));
    let mut labels = vec![(sym::HOSTNAME, hostname), (sym::NODEPOOL, pool.label)];
    labels.extend(singles.chain(pool.labels.iter().copied()));
    // The sort is stable: of several values of a key the first counts.
    labels.sort_by_key(|(key, _)| *key);
    labels.dedup_by_key(|(key, _)| *key);
    Some(Node {
        node_name: Some(Arc::clone(&name)),
        claim_name: Some(Arc::clone(&name)),
        provider_id: Some(Arc::clone(&name)),
        pool: Some(pool.label),
        registered: true,
        initialized: true,
        labels,
        hostname,
        taints: pool.taints.clone(),
        capacity,
        allocatable,
        requested: Resources::new(),
        daemon_requested: Resources::new(),
        pods: Vec::new(),
        volume_limits: Vec::new(),
        marked_for_deletion: false,
        nominated_until: None,
        created: jiff::Timestamp::UNIX_EPOCH,
        price: launch.price(),
        managed: true,
        lifecycle: NodeLifecycle::default(),
        name,
    })
}
