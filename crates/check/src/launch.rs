//! Launches, one at a time: their own consistency, and that whatever they become holds the pods planned onto them.

use crate::existing::check_ports;
use crate::outcome::{Outcome, counts_as_overhead, is_well_known, usable_offerings};
use crate::rules::amounts::Amounts;
use crate::rules::expression::{Expression, read_all};
use crate::rules::open_label::{OpenLabel, may_satisfy};
use crate::rules::{host_port, taint};
use crate::text::{print_amount, print_selection};
use crate::violation::{CheckOptions, Rule, Violations};
use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::plan::Launch;
use kerf_model::pod::{HostPort, Pod, PodShape};
use kerf_model::price::Price;
use kerf_model::requirement::Requirement;
use kerf_model::snapshot::{Daemon, Snapshot};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The largest number of instance types a launch may list (SCH-286).
const TYPES_MAX: usize = 600;
const SIMULATION_ONLY: [Sym; 3] = [sym::HOSTNAME, sym::REGISTERED, sym::INITIALIZED];

/// A launch with its pool, the name violations give it, and what it may become.
pub(crate) struct NamedLaunch<'a> {
    pub(crate) name: String,
    pub(crate) launch: &'a Launch,
    pub(crate) pool: &'a NodePool,
    usable: Vec<OfferedType<'a>>,
}

/// An offered type with its offerings that are available, that the launch allows, and with which the pods fit (SCH-129).
pub(crate) struct OfferedType<'a> {
    index: u32,
    pub(crate) instance_type: &'a InstanceType,
    offerings: Vec<(u32, &'a Offering)>,
}

impl<'a> NamedLaunch<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, name: String, launch: &'a Launch, pool: &'a NodePool) -> Self {
        let mut named = Self {
            name,
            launch,
            pool,
            usable: Vec::new(),
        };
        let required = read_all(&launch.requirements, &snapshot.interner);
        let usable = launch.types.iter().filter_map(|index| {
            let instance_type = launch.catalogue.types.get(*index as usize)?;
            let offerings = usable_offerings(snapshot, instance_type, &required);
            Some(OfferedType {
                index: *index,
                instance_type,
                offerings: named.fitting(snapshot, instance_type, offerings),
            })
        });
        named.usable = usable.collect();
        named
    }

    /// SCH-127 to SCH-129: of offerings that differ in what the machine has, those with which the pods fit; all if they fit with none,
    /// which [`check_type_holds`] reports.
    fn fitting(
        &self,
        snapshot: &Snapshot,
        instance_type: &'a InstanceType,
        offerings: Vec<(u32, &'a Offering)>,
    ) -> Vec<(u32, &'a Offering)> {
        let changes =
            |offering: &Offering| offering.capacity_override.is_some() || offering.overhead_override.is_some();
        if !offerings.iter().any(|(_, offering)| changes(offering)) {
            return offerings;
        }
        let interner = &*snapshot.interner;
        let daemons = snapshot.daemons.iter();
        let daemons = daemons.filter(|daemon| counts_as_overhead(snapshot, self.pool, instance_type, daemon));
        let shapes = self.launch.pods.iter().map(|pod| &pod.shape);
        let shapes = shapes.chain(daemons.map(|daemon| &daemon.shape));
        let wanted = Amounts::sum(shapes.map(|shape| &shape.requests), interner);
        let fits = |offering: &'a Offering| {
            let available = self.become_one(instance_type, offering).allocatable(interner);
            wanted.short_of(&available).is_empty()
        };
        let fitting: Vec<_> = offerings
            .iter()
            .copied()
            .filter(|(_, offering)| fits(offering))
            .collect();
        if fitting.is_empty() { offerings } else { fitting }
    }

    /// A label as the launch's own requirements constrain it.
    pub(crate) fn own_label<'i>(&self, key: &str, interner: &'i Interner) -> OpenLabel<'i> {
        let own = self.launch.requirements.iter();
        let own = own.filter(|requirement| interner.text(requirement.key) == key);
        OpenLabel::new(own.map(|requirement| Expression::read(requirement, interner)))
    }

    /// The offered types that exist.
    pub(crate) fn types(&self) -> &[OfferedType<'a>] {
        &self.usable
    }

    /// The machine that the launch becomes with this type and offering.
    pub(crate) fn become_one(&self, instance_type: &'a InstanceType, offering: &'a Offering) -> Outcome<'a> {
        let (launch, pool) = (self.launch, self.pool);
        Outcome {
            launch,
            pool,
            instance_type,
            offering,
        }
    }

    /// Everything the launch may become.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = Outcome<'a>> {
        self.usable.iter().flat_map(move |usable| {
            let offerings = usable.offerings.iter();
            offerings.map(move |(_, offering)| self.become_one(usable.instance_type, offering))
        })
    }

    /// What the plan expects it to become.
    pub(crate) fn cheapest(&self) -> Option<Outcome<'a>> {
        let (instance_type, offering) = self.launch.cheapest?;
        let instance_type = self.launch.catalogue.types.get(instance_type as usize)?;
        let offering = instance_type.offerings.get(offering as usize)?;
        Some(self.become_one(instance_type, offering))
    }
}

