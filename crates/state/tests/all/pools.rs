//! NodePools: eligibility, requirements, usage, prices.

use crate::fixture::{amounts, claim, find, mirror, node, now, yaml};
use kerf_api::NodePool;
use kerf_model::budget::DisruptionReason;
use kerf_model::instance_type::{Catalogue, InstanceType, Offering};
use kerf_model::intern::{Interner, sym};
use kerf_model::nodepool::Eligibility;
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use kerf_state::{Conventions, Converter, Mirror, pool_cost};
use std::sync::Arc;

const READY: &str = "status: {conditions: [{type: Ready, status: 'True', reason: Ready, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}]}";

fn pool(meta: &str, spec: &str, rest: &str) -> NodePool {
    yaml(&format!(
        "apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default, uid: pool{meta}}}
spec:
  template:
    metadata: {{labels: {{team: a, beta.kubernetes.io/os: linux}}}}
    spec:
      requirements: [{{key: team, operator: In, values: [a, b]}}, {{key: cpus, operator: Gt, values: ['3'], minValues: 2}}]
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: small}}
      taints: [{{key: t, effect: NoSchedule}}]
      startupTaints: [{{key: s, effect: NoExecute}}]
  {spec}
{rest}
"
    ))
}

// SCH-112, SCH-115
#[test]
fn the_templates_requirements() {
    let interner = Arc::new(Interner::default());
    let mut converter = Converter::new(Arc::clone(&interner), &Conventions::default());
    let facts = converter.pool(&pool("", "weight: 7", READY), false).unwrap();
    assert_eq!(
        facts.pool.requirements.print(&interner),
        "cpus Exists >=4 minValues 2, karpenter.kwok.sh/kwoknodeclass In [small], karpenter.sh/initialized In [true], \
         karpenter.sh/nodepool In [default], karpenter.sh/registered In [true], kubernetes.io/os In [linux], team In [a]"
    );
    assert_eq!(facts.pool.weight, 7);
    assert_eq!(facts.pool.taints.len(), 1);
    assert_eq!(facts.pool.startup_taints[0].to_string(), "s:NoExecute");
}

// SCH-136, SCH-137, SCH-138
#[test]
fn eligibility() {
    let of = |meta: &str, spec: &str, rest: &str, offline: bool| {
        let mut conventions = Conventions::default();
        conventions
            .node_classes
            .insert(("karpenter.kwok.sh".to_owned(), "KWOKNodeClass".to_owned()));
        Converter::new(Arc::default(), &conventions)
            .pool(&pool(meta, spec, rest), offline)
            .unwrap()
            .pool
            .eligibility
    };
    let not_ready = "status: {conditions: [{type: Ready, status: 'False', reason: UnhealthyDependents, message: 'NodeClassReady=False', lastTransitionTime: '2026-01-01T00:00:00Z'}]}";
    let unhealthy = "status: {conditions: [{type: Ready, status: 'True', reason: Ready, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'},
        {type: NodeRegistrationHealthy, status: 'False', reason: RegistrationFailed, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}]}";
    assert_eq!(of("", "", READY, false), Eligibility::Eligible);
    assert_eq!(of("", "", unhealthy, false), Eligibility::Eligible);
    assert_eq!(of("", "replicas: 2", READY, false), Eligibility::Static);
    assert_eq!(
        of("", "", not_ready, false),
        Eligibility::NotReady("NodeClassReady=False".into())
    );
    assert_eq!(
        of("", "", "", false),
        Eligibility::NotReady("object is awaiting reconciliation".into())
    );
    assert_eq!(of("", "", "", true), Eligibility::Eligible);
    let deleting = ", deletionTimestamp: '2026-01-01T00:00:00Z'";
    assert_eq!(of(deleting, "", READY, false), Eligibility::Deleting);
    let mut conventions = Conventions::default();
    conventions
        .node_classes
        .insert(("karpenter.k8s.aws".to_owned(), "EC2NodeClass".to_owned()));
    let foreign = Converter::new(Arc::default(), &conventions)
        .pool(&pool("", "", READY), false)
        .unwrap();
    assert_eq!(foreign.pool.eligibility, Eligibility::ForeignNodeClass);
}

