//! A life with launches, repair, drift, consolidation and deletions: which families have had series at its end, what was logged, and which
//! events were published.

use std::collections::BTreeSet;
use std::time::Duration;

use kerf_runtime::metrics::catalogue::CATALOGUE;
use kerf_runtime::metrics::status_conditions;
use serde_json::{Value, json};

use crate::cluster::{CLAIMS, Cluster, NODES, POOLS, name};

/// Families without series in a life in which nothing goes wrong, and why.
const WITHOUT_SERIES: [(&str, &str); 15] = [
    ("karpenter_build_info", "the command line sets it"),
    ("karpenter_nodepools_cost_tracker_errors_total", "every price is known"),
    ("karpenter_scheduler_unfinished_work_seconds", "no pass is under way"),
    (
        "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
        "every pod is decided on at once",
    ),
    (
        "karpenter_voluntary_disruption_failed_validations_total",
        "no command loses its reason",
    ),
    (
        "karpenter_voluntary_disruption_queue_failures_total",
        "no command fails",
    ),
    ("karpenter_consolidation_score", "no pool has the policy Balanced"),
    (
        "karpenter_consolidation_moves_total",
        "nodes go only when they are empty",
    ),
    ("karpenter_nodes_total_daemon_limits", "there is no DaemonSet"),
    ("karpenter_nodes_total_daemon_requests", "there is no DaemonSet"),
    ("rest_client_requests_total", "it is never counted"),
    ("leader_election_slowpath_total", "no renewal had to read the lease"),
    ("workqueue_retries_total", "nothing is tried again"),
    (
        "kerf_shadow_decisions_total",
        "the controllers carry their decisions out",
    ),
    (
        "kerf_shadow_savings_per_hour",
        "the controllers carry their decisions out",
    ),
];

const ALLOWED: &str = "karpenter_nodepools_allowed_disruptions";

/// What happened in a life.
struct Life {
    cluster: Cluster,
    families: BTreeSet<String>,
}

impl Life {
    async fn look(&mut self) {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let scrape = self.cluster.scrape().await;
        self.families.append(&mut scrape.families());
    }

    /// Repair, drift, consolidation, a deletion by a user, and the end of the pool.
    async fn run() -> Self {
        let cluster = Cluster::start(|options| options.feature_gates.node_repair = true).await;
        let mut life = Self {
            cluster,
            families: BTreeSet::new(),
        };
        let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}});
        life.cluster.pool(json!({"limits": {"cpu": "1000"}})).await;
        life.cluster.deployment("web", 2, "1", apart).await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        life.look().await;
        life.cluster.until_ready(2).await;
        life.cluster.deployment("huge", 1, "100000", json!({})).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        life.look().await;
        life.cluster.scale("huge", 0).await;
        // Repair.
        let sick = name(&life.cluster.list(NODES).await[0]);
        life.cluster.set_kubelet(&sick, Some("not-ready")).await;
        let gone = async |c: &Cluster| c.list(NODES).await.iter().all(|node| name(node) != sick);
        life.cluster.until("the sick node is gone", 1200, gone).await;
        life.look().await;
        life.cluster.until_ready(2).await;
        life.cluster.until_nodes(2, 300).await;
        // OPS-166: a method without candidates has no series.
        let budget = [("nodepool", "web"), ("reason", "Drifted")];
        assert_eq!(life.cluster.scrape().await.count(ALLOWED, &budget), 0);
        // Drift.
        let renamed = json!({"spec": {"template": {"metadata": {"labels": {"generation": "2"}}}}});
        life.cluster.patch(&format!("{POOLS}/web"), renamed).await;
        let renewed = async |c: &Cluster| {
            let claims = c.list(CLAIMS).await;
            claims.len() == 2
                && claims
                    .iter()
                    .all(|claim| claim["metadata"]["labels"]["generation"] == "2")
        };
        life.cluster.until("the nodes are renewed", 600, renewed).await;
        // OPS-250: the same reason has another case in the counters of disruption.
        assert_eq!(life.cluster.scrape().await.count(ALLOWED, &budget), 1);
        life.cluster.until_ready(2).await;
        life.look().await;
        // Consolidation: one node is empty.
        let disruption = json!({"spec": {"disruption": {"consolidateAfter": "10s"}}});
        life.cluster.patch(&format!("{POOLS}/web"), disruption).await;
        life.cluster.scale("web", 1).await;
        life.cluster.until_nodes(1, 600).await;
        life.look().await;
        // A deletion by a user.
        let claim = name(&life.cluster.list(CLAIMS).await[0]);
        life.cluster.delete(&format!("{CLAIMS}/{claim}")).await;
        life.look().await;
        let gone = async |c: &Cluster| c.list(CLAIMS).await.iter().all(|other| name(other) != claim);
        life.cluster.until("the claim is gone", 120, gone).await;
        life.cluster.until_ready(1).await;
        life.look().await;
        // The end of the pool.
        life.cluster.scale("web", 0).await;
        life.cluster.until_nodes(0, 600).await;
        life.cluster.delete(&format!("{POOLS}/web")).await;
        life.look().await;
        life
    }
}

