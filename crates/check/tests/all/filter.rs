//! The filters give the same reasons as kube-scheduler.

#![expect(clippy::disallowed_methods, reason = "plans are made with the model's own functions")]

use crate::fixture::{Cluster, bind, port, resources, spread, term, web_pod};
use kerf_check::filter::feasible;
use kerf_model::intern::sym;
use kerf_model::pod::{Pod, PodShape, PodVolume};
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::taint::{Effect, Taint};
use std::sync::Arc;

fn texts(cluster: &Cluster, pod: &Pod) -> String {
    let result = feasible(pod, &cluster.snapshot.nodes[0], &cluster.snapshot);
    let reasons = result.err().unwrap_or_default();
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn taint(key: &str, value: &str) -> Taint {
    Taint {
        key: key.into(),
        value: value.into(),
        effect: Effect::NoSchedule,
    }
}

#[test]
fn each_filter_has_its_text() {
    type Change = fn(&mut Cluster);
    type Shape = fn(&mut PodShape);
    let table: Vec<(Change, Shape, &str)> = vec![
        (|_| {}, |_| {}, ""),
        (
            |c| c.node_mut(0).taints.push(taint("node.kubernetes.io/unschedulable", "")),
            |_| {},
            "node(s) were unschedulable",
        ),
        (
            |c| c.node_mut(0).taints.push(taint("team", "x")),
            |_| {},
            "node(s) had untolerated taint {team: x}",
        ),
        (
            |_| {},
            |s| s.required_terms = vec![vec![Requirement::exists(sym::ARCH)]],
            "node(s) didn't match Pod's node affinity/selector",
        ),
        (
            |c| bind(c.node_mut(0), web_pod("holder", |s| s.host_ports = vec![port(80)])),
            |s| s.host_ports = vec![port(80)],
            "node(s) didn't have free ports for the requested pod ports",
        ),
        (|_| {}, |s| s.requests = resources(9000, 1, 1), "Insufficient cpu"),
        (
            |_| {},
            |s| s.requests = resources(9000, 99, 11),
            "Too many pods; Insufficient cpu; Insufficient memory",
        ),
        (
            |c| bind(c.node_mut(0), web_pod("other", |_| {})),
            |s| s.spread = vec![spread(sym::ZONE, 1)],
            "node(s) didn't match pod topology spread constraints",
        ),
        (
            |_| {},
            |s| s.spread = vec![spread(sym::ARCH, 1)],
            "node(s) didn't match pod topology spread constraints (missing required label)",
        ),
        (
            |_| {},
            |s| s.affinity = vec![term(sym::ZONE, "db")],
            "node(s) didn't match pod affinity rules",
        ),
        (
            |c| bind(c.node_mut(0), web_pod("other", |_| {})),
            |s| s.anti_affinity = vec![term(sym::ZONE, "web")],
            "node(s) didn't match pod anti-affinity rules",
        ),
        (
            |c| {
                bind(
                    c.node_mut(0),
                    web_pod("other", |s| s.anti_affinity = vec![term(sym::ZONE, "web")]),
                );
            },
            |_| {},
            "node(s) didn't satisfy existing pods anti-affinity rules",
        ),
    ];
    for (change, shape, expected) in table {
        let mut cluster = Cluster::new();
        change(&mut cluster);
        assert_eq!(texts(&cluster, &web_pod("new", shape)), expected);
    }
}

#[test]
fn volumes_are_filtered_by_place_and_number() {
    let mut cluster = Cluster::new();
    let elsewhere = Requirement::is(sym::ZONE, cluster.zones[2]);
    let volume = |claim: &str, topology| PodVolume {
        claim: claim.into(),
        driver: Some("disk".into()),
        topology,
    };
    let mut new = web_pod("new", |_| {});
    new.volumes = vec![volume(
        "default/x",
        vec![Requirements::from_all([elsewhere], &cluster.snapshot.interner)],
    )];
    assert_eq!(texts(&cluster, &new), "node(s) had volume node affinity conflict");
    new.volumes = vec![volume("default/x", vec![]), volume("default/y", vec![])];
    cluster.node_mut(0).volume_limits = vec![(Arc::from("disk"), 1)];
    assert_eq!(texts(&cluster, &new), "node(s) exceed max volume count");
}

#[test]
fn the_first_pod_of_a_group_that_attracts_itself_may_go_anywhere() {
    let mut cluster = Cluster::new();
    let new = web_pod("new", |shape| shape.affinity = vec![term(sym::HOSTNAME, "web")]);
    assert_eq!(texts(&cluster, &new), "");
    bind(cluster.node_mut(1), web_pod("first", |_| {}));
    assert_eq!(texts(&cluster, &new), "node(s) didn't match pod affinity rules");
}
