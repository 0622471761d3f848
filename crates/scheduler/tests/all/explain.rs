//! `explain`: why each node and pool refuses one pod, and what is missing.

use kerf_model::plan::{Refusal, Refuser};
use kerf_scheduler::{Options, Request, explain};
use kerf_testkit::fixture::{Fixture, check, upstream};

fn refusals(options: &Options, text: &str) -> Vec<Refusal> {
    let fixture = Fixture::read(text);
    let pod = fixture.snapshot.pending.iter().find(|pod| &*pod.name == "p").unwrap();
    explain(&Request::pending(&fixture.snapshot), options, pod)
}

/// The refusals of the pod `p` as text, one line each: `node n: Code: text [what is missing]`.
fn explained(text: &str) -> Vec<String> {
    explained_under(&upstream(), text)
}

fn explained_under(options: &Options, text: &str) -> Vec<String> {
    let line = |refusal: &Refusal| {
        let by = match &refusal.by {
            Refuser::Pool(pool) => format!("pool {pool}"),
            Refuser::Node(node) => format!("node {node}"),
        };
        let miss = refusal.nearest_miss.as_ref().map(|miss| format!(" [{miss}]"));
        let code = refusal.cause.code();
        format!("{by}: {code}: {}{}", refusal.cause, miss.unwrap_or_default())
    };
    refusals(options, text).iter().map(line).collect()
}

/// The code and the missing part of the only refusal.
#[track_caller]
fn refused(text: &str, code: &str, miss: &str) {
    let refusals = refusals(&upstream(), text);
    let [refusal] = &refusals[..] else {
        panic!("{text}\n{}", explained(text).join("\n"))
    };
    let nearest = refusal.nearest_miss.as_deref().unwrap_or_default();
    assert_eq!(
        (refusal.cause.code(), nearest),
        (code, miss),
        "{text}\n{}",
        refusal.cause
    );
}

const SMALL: &str = "type small cpu=2 mem=4Gi price=0.1\n";

