//! Registration of nodes: hooks of the provider, standalone claims, and objects that are not ours.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use kerf_api::{Conditioned, NodeClaim, NodePool};
use kerf_cloud::{CloudError, HookOutcome, RegistrationHook};
use kerf_runtime::metrics::catalogue::NODES_CREATED;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::simulation::harness::{Simulation, create, list, name};
use crate::simulation::logs::Logs;
use crate::simulation::scripted_cloud::{Call, scripted, scripted_with};

fn small() -> Value {
    json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-4x-amd64-linux"]}])
}

/// Creates a claim without a pool; `more` is merged over the object.
async fn standalone(simulation: &Simulation, name: &str, more: Value) {
    let mut claim = json!({"metadata": {"name": name}, "spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": small(),
        "expireAfter": "Never",
    }});
    for part in ["metadata", "spec"] {
        for (key, value) in more[part].as_object().into_iter().flatten() {
            claim[part][key] = value.clone();
        }
    }
    create::<NodeClaim>(&simulation.client(), claim).await;
}

async fn claim(simulation: &Simulation, name: &str) -> Option<NodeClaim> {
    let claims = simulation.claims().await;
    claims
        .into_iter()
        .find(|claim| claim.metadata.name.as_deref() == Some(name))
}

async fn holds(simulation: &Simulation, name: &str, condition: &str) -> bool {
    claim(simulation, name)
        .await
        .is_some_and(|claim| claim.condition_is_true(condition))
}

/// Status, reason and message of a condition.
fn shown(claim: &NodeClaim, type_: &str) -> String {
    let condition = claim.condition(type_);
    condition.map_or_else(String::new, |c| format!("{} {} {}", c.status, c.reason(), c.message()))
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default();
    taints
        .iter()
        .map(|taint| format!("{}:{}", taint.key, taint.effect))
        .collect()
}

const UNREGISTERED: &str = "karpenter.sh/unregistered:NoExecute";

/// A hook whose answers a test gives.
struct Scripted {
    name: &'static str,
    answer: Mutex<Result<HookOutcome, String>>,
    asked: AtomicUsize,
    last: Mutex<Vec<Instant>>,
}

impl Scripted {
    fn new(name: &'static str, answer: Result<HookOutcome, String>) -> Arc<Self> {
        Arc::new(Self {
            name,
            answer: Mutex::new(answer),
            asked: AtomicUsize::new(0),
            last: Mutex::default(),
        })
    }

    fn say(&self, answer: Result<HookOutcome, String>) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl RegistrationHook for Scripted {
    fn name(&self) -> &str {
        self.name
    }

    async fn register(&self, _claim: &NodeClaim) -> Result<HookOutcome, CloudError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Instant::now());
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        answer.map_err(CloudError::other)
    }
}

fn pending(seconds: u64) -> Result<HookOutcome, String> {
    Ok(HookOutcome::Pending(Some(Duration::from_secs(seconds))))
}

