//! The watch events of one node and its claim in every order, with a restart of the controller at every point: the pod it was launched for
//! never gets a second node.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::{NodeClaim, NodePool};
use kerf_cloud::TypeBuilder;
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::{Interner, sym};
use kerf_model::price::Price;
use kerf_model::resources::Resources;
use kerf_scheduler::{Options, Request, solve};
use kerf_state::lean::{
    LeanCsiNode, LeanDaemonSet, LeanNamespace, LeanNode, LeanPdb, LeanPod, LeanPv, LeanPvc, LeanStorageClass,
};
use kerf_state::{Mirror, MirrorOptions, Now};
use kerf_testkit::objects;
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-01-01T00:02:00Z".parse().expect("a time")
}

fn pool() -> NodePool {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    serde_json::from_value(json!({
        "metadata": {"name": "gpu", "uid": "pool", "generation": 1},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready",
                                   "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    }))
    .expect("a pool")
}

fn catalogue(interner: &Interner) -> Arc<Catalogue> {
    let kind = TypeBuilder::new(interner, "g1")
        .label("kubernetes.io/arch", "amd64")
        .label("kubernetes.io/os", "linux")
        .capacity(sym::CPU, 4000)
        .capacity(sym::MEMORY, 16 << 30)
        .capacity(sym::PODS, 10)
        .capacity(interner.intern("nvidia.com/gpu"), 1)
        .offering("zone-a", "on-demand", Price::ZERO)
        .build();
    Arc::new(Catalogue { types: vec![kind] })
}

fn training_pod() -> LeanPod {
    let mut pod = objects::unschedulable(objects::stored("default", objects::pod("train", "2")));
    pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = json!("1");
    serde_json::from_value(pod).expect("a pod")
}

/// The claim after so many steps: created, launched, registered, initialized.
fn claim(step: usize) -> NodeClaim {
    let condition = |kind: &str, done: bool| {
        let status = if done { "True" } else { "Unknown" };
        json!({"type": kind, "status": status, "reason": kind, "lastTransitionTime": "2026-01-01T00:01:30Z"})
    };
    let amounts = json!({"cpu": "4", "memory": "16Gi", "pods": "10", "nvidia.com/gpu": "1"});
    let mut claim = json!({
        "metadata": {"name": "gpu-1", "uid": "gpu-1", "creationTimestamp": "2026-01-01T00:00:30Z", "resourceVersion": (step + 1).to_string(),
                     "labels": {"karpenter.sh/nodepool": "gpu", "kubernetes.io/arch": "amd64"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g1"]}],
            "resources": {"requests": {"cpu": "2", "pods": "1", "nvidia.com/gpu": "1"}},
        },
    });
    if step > 0 {
        claim["status"] = json!({"providerID": "cloud://1", "capacity": amounts, "allocatable": amounts, "conditions": [
            condition("Launched", true), condition("Registered", step > 1), condition("Initialized", step > 2)]});
        claim["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("zone-a");
        claim["metadata"]["labels"]["node.kubernetes.io/instance-type"] = json!("g1");
    }
    serde_json::from_value(claim).expect("a claim")
}

/// What the Node says of itself: uid, labels Kerf put on it, taints, devices.
struct Node(
    &'static str,
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
    &'static str,
);

const REGISTERED: &[&str] = &["karpenter.sh/registered"];
const INITIALIZED: &[&str] = &["karpenter.sh/registered", "karpenter.sh/initialized"];
const UNREGISTERED: (&str, &str) = ("karpenter.sh/unregistered", "NoExecute");
const NOT_READY: (&str, &str) = ("node.kubernetes.io/not-ready", "NoSchedule");
const NOT_READY_TOO: (&str, &str) = ("node.kubernetes.io/not-ready", "NoExecute");
const UNREACHABLE: (&str, &str) = ("node.kubernetes.io/unreachable", "NoSchedule");
const CILIUM: (&str, &str) = ("node.cilium.io/agent-not-ready", "NoExecute");

/// The Node's life: `None` is a Node that is gone.
const LIFE: [Option<Node>; 12] = [
    Some(Node("n-1", &[], &[UNREGISTERED, NOT_READY, CILIUM], "0")),
    Some(Node("n-1", REGISTERED, &[NOT_READY, CILIUM], "0")),
    Some(Node("n-1", REGISTERED, &[CILIUM], "0")),
    // The kubelet restarts before the network is there.
    Some(Node("n-1", REGISTERED, &[NOT_READY, NOT_READY_TOO, CILIUM], "0")),
    Some(Node("n-1", REGISTERED, &[], "1")),
    Some(Node("n-1", INITIALIZED, &[], "1")),
    // It restarts again, and with it the devices and the network.
    Some(Node("n-1", INITIALIZED, &[NOT_READY, NOT_READY_TOO], "0")),
    Some(Node("n-1", INITIALIZED, &[UNREACHABLE], "1")),
    Some(Node("n-1", INITIALIZED, &[CILIUM], "0")),
    // The object is lost, and the kubelet registers anew.
    None,
    Some(Node("n-2", &[], &[UNREGISTERED, NOT_READY], "0")),
    Some(Node("n-2", INITIALIZED, &[], "1")),
];

fn node(at: usize) -> LeanNode {
    let Some(Node(uid, own, taints, gpus)) = &LIFE[at] else {
        return node(at - 1);
    };
    let mut labels = json!({"kubernetes.io/hostname": "n", "kubernetes.io/arch": "amd64"});
    for label in *own {
        labels[*label] = json!("true");
        labels["karpenter.sh/nodepool"] = json!("gpu");
        labels["node.kubernetes.io/instance-type"] = json!("g1");
        labels["topology.kubernetes.io/zone"] = json!("zone-a");
    }
    let taints: Vec<Value> = taints
        .iter()
        .map(|(key, effect)| json!({"key": key, "effect": effect}))
        .collect();
    let amounts = json!({"cpu": "4", "memory": "16Gi", "pods": "10", "nvidia.com/gpu": gpus});
    serde_json::from_value(json!({
        "metadata": {"name": "n", "uid": uid, "resourceVersion": (at + 1).to_string(), "labels": labels,
                     "creationTimestamp": "2026-01-01T00:01:00Z"},
        "spec": {"providerID": "cloud://1", "taints": taints},
        "status": {"capacity": amounts, "allocatable": amounts},
    }))
    .expect("a node")
}

/// A controller that starts now and has listed everything; the Node of this step of its life is there.
fn started(claim_step: Option<usize>, node_step: Option<usize>) -> Mirror {
    let interner = Arc::new(Interner::default());
    let mut mirror = Mirror::new(Arc::clone(&interner), &MirrorOptions::default());
    mirror.reset::<LeanNamespace>(Vec::new());
    mirror.reset::<LeanStorageClass>(Vec::new());
    mirror.reset::<LeanPv>(Vec::new());
    mirror.reset::<LeanPvc>(Vec::new());
    mirror.reset::<LeanCsiNode>(Vec::new());
    mirror.reset::<LeanPdb>(Vec::new());
    mirror.reset::<LeanDaemonSet>(Vec::new());
    mirror.reset(vec![pool()]);
    mirror.reset(claim_step.map(claim).into_iter().collect());
    mirror.reset(
        node_step
            .filter(|at| LIFE[*at].is_some())
            .map(node)
            .into_iter()
            .collect(),
    );
    mirror.reset(vec![training_pod()]);
    mirror.set_catalogue("gpu", Ok(catalogue(&interner)));
    mirror
}

/// Machines a pass would launch now; none where no pass would run.
fn launches(mirror: &mut Mirror) -> usize {
    if !mirror.sync_report().is_synced() {
        return 0;
    }
    let snapshot = mirror.snapshot(now());
    let plan = solve(&Request::pending(&snapshot), &Options::default(), &|| false);
    assert!(plan.unschedulable.is_empty(), "{:?}", plan.unschedulable);
    plan.launches.len()
}

#[test]
fn a_pod_without_a_machine_gets_one() {
    assert_eq!(launches(&mut started(None, None)), 1);
}

#[test]
fn no_order_of_events_gives_the_pod_a_second_machine() {
    // Every way to merge the three further steps of the claim into the life of the Node.
    let steps = LIFE.len() + 3;
    let mut orders = 0;
    for mask in 0_u32..1 << steps {
        if mask.count_ones() != 3 {
            continue;
        }
        orders += 1;
        let mut mirror = started(None, None);
        mirror.created(claim(0));
        let pods = mirror.snapshot(now()).pending.clone();
        assert!(mirror.promise("gpu-1", &pods, Resources::new()));
        assert_eq!(launches(&mut mirror), 0);
        let (mut of_claim, mut of_node) = (0, 0);
        for step in 0..steps {
            if mask & (1 << step) != 0 {
                of_claim += 1;
                mirror.apply(claim(of_claim));
            } else {
                match &LIFE[of_node] {
                    Some(_) => mirror.apply(node(of_node)),
                    None => mirror.delete(&node(of_node)),
                }
                of_node += 1;
            }
            let told = (of_claim, of_node);
            assert_eq!(launches(&mut mirror), 0, "{mask:b} at {told:?}");
            // A controller that starts here knows no promise.
            let mut fresh = started(Some(of_claim), of_node.checked_sub(1));
            assert_eq!(launches(&mut fresh), 0, "started at {told:?}");
        }
    }
    assert_eq!(orders, 455);
}

#[test]
fn a_machine_that_stays_unready_does_not_hold_the_pod_for_ever() {
    for relapse in [6, 7, 8] {
        let mut mirror = started(Some(3), Some(relapse));
        assert_eq!(launches(&mut mirror), 0);
        let later = now() + jiff::SignedDuration::from_mins(5);
        mirror.expire(Now {
            wall: later,
            uptime: Duration::from_mins(5),
        });
        let snapshot = mirror.snapshot(later);
        let plan = solve(&Request::pending(&snapshot), &Options::default(), &|| false);
        assert_eq!(plan.launches.len(), 1, "{relapse}");
    }
}
