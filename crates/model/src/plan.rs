//! A plan: what one scheduling decision wants done, and why the rest was left.

use crate::instance_type::Catalogue;
use crate::intern::Sym;
use crate::nodepool::NodePool;
use crate::pod::{Pod, PodFault};
use crate::price::Price;
use crate::relaxation::Relaxed;
use crate::requirement::Requirements;
use crate::resources::Resources;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The result of one scheduling pass.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// Nodes to launch, in the order they were opened.
    pub launches: Vec<Launch>,
    /// Pods placed on existing nodes, in node order.
    pub existing: Vec<Placement>,
    /// Pods without a place and the reasons, sorted by namespace and name.
    pub unschedulable: Vec<Unschedulable>,
    /// Pods validation refuses (SCH-014), by namespace and name.
    pub ignored: Vec<(Arc<Pod>, Vec<PodFault>)>,
    /// Pods whose preferences were relaxed, sorted by namespace and name. Deferred pods are not among them: their outcome is not known yet.
    pub relaxed: Vec<Relaxed>,
    /// Pools whose own requirements leave no instance type (SCH-144); true where `minValues` was the cause.
    pub empty_pools: Vec<(Arc<str>, bool)>,
    /// Pods not reached before the deadline (SCH-047).
    pub unattempted: Vec<Arc<Pod>>,
    /// The order in which pods were placed, as indices into the pods passed in. Binding them in this order breaks no rule. Empty if the
    /// plan was not made pod by pod.
    pub order: Vec<u32>,
}

impl Plan {
    /// The number of pods without a place.
    pub const fn left_over(&self) -> usize {
        self.unschedulable.len() + self.unattempted.len()
    }

    /// What its launches cost per hour, each at its cheapest offering, as far as prices are known.
    pub fn price(&self) -> Price {
        self.launches.iter().filter_map(Launch::price).sum()
    }

    /// The number of pods on machines to launch.
    pub fn launched_pods(&self) -> usize {
        self.launches.iter().map(|launch| launch.pods.len()).sum()
    }

    /// The number of pods on machines that exist.
    pub fn placed_pods(&self) -> usize {
        self.existing.iter().map(|placement| placement.pods.len()).sum()
    }

    /// The pods on machines to launch, then those on machines that exist.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        let launched = self.launches.iter().flat_map(|launch| &launch.pods);
        launched.chain(self.existing.iter().flat_map(|placement| &placement.pods))
    }

    /// The plan without virtual pods, for whatever is about pods in the API: events, nominations, metrics (SCH-389, SCH-391). Launches stay,
    /// though they may have no pods then.
    pub fn without_virtual_pods(&self) -> Cow<'_, Self> {
        let refused = self.unschedulable.iter().map(|one| &one.pod);
        let ignored = self.ignored.iter().map(|(pod, _)| pod);
        let mut all = self.pods().chain(refused).chain(ignored).chain(&self.unattempted);
        if !all.any(|pod| pod.is_virtual()) {
            return Cow::Borrowed(self);
        }
        let real = |pod: &Arc<Pod>| !pod.is_virtual();
        let mut plan = self.clone();
        for launch in &mut plan.launches {
            launch.pods.retain(real);
        }
        for placement in &mut plan.existing {
            placement.pods.retain(real);
        }
        plan.existing.retain(|placement| !placement.pods.is_empty());
        plan.unschedulable.retain(|one| real(&one.pod));
        plan.ignored.retain(|(pod, _)| real(pod));
        plan.relaxed.retain(|relaxed| real(&relaxed.pod));
        plan.unattempted.retain(real);
        Cow::Owned(plan)
    }
}

