//! Many questions about one prepared snapshot, threads and deadlines: the plan does not depend on how it is asked for, and is complete when
//! it is cut short.

use kerf_model::intern::sym;
use kerf_model::node::Node;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Options, Prepared, Request, WhatIf, solve};
use kerf_testkit::draw::Draw;
use kerf_testkit::fixture::{Fixture, upstream};
use kerf_testkit::{generate, workload};
use kerf_units::policy::Packing;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Everything in a plan that callers use, as text.
fn text(fixture: &Fixture, plan: &Plan) -> String {
    let names = |pods: &[Arc<Pod>]| {
        pods.iter()
            .map(|pod| pod.name.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let launches = plan.launches.iter().map(|launch| {
        let what = (&launch.requirements, &launch.types, &launch.requests);
        let how = (&launch.cheapest, &launch.reservations, launch.min_values_relaxed);
        format!("\n{what:?} {how:?} {}", names(&launch.pods))
    });
    let existing = plan
        .existing
        .iter()
        .map(|placed| format!("\n{} {}", placed.node, names(&placed.pods)));
    let left = plan
        .unschedulable
        .iter()
        .map(|left| format!("\n{} {:?}", left.pod.name, left.refusals));
    let lines: String = launches.chain(existing).chain(left).collect();
    format!("{}{lines}\n{}", fixture.show(plan), names(&plan.unattempted))
}

fn clusters(count: u64) -> impl Iterator<Item = (u64, Fixture)> {
    (0..count).map(|seed| (seed, Fixture::read(&generate::common(&mut Draw::new(seed)))))
}

#[test]
fn a_prepared_snapshot_answers_as_a_fresh_one_does() {
    for (seed, fixture) in clusters(150) {
        let snapshot = &fixture.snapshot;
        for options in [upstream(), Options::default()] {
            let prepared = Prepared::new(snapshot, &options);
            for at in 0..snapshot.nodes.len() {
                let mut pods = snapshot.pending.clone();
                pods.extend(snapshot.nodes[at].pods.iter().cloned());
                let request = Request {
                    exclude_nodes: &[at],
                    settling_nodes: &[0],
                    ..Request::new(snapshot, &pods)
                };
                let fresh = solve(&request, &options, &|| false);
                let again = prepared.solve(&WhatIf::from(&request), &options, &|| false);
                assert_eq!(
                    text(&fixture, &again),
                    text(&fixture, &fresh),
                    "seed {seed} without node {at}"
                );
            }
        }
    }
}

/// Removes a node, replaces one by a version with fewer pods or another taint, adds one, or only some of these, and changes the usage of
/// every pool.
fn changed(snapshot: &Snapshot, draw: &mut Draw) -> Snapshot {
    let mut next = snapshot.clone();
    let in_place = draw.below(2) == 0;
    if !in_place && draw.below(2) == 0 && !next.nodes.is_empty() {
        next.nodes.remove(draw.below(snapshot.nodes.len()));
    }
    if !next.nodes.is_empty() {
        let at = draw.below(next.nodes.len());
        let mut node = Node::clone(&next.nodes[at]);
        if let Some(gone) = node.pods.pop() {
            node.requested.subtract(&gone.shape.requests);
        }
        let mut twin = node.clone();
        if draw.below(4) == 0 {
            node.taints.pop();
        }
        next.nodes[at] = Arc::new(node);
        if !in_place {
            let name: Arc<str> = format!("{}-twin", twin.name).into();
            (twin.name, twin.node_name) = (Arc::clone(&name), Some(name));
            twin.hostname = next.interner.intern("twin");
            twin.initialized = draw.below(2) == 0;
            next.nodes.push(Arc::new(twin));
            next.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        }
    }
    for pool in &mut next.pools {
        let cpu = 1000 * draw.below(30) as i64;
        Arc::make_mut(pool).usage.set(sym::CPU, cpu);
    }
    next
}

#[test]
fn a_snapshot_prepared_from_the_one_before_answers_as_a_fresh_one_does() {
    for (seed, fixture) in clusters(150) {
        let mut draw = Draw::new(seed);
        for options in [upstream(), Options::default()] {
            let mut snapshot = fixture.snapshot.clone();
            let mut prepared = Prepared::new(&snapshot, &options);
            for step in 0..4 {
                let what_if = WhatIf {
                    pods: &fixture.snapshot.pending,
                    ..WhatIf::default()
                };
                let ask = |prepared: &Prepared| text(&fixture, &prepared.solve(&what_if, &options, &|| false));
                assert_eq!(
                    ask(&prepared),
                    ask(&Prepared::new(&snapshot, &options)),
                    "seed {seed}, step {step}"
                );
                snapshot = changed(&snapshot, &mut draw);
                prepared = prepared.next(&snapshot, &options);
            }
        }
    }
}

#[test]
fn threads_may_ask_at_the_same_time() {
    let (_, fixture) = clusters(40)
        .max_by_key(|(_, fixture)| fixture.snapshot.nodes.len())
        .expect("clusters");
    let snapshot = &fixture.snapshot;
    let options = Options::default();
    let ask = |prepared: &Prepared, at: usize| {
        let what_if = WhatIf {
            pods: &snapshot.nodes[at].pods,
            exclude_nodes: &[at],
            ..WhatIf::default()
        };
        text(&fixture, &prepared.solve(&what_if, &options, &|| false))
    };
    let alone = Prepared::new(snapshot, &options);
    let expected: Vec<String> = (0..snapshot.nodes.len()).map(|at| ask(&alone, at)).collect();
    let shared = Prepared::new(snapshot, &options);
    let answers: Vec<String> = std::thread::scope(|scope| {
        let (ask, shared) = (&ask, &shared);
        let threads: Vec<_> = (0..snapshot.nodes.len())
            .map(|at| scope.spawn(move || ask(shared, at)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(answers, expected);
}

// DEP-064
#[test]
fn the_plan_does_not_depend_on_the_number_of_threads() {
    for (seed, fixture) in clusters(150) {
        let plan = |threads| {
            let options = Options {
                threads,
                ..Options::default()
            };
            text(
                &fixture,
                &solve(&Request::pending(&fixture.snapshot), &options, &|| false),
            )
        };
        let one = plan(1);
        assert_eq!(plan(2), one, "seed {seed}, 2 threads");
        assert_eq!(plan(8), one, "seed {seed}, 8 threads");
    }
}

/// The UIDs of all pods in a plan, and the number of placed pods.
fn spoken_of(plan: &Plan) -> (Vec<&str>, usize) {
    let launched = plan.launches.iter().flat_map(|launch| &launch.pods);
    let placed: Vec<&str> = launched
        .chain(plan.existing.iter().flat_map(|placed| &placed.pods))
        .map(|pod| &*pod.uid)
        .collect();
    let count = placed.len();
    let left = plan
        .unschedulable
        .iter()
        .map(|left| &left.pod)
        .chain(&plan.unattempted)
        .map(|pod| &*pod.uid);
    let mut all: Vec<&str> = placed.into_iter().chain(left).collect();
    all.sort_unstable();
    (all, count)
}

// SCH-047
#[test]
fn a_deadline_leaves_the_best_plan_so_far_and_the_rest_untried() {
    let snapshot = workload::cluster(60);
    let pods = workload::diverse(1500);
    let request = Request::new(&snapshot, &pods);
    let mut expected: Vec<&str> = pods.iter().map(|pod| &*pod.uid).collect();
    expected.sort_unstable();
    for packing in [Packing::Upstream, Packing::Cheapest] {
        let options = Options {
            packing,
            ..Options::default()
        };
        let asked = AtomicUsize::new(0);
        let never = || {
            asked.fetch_add(1, Ordering::Relaxed);
            false
        };
        let whole = solve(&request, &options, &never);
        assert!(whole.unattempted.is_empty());
        let times = asked.into_inner();
        assert!(times > 4, "asked {times} times");
        let mut before = 0;
        // Each stop costs a plan and its check.
        for most in (0..times).step_by(times.div_ceil(20)) {
            let asked = AtomicUsize::new(0);
            let stop = || asked.fetch_add(1, Ordering::Relaxed) >= most;
            let plan = solve(&request, &options, &stop);
            let (all, placed) = spoken_of(&plan);
            assert_eq!(all, expected, "stopped at poll {most}");
            assert!(placed >= before, "more time, fewer pods at poll {most}");
            assert!(placed > 0, "nothing placed by poll {most}");
            let violations = kerf_check::verify(&snapshot, &pods, &plan, &kerf_check::CheckOptions::default());
            assert!(violations.is_empty(), "stopped at poll {most}: {}", violations[0]);
            before = placed;
        }
    }
}

#[test]
fn what_goes_frees_the_limits_of_its_pool() {
    let fixture = Fixture::read(
        "type t cpu=4 mem=16Gi price=1
         pool p limit=cpu:4
         node n cpu=4 mem=16Gi pool=p zone=a
         bound n b cpu=3 mem=1Gi
         pod w cpu=2 mem=1Gi",
    );
    let snapshot = &fixture.snapshot;
    let prepared = Prepared::new(snapshot, &Options::default());
    let freed = [("p".into(), Resources::new().with(sym::CPU, 4000))];
    let ask = |freed| {
        let what_if = WhatIf {
            pods: &snapshot.pending,
            exclude_nodes: &[0],
            freed,
            ..WhatIf::default()
        };
        prepared.solve(&what_if, &Options::default(), &|| false).launches.len()
    };
    assert_eq!((ask(&[]), ask(&freed)), (0, 1));
}

#[test]
fn resources_the_snapshot_never_heard_of_are_refused_and_counted() {
    let fixture = Fixture::read(
        "type t cpu=4 mem=16Gi gpu=1 price=1
         pool p
         pod w cpu=1 mem=1Gi",
    );
    let prepared = Prepared::new(&fixture.snapshot, &Options::default());
    let more = Fixture::read(
        "type t cpu=4 mem=16Gi gpu=1 price=1
         pool p
         pod one*2 cpu=1 mem=1Gi gpu=1",
    );
    // The same texts in the same order have the same ids, so that pods may come from elsewhere.
    let what_if = WhatIf {
        pods: &more.snapshot.pending,
        ..WhatIf::default()
    };
    let plan = prepared.solve(&what_if, &Options::default(), &|| false);
    assert_eq!(plan.launches.len(), 2, "one gpu each");
}