// SCH-080
#[test]
fn registration_health_is_read() {
    let status = |status: &str| {
        format!(
            "status: {{conditions: [{{type: NodeRegistrationHealthy, status: '{status}', reason: x, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}}]}}"
        )
    };
    for (text, expected) in [("True", Some(true)), ("False", Some(false)), ("Unknown", None)] {
        let facts = Converter::new(Arc::default(), &Conventions::default())
            .pool(&pool("", "", &status(text)), false)
            .unwrap();
        assert_eq!(facts.pool.registration_healthy, expected);
    }
}

fn usage(mirror: &mut Mirror) -> String {
    let interner = mirror.interner().clone();
    amounts(&mirror.snapshot(now()).pools[0].usage, &interner)
}

const POOLED: &str = ", karpenter.sh/nodepool: default, node.kubernetes.io/instance-type: m, karpenter.sh/initialized: 'true', karpenter.sh/registered: 'true'";

// SCH-068, SCH-145, LIF-199, LIF-209
#[test]
fn usage_follows_the_machines_that_stay() {
    let mut mirror = mirror();
    mirror.apply(pool("", "limits: {cpu: '10', nodes: '3'}", READY));
    assert_eq!(usage(&mut mirror), "");
    mirror.apply(claim("c", Some("cloud://n"), ""));
    assert_eq!(
        usage(&mut mirror),
        "cpu=4000 memory=8589934592 nodes=1 nvidia.com/gpu=1 pods=10"
    );
    mirror.apply(node("n", POOLED, "[]"));
    assert_eq!(usage(&mut mirror), "cpu=4000 memory=8589934592 nodes=1 pods=10");
    mirror.apply(node("m", POOLED, "[]"));
    let left = mirror.snapshot(now()).pools[0].remaining().unwrap();
    assert_eq!(
        (left.get(sym::CPU), left.get(sym::NODES), left.contains(sym::MEMORY)),
        (2000, 1, false)
    );
    for _ in 0..2 {
        mirror.mark_for_deletion("cloud://n");
        assert_eq!(
            usage(&mut mirror),
            "cpu=4000 memory=8589934592 nodes=1 pods=10",
            "marked once, subtracted once"
        );
    }
    mirror.unmark_for_deletion("cloud://n");
    assert_eq!(usage(&mut mirror), "cpu=8000 memory=17179869184 nodes=2 pods=20");
    mirror.delete(&node("m", "", "[]"));
    mirror.delete(&node("n", "", "[]"));
    mirror.delete(&claim("c", None, ""));
    assert_eq!(usage(&mut mirror), "");
}

// SCH-150
#[test]
fn the_usage_of_one_pool_needs_no_snapshot() {
    let mut mirror = mirror();
    mirror.apply(pool("", "limits: {cpu: '10'}", READY));
    mirror.snapshot(now());
    let interner = Arc::clone(mirror.interner());
    let used = |mirror: &mut Mirror| amounts(&mirror.pool("default", now()).unwrap().usage, &interner);
    assert_eq!(used(&mut mirror), "");
    mirror.apply(node("n", POOLED, "[]"));
    assert_eq!(used(&mut mirror), "cpu=4000 memory=8589934592 nodes=1 pods=10");
    assert!(mirror.pool("other", now()).is_none());
    let snapshot = mirror.snapshot(now());
    assert_eq!(snapshot.nodes.len(), 1, "the snapshot still shows what changed");
    assert_eq!(snapshot.pools[0].usage.get(sym::CPU), 4000);
}

fn catalogue(interner: &Interner, price: f64, available: bool) -> Arc<Catalogue> {
    let is = |key, value: &str| Requirement::is(key, interner.intern(value));
    let offering = |zone: &str, price| Offering {
        requirements: Requirements::from_all([is(sym::ZONE, zone), is(sym::CAPACITY_TYPE, "spot")], interner),
        price: Price::from_per_hour(price).unwrap(),
        available,
        reservation: None,
        capacity_override: None,
        overhead_override: None,
    };
    Arc::new(Catalogue {
        types: vec![InstanceType {
            name: interner.intern("m"),
            requirements: Requirements::new(),
            capacity: Resources::new(),
            overhead: Resources::new(),
            offerings: vec![offering("a", price), offering("b", 9.0)],
            price_overlaid: false,
            capacity_overlaid: false,
        }],
    })
}

