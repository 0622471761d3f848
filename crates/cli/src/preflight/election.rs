//! Would two controllers act at the same time?

use super::facts::{Facts, title};
use super::finding::{Finding, Level};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;

const CHECK: &str = "lease";

/// Name of the leader election lease where nothing else is configured.
pub(super) const LEASE: &str = "karpenter-leader-election";

/// How long a lease without a duration counts as held.
const DURATION_DEFAULT: SignedDuration = SignedDuration::from_secs(15);

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let target = facts.target_namespace();
    let held: Vec<(&Lease, &str)> = facts
        .leases
        .iter()
        .filter_map(|lease| Some((lease, holder(lease, facts.now)?)))
        .collect();
    let mut findings: Vec<Finding> = held
        .iter()
        .map(|(lease, holder)| {
            let namespace = lease.metadata.namespace.as_deref().unwrap_or_default();
            let object = title("Lease", Some(namespace), lease.metadata.name.as_deref());
            let (level, message) = if namespace == target {
                let message = format!("held by {holder}; Kerf in this namespace waits until it is free, and takes over");
                (Level::Ok, message)
            } else {
                let message = format!(
                    "held by {holder}; Kerf in namespace {target} does not see this lease, and both would act: stop that controller first, or install Kerf in namespace {namespace}"
                );
                (Level::Problem, message)
            };
            Finding::new(level, CHECK, message).on(object)
        })
        .collect();
    if held.is_empty() {
        let message = format!("no controller holds the lease {LEASE}");
        findings.push(Finding::new(Level::Ok, CHECK, message));
    }
    findings
}

/// Who holds a lease that has not expired.
fn holder(lease: &Lease, now: Timestamp) -> Option<&str> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
    let renewed = spec.renew_time.as_ref()?.0;
    let seconds = spec
        .lease_duration_seconds
        .map(|seconds| SignedDuration::from_secs(seconds.into()));
    let ends = renewed.checked_add(seconds.unwrap_or(DURATION_DEFAULT)).ok()?;
    (ends > now).then_some(holder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn results(leases: &[(&str, &str, &str)], target: Option<&str>) -> Vec<(Level, String)> {
        let now: Timestamp = "2026-01-01T00:00:10Z".parse().expect("a time");
        let mut facts = Facts::new(now, target.map(str::to_owned));
        let lease = |(namespace, holder, renewed): &(&str, &str, &str)| {
            let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed});
            serde_json::from_value(json!({"metadata": {"name": LEASE, "namespace": namespace}, "spec": spec}))
        };
        facts.leases = leases.iter().map(lease).collect::<Result<_, _>>().expect("leases");
        check(&facts)
            .into_iter()
            .map(|finding| (finding.result, finding.message))
            .collect()
    }

    #[test]
    fn a_lease_in_another_namespace_is_a_clash() {
        let live = ("kube-system", "karpenter-0_x", "2026-01-01T00:00:00.000000Z");
        let old = ("karpenter", "karpenter-9_x", "2025-01-01T00:00:00.000000Z");
        let given_back = ("karpenter", "", "2026-01-01T00:00:00.000000Z");
        assert_eq!(results(&[], None)[0].0, Level::Ok);
        assert_eq!(results(&[old, given_back], None)[0].0, Level::Ok);
        let same = results(&[live, old], None);
        assert_eq!(same.len(), 1);
        assert!(
            same[0]
                .1
                .starts_with("held by karpenter-0_x; Kerf in this namespace waits"),
            "{same:?}"
        );
        let other = results(&[live], Some("kerf"));
        assert_eq!(other[0].0, Level::Problem);
        assert!(other[0].1.contains("both would act"), "{other:?}");
    }
}
