//! Runs `kerf manifests`.

use super::merge::{Given, Merged, merge};
use super::naming::Release;
use super::objects::objects;
use super::values::Values;
use crate::args::ManifestsArgs;
use crate::controller;
use crate::exit::Exit;
use crate::messages::say;
use anyhow::Context as _;
use kerf_api::Provider;
use std::fs;
use std::io::{self, Write};

/// Prints the objects.
pub(crate) fn run(args: &ManifestsArgs) -> anyhow::Result<Exit> {
    let mut given = Given {
        files: Vec::new(),
        sets: args.set.clone(),
    };
    let mut problems = Vec::new();
    for path in &args.values {
        let name = path.display().to_string();
        match fs::read_to_string(path) {
            Ok(text) => given.files.push((name, text)),
            Err(error) => problems.push(format!("{name}: cannot be read: {error}")),
        }
    }
    let release = Release {
        name: args.name.clone(),
        namespace: args.namespace.clone(),
    };
    for (flag, name) in [("--name", &release.name), ("--namespace", &release.namespace)] {
        if !is_dns_label(name) {
            problems.push(format!(
                "{flag} {name:?} is no valid name; use lower-case letters, digits and dashes"
            ));
        }
    }
    let merged = match merge(&given) {
        Ok(merged) => merged,
        Err(more) => {
            problems.extend(more);
            Merged::default()
        }
    };
    if problems.is_empty() && args.iam.iam.is_none() {
        problems.extend(refused_by_the_controller(&merged.values));
    }
    if !problems.is_empty() {
        for problem in problems {
            say!("error: {problem}");
        }
        return Ok(Exit::BadInput);
    }
    for note in &merged.notes {
        say!("note: {note}");
    }
    if let Some(format) = args.iam.iam {
        return super::iam::run(format, &args.iam, &release, &merged.values);
    }
    let mut out = io::stdout().lock();
    if args.crds {
        for crd in kerf_api::crds(merged.values.settings.provider().unwrap_or(Provider::Kwok)) {
            writeln!(out, "---\n{}", crd.yaml.trim_start_matches("---\n").trim_end())?;
        }
    }
    for object in objects(&release, &merged.values).context("writing objects")? {
        let yaml = serde_saphyr::to_string(&object).context("writing YAML")?;
        writeln!(out, "---\n{}", yaml.trim_end())?;
    }
    Ok(Exit::Done)
}

/// Whether the text can be the name of any object.
fn is_dns_label(text: &str) -> bool {
    let is_inner = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
    !text.is_empty() && text.len() <= 63 && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// What the controller would refuse at its start, with these values as its environment.
fn refused_by_the_controller(values: &Values) -> Option<String> {
    let provider = values.settings.provider();
    if provider == Ok(Provider::Aws) && values.settings.cluster_name.is_empty() {
        return Some("settings.clusterName is missing: the provider aws needs the name of the cluster".to_owned());
    }
    let variables = super::environment::environment(values, "");
    let literal = |name: &str| {
        let variable = variables.iter().rev().find(|variable| variable.name == name)?;
        variable.value.clone()
    };
    controller::check_environment(provider.unwrap_or(Provider::Kwok), literal).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(set: &str) -> Option<String> {
        let given = Given {
            files: Vec::new(),
            sets: vec![set.to_owned()],
        };
        refused_by_the_controller(&merge(&given).expect("good values").values)
    }

    #[test]
    fn values_that_the_controller_would_refuse_are_refused() {
        assert_eq!(refusal("logLevel=debug"), None);
        for (set, wanted) in [
            ("logLevel=loud", "LOG_LEVEL"),
            ("settings.preferencePolicy=Maybe", "PREFERENCE_POLICY"),
            ("settings.packing=tight", "PACKING"),
            ("settings.batchMaxDuration=long", "batch-max-duration"),
            ("settings.cloudProvider=gcp", "cloud-provider"),
            ("settings.cloudProvider=aws", "settings.clusterName"),
            (
                "settings.clusterName=a,settings.amiRefreshInterval=1s",
                "ami-refresh-interval",
            ),
            (
                "settings.clusterName=a,settings.vmMemoryOverheadPercent=odd",
                "vm-memory-overhead-percent",
            ),
        ] {
            let refusal = refusal(set).expect("a refusal");
            assert!(
                refusal.to_lowercase().contains(&wanted.to_lowercase()),
                "{set}: {refusal}"
            );
        }
    }

    #[test]
    fn names_are_dns_labels() {
        for (name, good) in [
            ("kerf", true),
            ("kube-system", true),
            ("", false),
            ("Kerf", false),
            ("-a", false),
            ("a b", false),
        ] {
            assert_eq!(is_dns_label(name), good, "{name:?}");
        }
    }
}