// LIF-034, LIF-035, LIF-036, LIF-037
#[tokio::test(start_paused = true)]
async fn a_node_registers_when_all_hooks_are_ready() {
    let logs = Logs::listen();
    let (network, storage) = (
        Scripted::new("network", pending(20)),
        Scripted::new("storage", pending(7)),
    );
    let (simulation, _) = scripted_with(|_| {}, vec![Arc::clone(&network) as _, Arc::clone(&storage) as _]).await;
    standalone(&simulation, "alone", json!({"metadata": {"labels": {"team": "a"}}})).await;
    let waits = async |s: &Simulation| {
        let claim = claim(s, "alone").await;
        claim.is_some_and(|c| shown(&c, "Registered") == "Unknown RegistrationHookPending network, storage")
    };
    simulation.until("it waits for both", 30, waits).await;
    // OPS-261
    let told = logs.with("DEBUG awaiting registration hooks hooks=network, storage");
    assert!(!told.is_empty());
    // The Node is the claim's already, but nothing may run there.
    let node = simulation.nodes().await.remove(0);
    let labels = node.metadata.labels.clone().unwrap_or_default();
    assert_eq!(labels.get("team").map(String::as_str), Some("a"));
    assert!(!labels.contains_key("karpenter.sh/registered"));
    assert_eq!(
        node.metadata.finalizers,
        Some(vec!["karpenter.sh/termination".to_owned()])
    );
    assert!(taints(&node).contains(&UNREGISTERED.to_owned()), "{:?}", taints(&node));
    // LIF-019: asked again after the shortest interval, not at the end of the time to register.
    let before = storage.asked();
    tokio::time::sleep(Duration::from_secs(70)).await;
    let asked = storage.asked() - before;
    assert!((10..=12).contains(&asked), "{asked}");
    network.say(Ok(HookOutcome::Ready {
        labels: BTreeMap::from([("network.example/subnet".to_owned(), "s-1".to_owned())]),
        annotations: BTreeMap::new(),
    }));
    let waits = async |s: &Simulation| {
        let claim = claim(s, "alone").await;
        claim.is_some_and(|c| shown(&c, "Registered") == "Unknown RegistrationHookPending storage")
    };
    simulation.until("it waits for the other", 10, waits).await;
    assert_eq!(
        simulation
            .context
            .metrics
            .counter(&NODES_CREATED)
            .get(&["", &labels["topology.kubernetes.io/zone"]]),
        0.0
    );
    storage.say(Ok(HookOutcome::READY));
    simulation
        .until("it is registered", 10, async |s| holds(s, "alone", "Registered").await)
        .await;
    let node = simulation.nodes().await.remove(0);
    let labels = node.metadata.labels.clone().unwrap_or_default();
    assert_eq!(labels.get("karpenter.sh/registered").map(String::as_str), Some("true"));
    assert!(!taints(&node).contains(&UNREGISTERED.to_owned()));
    // What a hook adds reaches both.
    let stored = claim(&simulation, "alone")
        .await
        .and_then(|claim| claim.metadata.labels)
        .unwrap_or_default();
    for labels in [&labels, &stored] {
        assert_eq!(labels.get("network.example/subnet").map(String::as_str), Some("s-1"));
    }
    simulation.stop().await;
}

// LIF-035
#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_is_asked_again_at_a_growing_pace() {
    let hook = Scripted::new("network", Err("no route".to_owned()));
    let (simulation, _) = scripted_with(|_| {}, vec![Arc::clone(&hook) as _]).await;
    standalone(&simulation, "alone", json!({})).await;
    simulation.until("it is asked", 30, async |_| hook.asked() > 0).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    // 1, 2, 4, 8, 16, 32 and 60 seconds apart, and once for every change of the Node.
    assert!((5..=12).contains(&hook.asked()), "{}", hook.asked());
    let claim = claim(&simulation, "alone").await.expect("there");
    assert_eq!(shown(&claim, "Registered"), "Unknown RegistrationHookPending network");
    hook.say(Ok(HookOutcome::READY));
    simulation
        .until("it is registered", 61, async |s| holds(s, "alone", "Registered").await)
        .await;
    simulation.stop().await;
}

// LIF-027, API-102
#[tokio::test(start_paused = true)]
async fn what_a_standalone_claim_says_reaches_its_node() {
    let simulation = Simulation::start().await;
    let more = json!({
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": {
            "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "setup", "effect": "NoExecute"}],
            "resources": {"requests": {"cpu": "3", "memory": "1Gi"}},
        },
    });
    standalone(&simulation, "alone", more).await;
    simulation
        .until("it is registered", 60, async |s| holds(s, "alone", "Registered").await)
        .await;
    let node = simulation.nodes().await.remove(0);
    let (labels, annotations) = (node.metadata.labels.clone(), node.metadata.annotations.clone());
    assert_eq!(labels.unwrap_or_default().get("team").map(String::as_str), Some("a"));
    assert_eq!(
        annotations.unwrap_or_default().get("note").map(String::as_str),
        Some("b")
    );
    let taints = taints(&node);
    for taint in ["team:NoSchedule", "setup:NoExecute"] {
        assert!(taints.contains(&taint.to_owned()), "{taints:?}");
    }
    // As large as was asked for.
    let claim = claim(&simulation, "alone").await.expect("there");
    let status = claim.status.unwrap_or_default();
    assert!(
        status.allocatable["cpu"].milli_floor() >= 3000,
        "{:?}",
        status.allocatable
    );
    simulation.stop().await;
}

