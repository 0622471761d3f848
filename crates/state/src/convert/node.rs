//! Nodes and claims, and how the two are merged to one machine (section 5.1 of `docs/behaviour/scheduling.md`).

use super::{Converter, Usage, ceil, floor, pod};
use crate::lean::{LeanNode, LeanTaint};
use crate::object::name_and_uid;
use jiff::{SignedDuration, Timestamp};
use kerf_api::conditions::{AWAITING_RECONCILIATION, node_claim as condition};
use kerf_api::status::Conditioned;
use kerf_api::{NodeClaim, ResourceList, annotations, taints};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::node::{Node, NodeLifecycle};
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::resources::Resources;
use kerf_model::taint::{Effect, Taint};
use std::collections::BTreeMap;
use std::sync::Arc;

/// For how long after its initialisation a machine that is unready again counts as one that still starts: as long as Kubernetes waits
/// before it moves pods away from such a node (`tolerationSeconds` of the default tolerations). Agents and kubelets restart in their
/// first minutes; the pods a machine was launched for are to stay with it.
const SETTLING: SignedDuration = SignedDuration::from_secs(300);

/// The facts read from a Node object.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeFacts {
    /// Its name.
    pub name: Arc<str>,
    /// Its unique id.
    pub uid: Arc<str>,
    /// The provider's id, if set.
    pub provider_id: Option<Arc<str>>,
    /// Its labels, sorted by key id. Deprecated keys are there under their own and their present name (SCH-099).
    pub labels: Vec<(Sym, Sym)>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// What it has; illegible amounts are missing.
    pub capacity: Resources,
    /// What pods may have of it; illegible amounts are missing.
    pub allocatable: Resources,
    /// Its Ready condition is True.
    pub ready: bool,
    /// It carries `karpenter.sh/do-not-disrupt: "true"`.
    pub do_not_disrupt: bool,
    /// When it was created.
    pub created: Timestamp,
    /// It is being deleted.
    pub deleting: bool,
    /// Amounts that could not be read, as `field.resource: why`.
    pub faults: Vec<String>,
}

/// The facts read from a NodeClaim.
#[derive(Clone, PartialEq, Debug)]
pub struct ClaimFacts {
    /// Its name.
    pub name: Arc<str>,
    /// Its unique id.
    pub uid: Arc<str>,
    /// The provider's id, once launched.
    pub provider_id: Option<Arc<str>>,
    /// Its labels, sorted by key id.
    pub labels: Vec<(Sym, Sym)>,
    /// The labels its requirements leave only one value for, sorted by key id.
    pub expected_labels: Vec<(Sym, Sym)>,
    /// Taints its node keeps.
    pub taints: Vec<Taint>,
    /// Taints its node carries until it is initialised.
    pub startup_taints: Vec<Taint>,
    /// What it asks for: the requests of the pods it was made for and of daemons.
    pub requests: Resources,
    /// What the provider expects the machine to have.
    pub capacity: Resources,
    /// What the provider expects pods to get of it.
    pub allocatable: Resources,
    /// It carries `karpenter.sh/do-not-disrupt: "true"`.
    pub do_not_disrupt: bool,
    /// When it was created.
    pub created: Timestamp,
    /// It is being deleted.
    pub deleting: bool,
    /// The provider was asked for its machine and did not launch one.
    pub launch_refused: bool,
    /// Its Initialized condition is not True.
    pub initializing: bool,
    /// What disruption reads of it.
    pub lifecycle: NodeLifecycle,
}

impl ClaimFacts {
    /// Whether its machine is being deleted for good.
    pub(crate) fn is_going(&self) -> bool {
        self.deleting || self.lifecycle.instance_terminating
    }
}

/// The parts of a machine. At least one of node and claim is there.
#[derive(Clone, Debug)]
pub(crate) struct MachineParts<'a> {
    /// The Node object.
    pub(crate) node: Option<&'a NodeFacts>,
    /// The NodeClaim.
    pub(crate) claim: Option<&'a ClaimFacts>,
    /// Bound, non-terminal pods by namespace and name.
    pub(crate) pods: Vec<Arc<Pod>>,
    /// What they hold.
    pub(crate) usage: Usage,
    /// Attach limits by driver.
    pub(crate) volume_limits: Vec<(Arc<str>, u32)>,
    /// A disruption command holds it.
    pub(crate) marked: bool,
    /// Others have its provider id too.
    pub(crate) doubled: bool,
    /// Until when pods are promised to it.
    pub(crate) nominated_until: Option<Timestamp>,
    /// How many virtual pods the last provisioning pass placed on it.
    pub(crate) buffer_pods: u32,
    /// It was initialised so recently that it may be starting again ([`SETTLING`]).
    pub(crate) settling: bool,
}