pub(crate) fn check(snapshot: &Snapshot, named: &NamedLaunch<'_>, options: &CheckOptions, found: &mut Violations) {
    check_pool(named, found);
    check_requirements(snapshot, named, found);
    check_types(snapshot, named, found);
    check_pods(snapshot, named, found);
    check_requests(snapshot, named, found);
    check_min_values(snapshot, named, options, found);
}

fn contradiction(named: &NamedLaunch<'_>, why: impl Into<String>, found: &mut Violations) {
    found.add_for_node(&named.name, Rule::Launch { why: why.into() });
}

fn check_pool(named: &NamedLaunch<'_>, found: &mut Violations) {
    let why = match &named.pool.eligibility {
        Eligibility::Eligible => None,
        Eligibility::Static => Some("it has a fixed number of nodes".to_owned()),
        Eligibility::NotReady(message) => Some(format!("it is not ready: {message}")),
        Eligibility::Deleting => Some("it is being deleted".to_owned()),
        Eligibility::ForeignNodeClass => Some("its node class is foreign".to_owned()),
    };
    if let Some(why) = why {
        found.add_for_node(&named.name, Rule::Pool { why });
    }
    match &named.pool.catalogue {
        Err(fault) => found.add_for_node(&named.name, Rule::Pool { why: fault.to_string() }),
        Ok(catalogue) if !Arc::ptr_eq(catalogue, &named.launch.catalogue) && *catalogue != named.launch.catalogue => {
            contradiction(named, "its catalogue is not the pool's", found);
        }
        Ok(_) => {}
    }
    if named.launch.pods.is_empty() {
        contradiction(named, "no pod needs it", found);
    }
}

/// SCH-314 to SCH-316, SCH-109: the requirements stay within the pool's, define nothing of their own and name the types.
fn check_requirements(snapshot: &Snapshot, named: &NamedLaunch<'_>, found: &mut Violations) {
    let interner = &*snapshot.interner;
    let (launch, pool) = (named.launch, named.pool);
    for key in SIMULATION_ONLY {
        if launch.requirements.get(key).is_some() {
            contradiction(named, format!("{} is for simulation only", interner.text(key)), found);
        }
    }
    for wanted in pool.requirements.iter().filter(|r| !SIMULATION_ONLY.contains(&r.key)) {
        let own = launch.requirements.get(wanted.key);
        let expression = Expression::read(wanted, interner);
        if own.is_none() || !named.own_label(expression.key, interner).always(&[expression]) {
            let text = own.map_or_else(|| "nothing".to_owned(), |own| own.print(interner));
            contradiction(
                named,
                format!("{text} is wider than the pool's {}", wanted.print(interner)),
                found,
            );
        }
    }
    for own in &launch.requirements {
        let defined = pool.requirements.get(own.key).is_some() || pool.labels.iter().any(|(key, _)| *key == own.key);
        let reservation = snapshot.reservation_key == Some(own.key);
        if !defined
            && !is_well_known(snapshot, interner.text(own.key))
            && !Expression::read(own, interner).holds(None)
            && !reservation
        {
            contradiction(
                named,
                format!("no pool defines the label of {}", own.print(interner)),
                found,
            );
        }
    }
    let names: BTreeSet<Sym> = named.types().iter().map(|usable| usable.instance_type.name).collect();
    let listed = launch.requirements.get(sym::INSTANCE_TYPE);
    if !listed.is_some_and(|r| !r.complement && r.values.iter().copied().collect::<BTreeSet<_>>() == names) {
        contradiction(named, "its instance type requirement does not list its types", found);
    }
    let capacity_type = |outcome: Outcome<'_>| {
        let own = outcome.offering.requirements.iter();
        let own: Vec<&Requirement> = own.filter(|one| one.key == sym::CAPACITY_TYPE).collect();
        OpenLabel::new(read_all(own, interner)).only()
    };
    let realised: BTreeSet<&str> = named.outcomes().filter_map(capacity_type).collect();
    let listed = launch.requirements.get(sym::CAPACITY_TYPE);
    if !realised.is_empty()
        && !listed.is_some_and(|r| !r.complement && r.values.iter().all(|v| realised.contains(interner.text(*v))))
    {
        contradiction(
            named,
            "its capacity type requirement names more than its types offer",
            found,
        );
    }
}

