//! Launches, one at a time: their own consistency, and that whatever they become holds the pods planned onto them.

use crate::existing::{check_ports, print_amount};
use crate::matching::{all_satisfy_set, print_selection, repelling};
use crate::outcome::{Outcome, counts_as_overhead, usable_offerings};
use crate::violation::{CheckOptions, Findings, Rule};
use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::intern::{Sym, sym};
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::plan::Launch;
use kerf_model::pod::{Pod, PodShape};
use kerf_model::price::Price;
use kerf_model::requirement::Requirement;
use kerf_model::resources::Resources;
use kerf_model::snapshot::{Daemon, Snapshot};
use std::collections::BTreeSet;
use std::sync::Arc;

/// SCH-286.
const TYPES_MAX: usize = 600;
const SIMULATION_ONLY: [Sym; 3] = [sym::HOSTNAME, sym::REGISTERED, sym::INITIALIZED];

/// A launch with its pool, the name violations give it, and what it may become.
pub(crate) struct Named<'a> {
    pub(crate) name: String,
    pub(crate) launch: &'a Launch,
    pub(crate) pool: &'a NodePool,
    usable: Vec<Usable<'a>>,
}

/// An offered type with its offerings that are available, that the launch allows, and with which the pods fit (SCH-129).
pub(crate) struct Usable<'a> {
    index: u32,
    pub(crate) instance_type: &'a InstanceType,
    offerings: Vec<(u32, &'a Offering)>,
}

