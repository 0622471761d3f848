//! Events, metrics and log lines of provisioning passes.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kerf_api::NodeClaim;
use kerf_sandbox::CapturedLog;
use serde_json::{Value, json};

use crate::provisioning::metric;
use crate::provisioning::passes::budget;
use crate::simulation::harness::Simulation;
use crate::simulation::logs::Logs;

fn messages(events: &[Event], of: &str) -> Vec<String> {
    let about = |event: &&Event| {
        event
            .involved_object
            .name
            .as_deref()
            .is_some_and(|name| name.starts_with(of))
    };
    events
        .iter()
        .filter(about)
        .filter_map(|event| event.message.clone())
        .collect()
}

fn ours(events: Vec<Event>) -> Vec<Event> {
    let karpenter =
        |event: &Event| event.source.as_ref().and_then(|source| source.component.as_deref()) == Some("karpenter");
    events.into_iter().filter(karpenter).collect()
}

// SCH-072, SCH-328, OPS-184
#[tokio::test(start_paused = true)]
async fn pods_placed_on_a_machine_that_starts_nominate_it() {
    let simulation = Simulation::start().await;
    simulation.slow_pool("40s").await;
    simulation.deployment("first", 1, "3", json!({})).await;
    simulation
        .until("the claim is launched", 30, async |s| {
            let launched = |claim: &NodeClaim| claim.status.as_ref().is_some_and(|status| status.provider_id.is_some());
            s.claims().await.iter().any(launched)
        })
        .await;
    // It has room for this one; it is a machine without a Node.
    simulation.deployment("second", 1, "50m", json!({})).await;
    simulation
        .until("a nomination", 20, async |s| {
            !messages(&s.events("Nominated").await, "second").is_empty()
        })
        .await;
    let claim = simulation.some_claim().await;
    assert_eq!(simulation.claims().await.len(), 1);
    assert_eq!(
        messages(&simulation.events("Nominated").await, "second"),
        [format!("Pod should schedule on: nodeclaim/{claim}")]
    );
    let nominated = |s: &Simulation| {
        let snapshot = s.context.cluster.snapshot(s.context.now());
        snapshot.nodes.first().and_then(|node| node.nominated_until)
    };
    let until = nominated(&simulation).expect("nominated");
    let left = until.duration_since(simulation.context.now());
    assert!(left.as_secs() > 9 && left.as_secs() <= 20, "{left:?}");
    // With a Node both are named.
    simulation
        .until("the Node", 60, async |s| !s.nodes().await.is_empty())
        .await;
    simulation.stop().await;
}

// SCH-342, OPS-186
#[tokio::test(start_paused = true)]
async fn a_pool_without_types_is_told_so_once_a_minute() {
    let simulation = Simulation::with_pool(json!({})).await;
    let nothing = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["there-is-none"]}]);
    simulation
        .pool("empty", json!({"template": {"spec": {"requirements": nothing}}}))
        .await;
    simulation.deployment("huge", 1, "100000", json!({})).await;
    simulation
        .until("an event", 30, async |s| {
            !s.events("NoCompatibleInstanceTypes").await.is_empty()
        })
        .await;
    let count = async |s: &Simulation| -> i32 {
        let events = s.events("NoCompatibleInstanceTypes").await;
        events.iter().map(|event| event.count.unwrap_or(1)).sum()
    };
    tokio::time::sleep(Duration::from_secs(45)).await;
    assert_eq!(count(&simulation).await, 1);
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert!((2..=3).contains(&count(&simulation).await));
    let event = simulation.events("NoCompatibleInstanceTypes").await.pop().expect("one");
    assert_eq!(
        (
            event.involved_object.kind.as_deref(),
            event.involved_object.name.as_deref(),
            event.type_.as_deref()
        ),
        (Some("NodePool"), Some("empty"), Some("Warning"))
    );
    assert_eq!(
        event.message.as_deref(),
        Some("NodePool requirements filtered out all compatible available instance types")
    );
    simulation.stop().await;
}

