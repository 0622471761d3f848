//! The forecast of how kube-scheduler binds the pods of plans.

use crate::worlds::spread_workloads;
use jiff::{SignedDuration, Timestamp};
use kerf_model::plan::{Launch, Placement, Plan};
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_scheduler::{
    Arrival, Arrivals, BindingForecast, BoundTo, Forecaster, Nominees, Options, Prepared, Request, WhatIf,
};
use kerf_testkit::draw::Draw;
use kerf_testkit::fixture::Fixture;
use kerf_testkit::generate;
use kerf_units::nominated_pods::NominatedPodsMax;
use kerf_units::policy::{NodeScoring, Packing};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn options(packing: Packing, forecast_binding: bool) -> Options {
    Options {
        packing,
        forecast_binding,
        nominated_pods_max: NominatedPodsMax::NONE,
        ..Options::default()
    }
}

/// The same where all of up to so many pods are nominated.
fn nominating(options: &Options, pods: u32) -> Options {
    Options {
        nominated_pods_max: NominatedPodsMax::from(pods),
        ..options.clone()
    }
}

fn orders(plan: &Plan) -> [Arrivals; 4] {
    let machines = plan.launches.len();
    [
        Arrivals::at_once(machines),
        Arrivals::one_by_one(machines),
        Arrivals::shuffled(machines, machines.div_ceil(4), 1),
        Arrivals::within(machines, (1_000, 6_000), 1_000, 5, 2),
    ]
}

fn forecasts(fixture: &Fixture, plan: &Plan, options: &Options, orders: &[Arrivals]) -> Vec<BindingForecast> {
    let prepared = Prepared::new(&fixture.snapshot, options);
    let request = Request::pending(&fixture.snapshot);
    let forecaster = Forecaster::new(&prepared, plan, options).unwrap();
    forecaster.forecast(&WhatIf::from(&request), options, orders)
}

fn price(plan: &Plan) -> Price {
    plan.launches.iter().filter_map(Launch::price).sum()
}

/// The pods on each node, by name of the node or number of the launch.
fn nodes(forecast: &BindingForecast) -> BTreeMap<String, Vec<&str>> {
    let mut nodes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (pod, to) in &forecast.bound {
        let to = match to {
            BoundTo::Node(name) => name.to_string(),
            BoundTo::Launch(launch) => format!("launch {launch}"),
        };
        nodes.entry(to).or_default().push(&pod.name);
    }
    nodes
}

#[test]
fn pods_spread_or_pack_as_nodes_are_scored() {
    let text = "node a cpu=4 mem=16Gi\nnode b cpu=4 mem=16Gi\ntype t cpu=4 mem=16Gi price=1\npool default\n\
        pod p*4 cpu=0.5 mem=1Gi";
    let fixture = Fixture::read(text);
    for (node_scoring, expected) in [
        (NodeScoring::LeastAllocated, [2, 2].as_slice()),
        (NodeScoring::MostAllocated, &[4]),
    ] {
        let options = Options {
            node_scoring,
            ..options(Packing::Balanced, false)
        };
        let mut fixture = Fixture::read(text);
        for pod in &mut fixture.snapshot.pending {
            // Pods without a controller have no default spread constraints.
            Arc::make_mut(pod).owner = kerf_model::pod::Owner::None;
        }
        let found = forecasts(&fixture, &Plan::default(), &options, &[Arrivals::at_once(0)]);
        let counts: Vec<usize> = nodes(&found[0]).values().map(Vec::len).collect();
        assert_eq!(counts, expected);
    }
    let most = Options {
        node_scoring: NodeScoring::MostAllocated,
        ..options(Packing::Balanced, false)
    };
    let found = forecasts(&fixture, &Plan::default(), &most, &[Arrivals::at_once(0)]);
    let counts: Vec<usize> = nodes(&found[0]).values().map(Vec::len).collect();
    assert_eq!(counts, [2, 2], "default spread constraints weigh more than allocation");
}

