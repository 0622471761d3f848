//! Properties of every plan.
//!
//! Refusals: a single pod is refused if and only if no node would take it. Among other pods, it is refused only if no node would take it
//! after the plan's placements, including any node a launch may become. Whether other placements would leave more room is not checked; that
//! is bin packing.

use super::oracle;
use kerf_model::plan::{Cause, Plan, Refusal, Unschedulable};
use kerf_model::price::Price;
use kerf_scheduler::{Options, Request, ReservedMode, cost_bound, cost_bound_of_nodes};
use kerf_testkit::fixture::Fixture;
use kerf_testkit::generate;
use kerf_testkit::seeds::hold;
use kerf_units::policy::{MinValuesPolicy, Packing, PreferencePolicy};
use std::collections::BTreeSet;
use std::sync::Arc;

fn result(plan: &Plan) -> (usize, Price) {
    let launched: usize = plan.launches.iter().map(|launch| launch.pods.len()).sum();
    let existing: usize = plan.existing.iter().map(|placed| placed.pods.len()).sum();
    (
        launched + existing,
        plan.launches.iter().filter_map(kerf_model::plan::Launch::price).sum(),
    )
}

/// The options that the comments of a cluster set.
pub(super) fn options(text: &str, packing: Packing) -> Options {
    let mut options = Options {
        packing,
        ..Options::default()
    };
    for line in text.lines() {
        match line.trim() {
            "# ignore-preferences" => options.preference_policy = PreferencePolicy::Ignore,
            "# best-effort" => options.min_values_policy = MinValuesPolicy::BestEffort,
            "# fallback" => options.reserved = ReservedMode::Fallback,
            _ => {}
        }
    }
    options
}

/// Below this many nodes times 1.5, and below three more, the nodes of a balanced plan need no further savings.
fn nodes_max(greedy: usize) -> usize {
    (greedy * 3 / 2).max(greedy + 3)
}

/// The checker accepts the plans of all packings, chosen by what they cost as planned or once their pods are bound. Cheapest and balanced
/// packing place no fewer pods than the greedy, and cost no more for as many; plans chosen by what they cost once bound may cost a twentieth
/// more. Of plans chosen as planned, cheapest packing costs no more than balanced, and each node of a balanced plan beyond the usual number
/// saves half of what a node of the greedy costs. The latter is checked where all nodes are of one pool, because pools that share no pods
/// count for themselves. No plan costs less than its lower bound.
pub(super) fn is_sound(text: &str) -> Result<(), String> {
    let fixture = Fixture::read(text);
    let solve = |packing, forecast_binding| {
        let options = Options {
            forecast_binding,
            ..options(text, packing)
        };
        let solved = fixture.try_solve(&options);
        solved.map_err(|why| format!("{packing:?}, forecast {forecast_binding}: {why}"))
    };
    let bounded = |plan: &Plan, packing| {
        let request = Request::pending(&fixture.snapshot);
        let bound = cost_bound(&request, &options(text, packing), plan);
        let price = result(plan).1;
        if bound > price {
            return Err(format!("{packing}: {price} is below the bound {bound}"));
        }
        let nodes = plan.launches.len();
        let bound = cost_bound_of_nodes(&request, &options(text, packing), plan, nodes);
        if bound > price {
            return Err(format!(
                "{packing}: {price} is below the bound {bound} of {nodes} nodes"
            ));
        }
        Ok(())
    };
    let upstream = solve(Packing::Upstream, false)?;
    bounded(&upstream, Packing::Upstream)?;
    let greedy = result(&upstream);
    let mut cheapest = None;
    let dearest = Price::from_pico(greedy.1.pico() / 20 * 21);
    let is_no_worse = |placed: (usize, Price)| placed.0 > greedy.0 || (placed.0 == greedy.0 && placed.1 <= dearest);
    let forecast = solve(Packing::Balanced, true)?;
    bounded(&forecast, Packing::Balanced)?;
    if !is_no_worse(result(&forecast)) {
        return Err("packing with a forecast is worse than the greedy".to_owned());
    }
    for packing in [Packing::Cheapest, Packing::Balanced] {
        let plan = solve(packing, false)?;
        bounded(&plan, packing)?;
        let better = result(&plan);
        if better.0 < greedy.0 {
            return Err(format!("{packing} packing places fewer pods"));
        }
        let (most, lowest) = *cheapest.get_or_insert(better);
        if better.0 > most || (better.0 == most && better.1 < lowest) {
            return Err(format!(
                "{most} pods for {lowest} under cheapest packing, {better:?} under balanced"
            ));
        }
        if better.0 > greedy.0 {
            continue;
        }
        if better.1 > greedy.1 {
            return Err(format!("{packing} packing is dearer"));
        }
        let nodes = upstream.launches.len();
        let extra = plan.launches.len().saturating_sub(nodes_max(nodes)) as f64;
        let saved = (greedy.1 - better.1).per_hour();
        let of_both = upstream.launches.iter().chain(&plan.launches);
        let pools: BTreeSet<&str> = of_both.map(|launch| &*launch.pool).collect();
        if packing == Packing::Balanced
            && pools.len() == 1
            && saved < extra * 0.5 * greedy.1.per_hour() / nodes.max(1) as f64 - 1e-9
        {
            return Err(format!("{extra} nodes beyond the usual number save {saved} only"));
        }
    }
    Ok(())
}