impl ClaimFacts {
    /// Until when its machine may be starting again ([`SETTLING`]); the label of its Node may be there before the claim says so.
    pub(crate) fn settled_at(&self) -> Option<Timestamp> {
        let window = |at: Timestamp| at.checked_add(SETTLING).unwrap_or(Timestamp::MAX);
        let open_end = self.initializing.then_some(Timestamp::MAX);
        self.lifecycle.initialized_at.map(window).or(open_end)
    }
}

impl Converter {
    /// Reads a Node; `None` without a name or unique id.
    pub fn node(&mut self, lean: &LeanNode) -> Option<NodeFacts> {
        let meta = &lean.metadata;
        let (name, uid) = name_and_uid(meta)?;
        let mut faults = Vec::new();
        let capacity = self.available(&lean.status.capacity, &mut faults);
        let allocatable = self.available(&lean.status.allocatable, &mut faults);
        let ready = |c: &crate::lean::LeanCondition| c.kind == "Ready" && c.status == "True";
        Some(NodeFacts {
            name: self.text(name),
            uid: Arc::from(uid),
            provider_id: (!lean.spec.provider_id.is_empty()).then(|| self.text(&lean.spec.provider_id)),
            labels: self.labels(meta.labels.as_ref()),
            taints: lean.spec.taints.iter().filter_map(lean_taint).collect(),
            capacity,
            allocatable,
            ready: lean.status.conditions.iter().any(ready),
            do_not_disrupt: is_protected(meta.annotations.as_ref()),
            created: pod::created(meta),
            deleting: meta.deletion_timestamp.is_some(),
            faults,
        })
    }

    /// Reads a NodeClaim; `None` without a name or unique id.
    pub fn claim(&mut self, claim: &NodeClaim) -> Option<ClaimFacts> {
        let (meta, spec) = (&claim.metadata, &claim.spec);
        let (name, uid) = name_and_uid(meta)?;
        let status = claim.status.clone().unwrap_or_default();
        let requests = spec.resources.as_ref().map(|resources| &resources.requests);
        let requirements = spec.requirements.iter().map(|written| self.api_requirement(written));
        let requirements = kerf_model::requirement::Requirements::from_all(requirements, &self.interner);
        let (created, deleting) = (pod::created(meta), meta.deletion_timestamp.is_some());
        let uid = Arc::<str>::from(uid);
        Some(ClaimFacts {
            name: self.text(name),
            provider_id: status
                .provider_id
                .as_deref()
                .filter(|id| !id.is_empty())
                .map(|id| self.text(id)),
            labels: self.labels(meta.labels.as_ref()),
            expected_labels: requirements.iter().filter_map(|r| Some((r.key, r.single()?))).collect(),
            taints: api_taints(spec.taints()),
            startup_taints: api_taints(spec.startup_taints()),
            requests: requests.map_or_else(Resources::new, |list| amounts(list, &self.interner, ceil)),
            capacity: amounts(&status.capacity, &self.interner, floor),
            allocatable: amounts(&status.allocatable, &self.interner, floor),
            do_not_disrupt: is_protected(meta.annotations.as_ref()),
            created,
            deleting,
            launch_refused: claim
                .condition(condition::LAUNCHED)
                .is_some_and(|launched| launched.is_unknown() && launched.reason() != AWAITING_RECONCILIATION),
            initializing: status
                .conditions
                .iter()
                .any(|found| found.type_ == condition::INITIALIZED && !found.is_true()),
            lifecycle: lifecycle(claim, &uid, created),
            uid,
        })
    }

    /// Labels by key id. A deprecated key is added under its present name too, unless that one is there itself.
    pub(crate) fn labels(&self, written: Option<&BTreeMap<String, String>>) -> Vec<(Sym, Sym)> {
        let plain = |(key, value): (&String, &String)| (self.interner.intern(key), self.interner.intern(value));
        let mut labels: Vec<(Sym, Sym)> = written.into_iter().flatten().map(plain).collect();
        let present = labels.clone();
        for (key, value) in &present {
            let meant = self.label_key(self.interner.text(*key));
            if meant != *key && !present.iter().any(|(known, _)| *known == meant) {
                labels.push((meant, self.label_value(meant, self.interner.text(*value))));
            }
        }
        labels.sort_unstable();
        // Two deprecated keys may have the same present name; the first value is kept.
        labels.dedup_by_key(|(key, _)| *key);
        labels
    }