#[test]
fn seeds_decide_what_is_unknown_and_no_more() {
    let seeds: Vec<Arrivals> = (0..16).map(|seed| Arrivals::shuffled(0, 1, seed)).collect();
    let options = options(Packing::Balanced, false);
    let types = "type t cpu=4 mem=16Gi price=1\npool default\n";
    let bound = |fixture: &Fixture| -> BTreeSet<String> {
        let found = forecasts(fixture, &Plan::default(), &options, &seeds);
        found.iter().map(|one| format!("{:?}", nodes(one))).collect()
    };
    // Which of two pods of the same second comes first.
    let with_age_of_q = |seconds: i64| {
        let mut fixture = Fixture::read(&format!("node a cpu=1 mem=4Gi\n{types}pod p cpu=0.9\npod q cpu=0.9"));
        for pod in &mut fixture.snapshot.pending {
            let pod = Arc::make_mut(pod);
            let age = if pod.name.starts_with('q') { seconds } else { 0 };
            pod.created = Timestamp::UNIX_EPOCH - SignedDuration::from_secs(age);
        }
        bound(&fixture)
    };
    assert_eq!(with_age_of_q(0).len(), 2);
    let found = with_age_of_q(1);
    assert!(
        found.len() == 1 && found.iter().all(|nodes| nodes.contains('q')),
        "{found:?}"
    );
    // Which of two nodes of equal scores gets a pod.
    let equal = Fixture::read(&format!(
        "node a cpu=4 mem=16Gi\nnode b cpu=4 mem=16Gi\n{types}pod p cpu=1"
    ));
    assert_eq!(bound(&equal).len(), 2);
    let emptier = Fixture::read(&format!(
        "node a cpu=4 mem=16Gi\nnode b cpu=8 mem=32Gi\n{types}pod p cpu=1"
    ));
    assert_eq!(bound(&emptier).len(), 1);
}

#[test]
fn a_machine_that_comes_first_is_filled_by_the_oldest_pods() {
    // Planned: one node for the pods with much cpu, one for those with much memory. The first node that is ready takes the first pods of the queue.
    let fixture = Fixture::read(
        "type c cpu=8 mem=16Gi price=0.4\ntype m cpu=2 mem=40Gi price=0.4\npool default\n\
         pod a*4 cpu=0.5 mem=9Gi\npod b*4 cpu=1.9 mem=3Gi",
    );
    let options = options(Packing::Cheapest, false);
    let plan = fixture.solve(&options);
    assert_eq!(plan.launches.len(), 2);
    let cpu_first = if plan.launches[0].pods[0].name.starts_with('b') {
        [0, 1]
    } else {
        [1, 0]
    };
    let one = |order: [usize; 2]| {
        let order = Arrivals::of(&order.map(|at| vec![at]));
        forecasts(&fixture, &plan, &options, &[order]).remove(0)
    };
    let found = one(cpu_first);
    assert!(!found.left_over.is_empty(), "{:?}", nodes(&found));
    assert!(found.more_nodes > 0 && found.more_price > Price::ZERO);
    assert_eq!(found.bound.len() + found.left_over.len(), 8);
    let [first, second] = cpu_first;
    assert!(one([second, first]).left_over.is_empty());
}

#[test]
fn every_pod_is_bound_once_or_left_over_and_no_node_is_overfull() {
    for seed in 0..150 {
        let fixture = Fixture::read(&generate::common(&mut Draw::new(seed)));
        let options = options(Packing::Balanced, false);
        let plan = fixture.plan(&options);
        if plan.launches.iter().any(|launch| launch.cheapest.is_none()) {
            continue;
        }
        let found = forecasts(&fixture, &plan, &options, &orders(&plan));
        assert_eq!(
            found,
            forecasts(&fixture, &plan, &options, &orders(&plan)),
            "seed {seed}"
        );
        for forecast in &found {
            let bound = forecast.bound.iter().map(|(pod, _)| &pod.uid);
            let all: Vec<_> = bound.chain(forecast.left_over.iter().map(|pod| &pod.uid)).collect();
            let distinct: BTreeSet<_> = all.iter().collect();
            assert_eq!(all.len(), distinct.len(), "seed {seed}");
            assert_eq!(all.len(), fixture.snapshot.pending.len(), "seed {seed}");
            assert!(forecast.without_place <= forecast.left_over.len(), "seed {seed}");
            assert!(forecast.more_cost >= forecast.more_price, "seed {seed}");
            for (name, pods) in nodes(forecast) {
                let Some(node) = fixture.snapshot.nodes.iter().find(|node| *node.name == *name) else {
                    continue;
                };
                let mut free = node.available();
                for pod in &fixture.snapshot.pending {
                    if pods.contains(&&*pod.name) {
                        free.subtract(&pod.shape.requests);
                    }
                }
                assert!(free.iter().all(|(_, amount)| amount >= 0), "seed {seed}: {name}");
            }
        }
    }
}

