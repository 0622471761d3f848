//! Runs `kerf preflight`.

use super::facts::Facts;
use super::finding::{Finding, Level, Report};
use super::{class_drift, definitions, differences, drift, election, files, live, options, permissions, provider};
use crate::args::{Output, PreflightArgs};
use crate::decision::print_errors;
use crate::exit::Exit;
use crate::messages::say;
use anyhow::Context as _;
use jiff::Timestamp;
use std::io::{self, Write};

/// Reads, checks and prints. The exit code says whether there is a problem.
pub(crate) fn run(args: &PreflightArgs) -> anyhow::Result<Exit> {
    let now = match &args.now {
        None => kerf_runtime::Clock::system().now(),
        Some(text) => match text.parse::<Timestamp>() {
            Ok(now) => now,
            Err(error) => {
                say!("error: --now {text}: {error}; write it as 2026-01-02T03:04:05Z");
                return Ok(Exit::BadInput);
            }
        },
    };
    let mut facts = Facts::new(now, args.namespace.clone());
    let errors = if args.filenames.is_empty() {
        // Another context than the current one has another bundle.
        if args.cluster.context.is_none() {
            let bundle = kerf_aws::provider::client_ca(args.cluster.kubeconfig.as_deref());
            facts.ca_bundle = Some(bundle).filter(|bundle| !bundle.is_empty());
        }
        args.cluster
            .read(async |connection| live::read(connection, &mut facts).await)?;
        Vec::new()
    } else {
        files::read(&args.filenames, &mut facts)
    };
    print_errors(&errors);
    let report = Report::new(findings(&facts));
    let text = match args.output {
        Output::Table => report.table(),
        Output::Json => serde_json::to_string_pretty(&report)? + "\n",
        Output::Yaml => serde_saphyr::to_string(&report).context("writing YAML")?,
    };
    io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .context("printing the report")?;
    Ok(match (errors.is_empty(), report.problems) {
        (false, _) => Exit::BadInput,
        (true, 0) => Exit::Done,
        (true, _) => Exit::No,
    })
}

/// All checks, in the order of the report.
fn findings(facts: &Facts) -> Vec<Finding> {
    let unread = facts
        .unread
        .iter()
        .map(|text| Finding::new(Level::Warning, "reading", text.as_str()));
    let mut all: Vec<Finding> = unread.collect();
    all.extend(provider::check(facts));
    all.extend(definitions::check(facts));
    all.extend(drift::check(facts));
    all.extend(class_drift::check(facts));
    all.extend(options::check(facts));
    all.extend(election::check(facts));
    all.extend(permissions::check(facts));
    all.extend(differences::all());
    all
}
