//! What plans cost without each of their constraints.

use crate::case::Case;
use kerf_decide::{Constraint, PlanCost, Settings, cost_without};
use kerf_model::in_flight::InFlight;
use kerf_model::intern::Interner;
use kerf_testkit::fixture::Fixture;
use kerf_units::policy::Packing;
use std::sync::Arc;

fn case(text: &str) -> Case {
    Case {
        snapshot: Arc::new(Fixture::read(text).snapshot),
        in_flight: InFlight::default(),
        settings: Settings::default(),
    }
}

fn name(constraint: &Constraint, interner: &Interner) -> String {
    match constraint {
        Constraint::TopologySpread(key) => format!("spread {}", interner.text(*key)),
        Constraint::PodRequirement(key) => format!("pods {}", interner.text(*key)),
        Constraint::PoolRequirement(pool, key) => format!("pool {pool} {}", interner.text(*key)),
        Constraint::PoolLimits(pool) => format!("limits {pool}"),
        Constraint::DaemonSet(name) => format!("daemon {name}"),
        Constraint::Packing(packing) => format!("packing {packing}"),
        other @ (Constraint::PodAffinity
        | Constraint::PodAntiAffinity
        | Constraint::PreferredNodeAffinity
        | Constraint::VolumeTopology
        | Constraint::HostPorts
        | Constraint::MinValues) => format!("{other:?}"),
    }
}

/// A cost as dollars per hour, nodes and pods left over.
fn text(cost: PlanCost) -> String {
    format!("{:.2} {} {}", cost.price.per_hour(), cost.nodes, cost.left_over)
}

const ARCH: &str = "kubernetes.io/arch";
const ZONE: &str = "topology.kubernetes.io/zone";

#[test]
fn a_plan_costs_what_one_without_the_constraint_costs() {
    let table = [
        (
            "type t cpu=2 mem=8Gi price=0.1 zones=a,b\npool p\npod w*2 cpu=500m label=app=x spread=zone/1/app=x",
            format!("spread {ZONE}"),
            "0.20 2 0",
            "0.10 1 0",
        ),
        (
            "type t cpu=2 mem=8Gi price=0.1\npool p\npod w*2 cpu=500m label=app=x apart=host/app=x",
            "PodAntiAffinity".to_owned(),
            "0.20 2 0",
            "0.10 1 0",
        ),
        (
            "type t cpu=2 mem=8Gi price=0.1\ntype big cpu=4 mem=16Gi price=0.5\npool p\n\
             pod w*2 cpu=1500m label=app=x near=host/app=x",
            "PodAffinity".to_owned(),
            "0.50 1 0",
            "0.20 2 0",
        ),
        (
            "type t cpu=2 mem=8Gi price=0.1\ntype arm cpu=2 mem=8Gi price=0.05 arch=arm64\npool p\n\
             pod w cpu=1 select=arch:In:amd64",
            format!("pods {ARCH}"),
            "0.10 1 0",
            "0.05 1 0",
        ),
        (
            "type t cpu=2 mem=8Gi price=0.1\ntype arm cpu=2 mem=8Gi price=0.05 arch=arm64\npool p\n\
             pod w cpu=1 term=arch:In:amd64",
            format!("pods {ARCH}"),
            "0.10 1 0",
            "0.05 1 0",
        ),
        (
            "type t cpu=2 mem=8Gi price=0.1\ntype arm cpu=2 mem=8Gi price=0.05 arch=arm64\npool p\n\
             pod w cpu=1 prefer=1/arch:In:amd64",
            "PreferredNodeAffinity".to_owned(),
            "0.10 1 0",
            "0.05 1 0",
        ),
        (
            "type t cpu=2 mem=8Gi price=0.1\ntype arm cpu=2 mem=8Gi price=0.05 arch=arm64\npool p req=arch:In:amd64\n\
             pod w cpu=1",
            format!("pool p {ARCH}"),
            "0.10 1 0",
            "0.05 1 0",
        ),
        (
            "type t cpu=2 mem=8Gi price=0.1\npool p limit=cpu:2\npod w*2 cpu=1500m",
            "limits p".to_owned(),
            "0.10 1 1",
            "0.20 2 0",
        ),
        (
            "type t cpu=2 mem=8Gi price=0.1\ntype big cpu=4 mem=16Gi price=0.5\npool p\n\
             daemon agent cpu=1\npod w cpu=1500m",
            "daemon default/agent".to_owned(),
            "0.50 1 0",
            "0.10 1 0",
        ),
        (
            "type t cpu=2 mem=8Gi price=0.1\npool p\npod w*2 cpu=500m port=80",
            "HostPorts".to_owned(),
            "0.20 2 0",
            "0.10 1 0",
        ),
        (
            "type t cpu=2 mem=8Gi offer=on-demand/a/0.1 offer=on-demand/b/0.3\npool p\n\
             pod w cpu=500m vol=data/ebs/zone:In:b",
            "VolumeTopology".to_owned(),
            "0.30 1 0",
            "0.10 1 0",
        ),
        (
            "type t cpu=2 mem=8Gi price=0.1\npool p req=type:Exists::min=2\npod w cpu=500m",
            "MinValues".to_owned(),
            "0.00 0 1",
            "0.10 1 0",
        ),
    ];
    for (cluster, constraint, base, without) in table {
        let case = case(cluster);
        let snapshot = &case.snapshot;
        let plan = Fixture::read(cluster).plan(&case.settings.solver);
        assert_eq!(text(PlanCost::of(&plan)), base, "{cluster}");
        let all = Constraint::all(&case.view());
        let found = all.iter().find(|one| name(one, &snapshot.interner) == constraint);
        let found = found.unwrap_or_else(|| panic!("{constraint} is not among {all:?} of\n{cluster}"));
        assert_eq!(text(cost_without(&case.view(), found)), without, "{cluster}");
    }
}

