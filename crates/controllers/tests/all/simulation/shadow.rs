//! Shadow mode: Kerf observes a cluster that other controllers run, and writes nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kerf_controllers::{Manager, ManagerConfig, ManagerError, ShadowRecord};
use kerf_kwok::{KwokProvider, builtin_catalogue};
use kerf_model::intern::Interner;
use kerf_runtime::client::PermissionRule;
use kerf_runtime::{CancellationToken, Metrics, Options, Seed};
use kerf_sandbox::Sandbox;
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::simulation::api_faults::{ApiFaults, CallFault};
use crate::simulation::emptiness::apart;
use crate::simulation::harness::Simulation;

/// A process in shadow mode.
struct Shadow {
    file: PathBuf,
    /// The permissions that its requests need, and those of requests that write.
    used: Arc<Mutex<BTreeSet<PermissionRule>>>,
    metrics: Metrics,
    shutdown: CancellationToken,
    manager: JoinHandle<Result<(), ManagerError>>,
}

/// A manager that observes, and its metrics.
fn observing(sandbox: &Sandbox, client: Client, file: &Path) -> (Manager, Metrics) {
    let (interner, metrics) = (Arc::new(Interner::default()), Metrics::default());
    let catalogue = builtin_catalogue(&interner);
    let provider = Arc::new(KwokProvider::new(client.clone(), Arc::clone(&interner), catalogue));
    let manager = Manager::new(ManagerConfig {
        options: Options {
            observe: true,
            observe_file: Some(file.display().to_string()),
            ..Options::default()
        },
        seed: Seed(11),
        metrics: metrics.clone(),
        ..ManagerConfig::alone(client, provider, interner, sandbox.clock().clone())
    });
    (manager, metrics)
}

impl Shadow {
    fn start(sandbox: &Sandbox) -> Self {
        let file = std::env::temp_dir().join(format!("kerf-shadow-{}.jsonl", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let (faults, used) = (ApiFaults::new(), Arc::<Mutex<BTreeSet<PermissionRule>>>::default());
        let noted = Arc::clone(&used);
        faults.rule(move |request| {
            let rule = PermissionRule::of(request.method(), request.uri());
            noted.lock().unwrap_or_else(PoisonError::into_inner).extend(rule);
            CallFault::None
        });
        let (manager, metrics) = observing(sandbox, faults.client(sandbox), &file);
        let shutdown = CancellationToken::new();
        Self {
            file,
            used,
            metrics,
            manager: tokio::spawn(manager.run(shutdown.clone())),
            shutdown,
        }
    }

    fn records(&self) -> Vec<ShadowRecord> {
        let text = std::fs::read_to_string(&self.file).expect("a file");
        let record = |line: &str| serde_json::from_str(line).expect(line);
        text.lines().map(record).collect()
    }

    /// Ends it in good order, and returns the permissions that it used.
    async fn stop(self) -> BTreeSet<PermissionRule> {
        self.shutdown.cancel();
        self.manager.await.expect("no panic").expect("no error");
        let _ = std::fs::remove_file(&self.file);
        self.used.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The group, resource and verb of everything that the ClusterRole in the documentation allows.
fn documented_rules() -> BTreeSet<(String, String, String)> {
    let text = include_str!("../../../../../docs/shadow-mode.md");
    let (_, role) = text.split_once("```yaml\n").expect("a ClusterRole");
    let (role, _) = role.split_once("```").expect("its end");
    let role: Value = serde_saphyr::from_str(role).expect("YAML");
    let texts = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).expect("texts") };
    let mut granted = BTreeSet::new();
    for rule in role["rules"].as_array().expect("rules") {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let verbs = texts(&rule["verbs"]).into_iter();
                granted.extend(verbs.map(|verb| (group.clone(), resource.clone(), verb)));
            }
        }
    }
    granted
}