#[test]
fn plans_chosen_by_forecast_are_valid_and_cost_less_in_the_end() {
    let in_the_end = |fixture: &Fixture, plan: &Plan, options: &Options| {
        let found = forecasts(fixture, plan, options, &orders(plan));
        let more: Price = found.iter().map(|one| one.more_cost).sum();
        price(plan).per_hour() + more.per_hour() / found.len() as f64
    };
    let (mut of_greedy, mut without, mut with) = (0.0, 0.0, 0.0);
    for seed in 0..150 {
        let fixture = Fixture::read(&generate::common(&mut Draw::new(seed)));
        for packing in [Packing::Balanced, Packing::Cheapest] {
            let greedy = fixture.plan(&options(Packing::Upstream, false));
            let plain = fixture.solve(&options(packing, false));
            // The plan checker accepts it.
            let chosen = fixture.solve(&options(packing, true));
            assert!(chosen.left_over() <= plain.left_over(), "seed {seed}, {packing:?}");
            if chosen.left_over() == greedy.left_over() {
                // As planned it may be a twentieth dearer than the greedy's, if it is cheaper in the end.
                let most = price(&greedy).pico() / 20 * 21;
                assert!(price(&chosen).pico() <= most, "seed {seed}, {packing:?}");
            }
            if plain.launches.iter().all(|launch| launch.cheapest.is_some()) {
                let options = options(packing, false);
                of_greedy += in_the_end(&fixture, &greedy, &options);
                without += in_the_end(&fixture, &plain, &options);
                with += in_the_end(&fixture, &chosen, &options);
            }
        }
    }
    assert!(
        with < without && without < of_greedy,
        "{with} $/h in the end instead of {without} and {of_greedy}"
    );
}

/// The pending pods, created within ten seconds, and pods like them that are created within the next ten.
fn coming(fixture: &mut Fixture) -> Vec<Arc<Pod>> {
    let seconds = |seconds: usize| SignedDuration::from_secs(seconds as i64);
    for (at, pod) in fixture.snapshot.pending.iter_mut().enumerate() {
        Arc::make_mut(pod).created = Timestamp::UNIX_EPOCH + seconds(at % 10);
    }
    let mut all = fixture.snapshot.pending.clone();
    all.extend(fixture.snapshot.pending.iter().map(|pod| {
        let mut later = Pod::clone(pod);
        later.uid = format!("{}-later", pod.uid).into();
        later.name = format!("{}-later", pod.name).into();
        later.created += seconds(10);
        Arc::new(later)
    }));
    all
}

#[test]
fn pods_that_come_after_the_plan_are_not_its_own() {
    // One node of the plan; the pod that comes later has the higher priority and finds it ready.
    let mut fixture = Fixture::read("type t cpu=1 mem=4Gi price=1\npool default\npod p cpu=0.9");
    let options = options(Packing::Balanced, false);
    let plan = fixture.solve(&options);
    let mut pods = coming(&mut fixture);
    Arc::make_mut(&mut pods[1]).priority = 1;
    let forecaster = Forecaster::new(&Prepared::new(&fixture.snapshot, &options), &plan, &options).unwrap();
    let forecast = |ready, later_pods| {
        let arrivals = Arrivals {
            machines: vec![Arrival { node: ready, ready }],
            later_pods,
            ..Arrivals::at_once(1)
        };
        let request = Request::new(&fixture.snapshot, &pods[..1 + later_pods]);
        forecaster
            .forecast(&WhatIf::from(&request), &options, &[arrivals])
            .remove(0)
    };
    let alone = forecast(20_000, 0);
    assert_eq!((alone.left_over.len(), alone.more_nodes), (0, 0));
    // The machine is ready before the later pod is created, so only that one needs another.
    let early = forecast(0, 1);
    assert_eq!((early.left_over.len(), early.more_nodes), (0, 1));
    let late = forecast(20_000, 1);
    assert_eq!((late.left_over.len(), late.more_nodes), (1, 1));
    assert_eq!(late.left_over[0].name, fixture.snapshot.pending[0].name);
}

