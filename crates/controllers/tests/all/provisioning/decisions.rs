//! One decision: the solver on the snapshot of a mirror that was given objects.

use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::{NodeClaim, NodePool};
use kerf_cloud::TypeBuilder;
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::{Interner, sym};
use kerf_model::plan::Plan;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Options, Prepared, Request, WhatIf, solve};
use kerf_state::lean::{LeanCsiNode, LeanDaemonSet, LeanNode, LeanPod, LeanPv, LeanPvc};
use kerf_state::{Mirror, MirrorOptions};
use kerf_testkit::objects;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::merge::merge;

pub(crate) fn object<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("an object of that kind")
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

/// A mirror with one pool whose machines have 16 cpu, in three zones.
fn mirror() -> Mirror {
    let interner = Arc::new(Interner::default());
    let kind = TypeBuilder::new(&interner, "m16")
        .label("kubernetes.io/arch", "amd64")
        .label("kubernetes.io/os", "linux")
        .capacity(sym::CPU, 16_000)
        .capacity(sym::MEMORY, 64 << 30)
        .capacity(sym::PODS, 100)
        .offering("zone-a", "on-demand", Price::ZERO)
        .offering("zone-b", "on-demand", Price::ZERO)
        .offering("zone-c", "on-demand", Price::ZERO)
        .build();
    let mut mirror = Mirror::new(interner, &MirrorOptions::default());
    mirror.apply::<NodePool>(object(json!({
        "metadata": {"name": "web", "uid": "web", "generation": 1},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef":
            {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    })));
    mirror.set_catalogue("web", Ok(Arc::new(Catalogue { types: vec![kind] })));
    mirror
}

fn machine(mirror: &mut Mirror, name: &str, zone: &str) {
    let amounts = json!({"cpu": "16", "memory": "64Gi", "pods": "100"});
    let node = json!({
        "metadata": {"name": name, "uid": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}},
        "spec": {"providerID": format!("cloud://{name}")},
        "status": {"capacity": amounts, "allocatable": amounts},
    });
    mirror.apply::<LeanNode>(object(node));
}

/// A pod of the app its name begins with; `spec` is merged over that of a pod of one core.
fn lean_pod(name: &str, node: Option<&str>, spec: Value) -> LeanPod {
    let mut pod = objects::stored("default", objects::pod(name, "1"));
    pod["metadata"]["labels"] = json!({"app": name.split('-').next()});
    merge(&mut pod["spec"], spec);
    object(match node {
        Some(node) => objects::running(pod, node),
        None => objects::unschedulable(pod),
    })
}

fn plan(snapshot: &Snapshot) -> Plan {
    solve(&Request::pending(snapshot), &Options::default(), &|| false)
}

/// (machines to launch, pods on machines there are, pods that go nowhere)
fn outcome(mirror: &mut Mirror) -> (usize, usize, usize) {
    let plan = plan(&mirror.snapshot(now()));
    let placed = plan.existing.iter().map(|placement| placement.pods.len()).sum();
    (plan.launches.len(), placed, plan.unschedulable.len())
}

// SCH-033: nodes and pods are read at one moment, so a pod waits or holds its place, never both and never neither.
#[test]
fn a_pod_is_pending_or_on_its_node() {
    let mut mirror = mirror();
    machine(&mut mirror, "n", "zone-a");
    let seen = |mirror: &mut Mirror| {
        let snapshot = mirror.snapshot(now());
        (snapshot.pending.len(), snapshot.nodes[0].pods.len())
    };
    mirror.apply(lean_pod("a", None, json!({})));
    assert_eq!(seen(&mut mirror), (1, 0));
    let before = mirror.snapshot(now());
    mirror.apply(lean_pod("a", Some("n"), json!({})));
    assert_eq!(seen(&mut mirror), (0, 1));
    // A decision keeps the snapshot it began with.
    assert_eq!((before.pending.len(), before.nodes[0].pods.len()), (1, 0));
    mirror.delete(&lean_pod("a", Some("n"), json!({})));
    assert_eq!(seen(&mut mirror), (0, 0));
}

fn repels(kind: &str, app: &str) -> Value {
    let term = json!({"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": app}}});
    let rule = if kind.starts_with("required") {
        json!({kind: [term]})
    } else {
        json!({kind: [{"weight": 1, "podAffinityTerm": term}]})
    };
    json!({"affinity": {"podAntiAffinity": rule}})
}

