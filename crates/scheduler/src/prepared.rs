//! A snapshot made ready: whatever does not depend on which pods need a place is compiled once, for any number of questions.

use crate::amounts::ResourceIndex;
use crate::bits::Bits;
use crate::bound::Bound;
use crate::finish;
use crate::labels::LabelIndex;
use crate::memo::Memo;
use crate::nodes::{Targets, Unchanged};
use crate::options::{MinValuesPolicy, Options, WhatIf};
use crate::requirements::ReqSet;
use crate::states::Prices;
use crate::strategy;
use crate::taints::TaintSets;
use crate::templates::{Template, Templates};
use crate::topology::{GroupCounts, KeyTable, Selection};
use crate::world::World;
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::node::Node;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::requirement::Requirement;
use kerf_model::resources::Resources;
use kerf_model::snapshot::{Daemon, Snapshot};
use kerf_model::taint::Toleration;
use std::sync::Arc;

/// A snapshot ready for questions. A question costs about what the pods in it cost: the cluster is read once, here, and what questions ask
/// of it (how many pods a spread counts where, which types meet a requirement) is remembered for the next one. Answers are those of
/// [`solve`](crate::solve), and threads may ask at the same time.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) snapshot: Snapshot,
    min_values: MinValuesPolicy,
    pub(crate) resources: ResourceIndex,
    pub(crate) taint_sets: TaintSets,
    /// Whether some pool or node repels softly (SCH-119; upstream looks at pools only).
    pub(crate) soft_taints: bool,
    pub(crate) templates: Templates,
    /// Per catalogue: offers and the keys they need a claim to define.
    pub(crate) demands: Vec<Vec<(usize, Sym)>>,
    pub(crate) targets: Targets,
    pub(crate) bound: Bound,
    places: Arc<Places>,
    /// Counts of running pods by group.
    counts: Arc<Memo<Counted, GroupCounts>>,
    /// The same of the snapshot before, and the nodes that other versions have replaced since.
    counts_before: Option<CountsBefore>,
    /// By catalogue: what meets a requirement.
    met: Arc<Memo<(usize, Requirement), Met>>,
    /// By catalogue: sets of offers by price.
    prices: Arc<Memo<(usize, Bits), Prices>>,
}

/// Where more than this was asked for, the next snapshot starts over.
const KEPT_MAX: usize = 1024;

/// What was asked of where nodes are and what they are like, whatever they hold.
#[derive(Debug, Default)]
struct Places {
    labels: Memo<Sym, LabelIndex>,
    tables: Memo<Sym, KeyTable>,
    /// How many targets a node filter passes, by domain.
    passing: Memo<(Sym, Filter), Vec<u32>>,
}

impl Places {
    fn len(&self) -> usize {
        self.labels.len() + self.tables.len() + self.passing.len()
    }
}

/// Counts of a snapshot before, and the nodes replaced since, by position.
type CountsBefore = (Arc<Memo<Counted, GroupCounts>>, Vec<(usize, Arc<Node>)>);

/// Fewer taint sets are taken over whether anything has them still or not.
const TAINT_SETS_MIN: usize = 256;

/// A node filter by content.
pub(crate) type Filter = (Vec<ReqSet>, Option<Vec<Toleration>>, Vec<Sym>);

/// What a group counts, by content.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Counted {
    pub(crate) key: Sym,
    pub(crate) selected: Vec<Selection>,
    pub(crate) filter: Option<Filter>,
}

/// The rows and offers of a catalogue that meet a requirement.
#[derive(Debug)]
pub(crate) struct Met {
    pub(crate) rows: Bits,
    pub(crate) offers: Bits,
}

impl Prepared {
    /// Reads a snapshot. Questions may come with other options later; only another [`MinValuesPolicy`] costs a new reading.
    pub fn new(snapshot: &Snapshot, options: &Options) -> Self {
        let running = snapshot.nodes.iter().map(|node| &node.requested);
        let pending = snapshot.pending.iter().map(|pod| &pod.shape.requests);
        Self::with(snapshot, options, running.chain(pending))
    }

