//! The few fields that invariants read, from raw API objects and the cloud, and from nothing inside the controllers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kerf_apiserver::{Change, Write};
use serde_json::Value;

use crate::caller::Caller;

/// The lease that the processes of a world compete for.
pub const LEASE: &str = "karpenter-leader-election";

/// How long it takes to find out what watches and a list did not deliver.
const HEALING: Duration = Duration::from_secs(120);

/// Texts by key: labels, annotations, selectors.
pub type Texts = BTreeMap<String, String>;

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// Namespace and name.
    pub key: String,
    /// UID.
    pub uid: String,
    /// Labels.
    pub labels: Texts,
    /// Value of `karpenter.sh/do-not-disrupt`.
    pub protection: Option<String>,
    /// Kind of its owner.
    pub owner: String,
    /// Node it is bound to.
    pub node: Option<String>,
    /// Phase.
    pub phase: String,
    /// Whether it is ready.
    pub ready: bool,
    /// When it started.
    pub started: Option<Timestamp>,
    /// When it has to be gone.
    pub deletion: Option<Timestamp>,
    /// Grace period in seconds.
    pub grace_s: i64,
    /// What it asks for, in thousandths of a cpu.
    pub cpu_m: i64,
    /// Labels that its node must have.
    pub selector: Texts,
    /// It asks for more than room and labels.
    pub is_picky: bool,
}

impl Pod {
    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Neither finished nor on its way out.
    pub fn is_active(&self) -> bool {
        !self.is_finished() && self.deletion.is_none()
    }

    /// Whether it belongs to a DaemonSet.
    pub fn is_daemon(&self) -> bool {
        self.owner == "DaemonSet"
    }

    /// Whether it may not be disrupted at this time.
    pub fn is_protected(&self, now: Timestamp) -> bool {
        match self.protection.as_deref() {
            None => false,
            Some("true") => true,
            Some(minutes) => {
                let Some(minutes) = minutes.strip_suffix('m').and_then(|number| number.parse().ok()) else {
                    return false;
                };
                let until = |started: Timestamp| started + jiff::SignedDuration::from_mins(minutes);
                self.started.is_none_or(|started| now < until(started))
            }
        }
    }
}

/// A Node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Name.
    pub name: String,
    /// Provider id.
    pub provider_id: String,
    /// Whether it is ready; `None` before a kubelet says so.
    pub ready: Option<bool>,
    /// Keys of its taints.
    pub taints: Vec<String>,
    /// Whether it was deleted.
    pub deleting: bool,
}

impl Node {
    /// Whether it carries the taint of a node that is to go.
    pub fn is_disrupted(&self) -> bool {
        self.taints.iter().any(|key| key == "karpenter.sh/disrupted")
    }
}

/// A NodeClaim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// NodePool.
    pub pool: String,
    /// Provider id; empty before it is launched.
    pub provider_id: String,
    /// Whether it was deleted.
    pub deleting: bool,
    /// The cpu it was made for.
    pub wanted_cpu_m: i64,
    /// The number of pods it was made for.
    pub wanted_pods: i64,
    /// What its machine has.
    pub cpu_m: i64,
    /// Status by condition.
    pub conditions: Texts,
    /// Why it is to be disrupted.
    pub disruption_reason: Option<String>,
    /// By when its node has to be empty.
    pub deadline: Option<Timestamp>,
}

impl Claim {
    /// Whether a condition is true.
    pub fn is_true(&self, condition: &str) -> bool {
        self.conditions.get(condition).is_some_and(|status| status == "True")
    }
}

/// A budget of a pool: the reasons, the share, and the minutes of the first hour in which it is active.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Budget {
    /// Reasons it is for; all if there are none.
    pub reasons: Vec<String>,
    /// A number or a share of nodes.
    pub nodes: String,
    /// First and last minute of the day.
    pub window: Option<(i64, i64)>,
}