#[test]
fn each_constraint_is_named_once() {
    let case = case(
        "type t cpu=4 mem=16Gi price=0.1 zones=a,b
         pool p limit=cpu:100 req=arch:In:amd64 req=os:In:linux
         pool q static limit=cpu:100
         daemon agent cpu=100m
         pod a*2 cpu=1 label=app=a spread=zone/1/app=a select=zone:In:a,b
         pod b*2 cpu=1 label=app=b spread=zone/1/app=b select=os:In:linux",
    );
    let names: Vec<String> = Constraint::all(&case.view())
        .iter()
        .map(|constraint| name(constraint, &case.snapshot.interner))
        .collect();
    let expected = [
        format!("spread {ZONE}"),
        format!("pods {ZONE}"),
        "limits p".to_owned(),
        format!("pool p {ARCH}"),
        "daemon default/agent".to_owned(),
        "packing cheapest".to_owned(),
        "packing upstream".to_owned(),
    ];
    assert_eq!(names, expected);
}

#[test]
fn another_way_to_pack_replaces_that_of_annotations_too() {
    let cluster =
        "type s cpu=2 mem=8Gi price=0.1\ntype l cpu=16 mem=64Gi price=1.2\npool p packing=upstream\npod w*20 cpu=1500m";
    let case = case(cluster);
    for packing in [Packing::Cheapest, Packing::Upstream] {
        let mut options = case.settings.solver.clone();
        options.packing = packing;
        let expected = Fixture::read(&cluster.replace(" packing=upstream", "")).plan(&options);
        let found = cost_without(&case.view(), &Constraint::Packing(packing));
        assert_eq!(found, PlanCost::of(&expected));
    }
    let of = |packing| cost_without(&case.view(), &Constraint::Packing(packing));
    assert!(of(Packing::Cheapest).price < of(Packing::Upstream).price);
}
