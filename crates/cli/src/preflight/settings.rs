//! The settings of controller Deployments that other checks depend on.

use super::facts::{Facts, containers};
use super::options::literals;
use crate::controller;
use k8s_openapi::api::apps::v1::Deployment;
use kerf_api::Provider;
use kerf_runtime::options::{FeatureGates, Values};

/// Name of the leader election lease where nothing else is configured.
pub(super) const LEASE_DEFAULT: &str = "karpenter-leader-election";

/// Settings of one controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Settings {
    /// The feature gate CapacityBuffer.
    pub(super) capacity_buffer: bool,
    /// Name of the leader election lease.
    pub(super) lease: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            capacity_buffer: false,
            lease: LEASE_DEFAULT.to_owned(),
        }
    }
}

/// Settings of each Deployment that runs a controller, or the defaults if none is known.
pub(super) fn of_controllers(facts: &Facts) -> Vec<Settings> {
    let provider = facts.provider();
    let all = facts.deployments.iter();
    let mut found: Vec<Settings> = all.map(|deployment| of_deployment(deployment, provider)).collect();
    if found.is_empty() {
        found.push(Settings::default());
    }
    found
}

/// Settings of the Deployment that Kerf replaces.
pub(super) fn of_replaced(facts: &Facts) -> Settings {
    of_controllers(facts).into_iter().next().unwrap_or_default()
}

fn of_deployment(deployment: &Deployment, provider: Provider) -> Settings {
    let containers = containers(deployment);
    let named = containers.iter().find(|container| container.name == "controller");
    let Some(container) = named.or(containers.first()) else {
        return Settings::default();
    };
    let variables = literals(container);
    let flags = container.args.clone().unwrap_or_default();
    let values = controller::option_values(provider, flags, |name| variables.get(name).cloned());
    values.map_or_else(Settings::default, |values| of_values(&values))
}

/// A value that the controller would refuse counts as not set; the check of options reports it.
fn of_values(values: &Values) -> Settings {
    let gates: FeatureGates = values.string("feature-gates").parse().unwrap_or_default();
    let lease = match values.string("leader-election-name") {
        "" => LEASE_DEFAULT,
        name => name,
    };
    Settings {
        capacity_buffer: gates.capacity_buffer,
        lease: lease.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use serde_json::json;

    fn settings(container: &serde_json::Value) -> Settings {
        let mut facts = Facts::new(Timestamp::UNIX_EPOCH, None);
        let object = json!({
            "metadata": {"name": "karpenter", "namespace": "kube-system"},
            "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "proxy"}, container]}}},
        });
        facts.deployments = vec![serde_json::from_value(object).expect("a Deployment")];
        of_replaced(&facts)
    }

    #[test]
    fn variables_and_flags_of_the_controller_count() {
        assert_eq!(
            of_replaced(&Facts::new(Timestamp::UNIX_EPOCH, None)),
            Settings::default()
        );
        assert_eq!(settings(&json!({"name": "controller"})), Settings::default());
        let set = settings(&json!({"name": "controller", "env": [
            {"name": "FEATURE_GATES", "value": "NodeRepair=true,CapacityBuffer=true"},
            {"name": "LEADER_ELECTION_NAME", "value": "other"},
        ]}));
        let wanted = Settings {
            capacity_buffer: true,
            lease: "other".to_owned(),
        };
        assert_eq!(set, wanted);
        let flags = json!(["--leader-election-name=other", "--feature-gates=CapacityBuffer=true"]);
        assert_eq!(settings(&json!({"name": "controller", "args": flags})), wanted);
        let wrong = json!([{"name": "FEATURE_GATES", "value": "CapacityBuffer"}]);
        assert_eq!(
            settings(&json!({"name": "controller", "env": wrong})),
            Settings::default()
        );
    }
}