/// What the plans of ten clusters cost in the end while as many pods again come, or none: as planned for the pods alone, and as planned for more.
fn in_the_end_of_a_long_scale_up(pods_come: bool) -> (f64, f64) {
    let (mut without, mut with) = (0.0, 0.0);
    for workloads in 2..12 {
        let mut fixture = Fixture::read(&spread_workloads(workloads));
        let pods = coming(&mut fixture);
        let own = fixture.snapshot.pending.len();
        let in_the_end = |more_pods_coming| {
            let options = Options {
                more_pods_coming,
                ..options(Packing::Balanced, true)
            };
            let plan = fixture.solve(&options);
            let forecaster = Forecaster::new(&Prepared::new(&fixture.snapshot, &options), &plan, &options)?;
            let scale_ups: Vec<Arrivals> = (100..104)
                .map(|seed| Arrivals {
                    later_pods: pods.len() - own,
                    later_pods_come: pods_come,
                    ..Arrivals::within(plan.launches.len(), (2_600, 7_700), 2_000, 4, seed)
                })
                .collect();
            let request = Request::new(&fixture.snapshot, &pods);
            let all = forecaster.forecast(&WhatIf::from(&request), &options, &scale_ups);
            let more: Price = all.iter().map(|one| one.more_cost).sum();
            Some(price(&plan).per_hour() + more.per_hour() / all.len() as f64)
        };
        if let (Some(one), Some(other)) = (in_the_end(false), in_the_end(true)) {
            without += one;
            with += other;
        }
    }
    (without, with)
}

#[test]
fn plans_cost_less_in_the_end_when_they_count_with_pods_that_come() {
    let (without, with) = in_the_end_of_a_long_scale_up(true);
    assert!(with < 0.98 * without, "{with} $/h in the end instead of {without}");
}

#[test]
fn plans_cost_hardly_more_when_they_count_with_pods_that_do_not_come() {
    let (without, with) = in_the_end_of_a_long_scale_up(false);
    assert!(with < 1.04 * without, "{with} $/h in the end instead of {without}");
}

/// The cheapest nodes are full with these pods. Where small ones are bound to another node than planned, a large one is left over.
fn small_and_large_pods() -> Fixture {
    let mut text = String::from("pool default\npod small*13 cpu=1200m mem=256Mi\npod large*13 cpu=2500m mem=256Mi\n");
    for cpu in [2, 4, 8, 16, 32] {
        let price = 0.05 * f64::from(cpu);
        text.push_str(&format!("type t{cpu} cpu={cpu} mem={}Gi price={price:.2}\n", cpu * 4));
    }
    Fixture::read(&text)
}

#[test]
fn nominated_pods_find_the_room_they_were_planned_for() {
    let fixture = small_and_large_pods();
    let plan = fixture.solve(&options(Packing::Balanced, false));
    let left_over = |options: &Options| {
        let scale_ups: Vec<Arrivals> = (100..116)
            .map(|seed| Arrivals::within(plan.launches.len(), (2_600, 7_700), 2_000, 4, seed))
            .collect();
        let all = forecasts(&fixture, &plan, options, &scale_ups);
        all.iter().filter(|one| !one.left_over.is_empty()).count()
    };
    let options = options(Packing::Balanced, false);
    assert!(left_over(&options) > 8);
    assert!(left_over(&nominating(&options, 25)) > 8, "one pod too many");
    assert_eq!(left_over(&nominating(&options, 26)), 0);
}

#[test]
fn pods_are_nominated_that_exist_and_wait() {
    let fixture =
        Fixture::read("node a cpu=8 mem=8Gi\npool default\npod waits cpu=1\npod moves cpu=1\npod buffer cpu=1");
    let mut pods = fixture.snapshot.pending;
    let changed = |pods: &mut [Arc<Pod>], name: &str, change: fn(&mut Pod)| {
        let pod = pods.iter_mut().find(|pod| &*pod.name == name).unwrap();
        change(Arc::make_mut(pod));
    };
    changed(&mut pods, "moves", |pod| pod.node_name = Some("elsewhere".into()));
    changed(&mut pods, "buffer", |pod| {
        pod.capacity_buffer = Some("default/buffer".into());
    });
    let plan = Plan {
        existing: vec![Placement {
            node: "a".into(),
            pods: pods.clone(),
        }],
        ..Plan::default()
    };
    let nominated = |max: u32| {
        let nominees = Nominees::of(&plan, max.into());
        let nominated = pods.iter().filter(|pod| nominees.contain(pod));
        nominated.map(|pod| &*pod.name).collect::<Vec<_>>()
    };
    assert_eq!(nominated(1), ["waits"], "the others do not count");
    assert_eq!(nominated(0), [] as [&str; 0]);
}