#[tokio::test(start_paused = true)]
async fn a_life_is_measured_told_and_logged() {
    let life = Life::run().await;
    let cluster = &life.cluster;

    // Every family of the catalogue, and those of the kinds.
    let mut expected: BTreeSet<String> = CATALOGUE.iter().map(|def| def.name.to_string()).collect();
    for kind in ["nodeclaim", "nodepool", "node"] {
        let of = status_conditions(kind);
        let families = [
            of.transition_seconds,
            of.condition_count,
            of.current_status_seconds,
            of.transitions_total,
        ];
        // OPS-170
        expected.extend(families.into_iter().map(|def| def.name.to_string()));
    }
    for (family, _) in WITHOUT_SERIES {
        assert!(expected.remove(family), "{family} is in no catalogue");
    }
    let missing: Vec<&String> = expected.difference(&life.families).collect();
    assert!(missing.is_empty(), "without series: {missing:?}");

    let scrape = cluster.scrape().await;
    scrape.assert_values(&[
        // OPS-115, OPS-117
        ("karpenter_nodeclaims_disrupted_total", &[("reason", "unhealthy")], 1.0),
        ("karpenter_nodeclaims_disrupted_total", &[("reason", "drifted")], 2.0),
        ("karpenter_nodeclaims_created_total", &[("reason", "drifted")], 2.0),
        // OPS-156
        (
            "karpenter_voluntary_disruption_decisions_total",
            &[("reason", "drifted"), ("decision", "replace")],
            2.0,
        ),
        // OPS-179
        (
            "leader_election_master_status",
            &[("name", "karpenter-leader-election")],
            1.0,
        ),
    ]);
    // OPS-167, OPS-169, KWK-003: the calls of each controller under its name; those to the KWOK provider, too.
    for (controller, method) in [
        ("nodeclaim.lifecycle", "Create"),
        ("nodeclaim.lifecycle", "Delete"),
        ("nodeclaim.disruption", "IsDrifted"),
        ("nodeclaim.garbagecollection", "List"),
        ("provisioner", "GetInstanceTypes"),
    ] {
        let labels = [("controller", controller), ("method", method), ("provider", "kwok")];
        assert!(
            scrape.count("karpenter_cloudprovider_duration_seconds_count", &labels) == 1,
            "{controller} {method} in\n{}",
            scrape.picture("karpenter_cloudprovider_duration_seconds_count")
        );
    }
    // OPS-168: an instance that is gone is asked for once more.
    let gone = [("error", "NodeClaimNotFoundError"), ("provider", "kwok")];
    assert!(scrape.count("karpenter_cloudprovider_errors_total", &gone) > 0);
    // OPS-143: nothing is left of what is gone.
    for family in [
        "karpenter_nodepools_usage",
        "karpenter_nodepools_cost_total",
        "karpenter_nodes_allocatable",
        "karpenter_pods_state",
        "operator_nodeclaim_status_condition_count",
        "operator_nodepool_status_condition_count",
    ] {
        assert_eq!(scrape.count(family, &[]), 0, "{}", scrape.picture(family));
    }
    // OPS-104: what happened to a claim is counted once and logged once.
    let created = cluster.log.lines("created nodeclaim").len();
    assert_eq!(
        scrape.value("karpenter_nodeclaims_created_total", &[]),
        Some(created as f64)
    );
    for message in ["launched nodeclaim", "registered nodeclaim", "initialized nodeclaim"] {
        let lines = cluster.log.lines(message);
        let claims: BTreeSet<String> = lines.iter().map(|line| line["NodeClaim"].to_string()).collect();
        assert_eq!((lines.len(), claims.len()), (created, created), "{message}");
    }
    check_log(cluster);
    check_events(cluster).await;
    life.cluster.stop().await;
}