impl<'a> Named<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, name: String, launch: &'a Launch, pool: &'a NodePool) -> Self {
        let mut named = Self {
            name,
            launch,
            pool,
            usable: Vec::new(),
        };
        let usable = launch.types.iter().filter_map(|index| {
            let instance_type = launch.catalogue.types.get(*index as usize)?;
            let offerings = usable_offerings(snapshot, instance_type, &launch.requirements).collect();
            Some(Usable {
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
        let mut wanted = Resources::new();
        for pod in &self.launch.pods {
            wanted.add(&pod.shape.requests);
        }
        for daemon in &snapshot.daemons {
            if counts_as_overhead(snapshot, self.pool, instance_type, daemon) {
                wanted.add(&daemon.shape.requests);
            }
        }
        let fits = |offering: &'a Offering| {
            let available = self.become_one(instance_type, offering).allocatable(&snapshot.interner);
            wanted
                .iter()
                .all(|(name, amount)| amount <= 0 || amount <= available.get(name))
        };
        let fitting: Vec<_> = offerings
            .iter()
            .copied()
            .filter(|(_, offering)| fits(offering))
            .collect();
        if fitting.is_empty() { offerings } else { fitting }
    }

    /// The offered types that exist.
    pub(crate) fn types(&self) -> &[Usable<'a>] {
        &self.usable
    }

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

pub(crate) fn check(snapshot: &Snapshot, named: &Named<'_>, options: &CheckOptions, found: &mut Findings) {
    check_pool(named, found);
    check_requirements(snapshot, named, found);
    check_types(snapshot, named, found);
    check_pods(snapshot, named, found);
    check_requests(snapshot, named, found);
    check_min_values(snapshot, named, options, found);
}

fn inconsistent(named: &Named<'_>, why: impl Into<String>, found: &mut Findings) {
    found.node(&named.name, Rule::Launch { why: why.into() });
}

fn check_pool(named: &Named<'_>, found: &mut Findings) {
    let why = match &named.pool.eligibility {
        Eligibility::Eligible => None,
        Eligibility::Static => Some("it has a fixed number of nodes".to_owned()),
        Eligibility::NotReady(message) => Some(format!("it is not ready: {message}")),
        Eligibility::Deleting => Some("it is being deleted".to_owned()),
        Eligibility::ForeignNodeClass => Some("its node class is foreign".to_owned()),
    };
    if let Some(why) = why {
        found.node(&named.name, Rule::Pool { why });
    }
    match &named.pool.catalogue {
        Err(fault) => found.node(&named.name, Rule::Pool { why: fault.to_string() }),
        Ok(catalogue) if !Arc::ptr_eq(catalogue, &named.launch.catalogue) && *catalogue != named.launch.catalogue => {
            inconsistent(named, "its catalogue is not the pool's", found);
        }
        Ok(_) => {}
    }
    if named.launch.pods.is_empty() {
        inconsistent(named, "no pod needs it", found);
    }
}

/// SCH-314 to SCH-316, SCH-109: the requirements stay within the pool's, define nothing of their own and name the types.
fn check_requirements(snapshot: &Snapshot, named: &Named<'_>, found: &mut Findings) {
    let interner = &*snapshot.interner;
    let (launch, pool) = (named.launch, named.pool);
    for key in SIMULATION_ONLY {
        if launch.requirements.get(key).is_some() {
            inconsistent(named, format!("{} is for simulation only", interner.text(key)), found);
        }
    }
    for wanted in pool.requirements.iter().filter(|r| !SIMULATION_ONLY.contains(&r.key)) {
        let own = launch.requirements.get(wanted.key);
        if own.is_none() || !all_satisfy(wanted, own, snapshot) {
            let text = own.map_or_else(|| "nothing".to_owned(), |own| own.print(interner));
            inconsistent(
                named,
                format!("{text} is wider than the pool's {}", wanted.print(interner)),
                found,
            );
        }
    }
    for own in &launch.requirements {
        let defined = pool.requirements.get(own.key).is_some() || pool.labels.iter().any(|(key, _)| *key == own.key);
        let reservation = snapshot.reservation_key == Some(own.key);
        if !defined && !snapshot.is_well_known(own.key) && !own.admits_absence() && !reservation {
            inconsistent(
                named,
                format!("no pool defines the label of {}", own.print(interner)),
                found,
            );
        }
    }
    let names: BTreeSet<Sym> = named.types().iter().map(|usable| usable.instance_type.name).collect();
    let listed = launch.requirements.get(sym::INSTANCE_TYPE);
    if !listed.is_some_and(|r| !r.complement && r.values.iter().copied().collect::<BTreeSet<_>>() == names) {
        inconsistent(named, "its instance type requirement does not list its types", found);
    }
    let realised: BTreeSet<Sym> = named
        .outcomes()
        .filter_map(|outcome| outcome.offering.capacity_type())
        .collect();
    let listed = launch.requirements.get(sym::CAPACITY_TYPE);
    if !realised.is_empty() && !listed.is_some_and(|r| !r.complement && r.values.iter().all(|v| realised.contains(v))) {
        inconsistent(
            named,
            "its capacity type requirement names more than its types offer",
            found,
        );
    }
}

fn all_satisfy(wanted: &Requirement, open: Option<&Requirement>, snapshot: &Snapshot) -> bool {
    crate::matching::all_satisfy(wanted, open, &snapshot.interner)
        || open.is_some_and(|open| open.admits_absence() && wanted.admits_absence() && open.is_does_not_exist())
}

/// SCH-132, SCH-286, SCH-302, SCH-321: the list of types is sound and sorted, and the cheapest offering is the cheapest.
fn check_types(snapshot: &Snapshot, named: &Named<'_>, found: &mut Findings) {
    let launch = named.launch;
    let interner = &*snapshot.interner;
    if launch.types.is_empty() {
        inconsistent(named, "it offers no instance type", found);
    }
    if launch.types.len() > TYPES_MAX {
        inconsistent(named, format!("it offers more than {TYPES_MAX} instance types"), found);
    }
    if launch.types.iter().collect::<BTreeSet<_>>().len() != launch.types.len() {
        inconsistent(named, "it lists an instance type twice", found);
    }
    if named.types().len() != launch.types.len() {
        inconsistent(named, "it lists instance types the catalogue does not have", found);
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
            found.node(&named.name, Rule::InstanceType { name: name(), why });
            continue;
        };
        if price < before {
            inconsistent(named, format!("its types are not sorted by price at {}", name()), found);
        }
        before = price;
        lowest = Some(lowest.map_or(price, |lowest| lowest.min(price)));
        if instance_type
            .requirements
            .intersects(&launch.requirements, interner)
            .is_err()
        {
            let why = "it is not what the launch requires".to_owned();
            found.node(&named.name, Rule::InstanceType { name: name(), why });
        }
    }
    if lowest.is_none() && !launch.reservations.is_empty() {
        inconsistent(named, "no type has an offering of a reservation it holds", found);
    }
    if launch.price() != lowest {
        let text = |price: Option<Price>| price.map_or_else(|| "none".to_owned(), |price| price.to_string());
        let why = format!(
            "its cheapest offering costs {}, the plan says {}",
            text(lowest),
            text(launch.price())
        );
        inconsistent(named, why, found);
    }
    let usable = launch.cheapest.is_none_or(|(instance_type, offering)| {
        let mut types = named.types().iter().filter(|usable| usable.index == instance_type);
        types.any(|usable| usable.offerings.iter().any(|(at, _)| *at == offering))
    });
    if !usable {
        inconsistent(named, "its cheapest offering is none it may use", found);
    }
}

fn check_pods(snapshot: &Snapshot, named: &Named<'_>, found: &mut Findings) {
    let interner = &*snapshot.interner;
    let mut total = Resources::new();
    for pod in &named.launch.pods {
        total.add(&pod.shape.requests);
        if let Some(taint) = repelling(&named.pool.taints, &pod.shape.tolerations) {
            let taint = taint.to_string();
            found.placement(&named.name, &pod.key(), Rule::Taint { taint });
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
            found.node(&named.name, Rule::InstanceType { name, why });
        }
    }
}

/// Node selectors and affinity must hold for everything the launch may become. Pods of one shape are judged once.
fn check_selection(snapshot: &Snapshot, named: &Named<'_>, found: &mut Findings) {
    let interner = &*snapshot.interner;
    let mut judged: Vec<(&PodShape, bool)> = Vec::new();
    for pod in &named.launch.pods {
        let known = judged.iter().find(|(shape, _)| std::ptr::eq(*shape, &*pod.shape));
        let good = known.map(|(_, good)| *good).unwrap_or_else(|| {
            let plain = pod.shape.node_selector.is_empty() && pod.shape.required_terms.is_empty();
            let good = plain
                || holds_by_launch(named.launch, &pod.shape, snapshot)
                || named
                    .outcomes()
                    .all(|outcome| outcome.selected_by(&pod.shape, interner));
            judged.push((&pod.shape, good));
            good
        });
        if !good {
            let wanted = print_selection(&pod.shape, interner);
            found.placement(&named.name, &pod.key(), Rule::NodeAffinity { wanted });
        }
    }
}

/// Whether the launch's own requirements already say everything the pod asks for, so that the types need not be looked at.
fn holds_by_launch(launch: &Launch, shape: &PodShape, snapshot: &Snapshot) -> bool {
    let holds = |wanted: &Requirement| {
        let own = launch
            .requirements
            .get(wanted.key)
            .filter(|own| !own.is_does_not_exist());
        own.is_some() && crate::matching::all_satisfy(wanted, own, &snapshot.interner)
    };
    shape.node_selector.iter().all(holds)
        && (shape.required_terms.is_empty() || shape.required_terms.iter().any(|term| term.iter().all(holds)))
}

fn check_volumes(snapshot: &Snapshot, named: &Named<'_>, found: &mut Findings) {
    let interner = &*snapshot.interner;
    for pod in &named.launch.pods {
        for volume in pod.volumes.iter().filter(|volume| !volume.topology.is_empty()) {
            let reachable = named.outcomes().all(|outcome| {
                let mut terms = volume.topology.iter();
                terms.any(|term| all_satisfy_set(term, interner, |key| outcome.label(key, interner)))
            });
            if !reachable {
                let claim = volume.claim.to_string();
                found.placement(&named.name, &pod.key(), Rule::VolumeTopology { claim });
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
fn holds(snapshot: &Snapshot, outcome: &Outcome<'_>, pods: &Resources) -> Result<(), String> {
    let interner = &*snapshot.interner;
    let mut wanted = pods.clone();
    for daemon in daemons_on(snapshot, outcome) {
        wanted.add(&daemon.shape.requests);
    }
    let available = outcome.allocatable(interner);
    match wanted
        .iter()
        .find(|(name, amount)| *amount > 0 && *amount > available.get(*name))
    {
        None => Ok(()),
        Some((name, amount)) => Err(format!(
            "{} wanted, {} available",
            print_amount(name, amount, interner),
            print_amount(name, available.get(name), interner)
        )),
    }
}

/// SCH-129, SCH-166: every type still offered holds the pods with at least one of its offerings, and its daemons leave their ports free.
fn check_type_holds(
    snapshot: &Snapshot,
    named: &Named<'_>,
    usable: &Usable<'_>,
    total: &Resources,
    found: &mut Findings,
) {
    let mut last = None;
    for (_, offering) in &usable.offerings {
        let outcome = named.become_one(usable.instance_type, offering);
        let fits = holds(snapshot, &outcome, total);
        let ports = || {
            let daemons = daemons_on(snapshot, &outcome);
            let mut held = daemons.iter().flat_map(|daemon| &daemon.shape.host_ports);
            let clash = |held: &kerf_model::pod::HostPort| {
                let mut wanted = named
                    .launch
                    .pods
                    .iter()
                    .flat_map(|pod: &Arc<Pod>| &pod.shape.host_ports);
                wanted.any(|port| port.conflicts(held))
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
        found.node(&named.name, Rule::InstanceType { name, why });
    }
}

/// SCH-319, SCH-320: requests are those of the pods plus the least daemon overhead of the types.
fn check_requests(snapshot: &Snapshot, named: &Named<'_>, found: &mut Findings) {
    let mut least: Option<Resources> = None;
    for usable in named.types() {
        let mut overhead = Resources::new();
        let counts = |daemon: &&Arc<Daemon>| counts_as_overhead(snapshot, named.pool, usable.instance_type, daemon);
        for daemon in snapshot.daemons.iter().filter(counts) {
            overhead.add(&daemon.shape.requests);
        }
        least = Some(match least {
            None => overhead,
            Some(least) => least
                .iter()
                .filter(|(name, _)| overhead.contains(*name))
                .map(|(name, amount)| (name, amount.min(overhead.get(name))))
                .collect(),
        });
    }
    let mut expected = least.unwrap_or_default();
    for pod in &named.launch.pods {
        expected.add(&pod.shape.requests);
    }
    let names: BTreeSet<Sym> = expected
        .iter()
        .chain(named.launch.requests.iter())
        .map(|(name, _)| name)
        .collect();
    for name in names {
        let (right, stated) = (expected.get(name), named.launch.requests.get(name));
        if right != stated {
            let interner = &*snapshot.interner;
            let (right, stated) = (
                print_amount(name, right, interner),
                print_amount(name, stated, interner),
            );
            inconsistent(
                named,
                format!("it states requests of {stated}, they sum up to {right}"),
                found,
            );
        }
    }
}

/// SCH-275 to SCH-285.
fn check_min_values(snapshot: &Snapshot, named: &Named<'_>, options: &CheckOptions, found: &mut Findings) {
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
            found.node(
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
        inconsistent(named, "it misstates whether minValues were lowered", found);
    }
}