/// Every way in which an existing node may refuse.
#[test]
fn nodes_say_what_is_missing() {
    let cases: &[(&str, &str, &str)] = &[
        (
            "node n cpu=4 mem=8Gi
             bound n b cpu=1 mem=1Gi
             pod p cpu=3.5 mem=1Gi",
            "NodeResources",
            "needs 3.5 cpu; 3 is free",
        ),
        (
            "node n cpu=4 mem=8Gi
             bound n b cpu=1 mem=6.5Gi
             pod p cpu=1 mem=2Gi",
            "NodeResources",
            "needs 2Gi memory; 1.5Gi is free",
        ),
        (
            "node n cpu=4 mem=8Gi
             pod p cpu=1 mem=1Gi gpu=1",
            "NodeResources",
            "needs 1 nvidia.com/gpu; 0 is free",
        ),
        (
            "node n cpu=4 mem=8Gi taint=team=red:NoSchedule taint=old:NoExecute
             pod p cpu=1 mem=1Gi",
            "Taint",
            "nor are these tolerated: old:NoExecute",
        ),
        (
            "node n cpu=4 mem=8Gi taint=team=red:NoSchedule
             pod p cpu=1 mem=1Gi",
            "Taint",
            "",
        ),
        (
            "node n cpu=4 mem=8Gi label=team=red
             pod p cpu=1 mem=1Gi select=team:in:blue",
            "Incompatible",
            "",
        ),
        (
            "node n cpu=4 mem=8Gi
             pod p cpu=1 mem=1Gi select=team:in:blue",
            "UndefinedLabel",
            "",
        ),
        (
            "node n cpu=4 mem=8Gi label=team=red
             pod p cpu=1 mem=1Gi select=team:in:red term=team:in:blue",
            "Incompatible",
            "its own requirements on team contradict each other; no node can meet them",
        ),
        (
            "node n cpu=4 mem=8Gi zone=a
             pod p cpu=1 mem=1Gi vol=data//zone:in:b",
            "VolumeTopology",
            "",
        ),
        (
            "node n cpu=4 mem=8Gi attach=ebs:1
             bound n b cpu=1 mem=1Gi vol=data/ebs
             pod p cpu=1 mem=1Gi vol=more/ebs",
            "VolumeLimit",
            "",
        ),
        (
            "node n cpu=4 mem=8Gi
             bound n b cpu=1 mem=1Gi port=80
             pod p cpu=1 mem=1Gi port=80@10.0.0.1",
            "HostPort",
            "0.0.0.0:80/TCP is held by pod default/b",
        ),
        (
            "node n cpu=4 mem=8Gi
             bound n b cpu=5 mem=1Gi
             pod p cpu=1 mem=1Gi",
            "NodeNotUsable",
            "its pods ask for 1 cpu more than it has",
        ),
        (
            "node n cpu=4 mem=8Gi
             bound n b cpu=3.8 mem=1Gi
             daemon d cpu=0.5 mem=1Gi
             pod p cpu=0.1 mem=1Gi",
            "NodeNotUsable",
            "DaemonSet pods still to come need 0.3 cpu more than is free",
        ),
        (
            "node n cpu=4 mem=8Gi attach=ebs:1
             bound n b cpu=1 mem=1Gi vol=a/ebs vol=b/ebs
             pod p cpu=1 mem=1Gi",
            "NodeNotUsable",
            "2 volumes of ebs are attached; its limit is 1",
        ),
        (
            "node n cpu=4 mem=8Gi deleting
             pod p cpu=1 mem=1Gi",
            "NodeNotUsable",
            "",
        ),
        (
            "node n cpu=4 mem=8Gi
             bound n b cpu=1 mem=1Gi label=app=x
             pod p cpu=1 mem=1Gi apart=host/app=x",
            "PodAntiAffinity",
            "pods it must be apart from are in n",
        ),
        (
            "node n cpu=4 mem=8Gi zone=a
             bound n b cpu=1 mem=1Gi apart=zone/app=x
             pod p cpu=1 mem=1Gi label=app=x",
            "PodAntiAffinity",
            "pods that must be apart from it are in a",
        ),
        (
            "node n cpu=4 mem=8Gi zone=a
             pod p cpu=1 mem=1Gi near=zone/app=x",
            "PodAffinity",
            "no pod it must be near is anywhere yet, nor does it match its own rule",
        ),
        (
            "node n cpu=4 mem=8Gi
             bound n b cpu=1 mem=1Gi label=app=x
             pod p cpu=1 mem=1Gi label=app=x spread=host/1/app=x",
            "TopologySpread",
            "maxSkew 1 admits no more on one node",
        ),
    ];
    for (text, code, miss) in cases {
        refused(text, code, miss);
    }
}

#[test]
fn the_volume_limit_is_told_with_its_numbers() {
    let lines = explained(
        "node n cpu=4 mem=8Gi attach=ebs:2
         bound n b cpu=1 mem=1Gi vol=data/ebs
         pod p cpu=1 mem=1Gi vol=more/ebs vol=most/ebs",
    );
    assert_eq!(
        lines,
        ["node n: VolumeLimit: would exceed volume limit (provisioner=ebs, volume-count=3, volume-limit=2)"]
    );
}

/// Of several constraints, the one that excludes the node is reported.
#[test]
fn the_guilty_constraint_is_named() {
    let lines = explained(
        "node n cpu=4 mem=8Gi zone=a
         node m cpu=4 mem=8Gi zone=b
         bound n x cpu=1 mem=1Gi label=app=x
         bound m y cpu=1 mem=1Gi label=app=y
         pod p cpu=1 mem=1Gi label=app=z apart=zone/app=x spread=zone/1/app=z apart=host/app=y",
    );
    let tails: Vec<&str> = lines.iter().map(|line| line.rsplit_once(" [").unwrap().1).collect();
    assert_eq!(
        tails,
        [
            "pods it must be apart from are in m]",
            "pods it must be apart from are in a]"
        ]
    );
}

