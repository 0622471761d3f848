//! A compiled snapshot: everything that does not depend on the pods of a question is computed once.

use crate::compile::catalogue::{CatalogueId, Offer, OfferId, OffersByPrice, TypeIndex, TypeRow};
use crate::compile::labels::LabelIndex;
use crate::compile::requirements::ReqSet;
use crate::compile::running_pods::RunningPods;
use crate::compile::taints::TaintSets;
use crate::compile::targets::{SnapshotDiff, Target, Targets};
use crate::compile::templates::{Template, TemplateId, Templates};
use crate::compile::topology::{Domain, GroupCounts, KeyTable, Selection};
use crate::dense::amounts::ResourceIndex;
use crate::dense::id_set::IdSet;
use crate::dense::ids::IdVec;
use crate::dense::memo::Memo;
use crate::options::Options;
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::node::Node;
use kerf_model::pod::Pod;
use kerf_model::requirement::Requirement;
use kerf_model::resources::Resources;
use kerf_model::snapshot::{Daemon, Snapshot};
use kerf_model::taint::Toleration;
use kerf_units::policy::MinValuesPolicy;
use std::sync::Arc;

/// A compiled snapshot that answers questions. The cost of a question depends on its pods, not on the cluster: the cluster is read once,
/// and derived facts (the counts of a spread constraint, the types that meet a requirement) are cached. Answers equal those of
/// [`solve`](crate::solve). Threads may share it.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) snapshot: Snapshot,
    pub(crate) min_values: MinValuesPolicy,
    pub(crate) resources: ResourceIndex,
    pub(crate) taint_sets: TaintSets,
    /// Whether some pool or node has a `PreferNoSchedule` taint (SCH-119; upstream looks at pools only).
    pub(crate) soft_taints: bool,
    pub(crate) templates: Templates,
    /// Offers, and the keys they need a claim to define.
    pub(crate) required_keys: IdVec<TypeIndex, Vec<(OfferId, Sym)>>,
    pub(crate) targets: Targets,
    pub(crate) running_pods: RunningPods,
    node_caches: Arc<NodeCaches>,
    /// The counts of running pods, by group.
    counts: Arc<Memo<CountKey, GroupCounts>>,
    /// The counts of the previous snapshot, and the nodes replaced since.
    counts_before: Option<CountsBefore>,
    /// Per catalogue: the rows and offers that meet a requirement.
    matching: Arc<Memo<(CatalogueId, Requirement), Matching>>,
    /// Per catalogue: offers by price, for a set of offers.
    offers_by_price: Arc<Memo<(CatalogueId, IdSet<Offer>), OffersByPrice>>,
}

/// A cache with at least this many entries is dropped at the next snapshot. Bounds memory where keys change constantly.
const CACHE_MAX: usize = 1024;

/// Caches that depend on the labels of nodes, but not on the pods they run.
#[derive(Debug, Default)]
struct NodeCaches {
    labels: Memo<Sym, LabelIndex>,
    tables: Memo<Sym, KeyTable>,
    /// The number of targets that pass a node filter, by domain.
    passing_targets: Memo<(Sym, NodeFilterContent), IdVec<Domain, u32>>,
}

impl NodeCaches {
    fn len(&self) -> usize {
        self.labels.len() + self.tables.len() + self.passing_targets.len()
    }
}

/// The counts of the previous snapshot, and the nodes replaced since, by position.
type CountsBefore = (Arc<Memo<CountKey, GroupCounts>>, Vec<(usize, Arc<Node>)>);

/// Up to this many taint sets are kept, whether still used or not.
const TAINT_SETS_MIN: usize = 256;

/// The content of a node filter: any of these requirement sets, tolerations, required label keys.
pub(crate) type NodeFilterContent = (Vec<ReqSet>, Option<Vec<Toleration>>, Vec<Sym>);

/// What a group counts, as a key across questions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct CountKey {
    pub(crate) key: Sym,
    pub(crate) selected: Vec<Selection>,
    pub(crate) filter: Option<NodeFilterContent>,
}

/// What each pod without a node requests.
fn requests_of_waiting(snapshot: &Snapshot) -> impl Iterator<Item = &Resources> {
    let waiting = snapshot.pending.iter().chain(&snapshot.untried);
    waiting.map(|pod| &pod.shape.requests)
}

/// The rows and offers of a catalogue that meet a requirement.
#[derive(Debug)]
pub(crate) struct Matching {
    pub(crate) rows: IdSet<TypeRow>,
    pub(crate) offers: IdSet<Offer>,
}

