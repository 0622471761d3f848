//! Converts a lean pod to a model pod and the facts that the mirror keeps about it.

use super::{Converter, requests};
use crate::lean::{
    LabelKeyExpression, LeanCondition, LeanDaemonSet, LeanPod, LeanPodSpec, LeanPodStatus, LeanPort, LeanToleration,
};
use crate::object::name_and_uid;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kerf_api::annotations;
use kerf_api::conditions::pod::NOMINATED;
use kerf_model::intern::sym;
use kerf_model::pod::{DoNotDisrupt, HostPort, Owner, Phase, Pod, PodFault, PodShape};
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use kerf_model::selector::LabelSet;
use kerf_model::taint::{Effect, Toleration, TolerationOperator};
use kerf_units::duration::GoDuration;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name of kube-scheduler's first profile, unless it is configured otherwise.
const DEFAULT_SCHEDULER: &str = "default-scheduler";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// LIF-101: by name, not by value.
const CRITICAL_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// A pod with what the mirror needs besides the model's view.
#[derive(Clone, PartialEq, Debug)]
pub struct PodFacts {
    /// The pod; its volumes and their faults are resolved later, against the claims the mirror knows.
    pub pod: Pod,
    /// The names of the volume claims it uses, in its own namespace (SCH-169).
    pub claims: Vec<Arc<str>>,
    /// Whether it is provisionable (SCH-008 to SCH-013).
    pub provisionable: bool,
    /// Whether it is untried: it would be provisionable if kube-scheduler had tried it.
    pub untried: bool,
    /// It has scheduling gates, so no scheduler binds it (SCH-009).
    pub gated: bool,
    /// The unique id of the DaemonSet that controls it.
    pub daemon_set: Option<Arc<str>>,
    /// Which nodes it was nominated to; `None` if to none, and for bound pods.
    pub nomination: Option<Box<NodeNomination>>,
    /// The facts that metrics show.
    pub measures: PodMeasures,
}

/// The facts about a pod that metrics show and decisions do not read.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PodMeasures {
    /// When it was bound, by its condition PodScheduled; `None` while that is not True.
    pub bound: Option<Timestamp>,
    /// When it became ready, by its condition Ready; `None` while that is not True.
    pub ready: Option<Timestamp>,
    /// The path of its first owner (OPS-134); `None` for a bare pod.
    pub owner: Option<Arc<str>>,
    /// Its effective limits.
    pub limits: Arc<Resources>,
}

/// Which nodes a pod that waits was nominated to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeNomination {
    /// The node it is nominated to now.
    pub current: Option<Arc<str>>,
    /// The node that Kerf nominated it to last.
    pub by_kerf: Option<Arc<str>>,
}

impl NodeNomination {
    fn read(status: &LeanPodStatus) -> Option<Box<Self>> {
        let current = Some(status.nominated_node_name.as_str());
        let mut conditions = status.conditions.iter();
        let by_kerf = conditions.find(|condition| condition.kind == NOMINATED);
        let by_kerf = by_kerf.map(|condition| condition.message.as_str());
        let [current, by_kerf] = [current, by_kerf].map(|name| name.filter(|name| !name.is_empty()).map(Arc::from));
        let nomination = Self { current, by_kerf };
        (nomination != Self::default()).then(|| Box::new(nomination))
    }

    /// Whether the pod is nominated to the node that Kerf chose. Otherwise kube-scheduler preempts other pods for it.
    pub fn is_by_kerf(&self) -> bool {
        self.current.is_some() && self.current == self.by_kerf
    }
}

