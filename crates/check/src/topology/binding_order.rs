//! The search for an order in which kube-scheduler would bind the pods of a plan.
//!
//! Spread and pod affinity are judged when a pod is bound, so whether a final state can be reached depends on the order. Launches are taken
//! for their cheapest offerings; pod affinity is judged once more for everything they may become. Pods that are alike and go to the same
//! place are interchangeable; what is searched are orders of such groups. First comes the order the plan names; then each group giving one
//! pod per round and waiting where it cannot; then, for what is stuck, the emptiest domain first, with unconstrained pods last, then first;
//! then, where few pods are to be bound, every order. An order found is a proof; finding none is reported as a violation.

use crate::id_vec::{Id, IdVec};
use crate::launch::NamedLaunch;
use crate::topology::affinity::Affinity;
use crate::topology::anti_affinity::{self, PodAt};
use crate::topology::site::{DomainsByKey, PossibleDomains, Site, SiteId, SiteVec};
use crate::topology::spread::Spread;
use crate::violation::{CheckOptions, Rule, Violations};
use kerf_model::intern::sym;
use kerf_model::plan::Plan;
use kerf_model::pod::{Pod, PodShape};
use kerf_model::selector::LabelSet;
use kerf_model::snapshot::Snapshot;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Up to this number of pods every order is tried: at most 4,096 states, each a copy of the counts.
const EVERY_ORDER_PODS_MAX: usize = 12;

pub(crate) fn check(
    snapshot: &Snapshot,
    pods: &[Arc<Pod>],
    plan: &Plan,
    launches: &[NamedLaunch<'_>],
    options: &CheckOptions,
    found: &mut Violations,
) {
    let mut sites: SiteVec<Site<'_>> = snapshot.nodes.iter().map(|node| Site::Node(node)).collect();
    let mut names: SiteVec<&str> = snapshot.nodes.iter().map(|node| &*node.name).collect();
    let mut launched = Vec::new();
    for (number, named) in launches.iter().enumerate() {
        let outcome = named.cheapest();
        launched.push((sites.push(Site::Launch { number, named, outcome }), named));
        names.push(&named.name);
    }
    let residents = residents(snapshot, &sites, pods);
    let placed = placed(snapshot, &names, plan, &launched);
    let all: Vec<_> = residents.iter().chain(&placed).copied().collect();
    let mut possible = DomainsByKey::of_every_outcome(&sites, &snapshot.interner);
    anti_affinity::check(snapshot, &mut possible, &names, &all, found);
    check_pins(snapshot, &sites, &names, &placed, found);
    let classes = PodClasses::new(&placed);
    let named = plan.order.iter().filter_map(|at| pods.get(*at as usize));
    let named: Vec<GroupId> = named.filter_map(|pod| classes.group_of(pod)).collect();
    let mut judge = |mut search: Search<'_>| {
        // SCH-202: terminating pods are not counted.
        for resident in residents.iter().filter(|resident| resident.pod.deletion.is_none()) {
            search.receive(resident.pod, resident.site);
        }
        if let Some(ended) = search.find_order(&named, options.order_search_steps) {
            ended.report(snapshot, &names, found);
        }
    };
    let mut cheapest = DomainsByKey::as_cheapest(&sites, &snapshot.interner);
    let search = Search::new(snapshot, &classes, Some(&sites), &mut cheapest);
    let has_affinity = !search.affinities.is_empty();
    if has_affinity || !search.spreads.is_empty() {
        judge(search);
    }
    if !has_affinity {
        return;
    }
    // Other outcomes may need other orders. Spread is not judged there: it needs launches that end in one domain.
    let search = Search::new(snapshot, &classes, None, &mut possible);
    if search.affinities.iter().any(Affinity::depends_on_outcomes) {
        judge(search);
    }
}

/// Pods bound now that are not about to be placed anew (SCH-203).
fn residents<'a>(snapshot: &'a Snapshot, sites: &SiteVec<Site<'_>>, batch: &[Arc<Pod>]) -> Vec<PodAt<'a>> {
    let batch: BTreeSet<(&str, &str)> = batch.iter().map(|pod| (&*pod.namespace, &*pod.name)).collect();
    let mut all = Vec::new();
    for (site, node) in sites.ids().zip(&snapshot.nodes) {
        let staying = node.pods.iter().filter(|pod| !pod.phase.is_terminal());
        let staying = staying.filter(|pod| !batch.contains(&(&*pod.namespace, &*pod.name)));
        all.extend(staying.map(|pod| PodAt { pod, site, new: false }));
    }
    all
}