#[test]
fn nominated_pods_keep_room_from_pods_of_at_most_their_priority() {
    let bound_with = |priority: i32| {
        let mut fixture = Fixture::read(
            "node a cpu=1 mem=4Gi\ntype t cpu=4 mem=16Gi price=1\npool default\npod p cpu=0.9\npod q cpu=0.9",
        );
        for pod in &mut fixture.snapshot.pending {
            let pod = Arc::make_mut(pod);
            if pod.name.starts_with('q') {
                // It is tried first.
                pod.created = Timestamp::UNIX_EPOCH - SignedDuration::from_secs(5);
                pod.priority = priority;
            }
        }
        let planned = fixture.snapshot.pending.iter().filter(|pod| pod.name.starts_with('p'));
        let plan = Plan {
            existing: vec![Placement {
                node: "a".into(),
                pods: planned.cloned().collect(),
            }],
            ..Plan::default()
        };
        let options = nominating(&options(Packing::Balanced, false), 2);
        let found = forecasts(&fixture, &plan, &options, &[Arrivals::at_once(0)]);
        nodes(&found[0])["a"].join(" ")
    };
    assert!(bound_with(0).starts_with('p'));
    assert!(bound_with(1).starts_with('q'));
}

#[test]
fn nodes_have_room_for_pods_that_are_bound_elsewhere() {
    let fixture = small_and_large_pods();
    let left_over = |forecast_binding| {
        let options = options(Packing::Balanced, forecast_binding);
        let plan = fixture.solve(&options);
        let scale_ups: Vec<Arrivals> = (100..116)
            .map(|seed| Arrivals::within(plan.launches.len(), (2_600, 7_700), 2_000, 4, seed))
            .collect();
        let all = forecasts(&fixture, &plan, &options, &scale_ups);
        all.iter().filter(|one| !one.left_over.is_empty()).count()
    };
    assert!(left_over(false) > 8);
    assert_eq!(left_over(true), 0);
}

#[test]
fn pods_that_need_a_node_each_are_planned_onto_equal_nodes() {
    let mut fixture = Fixture::read(&spread_workloads(20));
    // Workloads that are created one after the other: the oldest pods have the longest back-off when machines come.
    for pod in &mut fixture.snapshot.pending {
        let pod = Arc::make_mut(pod);
        let digits = pod
            .name
            .split(|c: char| !c.is_ascii_digit())
            .find(|part| !part.is_empty());
        let number: i64 = digits.unwrap().parse().unwrap();
        pod.created = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(number);
    }
    let outcome = |forecast_binding| {
        let options = options(Packing::Balanced, forecast_binding);
        let plan = fixture.solve(&options);
        let machines = plan.launches.len();
        let scale_ups: Vec<Arrivals> = (100..108)
            .map(|seed| Arrivals::within(machines, (2_600, 7_700), 2_000, 4, seed))
            .collect();
        let all = forecasts(&fixture, &plan, &options, &scale_ups);
        let more: Price = all.iter().map(|one| one.more_price).sum();
        let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
        for (kind, _) in plan.launches.iter().filter_map(|launch| launch.cheapest) {
            *sizes.entry(kind).or_default() += 1;
        }
        let alike = sizes.values().max().copied().unwrap_or(0);
        let in_the_end = price(&plan).per_hour() + more.per_hour() / all.len() as f64;
        (alike * 10 / plan.launches.len(), in_the_end)
    };
    let (with, without) = (outcome(true), outcome(false));
    assert!(with.0 >= 9, "nine of ten nodes have one size");
    assert!(with.1 < without.1, "{} $/h in the end instead of {}", with.1, without.1);
}

// SCH-141
#[test]
fn a_pod_that_is_bound_to_a_node_of_another_pool_is_not_planned_there() {
    // Either pod fits a node of either pool; the label keeps the second in the lighter pool. kube-scheduler may bind the first one to the node
    // of the second, which then needs another.
    let fixture = Fixture::read(
        "type t cpu=2 mem=8Gi price=0.1\npool heavy weight=10\npool light weight=1 label=team=light\n\
         pod any cpu=1.6 mem=1Gi\npod bound cpu=1.5 mem=1Gi select=team:in:light",
    );
    let plan = fixture.solve(&options(Packing::Balanced, true));
    let mut pools: Vec<&str> = plan.launches.iter().map(|launch| &*launch.pool).collect();
    pools.sort_unstable();
    assert_eq!(pools, ["heavy", "light"]);
}