impl Prepared {
    /// Compiles a snapshot. Questions may use other options; only another [`MinValuesPolicy`] needs a new compilation.
    pub fn new(snapshot: &Snapshot, options: &Options) -> Self {
        let running = snapshot.nodes.iter().map(|node| &node.requested);
        Self::with(snapshot, options, running.chain(requests_of_waiting(snapshot)))
    }

    /// Compiles a later snapshot of the same cluster. Unchanged parts are reused: nodes that are the same values, pools that differ only in
    /// usage, catalogues. Answers equal those of a fresh compilation.
    #[must_use]
    pub fn next(&self, snapshot: &Snapshot, options: &Options) -> Self {
        let old = &self.snapshot;
        let same = |a: &Arc<Daemon>, b: &Arc<Daemon>| Arc::ptr_eq(a, b);
        let daemons = old.daemons.len() == snapshot.daemons.len()
            && old.daemons.iter().zip(&snapshot.daemons).all(|(a, b)| same(a, b));
        let comparable = daemons
            && self.min_values == options.min_values_policy
            && Arc::ptr_eq(&old.interner, &snapshot.interner)
            && old.well_known == snapshot.well_known
            && old.reservation_key == snapshot.reservation_key;
        if !comparable {
            return Self::new(snapshot, options);
        }
        let owners = snapshot.nodes.len() + snapshot.pools.len();
        if self.taint_sets.list.len() > TAINT_SETS_MIN.max(2 * owners) {
            // Most taint sets are no longer used.
            return Self::new(snapshot, options);
        }
        let unchanged = SnapshotDiff::between(old, snapshot);
        let nodes = snapshot.nodes.iter().enumerate();
        let changed = nodes.filter(|(index, _)| unchanged.before(*index).is_none());
        let running = changed.map(|(_, node)| &node.requested);
        if !self.resources.covers(running.chain(requests_of_waiting(snapshot))) {
            return Self::new(snapshot, options);
        }
        Self::compile(snapshot, options, self.resources.clone(), Some((self, &unchanged)))
    }

