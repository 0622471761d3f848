//! The steps of a simulation: read, plan, check, print.

use super::report::{SimulationReport, Verification};
use super::table;
use crate::args::{Output, SimulateArgs};
use crate::consolidate::{self, ConsolidationReport, Guards, View, budget_faults, look, void_annotations};
use crate::decision::{CatalogueChoice, Settings, complain, from_files, mention, snapshot};
use crate::exit::Exit;
use anyhow::Context;
use kerf_controllers::violations;
use kerf_model::intern::Interner;
use kerf_model::plan::Plan;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Options, Request, solve};
use serde::Serialize;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs `kerf simulate`.
pub(crate) fn run(args: &SimulateArgs) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let interner = Arc::new(Interner::default());
    let mut errors = Vec::new();
    let settings = Settings::read(&args.decision, CatalogueChoice::Offline, &interner, &mut errors);
    let mut input = from_files(&args.filenames);
    let guards = Guards::of(&input.cluster);
    errors.append(&mut input.errors);
    mention(&input.notes);
    let Some(settings) = settings else {
        complain(&errors);
        return Ok(Exit::BadInput);
    };
    let snapshot = snapshot(input.cluster, &settings, &interner, &mut errors);
    if args.consolidate {
        errors.extend(budget_faults(&snapshot));
        mention(&void_annotations(&snapshot.nodes));
    }
    complain(&errors);
    let read = started.elapsed();
    if args.consolidate {
        let view = View {
            snapshot: &snapshot,
            guards: &guards,
            settings: &settings,
        };
        let look = look(&view, None);
        let report = ConsolidationReport::new(&snapshot, &look, settings.now);
        if args.timing {
            let plan = started.elapsed().saturating_sub(read);
            eprintln!("read {:.1} ms, plan {:.1} ms", ms(read), ms(plan));
        }
        print(&report, args.output, consolidate::render).context("printing the report")?;
        return Ok(match (errors.is_empty(), report.moves.is_empty()) {
            (false, _) => Exit::BadInput,
            (true, false) => Exit::No,
            (true, true) => Exit::Done,
        });
    }
    let plan = solve(&Request::pending(&snapshot), &settings.options, &|| false);
    let planned = started.elapsed();
    let mut report = SimulationReport::new(&snapshot, &plan);
    if args.verify {
        report.verification = Some(verify(&snapshot, &plan, &settings.options));
    }
    if args.timing {
        let (plan, check) = (
            ms(planned.saturating_sub(read)),
            ms(started.elapsed().saturating_sub(planned)),
        );
        eprintln!(
            "read {:.1} ms, plan {plan:.1} ms, report and check {check:.1} ms",
            ms(read)
        );
    }
    print(&report, args.output, table::render).context("printing the report")?;
    Ok(exit(&report, errors.is_empty()))
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

/// Has the checker judge a plan.
pub(crate) fn verify(snapshot: &Snapshot, plan: &Plan, options: &Options) -> Verification {
    Verification::of(&violations(snapshot, &snapshot.pending, plan, options))
}

fn print<T: Serialize>(report: &T, output: Output, render: impl Fn(&T) -> String) -> anyhow::Result<()> {
    let text = match output {
        Output::Table => render(report),
        Output::Json => serde_json::to_string_pretty(report)? + "\n",
        Output::Yaml => serde_saphyr::to_string(report).context("writing YAML")?,
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}