/// SCH-132, SCH-286, SCH-302, SCH-321: the list of types is sound and sorted, and the cheapest offering is the cheapest.
fn check_types(snapshot: &Snapshot, named: &NamedLaunch<'_>, found: &mut Violations) {
    let launch = named.launch;
    let interner = &*snapshot.interner;
    let required = read_all(&launch.requirements, interner);
    if launch.types.is_empty() {
        contradiction(named, "it offers no instance type", found);
    }
    if launch.types.len() > TYPES_MAX {
        contradiction(named, format!("it offers more than {TYPES_MAX} instance types"), found);
    }
    if launch.types.iter().collect::<BTreeSet<_>>().len() != launch.types.len() {
        contradiction(named, "it lists an instance type twice", found);
    }
    if named.types().len() != launch.types.len() {
        contradiction(named, "it lists instance types the catalogue does not have", found);
    }
    let mut before = Price::ZERO;
    let mut lowest: Option<Price> = None;
    for usable in named.types() {
        let instance_type = usable.instance_type;
        let name = || interner.text(instance_type.name).to_owned();
        let Some(price) = usable.offerings.iter().map(|(_, offering)| offering.price).min() else {
            if !launch.reservations.is_empty() {
                // SCH-302: its requirements keep the launch from using the type.
                continue;
            }
            let why = "no offering is available that the launch allows".to_owned();
            found.add_for_node(&named.name, Rule::InstanceType { name: name(), why });
            continue;
        };
        if price < before {
            contradiction(named, format!("its types are not sorted by price at {}", name()), found);
        }
        before = price;
        lowest = Some(lowest.map_or(price, |lowest| lowest.min(price)));
        if !may_satisfy(&read_all(&instance_type.requirements, interner), &required, |_| true) {
            let why = "it is not what the launch requires".to_owned();
            found.add_for_node(&named.name, Rule::InstanceType { name: name(), why });
        }
    }
    if lowest.is_none() && !launch.reservations.is_empty() {
        contradiction(named, "no type has an offering of a reservation it holds", found);
    }
    let stated = named.cheapest().map(|outcome| outcome.offering.price);
    if stated != lowest {
        let text = |price: Option<Price>| price.map_or_else(|| "none".to_owned(), |price| price.to_string());
        let why = format!(
            "its cheapest offering costs {}, the plan says {}",
            text(lowest),
            text(stated)
        );
        contradiction(named, why, found);
    }
    let usable = launch.cheapest.is_none_or(|(instance_type, offering)| {
        let mut types = named.types().iter().filter(|usable| usable.index == instance_type);
        types.any(|usable| usable.offerings.iter().any(|(at, _)| *at == offering))
    });
    if !usable {
        contradiction(named, "its cheapest offering is none it may use", found);
    }
}