/// A NodePool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    /// Name.
    pub name: String,
    /// Disruption budgets.
    pub budgets: Vec<Budget>,
    /// Limit, in thousandths of a cpu.
    pub cpu_limit_m: Option<i64>,
    /// Labels of its nodes.
    pub labels: Texts,
    /// Whether it was deleted.
    pub deleting: bool,
    /// Whether it holds a fixed number of nodes.
    pub is_static: bool,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pdb {
    /// Namespace and name.
    pub key: String,
    /// Labels of its pods.
    pub selector: Texts,
    /// How many of them have to be healthy.
    pub desired: i64,
}

impl Pdb {
    /// Whether it counts the pod.
    pub fn covers(&self, pod: &Pod) -> bool {
        self.selector
            .iter()
            .all(|(key, value)| pod.labels.get(key) == Some(value))
    }
}

/// An instance of the cloud.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instance {
    /// Whether it ends, or does not run any more.
    pub stopping: bool,
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Pod(Diff<Pod>),
    Node(Diff<Node>),
    Claim(Diff<Claim>),
    Pool,
    Pdb,
    NodeClass,
    /// The controllers made a call that changes something in the cloud; its name.
    Call(String),
    /// The controllers asked the cloud to end an instance, and it is about to.
    Ending(String),
}

/// An object before and after.
#[derive(Clone, Debug)]
pub(crate) struct Diff<T> {
    pub(crate) before: Option<T>,
    pub(crate) after: Option<T>,
}

/// Everything that can be seen.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Since the start, on a clock that does not jump.
    pub elapsed: Duration,
    /// On the wall.
    pub now: Timestamp,
    /// Pods by namespace and name.
    pub pods: BTreeMap<String, Pod>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Node>,
    /// NodeClaims by name.
    pub claims: BTreeMap<String, Claim>,
    /// NodePools by name.
    pub pools: BTreeMap<String, Pool>,
    /// PodDisruptionBudgets by namespace and name.
    pub pdbs: BTreeMap<String, Pdb>,
    /// Instances by provider id.
    pub instances: BTreeMap<String, Instance>,
    /// Instances of a cloud that ended, by id.
    pub gone: BTreeSet<String>,
    /// Workloads by name, and whether they are daemons.
    pub workloads: BTreeMap<String, bool>,
    /// The life that holds the lease, where lives compete for one.
    pub leader: Option<u64>,
    /// Since when watches and their first lists deliver everything again; the end of time while they may not, `None` if they always did.
    pub honest_since: Option<Duration>,
    /// The life of the controllers that makes the current write, zero for other writers.
    pub acting: u64,
}

impl View {
    /// Takes a write in.
    pub(crate) fn fold(&mut self, write: &Write<'_>) -> Option<Event> {
        let gone = write.change == Change::Deleted;
        let event = match write.plural {
            "pods" => Event::Pod(put(&mut self.pods, pod(write.object), gone, |pod| &pod.key)),
            "nodes" => Event::Node(put(&mut self.nodes, node(write.object), gone, |node| &node.name)),
            "nodeclaims" => Event::Claim(put(&mut self.claims, claim(write.object), gone, |claim| &claim.name)),
            "nodepools" => {
                put(&mut self.pools, pool(write.object), gone, |pool| &pool.name);
                Event::Pool
            }
            "poddisruptionbudgets" => {
                put(&mut self.pdbs, pdb(write.object), gone, |pdb| &pdb.key);
                Event::Pdb
            }
            "ec2nodeclasses" => Event::NodeClass,
            "leases" if text(write.object, "/metadata/name") == LEASE => {
                self.leader = text(write.object, "/spec/holderIdentity").parse().ok();
                return None;
            }
            _ => return None,
        };
        Some(event)
    }

    /// Whether the controllers may not know of something that is there: nothing was delivered, and they had no time to find out.
    pub(crate) fn may_be_misled(&self) -> bool {
        self.honest_since
            .is_some_and(|since| self.elapsed < since.saturating_add(HEALING))
    }

    /// The claim of a Node.
    pub fn claim_of(&self, node: &Node) -> Option<&Claim> {
        self.claims.values().find(|claim| claim.provider_id == node.provider_id)
    }