/// Every way in which a pool may refuse a new node.
#[test]
fn pools_say_what_is_missing() {
    let cases: &[(&str, &str, &str)] = &[
        (
            "pool a
             pod p cpu=9 mem=1Gi",
            "InstanceTypes",
            "needs 9 cpu; the largest type that meets its requirements leaves 2",
        ),
        (
            "pool a
             daemon d cpu=0.5 mem=1Gi
             pod p cpu=2 mem=1Gi",
            "InstanceTypes",
            "needs 2 cpu; the largest type that meets its requirements leaves 1.5",
        ),
        (
            "type large cpu=8 mem=16Gi price=0.4 arch=arm64
             pool a
             pod p cpu=4 mem=1Gi select=arch:in:amd64",
            "InstanceTypes",
            "needs 4 cpu; the largest type that meets its requirements leaves 2",
        ),
        (
            "pool a
             pod p cpu=1 mem=1Gi select=arch:in:arm64",
            "InstanceTypes",
            "1 instance type would do but for kubernetes.io/arch In [arm64]",
        ),
        (
            "pool a
             pod p cpu=1 mem=1Gi select=zone:in:mars",
            "InstanceTypes",
            "1 instance type would do but for topology.kubernetes.io/zone In [mars]",
        ),
        (
            "type spotty cpu=2 mem=4Gi offer=spot/a/0.1/off
             pool a
             pod p cpu=1 mem=1Gi select=ct:in:spot",
            "InstanceTypes",
            "1 instance type would do but cannot be had now",
        ),
        (
            "pool a req=zone:in:a,b
             pod p cpu=1 mem=1Gi select=zone:in:c",
            "Incompatible",
            "1 instance type would do but for topology.kubernetes.io/zone In [c]",
        ),
        (
            "pool a
             pod p cpu=1 mem=1Gi select=team:in:red",
            "UndefinedLabel",
            "1 instance type would do but for team In [red]",
        ),
        (
            "pool a
             pod p cpu=1 mem=1Gi select=host:in:n",
            "Incompatible",
            "1 instance type would do but for kubernetes.io/hostname In [n]",
        ),
        (
            "pool a label=team=red
             pod p cpu=1 mem=1Gi select=team:in:red term=team:in:blue",
            "Incompatible",
            "its own requirements on team contradict each other; no node can meet them",
        ),
        (
            "pool a req=zone:in:a
             pod p cpu=1 mem=1Gi vol=data//zone:in:b",
            "VolumeTopology",
            "1 instance type would do but for topology.kubernetes.io/zone In [b]",
        ),
        (
            "pool a taint=x:NoSchedule taint=y:NoExecute
             pod p cpu=1 mem=1Gi tol=x",
            "Taint",
            "",
        ),
        (
            "pool a
             daemon d cpu=0.1 mem=0.1Gi port=9100
             pod p cpu=1 mem=1Gi port=9100",
            "InstanceTypes",
            "a DaemonSet claims host port 9100/TCP on every node of the pool",
        ),
        (
            "type b cpu=2 mem=4Gi price=0.1 arch=arm64
             pool a req=type:exists::min=2
             pod p cpu=1 mem=1Gi select=arch:in:amd64",
            "MinValues",
            "needs 2 values of node.kubernetes.io/instance-type; 1 are left",
        ),
        (
            "pool a
             pod p cpu=1 mem=1Gi near=host/app=x",
            "PodAffinity",
            "no pod it must be near is anywhere yet, nor does it match its own rule",
        ),
    ];
    for (text, code, miss) in cases {
        refused(&format!("{SMALL}{text}"), code, miss);
    }
}

// SCH-146
#[test]
fn limits_say_what_is_left_of_them() {
    let lines = explained(
        "type small cpu=2 mem=4Gi price=0.1
         pool a limit=cpu:3
         node n cpu=2 mem=4Gi pool=a
         bound n b cpu=2 mem=1Gi
         pod p cpu=1 mem=1Gi",
    );
    assert_eq!(
        lines,
        [
            "node n: NodeResources: exceeds node resources [needs 1 cpu; 0 is free]",
            "pool a: Limits: all available instance types exceed limits for nodepool (NodePool=a) \
             [1 cpu of its limit of 3 is left; its smallest instance type has 2]",
        ]
    );
    let lines = explained(
        "type small cpu=2 mem=4Gi price=0.1
         pool a limit=nodes:1
         node n cpu=2 mem=4Gi pool=a taint=x:NoSchedule
         pod p cpu=1 mem=1Gi",
    );
    assert_eq!(
        lines[1],
        "pool a: NodeLimit: node limits have been exhausted for nodepool (NodePool=a) \
         [its limit of 1 node is used up by nodes that are there or planned]"
    );
}