    /// Compiles a snapshot for pods that request no resources besides these and those of DaemonSets.
    pub(crate) fn with<'x>(
        snapshot: &'x Snapshot,
        options: &Options,
        requests: impl Iterator<Item = &'x Resources>,
    ) -> Self {
        let daemons = snapshot.daemons.iter().map(|daemon| &daemon.shape.requests);
        let resources = ResourceIndex::new(requests.chain(daemons), &snapshot.interner);
        Self::compile(snapshot, options, resources, None)
    }

    /// Compiles a snapshot and reuses unchanged parts of `before`.
    fn compile(
        snapshot: &Snapshot,
        options: &Options,
        resources: ResourceIndex,
        before: Option<(&Self, &SnapshotDiff)>,
    ) -> Self {
        let may_be_undefined = |key| may_be_undefined(snapshot, key);
        let mut taint_sets = before.map_or_else(TaintSets::default, |(before, _)| before.taint_sets.clone());
        let pools = before.map(|(before, _)| &before.templates);
        let mut templates =
            Templates::compile(snapshot, &resources, options.min_values_policy, may_be_undefined, pools);
        for template in &mut templates.list {
            template.taints = taint_sets.intern(&template.pool.taints);
        }
        let nodes = before.map(|(before, unchanged)| (&before.targets, unchanged));
        let targets = Targets::new(snapshot, &resources, &mut taint_sets, nodes);
        let anti_affinity = templates.list.iter().map(|template| template.taints);
        let soft_taints = taint_sets.soft(anti_affinity.chain(targets.iter().map(|target| target.taints)));
        let running_before = before.map(|(before, unchanged)| (&before.running_pods, unchanged));
        let same = before.filter(|(before, _)| before.templates.share_catalogues(&templates));
        let required_keys = same.map_or_else(
            || {
                templates
                    .catalogues
                    .iter()
                    .map(|types| types.required_keys(may_be_undefined))
                    .collect()
            },
            |(before, _)| before.required_keys.clone(),
        );
        let in_place = before.and_then(|(before, unchanged)| {
            let replaced = unchanged.replaced.clone()?;
            let alike = before.templates.alike(&templates) && before.snapshot.namespaces == snapshot.namespaces;
            alike.then_some((before, replaced))
        });
        let node_caches = in_place.as_ref().map(|(before, _)| &before.node_caches);
        Self {
            snapshot: snapshot.clone(),
            min_values: options.min_values_policy,
            node_caches: node_caches
                .filter(|node_caches| node_caches.len() < CACHE_MAX)
                .map_or_else(Arc::default, Arc::clone),
            counts: Arc::default(),
            counts_before: in_place
                .as_ref()
                .map(|(before, replaced)| (Arc::clone(&before.counts), replaced.clone())),
            required_keys,
            running_pods: RunningPods::new(snapshot, running_before),
            resources,
            soft_taints,
            taint_sets,
            templates,
            targets,
            matching: same
                .filter(|(before, _)| before.matching.len() < CACHE_MAX)
                .map_or_else(Arc::default, |(before, _)| Arc::clone(&before.matching)),
            offers_by_price: same
                .filter(|(before, _)| before.offers_by_price.len() < CACHE_MAX)
                .map_or_else(Arc::default, |(before, _)| Arc::clone(&before.offers_by_price)),
        }
    }

    /// The snapshot it was compiled from.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub(crate) fn interner(&self) -> &Interner {
        &self.snapshot.interner
    }

    /// Returns whether a label key may stay undefined on a claim (SCH-102).
    pub(crate) fn may_be_undefined(&self, key: Sym) -> bool {
        may_be_undefined(&self.snapshot, key)
    }

    /// The position of the node with this name. An unregistered node is listed under the name of its claim.
    pub(crate) fn node_named(&self, name: &str) -> Option<usize> {
        let bound = |node: &Arc<Node>| node.node_name.as_deref() == Some(name);
        let found = self.snapshot.position(name);
        found.or_else(|| self.snapshot.nodes.iter().position(bound))
    }

    /// The node position and the version of a pod on the node it is bound to.
    pub(crate) fn bound_pod(&self, pod: &Arc<Pod>) -> Option<(usize, &Arc<Pod>)> {
        let at = self.node_named(pod.node_name.as_deref()?)?;
        let pods = &self.snapshot.nodes[at].pods;
        let found = pods.iter().find(|bound| bound.uid == pod.uid);
        found.map(|bound| (at, bound))
    }

    /// Removes the targets whose labels or name do not satisfy a requirement set.
    pub(crate) fn keep_satisfying(&self, mask: &mut IdSet<Target>, set: &ReqSet) {
        if set.contradiction.is_some() {
            *mask = IdSet::default();
            return;
        }
        for want in set.labels.iter().chain(&set.host) {
            let index = self.node_caches.labels.get(want.key, |key| {
                LabelIndex::new(self.targets.entries().map(|(id, target)| {
                    let node = &target.node;
                    let value = if *key == sym::HOSTNAME {
                        Some(node.hostname)
                    } else {
                        node.label(*key)
                    };
                    (id, value)
                }))
            });
            index.keep(mask, want, self.interner());
        }
    }

    /// The domains of a topology key.
    pub(crate) fn table(&self, key: Sym) -> Arc<KeyTable> {
        self.node_caches.tables.get(key, |_| {
            let mut offered: Vec<(Sym, TemplateId)> = Vec::new();
            for (id, template) in self.templates.list.entries() {
                let domains = self.pool_domains(template, key).into_iter();
                offered.extend(domains.map(|value| (value, id)));
            }
            let nodes = self.snapshot.nodes.iter().filter_map(|node| node.label(key));
            let targets = self.targets.iter().map(|target| target.node.label(key));
            KeyTable::new(key, &offered, nodes, targets, self.interner())
        })
    }

    /// The values of a label key that nodes of a pool can have.
    fn pool_domains(&self, template: &Template, key: Sym) -> Vec<Sym> {
        let types = &self.templates.catalogues[template.catalogue];
        let own = template.requirements.get(key);
        let mut values = Vec::new();
        let mut undeclared = false;
        for row in template.rows.iter() {
            match types.instance_type(row).requirements.get(key) {
                Some(theirs) if !theirs.complement => {
                    let both = theirs.values.iter().copied();
                    values.extend(both.filter(|value| own.is_none_or(|own| own.has(*value, self.interner()))));
                }
                _ => undeclared = true,
            }
        }
        if let (true, Some(own)) = (undeclared, own.filter(|own| !own.complement)) {
            values.extend(own.values.iter().copied());
        }
        values.sort_unstable();
        values.dedup();
        values
    }

    /// The counts of a group over the running pods. The first call computes them with `count`. Where the previous snapshot has them,
    /// `recount` updates them instead, once per replaced node, with its position and its previous version.
    pub(crate) fn counts(
        &self,
        what: CountKey,
        count: impl FnOnce() -> GroupCounts,
        mut recount: impl FnMut(&mut GroupCounts, usize, &Node),
    ) -> Arc<GroupCounts> {
        self.counts.get(what, |what| {
            let previous = self.counts_before.as_ref().and_then(|(before, replaced)| {
                let counts = before.cached(what)?;
                Some((GroupCounts::clone(&counts), replaced))
            });
            let Some((mut counts, replaced)) = previous else {
                return count();
            };
            for (at, before) in replaced {
                recount(&mut counts, *at, before);
            }
            counts
        })
    }

    /// The number of targets that pass a filter, by domain of a key.
    pub(crate) fn passing_targets(
        &self,
        key: Sym,
        filter: NodeFilterContent,
        count: impl FnOnce() -> IdVec<Domain, u32>,
    ) -> Arc<IdVec<Domain, u32>> {
        self.node_caches.passing_targets.get((key, filter), |_| count())
    }

    /// The cheapest of some offers for each row, by price.
    pub(crate) fn offers_by_price(&self, catalogue: CatalogueId, offers: &IdSet<Offer>) -> Arc<OffersByPrice> {
        self.offers_by_price
            .get((catalogue, offers.clone()), |(catalogue, offers)| {
                self.templates.catalogues[*catalogue].offers_by_price(offers)
            })
    }

    /// The rows and offers of a catalogue that meet a requirement; `minValues` is ignored.
    pub(crate) fn matching(&self, catalogue: CatalogueId, requirement: Requirement) -> Arc<Matching> {
        self.matching.get((catalogue, requirement), |(catalogue, requirement)| {
            let types = &self.templates.catalogues[*catalogue];
            Matching {
                rows: types.rows_meeting(requirement, self.interner()),
                offers: types.offers_meeting(requirement, self.interner()),
            }
        })
    }
}