// SCH-070
#[test]
fn running_pods_repel_by_what_they_require_until_they_are_gone() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (kind, repelled) in [(required, true), (preferred, false)] {
        let mut mirror = mirror();
        machine(&mut mirror, "n", "zone-a");
        let shy = lean_pod("shy", Some("n"), repels(kind, "web"));
        mirror.apply(shy.clone());
        mirror.apply(lean_pod(
            "web-1",
            None,
            json!({"nodeSelector": {"topology.kubernetes.io/zone": "zone-a"}}),
        ));
        let expected = if repelled { (0, 0, 1) } else { (0, 1, 0) };
        assert_eq!(outcome(&mut mirror), expected, "{kind}");
        mirror.delete(&shy);
        assert_eq!(outcome(&mut mirror), (0, 1, 0), "{kind}, gone");
    }
}

// SCH-046
#[test]
fn a_machine_that_goes_is_no_target() {
    let mut mirror = mirror();
    let claim = |deleted: bool| -> NodeClaim {
        let mut claim = json!({
            "metadata": {"name": "c", "uid": "c", "labels": {"karpenter.sh/nodepool": "web"}},
            "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": []},
            "status": {"providerID": "cloud://n"},
        });
        if deleted {
            claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        object(claim)
    };
    machine(&mut mirror, "n", "zone-a");
    mirror.apply(claim(false));
    mirror.apply(lean_pod("web-1", None, json!({})));
    let with_labels = json!({"metadata": {"name": "n", "uid": "n", "labels": {
        "kubernetes.io/hostname": "n", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
        "karpenter.sh/nodepool": "web", "node.kubernetes.io/instance-type": "m16", "topology.kubernetes.io/zone": "zone-a"}},
        "spec": {"providerID": "cloud://n"},
        "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "100"}}});
    mirror.apply::<LeanNode>(object(with_labels));
    assert_eq!(outcome(&mut mirror), (0, 1, 0));
    mirror.apply(claim(true));
    assert_eq!(outcome(&mut mirror), (1, 0, 0));
}

fn with_volume(claim: &str) -> Value {
    json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]})
}

/// A claim that is bound to the volume of its name.
fn bound_claim(name: &str) -> Value {
    let done = json!({"pv.kubernetes.io/bind-completed": "yes"});
    json!({"metadata": {"name": name, "uid": name, "namespace": "default", "annotations": done}, "spec": {"volumeName": name}})
}

// SCH-470
#[test]
fn attach_limits_bind_machines_there_are_and_a_lost_claim_binds_its_pod_alone() {
    let mut mirror = mirror();
    machine(&mut mirror, "n", "zone-a");
    mirror.apply::<LeanCsiNode>(object(
        json!({"metadata": {"name": "n", "uid": "n"}, "spec": {"drivers": [
        {"name": "disk.example.com", "nodeID": "n", "allocatable": {"count": 1}}]}}),
    ));
    for number in 0..6 {
        let claim = format!("data-{number}");
        mirror.apply::<LeanPv>(object(json!({"metadata": {"name": claim, "uid": claim}, "spec": {
            "csi": {"driver": "disk.example.com", "volumeHandle": claim}}})));
        mirror.apply::<LeanPvc>(object(bound_claim(&claim)));
        mirror.apply(lean_pod(&format!("db-{number}"), None, with_volume(&claim)));
    }
    // One on the machine there is, five on one new machine, of which no limit is known.
    assert_eq!(outcome(&mut mirror), (1, 1, 0));
    mirror.apply(lean_pod("lost", None, with_volume("nowhere")));
    let plan = plan(&mirror.snapshot(now()));
    assert_eq!((plan.launches.len(), plan.ignored.len()), (1, 1));
    assert_eq!(plan.launches[0].pods.len(), 5);
}

// SCH-477
#[test]
fn deciding_leaves_daemon_sets_as_they_are() {
    let mut mirror = mirror();
    let term = |zone: &str| json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]});
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term("zone-a"), term("zone-b")]}});
    mirror.apply::<LeanDaemonSet>(object(
        json!({"metadata": {"name": "agent", "namespace": "default", "uid": "agent"}, "spec": {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"affinity": {"nodeAffinity": required},
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]}}}}),
    ));
    mirror.apply(lean_pod(
        "web-1",
        None,
        json!({"nodeSelector": {"topology.kubernetes.io/zone": "zone-b"}}),
    ));
    let snapshot = mirror.snapshot(now());
    let before = snapshot.daemons.clone();
    let requests = |plan: &Plan| {
        plan.launches
            .iter()
            .map(|launch| launch.requests.get(sym::CPU))
            .collect::<Vec<_>>()
    };
    let first = plan(&snapshot);
    assert_eq!(requests(&first), [1500]);
    assert_eq!(requests(&plan(&snapshot)), [1500]);
    assert_eq!(snapshot.daemons, before);
}

