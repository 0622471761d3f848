//! Random clusters of existing nodes with a few pods, and plans for them.

use super::brute_force::{Problem, objection};
use super::changes::{add_trait, change};
use super::{assert_good_and_bad, draws};
use kerf_check::{CheckOptions, verify};
use kerf_model::plan::{Placement, Plan};
use kerf_testkit::draw::Draw;
use kerf_testkit::fixture::{Fixture, upstream};
use kerf_testkit::seeds::hold;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What pods may ask for, one word each.
pub(super) const RULES: [&str; 28] = [
    "apart=zone/app=x",
    "apart=host/app=y",
    "apart=rack/app=x",
    "near=zone/app=x",
    "near=host/app=y",
    "near=rack/app=x",
    "spread=zone/1/app=x",
    "spread=host/1/app=x",
    "spread=zone/2/app=y",
    "spread=zone/1/app=x/min=3",
    "spread=rack/1/app=x",
    "spread=zone/1/app=y/taints",
    "spread=host/1/app=y/anynode",
    "spread=zone/1/*",
    "port=80",
    "port=80@10.0.0.1",
    "port=80/UDP",
    "tol=team",
    "tol=*",
    "tol=team=blue:NoSchedule",
    "select=zone:in:a,b",
    "select=rack:notin:r1",
    "term=rack:in:r1 term=zone:in:c",
    "select=gen:gt:3",
    "vol=v1/csi",
    "vol=v2/csi/zone:in:a|zone:in:b",
    "ns=other",
    "label=tier=hot",
];

/// What nodes may have, one word each.
pub(super) const TRAITS: [&str; 8] = [
    "label=rack=r1",
    "label=rack=r2",
    "label=gen=3",
    "label=gen=5",
    "taint=team=blue:NoSchedule",
    "taint=team=red:NoExecute",
    "taint=soft:PreferNoSchedule",
    "attach=csi:1",
];

/// Two to five nodes with bound pods and up to eight pods to place. The first line holds the seed of the changes.
fn cluster(draw: &mut Draw) -> String {
    let mut lines = vec![format!("# changes {}", draw.next() % 1_000_000)];
    if draw.below(3) == 0 {
        let place = draw.pick(&["", "port=80", "select=zone:in:a", "tol=*"]);
        lines.push(format!("daemon d cpu=0.2 mem=1Gi {place}"));
    }
    for number in 0..2 + draw.below(4) {
        let (zone, cpu) = (draw.pick(&["a", "b", "c"]), draw.pick(&[2, 4, 4]));
        let mut traits = Vec::new();
        for _ in 0..draw.below(3) {
            add_trait(&mut traits, draw.pick(&TRAITS));
        }
        let traits = traits.join(" ");
        lines.push(format!("node n{number} cpu={cpu} mem=16Gi zone={zone} {traits}"));
        for pod in 0..draw.below(3) {
            // No bound pod is labelled q, so that the cluster breaks no rule before the plan.
            let rule = draw.pick(&["", "", "apart=host/app=q", "apart=zone/app=q", "port=80", "vol=v1/csi"]);
            let app = draw.pick(&["x", "y", "z"]);
            lines.push(format!(
                "bound n{number} b{number}-{pod} cpu=0.5 mem=1Gi label=app={app} {rule}"
            ));
        }
    }
    for number in 0..1 + draw.below(4) {
        let rules: Vec<&str> = (0..draw.below(3)).map(|_| draw.pick(&RULES)).collect();
        let (app, cpu, count) = (
            draw.pick(&["x", "y", "q"]),
            draw.pick(&["0.3", "1", "1.5"]),
            1 + draw.below(2),
        );
        lines.push(format!(
            "pod w{number}*{count} cpu={cpu} mem=1Gi label=app={app} {}",
            rules.join(" ")
        ));
    }
    lines.join("\n")
}

/// Where each placed pod goes, by name.
pub(super) type Places = BTreeMap<String, String>;

fn places(plan: &Plan) -> Places {
    let of = |placed: &Placement| {
        let node = placed.node.to_string();
        placed
            .pods
            .iter()
            .map(move |pod| (pod.name.to_string(), node.clone()))
            .collect::<Vec<_>>()
    };
    plan.existing.iter().flat_map(of).collect()
}

/// The plan that puts pods at their places. Pods without one are left over.
fn plan(fixture: &Fixture, places: &Places) -> Plan {
    let mut plan = Plan::default();
    for pod in &fixture.snapshot.pending {
        let Some(node) = places.get(&*pod.name) else {
            plan.unattempted.push(Arc::clone(pod));
            continue;
        };
        match plan.existing.iter_mut().find(|placed| *placed.node == **node) {
            Some(placed) => placed.pods.push(Arc::clone(pod)),
            None => plan.existing.push(Placement {
                node: node.as_str().into(),
                pods: vec![Arc::clone(pod)],
            }),
        }
    }
    plan
}

/// Compares the checker's verdict on a plan with that of brute force.
fn agree(text: &str, places: &Places) -> Result<bool, String> {
    let fixture = Fixture::read(text);
    let plan = plan(&fixture, places);
    let found = verify(
        &fixture.snapshot,
        &fixture.snapshot.pending,
        &plan,
        &CheckOptions::default(),
    );
    let objection = objection(&Problem::new(&fixture.snapshot, &plan));
    let violations: Vec<String> = found.iter().map(ToString::to_string).collect();
    match (&objection, violations.is_empty()) {
        (None, true) => Ok(true),
        (Some(_), false) => Ok(false),
        (Some(why), true) => Err(format!("the checker accepts\n{text}\n{places:?}\nbut {why}")),
        (None, false) => Err(format!(
            "the checker objects to\n{text}\n{places:?}\n{}",
            violations.join("\n")
        )),
    }
}

const CHANGES: usize = 8;

fn changed_plans_are_judged_alike(text: &str) -> Result<(), String> {
    let fixture = Fixture::read(text);
    let solved = places(&fixture.try_solve(&upstream())?);
    if !agree(text, &solved)? {
        return Err("both object to the solver's plan".to_owned());
    }
    let mut draw = draws(text, "# changes ");
    for _ in 0..CHANGES {
        let (mut text, mut places) = (text.to_owned(), solved.clone());
        for _ in 0..1 + draw.below(2) {
            change(&mut draw, &mut text, &mut places);
        }
        agree(&text, &places)?;
    }
    Ok(())
}

#[test]
fn the_checker_objects_exactly_where_brute_force_does() {
    hold(20, cluster, changed_plans_are_judged_alike);
}

#[test]
fn changes_make_plans_good_and_bad() {
    assert_good_and_bad(0..200, |seed| {
        let mut draw = Draw::new(seed);
        let mut text = cluster(&mut draw);
        let mut places = places(&Fixture::read(&text).try_solve(&upstream()).ok()?);
        change(&mut draw, &mut text, &mut places);
        Some(agree(&text, &places))
    });
}
