//! Are the custom resource definitions there, and new enough?

use super::facts::Facts;
use super::finding::{Finding, Level};
use crate::definition_fields::{lacking, remedy, schema, versions};
use kerf_api::Crd;
use serde_json::Value;

const CHECK: &str = "definitions";

/// Without these of its provider, the controller does not start.
const REQUIRED: [&str; 4] = [
    "nodepools.karpenter.sh",
    "nodeclaims.karpenter.sh",
    "kwoknodeclasses.karpenter.kwok.sh",
    "ec2nodeclasses.karpenter.k8s.aws",
];

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(there) = &facts.definitions else {
        return vec![Finding::new(
            Level::Skipped,
            CHECK,
            "the custom resource definitions are not known; they are not checked",
        )];
    };
    let wanted = kerf_api::crds(facts.provider());
    let remedy = remedy(facts.provider());
    let mut findings: Vec<Finding> = wanted.iter().filter_map(|crd| judge(crd, there, remedy)).collect();
    if findings.is_empty() {
        let message = format!("all {} are present and new enough", wanted.len());
        findings.push(Finding::new(Level::Ok, CHECK, message));
    }
    findings
}

fn judge(wanted: &Crd, there: &[Value], remedy: &str) -> Option<Finding> {
    let required = REQUIRED.contains(&wanted.name);
    let (level, without) = if required {
        (Level::Problem, "the controller does not start without it")
    } else {
        (Level::Warning, "its feature stays off")
    };
    let found = there
        .iter()
        .find(|crd| crd.pointer("/metadata/name").and_then(Value::as_str) == Some(wanted.name));
    let Some(found) = found else {
        let message = format!("is missing; {without}; {remedy}");
        return Some(Finding::new(level, CHECK, message).on(wanted.name));
    };
    for version in versions(&wanted.value) {
        let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
        let served = versions(found).find(|version| {
            version.get("name").and_then(Value::as_str) == Some(name)
                && version.get("served").and_then(Value::as_bool) == Some(true)
        });
        let Some(served) = served else {
            let message = format!("does not serve version {name}; {without}; {remedy}");
            return Some(Finding::new(level, CHECK, message).on(wanted.name));
        };
        if let Some(fields) = lacking(schema(version), schema(served)) {
            let message = format!("is older than this version of Kerf: it lacks {fields}; {remedy}");
            return Some(Finding::new(level, CHECK, message).on(wanted.name));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use kerf_api::Provider;

    fn found(change: impl FnOnce(&mut Vec<Value>)) -> Vec<(Level, Option<String>, String)> {
        let mut facts = Facts::new(Timestamp::UNIX_EPOCH, None);
        let mut there: Vec<Value> = kerf_api::crds(Provider::Kwok)
            .into_iter()
            .map(|crd| crd.value)
            .collect();
        change(&mut there);
        facts.definitions = Some(there);
        let findings = check(&facts).into_iter();
        findings
            .map(|finding| (finding.result, finding.object, finding.message))
            .collect()
    }

    fn of<'a>(there: &'a mut [Value], name: &str) -> &'a mut Value {
        let named = there.iter_mut().find(|crd| crd["metadata"]["name"] == name);
        named.expect("a definition")
    }

    #[test]
    fn our_own_definitions_are_new_enough() {
        let findings = found(|_| {});
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].0, Level::Ok, "{findings:?}");
    }

    #[test]
    fn missing_and_old_definitions_are_found() {
        let findings = found(|there| {
            there.retain(|crd| crd["metadata"]["name"] != "noderepairpolicies.kerf.sh");
            let pools = of(there, "nodepools.karpenter.sh");
            let schema = &mut pools["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let spec = schema["properties"]["spec"]["properties"]
                .as_object_mut()
                .expect("fields");
            spec.remove("replicas").expect("a field");
            of(there, "nodeclaims.karpenter.sh")["spec"]["versions"][0]["served"] = false.into();
        });
        let by_name = |name: &str| {
            let one = findings.iter().find(|finding| finding.1.as_deref() == Some(name));
            one.map(|(level, _, message)| (*level, message.as_str()))
                .expect("a finding")
        };
        assert_eq!(findings.len(), 3, "{findings:?}");
        let (level, message) = by_name("nodepools.karpenter.sh");
        assert_eq!(level, Level::Problem);
        assert!(message.contains("lacks spec.replicas; `kerf crds"), "{message}");
        let (level, message) = by_name("nodeclaims.karpenter.sh");
        assert_eq!(level, Level::Problem);
        assert!(message.starts_with("does not serve version v1;"), "{message}");
        let (level, message) = by_name("noderepairpolicies.kerf.sh");
        assert_eq!(level, Level::Warning);
        assert!(message.starts_with("is missing; its feature stays off"), "{message}");
    }
}