#[test]
fn every_plan_is_one_kube_scheduler_would_carry_out() {
    hold(100, generate::common, is_sound);
}

#[test]
fn every_plan_of_odd_clusters_is_one_too() {
    hold(100, generate::wide, is_sound);
}

/// Everything a plan decides, as text.
fn decided(fixture: &Fixture, plan: &Plan) -> String {
    let text = |id| fixture.snapshot.interner.text(id);
    let mut all = fixture.show(plan);
    for launch in &plan.launches {
        let types = launch
            .types
            .iter()
            .map(|at| text(launch.catalogue.types[*at as usize].name));
        let pods = launch.pods.iter().map(|pod| &*pod.name);
        all += &format!(
            "\n{} {} of {} for {} asking {:?} holding {:?} {}",
            launch.pool,
            launch.requirements.print(&fixture.snapshot.interner),
            types.collect::<Vec<_>>().join(","),
            pods.collect::<Vec<_>>().join(","),
            launch
                .requests
                .iter()
                .map(|(name, amount)| (text(name), amount))
                .collect::<std::collections::BTreeMap<_, _>>(),
            launch.reservations.iter().map(|id| text(*id)).collect::<Vec<_>>(),
            launch.min_values_relaxed,
        );
    }
    all
}

/// Equal input gives an equal plan, also when the input is in another order.
fn is_stable(text: &str) -> Result<(), String> {
    is_stable_with(text, Packing::Cheapest)?;
    is_stable_with(text, Packing::Balanced)
}

fn is_stable_with(text: &str, packing: Packing) -> Result<(), String> {
    let fixture = Fixture::read(text);
    let options = options(text, packing);
    let plan = |fixture: &Fixture| decided(fixture, &fixture.plan(&options));
    let first = plan(&fixture);
    if plan(&fixture) != first {
        return Err("solved twice, two plans".to_owned());
    }
    let several = Options {
        threads: 3,
        ..options.clone()
    };
    if decided(&fixture, &fixture.plan(&several)) != first {
        return Err("more threads, another plan".to_owned());
    }
    let mut turned = Fixture::read(text);
    turned.snapshot.pending.reverse();
    turned.snapshot.daemons.reverse();
    let half = turned.snapshot.pending.len() / 3;
    turned.snapshot.pending.rotate_left(half);
    if plan(&turned) != first {
        return Err(format!(
            "another order of pods gives another plan\n{first}\n{}",
            plan(&turned)
        ));
    }
    let kinds = ["known", "#", "type", "pool", "daemon", "node"];
    let mut lines: Vec<&str> = Vec::new();
    for kind in kinds {
        let of_kind = text.lines().map(str::trim).filter(|line| line.starts_with(kind));
        lines.extend(of_kind.collect::<Vec<_>>().into_iter().rev());
    }
    for kind in ["bound", "pod "] {
        lines.extend(text.lines().map(str::trim).filter(|line| line.starts_with(kind)));
    }
    let other = Fixture::read(&lines.join("\n"));
    if plan(&other) != first {
        return Err(format!(
            "another order of objects gives another plan\n{first}\n{}",
            plan(&other)
        ));
    }
    Ok(())
}

#[test]
fn plans_depend_on_no_order() {
    hold(50, generate::wide, is_stable);
}

/// A single pod of each kind is placed wherever a node would take it.
fn alone_is_refused_for_good_reason(text: &str) -> Result<(), String> {
    let mut fixture = Fixture::read(text);
    let all = std::mem::take(&mut fixture.snapshot.pending);
    let mut seen: Vec<Arc<kerf_model::pod::PodShape>> = Vec::new();
    for pod in all
        .iter()
        .filter(|pod| pod.faults.is_empty() && pod.node_name.is_none())
    {
        if seen.contains(&pod.shape) {
            continue;
        }
        seen.push(Arc::clone(&pod.shape));
        fixture.snapshot.pending = vec![Arc::clone(pod)];
        let plan = fixture.try_solve(&options(text, Packing::Upstream))?;
        refusals_stand(&fixture, &plan, |_| true)?;
    }
    Ok(())
}