/// The bounds of every histogram of durations, in seconds.
const BOUNDS: [&str; 45] = [
    "0.005", "0.01", "0.025", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3", "0.35", "0.4", "0.45", "0.5", "0.6", "0.7",
    "0.8", "0.9", "1", "1.25", "1.5", "1.75", "2", "2.5", "3", "3.5", "4", "4.5", "5", "6", "7", "8", "9", "10", "15",
    "20", "25", "30", "40", "50", "60", "120", "150", "300", "450", "600",
];
const SOLVES: &str = "karpenter_scheduler_scheduling_duration_seconds";

// SCH-345, SCH-346, SCH-347, SCH-348, SCH-349, SCH-350, SCH-351, SCH-352, SCH-353, OPS-145, OPS-146, OPS-147, OPS-148, OPS-149, OPS-150
#[tokio::test(start_paused = true)]
async fn passes_are_measured() {
    let log = CapturedLog::start();
    let simulation = Simulation::with_pool(json!({})).await;
    simulation.deployment("web", 3, "1", json!({})).await;
    simulation.deployment("huge", 1, "100000", json!({})).await;
    let no = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}]}}}});
    simulation.deployment("opted-out", 2, "1", no).await;
    simulation.until_running(3, 60).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let of = |series: &str| metric::value(&simulation, series);
    // Once per solve, under the loop's name.
    let solves = log
        .lines("computing scheduling decision for provisionable pod(s)")
        .len();
    assert!(solves > 1);
    assert_eq!(
        of(&format!("{SOLVES}_count{{controller=\"provisioner\"}}")),
        Some(solves as f64)
    );
    for bound in BOUNDS {
        let bucket = format!("{SOLVES}_bucket{{controller=\"provisioner\",le=\"{bound}\"}}");
        assert_eq!(metric::count(&simulation, &bucket), 1, "{bucket}");
    }
    // And one without bound.
    let buckets = format!("{SOLVES}_bucket{{controller=\"provisioner\"");
    assert_eq!(metric::count(&simulation, &buckets), BOUNDS.len() + 1);
    // The last solve's queue is empty, and only its series is left.
    let depth = "karpenter_scheduler_queue_depth{controller=\"provisioner\",scheduling_id=\"";
    assert_eq!((metric::count(&simulation, depth), of(depth)), (1, Some(0.0)));
    assert_eq!(
        metric::count(&simulation, "karpenter_scheduler_unfinished_work_seconds{"),
        0
    );
    assert_eq!(of("karpenter_scheduler_ignored_pods_count"), Some(2.0));
    assert_eq!(
        of("karpenter_scheduler_unschedulable_pods_count{controller=\"provisioner\"}"),
        Some(1.0)
    );
    let flexible =
        "karpenter_scheduler_pending_pods_by_effective_zone_count{controller=\"provisioner\",zone=\"flexible\"}";
    assert_eq!(of(flexible), Some(1.0), "those that are ignored do not count");
    // Once per pod, however often it is decided about.
    assert_eq!(
        of("karpenter_pods_scheduling_decision_duration_seconds_count"),
        Some(6.0)
    );
    let claims = simulation.claims().await.len();
    assert_eq!(of("karpenter_nodeclaims_created_total{"), Some(claims as f64));
    assert_eq!(of("karpenter_cluster_state_synced"), Some(1.0));
    assert!(of("controller_runtime_reconcile_total{controller=\"provisioner\"").is_some_and(|count| count > 0.0));
    simulation.stop().await;
}

fn text(line: &Value, key: &str) -> String {
    line[key].as_str().unwrap_or_default().to_owned()
}