    /// One machine out of its parts; `None` where neither Node nor claim counts (SCH-054, SCH-055).
    pub(crate) fn machine(
        &self,
        parts: MachineParts<'_>,
        price: impl Fn(&[(Sym, Sym)]) -> Option<Price>,
    ) -> Option<Node> {
        let (node, claim) = (parts.node, parts.claim);
        let managed = claim.is_some();
        let flag = |key: Sym| node.is_some_and(|node| value(&node.labels, key) == Some(sym::TRUE));
        let registered = !managed || flag(sym::REGISTERED);
        let initialized = !managed || (flag(sym::INITIALIZED) && !(parts.settling && self.restarts(node, claim)));
        // SCH-059: labels and taints are those of the claim until the node is registered.
        let by_claim = claim.filter(|_| node.is_none() || !registered);
        let (name, labels, do_not_disrupt) = match (by_claim, node) {
            (Some(claim), _) => (&claim.name, &claim.labels, claim.do_not_disrupt),
            (None, Some(node)) => (&node.name, &node.labels, node.do_not_disrupt),
            (None, None) => return None,
        };
        let taints = match by_claim {
            Some(claim) => claim.taints.clone(),
            None => node.map(scheduling_taints).unwrap_or_default(),
        };
        let deleting = claim.is_some_and(|c| c.deleting) || node.is_some_and(|n| n.deleting);
        let claim_going = claim.is_some_and(ClaimFacts::is_going);
        let hostname = value(labels, sym::HOSTNAME).filter(|hostname| *hostname != sym::EMPTY);
        let mut lifecycle = claim.map(|claim| claim.lifecycle.clone()).unwrap_or_default();
        lifecycle.do_not_disrupt = do_not_disrupt;
        lifecycle.deleting = deleting;
        lifecycle.ready = node.is_some_and(|node| node.ready);
        lifecycle.shares_provider_id = parts.doubled;
        lifecycle.buffer_pods = parts.buffer_pods;
        let claim_pool = claim.and_then(|claim| value(&claim.labels, sym::NODEPOOL));
        lifecycle.claim_pool = claim_pool.filter(|pool| Some(*pool) != value(labels, sym::NODEPOOL));
        Some(Node {
            hostname: hostname.unwrap_or_else(|| self.interner.intern(name)),
            name: Arc::clone(name),
            node_name: node.map(|node| Arc::clone(&node.name)),
            claim_name: claim.map(|claim| Arc::clone(&claim.name)),
            provider_id: claim
                .and_then(|c| c.provider_id.clone())
                .or_else(|| node.and_then(|n| n.provider_id.clone())),
            pool: value(labels, sym::NODEPOOL),
            registered,
            initialized,
            price: price(labels),
            labels: labels.clone(),
            taints: if initialized {
                taints
            } else {
                self.lasting(taints, claim)
            },
            capacity: effective(node, claim, initialized, |n| &n.capacity, |c| &c.capacity).with(sym::NODES, 1),
            allocatable: effective(node, claim, initialized, |n| &n.allocatable, |c| &c.allocatable),
            requested: parts.usage.all,
            daemon_requested: parts.usage.daemons,
            pods: parts.pods,
            volume_limits: parts.volume_limits,
            marked_for_deletion: parts.marked || claim_going || (!managed && node.is_some_and(|node| node.deleting)),
            nominated_until: parts.nominated_until,
            created: claim.map_or_else(
                || node.map_or(Timestamp::UNIX_EPOCH, |node| node.created),
                |claim| claim.created,
            ),
            managed,
            lifecycle,
        })
    }

    /// Whether an initialised node looks as if it starts again: it has a startup or ephemeral taint, or none of a resource its claim
    /// asked for (a kubelet that restarts has no devices until their plugins are back).
    fn restarts(&self, node: Option<&NodeFacts>, claim: Option<&ClaimFacts>) -> bool {
        let (Some(node), Some(claim)) = (node, claim) else {
            return false;
        };
        let mut wanted = claim.requests.iter().filter(|(_, amount)| *amount > 0);
        node.taints.iter().any(|taint| self.passes(taint, Some(claim)))
            || wanted.any(|(name, _)| node.allocatable.get(name) == 0)
    }

    /// The taints without those that other components remove while the machine starts (SCH-060, SCH-116).
    pub(crate) fn lasting(&self, mut taints: Vec<Taint>, claim: Option<&ClaimFacts>) -> Vec<Taint> {
        taints.retain(|taint| !self.passes(taint, claim));
        taints
    }

    /// Whether another component removes a taint while the machine starts: it is an ephemeral taint, a startup taint of the claim, or a taint
    /// that well-known software removes and that the claim does not list among its permanent ones.
    fn passes(&self, taint: &Taint, claim: Option<&ClaimFacts>) -> bool {
        let among = |taints: &[Taint]| {
            let mut others = taints.iter();
            others.any(|other| other.key == taint.key && other.effect == taint.effect)
        };
        taints::is_known_ephemeral(&taint.key, taint.effect.as_str())
            || claim.is_some_and(|claim| among(&claim.startup_taints))
            || (self.conventions.given.startup_taints.contains(&taint.key)
                && !claim.is_some_and(|claim| among(&claim.taints)))
    }
}

