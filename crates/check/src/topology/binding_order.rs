//! The search for an order in which kube-scheduler would bind the pods of a plan.
//!
//! Spread and pod affinity are judged when a pod is bound, so whether a final state can be reached depends on the order. Pods that are
//! alike and go to the same place are interchangeable; what is searched are orders of such groups. First comes the order the plan names;
//! then each group giving one pod per round and waiting where it cannot; then, for what is stuck, the emptiest domain first, with
//! unconstrained pods last, then first; then, where few pods are to be bound, every order. An order found is a proof; finding none is
//! reported as a violation.

use crate::launch::NamedLaunch;
use crate::topology::affinity::Affinity;
use crate::topology::anti_affinity::{self, PodAt};
use crate::topology::site::Site;
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
    let mut sites: Vec<Site<'_>> = snapshot.nodes.iter().map(|node| Site::Node(node)).collect();
    let mut names: Vec<&str> = snapshot.nodes.iter().map(|node| &*node.name).collect();
    for (number, named) in launches.iter().enumerate() {
        let outcome = named.cheapest();
        sites.push(Site::Launch { number, named, outcome });
        names.push(&named.name);
    }
    let residents = residents(snapshot, pods);
    let placed = placed(plan, launches, snapshot.nodes.len(), &names);
    let all: Vec<_> = residents.iter().chain(&placed).copied().collect();
    anti_affinity::check(snapshot, &sites, &names, &all, found);
    check_pins(snapshot, &sites, &names, &placed, found);
    let classes = PodClasses::new(&placed);
    let mut search = Search::new(snapshot, &sites, &classes);
    if search.spreads.is_empty() && search.affinities.is_empty() {
        return;
    }
    // SCH-202: terminating pods are not counted.
    for resident in residents.iter().filter(|resident| resident.pod.deletion.is_none()) {
        search.receive(resident.pod, resident.site);
    }
    let named = plan.order.iter().filter_map(|at| pods.get(*at as usize));
    let named: Vec<usize> = named.filter_map(|pod| classes.group_of(pod)).collect();
    if let Some(ended) = search.find_order(&named, options.order_search_steps) {
        ended.report(snapshot, &names, found);
    }
    check_open_affinity(snapshot, &sites, &names, &placed, &all, found);
}

/// Pods bound now that are not about to be placed anew (SCH-203).
fn residents<'a>(snapshot: &'a Snapshot, batch: &[Arc<Pod>]) -> Vec<PodAt<'a>> {
    let batch: BTreeSet<(&str, &str)> = batch.iter().map(|pod| (&*pod.namespace, &*pod.name)).collect();
    let mut all = Vec::new();
    for (site, node) in snapshot.nodes.iter().enumerate() {
        let staying = node.pods.iter().filter(|pod| !pod.phase.is_terminal());
        let staying = staying.filter(|pod| !batch.contains(&(&*pod.namespace, &*pod.name)));
        all.extend(staying.map(|pod| PodAt { pod, site, new: false }));
    }
    all
}

fn placed<'a>(plan: &'a Plan, launches: &[NamedLaunch<'a>], nodes: usize, names: &[&str]) -> Vec<PodAt<'a>> {
    let index: BTreeMap<&str, usize> = names[..nodes]
        .iter()
        .enumerate()
        .map(|(at, name)| (*name, at))
        .collect();
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
    for (number, named) in launches.iter().enumerate() {
        let site = nodes + number;
        all.extend(named.launch.pods.iter().map(|pod| PodAt { pod, site, new: true }));
    }
    all
}

/// SCH-214: a launch that holds pods with a required spread constraint may end in one domain of it only.
fn check_pins(snapshot: &Snapshot, sites: &[Site<'_>], names: &[&str], placed: &[PodAt<'_>], found: &mut Violations) {
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
                && sites[at.site].possible(constraint.key, &snapshot.interner).len() > 1
            {
                let key = snapshot.interner.text(constraint.key).to_owned();
                found.placement(names[at.site], &at.pod.key(), Rule::SpreadUnpinned { key });
            }
        }
    }
}