// SCH-161
#[test]
fn daemons_with_resource_claims_take_no_room() {
    for (claims, cpu) in [(json!([]), 1500), (json!([{"name": "gpu"}]), 1000)] {
        let mut mirror = mirror();
        mirror.apply::<LeanDaemonSet>(object(
            json!({"metadata": {"name": "driver", "namespace": "default", "uid": "driver"}, "spec": {
            "selector": {"matchLabels": {"app": "driver"}},
            "template": {"metadata": {"labels": {"app": "driver"}}, "spec": {"resourceClaims": claims,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}},
                                "ports": [{"containerPort": 80, "hostPort": 80}]}]}}}}),
        ));
        mirror.apply(lean_pod("web-1", None, json!({})));
        let launches = plan(&mirror.snapshot(now())).launches;
        assert_eq!(launches.len(), 1);
        assert_eq!(launches[0].requests.get(sym::CPU), cpu, "{claims}");
        // On a machine there is, nothing is kept free for its pod: neither room nor port.
        machine(&mut mirror, "n", "zone-a");
        let takes_all = json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": "16"}},
            "ports": [{"containerPort": 80, "hostPort": 80}]}]});
        mirror.apply(lean_pod("web-1", None, takes_all));
        let placed = if cpu == 1000 { (0, 1, 0) } else { (0, 0, 1) };
        assert_eq!(outcome(&mut mirror), placed, "{claims}");
    }
}

fn zones(mirror: &mut Mirror) -> Vec<(String, usize)> {
    let snapshot = mirror.snapshot(now());
    let options = Options::default();
    let prepared = Prepared::new(&snapshot, &options);
    let zones = prepared.effective_zones(&WhatIf::from(&Request::pending(&snapshot)), &options);
    zones
        .iter()
        .map(|(zone, count)| (zone.label().to_owned(), *count))
        .collect()
}

fn spread(app: &str) -> Value {
    json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}}}])
}

// SCH-350, SCH-486
#[test]
fn pending_pods_are_counted_by_the_only_zone_they_can_use() {
    let in_zones = |zones: &[&str]| {
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones}]}]}}})
    };
    let preferred = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference":
        {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]}]}}]}});
    let beside = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "anchor"}}}]}});
    let away = |app: &str| {
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": app}}}]}})
    };
    let mut both = beside.clone();
    both["podAntiAffinity"] = away("anchor")["podAntiAffinity"].clone();
    let table = [
        ("nothing asked", json!({}), "flexible"),
        ("one zone", json!({"affinity": in_zones(&["zone-b"])}), "zone-b"),
        (
            "two zones",
            json!({"affinity": in_zones(&["zone-a", "zone-b"])}),
            "flexible",
        ),
        ("a preferred zone", json!({"affinity": preferred}), "flexible"),
        ("a volume's zone", with_volume("zonal"), "zone-c"),
        ("beside a pod", json!({"affinity": beside}), "zone-a"),
        (
            "away from it, in two zones",
            json!({"affinity": {"nodeAffinity": in_zones(&["zone-a", "zone-b"])["nodeAffinity"],
            "podAntiAffinity": away("anchor")["podAntiAffinity"]}}),
            "zone-b",
        ),
        (
            "the emptier zone",
            json!({"affinity": in_zones(&["zone-a", "zone-b"]), "topologySpreadConstraints": spread("anchor")}),
            "flexible",
        ),
        ("beside it and away from it", json!({"affinity": both}), "none"),
        (
            "beside it, elsewhere",
            json!({"affinity": {"podAffinity": beside["podAffinity"], "nodeAffinity": in_zones(&["zone-c"])["nodeAffinity"]}}),
            "none",
        ),
    ];
    for (what, spec, zone) in table {
        let mut mirror = mirror();
        machine(&mut mirror, "n", "zone-a");
        mirror.apply(lean_pod("anchor", Some("n"), json!({})));
        mirror.apply::<LeanPv>(object(json!({"metadata": {"name": "zonal", "uid": "zonal"}, "spec": {
            "csi": {"driver": "disk.example.com", "volumeHandle": "zonal"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-c"]}]}]}}}})));
        mirror.apply::<LeanPvc>(object(bound_claim("zonal")));
        mirror.apply(lean_pod("web-1", None, spec.clone()));
        mirror.apply(lean_pod("web-2", None, spec));
        assert_eq!(zones(&mut mirror), [(zone.to_owned(), 2)], "{what}");
    }
}
