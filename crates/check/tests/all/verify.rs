//! Good plans pass, and each way of spoiling one is found.

#![expect(clippy::disallowed_methods, reason = "plans are made with the model's own functions")]

use crate::fixture::{Cluster, app, bind, port, replicas, resources, spread, term, web_pod};
use kerf_check::{CheckOptions, Rule, verify};
use kerf_model::intern::sym;
use kerf_model::plan::{Launch, Plan, Unschedulable};
use kerf_model::pod::{Pod, PodFault, PodVolume};
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use kerf_model::taint::{Effect, Taint};
use std::sync::Arc;

fn found(cluster: &Cluster, pods: &[Arc<Pod>], plan: &Plan) -> Vec<String> {
    let violations = verify(&cluster.snapshot, pods, plan, &CheckOptions::default());
    violations.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn assert_good(cluster: &Cluster, pods: &[Arc<Pod>], plan: &Plan) {
    assert_eq!(found(cluster, pods, plan), Vec::<String>::new());
}

#[track_caller]
fn assert_bad(cluster: &Cluster, pods: &[Arc<Pod>], plan: &Plan, expected: &str) {
    let all = found(cluster, pods, plan);
    assert!(
        all.iter().any(|text| text.contains(expected)),
        "{expected:?} not in {all:#?}"
    );
}

fn left_over(pod: &Arc<Pod>) -> Unschedulable {
    Unschedulable {
        pod: Arc::clone(pod),
        refusals: Arc::new([]),
        deferred: false,
    }
}

#[test]
fn every_pod_is_accounted_for_once() {
    let cluster = Cluster::new();
    let pods = replicas(2, |_| {});
    let good = cluster.on_existing("old-a", &pods);
    assert_good(&cluster, &pods, &good);
    assert_bad(
        &cluster,
        &pods,
        &cluster.on_existing("old-a", &pods[..1]),
        "does not say",
    );
    assert_bad(&cluster, &pods[..1], &good, "not handed in");
    let twice = Plan {
        unschedulable: vec![left_over(&pods[0])],
        ..good
    };
    assert_bad(&cluster, &pods, &twice, "more than once");
    let faulty = Arc::new(Pod {
        faults: vec![PodFault::OptedOut],
        ..web_pod("odd", |_| {})
    });
    let placed = cluster.on_existing("old-a", &[Arc::clone(&faulty)]);
    assert_bad(&cluster, &[Arc::clone(&faulty)], &placed, "validation refuses it");
    let ignored = Plan {
        ignored: vec![(Arc::clone(&faulty), faulty.faults.clone())],
        ..Plan::default()
    };
    assert_good(&cluster, &[faulty], &ignored);
}

#[test]
fn existing_nodes_must_be_there_and_take_the_pod() {
    let mut cluster = Cluster::new();
    let pods = replicas(3, |_| {});
    assert_bad(&cluster, &pods, &cluster.on_existing("gone", &pods), "no such node");
    let four = replicas(4, |_| {});
    // Three cores and the agent's 100m fit into four cores, four do not.
    assert_good(&cluster, &pods, &cluster.on_existing("old-a", &pods));
    assert_bad(
        &cluster,
        &four,
        &cluster.on_existing("old-a", &four),
        "4000 cpu wanted in all, 3900 available",
    );
    let picky = [Arc::new(web_pod("picky", |shape| {
        shape.required_terms = vec![
            vec![Requirement::is(sym::ARCH, sym::SPOT)],
            vec![Requirement::is(sym::ZONE, cluster.zones[1])],
        ];
    }))];
    assert_bad(
        &cluster,
        &picky,
        &cluster.on_existing("old-a", &picky),
        "node selector or affinity not met",
    );
    assert_good(&cluster, &picky, &cluster.on_existing("old-b", &picky));
    let taint = |effect| Taint {
        key: "team".into(),
        value: "x".into(),
        effect,
    };
    cluster.node_mut(0).taints = vec![taint(Effect::PreferNoSchedule)];
    assert_good(&cluster, &pods, &cluster.on_existing("old-a", &pods));
    cluster.node_mut(0).taints = vec![taint(Effect::NoExecute)];
    assert_bad(
        &cluster,
        &pods,
        &cluster.on_existing("old-a", &pods),
        "team=x:NoExecute is not tolerated",
    );
    cluster.node_mut(1).marked_for_deletion = true;
    assert_bad(&cluster, &pods, &cluster.on_existing("old-b", &pods), "going away");
}

// SCH-164, SCH-175, SCH-182
#[test]
fn ports_and_volumes_of_existing_nodes_are_kept_apart() {
    let mut cluster = Cluster::new();
    bind(
        cluster.node_mut(0),
        web_pod("holder", |shape| shape.host_ports = vec![port(80)]),
    );
    let wants = [Arc::new(web_pod("wants", |shape| shape.host_ports = vec![port(80)]))];
    assert_bad(
        &cluster,
        &wants,
        &cluster.on_existing("old-a", &wants),
        "taken by default/holder",
    );
    assert_good(&cluster, &wants, &cluster.on_existing("old-b", &wants));
    let with_volume = |name: &str, claim: &str| {
        let zone = Requirement::is(sym::ZONE, cluster.zones[1]);
        let volume = PodVolume {
            claim: claim.into(),
            driver: Some("disk".into()),
            topology: vec![Requirements::from_all([zone], &cluster.snapshot.interner)],
        };
        Arc::new(Pod {
            volumes: vec![volume],
            ..web_pod(name, |_| {})
        })
    };
    let same = [with_volume("one", "default/x"), with_volume("two", "default/x")];
    let other = [with_volume("one", "default/x"), with_volume("two", "default/y")];
    cluster.node_mut(1).volume_limits = vec![("disk".into(), 1)];
    assert_good(&cluster, &same, &cluster.on_existing("old-b", &same));
    assert_bad(
        &cluster,
        &other,
        &cluster.on_existing("old-b", &other),
        "2 volumes of disk, 1 can be attached",
    );
    assert_bad(
        &cluster,
        &same,
        &cluster.on_existing("old-a", &same),
        "cannot be reached",
    );
    assert_good(
        &cluster,
        &same,
        &cluster.launching(vec![cluster.launch(Some(1), &same)]),
    );
    assert_bad(
        &cluster,
        &same,
        &cluster.launching(vec![cluster.launch(None, &same)]),
        "cannot be reached",
    );
}

/// A way to spoil a launch, and what the checker says to it.
type Spoiled = (fn(&mut Launch), &'static str);

#[test]
fn a_launch_must_be_consistent() {
    let cluster = Cluster::new();
    let pods = replicas(3, |_| {});
    let good = cluster.launch(None, &pods);
    assert_good(&cluster, &pods, &cluster.launching(vec![good.clone()]));
    let table: Vec<Spoiled> = vec![
        (|launch| launch.pool = "gone".into(), "there is no such pool"),
        (|launch| launch.types.clear(), "offers no instance type"),
        (|launch| launch.types.reverse(), "not sorted by price"),
        (|launch| launch.types.push(9), "does not have"),
        (|launch| launch.types.insert(0, 0), "cpu wanted"),
        (|launch| launch.types.push(2), "lists an instance type twice"),
        (|launch| launch.cheapest = None, "its cheapest offering costs"),
        (|launch| launch.cheapest = Some((2, 0)), "its cheapest offering costs"),
        (
            |launch| launch.cheapest = Some((0, 0)),
            "its cheapest offering is none it may use",
        ),
        (
            |launch| launch.requests.set(sym::CPU, 1),
            "it states requests of 1m cpu, they sum up to 3100m cpu",
        ),
        (
            |launch| launch.requirements.remove(sym::NODEPOOL),
            "wider than the pool's",
        ),
        (
            |launch| launch.requirements.remove(sym::INSTANCE_TYPE),
            "does not list its types",
        ),
        (
            |launch| {
                launch
                    .requirements
                    .replace(Requirement::any_of(sym::CAPACITY_TYPE, [sym::SPOT]));
            },
            "no offering is available",
        ),
        (
            |launch| launch.requirements.replace(Requirement::is(sym::HOSTNAME, sym::SPOT)),
            "simulation only",
        ),
        (
            |launch| launch.requirements.replace(Requirement::is(sym::ARCH, sym::SPOT)),
            "not what the launch requires",
        ),
        (|launch| launch.min_values_relaxed = true, "misstates whether minValues"),
        (
            |launch| launch.reservations.push(sym::SPOT),
            "reservation it cannot use",
        ),
    ];
    for (spoil, expected) in table {
        let mut launch = good.clone();
        spoil(&mut launch);
        assert_bad(&cluster, &pods, &cluster.launching(vec![launch]), expected);
    }
}

#[test]
fn a_launch_must_hold_its_pods_whatever_it_becomes() {
    let mut cluster = Cluster::new();
    let zone_b = cluster.zones[1];
    let in_b = replicas(1, |shape| {
        shape.node_selector = Requirements::from_all([Requirement::is(sym::ZONE, zone_b)], &Default::default());
    });
    assert_good(
        &cluster,
        &in_b,
        &cluster.launching(vec![cluster.launch(Some(1), &in_b)]),
    );
    let mut open = cluster.launch(Some(1), &in_b);
    open.requirements.remove(sym::ZONE);
    open.cheapest = Some((0, 0));
    assert_bad(
        &cluster,
        &in_b,
        &cluster.launching(vec![open]),
        "node selector or affinity not met",
    );
    let clash = replicas(2, |shape| shape.host_ports = vec![port(80)]);
    assert_bad(
        &cluster,
        &clash,
        &cluster.launching(vec![cluster.launch(None, &clash)]),
        "host port",
    );
    let plain = replicas(1, |_| {});
    cluster.pool_mut().taints.push(Taint {
        key: "gpu".into(),
        value: "".into(),
        effect: Effect::NoSchedule,
    });
    assert_bad(
        &cluster,
        &plain,
        &cluster.launching(vec![cluster.launch(None, &plain)]),
        "gpu:NoSchedule",
    );
}

// SCH-137, SCH-146, SCH-147, SCH-149
#[test]
fn pools_may_not_launch_beyond_their_limits() {
    let mut cluster = Cluster::new();
    let pods = replicas(2, |_| {});
    let plan =
        |cluster: &Cluster| cluster.launching(vec![cluster.launch(None, &pods[..1]), cluster.launch(None, &pods[1..])]);
    for (limits, expected) in [
        (resources(16_000, 64, 220).with(sym::NODES, 2), None),
        (Resources::new().with(sym::NODES, 1), Some("may need 2 nodes")),
        (
            Resources::new().with(sym::CPU, 15_000),
            Some("may need 16000 cpu, the pool's limit leaves 15000"),
        ),
    ] {
        cluster.pool_mut().limits = Some(limits);
        match expected {
            None => assert_good(&cluster, &pods, &plan(&cluster)),
            Some(expected) => assert_bad(&cluster, &pods, &plan(&cluster), expected),
        }
    }
    // A resource over its limit blocks launches of types without it, too.
    let gpu = cluster.snapshot.interner.intern("gpu");
    cluster.pool_mut().limits = Some(Resources::new().with(gpu, 1));
    assert_good(&cluster, &pods, &plan(&cluster));
    cluster.pool_mut().usage = Resources::new().with(gpu, 2);
    assert_bad(&cluster, &pods, &plan(&cluster), "the pool's limit leaves -");
    cluster.pool_mut().limits = None;
    cluster.pool_mut().eligibility = kerf_model::nodepool::Eligibility::Deleting;
    assert_bad(&cluster, &pods, &plan(&cluster), "being deleted");
}

// SCH-275
#[test]
fn min_values_must_be_met() {
    let mut cluster = Cluster::new();
    let interner = Arc::clone(&cluster.snapshot.interner);
    let least = |n| Requirement::exists(sym::INSTANCE_TYPE).with_min_values(Some(n));
    let pods = replicas(1, |_| {});
    cluster.pool_mut().requirements.add(least(3), &interner);
    assert_good(&cluster, &pods, &cluster.launching(vec![cluster.launch(None, &pods)]));
    let three = replicas(3, |_| {});
    assert_bad(
        &cluster,
        &three,
        &cluster.launching(vec![cluster.launch(None, &three)]),
        "minValues",
    );
}

// SCH-212, SCH-213, SCH-214, SCH-222
#[test]
fn spread_must_be_reachable_in_some_order() {
    let cluster = Cluster::new();
    let pods = replicas(5, |shape| shape.spread = vec![spread(sym::ZONE, 1)]);
    let in_zones = |counts: [usize; 3]| {
        let mut rest = &pods[..];
        let mut launches = Vec::new();
        for (zone, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            let (mine, others) = rest.split_at(count);
            launches.push(cluster.launch(Some(zone), mine));
            rest = others;
        }
        cluster.launching(launches)
    };
    assert_good(&cluster, &pods, &in_zones([2, 2, 1]));
    assert_bad(
        &cluster,
        &pods,
        &in_zones([3, 1, 1]),
        "topology spread over topology.kubernetes.io/zone",
    );
    // Zone c has no node then, so it is no domain.
    assert_good(&cluster, &pods, &in_zones([3, 2, 0]));
    let mut open = cluster.launch(None, &pods[..1]);
    open.cheapest = Some((0, 2));
    assert_bad(&cluster, &pods[..1], &cluster.launching(vec![open]), "several are open");
    let three = replicas(2, |shape| {
        shape.spread = vec![spread(sym::ZONE, 1)];
        shape.spread[0].min_domains = Some(3);
    });
    let launches = |zones: [usize; 2]| {
        cluster.launching(vec![
            cluster.launch(Some(zones[0]), &three[..1]),
            cluster.launch(Some(zones[1]), &three[1..]),
        ])
    };
    assert_good(&cluster, &three, &launches([0, 1]));
    assert_bad(&cluster, &three, &launches([0, 0]), "topology spread");
}

// SCH-201, SCH-202
#[test]
fn spread_counts_what_runs_already() {
    let mut cluster = Cluster::new();
    bind(cluster.node_mut(0), web_pod("old", |_| {}));
    let pods = replicas(1, |shape| shape.spread = vec![spread(sym::ZONE, 1)]);
    assert_bad(&cluster, &pods, &cluster.on_existing("old-a", &pods), "topology spread");
    assert_good(&cluster, &pods, &cluster.on_existing("old-b", &pods));
    let mut leaving = web_pod("old", |_| {});
    leaving.deletion = Some(jiff::Timestamp::UNIX_EPOCH);
    cluster.node_mut(0).pods.clear();
    bind(cluster.node_mut(0), leaving);
    assert_good(&cluster, &pods, &cluster.on_existing("old-a", &pods));
}

// SCH-228, SCH-229
#[test]
fn affinity_needs_company_or_a_first_pod() {
    let mut cluster = Cluster::new();
    let pods = replicas(2, |shape| shape.affinity = vec![term(sym::HOSTNAME, "web")]);
    assert_good(&cluster, &pods, &cluster.on_existing("old-a", &pods));
    let apart = cluster.launching(vec![cluster.launch(None, &pods[..1]), cluster.launch(None, &pods[1..])]);
    assert_bad(&cluster, &pods, &apart, "pod affinity over kubernetes.io/hostname");
    let lonely = replicas(1, |shape| shape.affinity = vec![term(sym::ZONE, "db")]);
    assert_bad(
        &cluster,
        &lonely,
        &cluster.on_existing("old-a", &lonely),
        "pod affinity",
    );
    let mut db = web_pod("db", |_| {});
    db.labels = Arc::new([("app", "db")].into_iter().collect());
    bind(cluster.node_mut(0), db);
    assert_good(&cluster, &lonely, &cluster.on_existing("old-a", &lonely));
    assert_good(
        &cluster,
        &lonely,
        &cluster.launching(vec![cluster.launch(Some(0), &lonely)]),
    );
    assert_bad(
        &cluster,
        &lonely,
        &cluster.launching(vec![cluster.launch(None, &lonely)]),
        "pod affinity",
    );
    assert_bad(
        &cluster,
        &lonely,
        &cluster.on_existing("old-b", &lonely),
        "pod affinity",
    );
}

// SCH-206, SCH-229, SCH-233
#[test]
fn affinity_holds_whatever_zone_a_launch_ends_in() {
    let mut cluster = Cluster::new();
    let mut db = web_pod("db", |_| {});
    db.labels = Arc::new([("app", "db")].into_iter().collect());
    let pods = [
        Arc::new(db),
        Arc::new(web_pod("near-db", |shape| shape.affinity = vec![term(sym::ZONE, "db")])),
    ];
    let beside = |zone| Plan {
        launches: vec![cluster.launch(zone, &pods[..1])],
        ..cluster.on_existing("old-a", &pods[1..])
    };
    assert_good(&cluster, &pods, &beside(Some(0)));
    assert_bad(&cluster, &pods, &beside(None), "pod affinity");
    assert_good(&cluster, &pods, &cluster.launching(vec![cluster.launch(None, &pods)]));
    let group = replicas(2, |shape| shape.affinity = vec![term(sym::ZONE, "web")]);
    let each = |zone| {
        cluster.launching(vec![
            cluster.launch(zone, &group[..1]),
            cluster.launch(zone, &group[1..]),
        ])
    };
    assert_good(&cluster, &group, &each(Some(2)));
    assert_bad(&cluster, &group, &each(None), "pod affinity");
    let together = cluster.launching(vec![cluster.launch(None, &group)]);
    assert_good(&cluster, &group, &together);
    // With one of the group elsewhere none can be the first.
    bind(cluster.node_mut(0), web_pod("web-0", |_| {}));
    assert_bad(&cluster, &group, &together, "pod affinity");
}

// SCH-235, SCH-237, SCH-238, SCH-483
#[test]
fn anti_affinity_holds_in_both_directions_and_for_every_outcome() {
    let mut cluster = Cluster::new();
    let pods = replicas(2, |shape| shape.anti_affinity = vec![term(sym::ZONE, "web")]);
    let launches = |cluster: &Cluster, zones: [Option<usize>; 2]| {
        cluster.launching(vec![
            cluster.launch(zones[0], &pods[..1]),
            cluster.launch(zones[1], &pods[1..]),
        ])
    };
    assert_good(&cluster, &pods, &launches(&cluster, [Some(0), Some(1)]));
    assert_bad(
        &cluster,
        &pods,
        &launches(&cluster, [Some(0), Some(0)]),
        "pod anti-affinity",
    );
    assert_bad(
        &cluster,
        &pods,
        &launches(&cluster, [Some(0), None]),
        "pod anti-affinity",
    );
    assert_good(
        &cluster,
        &pods[..1],
        &cluster.launching(vec![cluster.launch(None, &pods[..1])]),
    );
    let mut guard = web_pod("guard", |shape| shape.anti_affinity = vec![term(sym::HOSTNAME, "web")]);
    guard.labels = Arc::default();
    guard.deletion = Some(jiff::Timestamp::UNIX_EPOCH);
    bind(cluster.node_mut(0), guard);
    let plain = replicas(1, |_| {});
    assert_bad(
        &cluster,
        &plain,
        &cluster.on_existing("old-a", &plain),
        "pod anti-affinity",
    );
    assert_good(&cluster, &plain, &cluster.on_existing("old-b", &plain));
    assert!(app("web").matches(&plain[0].labels));
}

// SCH-291, SCH-292, SCH-300
#[test]
fn reservations_are_not_oversubscribed() {
    let mut cluster = Cluster::new();
    let interner = Arc::clone(&cluster.snapshot.interner);
    let id = interner.intern("cr-1");
    let mut catalogue = (**cluster.snapshot.pools[0].catalogue.as_ref().expect("a catalogue")).clone();
    let mut reserved = catalogue.types[0].offerings[0].clone();
    reserved
        .requirements
        .replace(Requirement::is(sym::CAPACITY_TYPE, sym::RESERVED));
    reserved.reservation = Some(kerf_model::instance_type::Reservation { id, capacity: 1 });
    reserved.price = Price::ZERO;
    catalogue.types[0].offerings.push(reserved);
    let both = Requirement::any_of(sym::CAPACITY_TYPE, [sym::ON_DEMAND, sym::RESERVED]);
    catalogue.types[0].requirements.replace(both.clone());
    let pool = cluster.pool_mut();
    pool.catalogue = Ok(Arc::new(catalogue));
    pool.requirements.replace(both);
    let pods = replicas(2, |_| {});
    let holding = |pods: &[Arc<Pod>]| {
        let mut launch = cluster.launch(None, pods);
        launch.types = vec![0];
        launch.cheapest = Some((0, 3));
        launch.reservations = vec![id];
        let small = launch.catalogue.types[0].name;
        launch.requirements.replace(Requirement::is(sym::INSTANCE_TYPE, small));
        launch
            .requirements
            .replace(Requirement::is(sym::CAPACITY_TYPE, sym::RESERVED));
        launch
    };
    assert_good(&cluster, &pods[..1], &cluster.launching(vec![holding(&pods[..1])]));
    let twice = cluster.launching(vec![holding(&pods[..1]), holding(&pods[1..])]);
    assert_bad(&cluster, &pods, &twice, "reservation cr-1 is held 2 times, it has 1");
    let mut unknown = holding(&pods[..1]);
    unknown.reservations.push(interner.intern("cr-2"));
    assert_bad(
        &cluster,
        &pods[..1],
        &cluster.launching(vec![unknown]),
        "reservation cr-2 is held 1 times, it has 0",
    );
    let mut free = holding(&pods[..1]);
    free.reservations.clear();
    assert_bad(
        &cluster,
        &pods[..1],
        &cluster.launching(vec![free]),
        "of a reservation it does not hold",
    );
}

// SCH-302
#[test]
fn a_launch_with_reservations_may_list_types_without() {
    let mut cluster = Cluster::new();
    let interner = Arc::clone(&cluster.snapshot.interner);
    let (id, key) = (interner.intern("cr-1"), interner.intern("reservation-id"));
    cluster.snapshot.reservation_key = Some(key);
    let mut catalogue = (**cluster.snapshot.pools[0].catalogue.as_ref().expect("a catalogue")).clone();
    let mut reserved = catalogue.types[1].offerings[0].clone();
    reserved
        .requirements
        .replace(Requirement::is(sym::CAPACITY_TYPE, sym::RESERVED));
    reserved.requirements.replace(Requirement::is(key, id));
    reserved.reservation = Some(kerf_model::instance_type::Reservation { id, capacity: 1 });
    catalogue.types[1].offerings.push(reserved);
    let both = Requirement::any_of(sym::CAPACITY_TYPE, [sym::ON_DEMAND, sym::RESERVED]);
    catalogue.types[1].requirements.replace(both.clone());
    let pool = cluster.pool_mut();
    pool.catalogue = Ok(Arc::new(catalogue));
    pool.requirements.replace(both);
    let pods = replicas(1, |_| {});
    let mut holding = cluster.launch(None, &pods);
    holding.reservations = vec![id];
    holding.cheapest = Some((1, 3));
    for pinned in [
        Requirement::is(sym::CAPACITY_TYPE, sym::RESERVED),
        Requirement::is(key, id),
    ] {
        holding.requirements.replace(pinned);
    }
    assert_eq!(holding.types.len(), 3);
    assert_good(&cluster, &pods, &cluster.launching(vec![holding.clone()]));
    let mut bare = holding.clone();
    bare.reservations.clear();
    let expected = "no offering is available that the launch allows";
    assert_bad(&cluster, &pods, &cluster.launching(vec![bare]), expected);
    let small = Requirement::is(sym::INSTANCE_TYPE, holding.catalogue.types[0].name);
    holding.requirements.replace(small);
    holding.types = vec![0];
    holding.cheapest = None;
    let expected = "no type has an offering of a reservation it holds";
    assert_bad(&cluster, &pods, &cluster.launching(vec![holding]), expected);
}

// SCH-127, SCH-129
#[test]
fn pods_are_held_to_the_offerings_with_which_they_fit() {
    let mut cluster = Cluster::new();
    let mut catalogue = (**cluster.snapshot.pools[0].catalogue.as_ref().expect("a catalogue")).clone();
    let small = Requirement::is(sym::INSTANCE_TYPE, catalogue.types[0].name);
    let mut roomy = catalogue.types[0].offerings[2].clone();
    roomy.price = Price::from_per_hour(0.5).expect("a sound price");
    roomy.capacity_override = Some(Box::new(Resources::new().with(sym::CPU, 4000)));
    catalogue.types[0].offerings[2] = roomy;
    cluster.pool_mut().catalogue = Ok(Arc::new(catalogue));
    let pods = replicas(1, |shape| shape.requests.set(sym::CPU, 3000));
    let launch = |requirement: &Requirement, offering| {
        let mut launch = cluster.launch(None, &replicas(1, |_| {}));
        launch.types = vec![0];
        launch.requirements.replace(small.clone());
        launch.pods.clone_from(&pods);
        launch.requests.set(sym::CPU, 3100);
        launch.requirements.add(requirement.clone(), &cluster.snapshot.interner);
        launch.cheapest = Some((0, offering));
        cluster.launching(vec![launch])
    };
    let anywhere = Requirement::any_of(sym::ZONE, cluster.zones);
    assert_good(&cluster, &pods, &launch(&anywhere, 2));
    assert_bad(
        &cluster,
        &pods,
        &launch(&anywhere, 0),
        "its cheapest offering costs 0.5",
    );
    let in_a = Requirement::is(sym::ZONE, cluster.zones[0]);
    assert_bad(&cluster, &pods, &launch(&in_a, 0), "3100m cpu wanted");
}

#[test]
fn violations_name_pod_node_and_rule() {
    let cluster = Cluster::new();
    let pods = replicas(1, |shape| shape.affinity = vec![term(sym::ZONE, "db")]);
    let violations = verify(
        &cluster.snapshot,
        &pods,
        &cluster.on_existing("old-a", &pods),
        &CheckOptions::default(),
    );
    let key = "topology.kubernetes.io/zone".to_owned();
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].rule, Rule::Affinity { key });
    assert_eq!(
        violations[0].to_string(),
        "pod default/web-1 on node old-a: pod affinity over topology.kubernetes.io/zone not met in any order tried"
    );
}
