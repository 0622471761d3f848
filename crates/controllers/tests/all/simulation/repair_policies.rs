//! NodeRepairPolicies: which conditions are unhealthy, and what is done about them.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kerf_api::{Conditioned, NodeClaim, NodePool, NodeRepairPolicy};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ClusterResourceScope;
use kube::{Api, Client, Resource};
use serde_json::{Value, json};

use crate::simulation::harness::{Simulation, create, list, name};
use crate::simulation::repair::{set_condition, with_nodes};

/// Creates a policy about the condition `DiskHealthy`; `spec` is merged over its spec.
async fn policy(simulation: &Simulation, name: &str, spec: Value) {
    let mut full = json!({"unhealthyConditions": [{"type": "DiskHealthy", "status": "False", "toleration": "5m"}]});
    for (key, value) in spec.as_object().into_iter().flatten() {
        full[key] = value.clone();
    }
    create::<NodeRepairPolicy>(&simulation.client(), json!({"metadata": {"name": name}, "spec": full})).await;
}

async fn the_policy(simulation: &Simulation) -> NodeRepairPolicy {
    list::<NodeRepairPolicy>(&simulation.client()).await.remove(0)
}

/// Status, reason and message of a policy's condition.
fn shown(policy: &NodeRepairPolicy, type_: &str) -> String {
    let condition = policy.condition(type_);
    condition.map_or_else(String::new, |c| format!("{} {} {}", c.status, c.reason(), c.message()))
}

/// Sets `DiskHealthy` to False on some nodes.
async fn spoil(simulation: &Simulation, nodes: &[Node]) {
    for node in nodes {
        set_condition(simulation, &name(node), "DiskHealthy", "False").await;
    }
}

/// Whether none of these nodes is gone or going.
async fn all_stay(simulation: &Simulation, nodes: &[Node]) -> bool {
    let going = |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_some();
    for node in nodes {
        if simulation.current_node(node).await.is_none() {
            return false;
        }
    }
    !simulation.claims().await.iter().any(going)
}

/// The API of a kind for objects its type here cannot hold.
fn raw<K: Resource<DynamicType = (), Scope = ClusterResourceScope>>(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<K>(&()))
}

async fn patch_raw(api: &Api<DynamicObject>, name: &str, patch: Value) {
    let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.expect("admitted");
}

/// Has the definition allow anything, as another version's may.
async fn loosen(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name_of = "noderepairpolicies.kerf.sh";
    let mut definition = definitions.get(name_of).await.expect("there");
    let anything = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    definition.spec.versions[0].schema = serde_json::from_value(anything).expect("a schema");
    let replaced = definitions.replace(name_of, &PostParams::default(), &definition).await;
    replaced.expect("admitted");
}

/// Creates a policy that cannot be decoded.
async fn unreadable(client: &Client, name: &str) {
    loosen(client).await;
    let policy = json!({
        "apiVersion": "kerf.sh/v1alpha1", "kind": "NodeRepairPolicy", "metadata": {"name": name},
        "spec": {"unhealthyConditions": "Ready=False"},
    });
    let policy = serde_json::from_value(policy).expect("an object");
    let created = raw::<NodeRepairPolicy>(client)
        .create(&PostParams::default(), &policy)
        .await;
    created.expect("admitted");
}

