//! The steps of an explanation: read, find the object, decide, print.

use super::repair::RepairFacts;
use super::subject::Subject;
use super::{node, pod};
use crate::args::{ExplainArgs, TextOutput};
use crate::consolidate::{budget_faults, void_annotations};
use crate::decision::{DecisionInputs, ObjectSource, Settings, from_cluster, from_files, print_errors, print_notes};
use crate::exit::Exit;
use crate::manifests::InputError;
use crate::messages::say;
use anyhow::Context as _;
use kerf_model::intern::Interner;
use kerf_runtime::client::Connection;
use serde::Serialize;
use std::io::{self, Write};
use std::sync::Arc;

/// Runs `kerf explain`.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let subject = match Subject::parse(&args.subject, args.namespace.as_deref()) {
        Ok(subject) => subject,
        Err(problem) => {
            say!("error: {problem}");
            return Ok(Exit::BadInput);
        }
    };
    let offline = !args.filenames.is_empty();
    let whole = if offline { "input" } else { "cluster" };
    let (input, namespace) = if offline {
        (
            from_files(
                &args.filenames,
                args.decision.validate,
                args.decision.ec2.aws_feature_gates,
            ),
            None,
        )
    } else {
        let read =
            async |connection: &Connection| Ok((from_cluster(connection).await?, connection.namespace().to_owned()));
        let (input, namespace) = args.cluster.read(read)?;
        (input, Some(namespace))
    };
    let interner = Arc::new(Interner::default());
    let mut errors = Vec::new();
    let source = match offline {
        true => ObjectSource::Files(&input.cluster),
        false => ObjectSource::Live(&input.cluster),
    };
    let settings = Settings::read(&args.decision, source, &interner, &mut errors);
    errors.extend(input.errors);
    print_notes(&input.notes);
    let Some(settings) = settings else {
        print_errors(&errors);
        return Ok(Exit::BadInput);
    };
    match subject {
        Subject::Pod { namespace: named, name } => {
            let namespace = named.or(namespace).unwrap_or_else(|| "default".to_owned());
            let Some(standing) = pod::Standing::of(&input.cluster, &namespace, &name) else {
                let title = format!("Pod {namespace}/{name}");
                let missing = format!(
                    "there is no Pod {name} in namespace {namespace} of the {whole}; -n names another namespace"
                );
                return Ok(not_there(&errors, &title, &missing));
            };
            let inputs = DecisionInputs::new(input.cluster, &settings, &interner, &mut errors);
            print_errors(&errors);
            let explanation = pod::explain(&inputs, &standing);
            print(&explanation, args.output, pod::render)?;
            // Errors about other objects do not change the exit code.
            Ok(explanation.exit())
        }
        Subject::Node { name } => {
            let id = node::provider_id(&input.cluster, &name);
            let repair = RepairFacts::of(&input.cluster);
            let inputs = DecisionInputs::new(input.cluster, &settings, &interner, &mut errors);
            let snapshot = &inputs.snapshot;
            let found = node::find(snapshot, &name, id.as_deref());
            let repairs = repair.sentences(&name, snapshot, settings.node_repair, settings.now);
            let Some((index, explanation)) =
                found.and_then(|index| Some((index, node::explain(&inputs, index, repairs)?)))
            else {
                return Ok(not_there(
                    &errors,
                    &format!("Node {name}"),
                    &format!("there is no Node or NodeClaim {name} in the {whole}"),
                ));
            };
            print_errors(&errors);
            print_errors(&budget_faults(snapshot));
            print_notes(&void_annotations(snapshot.nodes.get(index)));
            print(&explanation, args.output, node::render)?;
            Ok(explanation.exit(&errors))
        }
    }
}

/// Prints that the object does not exist or cannot be read, and returns the exit code.
fn not_there(errors: &[InputError], title: &str, missing: &str) -> Exit {
    print_errors(errors);
    // `print_errors` has printed the error about the object.
    if errors.iter().any(|error| error.object.as_deref() == Some(title)) {
        say!("error: {title} cannot be read; there is nothing to explain until it is corrected");
        return Exit::BadInput;
    }
    say!("error: {missing}");
    // The object may be in a part of the input that could not be read.
    if errors.is_empty() {
        Exit::Nothing
    } else {
        Exit::BadInput
    }
}

fn print<T: Serialize>(document: &T, output: TextOutput, render: impl Fn(&T) -> String) -> anyhow::Result<()> {
    let text = match output {
        TextOutput::Text => render(document),
        TextOutput::Json => serde_json::to_string_pretty(document)? + "\n",
        TextOutput::Yaml => serde_saphyr::to_string(document).context("writing YAML")?,
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).context("printing the explanation")
}
