//! What no API object records: the actions of this process that are in flight, as far as decisions depend on them.

use crate::intern::{Sym, sym};
use crate::node::Node;
use crate::plan::Plan;
use crate::pod::{Pod, PodShape};
use crate::price::Price;
use crate::snapshot::Snapshot;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A pod by namespace and name.
pub type PodKey = (Arc<str>, Arc<str>);

/// The actions in flight at the moment of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct InFlight {
    /// Provider ids of the machines that disruption commands in flight hold (DIS-023).
    pub command_machines: Arc<BTreeSet<Arc<str>>>,
    /// Names of nodes to which commands of the same pass move pods: later commands neither disrupt them nor move pods there.
    pub receiving: BTreeSet<Arc<str>>,
    /// The NodeClaim onto which the last provisioning pass planned each pod that is not bound yet (SCH-082).
    pub planned: BTreeMap<PodKey, Arc<str>>,
    /// NodePools with a fixed number of nodes, by name.
    pub static_pools: BTreeMap<Arc<str>, StaticPool>,
    /// Machines whose replacement failed lately, by provider id, and until when drift leaves them alone (deviation at DIS-247).
    pub failed_replacements: BTreeMap<Arc<str>, Timestamp>,
    /// What the NodePools may launch now whose last launches found no capacity, by name. Others are not limited.
    pub launch_room: BTreeMap<Arc<str>, LaunchRoom>,
    /// The moves that consolidation started lately.
    pub moves: Vec<StartedMove>,
    /// Moves of consolidation that did not last.
    pub undone: Vec<UndoneMove>,
    /// A counter that rises with every change consolidation may depend on (LIF-207).
    pub consolidation_epoch: u64,
}

/// The longest time for which a provider leaves an offering out of plans after a launch found it without capacity (deviation at AWS-424).
/// [`InFlight::launch_room`] is kept as long, so that a NodePool does not launch all its NodeClaims at once when the offering is tried again.
pub const WITHOUT_CAPACITY_MAX: Duration = Duration::from_secs(12 * 60);

/// What a NodePool may launch whose last launches found no capacity (deviation at AWS-255 and LIF-023).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchRoom {
    /// How many NodeClaims more.
    pub claims: usize,
    /// How many launches in a row found no capacity.
    pub failures: u32,
}

/// The NodeClaims of a NodePool with a fixed number of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StaticPool {
    /// How many nodes the NodePool asks for (`spec.replicas`).
    pub replicas: u64,
    /// How many of its NodeClaims stay, those being replaced included.
    pub staying: u64,
    /// How many more NodeClaims its limit allows; `u64::MAX` without a limit.
    pub room: u64,
}

/// A command of consolidation that was started: the pods of its nodes move elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StartedMove {
    /// When it started.
    pub at: Timestamp,
    /// How many nodes it removes.
    pub nodes: usize,
}

/// Where kube-scheduler should bind the pods that a command moves, by the names of Nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Destinations {
    /// Nodes onto which the command planned pods.
    pub planned: Vec<Arc<str>>,
    /// Other nodes with room for some of the pods.
    pub avoided: Vec<Arc<str>>,
}

/// A move of consolidation that did not last: pods that were moved and then needed a new machine (deviation at DIS-119). Until it ends, a move of
/// such pods onto such machines has to save more.
#[derive(Clone, PartialEq, Debug)]
pub struct UndoneMove {
    /// The namespace of the pods.
    pub namespace: Arc<str>,
    /// What each of the pods asks for.
    pub shape: Arc<PodShape>,
    /// The kinds of machines the pods were to go to.
    pub destinations: Arc<BTreeSet<MachineKind>>,
    /// What the machines launched in consequence cost per hour, for each pod that was moved. The next such move has to save more than that for
    /// each of its pods.
    pub surcharge_per_pod: Price,
    /// When it ends.
    pub until: Timestamp,
}

impl UndoneMove {
    /// Whether a pod is of the kind that was moved.
    pub fn is_about(&self, pod: &Pod) -> bool {
        pod.namespace == self.namespace && pod.shape == self.shape
    }
}

/// Machines of one NodePool and instance type; `None` for machines without the label.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MachineKind {
    /// The label of the NodePool.
    pub pool: Option<Sym>,
    /// The instance type.
    pub instance_type: Option<Sym>,
}

impl MachineKind {
    /// The kind of a machine.
    pub fn of(node: &Node) -> Self {
        Self {
            pool: node.pool,
            instance_type: node.label(sym::INSTANCE_TYPE),
        }
    }

    /// The kinds of machines onto which a plan puts some of the pods that have a node already.
    pub fn of_destinations(snapshot: &Snapshot, plan: &Plan, is_one: &dyn Fn(&Pod) -> bool) -> BTreeSet<Self> {
        let moved = |pod: &Arc<Pod>| pod.node_name.is_some() && is_one(pod);
        let existing = plan
            .existing
            .iter()
            .filter(|placement| placement.pods.iter().any(moved))
            .filter_map(|placement| snapshot.node(&placement.node))
            .map(|node| Self::of(node));
        let launches = plan.launches.iter().filter(|launch| launch.pods.iter().any(moved));
        let launched = launches.flat_map(|launch| {
            let mut pools = snapshot.pools.iter();
            let pool = pools.find(|pool| pool.name == launch.pool).map(|pool| pool.label);
            let types = launch
                .types
                .iter()
                .filter_map(|at| launch.catalogue.types.get(*at as usize));
            types.map(move |kind| Self {
                pool,
                instance_type: Some(kind.name),
            })
        });
        existing.chain(launched).collect()
    }
}

impl InFlight {
    /// Whether a disruption command in flight holds the machine or moves pods to it.
    pub fn holds(&self, node: &Node) -> bool {
        let held = node
            .provider_id
            .as_ref()
            .is_some_and(|id| self.command_machines.contains(id));
        held || self.receiving.contains(&node.name)
    }

    /// Forgets what has ended by `now`.
    pub fn expire(&mut self, now: Timestamp) {
        self.undone.retain(|undone| undone.until > now);
        self.failed_replacements.retain(|_, until| *until > now);
    }
}