/// Returns whether a label key is well-known or the reservation key.
fn may_be_undefined(snapshot: &Snapshot, key: Sym) -> bool {
    snapshot.is_well_known(key) || snapshot.reservation_key == Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_model::instance_type::{Catalogue, InstanceType, Offering};
    use kerf_model::nodepool::NodePool;
    use kerf_model::price::Price;
    use kerf_model::requirement::Requirements;
    use kerf_model::taint::{Effect, Taint};

    fn catalogue(interner: &Interner) -> Arc<Catalogue> {
        let kind = InstanceType {
            name: interner.intern("t"),
            requirements: Requirements::new(),
            capacity: Resources::new().with(sym::CPU, 4000),
            overhead: Resources::new(),
            offerings: vec![Offering {
                requirements: Requirements::new(),
                price: Price::ZERO,
                available: true,
                reservation: None,
                capacity_override: None,
                overhead_override: None,
            }],
            price_overlaid: false,
            capacity_overlaid: false,
        };
        Arc::new(Catalogue { types: vec![kind] })
    }

    fn pool(interner: &Interner, taint: usize, catalogue: &Arc<Catalogue>) -> Arc<NodePool> {
        let taint = Taint {
            key: format!("taint-{taint}").into(),
            value: "".into(),
            effect: Effect::NoSchedule,
        };
        Arc::new(NodePool {
            taints: vec![taint],
            catalogue: Ok(Arc::clone(catalogue)),
            ..NodePool::empty("p".into(), interner.intern("p"))
        })
    }

    #[test]
    fn what_is_taken_over_is_bounded_however_many_snapshots_come() {
        let interner = Arc::new(Interner::default());
        let catalogue = catalogue(&interner);
        let mut snapshot = Snapshot::new(Arc::clone(&interner));
        let options = Options::default();
        let mut prepared = Prepared::new(&snapshot, &options);
        let (mut most_taints, mut most_met) = (0, 0);
        for step in 0..CACHE_MAX + 64 {
            snapshot.pools = vec![pool(&interner, step, &catalogue)];
            prepared = prepared.next(&snapshot, &options);
            prepared.matching(
                CatalogueId::new(0),
                Requirement::exists(interner.intern(&format!("key-{step}"))),
            );
            most_taints = most_taints.max(prepared.taint_sets.list.len());
            most_met = most_met.max(prepared.matching.len());
        }
        // Caches are reused, up to the bound.
        assert!((2..=TAINT_SETS_MIN + 1).contains(&most_taints), "{most_taints}");
        assert!((2..=CACHE_MAX).contains(&most_met), "{most_met}");
    }
}