/// No node would take a pod that a plan refuses.
fn refusals_stand(fixture: &Fixture, plan: &Plan, judged: impl Fn(&Unschedulable) -> bool) -> Result<(), String> {
    let refused = plan.unschedulable.iter().filter(|left| !left.deferred);
    for left in refused.filter(|left| judged(left)) {
        let pods = &fixture.snapshot.pending;
        let Some(at) = pods.iter().position(|pod| pod.uid == left.pod.uid) else {
            continue;
        };
        if let Some(place) = oracle::place(fixture, pods, plan, at as u32) {
            return Err(format!("{place}\n{}", fixture.show(plan)));
        }
    }
    Ok(())
}

fn among_others_it_is_refused_for_good_reason(text: &str) -> Result<(), String> {
    let fixture = Fixture::read(text);
    for packing in [Packing::Upstream, Packing::Cheapest, Packing::Balanced] {
        let plan = fixture.try_solve(&options(text, packing))?;
        // Upstream does not take back what a claim set aside of a limit when it narrows (SCH-148).
        let set_aside = |left: &Unschedulable| {
            let by_limit = |refusal: &Refusal| matches!(refusal.cause, Cause::Limits { .. });
            packing == Packing::Upstream && left.refusals.iter().any(by_limit)
        };
        refusals_stand(&fixture, &plan, |left| !set_aside(left)).map_err(|why| format!("{packing:?}: {why}"))?;
    }
    Ok(())
}

#[test]
fn a_pod_alone_is_refused_only_if_nothing_would_take_it() {
    hold(25, generate::small, alone_is_refused_for_good_reason);
    hold(25, generate::zonal, alone_is_refused_for_good_reason);
}

#[test]
fn a_pod_among_others_is_refused_only_if_nothing_would_take_it_besides() {
    hold(25, generate::small, among_others_it_is_refused_for_good_reason);
    hold(25, generate::zonal, among_others_it_is_refused_for_good_reason);
}

/// Raising a limit, removing it, and adding a type place no fewer pods, where pods have no constraints on each other. Below a binding
/// limit, another size is another bin packing.
fn more_is_not_less(text: &str) -> Result<(), String> {
    let count = |text: &str| {
        let fixture = Fixture::read(text);
        let plan = fixture.try_solve(&options(text, Packing::Cheapest))?;
        Ok::<usize, String>(result(&plan).0)
    };
    let changed = |change: fn(&str) -> String| {
        let lines: Vec<String> = text.lines().map(change).collect();
        lines.join("\n")
    };
    let raised = changed(|line| {
        line.replace("limit=cpu:20", "limit=cpu:29")
            .replace("limit=cpu:33", "limit=cpu:48")
            .replace("limit=nodes:2", "limit=nodes:3")
    });
    let dropped = changed(|line| {
        let words = line.split_whitespace().filter(|word| !word.starts_with("limit="));
        words.collect::<Vec<_>>().join(" ")
    });
    let added = format!("{dropped}\ntype extra cpu=4 mem=16Gi pods=20 price=0.2411 zones=a,b,c");
    let mut before = count(text)?;
    for (what, other) in [
        ("a raised limit", raised),
        ("no limit", dropped),
        ("another type", added),
    ] {
        let after = count(&other)?;
        if after < before {
            return Err(format!("{what}: {after} pods placed, {before} before"));
        }
        before = after;
    }
    Ok(())
}

#[test]
fn more_to_choose_from_places_no_fewer() {
    hold(50, generate::plain, more_is_not_less);
}

/// The names of the placed pods that start with `w`.
fn placed(plan: &Plan) -> std::collections::BTreeSet<Arc<str>> {
    let launched = plan.launches.iter().flat_map(|launch| &launch.pods);
    let existing = plan.existing.iter().flat_map(|placed| &placed.pods);
    let names = launched.chain(existing).map(|pod| Arc::clone(&pod.name));
    names.filter(|name| name.starts_with('w')).collect()
}

/// Unusual pods that share no limits, nodes or labels with others do not change where the others go.
fn others_are_not_harmed(text: &str) -> Result<(), String> {
    let odd = |line: &&str| line.starts_with("pod odd");
    let apart = |line: &str| {
        ["select=pool:in:odd", "cpu=1000000", "select=never"]
            .iter()
            .any(|sign| line.contains(sign))
    };
    if !text.lines().filter(odd).all(apart) {
        return Ok(());
    }
    let without: Vec<&str> = text.lines().filter(|line| !odd(line)).collect();
    let without = without.join("\n");
    for packing in [Packing::Upstream, Packing::Cheapest] {
        let before = Fixture::read(&without).try_solve(&options(text, packing))?;
        let after = Fixture::read(text).try_solve(&options(text, packing))?;
        let lost: Vec<_> = placed(&before).difference(&placed(&after)).cloned().collect();
        if !lost.is_empty() {
            return Err(format!("{packing:?} loses {lost:?}"));
        }
    }
    Ok(())
}

#[test]
fn no_pod_is_poison_to_others() {
    hold(50, generate::poisoned, others_are_not_harmed);
}
