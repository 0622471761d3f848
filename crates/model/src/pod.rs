//! Pods as decisions see them: the scheduling shape equal pods share, and the facts of each pod.

use crate::intern::Sym;
use crate::requirement::{Requirement, Requirements};
use crate::resources::Resources;
use crate::selector::{LabelSelector, LabelSet};
use crate::taint::Toleration;
use jiff::Timestamp;
use std::sync::Arc;

/// The parts of a pod's spec that placement depends on. Pods of one workload share one shape, so work is done per shape.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PodShape {
    /// The effective request (SCH-120), including `pods: 1`.
    pub requests: Resources,
    /// The node selector as requirements, keys normalised (SCH-099).
    pub node_selector: Requirements,
    /// The terms of required node affinity, any of which suffices; each term's expressions are all required. Terms are in the order written.
    pub required_terms: Vec<Vec<Requirement>>,
    /// Preferred node affinity: weight and expressions, in the order written.
    pub preferred_terms: Vec<(i32, Vec<Requirement>)>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Topology spread constraints, in the order written.
    pub spread: Vec<SpreadConstraint>,
    /// Required pod affinity terms.
    pub affinity: Vec<AffinityTerm>,
    /// Required pod anti-affinity terms.
    pub anti_affinity: Vec<AffinityTerm>,
    /// Preferred pod affinity: weight and term.
    pub preferred_affinity: Vec<(i32, AffinityTerm)>,
    /// Preferred pod anti-affinity: weight and term.
    pub preferred_anti_affinity: Vec<(i32, AffinityTerm)>,
    /// Host ports of the containers (SCH-163).
    pub host_ports: Vec<HostPort>,
}

/// A topology spread constraint. `matchLabelKeys` is already merged into the selector (SCH-194).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SpreadConstraint {
    /// The node label whose values are the domains.
    pub key: Sym,
    /// The largest allowed difference between a domain's count and the smallest one.
    pub max_skew: u32,
    /// `DoNotSchedule` (true) or `ScheduleAnyway`.
    pub required: bool,
    /// The least number of domains, below which the smallest count is taken as zero.
    pub min_domains: Option<u32>,
    /// Which pods are counted.
    pub selector: LabelSelector,
    /// `nodeAffinityPolicy: Honor` (the default).
    pub honor_node_affinity: bool,
    /// `nodeTaintsPolicy: Honor` (not the default).
    pub honor_taints: bool,
}

/// A pod affinity or anti-affinity term.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct AffinityTerm {
    /// The node label whose values are the domains.
    pub key: Sym,
    /// Which pods attract or repel; match and mismatch label keys are already merged.
    pub selector: LabelSelector,
    /// In which namespaces.
    pub namespaces: NamespaceScope,
}

/// The namespaces of an affinity term (SCH-193).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NamespaceScope {
    /// Named ones, sorted; the pod's own where neither list nor selector is given.
    pub names: Vec<Arc<str>>,
    /// Those whose labels match, besides.
    pub selector: Option<LabelSelector>,
}

/// A claimed host port.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct HostPort {
    /// The address; `0.0.0.0` where none was given.
    pub ip: Arc<str>,
    /// The port.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Arc<str>,
}

impl HostPort {
    /// Whether port and protocol are equal and the addresses are equal or one is unspecified (SCH-164).
    pub fn conflicts(&self, other: &Self) -> bool {
        let any = |ip: &str| ip == "0.0.0.0" || ip == "::";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || any(&self.ip) || any(&other.ip))
    }
}

/// A volume of a pod, resolved through its claim, volume and storage class.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PodVolume {
    /// `namespace/name` of the claim: attach limits count distinct claims (SCH-175).
    pub claim: Arc<str>,
    /// The CSI driver whose attach limit it counts against, if any (SCH-174).
    pub driver: Option<Arc<str>>,
    /// Where the volume is reachable: any of these requirements; empty for everywhere (SCH-178).
    pub topology: Vec<Requirements>,
}

/// Where a pod is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Phase {
    /// Not started.
    #[default]
    Pending,
    /// Started.
    Running,
    /// Ended without error.
    Succeeded,
    /// Ended with an error.
    Failed,
    /// The node does not report the pod's state.
    Unknown,
}

impl Phase {
    /// Whether the pod will never run again.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Who made the pod, as far as decisions care (SCH-011, SCH-026).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Owner {
    /// Nobody: a bare pod.
    #[default]
    None,
    /// An `apps/v1` DaemonSet.
    DaemonSet,
    /// A `v1` Node: a static pod.
    Node,
    /// An `apps/v1` StatefulSet.
    StatefulSet,
    /// An `apps/v1` ReplicaSet.
    ReplicaSet,
    /// A `batch/v1` Job.
    Job,
    /// Anything else.
    Other,
}