    /// Reads a later snapshot of the same cluster. What has not changed is taken over: nodes that are the same values, pools that differ in
    /// usage alone, catalogues. Answers are those of a fresh reading.
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
            // Most of them belong to nothing any more.
            return Self::new(snapshot, options);
        }
        let unchanged = Unchanged::between(old, snapshot);
        let nodes = snapshot.nodes.iter().enumerate();
        let changed = nodes.filter(|(index, _)| unchanged.before(*index).is_none());
        let running = changed.map(|(_, node)| &node.requested);
        let pending = snapshot.pending.iter().map(|pod| &pod.shape.requests);
        if !self.resources.covers(running.chain(pending)) {
            return Self::new(snapshot, options);
        }
        Self::compile(snapshot, options, self.resources.clone(), Some((self, &unchanged)))
    }

    /// Reads a snapshot for pods that ask for nothing but these resources and those of DaemonSets.
    pub(crate) fn with<'x>(
        snapshot: &'x Snapshot,
        options: &Options,
        requests: impl Iterator<Item = &'x Resources>,
    ) -> Self {
        let daemons = snapshot.daemons.iter().map(|daemon| &daemon.shape.requests);
        let resources = ResourceIndex::new(requests.chain(daemons), &snapshot.interner);
        Self::compile(snapshot, options, resources, None)
    }

    fn compile(
        snapshot: &Snapshot,
        options: &Options,
        resources: ResourceIndex,
        before: Option<(&Self, &Unchanged)>,
    ) -> Self {
        let known = |key| is_known(snapshot, key);
        let mut taint_sets = before.map_or_else(TaintSets::default, |(before, _)| before.taint_sets.clone());
        let pools = before.map(|(before, _)| &before.templates);
        let mut templates = Templates::compile(snapshot, &resources, options.min_values_policy, known, pools);
        for template in &mut templates.list {
            template.taints = taint_sets.number(&template.pool.taints) as usize;
        }
        let nodes = before.map(|(before, unchanged)| (&before.targets, unchanged));
        let targets = Targets::new(snapshot, &resources, &mut taint_sets, nodes);
        let repelling = templates.list.iter().map(|template| template.taints);
        let soft_taints = taint_sets.soft(repelling.chain(targets.iter().map(|target| target.taints as usize)));
        let bound = before.map(|(before, unchanged)| (&before.bound, unchanged));
        let same = before.filter(|(before, _)| before.templates.share_catalogues(&templates));
        let demands = same.map_or_else(
            || templates.catalogues.iter().map(|types| types.demands(known)).collect(),
            |(before, _)| before.demands.clone(),
        );
        let in_place = before.and_then(|(before, unchanged)| {
            let replaced = unchanged.replaced.clone()?;
            let alike = before.templates.alike(&templates) && before.snapshot.namespaces == snapshot.namespaces;
            alike.then_some((before, replaced))
        });
        let places = in_place.as_ref().map(|(before, _)| &before.places);
        Self {
            snapshot: snapshot.clone(),
            min_values: options.min_values_policy,
            places: places
                .filter(|places| places.len() < KEPT_MAX)
                .map_or_else(Arc::default, Arc::clone),
            counts: Arc::default(),
            counts_before: in_place
                .as_ref()
                .map(|(before, replaced)| (Arc::clone(&before.counts), replaced.clone())),
            demands,
            bound: Bound::new(snapshot, bound),
            resources,
            soft_taints,
            taint_sets,
            templates,
            targets,
            met: same
                .filter(|(before, _)| before.met.len() < KEPT_MAX)
                .map_or_else(Arc::default, |(before, _)| Arc::clone(&before.met)),
            prices: same
                .filter(|(before, _)| before.prices.len() < KEPT_MAX)
                .map_or_else(Arc::default, |(before, _)| Arc::clone(&before.prices)),
        }
    }

    /// The snapshot it was made of.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Decides where the pods of a question go; `stop` is as in [`solve`](crate::solve).
    pub fn solve(&self, what_if: &WhatIf<'_>, options: &Options, stop: &(dyn Fn() -> bool + Sync)) -> Plan {
        let requests = || what_if.pods.iter().map(|pod| &pod.shape.requests);
        if self.min_values != options.min_values_policy || !self.resources.covers(requests()) {
            let again = Self::with(&self.snapshot, options, requests());
            return again.solve(what_if, options, stop);
        }
        let world = World::compile(self, what_if, options);
        let outcome = strategy::best(&world, stop);
        finish::plan(&world, outcome)
    }

    pub(crate) fn interner(&self) -> &Interner {
        &self.snapshot.interner
    }

    /// Whether a key may stay undefined on a claim (SCH-102).
    pub(crate) fn is_known(&self, key: Sym) -> bool {
        is_known(&self.snapshot, key)
    }

    /// The position of the node of this name, be it shown under its claim's until it is registered.
    pub(crate) fn node_named(&self, name: &str) -> Option<usize> {
        let bound = |node: &Arc<Node>| node.node_name.as_deref() == Some(name);
        let found = self.snapshot.position(name);
        found.or_else(|| self.snapshot.nodes.iter().position(bound))
    }

    /// A pod as it stands on the node it is bound to.
    pub(crate) fn bound_pod(&self, pod: &Arc<Pod>) -> Option<(usize, &Arc<Pod>)> {
        let at = self.node_named(pod.node_name.as_deref()?)?;
        let pods = &self.snapshot.nodes[at].pods;
        let same = pods.iter().find(|bound| Arc::ptr_eq(bound, pod));
        let found = same.or_else(|| pods.iter().find(|bound| bound.uid == pod.uid));
        found.map(|bound| (at, bound))
    }

    /// Keeps the targets whose labels and name satisfy a requirement set.
    pub(crate) fn keep_satisfying(&self, mask: &mut Bits, set: &ReqSet) {
        if set.contradiction.is_some() {
            *mask = Bits::default();
            return;
        }
        for want in set.labels.iter().chain(&set.host) {
            let index = self.places.labels.get(want.key, |key| {
                LabelIndex::new(self.targets.len(), |at| {
                    let node = &self.targets[at].node;
                    if *key == sym::HOSTNAME {
                        Some(node.hostname)
                    } else {
                        node.label(*key)
                    }
                })
            });
            index.keep(mask, want, self.interner());
        }
    }

    /// The domains of a topology key.
    pub(crate) fn table(&self, key: Sym) -> Arc<KeyTable> {
        self.places.tables.get(key, |_| {
            let mut offered: Vec<(Sym, usize)> = Vec::new();
            for (number, template) in self.templates.list.iter().enumerate() {
                let domains = self.pool_domains(template, key).into_iter();
                offered.extend(domains.map(|value| (value, number)));
            }
            let nodes = self.snapshot.nodes.iter().filter_map(|node| node.label(key));
            let targets = self.targets.iter().map(|target| target.node.label(key));
            KeyTable::new(key, &offered, nodes, targets, self.interner())
        })
    }

    /// The values of a key nodes of a pool can have.
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

    /// The counts of a group over the pods that run, when they are first asked for either computed by `count` or, where they are known of
    /// the snapshot before, brought up to date by `recount` for each node that was replaced: its position and the version then.
    pub(crate) fn counts(
        &self,
        what: Counted,
        count: impl FnOnce() -> GroupCounts,
        mut recount: impl FnMut(&mut GroupCounts, usize, &Node),
    ) -> Arc<GroupCounts> {
        self.counts.get(what, |what| {
            let known = self.counts_before.as_ref().and_then(|(before, replaced)| {
                let counts = before.known(what)?;
                Some((GroupCounts::clone(&counts), replaced))
            });
            let Some((mut counts, replaced)) = known else {
                return count();
            };
            for (at, before) in replaced {
                recount(&mut counts, *at, before);
            }
            counts
        })
    }

    /// How many targets a filter passes, by domain of a key.
    pub(crate) fn passing(&self, key: Sym, filter: Filter, count: impl FnOnce() -> Vec<u32>) -> Arc<Vec<u32>> {
        self.places.passing.get((key, filter), |_| count())
    }

    /// Of some offers of a catalogue the cheapest of each row, by price.
    pub(crate) fn prices(&self, catalogue: usize, offers: &Bits) -> Arc<Prices> {
        self.prices.get((catalogue, offers.clone()), |(catalogue, offers)| {
            self.templates.catalogues[*catalogue].prices(offers)
        })
    }

    /// What of a catalogue meets a requirement without `minValues`.
    pub(crate) fn met(&self, catalogue: usize, requirement: Requirement) -> Arc<Met> {
        self.met.get((catalogue, requirement), |(catalogue, requirement)| {
            let types = &self.templates.catalogues[*catalogue];
            Met {
                rows: types.rows_meeting(requirement, self.interner()),
                offers: types.offers_meeting(requirement, self.interner()),
            }
        })
    }
}

