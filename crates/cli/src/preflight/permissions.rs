//! May the controller do what it has to?

use super::facts::Facts;
use super::finding::{Finding, Level};

const CHECK: &str = "permissions";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(permissions) = &facts.permissions else {
        return vec![Finding::new(Level::Skipped, CHECK, "the API server was not asked")];
    };
    let mut findings: Vec<Finding> = permissions
        .missing
        .iter()
        .map(|missing| {
            // Without the rules for its own group, Kerf works as Karpenter does.
            let level = if missing.group == "kerf.sh" {
                Level::Warning
            } else {
                Level::Problem
            };
            let message = format!(
                "{} lacks {} on {} in group {:?} ({}); `kerf manifests` prints the roles",
                permissions.subject,
                missing.verbs.join(", "),
                missing.resource,
                missing.group,
                missing.purpose
            );
            Finding::new(level, CHECK, message)
        })
        .collect();
    if findings.is_empty() {
        let message = format!("{} has all {} permissions", permissions.subject, permissions.asked);
        findings.push(Finding::new(Level::Ok, CHECK, message));
    }
    findings
}