// LIF-005, LIF-020, API-102, OPS-064
#[tokio::test(start_paused = true)]
async fn claims_of_other_providers_are_left_alone() {
    let simulation = Simulation::start().await;
    let foreign =
        json!({"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}});
    standalone(&simulation, "foreign", foreign).await;
    tokio::time::sleep(Duration::from_secs(20 * 60)).await;
    let claim = claim(&simulation, "foreign").await.expect("there");
    assert_eq!((claim.metadata.finalizers, claim.status), (None, None));
    assert!(simulation.nodes().await.is_empty());
    simulation.delete::<NodeClaim>("foreign").await;
    assert!(simulation.claims().await.is_empty());
    simulation.stop().await;
}

// LIF-020
#[tokio::test(start_paused = true)]
async fn a_claim_of_another_provider_that_goes_waits_for_that_provider() {
    let (simulation, script) = scripted().await;
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let foreign = json!({
        "metadata": {"finalizers": ["karpenter.sh/termination"]},
        "spec": {"nodeClassRef": class, "terminationGracePeriod": "1m"},
    });
    standalone(&simulation, "foreign", foreign).await;
    let api: Api<NodeClaim> = Api::all(simulation.client());
    let launched = Patch::Merge(json!({"status": {"providerID": "kwok://foreign"}}));
    api.patch_status("foreign", &PatchParams::default(), &launched)
        .await
        .expect("patched");
    simulation.delete::<NodeClaim>("foreign").await;
    let before = claim(&simulation, "foreign").await.expect("it waits");
    assert!(before.metadata.deletion_timestamp.is_some());
    tokio::time::sleep(Duration::from_secs(20 * 60)).await;
    assert_eq!(claim(&simulation, "foreign").await, Some(before));
    assert_eq!(script.count(Call::Delete), 0);
    simulation.stop().await;
}

// LIF-030, OPS-204
#[tokio::test(start_paused = true)]
async fn a_node_that_joins_without_its_taint_is_told_of_and_registered() {
    let logs = Logs::listen();
    let simulation = Simulation::start().await;
    simulation.slow_class("1h").await;
    let class = json!({"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "slow"}});
    standalone(&simulation, "bare", json!({"spec": class})).await;
    standalone(&simulation, "usual", json!({})).await;
    simulation
        .until("both are launched", 30, async |s| {
            holds(s, "bare", "Launched").await && holds(s, "usual", "Registered").await
        })
        .await;
    let status = claim(&simulation, "bare").await.and_then(|claim| claim.status);
    let id = status.and_then(|status| status.provider_id);
    let node = json!({"metadata": {"name": "bare-node"}, "spec": {"providerID": id}});
    create::<Node>(&simulation.client(), node).await;
    simulation
        .until("it is registered", 10, async |s| holds(s, "bare", "Registered").await)
        .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let text = "Missing karpenter.sh/unregistered taint which prevents registration related race conditions on Karpenter-managed nodes";
    let events = simulation.events("UnregisteredTaintMissing").await;
    let about = events.iter().map(|event| {
        let object = &event.involved_object;
        (
            object.kind.as_deref(),
            object.name.as_deref(),
            event.type_.as_deref(),
            event.message.as_deref(),
        )
    });
    assert_eq!(
        about.collect::<Vec<_>>(),
        [(Some("NodeClaim"), Some("bare"), Some("Warning"), Some(text))]
    );
    // OPS-261: once for each attempt; the Node's first changes may cross ours.
    let told = logs.with("node claim registration error");
    let is_right = |line: &String| {
        line.starts_with("ERROR node claim registration error taint=karpenter.sh/unregistered ")
            && line.contains(text)
            && line.ends_with(" NodeClaim=bare")
    };
    assert!(!told.is_empty() && told.iter().all(is_right), "{told:?}");
    simulation.stop().await;
}

// LIF-047
#[tokio::test(start_paused = true)]
async fn an_initialized_node_stays_so_whatever_becomes_of_it() {
    let simulation = Simulation::start().await;
    let startup = json!([{"key": "setup", "effect": "NoSchedule"}]);
    standalone(&simulation, "alone", json!({"spec": {"startupTaints": startup}})).await;
    simulation
        .until("it is registered", 60, async |s| holds(s, "alone", "Registered").await)
        .await;
    let node = name(&simulation.nodes().await[0]);
    simulation.patch::<Node>(&node, json!({"spec": {"taints": null}})).await;
    simulation
        .until("it is initialized", 60, async |s| {
            holds(s, "alone", "Initialized").await
        })
        .await;
    let condition = async |type_: &str| claim(&simulation, "alone").await?.condition(type_).cloned();
    let before = condition("Initialized").await;
    simulation
        .patch::<Node>(&node, json!({"spec": {"taints": startup}}))
        .await;
    simulation
        .sandbox
        .set_kubelet(&node, Some("not-ready"))
        .await
        .expect("set");
    tokio::time::sleep(Duration::from_secs(20 * 60)).await;
    assert_eq!(condition("Initialized").await, before);
    assert!(holds(&simulation, "alone", "Ready").await);
    let node = simulation.nodes().await.remove(0);
    for taint in ["setup:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"] {
        assert!(taints(&node).contains(&taint.to_owned()), "{:?}", taints(&node));
    }
    let labels = node.metadata.labels.unwrap_or_default();
    assert_eq!(labels.get("karpenter.sh/initialized").map(String::as_str), Some("true"));
    simulation.stop().await;
}

// LIF-038
#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_says_is_not_registered_is_registered_again() {
    let simulation = Simulation::start().await;
    standalone(&simulation, "alone", json!({})).await;
    simulation
        .until("it is initialized", 60, async |s| {
            holds(s, "alone", "Initialized").await
        })
        .await;
    let node = name(&simulation.nodes().await[0]);
    let changed = json!({"metadata": {"labels": {"karpenter.sh/registered": "false"}}});
    simulation.patch::<Node>(&node, changed).await;
    let registered = async |s: &Simulation| {
        let labels = s.nodes().await.remove(0).metadata.labels.unwrap_or_default();
        labels.get("karpenter.sh/registered").map(String::as_str) == Some("true")
    };
    simulation.until("it is registered", 10, registered).await;
    simulation.stop().await;
}

// LIF-028
#[tokio::test(start_paused = true)]
async fn a_claim_without_an_instance_takes_no_node_for_its_own() {
    let (simulation, script) = scripted().await;
    script.fail(Call::Create, || CloudError::other("not now"));
    let unnamed = json!({"metadata": {"name": "bare"}, "spec": {"taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]}});
    create::<Node>(&simulation.client(), unnamed).await;
    standalone(&simulation, "alone", json!({})).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let found = claim(&simulation, "alone").await.expect("there");
    assert_eq!(
        shown(&found, "Registered"),
        "Unknown NodeNotFound Node not registered with cluster"
    );
    let node = simulation.nodes().await.remove(0);
    assert_eq!(
        (node.metadata.owner_references.clone(), node.metadata.finalizers.clone()),
        (None, None)
    );
    // LIF-078: nor is anything ended that never was.
    simulation.delete::<NodeClaim>("alone").await;
    simulation.until_claims(0, 5).await;
    assert_eq!(script.count(Call::Delete), 0);
    assert!(simulation.nodes().await.remove(0).metadata.deletion_timestamp.is_none());
    simulation.stop().await;
}

// LIF-015
#[tokio::test(start_paused = true)]
async fn a_node_that_joins_wakes_its_claim() {
    let simulation = Simulation::start().await;
    simulation.slow_class("3m").await;
    let class = json!({"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "slow"}});
    standalone(&simulation, "late", json!({"spec": class})).await;
    let other = json!({"nodeClassRef": {"group": "karpenter.example.com", "kind": "OtherNodeClass", "name": "slow"}});
    standalone(&simulation, "unmanaged", json!({"spec": other})).await;
    simulation
        .until("the Node joins", 240, async |s| !s.nodes().await.is_empty())
        .await;
    // Nothing else would have looked for twelve more minutes.
    simulation
        .until("it is registered", 1, async |s| holds(s, "late", "Registered").await)
        .await;
    let unmanaged = claim(&simulation, "unmanaged").await.expect("nobody deletes it");
    assert_eq!((unmanaged.metadata.finalizers, unmanaged.status), (None, None));
    simulation.stop().await;
}

// LIF-016
#[tokio::test(start_paused = true)]
async fn a_failing_launch_is_tried_again_at_a_growing_pace() {
    let (simulation, script) = scripted().await;
    script.fail(Call::Create, || CloudError::other("not now"));
    standalone(&simulation, "stuck", json!({})).await;
    tokio::time::sleep(Duration::from_secs(290)).await;
    let times = script.times(Call::Create);
    let pauses: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).round()).collect();
    // The first attempts may be joined by one for the claim's own change.
    let tail: Vec<f64> = pauses.iter().copied().skip_while(|pause| *pause < 4.0).collect();
    assert!(tail.starts_with(&[4.0, 8.0, 16.0, 32.0, 60.0, 60.0]), "{pauses:?}");
    assert!(pauses.len() <= 12, "{pauses:?}");
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_claim_without_capacity_are_planned_again_within_seconds() {
    let (simulation, script) = scripted().await;
    script.fail(Call::Create, || CloudError::insufficient_capacity("all is taken"));
    simulation.pool("web", json!({})).await;
    simulation.deployment("web", 1, "1", json!({})).await;
    tokio::time::sleep(Duration::from_secs(25)).await;
    let times = script.times(Call::Create);
    assert!(times.len() > 5, "{times:?}");
    // Each pod triggers every ten seconds anyway.
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] < 6.0), "{times:?}");
    // AWS-255 and LIF-023 as docs/deviations.md has it: what fails again and again becomes rare, and never ends.
    tokio::time::sleep(Duration::from_secs(600)).await;
    let times = script.times(Call::Create);
    let pauses: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((30..60).contains(&times.len()), "{times:?}");
    assert!(pauses.iter().all(|pause| *pause < 45.0), "{pauses:?}");
    simulation.stop().await;
}

// LIF-062
#[tokio::test(start_paused = true)]
async fn a_launch_that_cannot_be_says_nothing_about_a_pools_nodes() {
    let refusals: [fn() -> CloudError; 2] = [
        || CloudError::insufficient_capacity("all is taken"),
        || CloudError::NodeClassNotReady("no subnet".into()),
    ];
    for refusal in refusals {
        let (simulation, script) = scripted().await;
        script.fail(Call::Create, refusal);
        simulation.pool("web", json!({})).await;
        simulation.deployment("web", 1, "1", json!({})).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(script.count(Call::Create) > 3);
        let pool = list::<NodePool>(&simulation.client()).await.remove(0);
        let health = pool.condition("NodeRegistrationHealthy");
        assert!(health.is_some_and(kerf_api::Condition::is_unknown), "{}", refusal());
        script.heal(Call::Create);
        simulation.until_running(1, 120).await;
        simulation.stop().await;
    }
}

// LIF-050
#[tokio::test(start_paused = true)]
async fn a_taint_nobody_declared_leads_to_another_node() {
    let simulation = Simulation::start().await;
    simulation
        .pool(
            "web",
            json!({"template": {"spec": {"startupTaints": [{"key": "setup", "effect": "NoSchedule"}]}}}),
        )
        .await;
    simulation.deployment("web", 1, "1", json!({})).await;
    simulation
        .until("a node is registered", 60, async |s| {
            s.claims()
                .await
                .first()
                .is_some_and(|claim| claim.condition_is_true("Registered"))
        })
        .await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(simulation.claims().await.len(), 1, "the declared one is waited for");
    let first = simulation.nodes().await.remove(0).metadata.name.unwrap_or_default();
    let surprise = json!({"spec": {"taints": [{"key": "surprise.example/agent", "effect": "NoSchedule"}]}});
    simulation.patch::<Node>(&first, surprise).await;
    simulation.until_claims(2, 60).await;
    simulation.stop().await;
}

// LIF-018
#[tokio::test(start_paused = true)]
async fn a_step_that_fails_does_not_stop_the_next() {
    let hook = Scripted::new("network", Err("no route".to_owned()));
    let (simulation, _) = scripted_with(|_| {}, vec![Arc::clone(&hook) as _]).await;
    standalone(&simulation, "alone", json!({})).await;
    tokio::time::sleep(Duration::from_secs(14 * 60)).await;
    assert!(
        holds(&simulation, "alone", "Launched").await,
        "what was done before is stored"
    );
    // Registration fails at every attempt; the time it may take is measured all the same.
    simulation.until_claims(0, 2 * 60).await;
    simulation.stop().await;
}

// LIF-017, LIF-018
#[tokio::test(start_paused = true)]
async fn the_finalizer_comes_first_and_status_after_metadata() {
    let sandbox = Simulation::start().await.crash().await;
    let (client, faults) = sandbox.client_with_faults("controller");
    let simulation = Simulation::join_as(sandbox, client, |_| {});
    standalone(&simulation, "alone", json!({})).await;
    simulation
        .until("it is launched", 30, async |s| holds(s, "alone", "Launched").await)
        .await;
    let trace = faults.trace();
    let patches: Vec<&str> = trace
        .iter()
        .filter_map(|call| call.strip_prefix("PATCH /apis/karpenter.sh/v1/nodeclaims/alone"))
        .map(|rest| rest.split('?').next().unwrap_or_default())
        .collect();
    // The finalizer, what the launch adds to the labels, then the conditions.
    let first = patches.iter().position(|rest| *rest == "/status").expect("a status");
    assert!(first >= 2, "{patches:?}");
    let launched = trace
        .iter()
        .position(|call| call.contains("/nodeclaims/alone/status"))
        .expect("a status");
    let guarded = trace
        .iter()
        .position(|call| call.contains("/nodeclaims/alone"))
        .expect("a finalizer");
    assert!(guarded < launched, "{trace:?}");
    simulation.stop().await;
}
