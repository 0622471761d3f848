//! Plans for pods that depend on each other, on launches of which it is open what they become.
//!
//! Brute force makes a node of every type and offering of each launch. Affinity and anti-affinity have to hold whatever launches become;
//! topology spread has to hold once each is its cheapest offering, and needs launches that end in one zone (SCH-214).

#![expect(clippy::disallowed_methods, reason = "plans are made with the model's own functions")]

use super::brute_force::{Problem, objection};
use super::launches::{only, usable};
use super::{assert_good_and_bad, draws};
use crate::fixture::node;
use kerf_check::{CheckOptions, verify};
use kerf_model::intern::{Sym, sym};
use kerf_model::nodepool::NodePool;
use kerf_model::plan::{Launch, Placement, Plan};
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::requirement::Requirement;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_testkit::draw::Draw;
use kerf_testkit::fixture::Fixture;
use kerf_testkit::seeds::hold;
use std::collections::BTreeSet;
use std::sync::Arc;

const RULES: [&str; 12] = [
    "",
    "",
    "apart=zone/app=x",
    "apart=host/app=y",
    "near=zone/app=x",
    "near=zone/app=x",
    "near=zone/app=y",
    "near=host/app=y",
    "spread=zone/1/app=x",
    "spread=host/1/app=x",
    "spread=zone/2/app=y",
    "spread=zone/1/app=y/min=2",
];

/// Two types, up to two nodes with a pod, and up to four pods to place. The first line holds the seed of the plan.
fn cluster(draw: &mut Draw) -> String {
    let mut lines = vec![format!("# plan {}", draw.next() % 1_000_000)];
    for number in 0..2 {
        let (price, zones) = (draw.pick(&["0.1", "0.2"]), draw.pick(&["a", "a,b", "a,b,c"]));
        lines.push(format!("type t{number} cpu=8 mem=16Gi price={price} zones={zones}"));
    }
    lines.push("pool p0".to_owned());
    for number in 0..draw.below(3) {
        let zone = draw.pick(&["a", "b", "c"]);
        lines.push(format!("node n{number} cpu=8 mem=16Gi zone={zone}"));
        if draw.below(2) == 0 {
            // No bound pod is labelled q, so that the cluster breaks no rule before the plan.
            let (app, rule) = (draw.pick(&["x", "y", "z"]), draw.pick(&["", "", "apart=zone/app=q"]));
            lines.push(format!(
                "bound n{number} b{number} cpu=0.1 mem=1Mi label=app={app} {rule}"
            ));
        }
    }
    for number in 0..1 + draw.below(4) {
        let app = draw.pick(&["x", "x", "y", "q"]);
        let more = if draw.below(3) == 0 { draw.pick(&RULES) } else { "" };
        let rule = draw.pick(&RULES);
        lines.push(format!("pod w{number} cpu=0.1 mem=1Mi label=app={app} {rule} {more}"));
    }
    lines.join("\n")
}