fn placed<'a>(
    snapshot: &Snapshot,
    names: &SiteVec<&str>,
    plan: &'a Plan,
    launched: &[(SiteId, &NamedLaunch<'a>)],
) -> Vec<PodAt<'a>> {
    let nodes = names.entries().take(snapshot.nodes.len());
    let index: BTreeMap<&str, SiteId> = nodes.map(|(site, name)| (*name, site)).collect();
    let mut all = Vec::new();
    for placement in &plan.existing {
        if let Some(site) = index.get(&*placement.node) {
            all.extend(placement.pods.iter().map(|pod| PodAt {
                pod,
                site: *site,
                new: true,
            }));
        }
    }
    for (site, named) in launched {
        all.extend(named.launch.pods.iter().map(|pod| PodAt {
            pod,
            site: *site,
            new: true,
        }));
    }
    all
}

/// SCH-214: a launch that holds pods with a required spread constraint may end in one domain of it only.
fn check_pins(
    snapshot: &Snapshot,
    sites: &SiteVec<Site<'_>>,
    names: &SiteVec<&str>,
    placed: &[PodAt<'_>],
    found: &mut Violations,
) {
    let mut judged = BTreeSet::new();
    for at in placed.iter().filter(|at| matches!(sites[at.site], Site::Launch { .. })) {
        for constraint in at
            .pod
            .shape
            .spread
            .iter()
            .filter(|c| c.required && c.key != sym::HOSTNAME)
        {
            if judged.insert((at.site, constraint.key))
                && matches!(
                    sites[at.site].possible(constraint.key, &snapshot.interner),
                    PossibleDomains::Several(_)
                )
            {
                let key = snapshot.interner.text(constraint.key).to_owned();
                found.add_for_placement(names[at.site], &at.pod.key(), Rule::SpreadUnpinned { key });
            }
        }
    }
}

/// The sort of ids that classes have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Classes {}
type ClassId = Id<Classes>;

/// The sort of ids that groups have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Groups {}
type GroupId = Id<Groups>;

/// Placed pods that are alike, and groups of them that go to the same site.
struct PodClasses<'a> {
    /// One pod of each class.
    examples: IdVec<Classes, &'a Pod>,
    groups: IdVec<Groups, Group<'a>>,
    /// By namespace and name.
    group_of: BTreeMap<(&'a str, &'a str), GroupId>,
}

#[derive(Clone)]
struct Group<'a> {
    class: ClassId,
    site: SiteId,
    pods: Vec<&'a Pod>,
}