#[tokio::test(start_paused = true)]
async fn an_observer_decides_beside_other_controllers_and_writes_nothing() {
    let simulation = Simulation::start().await;
    let pool = json!({"disruption": {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized"}});
    simulation.pool("web", pool).await;
    let shadow = Shadow::start(&simulation.sandbox);
    tokio::time::sleep(Duration::from_secs(30)).await;

    // The other controllers launch three machines.
    simulation.deployment("web", 3, "1", apart("web")).await;
    simulation.until_running(3, 120).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let scale_ups: Vec<ShadowRecord> = shadow.records();
    let scale_ups: Vec<_> = scale_ups
        .iter()
        .filter_map(|record| match record {
            ShadowRecord::ScaleUp {
                pods,
                kerf,
                kerf_left_over,
                other,
                other_left_over,
                disturbed,
                ..
            } => Some((*pods, kerf, *kerf_left_over, other, *other_left_over, *disturbed)),
            _ => None,
        })
        .collect();
    let [(pods, kerf, 0, other, 0, false)] = scale_ups.as_slice() else {
        panic!("{scale_ups:?}")
    };
    assert_eq!((*pods, kerf.len(), other.len()), (3, 3, 3));
    let price = |machines: &[kerf_controllers::Machine]| -> f64 {
        machines
            .iter()
            .map(|machine| machine.price_per_hour.expect("a price"))
            .sum()
    };
    assert!(
        (price(kerf) - price(other)).abs() < 1e-9,
        "equal deciders give equal plans"
    );
    assert!(other.iter().all(|machine| machine.claim.is_some()) && kerf.iter().all(|machine| machine.claim.is_none()));

    // The other controllers stop, and the nodes become empty: Kerf would delete them.
    let client = simulation.client();
    let sandbox = simulation.crash().await;
    let scale = json!({"spec": {"replicas": 0}});
    let deployments = kube::Api::<k8s_openapi::api::apps::v1::Deployment>::namespaced(client, "default");
    let params = kube::api::PatchParams::default();
    deployments
        .patch("web", &params, &kube::api::Patch::Merge(scale))
        .await
        .expect("patched");
    tokio::time::sleep(Duration::from_secs(120)).await;
    let records = shadow.records();
    let commands: Vec<_> = records
        .iter()
        .filter_map(|record| match record {
            ShadowRecord::Command {
                id,
                reason,
                nodes,
                replacements,
                savings_per_hour,
                ..
            } => Some((*id, reason.as_str(), nodes, replacements.len(), *savings_per_hour)),
            _ => None,
        })
        .collect();
    assert!(!commands.is_empty(), "{records:?}");
    assert!(
        commands
            .iter()
            .all(|(_, reason, _, new, _)| (*reason, *new) == ("Empty", 0)),
        "{commands:?}"
    );
    let nodes: usize = commands.iter().map(|(_, _, nodes, ..)| nodes.len()).sum();
    assert_eq!(nodes, 3, "each command is decided once, though every round finds it");
    let savings: f64 = commands.iter().map(|(.., savings)| savings).sum();
    assert!((savings - price(other)).abs() < 1e-9);
    let text = shadow.metrics.encode();
    assert!(
        text.contains("kerf_shadow_decisions_total{decision=\"disrupt\",reason=\"empty\"}"),
        "{text}"
    );
    assert!(
        text.contains("kerf_shadow_decisions_total{decision=\"launch\",reason=\"provisioned\"} 1"),
        "{text}"
    );

    // The other controllers start again and delete them.
    let simulation = Simulation::join(sandbox, |_| {});
    simulation.until_claims(0, 300).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let records = shadow.records();
    let ended: Vec<_> = records
        .iter()
        .filter_map(|record| match record {
            ShadowRecord::Ended { reason, machine, .. } => Some((reason.as_deref(), machine.claim.is_some())),
            _ => None,
        })
        .collect();
    assert_eq!(ended, [(Some("Empty"), true); 3]);
    let closed = records
        .iter()
        .filter(|record| matches!(record, ShadowRecord::CommandEnded { .. }));
    assert_eq!(closed.count(), commands.len());
    let Some(ShadowRecord::Cost {
        nodes: 0,
        price_per_hour,
        ..
    }) = records
        .iter()
        .rfind(|record| matches!(record, ShadowRecord::Cost { .. }))
    else {
        panic!("{records:?}")
    };
    assert_eq!(*price_per_hour, 0.0);

    let used = shadow.stop().await;
    assert!(
        used.iter().any(|rule| rule.verb == "watch" && rule.resource == "pods"),
        "{used:?}"
    );
    let granted = documented_rules();
    for rule in used {
        assert!(
            ["get", "list", "watch"].contains(&rule.verb),
            "an observer writes nothing: {rule}"
        );
        let needs = (rule.group.clone(), rule.resource.clone(), rule.verb.to_owned());
        assert!(granted.contains(&needs), "docs/shadow-mode.md does not grant {rule}");
    }
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_cannot_open_its_file_does_not_start() {
    let simulation = Simulation::start().await;
    let nowhere = Path::new("/nowhere/at/all.jsonl");
    let (manager, _) = observing(&simulation.sandbox, simulation.client(), nowhere);
    let error = manager.run(CancellationToken::new()).await.expect_err("no such folder");
    assert!(
        error
            .to_string()
            .starts_with("--observe-file \"/nowhere/at/all.jsonl\" cannot be opened: "),
        "{error}"
    );
    simulation.stop().await;
}