#[tokio::test(start_paused = true)]
async fn a_policy_names_conditions_of_its_own_and_needs_no_gate() {
    let simulation = with_nodes(5, false).await;
    policy(&simulation, "disks", json!({})).await;
    let sick = simulation.nodes().await.remove(0);
    set_condition(&simulation, &name(&sick), "DiskHealthy", "False").await;
    simulation
        .until("it is counted", 5, async |s| {
            let status = the_policy(s).await.status.unwrap_or_default();
            (status.nodes, status.unhealthy_nodes, status.overdue_nodes) == (Some(5), Some(1), Some(0))
        })
        .await;
    let found = the_policy(&simulation).await;
    assert!(found.condition_is_true("Ready") && found.condition_is_true("RepairAllowed"));
    tokio::time::sleep(Duration::from_secs(280)).await;
    assert!(simulation.current_node(&sick).await.is_some());
    simulation.until_node_gone(&sick, 120).await;
    simulation.until_running(5, 120).await;
    let metrics = simulation.context.metrics.encode();
    assert!(
        metrics.contains("karpenter_nodeclaims_unhealthy_disrupted_total{"),
        "{metrics}"
    );
    assert!(metrics.contains("condition=\"disk_healthy\""), "{metrics}");
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_reports_changes_nothing_else() {
    let simulation = with_nodes(1, true).await;
    let ready = json!([{"type": "Ready", "status": "False", "toleration": "1m"}]);
    policy(
        &simulation,
        "tell",
        json!({"action": "Report", "unhealthyConditions": ready, "maxUnhealthy": "0"}),
    )
    .await;
    let node = simulation.nodes().await.remove(0);
    simulation.set_kubelet(&node, Some("not-ready")).await;
    simulation
        .until("it is told of", 90, async |s| {
            !s.events("NodeUnhealthy").await.is_empty()
        })
        .await;
    let told = simulation
        .events("NodeUnhealthy")
        .await
        .remove(0)
        .message
        .unwrap_or_default();
    assert_eq!(
        told,
        "Condition Ready is False for longer than 60s (NodeRepairPolicy=tell)"
    );
    // The provider would have replaced it after ten minutes; the policy took its rule over.
    simulation.node_stays(&node, 1800).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_gentle_policy_asks_budgets_and_the_node() {
    let simulation = with_nodes(3, false).await;
    let closed = json!({"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}});
    simulation.patch::<NodePool>("web", closed).await;
    policy(
        &simulation,
        "gentle",
        json!({"action": "Drain", "maxUnhealthy": "100%"}),
    )
    .await;
    let nodes = simulation.nodes().await;
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    simulation.patch::<Node>(&name(&nodes[2]), protected).await;
    for node in &nodes {
        set_condition(&simulation, &name(node), "DiskHealthy", "False").await;
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    let blocked: Vec<String> = simulation
        .events("NodeRepairBlocked")
        .await
        .into_iter()
        .filter_map(|event| event.message)
        .collect();
    let budget = "disruption budgets of NodePool \"web\" allow no more nodes to go (NodeRepairPolicy=gentle)";
    assert!(blocked.iter().any(|message| message == budget), "{blocked:?}");
    let annotation =
        "the node carries karpenter.sh/do-not-disrupt, which keeps it from being drained (NodeRepairPolicy=gentle)";
    assert!(blocked.iter().any(|message| message == annotation), "{blocked:?}");
    for node in &nodes {
        assert!(simulation.current_node(node).await.is_some());
    }
    let one = json!({"spec": {"limits": {"nodes": "9"}, "disruption": {"budgets": [{"nodes": "1"}]}}});
    simulation.patch::<NodePool>("web", one).await;
    let end = tokio::time::Instant::now() + Duration::from_secs(900);
    while simulation.current_node(&nodes[0]).await.is_some() || simulation.current_node(&nodes[1]).await.is_some() {
        let claims = simulation.claims().await;
        let going = |claim: &&NodeClaim| claim.metadata.deletion_timestamp.is_some();
        assert!(claims.iter().filter(going).count() <= 1, "one at a time");
        // No deadline: the drain is gentle.
        let hurried = |claim: &NodeClaim| {
            let annotations = claim.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key("karpenter.sh/nodeclaim-termination-timestamp"))
        };
        assert!(!claims.iter().any(hurried));
        assert!(tokio::time::Instant::now() < end, "{}", simulation.picture().await);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(simulation.current_node(&nodes[2]).await.is_some());
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_gentle_policy_asks_the_claim_too() {
    let simulation = with_nodes(1, false).await;
    policy(&simulation, "gentle", json!({"action": "Drain"})).await;
    let (nodes, claim) = (simulation.nodes().await, simulation.claims().await.remove(0));
    let protect = |value: Value| json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}});
    simulation
        .patch::<NodeClaim>(&name(&claim), protect(json!("true")))
        .await;
    spoil(&simulation, &nodes).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(all_stay(&simulation, &nodes).await);
    let told = "its NodeClaim carries karpenter.sh/do-not-disrupt, which keeps it from being drained (NodeRepairPolicy=gentle)";
    assert_eq!(simulation.messages("NodeRepairBlocked").await, [told]);
    simulation.patch::<NodeClaim>(&name(&claim), protect(Value::Null)).await;
    simulation.until_node_gone(&nodes[0], 120).await;
    let messages = simulation.messages("NodeRepairStarted").await;
    assert!(
        messages.len() == 2
            && messages
                .iter()
                .all(|message| message.ends_with("(NodeRepairPolicy=gentle): the node is drained")),
        "{messages:?}"
    );
    simulation.stop().await;
}

// DIS-086
#[tokio::test(start_paused = true)]
async fn a_gentle_policy_takes_no_node_of_a_pool_that_is_missing() {
    let simulation = with_nodes(3, false).await;
    let gentle = json!({"action": "Drain", "maxUnhealthy": "100%"});
    policy(&simulation, "gentle", gentle).await;
    simulation.delete_pool_only("web").await;
    let nodes = simulation.nodes().await;
    spoil(&simulation, &nodes).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(all_stay(&simulation, &nodes).await);
    let mut told = simulation.messages("NodeRepairBlocked").await;
    told.sort();
    let text = |claim: &NodeClaim| {
        format!(
            "NodePool \"web\" is missing, and without its disruption budgets no node of it may go; create it, or delete NodeClaim {:?} \
             (NodeRepairPolicy=gentle)",
            name(claim)
        )
    };
    let mut expected: Vec<String> = simulation.claims().await.iter().map(text).collect();
    expected.sort();
    assert_eq!(told, expected);
    // A pool of that name is a pool with budgets.
    simulation.pool("web", json!({"limits": {"nodes": "3"}})).await;
    simulation
        .until("one goes", 120, async |s| !all_stay(s, &nodes).await)
        .await;
    simulation.stop().await;
}

// DIS-086
#[tokio::test(start_paused = true)]
async fn a_gentle_policy_takes_no_node_of_a_pool_nobody_can_read() {
    let simulation = with_nodes(2, false).await;
    let gentle = json!({"action": "Drain", "maxUnhealthy": "100%"});
    policy(&simulation, "gentle", gentle).await;
    let nodes = simulation.nodes().await;
    let sandbox = simulation.crash().await;
    let pools = raw::<NodePool>(&sandbox.client());
    let consolidate_after = |value: &str| json!({"spec": {"disruption": {"consolidateAfter": value}}});
    patch_raw(&pools, "web", consolidate_after("99999999999999h")).await;
    let simulation = Simulation::join(sandbox, |_| {});
    spoil(&simulation, &nodes).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(all_stay(&simulation, &nodes).await);
    let told = "NodePool \"web\" cannot be read, and nobody knows its disruption budgets; correct it (NodeRepairPolicy=gentle)";
    assert_eq!(simulation.messages("NodeRepairBlocked").await, [told; 2]);
    patch_raw(&pools, "web", consolidate_after("Never")).await;
    simulation
        .until("one goes", 120, async |s| !all_stay(s, &nodes).await)
        .await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_stops_when_too_many_nodes_are_unhealthy() {
    let simulation = with_nodes(4, false).await;
    policy(&simulation, "disks", json!({"maxUnhealthy": "25%"})).await;
    let nodes = simulation.nodes().await;
    for node in &nodes[..2] {
        set_condition(&simulation, &name(node), "DiskHealthy", "False").await;
    }
    tokio::time::sleep(Duration::from_secs(900)).await;
    for node in &nodes {
        assert!(simulation.current_node(node).await.is_some());
    }
    let found = the_policy(&simulation).await;
    let why = "False TooManyUnhealthyNodes 2 of 4 nodes are unhealthy, at most 1 may be";
    assert_eq!(shown(&found, "RepairAllowed"), why);
    let status = found.status.clone().unwrap_or_default();
    assert_eq!((status.unhealthy_nodes, status.overdue_nodes), (Some(2), Some(2)));
    set_condition(&simulation, &name(&nodes[0]), "DiskHealthy", "True").await;
    simulation.until_node_gone(&nodes[1], 600).await;
    assert!(simulation.current_node(&nodes[0]).await.is_some());
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_waits_for_its_window() {
    let simulation = with_nodes(1, false).await;
    // Two hours from now, for a quarter of an hour.
    let opens = simulation.context.now().as_second() / 60 * 60 + 7200;
    let (hour, minute) = (opens / 3600 % 24, opens / 60 % 60);
    let window = json!([{"schedule": format!("{minute} {hour} * * *"), "duration": "15m"}]);
    policy(&simulation, "nightly", json!({"maintenanceWindows": window})).await;
    let node = simulation.nodes().await.remove(0);
    set_condition(&simulation, &name(&node), "DiskHealthy", "False").await;
    tokio::time::sleep(Duration::from_secs(7000)).await;
    assert!(simulation.current_node(&node).await.is_some());
    let blocked = shown(&the_policy(&simulation).await, "RepairAllowed");
    assert!(
        blocked.starts_with("False OutsideMaintenanceWindow the next maintenance window opens at "),
        "{blocked}"
    );
    simulation.until_node_gone(&node, 400).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_policy_says_so_and_does_nothing() {
    let simulation = with_nodes(2, true).await;
    let spec = json!({
        "unhealthyConditions": [{"type": "Ready", "status": "False", "toleration": "1m"}],
        "maintenanceWindows": [{"schedule": "61 * * * *", "duration": "1h"}],
        "maxUnhealthy": "100%",
    });
    policy(&simulation, "broken", spec).await;
    simulation
        .until("it is called invalid", 10, async |s| {
            shown(&the_policy(s).await, "ValidationSucceeded").starts_with(
                "False NodeRepairPolicyValidationFailed spec.maintenanceWindows[0]: schedule \"61 * * * *\"",
            )
        })
        .await;
    assert!(!the_policy(&simulation).await.condition_is_true("Ready"));
    // Nor does the provider's rule apply that it was to replace.
    let nodes = simulation.nodes().await;
    simulation
        .sandbox
        .set_kubelet(&name(&nodes[0]), Some("not-ready"))
        .await
        .expect("set");
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert!(simulation.current_node(&nodes[0]).await.is_some());
    // Mended, it is followed.
    let mended = json!({"spec": {"maintenanceWindows": null}});
    simulation.patch::<NodeRepairPolicy>("broken", mended).await;
    simulation.until_node_gone(&nodes[0], 60).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_nobody_can_read_from_the_start_stops_no_other() {
    let sandbox = with_nodes(2, false).await.crash().await;
    // Lists begin with it.
    unreadable(&sandbox.client(), "a-broken").await;
    let simulation = Simulation::join(sandbox, |_| {});
    policy(&simulation, "disks", json!({})).await;
    let policies: Api<NodeRepairPolicy> = Api::all(simulation.client());
    simulation
        .until("the other has a status", 10, async |_| {
            policies.get("disks").await.expect("there").condition_is_true("Ready")
        })
        .await;
    simulation
        .until("it is told", 10, async |s| {
            let told = s.events("InvalidObject").await;
            told.iter()
                .any(|event| event.involved_object.name.as_deref() == Some("a-broken"))
        })
        .await;
    let nodes = simulation.nodes().await;
    spoil(&simulation, &nodes[..1]).await;
    simulation.until_node_gone(&nodes[0], 420).await;
    simulation.stop().await;
}

/// A node the provider calls unhealthy, kept by a policy that could never be decoded.
async fn held_by_an_unread_policy() -> (Simulation, Vec<Node>) {
    let simulation = with_nodes(1, true).await;
    unreadable(&simulation.client(), "broken").await;
    let nodes = simulation.nodes().await;
    let stopped = simulation
        .sandbox
        .set_kubelet(&name(&nodes[0]), Some("not-ready"))
        .await;
    stopped.expect("set");
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert!(all_stay(&simulation, &nodes).await);
    (simulation, nodes)
}

// It may be meant to take their place.
#[tokio::test(start_paused = true)]
async fn a_policy_nobody_ever_read_holds_the_providers_rules() {
    let (simulation, nodes) = held_by_an_unread_policy().await;
    let told = "a policy that cannot be read may take the place of the provider's rules; correct or delete it \
                (NodeRepairPolicy=broken)";
    assert_eq!(simulation.messages("NodeRepairBlocked").await, [told]);
    // Nor after a restart.
    let sandbox = simulation.crash().await;
    let simulation = Simulation::join(sandbox, |options| options.feature_gates.node_repair = true);
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert!(all_stay(&simulation, &nodes).await);
    let disks = json!([{"type": "DiskHealthy", "status": "False", "toleration": "5m"}]);
    let corrected = json!({"spec": {"unhealthyConditions": disks}});
    patch_raw(&raw::<NodeRepairPolicy>(&simulation.client()), "broken", corrected).await;
    simulation.until_node_gone(&nodes[0], 60).await;
    simulation.stop().await;
}

// It has nothing to say when there is no such kind any more.
#[tokio::test(start_paused = true)]
async fn the_provider_has_its_say_again_when_the_kind_is_gone() {
    let (simulation, nodes) = held_by_an_unread_policy().await;
    let crds: Api<CustomResourceDefinition> = Api::all(simulation.client());
    let deleted = crds
        .delete("noderepairpolicies.kerf.sh", &DeleteParams::default())
        .await;
    deleted.expect("deleted");
    simulation.until_node_gone(&nodes[0], 60).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_becomes_unreadable_is_followed_as_it_was() {
    let simulation = with_nodes(2, true).await;
    policy(&simulation, "disks", json!({})).await;
    simulation
        .until("it is read", 10, async |s| {
            the_policy(s).await.condition_is_true("Ready")
        })
        .await;
    loosen(&simulation.client()).await;
    let mangled = json!({"spec": {"unhealthyConditions": "DiskHealthy=False"}});
    patch_raw(&raw::<NodeRepairPolicy>(&simulation.client()), "disks", mangled).await;
    let nodes = simulation.nodes().await;
    spoil(&simulation, &nodes[..1]).await;
    simulation.until_node_gone(&nodes[0], 420).await;
    // What it is not about is the provider's.
    let stopped = simulation
        .sandbox
        .set_kubelet(&name(&nodes[1]), Some("not-ready"))
        .await;
    stopped.expect("set");
    simulation.until_node_gone(&nodes[1], 720).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_kind_all_is_as_upstream_has_it() {
    let simulation = with_nodes(1, true).await;
    let sandbox = simulation.crash().await;
    let crds: Api<CustomResourceDefinition> = Api::all(sandbox.client());
    let name_of = "noderepairpolicies.kerf.sh";
    crds.delete(name_of, &DeleteParams::default()).await.expect("deleted");
    let simulation = Simulation::join(sandbox, |options| options.feature_gates.node_repair = true);
    let node = simulation.nodes().await.remove(0);
    simulation.set_kubelet(&node, Some("not-ready")).await;
    simulation.until_node_gone(&node, 900).await;
    // Once the kind is there, it is followed without a restart.
    let crd = kerf_api::crds(kerf_api::Provider::Kwok);
    let crd = crd.into_iter().find(|crd| crd.name == name_of).expect("the definition");
    create::<CustomResourceDefinition>(&simulation.client(), crd.value).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    policy(&simulation, "disks", json!({})).await;
    simulation
        .until("it has a status", 70, async |s| {
            the_policy(s).await.condition_is_true("Ready")
        })
        .await;
    simulation.stop().await;
}