/// A launch for the pods in some of the zones, which becomes any of its cheapest offerings.
fn launch(draw: &mut Draw, snapshot: &Snapshot, pool: &NodePool, pods: Vec<Arc<Pod>>) -> Option<Launch> {
    let interner = &*snapshot.interner;
    let catalogue = Arc::clone(pool.catalogue.as_ref().ok()?);
    let zones = draw.pick(&[&["a"][..], &["b"], &["c"], &["a", "b"], &["a", "c"], &["a", "b", "c"]]);
    let mut requirements = pool.requirements.clone();
    requirements.add(
        Requirement::any_of(sym::ZONE, zones.iter().map(|zone| interner.intern(zone))),
        interner,
    );
    requirements.add(Requirement::is(sym::CAPACITY_TYPE, sym::ON_DEMAND), interner);
    let mut requests = Resources::new();
    pods.iter().for_each(|pod| requests.add(&pod.shape.requests));
    let mut launch = Launch {
        pool: Arc::clone(&pool.name),
        catalogue,
        requirements,
        cheapest: None,
        types: Vec::new(),
        pods,
        requests,
        min_values_relaxed: false,
        reservations: Vec::new(),
    };
    let mut offered: Vec<(Price, u32, u32)> = Vec::new();
    for (kind, at) in launch.catalogue.types.iter().zip(0..) {
        let offerings = kind.offerings.iter().zip(0..);
        let usable = offerings.filter(|(offering, _)| usable(&launch, offering));
        offered.extend(usable.map(|(offering, number)| (offering.price, at, number)));
    }
    offered.sort_unstable();
    let (lowest, ..) = *offered.first()?;
    let cheapest: Vec<(u32, u32)> = offered
        .iter()
        .filter(|(price, ..)| *price == lowest)
        .map(|(_, kind, offering)| (*kind, *offering))
        .collect();
    launch.cheapest = Some(draw.pick(&cheapest));
    for (_, kind, _) in offered {
        if !launch.types.contains(&kind) {
            launch.types.push(kind);
        }
    }
    let names = launch.types.iter().map(|at| launch.catalogue.types[*at as usize].name);
    let names = Requirement::any_of(sym::INSTANCE_TYPE, names);
    launch.requirements.add(names, interner);
    Some(launch)
}

/// A plan that puts every pod on a node or on one of two launches; nothing where a launch finds no type.
fn plan(draw: &mut Draw, snapshot: &Snapshot) -> Option<Plan> {
    let mut plan = Plan::default();
    let mut launched = [Vec::new(), Vec::new()];
    for pod in &snapshot.pending {
        let at = draw.below(snapshot.nodes.len() + launched.len());
        match snapshot.nodes.get(at) {
            None => launched[at - snapshot.nodes.len()].push(Arc::clone(pod)),
            Some(node) => match plan.existing.iter_mut().find(|placed| placed.node == node.name) {
                Some(placed) => placed.pods.push(Arc::clone(pod)),
                None => plan.existing.push(Placement {
                    node: Arc::clone(&node.name),
                    pods: vec![Arc::clone(pod)],
                }),
            },
        }
    }
    let pool = snapshot.pools.first()?;
    for pods in launched.into_iter().filter(|pods| !pods.is_empty()) {
        plan.launches.push(launch(draw, snapshot, pool, pods)?);
    }
    Some(plan)
}

/// The offerings a launch may become, as positions of type and offering.
fn outcomes(launch: &Launch) -> Vec<(u32, u32)> {
    let of_type = |at: &u32| {
        let offerings = launch.catalogue.types[*at as usize].offerings.iter().zip(0..);
        let usable = offerings.filter(|(offering, _)| usable(launch, offering));
        let at = *at;
        usable.map(move |(_, offering)| (at, offering)).collect::<Vec<_>>()
    };
    launch.types.iter().flat_map(of_type).collect()
}

fn zone(launch: &Launch, (kind, offering): (u32, u32)) -> Sym {
    let offering = &launch.catalogue.types[kind as usize].offerings[offering as usize];
    only(&offering.requirements, sym::ZONE).expect("offerings have a zone")
}

/// Every way in which launches may become nodes.
fn expansions(launches: &[Launch]) -> Vec<Vec<(u32, u32)>> {
    launches.iter().fold(vec![Vec::new()], |before, launch| {
        let outcomes = outcomes(launch);
        let with = |known: &Vec<(u32, u32)>, outcome| known.iter().copied().chain([outcome]).collect();
        before
            .iter()
            .flat_map(|known| outcomes.iter().map(move |outcome| with(known, *outcome)))
            .collect()
    })
}

/// The cluster with a node for each launch, and the plan that puts its pods there.
fn expanded(snapshot: &Snapshot, plan: &Plan, chosen: &[(u32, u32)], with_spread: bool) -> (Snapshot, Plan) {
    let (mut snapshot, mut existing) = (snapshot.clone(), plan.existing.clone());
    for (number, (launch, outcome)) in plan.launches.iter().zip(chosen).enumerate() {
        let name = format!("launched-{number}");
        let node = node(&snapshot.interner, &name, zone(launch, *outcome));
        snapshot.nodes.push(Arc::new(node));
        existing.push(Placement {
            node: name.into(),
            pods: launch.pods.clone(),
        });
    }
    if !with_spread {
        for pod in existing.iter_mut().flat_map(|placed| &mut placed.pods) {
            Arc::make_mut(&mut Arc::make_mut(pod).shape).spread.clear();
        }
    }
    let plan = Plan {
        existing,
        ..Plan::default()
    };
    (snapshot, plan)
}

