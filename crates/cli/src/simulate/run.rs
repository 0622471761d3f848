//! The steps of a simulation: read, plan, check, print.

use super::input::{self, Cluster};
use super::report::{SimulationReport, Verification};
use super::table;
use crate::args::{self, CatalogueName, Output, SimulateArgs};
use crate::exit::Exit;
use crate::manifests::{InputError, read_inputs, read_objects};
use anyhow::Context;
use jiff::Timestamp;
use kerf_cloud::{OverlayPool, Vocabulary};
use kerf_controllers::conventions_of;
use kerf_kwok::{ReadMode, builtin_catalogue, ec2_catalogue, read_catalogue};
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_model::plan::Plan;
use kerf_model::snapshot::Snapshot;
use kerf_runtime::options::FeatureGates;
use kerf_scheduler::{MinValuesPolicy, Options, Packing, PreferencePolicy, Request, ReservedMode, solve};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

/// Runs `kerf simulate`.
pub(crate) fn run(args: &SimulateArgs) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let mut errors = Vec::new();
    let interner = Arc::new(Interner::default());
    let settings = Settings::read(args, &interner, &mut errors);
    let (inputs, read_errors, mut notes) = read_inputs(&args.filenames, &mut io::stdin().lock());
    errors.extend(read_errors);
    let (objects, object_errors, object_notes) = read_objects(&inputs);
    errors.extend(object_errors);
    notes.extend(object_notes);
    drop(inputs);
    let (cluster, input_errors) = input::read(objects);
    errors.extend(input_errors);
    notes.iter().for_each(|note| eprintln!("{note}"));
    let Some(settings) = settings else {
        complain(&errors);
        return Ok(Exit::BadInput);
    };
    let snapshot = snapshot(cluster, &settings, &interner, &mut errors);
    complain(&errors);
    let read = started.elapsed();
    let plan = solve(&Request::pending(&snapshot), &settings.options, &|| false);
    let planned = started.elapsed();
    let mut report = SimulationReport::new(&snapshot, &plan);
    if args.verify {
        report.verification = Some(verify(&snapshot, &plan, &settings.options));
    }
    if args.timing {
        let ms = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
        let (plan, check) = (
            ms(planned.saturating_sub(read)),
            ms(started.elapsed().saturating_sub(planned)),
        );
        eprintln!(
            "read {:.1} ms, plan {plan:.1} ms, report and check {check:.1} ms",
            ms(read)
        );
    }
    print(&report, args.output).context("printing the report")?;
    Ok(exit(&report, errors.is_empty()))
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

fn complain(errors: &[InputError]) {
    errors.iter().for_each(|error| eprintln!("error: {error}"));
}

struct Settings {
    now: Timestamp,
    options: Options,
    overlays: bool,
    catalogue: Arc<Catalogue>,
    vocabulary: Vocabulary,
}

impl Settings {
    fn read(args: &SimulateArgs, interner: &Interner, errors: &mut Vec<InputError>) -> Option<Self> {
        let now = match args.now.as_deref().map(str::parse) {
            None => Some(Timestamp::now()),
            Some(Ok(now)) => Some(now),
            Some(Err(error)) => {
                let error: jiff::Error = error;
                let error = InputError::new("--now", format!("is not a point in time: {error}"));
                errors.push(error.remedy("write it as 2026-01-31T12:00:00Z"));
                None
            }
        };
        let gates: Option<FeatureGates> = args
            .feature_gates
            .parse()
            .inspect_err(|error| errors.push(InputError::new("--feature-gates", format!("{error}"))))
            .ok();
        let catalogue = catalogue(args, interner, errors);
        let (now, gates, catalogue) = (now?, gates?, catalogue?);
        let vocabulary = kerf_kwok::vocabulary(&catalogue, interner);
        // The gate is off by default for a cluster; offline, overlays that are given are meant.
        let overlays = !args.feature_gates.contains("NodeOverlay") || gates.node_overlay;
        Some(Self {
            now,
            options: options(args, gates),
            overlays,
            catalogue,
            vocabulary,
        })
    }
}