fn is_known(snapshot: &Snapshot, key: Sym) -> bool {
    snapshot.is_well_known(key) || snapshot.reservation_key == Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_model::instance_type::{Catalogue, InstanceType, Offering};
    use kerf_model::nodepool::{Eligibility, NodePool};
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
            name: "p".into(),
            label: interner.intern("p"),
            uid: "p".into(),
            weight: 0,
            eligibility: Eligibility::Eligible,
            requirements: Requirements::new(),
            labels: Vec::new(),
            template_labels: Arc::default(),
            taints: vec![taint],
            startup_taints: Vec::new(),
            limits: None,
            usage: Resources::new(),
            catalogue: Ok(Arc::clone(catalogue)),
            registration_healthy: None,
            disruption: kerf_model::budget::DisruptionPolicy::default(),
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
        for step in 0..KEPT_MAX + 64 {
            snapshot.pools = vec![pool(&interner, step, &catalogue)];
            prepared = prepared.next(&snapshot, &options);
            prepared.met(0, Requirement::exists(interner.intern(&format!("key-{step}"))));
            most_taints = most_taints.max(prepared.taint_sets.list.len());
            most_met = most_met.max(prepared.met.len());
        }
        // They are taken over, up to a point.
        assert!((2..=TAINT_SETS_MIN + 1).contains(&most_taints), "{most_taints}");
        assert!((2..=KEPT_MAX).contains(&most_met), "{most_met}");
    }
}