/// A machine to launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Launch {
    /// The pool.
    pub pool: Arc<str>,
    /// The pool's catalogue the types index into.
    pub catalogue: Arc<Catalogue>,
    /// What the NodeClaim will ask for: final requirements, without hostname and the simulation-only keys (SCH-314), with
    /// `node.kubernetes.io/instance-type` and capacity type narrowed (SCH-315, SCH-316).
    pub requirements: Requirements,
    /// Indices into the catalogue of the types that remain, cheapest first, at most 600 (SCH-286).
    pub types: Vec<u32>,
    /// The pods planned onto it, in placement order.
    pub pods: Vec<Arc<Pod>>,
    /// Their requests plus daemon overhead (SCH-319, SCH-320).
    pub requests: Resources,
    /// Whether BestEffort lowered a `minValues` (SCH-285).
    pub min_values_relaxed: bool,
    /// The capacity reservations it holds.
    pub reservations: Vec<Sym>,
    /// The cheapest available offering the requirements still allow: type index and offering index.
    pub cheapest: Option<(u32, u32)>,
}

impl Launch {
    /// A node of the pool's template for no pods in particular; the provider chooses the instance type (SCH-402).
    pub fn of_template(pool: &NodePool) -> Self {
        Self {
            pool: Arc::clone(&pool.name),
            catalogue: pool.catalogue.clone().unwrap_or_default(),
            requirements: pool.requirements.clone(),
            types: Vec::new(),
            pods: Vec::new(),
            requests: Resources::new(),
            min_values_relaxed: false,
            reservations: Vec::new(),
            cheapest: None,
        }
    }

    /// The price of its cheapest offering; `None` if no offering is known.
    pub fn price(&self) -> Option<Price> {
        let (instance_type, offering) = self.cheapest?;
        Some(
            self.catalogue
                .types
                .get(instance_type as usize)?
                .offerings
                .get(offering as usize)?
                .price,
        )
    }
}

/// Pods placed on one existing machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Placement {
    /// The machine's name, as in the snapshot.
    pub node: Arc<str>,
    /// The pods, in placement order.
    pub pods: Vec<Arc<Pod>>,
}

/// A pod without a place.
#[derive(Clone, PartialEq, Debug)]
pub struct Unschedulable {
    /// The pod.
    pub pod: Arc<Pod>,
    /// One refusal per pool tried, in the order tried (SCH-329).
    pub refusals: Arc<[Refusal]>,
    /// Whether only reservations prevent the placement; a later pass will place the pod (SCH-298).
    pub deferred: bool,
}

impl Unschedulable {
    /// The text events show: the refusals joined (SCH-329).
    pub fn message(&self) -> String {
        if self.refusals.is_empty() {
            return Cause::NoTemplates.to_string();
        }
        let texts: Vec<String> = self.refusals.iter().map(|refusal| refusal.cause.to_string()).collect();
        texts.join("; ")
    }
}

/// Why one pool, or one existing node, does not take a pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Who refused.
    pub by: Refuser,
    /// The first cause.
    pub cause: Cause,
    /// The nearest miss in words, where one is known ("needs 9 cpu; the largest type the pool allows has 8").
    pub nearest_miss: Option<String>,
}

/// Who refused a pod.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Refuser {
    /// A new node of this pool.
    Pool(Arc<str>),
    /// This existing node.
    Node(Arc<str>),
}