/// Why the plan may not work, if so.
fn brute_force_objection(snapshot: &Snapshot, plan: &Plan) -> Option<String> {
    for launch in &plan.launches {
        let zones: BTreeSet<Sym> = outcomes(launch)
            .into_iter()
            .map(|outcome| zone(launch, outcome))
            .collect();
        let spread = |pod: &Arc<Pod>| pod.shape.spread.iter().any(|one| one.required && one.key == sym::ZONE);
        if zones.len() > 1 && launch.pods.iter().any(spread) {
            return Some("topology spread over zones on a launch of which the zone is open".to_owned());
        }
    }
    let cheapest: Vec<(u32, u32)> = plan.launches.iter().filter_map(|launch| launch.cheapest).collect();
    expansions(&plan.launches).into_iter().find_map(|chosen| {
        let (expanded, plan) = expanded(snapshot, plan, &chosen, chosen == cheapest);
        let why = objection(&Problem::new(&expanded, &plan))?;
        Some(format!("as {chosen:?}: {why}"))
    })
}

/// Compares the checker's verdict with that of brute force.
fn agree(snapshot: &Snapshot, plan: &Plan) -> Result<bool, String> {
    let found = verify(snapshot, &snapshot.pending, plan, &CheckOptions::default());
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    match (brute_force_objection(snapshot, plan), found.is_empty()) {
        (None, true) => Ok(true),
        (Some(_), false) => Ok(false),
        (Some(why), true) => Err(format!("the checker accepts, but {why}\n{}", shown(snapshot, plan))),
        (None, false) => Err(format!(
            "only the checker objects: {}\n{}",
            found.join("; "),
            shown(snapshot, plan)
        )),
    }
}

fn shown(snapshot: &Snapshot, plan: &Plan) -> String {
    let names = |pods: &[Arc<Pod>]| pods.iter().map(|pod| pod.name.to_string()).collect::<Vec<_>>();
    let existing = plan
        .existing
        .iter()
        .map(|placed| format!("{}: {:?}", placed.node, names(&placed.pods)));
    let launches = plan.launches.iter().map(|launch| {
        let zones = outcomes(launch).into_iter().map(|outcome| zone(launch, outcome));
        let zones: BTreeSet<&str> = zones.map(|zone| snapshot.interner.text(zone)).collect();
        let cheapest = launch
            .cheapest
            .map(|outcome| snapshot.interner.text(zone(launch, outcome)));
        format!("in {zones:?}, cheapest in {cheapest:?}: {:?}", names(&launch.pods))
    });
    existing.chain(launches).collect::<Vec<_>>().join("\n")
}

fn read(text: &str) -> Option<(Snapshot, Plan)> {
    let mut draw = draws(text, "# plan ");
    let snapshot = Fixture::read(text).snapshot;
    let plan = plan(&mut draw, &snapshot)?;
    Some((snapshot, plan))
}

fn plans_are_judged_alike(text: &str) -> Result<(), String> {
    let Some((snapshot, plan)) = read(text) else {
        return Ok(());
    };
    agree(&snapshot, &plan).map(|_| ())
}

#[test]
fn the_checker_judges_open_launches_as_brute_force_does() {
    hold(100, cluster, plans_are_judged_alike);
}

#[test]
fn plans_with_open_launches_are_good_and_bad() {
    assert_good_and_bad(0..400, |seed| {
        let (snapshot, plan) = read(&cluster(&mut Draw::new(seed)))?;
        (!plan.launches.is_empty()).then(|| agree(&snapshot, &plan))
    });
}