    /// The pods bound to a Node.
    pub fn pods_on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods.values().filter(move |pod| pod.node.as_deref() == Some(node))
    }

    /// The claims of a pool.
    pub(crate) fn claims_of<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a Claim> {
        self.claims.values().filter(move |claim| claim.pool == pool)
    }
}

fn put<T: Clone>(all: &mut BTreeMap<String, T>, object: T, gone: bool, key: impl Fn(&T) -> &String) -> Diff<T> {
    let key = key(&object).clone();
    if gone {
        return Diff {
            before: all.remove(&key),
            after: None,
        };
    }
    Diff {
        before: all.insert(key, object.clone()),
        after: Some(object),
    }
}

/// What is at a JSON pointer. (`Value::pointer` unescapes every name, which costs more than everything else here.)
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut names = path.split('/').skip(1);
    names.try_fold(object, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ if name.contains('~') => value.get(name.replace("~1", "/").replace("~0", "~")),
        _ => value.get(name),
    })
}

fn text(object: &Value, path: &str) -> String {
    at(object, path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn some(object: &Value, path: &str) -> Option<String> {
    Some(text(object, path)).filter(|text| !text.is_empty())
}

fn time(object: &Value, path: &str) -> Option<Timestamp> {
    some(object, path)?.parse().ok()
}

fn number(object: &Value, path: &str) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or(0)
}

fn texts(object: &Value, path: &str) -> Texts {
    let entries = at(object, path).and_then(Value::as_object).into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

fn items<'a>(object: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    at(object, path).and_then(Value::as_array).into_iter().flatten()
}

/// Status by type.
fn conditions(object: &Value) -> Texts {
    items(object, "/status/conditions")
        .map(|condition| (text(condition, "/type"), text(condition, "/status")))
        .collect()
}

/// An amount of cpu in thousandths.
fn millis(amount: &Value) -> i64 {
    match amount {
        Value::String(text) => match text.strip_suffix('m') {
            Some(number) => number.parse().unwrap_or(0),
            None => text.parse::<i64>().unwrap_or(0) * 1000,
        },
        other => other.as_i64().unwrap_or(0) * 1000,
    }
}

fn pod(object: &Value) -> Pod {
    let requests = items(object, "/spec/containers")
        .map(|container| millis(at(container, "/resources/requests/cpu").unwrap_or(&Value::Null)));
    Pod {
        key: format!(
            "{}/{}",
            text(object, "/metadata/namespace"),
            text(object, "/metadata/name")
        ),
        uid: text(object, "/metadata/uid"),
        labels: texts(object, "/metadata/labels"),
        protection: some(object, "/metadata/annotations/karpenter.sh~1do-not-disrupt"),
        owner: text(object, "/metadata/ownerReferences/0/kind"),
        node: some(object, "/spec/nodeName"),
        phase: text(object, "/status/phase"),
        ready: conditions(object).get("Ready").is_some_and(|status| status == "True"),
        started: time(object, "/status/startTime"),
        deletion: time(object, "/metadata/deletionTimestamp"),
        grace_s: number(object, "/spec/terminationGracePeriodSeconds"),
        cpu_m: requests.sum(),
        selector: texts(object, "/spec/nodeSelector"),
        is_picky: ["/spec/affinity", "/spec/topologySpreadConstraints"]
            .iter()
            .any(|path| at(object, path).is_some()),
    }
}

fn node(object: &Value) -> Node {
    Node {
        name: text(object, "/metadata/name"),
        provider_id: text(object, "/spec/providerID"),
        ready: conditions(object).get("Ready").map(|status| status == "True"),
        taints: items(object, "/spec/taints").map(|taint| text(taint, "/key")).collect(),
        deleting: some(object, "/metadata/deletionTimestamp").is_some(),
    }
}

fn claim(object: &Value) -> Claim {
    let reason = items(object, "/status/conditions")
        .find(|condition| text(condition, "/type") == "DisruptionReason" && text(condition, "/status") == "True");
    Claim {
        name: text(object, "/metadata/name"),
        uid: text(object, "/metadata/uid"),
        pool: text(object, "/metadata/labels/karpenter.sh~1nodepool"),
        provider_id: text(object, "/status/providerID"),
        deleting: some(object, "/metadata/deletionTimestamp").is_some(),
        wanted_cpu_m: millis(at(object, "/spec/resources/requests/cpu").unwrap_or(&Value::Null)),
        // A quantity as text; the worlds count in whole pods.
        wanted_pods: millis(at(object, "/spec/resources/requests/pods").unwrap_or(&Value::Null)) / 1000,
        cpu_m: millis(at(object, "/status/capacity/cpu").unwrap_or(&Value::Null)),
        conditions: conditions(object),
        disruption_reason: reason.map(|condition| text(condition, "/reason")),
        deadline: time(
            object,
            "/metadata/annotations/karpenter.sh~1nodeclaim-termination-timestamp",
        ),
    }
}

fn pool(object: &Value) -> Pool {
    let budget = |budget: &Value| Budget {
        reasons: items(budget, "/reasons")
            .filter_map(|reason| Some(reason.as_str()?.to_owned()))
            .collect(),
        nodes: text(budget, "/nodes"),
        window: window(budget),
    };
    Pool {
        name: text(object, "/metadata/name"),
        budgets: items(object, "/spec/disruption/budgets").map(budget).collect(),
        cpu_limit_m: at(object, "/spec/limits/cpu").map(millis),
        labels: texts(object, "/spec/template/metadata/labels"),
        deleting: some(object, "/metadata/deletionTimestamp").is_some(),
        is_static: at(object, "/spec/replicas").is_some_and(|replicas| !replicas.is_null()),
    }
}

/// From a schedule `M 0 * * *` and a duration in minutes.
fn window(budget: &Value) -> Option<(i64, i64)> {
    let from: i64 = text(budget, "/schedule").split(' ').next()?.parse().ok()?;
    let minutes: i64 = text(budget, "/duration").split('m').next()?.parse().ok()?;
    Some((from, from + minutes))
}

fn pdb(object: &Value) -> Pdb {
    Pdb {
        key: format!(
            "{}/{}",
            text(object, "/metadata/namespace"),
            text(object, "/metadata/name")
        ),
        selector: texts(object, "/spec/selector/matchLabels"),
        desired: number(object, "/status/desiredHealthy"),
    }
}

/// Whether a write is left out of reports.
pub(crate) fn is_noise(write: &Write<'_>) -> bool {
    write.plural == "customresourcedefinitions"
}

/// A write in one line.
pub(crate) fn line(write: &Write<'_>, caller: Caller, elapsed: Duration) -> String {
    let object = write.object;
    let namespace = text(object, "/metadata/namespace");
    let mut line = format!(
        "{:>9.3} {:?} {} {} {namespace}/{}",
        elapsed.as_secs_f64(),
        caller,
        write.change.name(),
        write.plural,
        text(object, "/metadata/name"),
    );
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            line.push_str(&format!(" {name}={value}"));
        }
    };
    add("reason", text(object, "/reason"));
    add("about", text(object, "/involvedObject/name"));
    add("says", text(object, "/message"));
    add("v", text(object, "/metadata/resourceVersion"));
    add("deleting", text(object, "/metadata/deletionTimestamp"));
    add("node", text(object, "/spec/nodeName"));
    add("phase", text(object, "/status/phase"));
    add("id", text(object, "/spec/providerID"));
    add("id", text(object, "/status/providerID"));
    let conditions = items(object, "/status/conditions").map(|condition| {
        format!(
            "{}:{}:{}",
            text(condition, "/type"),
            text(condition, "/status"),
            text(condition, "/reason")
        )
    });
    if write.plural == "nodeclaims" || write.plural == "nodes" {
        add(
            "taints",
            items(object, "/spec/taints")
                .map(|taint| text(taint, "/key"))
                .collect::<Vec<_>>()
                .join(","),
        );
        add("is", conditions.collect::<Vec<_>>().join(","));
    }
    line
}