/// The first cause of a refusal. `Display` prints upstream's text (section 22 of `docs/behaviour/scheduling.md`); texts inside are final.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "field names repeat the printed text")]
pub enum Cause {
    /// No pool yields a template for a new node (SCH-140).
    NoTemplates,
    /// The pool's limit on its number of nodes is reached (SCH-146).
    NodeLimit { pool: Arc<str> },
    /// Every instance type left would exceed the pool's limits (SCH-146).
    Limits { pool: Arc<str> },
    /// The pod does not tolerate this taint, given as text (SCH-114).
    Taint(String),
    /// No value of this label is known; `hint` is ` (typo of "…"?)` or empty (SCH-101).
    UndefinedLabel { key: String, hint: String, volume: bool },
    /// The pod and the candidate have no value of this label in common; what each allows is given as text (SCH-100).
    Incompatible {
        key: String,
        wanted: String,
        offered: String,
        volume: bool,
    },
    /// A topology constraint leaves no domain; counts and domains are given as text (SCH-210).
    Topology {
        kind: TopologyKind,
        key: String,
        counts: String,
        pod_domains: String,
        node_domains: String,
    },
    /// No instance type meets requirements, resources and offering together (SCH-333 to SCH-337).
    InstanceTypes {
        filter: TypeFilter,
        requirements: String,
        resources: String,
        cpu_typo: bool,
    },
    /// Too few values are left for the `minValues` of these keys, given as text (SCH-276).
    MinValues {
        keys: String,
        requirements: String,
        resources: String,
    },
    /// Too few values are left for the `minValues` of these keys once the list of types is cut to its maximum (SCH-286).
    MinValuesAfterTruncation { pool: Arc<str>, keys: String },
    /// All capacity of compatible reservations is taken (SCH-295 a).
    ReservationUnavailable,
    /// The pod would take away every compatible reserved offering (SCH-295 b).
    ReservationLost,
    /// A host port of the pod is taken; the fields of both ports are given as text (SCH-165).
    HostPort { existing: String, pod: String },
    /// The node cannot attach that many volumes of the driver (SCH-175).
    VolumeLimit { driver: String, count: u32, limit: u32 },
    /// The node has too few free resources (SCH-252).
    NodeResources,
    /// The pod's volumes allow so many combinations of places that they are not evaluated.
    VolumeChoices,
    /// An existing node may not be used for this pod; the text says why (SCH-251, SCH-432).
    NodeNotUsable(String),
    /// A pool creates no node for any pod now; the text says why. Only explanations name such pools.
    PoolNotUsable(String),
}

impl Cause {
    /// A stable name for reports and scripts.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoTemplates => "NoTemplates",
            Self::NodeLimit { .. } => "NodeLimit",
            Self::Limits { .. } => "Limits",
            Self::Taint(_) => "Taint",
            Self::UndefinedLabel { volume: false, .. } => "UndefinedLabel",
            Self::Incompatible { volume: false, .. } => "Incompatible",
            Self::UndefinedLabel { volume: true, .. } | Self::Incompatible { volume: true, .. } => "VolumeTopology",
            Self::Topology {
                kind: TopologyKind::Spread,
                ..
            } => "TopologySpread",
            Self::Topology {
                kind: TopologyKind::Affinity,
                ..
            } => "PodAffinity",
            Self::Topology {
                kind: TopologyKind::AntiAffinity,
                ..
            } => "PodAntiAffinity",
            Self::InstanceTypes { .. } => "InstanceTypes",
            Self::MinValues { .. } | Self::MinValuesAfterTruncation { .. } => "MinValues",
            Self::ReservationUnavailable => "ReservationUnavailable",
            Self::ReservationLost => "ReservationLost",
            Self::HostPort { .. } => "HostPort",
            Self::VolumeLimit { .. } => "VolumeLimit",
            Self::VolumeChoices => "VolumeChoices",
            Self::NodeResources => "NodeResources",
            Self::NodeNotUsable(_) => "NodeNotUsable",
            Self::PoolNotUsable(_) => "PoolNotUsable",
        }
    }
}

/// Which kind of topology constraint cannot be met.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TopologyKind {
    /// Topology spread.
    Spread,
    /// Pod affinity.
    Affinity,
    /// Pod anti-affinity, the pod's own or another's.
    AntiAffinity,
}

impl TopologyKind {
    /// As it stands in error texts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spread => "topology spread",
            Self::Affinity => "pod affinity",
            Self::AntiAffinity => "pod anti-affinity",
        }
    }
}

/// Which of requirements, resources and offering were met by some instance type (SCH-332).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TypeFilter {
    /// Some type met the requirements.
    pub requirements: bool,
    /// Some type had the resources.
    pub resources: bool,
    /// Some type had an offering.
    pub offering: bool,
    /// Some type met requirements and resources but had no offering.
    pub requirements_and_resources: bool,
    /// Some type met requirements and offering but lacked resources.
    pub requirements_and_offering: bool,
    /// Some type had resources and offering but not the requirements.
    pub resources_and_offering: bool,
}

