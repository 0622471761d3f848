//! The steps of a simulation: read, plan, check, print.

use super::constraint_costs::constraint_costs;
use super::report::{Bound, SimulationReport, Verification};
use super::table;
use crate::args::{Output, SimulateArgs};
use crate::consolidate::{
    self, ConsolidationReport, RebalanceReport, budget_faults, forecast, render_rebalance, void_annotations,
};
use crate::decision::{DecisionInputs, ObjectSource, Settings, from_files, print_errors, print_notes};
use crate::exit::Exit;
use crate::messages::say;
use anyhow::Context;
use kerf_api::annotations;
use kerf_decide::{Memory, PlanCost, Provision, gap_causes, provision, rebalance};
use kerf_model::intern::Interner;
use kerf_model::nodepool::PackingFault;
use kerf_model::plan::Plan;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Request, cost_bound, solve};
use serde::Serialize;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs `kerf simulate`.
pub(crate) fn run(args: &SimulateArgs) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let interner = Arc::new(Interner::default());
    let mut errors = Vec::new();
    let mut input = from_files(
        &args.filenames,
        args.decision.validate,
        args.decision.ec2.aws_feature_gates,
    );
    let files = ObjectSource::Files(&input.cluster);
    let settings = Settings::read(&args.decision, files, &interner, &mut errors);
    errors.append(&mut input.errors);
    print_notes(&input.notes);
    let Some(settings) = settings else {
        print_errors(&errors);
        return Ok(Exit::BadInput);
    };
    let inputs = DecisionInputs::new(input.cluster, &settings, &interner, &mut errors);
    let snapshot = &inputs.snapshot;
    if args.consolidate || args.rebalance {
        errors.extend(budget_faults(snapshot));
        print_notes(&void_annotations(&snapshot.nodes));
    }
    print_notes(&packing_faults(snapshot));
    print_errors(&errors);
    let read = started.elapsed();
    if args.consolidate || args.rebalance {
        let (document, rests) = match args.rebalance {
            true => {
                let report = RebalanceReport::new(snapshot, &rebalance(&inputs.view()), inputs.now);
                (
                    rendered(&report, args.output, render_rebalance)?,
                    report.steps.is_empty(),
                )
            }
            false => {
                let report = ConsolidationReport::new(snapshot, &forecast(&inputs, None), inputs.now);
                (
                    rendered(&report, args.output, consolidate::render)?,
                    report.moves.is_empty(),
                )
            }
        };
        if args.timing {
            let plan = started.elapsed().saturating_sub(read);
            say!("read {:.1} ms, plan {:.1} ms", ms(read), ms(plan));
        }
        print(&document).context("printing the report")?;
        return Ok(match (errors.is_empty(), rests) {
            (false, _) => Exit::BadInput,
            (true, false) => Exit::No,
            (true, true) => Exit::Done,
        });
    }
    let decision = provision(&inputs.view(), &mut Memory::default(), &|| false);
    let planned = started.elapsed();
    let plan = planned_or_explained(&inputs, &decision);
    let mut report = SimulationReport::new(snapshot, &plan);
    if args.bound {
        let request = Request::new(snapshot, &decision.batch.pods);
        let bound = cost_bound(&request, &inputs.settings.solver, &plan);
        let causes = gap_causes(&inputs.view(), &plan, bound);
        report.bound = Some(Bound::new(bound, &plan, &causes));
    }
    if args.explain_cost {
        report.constraint_costs = Some(constraint_costs(&inputs, PlanCost::of(&plan)));
    }
    if args.verify {
        report.verification = Some(Verification::of(&decision.violations));
    }
    if args.timing {
        let (plan, check) = (
            ms(planned.saturating_sub(read)),
            ms(started.elapsed().saturating_sub(planned)),
        );
        say!(
            "read {:.1} ms, plan {plan:.1} ms, report and check {check:.1} ms",
            ms(read)
        );
    }
    print(&rendered(&report, args.output, table::render)?).context("printing the report")?;
    Ok(exit(&report, errors.is_empty()))
}

/// Annotations about packing that cannot be read.
fn packing_faults(snapshot: &Snapshot) -> Vec<String> {
    let faults = snapshot
        .pools
        .iter()
        .flat_map(|pool| pool.packing.faults.iter().map(move |fault| (&pool.name, fault)));
    let note = |(pool, fault): (&Arc<str>, &PackingFault)| {
        let key = match fault {
            PackingFault::Packing(_) => annotations::PACKING,
            PackingFault::NodeOverhead(_) => annotations::NODE_OVERHEAD_COST,
        };
        format!("NodePool {pool}: annotation {key}: {fault}; until it is corrected, nodes are chosen as by Karpenter")
    };
    faults.map(note).collect()
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn exit(report: &SimulationReport, clean: bool) -> Exit {
    let valid = report
        .verification
        .as_ref()
        .is_none_or(|verification| verification.valid);
    match (valid, clean) {
        (false, _) => Exit::Broken,
        (true, false) => Exit::BadInput,
        (true, true) if report.totals.unschedulable + report.totals.ignored > 0 => Exit::No,
        (true, true) => Exit::Done,
    }
}

/// The plan of a decision. Where there is none because no pool may get nodes, a plan with the reason why each pod has no place.
pub(crate) fn planned_or_explained(inputs: &DecisionInputs, decision: &Provision) -> Plan {
    match &decision.plan {
        Ok(plan) => plan.clone(),
        Err(_) => {
            let request = Request::new(&inputs.snapshot, &decision.batch.pods);
            solve(&request, &inputs.settings.solver, &|| false)
        }
    }
}

/// A report as text.
fn rendered<T: Serialize>(report: &T, output: Output, render: impl Fn(&T) -> String) -> anyhow::Result<String> {
    Ok(match output {
        Output::Table => render(report),
        Output::Json => serde_json::to_string_pretty(report)? + "\n",
        Output::Yaml => serde_saphyr::to_string(report).context("writing YAML")?,
    })
}

fn print(text: &str) -> io::Result<()> {
    io::stdout().lock().write_all(text.as_bytes())
}