// SCH-354, SCH-355, SCH-356
#[tokio::test(start_paused = true)]
async fn passes_are_logged() {
    let log = CapturedLog::start();
    let simulation = Simulation::with_pool(json!({"limits": {"cpu": "64"}})).await;
    simulation.deployment("web", 7, "1", json!({})).await;
    simulation.deployment("huge", 1, "100000", json!({})).await;
    simulation.until_running(7, 60).await;
    let found = log.lines("found provisionable pod(s)");
    assert_eq!(found.len(), 1, "only where a claim results");
    let pods = text(&found[0], "Pods");
    assert!(
        pods.starts_with("default/") && pods.ends_with("and 3 other(s)") && found[0]["duration"].is_string(),
        "{pods}"
    );
    assert_eq!(found[0]["level"], "INFO");
    let computed = log.lines("computed new nodeclaim(s) to fit pod(s)");
    assert_eq!(
        (&computed[0]["nodeclaims"], &computed[0]["pods"]),
        (&json!(1), &json!(7))
    );
    let computing = log.lines("computing scheduling decision for provisionable pod(s)");
    assert_eq!(
        (
            &computing[0]["level"],
            &computing[0]["pending-pods"],
            &computing[0]["deleting-pods"]
        ),
        (&json!("DEBUG"), &json!(8), &json!(0))
    );
    let excluded = log.lines("instance types were excluded because they would breach limits");
    let counts = |key: &str| excluded[0][key].as_u64().unwrap_or_default();
    assert!(counts("instance-types-excluded") > 0);
    assert!(counts("instance-types-excluded") < counts("instance-types-total"));
    let failed = log.lines("could not schedule pod");
    assert_eq!(failed[0]["level"], "ERROR");
    let is_huge =
        |line: &Value| line["Pod"]["namespace"] == "default" && text(&line["Pod"], "name").starts_with("huge");
    assert!(failed.iter().all(is_huge));
    simulation.stop().await;
}

// SCH-053, DIS-298, OPS-221
#[tokio::test(start_paused = true)]
async fn preferences_that_hinder_consolidation_are_named_once_a_day() {
    const AFFINITY: &str = "pod(s) have a preferred Anti-Affinity which can prevent consolidation";
    const SPREAD: &str = "pod(s) have a preferred TopologySpreadConstraint which can prevent consolidation";
    let selector = json!({"matchLabels": {"app": "web"}});
    let both = json!({
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}}]}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                                       "labelSelector": selector}],
    });
    for ignore in [false, true] {
        let log = CapturedLog::start();
        let simulation = Simulation::start_with(|options| {
            if ignore {
                options.preference_policy = kerf_units::policy::PreferencePolicy::Ignore;
            }
        })
        .await;
        simulation.pool("web", json!({})).await;
        // Pods that stay pending are planned again and again.
        simulation.deployment("web", 12, "100000", both.clone()).await;
        tokio::time::sleep(Duration::from_secs(90)).await;
        for message in [AFFINITY, SPREAD] {
            let lines = log.lines(message);
            assert_eq!(lines.len(), usize::from(!ignore), "{message}");
            if let [line] = lines.as_slice() {
                assert!(
                    text(line, "pods").ends_with("and 2 other(s)") && line["level"] == "INFO",
                    "{line}"
                );
            }
        }
        simulation.stop().await;
    }
}

// SCH-027, SCH-028
#[tokio::test(start_paused = true)]
async fn what_do_not_disrupt_means_is_told_when_the_node_goes() {
    let simulation = Simulation::with_pool(json!({})).await;
    for (app, value) in [("timed", "5m"), ("odd", "sometimes"), ("over", "1s")] {
        let template = json!({"metadata": {"name": app}, "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}, "annotations": {"karpenter.sh/do-not-disrupt": value}},
                         "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}]}}}});
        let api: kube::Api<k8s_openapi::api::apps::v1::Deployment> =
            kube::Api::namespaced(simulation.client(), "default");
        let deployment = serde_json::from_value(template).expect("a deployment");
        api.create(&kube::api::PostParams::default(), &deployment)
            .await
            .expect("created");
        // So that no pod is evicted before a pass has planned for it.
        budget(&simulation, app, json!({"minAvailable": 1})).await;
    }
    simulation.until_running(3, 60).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    for claim in simulation.claims().await {
        simulation
            .delete::<NodeClaim>(&claim.metadata.name.unwrap_or_default())
            .await;
    }
    for (reason, app, part) in [
        ("DoNotDisruptUntil", "timed", "2026-01-01T00:"),
        ("InvalidDoNotDisruptAnnotation", "odd", "sometimes"),
        ("DoNotDisruptGracePeriodElapsed", "over", "elapsed"),
    ] {
        simulation
            .until(reason, 30, async |s| {
                messages(&s.events(reason).await, app)
                    .iter()
                    .any(|message| message.contains(part))
            })
            .await;
    }
    simulation.stop().await;
}

// SCH-348, SCH-500
#[tokio::test(start_paused = true)]
async fn simulations_of_other_controllers_report_nothing_about_pending_pods() {
    let simulation = Simulation::start().await;
    simulation
        .pool(
            "web",
            json!({"disruption": {"consolidateAfter": "1s", "consolidationPolicy": "WhenEmptyOrUnderutilized"}}),
        )
        .await;
    simulation.deployment("web", 2, "1", json!({})).await;
    simulation.until_running(2, 60).await;
    let no = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "karpenter.sh/unknown", "operator": "In", "values": ["x"]}]}]}}}});
    simulation.deployment("invalid", 1, "1", no).await;
    simulation
        .until("an event", 30, async |s| {
            !ours(s.events("FailedScheduling").await).is_empty()
        })
        .await;
    // Drift and consolidation evaluate the cluster all the time; the pod gets one event per five minutes.
    tokio::time::sleep(Duration::from_secs(240)).await;
    let events = ours(simulation.events("FailedScheduling").await);
    assert_eq!(events.iter().map(|event| event.count.unwrap_or(1)).sum::<i32>(), 1);
    assert_eq!(
        metric::value(&simulation, "karpenter_scheduler_ignored_pods_count"),
        Some(1.0)
    );
    simulation.stop().await;
}

