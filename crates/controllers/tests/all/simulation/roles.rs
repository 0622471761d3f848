//! A life under an API server that refuses whatever the controller's role does not allow.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use kerf_api::Provider;
use kerf_cli::controller_rules;
use kerf_runtime::Seed;
use kerf_runtime::client::{ApiLayers, PermissionRule, Retry};
use kerf_testkit::upstream_roles::UPSTREAM_ROLES;
use serde_json::json;

use crate::simulation::api_faults::{ApiFaults, CallFault};
use crate::simulation::harness::{Simulation, is_new};
use crate::simulation::logs::Logs;

/// Group, resource with its subresource, and verb.
type Permission = (String, String, String);

fn kerfs_own() -> BTreeSet<Permission> {
    let mut role = BTreeSet::new();
    for rule in controller_rules(Provider::Kwok, true, "lease") {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                role.extend(
                    rule.verbs
                        .iter()
                        .map(|verb| (group.clone(), resource.clone(), verb.clone())),
                );
            }
        }
    }
    role
}

fn upstreams() -> BTreeSet<Permission> {
    let mut role = BTreeSet::new();
    for (group, resources, verbs) in UPSTREAM_ROLES {
        for resource in *resources {
            let permission = |verb: &&str| ((*group).to_owned(), (*resource).to_owned(), (*verb).to_owned());
            role.extend(verbs.iter().map(permission));
        }
    }
    role
}

/// Launches, drift and the end of all under this role. Returns what was used and what was refused.
async fn live_under(role: BTreeSet<Permission>) -> [BTreeSet<Permission>; 2] {
    let begun = Simulation::start().await;
    let (faults, asked) = (ApiFaults::new(), Arc::<Mutex<[BTreeSet<Permission>; 2]>>::default());
    let noted = Arc::clone(&asked);
    faults.rule(move |request| {
        let Some(rule) = PermissionRule::of(request.method(), request.uri()) else {
            return CallFault::None;
        };
        let permission = (rule.group, rule.resource, rule.verb.to_owned());
        let is_allowed = role.contains(&permission);
        let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
        let [used, refused] = &mut *noted;
        match is_allowed {
            true => {
                used.insert(permission);
                CallFault::None
            }
            false => {
                refused.insert(permission);
                CallFault::Refused(StatusCode::FORBIDDEN)
            }
        }
    });
    let sandbox = begun.crash().await;
    let layers = ApiLayers::new().retry(Retry::new(Seed(7).rng()));
    let client = faults.layered_client(&sandbox, &layers);
    let simulation = Simulation::join_as(sandbox, client, |options| {
        let gates = &mut options.feature_gates;
        gates.node_repair = true;
        gates.node_overlay = true;
        gates.static_capacity = true;
        gates.capacity_buffer = true;
    });
    simulation.populate(2, json!({})).await;
    simulation.change_template("2").await;
    let renewed = async |s: &Simulation| {
        let claims = s.claims().await;
        claims.len() == 2 && claims.iter().all(is_new)
    };
    simulation.until("the nodes are renewed", 600, renewed).await;
    let disruption = json!({"spec": {"disruption": {"consolidateAfter": "10s"}}});
    simulation.patch::<kerf_api::NodePool>("web", disruption).await;
    simulation.until_running(2, 120).await;
    simulation.scale("web", 0).await;
    simulation.until_claims(0, 600).await;
    simulation.stop().await;
    let asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
    asked.clone()
}

/// The warnings about rules that are missing.
fn missing_rules(logs: &Logs) -> Vec<String> {
    let warnings = logs.with("WARN ").into_iter();
    warnings.filter(|line| line.contains("permission")).collect()
}

fn permission(group: &str, resource: &str, verb: &str) -> Permission {
    (group.to_owned(), resource.to_owned(), verb.to_owned())
}

// OPS-222 OPS-223 OPS-224 OPS-225 OPS-226 OPS-228 OPS-229
#[tokio::test(start_paused = true)]
async fn a_life_ends_well_under_kerfs_own_role() {
    let logs = Logs::listen();
    let [used, refused] = live_under(kerfs_own()).await;
    assert_eq!(refused, BTreeSet::new());
    assert_eq!(missing_rules(&logs), [""; 0]);
    for (group, resource, verb) in [
        ("karpenter.sh", "nodeclaims", "create"),
        ("karpenter.sh", "nodeclaims", "delete"),
        ("karpenter.sh", "nodeclaims/status", "patch"),
        ("", "nodes", "patch"),
        ("", "pods/eviction", "create"),
        ("", "events", "create"),
        ("kerf.sh", "noderepairpolicies", "list"),
    ] {
        assert!(used.contains(&permission(group, resource, verb)), "{verb} {resource}");
    }
}

// OPS-222 OPS-223 OPS-224 OPS-225 OPS-226 OPS-228 OPS-229
#[tokio::test(start_paused = true)]
async fn under_karpenters_own_role_only_node_repair_policies_are_missed() {
    let logs = Logs::listen();
    let [_, refused] = live_under(upstreams()).await;
    assert_eq!(
        refused,
        BTreeSet::from([permission("kerf.sh", "noderepairpolicies", "list")])
    );
    let rules = missing_rules(&logs);
    assert_eq!(rules.len(), 1, "{rules:?}");
    let rule = r#"apiGroups: ["kerf.sh"], resources: ["noderepairpolicies"], verbs: ["list"]"#;
    assert!(rules[0].contains(rule), "{rules:?}");
    assert_eq!(logs.with("NodeRepairPolicies may not be read").len(), 1);
    assert_eq!(logs.with("WARN ").len(), 1, "{:?}", logs.with("WARN "));
    assert_eq!(logs.with("ERROR"), [""; 0]);
}