/// Messages with their levels and keys.
const LINES: [(&str, &str, &[&str]); 14] = [
    ("found provisionable pod(s)", "INFO", &["Pods", "duration"]),
    (
        "computed new nodeclaim(s) to fit pod(s)",
        "INFO",
        &["nodeclaims", "pods", "hourly-price"],
    ),
    (
        "created nodeclaim",
        "INFO",
        &["NodePool", "NodeClaim", "requests", "instance-types"],
    ),
    (
        "launched nodeclaim",
        "INFO",
        &["provider-id", "instance-type", "zone", "capacity-type", "allocatable"],
    ),
    ("registered nodeclaim", "INFO", &["Node", "provider-id"]),
    ("initialized nodeclaim", "INFO", &["allocatable", "provider-id"]),
    (
        "disrupting node(s)",
        "INFO",
        &[
            "command",
            "decision",
            "disrupted-node-count",
            "replacement-node-count",
            "pod-count",
            "hourly-price-before",
            "hourly-price-after",
            "disrupted-nodes",
            "replacement-nodes",
        ],
    ),
    ("tainted node", "INFO", &["taint.Key", "taint.Value", "taint.Effect"]),
    ("deleted node", "INFO", &["Node"]),
    ("deleted nodeclaim", "INFO", &["NodeClaim"]),
    ("could not schedule pod", "ERROR", &["Pod", "error"]),
    (
        "computing scheduling decision for provisionable pod(s)",
        "DEBUG",
        &["pending-pods", "deleting-pods"],
    ),
    ("command succeeded", "DEBUG", &[]),
    ("marking drifted", "DEBUG", &[]),
];

fn check_log(cluster: &Cluster) {
    for (message, level, keys) in LINES {
        let lines = cluster.log.lines(message);
        let line = lines.first().expect(message);
        // OPS-220
        assert_eq!(line["level"], level, "{line}");
        for key in keys {
            assert!(!line[key].is_null(), "{key} in {line}");
        }
        for kind in ["Pod", "Node", "NodeClaim", "NodePool"] {
            // OPS-216
            assert!(line[kind].is_null() || line[kind]["name"].is_string(), "{line}");
        }
    }
    let created = &cluster.log.lines("created nodeclaim")[0];
    // OPS-216, OPS-220
    assert!(created["requests"]["cpu"].is_string(), "{created}");
    let types = created["instance-types"].as_str().expect("types");
    assert!(
        types.ends_with(" other(s)") && types.split(", ").count() == 5,
        "{types}"
    );
    // What is normal is no error.
    let errors: Vec<Value> = cluster
        .log
        .all()
        .into_iter()
        .filter(|line| line["level"] == "ERROR")
        .collect();
    let unexpected: Vec<&Value> = errors
        .iter()
        .filter(|line| line["message"] != "could not schedule pod")
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    // No line holds a whole object.
    let longest = cluster.log.all().iter().map(|line| line.to_string().len()).max();
    assert!(longest.is_some_and(|bytes| bytes < 4000), "{longest:?}");
}

/// Reasons with their types, kinds of objects, and a part of their messages.
const EVENTS: [(&str, &str, &[&str], &str); 8] = [
    (
        "Nominated",
        "Normal",
        &["Pod"],
        "Pod should schedule on: nodeclaim/web-",
    ),
    ("FailedScheduling", "Warning", &["Pod"], "Failed to schedule pod, "),
    (
        "DisruptionLaunching",
        "Normal",
        &["NodeClaim"],
        "Launching NodeClaim: Drifted",
    ),
    (
        "DisruptionWaitingReadiness",
        "Normal",
        &["NodeClaim"],
        "Waiting on readiness to continue disruption",
    ),
    (
        "DisruptionTerminating",
        "Normal",
        &["Node", "NodeClaim"],
        "Disrupting Node",
    ),
    ("Evicted", "Normal", &["Pod"], "Evicted pod: "),
    (
        "Registered",
        "Normal",
        &["NodeClaim"],
        "Status condition transitioned, Type: Registered, Status: Unknown -> True, Reason: Registered",
    ),
    (
        "Finalized",
        "Normal",
        &["NodeClaim", "NodePool", "Node"],
        "Finalized karpenter.sh/",
    ),
];

async fn check_events(cluster: &Cluster) {
    for (reason, kind, objects, text) in EVENTS {
        let events = cluster.events(reason).await;
        assert!(!events.is_empty(), "no {reason}");
        for event in events {
            // OPS-184, OPS-185, OPS-189, OPS-190, OPS-191, OPS-196, OPS-208, OPS-209
            assert_eq!(event["type"], kind, "{event}");
            let about = event["involvedObject"]["kind"].as_str().expect("a kind");
            assert!(objects.contains(&about), "{event}");
            let message = event["message"].as_str().expect("a message");
            assert!(message.starts_with(text), "{event}");
            // OPS-181, KWK-206
            assert_eq!(event["reportingComponent"], "karpenter", "{event}");
            assert_eq!(event["metadata"]["namespace"], "default", "{event}");
        }
    }
    // OPS-210: these are never published.
    for reason in ["NodeClassNotReady", "FailedTermination"] {
        assert_eq!(cluster.events(reason).await, Vec::<Value>::new());
    }
}