impl Converter {
    /// Converts a pod; `None` without a name or unique id. It is validated (SCH-014 to SCH-024) if it is unbound: a bound pod was accepted
    /// already.
    pub fn pod(&mut self, lean: &LeanPod) -> Option<PodFacts> {
        let meta = &lean.metadata;
        let (name, uid) = name_and_uid(meta)?;
        let (spec, status) = (&lean.spec, &lean.status);
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        let owner = owner(owners);
        let unbound = spec.node_name.is_empty();
        let namespace = self.text(meta.namespace.as_deref().unwrap_or("default"));
        let labels = self.label_set(meta.labels.as_ref());
        let mut malformed = Vec::new();
        let shape = self.shape(spec, status, &namespace, &labels, owners, &mut malformed);
        let mut faults: Vec<PodFault> = malformed
            .into_iter()
            .map(|text| PodFault::Malformed(text.into()))
            .collect();
        if unbound {
            self.validate(spec, &shape, &mut faults);
        }
        let nomination = NodeNomination::read(status).filter(|_| unbound);
        let node_name = (!unbound).then(|| self.text(&spec.node_name));
        Some(PodFacts {
            provisionable: provisionable(lean, owner, nomination.as_deref()),
            untried: untried(lean, owner, nomination.as_deref()),
            nomination,
            gated: !spec.scheduling_gates.is_empty(),
            claims: claim_names(spec, name),
            daemon_set: controlling_daemon_set(owners),
            measures: self.measures(lean, owners.first(), &namespace),
            pod: Pod {
                uid: Arc::from(uid),
                namespace,
                name: Arc::from(name),
                labels,
                shape,
                volumes: Vec::new(),
                faults,
                created: created(meta),
                started: status.start_time.as_ref().map(|time| time.0),
                deletion: meta.deletion_timestamp.as_ref().map(|time| time.0),
                phase: phase(&status.phase),
                ready: status
                    .conditions
                    .iter()
                    .find(|condition| condition.kind == "Ready")
                    .and_then(|condition| match condition.status.as_str() {
                        "True" => Some(true),
                        "False" => Some(false),
                        _ => None,
                    }),
                node_name,
                owner,
                priority: spec.priority.unwrap_or(0),
                critical: spec
                    .priority_class_name
                    .as_deref()
                    .is_some_and(|class| CRITICAL_CLASSES.contains(&class)),
                deletion_cost: deletion_cost(meta),
                do_not_disrupt: do_not_disrupt(meta),
                grace_seconds: spec.termination_grace_period_seconds,
                capacity_buffer: None,
            },
        })
    }

    fn measures(&mut self, lean: &LeanPod, owner: Option<&OwnerReference>, namespace: &str) -> PodMeasures {
        let since = |kind: &str| {
            let mut conditions = lean.status.conditions.iter();
            let condition = conditions.find(|one| one.kind == kind && one.status == "True")?;
            condition.last_transition_time.as_ref().map(|time| time.0)
        };
        let path = |owner: &OwnerReference| {
            let kind = owner.kind.to_lowercase();
            format!(
                "/apis/{}/namespaces/{namespace}/{kind}s/{}",
                owner.api_version, owner.name
            )
        };
        PodMeasures {
            bound: since("PodScheduled"),
            ready: since("Ready"),
            owner: owner.map(path).map(|path| self.text(&path)),
            limits: self.limits.share(requests::limits(&lean.spec, &self.interner)),
        }
    }

    /// The shape of the pods a DaemonSet would make, from its template alone (SCH-121, SCH-153).
    pub(crate) fn template_shape(&mut self, daemon_set: &LeanDaemonSet) -> Arc<PodShape> {
        let mut spec = daemon_set.spec.template.spec.clone();
        requests::default_from_limits(&mut spec);
        let namespace = self.text(daemon_set.metadata.namespace.as_deref().unwrap_or("default"));
        let labels = self.label_set(Some(&daemon_set.spec.template.metadata.labels));
        self.shape(
            &spec,
            &LeanPodStatus::default(),
            &namespace,
            &labels,
            &[],
            &mut Vec::new(),
        )
    }

    /// A shape with other alternatives of required node affinity (SCH-153).
    pub(crate) fn shape_with_terms(&mut self, shape: &PodShape, terms: Vec<Vec<Requirement>>) -> Arc<PodShape> {
        self.shapes.share(PodShape {
            required_terms: terms,
            ..shape.clone()
        })
    }

    pub(crate) fn label_set(&mut self, labels: Option<&BTreeMap<String, String>>) -> Arc<LabelSet> {
        let pairs = labels
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        self.label_sets.share(pairs.collect())
    }

    fn shape(
        &mut self,
        spec: &LeanPodSpec,
        status: &LeanPodStatus,
        namespace: &Arc<str>,
        labels: &LabelSet,
        owners: &[OwnerReference],
        malformed: &mut Vec<String>,
    ) -> Arc<PodShape> {
        let mut shape = PodShape {
            requests: requests::effective(spec, status, &self.interner, malformed),
            tolerations: spec.tolerations.iter().filter_map(toleration).collect(),
            host_ports: host_ports(spec),
            ..PodShape::default()
        };
        self.constraints(spec, namespace, labels, &mut shape);
        if shape.spread.is_empty() {
            shape.spread = self.default_constraints(owners, labels);
        }
        self.shapes.share(shape)
    }