/// A spread is reported with the domain that limits the others.
#[test]
fn a_spread_names_its_emptiest_domain() {
    let lines = explained(
        "type t cpu=2 mem=4Gi price=0.1
         pool a req=zone:in:a,b
         node n cpu=4 mem=8Gi zone=a
         node m cpu=4 mem=8Gi zone=b
         node o cpu=1 mem=1Gi zone=c taint=x:NoSchedule
         bound n x cpu=1 mem=1Gi label=app=x
         bound m y cpu=1 mem=1Gi label=app=x
         pod p cpu=1 mem=1Gi label=app=x spread=zone/1/app=x",
    );
    let miss = "[with maxSkew 1 none may hold more than 1 while c has 0]";
    assert_eq!(lines.len(), 4, "{}", lines.join("\n"));
    assert!(
        lines[0].starts_with("node m: TopologySpread") && lines[0].ends_with(miss),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].starts_with("node n: TopologySpread") && lines[1].ends_with(miss),
        "{}",
        lines[1]
    );
    assert_eq!(lines[2], "node o: Taint: did not tolerate taint (taint=x:NoSchedule)");
    assert!(
        lines[3].starts_with("pool a: TopologySpread") && lines[3].ends_with(miss),
        "{}",
        lines[3]
    );
}

#[test]
fn pools_that_take_no_part_are_named_last() {
    let lines = explained(
        "type t cpu=2 mem=4Gi price=0.1
         pool fixed static
         pool moon req=zone:in:moon
         pool open
         pod p cpu=9 mem=1Gi",
    );
    assert!(lines[0].starts_with("pool open: InstanceTypes: "), "{}", lines[0]);
    assert_eq!(
        lines[1..],
        [
            "pool fixed: PoolNotUsable: it holds a fixed number of nodes (spec.replicas) and makes none for pods",
            "pool moon: PoolNotUsable: NodePool requirements filtered out all compatible available instance types \
             [1 instance type would do but for topology.kubernetes.io/zone In [moon]]",
        ]
    );
}

/// A node that would take the pod is not listed, and the other pods are where the plan puts them.
#[test]
fn a_pod_that_has_a_place_hears_only_of_those_that_refuse() {
    let world = "type t cpu=2 mem=4Gi price=0.1
         pool a
         pool b weight=10 taint=x:NoSchedule
         node n cpu=1 mem=4Gi
         node o cpu=4 mem=4Gi
         pod q cpu=1 mem=1Gi
         pod p cpu=0.5 mem=1Gi";
    for options in [upstream(), Options::default()] {
        assert_eq!(
            explained_under(&options, world),
            [
                "node n: NodeResources: exceeds node resources [needs 0.5 cpu; 0 is free]",
                "pool b: Taint: did not tolerate taint (taint=x:NoSchedule)",
            ]
        );
    }
}

#[test]
fn amounts_that_look_alike_are_printed_exactly() {
    let lines = explained(
        "node n cpu=4 mem=8Gi
         bound n b cpu=1 mem=4294967297
         pod p cpu=1 mem=4Gi",
    );
    assert!(
        lines[0].ends_with("[needs 4Gi memory; 4294967295 is free]"),
        "{}",
        lines[0]
    );
}

#[test]
fn a_pod_nobody_can_consider_has_no_refusals() {
    assert!(explained("type t cpu=2 mem=4Gi price=0.1\npool a\npod p cpu=1 mem=1Gi faulty=x").is_empty());
}

// SCH-244
#[test]
fn the_error_is_that_of_the_latest_attempt_and_success_erases_it() {
    // p is tried first and finds no pod to be near; once q is placed, only the limit may refuse it.
    let world = |limit: &str| {
        format!(
            "type t cpu=2 mem=4Gi price=0.1 zones=a
             pool default limit=nodes:{limit}
             pod p cpu=1.8 mem=1Gi near=zone/app=x
             pod q cpu=1.5 mem=1Gi label=app=x"
        )
    };
    check(
        &world("1"),
        "default/t a: q
         - p: node limits have been exhausted for nodepool (NodePool=default)",
    );
    check(
        &world("2"),
        "default/t a: q
         default/t a: p",
    );
}