fn check_pods(snapshot: &Snapshot, named: &NamedLaunch<'_>, found: &mut Violations) {
    let interner = &*snapshot.interner;
    let total = Amounts::sum(named.launch.pods.iter().map(|pod| &pod.shape.requests), interner);
    for pod in &named.launch.pods {
        if let Some(taint) = taint::first_refusing(&named.pool.taints, &pod.shape.tolerations) {
            let taint = taint.to_string();
            found.add_for_placement(&named.name, &pod.key(), Rule::Taint { taint });
        }
    }
    check_selection(snapshot, named, found);
    check_volumes(snapshot, named, found);
    for usable in named.types() {
        check_type_holds(snapshot, named, usable, &total, found);
    }
    if let Some(outcome) = named.cheapest() {
        let daemons = daemons_on(snapshot, &outcome);
        let names: Vec<String> = daemons.iter().map(|d| format!("{}/{}", d.namespace, d.name)).collect();
        let besides: Vec<(&str, &PodShape)> = names
            .iter()
            .map(String::as_str)
            .zip(daemons.iter().map(|d| &*d.shape))
            .collect();
        check_ports(&named.name, named.launch.pods.iter(), &besides, found);
        if let Err(why) = holds(snapshot, &outcome, &total) {
            let name = interner.text(outcome.instance_type.name).to_owned();
            let why = format!("as the cheapest offering: {why}");
            found.add_for_node(&named.name, Rule::InstanceType { name, why });
        }
    }
}

/// Node selectors and affinity must hold for everything the launch may become. Pods of one shape are judged once.
fn check_selection(snapshot: &Snapshot, named: &NamedLaunch<'_>, found: &mut Violations) {
    let interner = &*snapshot.interner;
    let mut judged: Vec<(&PodShape, bool)> = Vec::new();
    for pod in &named.launch.pods {
        let known = judged.iter().find(|(shape, _)| **shape == *pod.shape);
        let good = known.map(|(_, good)| *good).unwrap_or_else(|| {
            let plain = pod.shape.node_selector.is_empty() && pod.shape.required_terms.is_empty();
            let good = plain
                || holds_by_launch(named, &pod.shape, interner)
                || named
                    .outcomes()
                    .all(|outcome| outcome.selected_by(&pod.shape, interner));
            judged.push((&pod.shape, good));
            good
        });
        if !good {
            let wanted = print_selection(&pod.shape, interner);
            found.add_for_placement(&named.name, &pod.key(), Rule::NodeAffinity { wanted });
        }
    }
}

/// Whether the launch's own requirements already say everything the pod asks for, so that the types need not be checked.
fn holds_by_launch(named: &NamedLaunch<'_>, shape: &PodShape, interner: &Interner) -> bool {
    let holds = |wanted: &Requirement| {
        let wanted = Expression::read(wanted, interner);
        let own = named.own_label(wanted.key, interner);
        own.may_exist() && own.always(&[wanted])
    };
    shape.node_selector.iter().all(holds)
        && (shape.required_terms.is_empty() || shape.required_terms.iter().any(|term| term.iter().all(holds)))
}

fn check_volumes(snapshot: &Snapshot, named: &NamedLaunch<'_>, found: &mut Violations) {
    let interner = &*snapshot.interner;
    for pod in &named.launch.pods {
        for volume in pod.volumes.iter().filter(|volume| !volume.topology.is_empty()) {
            let reachable = named.outcomes().all(|outcome| {
                let mut terms = volume.topology.iter();
                terms.any(|term| term.iter().all(|wanted| outcome.always(wanted, interner)))
            });
            if !reachable {
                let claim = volume.claim.to_string();
                found.add_for_placement(&named.name, &pod.key(), Rule::VolumeTopology { claim });
            }
        }
    }
}

fn daemons_on<'a>(snapshot: &'a Snapshot, outcome: &Outcome<'_>) -> Vec<&'a Daemon> {
    let daemons = snapshot.daemons.iter().map(|daemon| &**daemon);
    daemons
        .filter(|daemon| outcome.runs(daemon, &snapshot.interner))
        .collect()
}

/// Whether a machine holds pods and the daemons that will run there.
fn holds(snapshot: &Snapshot, outcome: &Outcome<'_>, pods: &Amounts<'_>) -> Result<(), String> {
    let interner = &*snapshot.interner;
    let daemons = daemons_on(snapshot, outcome);
    let mut wanted = Amounts::sum(daemons.iter().map(|daemon| &daemon.shape.requests), interner);
    wanted.add(pods);
    match wanted.short_of(&outcome.allocatable(interner)).first() {
        None => Ok(()),
        Some((name, wanted, available)) => Err(format!(
            "{} wanted, {} available",
            print_amount(name, *wanted, interner),
            print_amount(name, *available, interner)
        )),
    }
}