// DIS-044, LIF-218
#[test]
fn a_machine_costs_what_the_offering_its_labels_name_costs() {
    let mut mirror = mirror();
    let interner = mirror.interner().clone();
    mirror.apply(node(
        "n",
        &format!("{POOLED}, topology.kubernetes.io/zone: a, karpenter.sh/capacity-type: spot"),
        "[]",
    ));
    let price = |mirror: &mut Mirror| find(&mirror.snapshot(now()), "n").price.map(|price| price.to_string());
    assert_eq!(price(&mut mirror), None);
    mirror.set_catalogue("default", Ok(catalogue(&interner, 0.25, false)));
    assert_eq!(price(&mut mirror).as_deref(), Some("0.2500"), "available or not");
    mirror.set_catalogue("default", Ok(catalogue(&interner, 0.5, true)));
    assert_eq!(price(&mut mirror).as_deref(), Some("0.5000"));
    mirror.apply(node(
        "n",
        &format!("{POOLED}, topology.kubernetes.io/zone: c, karpenter.sh/capacity-type: spot"),
        "[]",
    ));
    assert_eq!(price(&mut mirror), None);
}

// LIF-217, LIF-218, LIF-219, LIF-221
#[test]
fn a_pool_costs_what_its_claims_cost() {
    let mut mirror = mirror();
    let interner = mirror.interner().clone();
    mirror.set_catalogue("default", Ok(catalogue(&interner, 0.25, true)));
    let typed = |name: &str, zone: &str| {
        let mut claim = claim(name, Some(&format!("cloud://{name}")), "");
        let labels = claim.metadata.labels.get_or_insert_default();
        for (key, value) in [
            ("node.kubernetes.io/instance-type", "m"),
            ("karpenter.sh/capacity-type", "spot"),
            ("topology.kubernetes.io/zone", zone),
        ] {
            labels.insert(key.to_owned(), value.to_owned());
        }
        claim
    };
    let cost = |mirror: &mut Mirror| {
        let cost = pool_cost(&mirror.snapshot(now()), "default");
        format!("{} {}", cost.price, cost.unpriced.join(" "))
    };
    mirror.apply(claim("unlabelled", Some("cloud://u"), ""));
    assert_eq!(cost(&mut mirror), "0.0000 ");
    mirror.apply(typed("a", "a"));
    mirror.apply(typed("b", "b"));
    mirror.apply(typed("unknown", "z"));
    assert_eq!(cost(&mut mirror), "9.2500 unknown");
    // LIF-220: a price that changes is the price from then on.
    mirror.set_catalogue("default", Ok(catalogue(&interner, 0.5, true)));
    assert_eq!(cost(&mut mirror), "9.5000 unknown");
    mirror.set_catalogue("default", Ok(catalogue(&interner, 0.25, true)));
    mirror.delete(&typed("b", "b"));
    mirror.delete(&typed("unknown", "z"));
    assert_eq!(cost(&mut mirror), "0.2500 ");
    mirror.delete(&typed("a", "a"));
    assert_eq!(cost(&mut mirror), "0.0000 ");
}

// API-205
#[test]
fn a_budget_without_a_window_is_always_active() {
    let spec = "disruption: {consolidateAfter: 30s, budgets: [{nodes: '2'}]}";
    let facts = Converter::new(Arc::default(), &Conventions::default())
        .pool(&pool("", spec, READY), false)
        .unwrap();
    for at in ["1999-12-31T23:59:59Z", "2026-06-15T13:37:00Z"] {
        let at = at.parse().unwrap();
        for reason in DisruptionReason::ALL {
            assert_eq!(facts.pool.disruption.allowed(reason, 10, at), Ok(Some(2)));
        }
    }
}

// DIS-079
#[test]
fn a_bad_budget_is_kept_as_its_fault() {
    let spec = "disruption: {consolidateAfter: 30s, budgets: [{nodes: '2'}, {nodes: many}, {nodes: '1', schedule: 'a b c d e', duration: 1h}]}";
    let facts = Converter::new(Arc::default(), &Conventions::default())
        .pool(&pool("", spec, READY), false)
        .unwrap();
    let found: Vec<bool> = facts.pool.disruption.budgets.iter().map(Result::is_ok).collect();
    assert_eq!(found, [true, false, false]);
}
