//! What becomes of plans when kube-scheduler binds their pods: seeded small clusters, planned under each packing, then bound under several
//! orders of machines and of pods that no plan was chosen by.

use crate::workloads::small_world;
use kerf_model::plan::{Launch, Plan};
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Arrivals, BindingForecast, Forecaster, Options, Prepared, Request, WhatIf};
use kerf_testkit::draw::Draw;
use kerf_testkit::fixture::Fixture;
use kerf_units::nominated_pods::NominatedPodsMax;
use kerf_units::policy::Packing;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Sums over worlds and orders of arrival.
#[derive(Clone, Default)]
struct Sums {
    worlds: usize,
    scale_ups: usize,
    /// Scale-ups that needed no machine beyond the plan.
    as_planned: usize,
    planned_nodes: usize,
    more_nodes: usize,
    left_over: usize,
    pods: usize,
    planned: f64,
    price: f64,
    ratio: f64,
    nodes_ratio: f64,
    took: Duration,
}

fn price(plan: &Plan) -> Price {
    plan.launches.iter().filter_map(Launch::price).sum()
}

/// How long pods come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    /// All pods of the scale-up are planned together.
    Complete,
    /// The batch ended at its longest duration, and as many pods come in as much time after the plan.
    GoesOn,
}

impl Course {
    /// The seconds in which the planned pods are created.
    const fn seconds(self) -> usize {
        match self {
            Self::Complete => 3,
            Self::GoesOn => 10,
        }
    }
}

/// Pending pods as controllers create them: in no order within some seconds.
fn created(snapshot: &mut Snapshot, course: Course, draw: &mut Draw) {
    for pod in &mut snapshot.pending {
        let pod: &mut Pod = Arc::make_mut(pod);
        pod.created =
            jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(draw.below(course.seconds()) as i64);
        pod.uid = format!("{:016x}", draw.next()).into();
    }
}

/// The pods that come after the plan: like the planned ones, in another order.
fn later(snapshot: &Snapshot, course: Course, draw: &mut Draw) -> Vec<Arc<Pod>> {
    let later = |pod: &Arc<Pod>| {
        let seconds = course.seconds() + draw.below(course.seconds());
        Arc::new(Pod {
            created: jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(seconds as i64),
            name: format!("{}-later", pod.name).into(),
            uid: format!("{:016x}", draw.next()).into(),
            ..Pod::clone(pod)
        })
    };
    match course {
        Course::Complete => Vec::new(),
        Course::GoesOn => snapshot.pending.iter().map(later).collect(),
    }
}

/// The same pods with other unique ids, so that those of the same second are tried in another order.
fn renamed(snapshot: &Snapshot, seed: u64) -> Snapshot {
    let (mut renamed, mut draw) = (snapshot.clone(), Draw::new(!seed));
    for pod in &mut renamed.pending {
        Arc::make_mut(pod).uid = format!("{:016x}", draw.next()).into();
    }
    renamed
}

fn forecasts(snapshot: &Snapshot, course: Course, plan: &Plan, options: &Options, seed: u64) -> Vec<BindingForecast> {
    let n = plan.launches.len();
    let arrivals = [
        Arrivals::at_once(n),
        Arrivals::within(n, (1_000, 4_000), 1_000, 5, seed ^ 0xabc1),
        Arrivals::within(n, (3_000, 8_000), 2_000, 3, seed ^ 0xabc2),
        Arrivals::within(n, (5_000, 15_000), 5_000, 10, seed ^ 0xabc3),
        Arrivals::within(n, (25_000, 45_000), 15_000, 5, seed ^ 0xabc4),
        Arrivals::shuffled(n, 3, seed ^ 0xabc5),
    ];
    let bound = arrivals.iter().zip(seed << 3..).map(|(arrivals, seed)| {
        let snapshot = renamed(snapshot, seed);
        let prepared = Prepared::new(&snapshot, options);
        let later = later(&snapshot, course, &mut Draw::new(seed));
        let pods = [&*snapshot.pending, &later].concat();
        let arrivals = Arrivals {
            later_pods: later.len(),
            ..arrivals.clone()
        };
        let forecaster = Forecaster::new(&prepared, plan, options).expect("launches have prices");
        forecaster.forecast(&WhatIf::from(&Request::new(&snapshot, &pods)), options, &[arrivals])
    });
    bound.flatten().collect()
}