    /// Section 2.2, but for volumes.
    fn validate(&self, spec: &LeanPodSpec, shape: &PodShape, faults: &mut Vec<PodFault>) {
        if self.opted_out(shape) {
            faults.push(PodFault::OptedOut);
        }
        let mut texts = Vec::new();
        for (key, value) in &spec.node_selector {
            self.requirement_faults(key, "In", std::slice::from_ref(value), &mut texts);
        }
        let required = spec.affinity.node_affinity.required.as_ref();
        let terms = required.map_or(&[][..], |selector| &selector.node_selector_terms);
        for LabelKeyExpression { key, operator, values } in terms.iter().flat_map(|term| &term.match_expressions) {
            self.requirement_faults(key, operator, values, &mut texts);
        }
        faults.extend(texts.into_iter().map(|text| PodFault::Requirement(text.into())));
        if terms.iter().any(|term| !term.match_fields.is_empty()) {
            faults.push(PodFault::MatchFields);
        } else if required.is_some() && shape.required_terms.is_empty() {
            faults.push(PodFault::Malformed(
                "required node affinity without expressions matches no node; add an expression or remove it".into(),
            ));
        }
        if self.refuses_claims(spec) {
            faults.push(PodFault::ResourceClaims);
        }
    }

    /// Whether the pod is refused because it has resource claims (SCH-005, SCH-161).
    pub(crate) fn refuses_claims(&self, spec: &LeanPodSpec) -> bool {
        self.conventions.given.refuse_resource_claims && !spec.resource_claims.is_empty()
    }

    /// SCH-016: the pod's full requirements ask for the absence of a pool.
    fn opted_out(&self, shape: &PodShape) -> bool {
        let first = shape.required_terms.first().into_iter().flatten();
        // The heaviest, and of equals the first.
        let heaviest = shape.preferred_terms.iter().rev().max_by_key(|(weight, _)| *weight);
        let preferred = heaviest.into_iter().flat_map(|(_, term)| term);
        let on_pool = shape
            .node_selector
            .iter()
            .chain(first)
            .chain(preferred)
            .filter(|r| r.key == sym::NODEPOOL);
        Requirements::from_all(on_pool.cloned(), &self.interner)
            .get(sym::NODEPOOL)
            .is_some_and(Requirement::is_does_not_exist)
    }
}

/// Whether a pod waits for capacity (SCH-008 to SCH-013).
fn provisionable(lean: &LeanPod, owner: Owner, nomination: Option<&NodeNomination>) -> bool {
    let unschedulable = |reason: &str| reason == "Unschedulable";
    let mut scheduled = conditions_of_scheduling(lean);
    needs_node(lean, owner, nomination) && scheduled.any(|condition| unschedulable(&condition.reason))
}

/// Whether a pod waits for its first turn in the queue of kube-scheduler. Pods of other schedulers are never untried: it is unknown whether these
/// set the condition PodScheduled, and without it their pods would count as untried for ever.
fn untried(lean: &LeanPod, owner: Owner, nomination: Option<&NodeNomination>) -> bool {
    needs_node(lean, owner, nomination)
        && matches!(lean.spec.scheduler_name.as_str(), "" | DEFAULT_SCHEDULER)
        && lean.spec.scheduling_gates.is_empty()
        && lean.metadata.deletion_timestamp.is_none()
        && phase(&lean.status.phase) == Phase::Pending
        && conditions_of_scheduling(lean).next().is_none()
}

/// Whether a pod has no node and may get one from a scheduler other than by preemption. A pod that Kerf nominated still may: kube-scheduler
/// may find no room there.
fn needs_node(lean: &LeanPod, owner: Owner, nomination: Option<&NodeNomination>) -> bool {
    let preempts = nomination.is_some_and(|nomination| nomination.current.is_some() && !nomination.is_by_kerf());
    lean.spec.node_name.is_empty() && !preempts && !matches!(owner, Owner::DaemonSet | Owner::Node)
}

/// The conditions `PodScheduled` of a pod.
fn conditions_of_scheduling(lean: &LeanPod) -> impl Iterator<Item = &LeanCondition> {
    let conditions = lean.status.conditions.iter();
    conditions.filter(|condition| condition.kind == "PodScheduled")
}

