//! Would the options of the Deployment work with Kerf?

use super::facts::{Facts, title};
use super::finding::{Finding, Level};
use crate::controller;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Container;
use std::collections::BTreeMap;

const CHECK: &str = "options";

/// Variables of Karpenter's AWS provider.
const OF_AWS: [&str; 14] = [
    "CLUSTER_CA_BUNDLE",
    "CLUSTER_NAME",
    "CLUSTER_ENDPOINT",
    "ISOLATED_VPC",
    "EKS_CONTROL_PLANE",
    "VM_MEMORY_OVERHEAD_PERCENT",
    "INTERRUPTION_QUEUE",
    "ENABLE_ZONAL_SHIFT",
    "RESERVED_ENIS",
    "DISABLE_DRY_RUN",
    "AMI_REFRESH_INTERVAL",
    "SUBNET_REFRESH_INTERVAL",
    "AWS_FEATURE_GATES",
    "AWS_REGION",
];

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    if facts.deployments.is_empty() {
        let message = "no Deployment of Karpenter is known; its options are not checked";
        return vec![Finding::new(Level::Skipped, CHECK, message)];
    }
    facts.deployments.iter().flat_map(of_deployment).collect()
}

fn of_deployment(deployment: &Deployment) -> Vec<Finding> {
    let meta = &deployment.metadata;
    let object = title("Deployment", meta.namespace.as_deref(), meta.name.as_deref());
    let spec = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let containers = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let named = containers.iter().find(|container| container.name == "controller");
    let Some(container) = named.or(containers.first()) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let mut add = |level, message: String| findings.push(Finding::new(level, CHECK, message).on(&object));
    let variables = literals(container);
    let flags = container.args.clone().unwrap_or_default();
    if let Err(error) = controller::check_options(flags, |name| variables.get(name).cloned()) {
        add(Level::Problem, format!("the controller would not start: {error}"));
    }
    if container.command.is_some() {
        let message = "command is set: it replaces the entry point of Kerf's image; remove it";
        add(Level::Problem, message.to_owned());
    }
    let of_aws: Vec<&str> = OF_AWS
        .into_iter()
        .filter(|name| variables.contains_key(*name))
        .collect();
    if !of_aws.is_empty() {
        add(
            Level::Warning,
            format!("without effect in this version of Kerf: {}", of_aws.join(", ")),
        );
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
    fn what_would_not_work_is_found() {
        let found = results(&json!({
            "name": "controller",
            "command": ["/karpenter"],
            "args": ["--preference-policy=Maybe"],
            "envFrom": [{"configMapRef": {"name": "more"}}],
            "env": [
                {"name": "CLUSTER_NAME", "value": "a"},
                {"name": "IGNORE_DRA_REQUESTS", "value": "false"},
            ],
        }));
        let levels: Vec<Level> = found.iter().map(|(level, _)| *level).collect();
        use Level::{Note, Problem, Warning};
        assert_eq!(levels, [Problem, Problem, Warning, Warning, Note], "{found:?}");
        assert!(found[0].1.contains("PREFERENCE_POLICY"), "{found:?}");
        assert!(found[2].1.ends_with("CLUSTER_NAME"), "{found:?}");
    }
}