/// Prints one line per way to pack, for scale-ups that are planned as a whole and for such that go on.
pub(crate) fn print(worlds: u64) {
    let with = |packing, forecast| Options {
        packing,
        forecast_binding: forecast,
        nominated_pods_max: NominatedPodsMax::NONE,
        ..Options::default()
    };
    let nominating = |packing, forecast| Options {
        nominated_pods_max: NominatedPodsMax::from(500),
        ..with(packing, forecast)
    };
    let upstream = ("upstream", with(Packing::Upstream, false));
    let balanced = ("balanced", with(Packing::Balanced, false));
    let forecast = ("balanced, binding forecast", with(Packing::Balanced, true));
    let more = Options {
        more_pods_coming: true,
        ..with(Packing::Balanced, true)
    };
    let more = ("balanced, forecast with pods that may come", more);
    let nominated = ("balanced, forecast, nominated", nominating(Packing::Balanced, true));
    let more_nominated = Options {
        more_pods_coming: true,
        ..nominating(Packing::Balanced, true)
    };
    let more_nominated = ("balanced, forecast with pods that may come, nominated", more_nominated);
    let complete = [
        upstream.clone(),
        ("cheapest", with(Packing::Cheapest, false)),
        ("cheapest, binding forecast", with(Packing::Cheapest, true)),
        balanced.clone(),
        forecast.clone(),
        ("upstream, nominated", nominating(Packing::Upstream, false)),
        ("cheapest, forecast, nominated", nominating(Packing::Cheapest, true)),
        ("balanced, nominated", nominating(Packing::Balanced, false)),
        nominated.clone(),
        more.clone(),
    ];
    print_course(worlds, Course::Complete, &complete);
    let goes_on = [upstream, balanced, forecast, nominated, more, more_nominated];
    print_course(worlds, Course::GoesOn, &goes_on);
}

fn print_course(worlds: u64, course: Course, ways: &[(&str, Options)]) {
    let mut totals = vec![Sums::default(); ways.len()];
    for seed in 0..worlds {
        let mut draw = Draw::new(seed);
        let mut snapshot = Fixture::read(&small_world(&mut draw)).snapshot;
        created(&mut snapshot, course, &mut draw);
        let mut upstream = None;
        for ((_, options), sums) in ways.iter().zip(&mut totals) {
            let start = Instant::now();
            let plan = kerf_scheduler::solve(&Request::pending(&snapshot), options, &|| false);
            sums.took += start.elapsed();
            if plan.launches.is_empty() {
                continue;
            }
            let planned = price(&plan).per_hour();
            let all = forecasts(&snapshot, course, &plan, options, seed);
            let runs = all.len().max(1) as f64;
            let mean = |of: &dyn Fn(&BindingForecast) -> f64| all.iter().map(of).sum::<f64>() / runs;
            let after = planned + mean(&|one| one.more_price.per_hour());
            let nodes = plan.launches.len() as f64 + mean(&|one| one.more_nodes as f64);
            let (base, base_nodes) = *upstream.get_or_insert((after, nodes));
            sums.worlds += 1;
            sums.planned += planned;
            sums.price += after;
            sums.ratio += after / base;
            sums.nodes_ratio += nodes / base_nodes;
            for one in &all {
                sums.scale_ups += 1;
                sums.as_planned += usize::from(one.more_nodes == 0);
                sums.planned_nodes += plan.launches.len();
                sums.more_nodes += one.more_nodes;
                sums.left_over += one.left_over.len();
                sums.pods += snapshot.pending.len();
            }
        }
    }
    println!(
        "| packing | clusters | planned $/h | $/h in the end | price in the end | nodes in the end | no machine beyond the plan | machines beyond | pods left over | ms |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    );
    for ((name, _), sums) in ways.iter().zip(&totals) {
        let worlds = sums.worlds.max(1) as f64;
        println!(
            "| {name} | {} | {:.2} | {:.2} | {:.3} | {:.3} | {:.1} % | {:.1} % | {:.2} % | {:.1} |",
            sums.worlds,
            sums.planned / worlds,
            sums.price / worlds,
            sums.ratio / worlds,
            sums.nodes_ratio / worlds,
            100.0 * sums.as_planned as f64 / sums.scale_ups.max(1) as f64,
            100.0 * sums.more_nodes as f64 / sums.planned_nodes.max(1) as f64,
            100.0 * sums.left_over as f64 / sums.pods.max(1) as f64,
            sums.took.as_secs_f64() * 1000.0 / worlds,
        );
    }
}