/// The value of a label in a list sorted by key id.
pub(crate) fn value(labels: &[(Sym, Sym)], key: Sym) -> Option<Sym> {
    let at = labels.binary_search_by_key(&key, |entry| entry.0).ok()?;
    labels.get(at).map(|entry| entry.1)
}

/// SCH-061: while a managed node is not initialised, amounts that it reports as zero or not at all are those of the claim.
fn effective(
    node: Option<&NodeFacts>,
    claim: Option<&ClaimFacts>,
    settled: bool,
    of_node: impl Fn(&NodeFacts) -> &Resources,
    of_claim: impl Fn(&ClaimFacts) -> &Resources,
) -> Resources {
    let mut amounts = node.map(|node| of_node(node).clone()).unwrap_or_default();
    if let Some(claim) = claim.filter(|_| node.is_none() || !settled) {
        for (name, amount) in of_claim(claim).iter() {
            if amounts.get(name) == 0 {
                amounts.set(name, amount);
            }
        }
    }
    amounts
}

/// DIS-029: exactly `true`.
fn is_protected(annotations: Option<&BTreeMap<String, String>>) -> bool {
    annotations
        .and_then(|all| all.get(annotations::DO_NOT_DISRUPT))
        .is_some_and(|value| value == "true")
}

/// A taint; `None` for an unknown effect, which repels no pod.
/// The taints that count in decisions. The one for moves of consolidation is about kube-scheduler's preference alone, and ends by itself.
fn scheduling_taints(node: &NodeFacts) -> Vec<Taint> {
    let counts = |taint: &&Taint| !taints::is_not_a_destination(&taint.key, taint.effect.as_str());
    node.taints.iter().filter(counts).cloned().collect()
}

fn lean_taint(lean: &LeanTaint) -> Option<Taint> {
    Some(Taint {
        key: lean.key.as_str().into(),
        value: lean.value.as_str().into(),
        effect: Effect::parse(&lean.effect)?,
    })
}

pub(super) fn api_taints(written: &[k8s_openapi::api::core::v1::Taint]) -> Vec<Taint> {
    let taint = |taint: &k8s_openapi::api::core::v1::Taint| {
        Some(Taint {
            key: taint.key.as_str().into(),
            value: taint.value.as_deref().unwrap_or_default().into(),
            effect: Effect::parse(&taint.effect)?,
        })
    };
    written.iter().filter_map(taint).collect()
}

pub(crate) fn amounts(
    list: &ResourceList,
    interner: &Interner,
    round: fn(Sym, &kerf_units::quantity::Quantity) -> i64,
) -> Resources {
    list.iter()
        .map(|(name, quantity)| {
            let name = interner.intern(name);
            (name, round(name, quantity))
        })
        .collect()
}

fn find<'a>(claim: &'a NodeClaim, kind: &str) -> Option<&'a kerf_api::Condition> {
    let conditions = claim.status.as_ref().map_or(&[][..], |status| &status.conditions);
    conditions
        .iter()
        .find(|condition| condition.type_ == kind && condition.is_true())
}

fn is_true(claim: &NodeClaim, kind: &str) -> bool {
    find(claim, kind).is_some()
}

fn lifecycle(claim: &NodeClaim, uid: &Arc<str>, created: Timestamp) -> NodeLifecycle {
    let drifted = find(claim, condition::DRIFTED);
    let status = claim.status.as_ref();
    // A manifest may lack the time of creation. Then the age is unknown, not half a century.
    let is_age_known = claim.metadata.creation_timestamp.is_some();
    let age_max = claim.spec.expire_after().filter(|_| is_age_known);
    NodeLifecycle {
        claim_uid: Some(Arc::clone(uid)),
        consolidatable: is_true(claim, condition::CONSOLIDATABLE),
        drifted: drifted.map(|condition| (condition.reason().into(), condition.transitioned())),
        initialized_at: find(claim, condition::INITIALIZED).map(kerf_api::Condition::transitioned),
        last_pod_event: status
            .and_then(|status| status.last_pod_event_time.as_ref())
            .map(|time| time.0),
        expires: age_max.and_then(|age| created.checked_add(SignedDuration::from_nanos(age.as_nanos())).ok()),
        termination_grace_seconds: claim
            .spec
            .termination_grace_period
            .as_ref()
            .map(|grace| grace.value().as_nanos().div_euclid(1_000_000_000)),
        instance_terminating: is_true(claim, condition::INSTANCE_TERMINATING),
        // The rest is the machine's, not the claim's.
        ..NodeLifecycle::default()
    }
}