/// The `karpenter.sh/do-not-disrupt` annotation (SCH-027).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum DoNotDisrupt {
    /// Absent.
    #[default]
    No,
    /// `true`.
    Always,
    /// A positive duration from the pod's start, in nanoseconds.
    ForNanos(i64),
    /// Zero, negative or unparsable text: ignored, with a Warning.
    Invalid(Arc<str>),
}

/// A pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pod {
    /// Its unique id.
    pub uid: Arc<str>,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: Arc<LabelSet>,
    /// What placement depends on, shared between equal pods.
    pub shape: Arc<PodShape>,
    /// Its volumes, as far as they constrain placement.
    pub volumes: Vec<PodVolume>,
    /// Why validation refuses it; empty for a valid pod (SCH-014 to SCH-024).
    pub faults: Vec<PodFault>,
    /// When it was created.
    pub created: Timestamp,
    /// When the kubelet accepted it.
    pub started: Option<Timestamp>,
    /// When deletion was asked for, plus its grace period; `None` while it is not being deleted.
    pub deletion: Option<Timestamp>,
    /// Its phase.
    pub phase: Phase,
    /// Its Ready condition.
    pub ready: Option<bool>,
    /// The node it is bound to.
    pub node_name: Option<Arc<str>>,
    /// Who made it.
    pub owner: Owner,
    /// Its priority.
    pub priority: i32,
    /// Its priority class is `system-cluster-critical` or `system-node-critical`: it is drained last (LIF-101).
    pub critical: bool,
    /// `controller.kubernetes.io/pod-deletion-cost`.
    pub deletion_cost: i32,
    /// Its do-not-disrupt annotation.
    pub do_not_disrupt: DoNotDisrupt,
    /// Its termination grace period in seconds; API servers always give one.
    pub grace_seconds: Option<i64>,
    /// `namespace/name` of the CapacityBuffer that it keeps room for; `None` for a pod that exists in the API (SCH-389).
    pub capacity_buffer: Option<Arc<str>>,
}

impl Pod {
    /// A pending pod without owner that asks for nothing. Its unique id is `namespace/name`, and it was created at the epoch.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            uid: format!("{namespace}/{name}").into(),
            namespace: namespace.into(),
            name: name.into(),
            labels: Arc::default(),
            shape: Arc::default(),
            volumes: Vec::new(),
            faults: Vec::new(),
            created: Timestamp::UNIX_EPOCH,
            started: None,
            deletion: None,
            phase: Phase::Pending,
            ready: None,
            node_name: None,
            owner: Owner::None,
            priority: 0,
            critical: false,
            deletion_cost: 0,
            do_not_disrupt: DoNotDisrupt::No,
            grace_seconds: None,
            capacity_buffer: None,
        }
    }

    /// Whether it exists for planning only, to keep the room of a CapacityBuffer (SCH-386).
    pub const fn is_virtual(&self) -> bool {
        self.capacity_buffer.is_some()
    }

    /// `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether the pod is neither terminal nor being deleted (SCH-026).
    pub fn is_active(&self) -> bool {
        !self.phase.is_terminal() && self.deletion.is_none()
    }

    /// Whether the do-not-disrupt annotation holds at `now` (SCH-027).
    pub fn do_not_disrupt_active(&self, now: Timestamp) -> bool {
        match &self.do_not_disrupt {
            DoNotDisrupt::No | DoNotDisrupt::Invalid(_) => false,
            DoNotDisrupt::Always => true,
            DoNotDisrupt::ForNanos(nanos) => self
                .started
                .is_none_or(|start| now.as_nanosecond().saturating_sub(start.as_nanosecond()) < i128::from(*nanos)),
        }
    }
}

/// Why validation refuses a pod. `Display` prints upstream's text (sections 2.2 and 14.1 of `docs/behaviour/scheduling.md`).
#[derive(Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum PodFault {
    /// The pod requires the absence of the pool label (SCH-016).
    #[error("configured to not run on a Karpenter provisioned node (requirement=karpenter.sh/nodepool DoesNotExist)")]
    OptedOut,
    /// An expression is not a valid requirement; the text says which and why (SCH-017, SCH-018, SCH-021, SCH-022).
    #[error("{0}")]
    Requirement(Arc<str>),
    /// A node selector term has `matchFields` (SCH-019).
    #[error("node selector term with matchFields is not supported")]
    MatchFields,
    /// A volume cannot be used; the text says which and why (SCH-169 to SCH-173).
    #[error("{0}")]
    Volume(Arc<str>),
    /// The pod has resource claims (SCH-338).
    #[error("pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter")]
    ResourceClaims,
    /// An amount or field that cannot be read; the text names it.
    #[error("{0}")]
    Malformed(Arc<str>),
}

impl PodFault {
    /// A stable name for reports and scripts.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::OptedOut => "OptedOut",
            Self::Requirement(_) => "Requirement",
            Self::MatchFields => "MatchFields",
            Self::Volume(_) => "Volume",
            Self::ResourceClaims => "ResourceClaims",
            Self::Malformed(_) => "Malformed",
        }
    }
}