/// SCH-129, SCH-166: every type still offered holds the pods with at least one of its offerings, and its daemons leave their ports free.
fn check_type_holds(
    snapshot: &Snapshot,
    named: &NamedLaunch<'_>,
    usable: &OfferedType<'_>,
    total: &Amounts<'_>,
    found: &mut Violations,
) {
    let mut last = None;
    for (_, offering) in &usable.offerings {
        let outcome = named.become_one(usable.instance_type, offering);
        let fits = holds(snapshot, &outcome, total);
        let ports = || {
            let daemons = daemons_on(snapshot, &outcome);
            let mut held = daemons.iter().flat_map(|daemon| &daemon.shape.host_ports);
            let clash = |held: &HostPort| {
                let mut wanted = named
                    .launch
                    .pods
                    .iter()
                    .flat_map(|pod: &Arc<Pod>| &pod.shape.host_ports);
                wanted.any(|port| host_port::conflict(port, held))
            };
            held.any(clash)
        };
        match fits {
            Ok(()) if ports() => last = Some("a daemon holds a host port a pod wants".to_owned()),
            Ok(()) => return,
            Err(why) => last = Some(why),
        }
    }
    if let Some(why) = last {
        let name = snapshot.interner.text(usable.instance_type.name).to_owned();
        found.add_for_node(&named.name, Rule::InstanceType { name, why });
    }
}

/// SCH-319, SCH-320: requests are those of the pods plus the least daemon overhead of the types.
fn check_requests(snapshot: &Snapshot, named: &NamedLaunch<'_>, found: &mut Violations) {
    let interner = &*snapshot.interner;
    let mut least: Option<Amounts<'_>> = None;
    for usable in named.types() {
        let counts = |daemon: &&Arc<Daemon>| counts_as_overhead(snapshot, named.pool, usable.instance_type, daemon);
        let daemons = snapshot.daemons.iter().filter(counts);
        let overhead = Amounts::sum(daemons.map(|daemon| &daemon.shape.requests), interner);
        least = Some(match least {
            None => overhead,
            Some(mut least) => {
                least.0.retain(|name, _| overhead.0.contains_key(name));
                for (name, amount) in &mut least.0 {
                    *amount = overhead.of(name).min(*amount);
                }
                least
            }
        });
    }
    let mut expected = least.unwrap_or_default();
    for pod in &named.launch.pods {
        expected.add(&Amounts::read(&pod.shape.requests, interner));
    }
    let stated = Amounts::read(&named.launch.requests, interner);
    let names: BTreeSet<&str> = expected.0.keys().chain(stated.0.keys()).copied().collect();
    for name in names {
        let (right, stated) = (expected.of(name), stated.of(name));
        if right != stated {
            let (right, stated) = (
                print_amount(name, right, interner),
                print_amount(name, stated, interner),
            );
            contradiction(
                named,
                format!("it states requests of {stated}, they sum up to {right}"),
                found,
            );
        }
    }
}

/// Reports every `minValues` of the pool that the launch does not meet (SCH-275 to SCH-285).
fn check_min_values(snapshot: &Snapshot, named: &NamedLaunch<'_>, options: &CheckOptions, found: &mut Violations) {
    let mut lowered = false;
    for wanted in &named.pool.requirements {
        let Some(least) = wanted.min_values else { continue };
        let own = named.launch.requirements.get(wanted.key).and_then(|own| own.min_values);
        lowered |= own.is_some_and(|own| own < least);
        let least = if options.strict_min_values {
            least
        } else {
            own.unwrap_or(least)
        };
        let values: BTreeSet<Sym> = named
            .types()
            .iter()
            .filter_map(|usable| usable.instance_type.requirements.get(wanted.key))
            .filter(|own| !own.complement)
            .flat_map(|own| own.values.iter().copied())
            .collect();
        let values = if wanted.key == sym::INSTANCE_TYPE {
            named.types().len()
        } else {
            values.len()
        };
        if (values as u32) < least {
            let key = snapshot.interner.text(wanted.key).to_owned();
            found.add_for_node(
                &named.name,
                Rule::MinValues {
                    key,
                    wanted: least,
                    offered: values as u32,
                },
            );
        }
    }
    if lowered != named.launch.min_values_relaxed {
        contradiction(named, "it misstates whether minValues were lowered", found);
    }
}