fn options(args: &SimulateArgs, gates: FeatureGates) -> Options {
    Options {
        preference_policy: match args.preference_policy {
            args::PreferencePolicy::Respect => PreferencePolicy::Respect,
            args::PreferencePolicy::Ignore => PreferencePolicy::Ignore,
        },
        min_values_policy: match args.min_values_policy {
            args::MinValuesPolicy::Strict => MinValuesPolicy::Strict,
            args::MinValuesPolicy::BestEffort => MinValuesPolicy::BestEffort,
        },
        reserved: if gates.reserved_capacity {
            ReservedMode::Strict
        } else {
            ReservedMode::Off
        },
        packing: match args.packing {
            args::Packing::Cheapest => Packing::Cheapest,
            args::Packing::Upstream => Packing::Upstream,
        },
        threads: usize::from(args.threads),
        ..Options::default()
    }
}

fn catalogue(args: &SimulateArgs, interner: &Interner, errors: &mut Vec<InputError>) -> Option<Arc<Catalogue>> {
    let Some(path) = &args.instance_types else {
        return Some(match args.catalogue {
            CatalogueName::Ec2 => ec2_catalogue(interner),
            CatalogueName::Kwok => builtin_catalogue(interner),
        });
    };
    let name = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            let error = InputError::new(name, format!("cannot be read: {error}"));
            errors.push(error.remedy("check the path given with --instance-types"));
            return None;
        }
    };
    match read_catalogue(&text, &name, interner, ReadMode::Strict) {
        Ok(catalogue) => Some(Arc::new(catalogue)),
        Err(faults) => {
            for fault in faults.0 {
                let place = InputError::new(&fault.file, &fault.problem).remedy(fault.remedy);
                let element = fault
                    .element
                    .map(|(index, name)| format!("instance type {index} ({name})"));
                errors.push(InputError {
                    object: element,
                    field: Some(fault.field).filter(|f| !f.is_empty()),
                    ..place
                });
            }
            None
        }
    }
}

fn snapshot(
    cluster: Cluster,
    settings: &Settings,
    interner: &Arc<Interner>,
    errors: &mut Vec<InputError>,
) -> Arc<Snapshot> {
    let Cluster {
        mut world,
        mut overlays,
    } = cluster;
    if !settings.overlays {
        overlays.clear();
    }
    let rules = &settings.vocabulary.labels;
    let pools: Vec<OverlayPool> = world
        .pools
        .iter()
        .map(|pool| OverlayPool::new(pool, Arc::clone(&settings.catalogue), rules, interner))
        .collect();
    let evaluation = kerf_cloud::evaluate(&overlays, &pools, rules, interner);
    for (name, status) in &evaluation.statuses {
        if status.reason().is_some() {
            let error = InputError::new("NodeOverlay", status.message().to_owned()).object(name.clone());
            errors.push(error.remedy("it is applied nowhere; correct it or give it another weight"));
        }
    }
    for pool in &pools {
        let overlaid = evaluation
            .pools
            .get(&pool.name)
            .map(|overlay| overlay.apply(&settings.catalogue));
        let catalogue = overlaid.unwrap_or_else(|| Arc::clone(&settings.catalogue));
        world.catalogues.insert(pool.name.to_string(), Ok(catalogue));
    }
    world
        .into_mirror(Arc::clone(interner), conventions_of(&settings.vocabulary))
        .snapshot(settings.now)
}

fn verify(snapshot: &Snapshot, plan: &Plan, options: &Options) -> Verification {
    let check = kerf_check::CheckOptions {
        strict_min_values: options.min_values_policy == MinValuesPolicy::Strict,
        reserved_capacity: options.reserved != ReservedMode::Off,
        ..kerf_check::CheckOptions::default()
    };
    Verification::of(&kerf_check::verify(snapshot, &snapshot.pending, plan, &check))
}

fn print(report: &SimulationReport, output: Output) -> anyhow::Result<()> {
    let text = match output {
        Output::Table => table::render(report),
        Output::Json => serde_json::to_string_pretty(report)? + "\n",
        Output::Yaml => serde_saphyr::to_string(report).context("writing YAML")?,
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}