// SCH-487
#[tokio::test(start_paused = true)]
async fn every_preference_given_up_is_logged() {
    let logs = Logs::listen();
    let simulation = Simulation::start().await;
    let soft = json!([{"key": "dear", "effect": "PreferNoSchedule"}]);
    simulation
        .pool("web", json!({"template": {"spec": {"taints": soft}}}))
        .await;
    let zone = |operator: &str, values: Value| {
        let expression = json!({"key": "topology.kubernetes.io/zone", "operator": operator, "values": values});
        json!({"matchExpressions": [expression]})
    };
    let near = |app: &str| json!({"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": app}}});
    let affinity = json!({
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                zone("In", json!(["mars", "jupiter"])), zone("Exists", Value::Null)]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": zone("In", json!(["moon"]))}],
        },
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 2, "podAffinityTerm": near("none")}]},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": near("wary")}]},
    });
    let spread = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["wary", "weary"]}]}}]);
    let spec = json!({"affinity": affinity, "topologySpreadConstraints": spread});
    simulation.deployment("wary", 1, "1", spec).await;
    simulation.until_running(1, 60).await;
    let told = logs.with("relaxing soft constraints");
    let reasons: Vec<&str> = told
        .iter()
        .filter_map(|line| line.split_once("reason=").map(|(_, reason)| reason))
        .collect();
    assert!(
        told.iter().all(|line| line.starts_with(
            "DEBUG relaxing soft constraints for pod since it previously failed to schedule Pod=default/wary-"
        )),
        "{told:#?}"
    );
    let wary = r#""podAffinityTerm":{"labelSelector":{"matchLabels":{"app":"#;
    let expected = [
            r#"removing: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]={"matchExpressions":[{"key":"topology.kubernetes.io/zone","operator":"In","values":["jupiter","mars"]}]}"#.to_owned(),
            format!(r#"removing: spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]={{{wary}"none"}}}},"namespaces":["default"],"topologyKey":"topology.kubernetes.io/zone"}},"weight":2}}"#),
            format!(r#"removing: spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]={{{wary}"wary"}}}},"namespaces":["default"],"topologyKey":"topology.kubernetes.io/zone"}},"weight":1}}"#),
            r#"removing: spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]={"preference":{"matchExpressions":[{"key":"topology.kubernetes.io/zone","operator":"In","values":["moon"]}]},"weight":3}"#.to_owned(),
            r#"removing: spec.topologySpreadConstraints = {"labelSelector":{"matchExpressions":[{"key":"app","operator":"In","values":["wary","weary"]}]},"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"ScheduleAnyway"}"#.to_owned(),
            "adding: toleration for PreferNoSchedule taints".to_owned(),
    ];
    // Passes until the node is there take the same steps.
    assert!(!reasons.is_empty());
    for pass in reasons.chunks(expected.len()) {
        assert_eq!(pass, expected);
    }
    simulation.stop().await;
}