impl<'a> PodClasses<'a> {
    fn new(placed: &[PodAt<'a>]) -> Self {
        let mut classes: FxHashMap<(&str, &LabelSet, &PodShape), ClassId> = FxHashMap::default();
        let mut index: BTreeMap<(ClassId, SiteId), GroupId> = BTreeMap::new();
        let (mut examples, mut groups) = (IdVec::new(), IdVec::<Groups, Group<'a>>::new());
        let mut group_of = BTreeMap::new();
        for at in placed {
            let key = (&*at.pod.namespace, &*at.pod.labels, &*at.pod.shape);
            let class = *classes.entry(key).or_insert_with(|| examples.push(at.pod));
            let group = *index.entry((class, at.site)).or_insert_with(|| {
                let (site, pods) = (at.site, Vec::new());
                groups.push(Group { class, site, pods })
            });
            groups[group].pods.push(at.pod);
            group_of.insert((&*at.pod.namespace, &*at.pod.name), group);
        }
        Self {
            examples,
            groups,
            group_of,
        }
    }

    fn group_of(&self, pod: &Pod) -> Option<GroupId> {
        self.group_of.get(&(&*pod.namespace, &*pod.name)).copied()
    }
}

/// The sort of ids that spread constraints have.
#[derive(Clone, Copy)]
enum Spreads {}

/// The sort of ids that the affinity terms of a class have.
#[derive(Clone, Copy)]
enum Affinities {}

/// Spread constraints and affinity terms.
#[derive(Clone)]
struct Constraints {
    spreads: Vec<Id<Spreads>>,
    affinities: Vec<Id<Affinities>>,
}

impl Constraints {
    fn is_empty(&self) -> bool {
        self.spreads.is_empty() && self.affinities.is_empty()
    }
}

/// Counts of constraints as pods arrive.
#[derive(Clone)]
struct Search<'a> {
    spreads: IdVec<Spreads, Spread<'a>>,
    affinities: IdVec<Affinities, Affinity<'a>>,
    /// By class: what its pods ask for.
    owned: IdVec<Classes, Constraints>,
    /// By class: what counts its pods.
    counted: IdVec<Classes, Constraints>,
    /// What is still to arrive.
    groups: IdVec<Groups, Group<'a>>,
}

#[derive(Clone, Copy)]
enum Order {
    Named,
    Rounds,
    ConstrainedFirst,
    FreeFirst,
    Every,
}

impl<'a> Search<'a> {
    /// `spread_over` holds the sites if spread is judged, and `domains` those that affinity is judged in.
    fn new(
        snapshot: &'a Snapshot,
        classes: &PodClasses<'a>,
        spread_over: Option<&SiteVec<Site<'_>>>,
        domains: &mut DomainsByKey<'_, 'a>,
    ) -> Self {
        let (mut spreads, mut affinities) = (IdVec::new(), IdVec::new());
        let owned = classes.examples.map(|example| {
            let required = example.shape.spread.iter().filter(|constraint| constraint.required);
            let judged = required.filter_map(|constraint| Some((spread_over?, constraint)));
            let own = judged.map(|(sites, constraint)| Spread::new(snapshot, sites, example, constraint));
            let own = own.map(|spread| spreads.push(spread)).collect();
            let terms = &example.shape.affinity;
            let affinity = (!terms.is_empty()).then(|| Affinity::new(snapshot, example, terms, |key| domains.of(key)));
            Constraints {
                spreads: own,
                affinities: affinity.map(|affinity| affinities.push(affinity)).into_iter().collect(),
            }
        });
        let counted = classes.examples.map(|example| {
            let by_spread = spreads.entries().filter(|(_, spread)| spread.counts(example));
            let by_affinity = affinities.entries().filter(|(_, affinity)| affinity.counts(example));
            Constraints {
                spreads: by_spread.map(|(id, _)| id).collect(),
                affinities: by_affinity.map(|(id, _)| id).collect(),
            }
        });
        // Groups keep their numbers; those that nothing depends on are there already.
        let mut groups = classes.groups.clone();
        groups
            .iter_mut()
            .filter(|group| owned[group.class].is_empty() && counted[group.class].is_empty())
            .for_each(|group| group.pods.clear());
        Self {
            spreads,
            affinities,
            owned,
            counted,
            groups,
        }
    }

    fn receive(&mut self, pod: &Pod, site: SiteId) {
        for spread in self.spreads.iter_mut().filter(|spread| spread.counts(pod)) {
            spread.arrive(site);
        }
        for affinity in self.affinities.iter_mut().filter(|affinity| affinity.counts(pod)) {
            affinity.arrive(site);
        }
    }

    fn bind_one(&mut self, group: GroupId) {
        let Group { class, site, pods } = &mut self.groups[group];
        pods.remove(0);
        let counted = &self.counted[*class];
        for id in &counted.spreads {
            self.spreads[*id].arrive(*site);
        }
        for id in &counted.affinities {
            self.affinities[*id].arrive(*site);
        }
    }

    fn can_bind(&self, group: GroupId) -> bool {
        let Group { class, site, ref pods } = self.groups[group];
        let owned = &self.owned[class];
        !pods.is_empty()
            && owned.spreads.iter().all(|id| self.spreads[*id].check(site).is_ok())
            && owned.affinities.iter().all(|id| self.affinities[*id].permits(site))
    }

