//! Two replicas of `kerf controller`: the one that leads is lost in the middle of a scale-out, and the other finishes it.

use crate::live::{Up, free_port, get};
use crate::manifest;
use kerf_testkit::objects;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// How many pods there are, and how many fit on a machine of the pool.
const PODS_ALL: usize = 60;
const PODS_PER_NODE: usize = 3;

/// A replica, which ends with the test.
struct Replica {
    child: Child,
    metrics_port: u16,
}

impl Replica {
    fn start(up: &Up, flags: &[&str]) -> Self {
        let metrics_port = free_port();
        let child = Command::new(env!("CARGO_BIN_EXE_kerf"))
            .args(["controller", "--leader-election-namespace", "kube-system"])
            .args(["--health-probe-port", "0", "--metrics-port", &metrics_port.to_string()])
            .args(flags)
            .arg("--kubeconfig")
            .arg(&up.kubeconfig)
            .stdout(Stdio::null())
            .spawn()
            .expect("the controller starts");
        Self { child, metrics_port }
    }

    /// Whether it answers, and what it says of the lease.
    fn says(&self, leads: &str) -> bool {
        let line = format!("leader_election_master_status{{name=\"karpenter-leader-election\"}} {leads}\n");
        get(self.metrics_port, "/metrics").is_some_and(|answer| answer.contains(&line))
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args(["-s", signal, &self.child.id().to_string()])
            .status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < end, "not within two minutes: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn names(objects: &[Value]) -> BTreeSet<String> {
    let name = |object: &Value| object["metadata"]["name"].as_str().expect("a name").to_owned();
    objects.iter().map(name).collect()
}

/// Ends the leader by a signal once it has created some of its claims, and waits until the other has finished the work.
fn lose_the_leader(name: &str, signal: &str) {
    let up = Up::start(name);
    // KWK-102: the pool of upstream's regression suite, with one type.
    let requirements = json!([
        {"key": "karpenter.kwok.sh/instance-size", "operator": "Lt", "values": ["32"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-4x-amd64-linux"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]);
    let disruption = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]});
    let pool = manifest::pool("default", &requirements, json!({"disruption": disruption}));
    let pool = manifest::with(pool, "spec/template/spec/expireAfter", json!("30h"));
    let class = manifest::class("default");
    up.create(&[
        ("/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", class),
        ("/apis/karpenter.sh/v1/nodepools", pool),
    ]);
    // Few calls per second: the claims of the scale-out come one after the other, and none is launched before the last of them is there.
    let first = Replica::start(&up, &["--kube-client-qps", "15", "--kube-client-burst", "15"]);
    until("the first leads", || first.says("1"));
    let second = Replica::start(&up, &[]);
    until("the second stands by", || second.says("0"));
    let pods: Vec<(&str, Value)> = (0..PODS_ALL)
        .map(|number| (PODS, objects::pod(&format!("web-{number}"), "1")))
        .collect();
    up.create(&pods);
    let mut before = BTreeSet::new();
    until("there are five claims", || {
        before = names(&up.list(CLAIMS));
        before.len() >= 5
    });
    first.signal(signal);
    let needed = PODS_ALL / PODS_PER_NODE;
    assert!(before.len() < needed, "{} claims: the scale-out was over", before.len());
    until("the second leads", || second.says("1"));
    let mut most = 0;
    until("all pods are bound", || {
        most = most.max(up.list(CLAIMS).len());
        let bound = |pod: &Value| pod["spec"]["nodeName"].is_string();
        up.list(PODS).iter().filter(|pod| bound(pod)).count() == PODS_ALL
    });
    let claims = up.list(CLAIMS);
    // As many as without the loss: no machine was launched twice, and those that the first asked for are used.
    assert_eq!((claims.len(), up.list(NODES).len(), most), (needed, needed, needed));
    assert!(before.is_subset(&names(&claims)), "{before:?} {:?}", names(&claims));
    assert!(
        claims.iter().all(|claim| claim["spec"]["expireAfter"] == "30h"
            && claim["metadata"]["labels"]["karpenter.kwok.sh/instance-size"] == "4"),
        "{claims:?}"
    );
}

#[test]
fn a_leader_that_is_killed_in_a_scale_out_is_replaced() {
    lose_the_leader("replica-killed", "KILL");
}

#[test]
fn a_leader_that_is_ended_in_a_scale_out_is_replaced() {
    lose_the_leader("replica-ended", "TERM");
}
