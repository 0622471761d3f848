//! Would the options of the Deployment work with Kerf?

use super::facts::{Facts, containers, title};
use super::finding::{Finding, Level};
use crate::controller;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Container;
use kerf_api::Provider;
use std::collections::BTreeMap;

const CHECK: &str = "options";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    if facts.deployments.is_empty() {
        let message = "no Deployment of Karpenter is known; its options are not checked";
        return vec![Finding::new(Level::Skipped, CHECK, message)];
    }
    let provider = facts.provider();
    let all = facts.deployments.iter();
    all.flat_map(|deployment| of_deployment(deployment, provider)).collect()
}

fn of_deployment(deployment: &Deployment, provider: Provider) -> Vec<Finding> {
    let meta = &deployment.metadata;
    let object = title("Deployment", meta.namespace.as_deref(), meta.name.as_deref());
    let containers = containers(deployment);
    let named = containers.iter().find(|container| container.name == "controller");
    let Some(container) = named.or(containers.first()) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let mut add = |level, message: String| findings.push(Finding::new(level, CHECK, message).on(&object));
    let variables = literals(container);
    let flags = container.args.clone().unwrap_or_default();
    if let Err(error) = controller::check_options(provider, flags, |name| variables.get(name).cloned()) {
        add(Level::Problem, format!("the controller would not start: {error}"));
    }
    if container.command.is_some() {
        let message = "command is set: it replaces the entry point of Kerf's image; remove it";
        add(Level::Problem, message.to_owned());
    }
    let is_on = |name: &str, wanted: &str| {
        variables
            .get(name)
            .is_some_and(|value| value.eq_ignore_ascii_case(wanted))
    };
    if is_on("IGNORE_DRA_REQUESTS", "false") {
        let message = "IGNORE_DRA_REQUESTS is false: Kerf plans pods with resource claims as if they had none";
        add(Level::Warning, message.to_owned());
    }
    if is_on("ENABLE_PROFILING", "true") {
        add(
            Level::Note,
            "ENABLE_PROFILING is true: Kerf serves no Go profiles".to_owned(),
        );
    }
    if container.env_from.as_ref().is_some_and(|sources| !sources.is_empty()) {
        add(
            Level::Note,
            "variables from ConfigMaps and Secrets (envFrom) are not checked".to_owned(),
        );
    }
    if findings.is_empty() {
        findings.push(Finding::new(Level::Ok, CHECK, "all options have the same meaning").on(&object));
    }
    findings
}

/// The variables with a value in the Deployment itself.
pub(super) fn literals(container: &Container) -> BTreeMap<String, String> {
    let variables = container.env.as_deref().unwrap_or_default();
    let pair = |variable: &k8s_openapi::api::core::v1::EnvVar| {
        let value = variable.value.clone();
        value.map(|value| (variable.name.clone(), value))
    };
    variables.iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use serde_json::json;

    fn results(container: &serde_json::Value) -> Vec<(Level, String)> {
        let mut facts = Facts::new(Timestamp::UNIX_EPOCH, None);
        let object = json!({
            "metadata": {"name": "karpenter", "namespace": "kube-system"},
            "spec": {"selector": {}, "template": {"spec": {"containers": [container]}}},
        });
        facts.deployments = vec![serde_json::from_value(object).expect("a Deployment")];
        let findings = check(&facts).into_iter();
        findings.map(|finding| (finding.result, finding.message)).collect()
    }

    #[test]
    fn a_plain_deployment_keeps_its_meaning() {
        let found = results(&json!({"name": "controller", "env": [
            {"name": "KARPENTER_SERVICE", "value": "karpenter"},
            {"name": "BATCH_MAX_DURATION", "value": "20s"},
            {"name": "MEMORY_LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
            {"name": "FEATURE_GATES", "value": "NodeRepair=true"},
        ]}));
        assert_eq!(found, [(Level::Ok, "all options have the same meaning".to_owned())]);
    }

    #[test]
    fn the_options_of_karpenters_aws_provider_keep_their_meaning() {
        let found = results(&json!({"name": "controller", "args": ["--reserved-enis=1"], "env": [
            {"name": "CLUSTER_NAME", "value": "prod"},
            {"name": "INTERRUPTION_QUEUE", "value": "prod"},
            {"name": "VM_MEMORY_OVERHEAD_PERCENT", "value": "0.075"},
            {"name": "AWS_FEATURE_GATES", "value": "NodeClassCEL=false"},
        ]}));
        assert_eq!(found, [(Level::Ok, "all options have the same meaning".to_owned())]);
    }

    #[test]
    fn what_would_not_work_is_found() {
        let found = results(&json!({
            "name": "controller",
            "command": ["/karpenter"],
            "args": ["--preference-policy=Maybe"],
            "envFrom": [{"configMapRef": {"name": "more"}}],
            "env": [
                {"name": "CLUSTER_NAME", "value": "a"},
                {"name": "AMI_REFRESH_INTERVAL", "value": "1s"},
                {"name": "AWS_FEATURE_GATES", "value": "NodeClasCEL=true"},
                {"name": "IGNORE_DRA_REQUESTS", "value": "false"},
            ],
        }));
        let levels: Vec<Level> = found.iter().map(|(level, _)| *level).collect();
        use Level::{Note, Problem, Warning};
        assert_eq!(levels, [Problem, Problem, Warning, Note], "{found:?}");
        assert!(found[0].1.contains("PREFERENCE_POLICY"), "{found:?}");
        assert!(found[0].1.contains("ami-refresh-interval"), "{found:?}");
        assert!(found[0].1.contains("did you mean NodeClassCEL?"), "{found:?}");
    }
}
