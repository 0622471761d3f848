//! Would two controllers act at the same time?

use super::facts::{Facts, title};
use super::finding::{Finding, Level};
use super::settings;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;

const CHECK: &str = "lease";

/// How long a lease without a duration counts as held.
const DURATION_DEFAULT: SignedDuration = SignedDuration::from_secs(15);

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let target = facts.target_namespace();
    let all = settings::of_controllers(facts);
    let own = settings::of_replaced(facts).lease;
    let named = |lease: &Lease| {
        let name = lease.metadata.name.as_ref();
        all.iter().any(|settings| Some(&settings.lease) == name)
    };
    let held: Vec<(&Lease, &str)> = facts
        .leases
        .iter()
        .filter(|lease| named(lease))
        .filter_map(|lease| Some((lease, holder(lease, facts.now)?)))
        .collect();
    let mut findings: Vec<Finding> = held
        .iter()
        .map(|(lease, holder)| {
            let namespace = lease.metadata.namespace.as_deref().unwrap_or("default");
            let object = title("Lease", Some(namespace), lease.metadata.name.as_deref());
            let (level, message) = if namespace != target {
                let message = format!(
                    "held by {holder}; Kerf in namespace {target} does not see this lease, and both would act: stop that controller first, or install Kerf in namespace {namespace}"
                );
                (Level::Problem, message)
            } else if lease.metadata.name.as_deref() != Some(own.as_str()) {
                let message = format!(
                    "held by {holder}; Kerf uses the lease {own}, and both would act: stop that controller first"
                );
                (Level::Problem, message)
            } else {
                let message = format!("held by {holder}; Kerf in this namespace waits until it is free, and takes over");
                (Level::Ok, message)
            };
            Finding::new(level, CHECK, message).on(object)
        })
        .collect();
    if held.is_empty() {
        let message = format!("no controller holds the lease {own}");
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
    use super::super::settings::LEASE_DEFAULT;
    use super::*;
    use serde_json::json;

    fn results(leases: &[(&str, &str, &str)], target: Option<&str>) -> Vec<(Level, String)> {
        results_with(LEASE_DEFAULT, &[], leases, target)
    }

    /// With leases of a name, and Deployments in `kube-system` that name theirs in the environment.
    fn results_with(
        name: &str,
        deployments: &[&str],
        leases: &[(&str, &str, &str)],
        target: Option<&str>,
    ) -> Vec<(Level, String)> {
        let now: Timestamp = "2026-01-01T00:00:10Z".parse().expect("a time");
        let mut facts = Facts::new(now, target.map(str::to_owned));
        let lease = |(namespace, holder, renewed): &(&str, &str, &str)| {
            let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed});
            serde_json::from_value(json!({"metadata": {"name": name, "namespace": namespace}, "spec": spec}))
        };
        let deployment = |lease: &&str| {
            let env = json!([{"name": "LEADER_ELECTION_NAME", "value": lease}]);
            serde_json::from_value(json!({
                "metadata": {"name": "karpenter", "namespace": "kube-system"},
                "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "controller", "env": env}]}}},
            }))
        };
        let all = deployments.iter().map(deployment).collect::<Result<_, _>>();
        facts.deployments = all.expect("Deployments");
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

    #[test]
    fn the_lease_is_the_one_the_deployment_names() {
        let live = ("kube-system", "karpenter-0_x", "2026-01-01T00:00:00.000000Z");
        let own = results_with("other", &["other"], &[live], None);
        assert_eq!(own[0].0, Level::Ok);
        assert!(own[0].1.contains("takes over"), "{own:?}");
        let elsewhere = results_with("other", &["other"], &[live], Some("kerf"));
        assert_eq!(elsewhere[0].0, Level::Problem, "{elsewhere:?}");
        // Somebody else's lease, and that of a second controller beside the one that Kerf replaces.
        let foreign = results_with(LEASE_DEFAULT, &["other"], &[live], None);
        assert_eq!(foreign[0].1, "no controller holds the lease other");
        let second = results_with("other", &["own", "other"], &[live], None);
        assert_eq!(second[0].0, Level::Problem, "{second:?}");
        assert!(second[0].1.contains("Kerf uses the lease own"), "{second:?}");
    }
}