impl fmt::Display for TypeFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.requirements, self.resources, self.offering) {
            (false, false, false) => {
                "no instance type met the scheduling requirements or had enough resources or had a required offering"
            }
            (false, false, true) => "no instance type met the scheduling requirements or had enough resources",
            (false, true, false) => "no instance type met the scheduling requirements or had a required offering",
            (true, false, false) => "no instance type had enough resources or had a required offering",
            (false, true, true) => "no instance type met all requirements",
            (true, false, true) => "no instance type has enough resources",
            (true, true, false) => "no instance type has the required offering",
            (true, true, true) if self.requirements_and_resources => {
                "no instance type which met the scheduling requirements and had enough resources, had a required offering"
            }
            (true, true, true) if self.resources_and_offering => {
                "no instance type which had enough resources and the required offering met the scheduling requirements"
            }
            (true, true, true) if self.requirements_and_offering => {
                "no instance type which met the scheduling requirements and the required offering had the required resources"
            }
            (true, true, true) => "no instance type met the requirements/resources/offering tuple",
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = |volume: bool| {
            if volume {
                "incompatible volume requirements"
            } else {
                "incompatible requirements"
            }
        };
        match self {
            Self::NoTemplates => f.write_str("nodepool requirements filtered out all available instance types"),
            Self::NodeLimit { pool } => write!(f, "node limits have been exhausted for nodepool (NodePool={pool})"),
            Self::Limits { pool } => write!(f, "all available instance types exceed limits for nodepool (NodePool={pool})"),
            Self::Taint(taint) => write!(f, "did not tolerate taint (taint={taint})"),
            Self::UndefinedLabel { key, hint, volume } => {
                write!(f, "{}, label \"{key}\" does not have known values{hint}", prefix(*volume))
            }
            Self::Incompatible { key, wanted, offered, volume } => {
                write!(f, "{}, key {key}, {wanted} not in {offered}", prefix(*volume))
            }
            Self::Topology { kind, key, counts, pod_domains, node_domains } => write!(
                f,
                "unsatisfiable topology constraint for {}, key={key} (counts = {counts}, podDomains = {pod_domains}, nodeDomains = {node_domains}",
                kind.as_str()
            ),
            Self::InstanceTypes { filter, requirements, resources, cpu_typo } => {
                write!(f, "{filter}, requirements={requirements}, resources={resources}")?;
                if *cpu_typo { f.write_str(" (CPU request >= 1 Million, m vs M typo?)") } else { Ok(()) }
            }
            Self::MinValues { keys, requirements, resources } => write!(
                f,
                "minValues requirement is not met for label(s) (label(s)=[{keys}]), requirements={requirements}, resources={resources}"
            ),
            Self::MinValuesAfterTruncation { pool, keys } => write!(
                f,
                "pod didn\u{2019}t schedule because NodePool couldn\u{2019}t meet minValues requirements, validating minValues, minValues requirement is not met for label(s) (label(s)=[{keys}]) (NodePool={pool})"
            ),
            Self::ReservationUnavailable => f.write_str(
                "one or more instance types with compatible reserved offerings are available, but could not be reserved",
            ),
            Self::ReservationLost => f.write_str(
                "satisfying updated nodeclaim constraints would remove all compatible reserved offering options",
            ),
            Self::HostPort { existing, pod } => {
                write!(f, "pod hostport conflicts with existing hostport configuration ({existing}, {pod})")
            }
            Self::VolumeLimit { driver, count, limit } => {
                write!(f, "would exceed volume limit (provisioner={driver}, volume-count={count}, volume-limit={limit})")
            }
            Self::VolumeChoices => f.write_str("too many combinations of volume topologies"),
            Self::NodeResources => f.write_str("exceeds node resources"),
            Self::NodeNotUsable(why) | Self::PoolNotUsable(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // SCH-295: a pod that cannot join such a node gets a node of its own, so no event shows the second text.
    #[test]
    fn refusals_for_reservations_say_which() {
        assert_eq!(
            Cause::ReservationUnavailable.to_string(),
            "one or more instance types with compatible reserved offerings are available, but could not be reserved"
        );
        assert_eq!(
            Cause::ReservationLost.to_string(),
            "satisfying updated nodeclaim constraints would remove all compatible reserved offering options"
        );
    }
}