/// Pod affinity must hold in every domain a launch may end in: the attracting pod is on the launch itself or in each of them.
fn check_open_affinity(
    snapshot: &Snapshot,
    sites: &[Site<'_>],
    names: &[&str],
    placed: &[PodAt<'_>],
    all: &[PodAt<'_>],
    found: &mut Violations,
) {
    for at in placed.iter().filter(|at| !at.pod.shape.affinity.is_empty()) {
        for (number, term) in at.pod.shape.affinity.iter().enumerate() {
            let open = sites[at.site].possible(term.key, &snapshot.interner);
            if open.len() < 2 {
                continue;
            }
            let mut elsewhere = Affinity::new(snapshot, sites, at.pod, &at.pod.shape.affinity);
            let mut attracting = all
                .iter()
                .filter(|other| elsewhere.counts(other.pod))
                .collect::<Vec<_>>();
            let together = attracting.iter().any(|other| other.site == at.site);
            attracting.retain(|other| sites[other.site].possible(term.key, &snapshot.interner).len() == 1);
            for other in attracting {
                elsewhere.arrive(other.site);
            }
            if !together && !open.iter().all(|domain| elsewhere.attracts(number, *domain)) {
                let key = snapshot.interner.text(term.key).to_owned();
                found.placement(names[at.site], &at.pod.key(), Rule::Affinity { key });
            }
        }
    }
}

/// Placed pods that are alike, and groups of them that go to the same site.
struct PodClasses<'a> {
    /// One pod of each class.
    examples: Vec<&'a Pod>,
    groups: Vec<Group<'a>>,
    /// By namespace and name.
    group_of: BTreeMap<(&'a str, &'a str), usize>,
}

#[derive(Clone)]
struct Group<'a> {
    class: usize,
    site: usize,
    pods: Vec<&'a Pod>,
}

impl<'a> PodClasses<'a> {
    fn new(placed: &[PodAt<'a>]) -> Self {
        let mut classes: FxHashMap<(&str, &LabelSet, &PodShape), usize> = FxHashMap::default();
        let mut index: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        let (mut examples, mut groups) = (Vec::new(), Vec::<Group<'a>>::new());
        let mut group_of = BTreeMap::new();
        for at in placed {
            let key = (&*at.pod.namespace, &*at.pod.labels, &*at.pod.shape);
            let class = *classes.entry(key).or_insert_with(|| {
                examples.push(at.pod);
                examples.len() - 1
            });
            let group = *index.entry((class, at.site)).or_insert_with(|| {
                groups.push(Group {
                    class,
                    site: at.site,
                    pods: Vec::new(),
                });
                groups.len() - 1
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

    fn group_of(&self, pod: &Pod) -> Option<usize> {
        self.group_of.get(&(&*pod.namespace, &*pod.name)).copied()
    }
}

/// Counts of constraints as pods arrive.
#[derive(Clone)]
struct Search<'a> {
    spreads: Vec<Spread<'a>>,
    affinities: Vec<Affinity<'a>>,
    /// By class: which spreads and affinities its pods own.
    owned: Vec<(Vec<usize>, Vec<usize>)>,
    /// By class: which spreads and affinities count its pods.
    counted: Vec<(Vec<usize>, Vec<usize>)>,
    /// What is still to arrive.
    groups: Vec<Group<'a>>,
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
    fn new(snapshot: &'a Snapshot, sites: &[Site<'_>], classes: &PodClasses<'a>) -> Self {
        let (mut spreads, mut affinities, mut owned) = (Vec::new(), Vec::new(), Vec::new());
        for example in &classes.examples {
            let (spread_from, affinity_from) = (spreads.len(), affinities.len());
            let required = example.shape.spread.iter().filter(|constraint| constraint.required);
            spreads.extend(required.map(|constraint| Spread::new(snapshot, sites, example, constraint)));
            let terms = &example.shape.affinity;
            affinities.extend((!terms.is_empty()).then(|| Affinity::new(snapshot, sites, example, terms)));
            owned.push((
                (spread_from..spreads.len()).collect(),
                (affinity_from..affinities.len()).collect(),
            ));
        }
        let counted = |example: &&Pod| {
            let by_spread = spreads.iter().enumerate().filter(|(_, spread)| spread.counts(example));
            let by_affinity = affinities
                .iter()
                .enumerate()
                .filter(|(_, affinity)| affinity.counts(example));
            (
                by_spread.map(|(at, _)| at).collect(),
                by_affinity.map(|(at, _)| at).collect(),
            )
        };
        let counted: Vec<(Vec<usize>, Vec<usize>)> = classes.examples.iter().map(counted).collect();
        let matters = |class: usize| {
            let any = |(a, b): &(Vec<usize>, Vec<usize>)| !a.is_empty() || !b.is_empty();
            any(&owned[class]) || any(&counted[class])
        };
        // Groups keep their numbers; those that nothing depends on are there already.
        let mut groups = classes.groups.clone();
        groups
            .iter_mut()
            .filter(|group| !matters(group.class))
            .for_each(|group| group.pods.clear());
        Self {
            spreads,
            affinities,
            owned,
            counted,
            groups,
        }
    }

    fn receive(&mut self, pod: &Pod, site: usize) {
        for spread in self.spreads.iter_mut().filter(|spread| spread.counts(pod)) {
            spread.arrive(site);
        }
        for affinity in self.affinities.iter_mut().filter(|affinity| affinity.counts(pod)) {
            affinity.arrive(site);
        }
    }

    fn bind_one(&mut self, group: usize) {
        let (class, site) = (self.groups[group].class, self.groups[group].site);
        self.groups[group].pods.remove(0);
        for at in &self.counted[class].0 {
            self.spreads[*at].arrive(site);
        }
        for at in &self.counted[class].1 {
            self.affinities[*at].arrive(site);
        }
    }

    fn can_bind(&self, group: usize) -> bool {
        let Group { class, site, .. } = self.groups[group];
        let (spreads, affinities) = &self.owned[class];
        spreads.iter().all(|at| self.spreads[*at].check(site).is_ok())
            && affinities.iter().all(|at| self.affinities[*at].permits(site))
    }

    /// Nothing if an order was found, else the state in which the most pods had arrived.
    fn find_order(&self, named: &[usize], steps: u64) -> Option<Self> {
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

    fn as_named(&mut self, named: &[usize]) {
        for group in named {
            if !self.groups[*group].pods.is_empty() && self.can_bind(*group) {
                self.bind_one(*group);
            }
        }
    }

    fn in_rounds(&mut self) {
        loop {
            let mut moved = false;
            for group in 0..self.groups.len() {
                if !self.groups[group].pods.is_empty() && self.can_bind(group) {
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
            let open = (0..self.groups.len()).filter(|at| !self.groups[*at].pods.is_empty() && self.can_bind(*at));
            let Some(next) = open.min_by_key(|at| self.binding_rank(*at, free_first)) else {
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
        let open = (0..self.groups.len()).filter(|at| !self.groups[*at].pods.is_empty() && self.can_bind(*at));
        open.collect::<Vec<_>>().into_iter().find_map(|group| {
            let mut next = self.clone();
            next.bind_one(group);
            next.completed(visited)
        })
    }

    /// What binds first: smaller is sooner.
    fn binding_rank(&self, group: usize, free_first: bool) -> (bool, u32, usize) {
        let Group { class, site, .. } = self.groups[group];
        let free = self.owned[class].0.is_empty() && self.owned[class].1.is_empty();
        let load = self.counted[class]
            .0
            .iter()
            .map(|at| self.spreads[*at].load(site))
            .sum();
        (free != free_first, load, group)
    }

    /// Names every pod that did not arrive.
    fn report(&self, snapshot: &Snapshot, names: &[&str], found: &mut Violations) {
        for group in &self.groups {
            let (spreads, affinities) = &self.owned[group.class];
            let broken = spreads
                .iter()
                .map(|at| &self.spreads[*at])
                .find(|spread| spread.check(group.site).is_err());
            let refused = affinities
                .iter()
                .map(|at| &self.affinities[*at])
                .find(|a| !a.permits(group.site));
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
                found.placement(names[group.site], &pod.key(), rule.clone());
            }
        }
    }
}