    /// Nothing if an order was found, else the state in which the most pods had arrived.
    fn find_order(&self, named: &[GroupId], steps: u64) -> Option<Self> {
        let mut best: Option<Self> = None;
        let orders = [
            Order::Named,
            Order::Rounds,
            Order::ConstrainedFirst,
            Order::FreeFirst,
            Order::Every,
        ];
        let orders = if steps == 0 { &orders[..1] } else { &orders[..] };
        for order in orders {
            let mut run = self.clone();
            match order {
                Order::Named => run.as_named(named),
                Order::Rounds => run.in_rounds(),
                Order::ConstrainedFirst => run.emptiest_first(false, steps),
                Order::FreeFirst => run.emptiest_first(true, steps),
                Order::Every => run.in_any_order(),
            }
            run.spreads.iter().for_each(Spread::debug_assert_smallest);
            if run.left() == 0 {
                return None;
            }
            if best.as_ref().is_none_or(|best| run.left() < best.left()) {
                best = Some(run);
            }
        }
        best
    }

    fn left(&self) -> usize {
        self.groups.iter().map(|group| group.pods.len()).sum()
    }

    fn as_named(&mut self, named: &[GroupId]) {
        for group in named {
            if self.can_bind(*group) {
                self.bind_one(*group);
            }
        }
    }

    fn in_rounds(&mut self) {
        loop {
            let mut moved = false;
            for group in self.groups.ids() {
                if self.can_bind(group) {
                    self.bind_one(group);
                    moved = true;
                }
            }
            if !moved {
                return;
            }
        }
    }

    fn emptiest_first(&mut self, free_first: bool, steps: u64) {
        let mut left = steps;
        while let Some(spent) = left.checked_sub(self.groups.len() as u64) {
            left = spent;
            let open = self.groups.ids().filter(|group| self.can_bind(*group));
            let Some(next) = open.min_by_key(|group| self.binding_rank(*group, free_first)) else {
                return;
            };
            self.bind_one(next);
        }
    }

    /// Tries every order where few enough pods are to be bound, and stays as it is where none works.
    fn in_any_order(&mut self) {
        if self.left() <= EVERY_ORDER_PODS_MAX
            && let Some(done) = self.completed(&mut BTreeSet::new())
        {
            *self = done;
        }
    }

    /// The state after all pods were bound in some order. `visited` holds how many pods of each group were left in states tried before;
    /// none of them led to the end.
    fn completed(&self, visited: &mut BTreeSet<Vec<usize>>) -> Option<Self> {
        if self.left() == 0 {
            return Some(self.clone());
        }
        if !visited.insert(self.groups.iter().map(|group| group.pods.len()).collect()) {
            return None;
        }
        let open = self.groups.ids().filter(|group| self.can_bind(*group));
        open.collect::<Vec<_>>().into_iter().find_map(|group| {
            let mut next = self.clone();
            next.bind_one(group);
            next.completed(visited)
        })
    }

    /// What binds first: smaller is sooner.
    fn binding_rank(&self, group: GroupId, free_first: bool) -> (bool, u32, GroupId) {
        let Group { class, site, .. } = self.groups[group];
        let free = self.owned[class].is_empty();
        let counted = self.counted[class].spreads.iter();
        let load = counted.map(|id| self.spreads[*id].load(site)).sum();
        (free != free_first, load, group)
    }

    /// Names every pod that did not arrive.
    fn report(&self, snapshot: &Snapshot, names: &SiteVec<&str>, found: &mut Violations) {
        for group in self.groups.iter() {
            let owned = &self.owned[group.class];
            let broken = owned
                .spreads
                .iter()
                .map(|id| &self.spreads[*id])
                .find(|spread| spread.check(group.site).is_err());
            let refused = owned
                .affinities
                .iter()
                .map(|id| &self.affinities[*id])
                .find(|affinity| !affinity.permits(group.site));
            let text = |key| snapshot.interner.text(key).to_owned();
            let affinity_key = refused
                .and_then(|affinity| affinity.terms.first())
                .map(|term| text(term.key));
            let rule = match (broken, affinity_key) {
                (Some(spread), _) => Rule::Spread {
                    key: text(spread.constraint.key),
                },
                (None, Some(key)) => Rule::Affinity { key },
                (None, None) => Rule::OrderNotFound,
            };
            for pod in &group.pods {
                found.add_for_placement_if_new(names[group.site], &pod.key(), rule.clone());
            }
        }
    }
}