/// SCH-011: any owner counts, the most specific one first.
fn owner(owners: &[OwnerReference]) -> Owner {
    let kinds = [
        ("apps/v1", "DaemonSet", Owner::DaemonSet),
        ("v1", "Node", Owner::Node),
        ("apps/v1", "StatefulSet", Owner::StatefulSet),
        ("apps/v1", "ReplicaSet", Owner::ReplicaSet),
        ("batch/v1", "Job", Owner::Job),
    ];
    let is = |version: &str, kind: &str| owners.iter().any(|o| o.api_version == version && o.kind == kind);
    let known = kinds
        .into_iter()
        .find(|(version, kind, _)| is(version, kind))
        .map(|(_, _, owner)| owner);
    known.unwrap_or(if owners.is_empty() { Owner::None } else { Owner::Other })
}

fn controlling_daemon_set(owners: &[OwnerReference]) -> Option<Arc<str>> {
    let controller = owners.iter().find(|owner| owner.controller == Some(true))?;
    (controller.kind == "DaemonSet" && controller.api_version == "apps/v1").then(|| Arc::from(controller.uid.as_str()))
}

/// When an object was made; the beginning of time for one that never met an API server.
pub(super) fn created(meta: &ObjectMeta) -> Timestamp {
    meta.creation_timestamp
        .as_ref()
        .map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

fn phase(text: &str) -> Phase {
    match text {
        "Running" => Phase::Running,
        "Succeeded" => Phase::Succeeded,
        "Failed" => Phase::Failed,
        "Unknown" => Phase::Unknown,
        _ => Phase::Pending,
    }
}

/// The protection by the annotation `karpenter.sh/do-not-disrupt`; an illegible value protects nothing (SCH-027, DIS-052, DIS-053).
fn do_not_disrupt(meta: &ObjectMeta) -> DoNotDisrupt {
    let Some(text) = meta
        .annotations
        .as_ref()
        .and_then(|all| all.get(annotations::DO_NOT_DISRUPT))
    else {
        return DoNotDisrupt::No;
    };
    if text == "true" {
        return DoNotDisrupt::Always;
    }
    match text.parse::<GoDuration>() {
        Ok(duration) if duration > GoDuration::ZERO => DoNotDisrupt::ForNanos(duration.as_nanos()),
        _ => DoNotDisrupt::Invalid(text.as_str().into()),
    }
}

/// DIS-046: read as a number, ignored when it is none.
fn deletion_cost(meta: &ObjectMeta) -> i32 {
    let text = meta.annotations.as_ref().and_then(|all| all.get(DELETION_COST));
    text.and_then(|text| text.parse::<f64>().ok())
        .map_or(0, |cost| cost as i32)
}

/// A toleration; `None` for an unknown effect, which tolerates nothing.
fn toleration(lean: &LeanToleration) -> Option<Toleration> {
    Some(Toleration {
        key: (!lean.key.is_empty()).then(|| lean.key.as_str().into()),
        operator: match lean.operator.as_str() {
            "" | "Equal" => TolerationOperator::Equal,
            "Exists" => TolerationOperator::Exists,
            "Lt" => TolerationOperator::Lt,
            "Gt" => TolerationOperator::Gt,
            _ => TolerationOperator::Unknown,
        },
        value: lean.value.as_str().into(),
        effect: if lean.effect.is_empty() {
            None
        } else {
            Some(Effect::parse(&lean.effect)?)
        },
    })
}

/// SCH-163. On the node's own network every container port is a host port, as the API server would write it.
fn host_ports(spec: &LeanPodSpec) -> Vec<HostPort> {
    let port = |port: &LeanPort| {
        let number = if port.host_port == 0 && spec.host_network {
            port.container_port
        } else {
            port.host_port
        };
        Some(HostPort {
            ip: if port.host_ip.is_empty() {
                "0.0.0.0".into()
            } else {
                port.host_ip.as_str().into()
            },
            port: u16::try_from(number).ok().filter(|number| *number != 0)?,
            protocol: if port.protocol.is_empty() {
                "TCP".into()
            } else {
                port.protocol.as_str().into()
            },
        })
    };
    let mut ports: Vec<HostPort> = spec.containers.iter().flat_map(|c| &c.ports).filter_map(port).collect();
    ports.sort();
    ports.dedup();
    ports
}

/// SCH-169: claims named directly and those made for ephemeral volumes.
fn claim_names(spec: &LeanPodSpec, pod: &str) -> Vec<Arc<str>> {
    let name = |volume: &crate::lean::LeanVolume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => Some(Arc::from(claim.claim_name.as_str())),
        (None, Some(_)) => Some(Arc::from(format!("{pod}-{}", volume.name))),
        (None, None) => None,
    };
    spec.volumes.iter().filter_map(name).collect()
}
