//! Every metric of the contract (operations.md sections 8 to 10): name, type, labels, buckets, help, in one place.
//!
//! Upstream's casing of label values is inconsistent and dashboards rely on it (OPS-250); nothing here normalises.

use std::borrow::Cow;

use super::{ExtraLabels, MetricDef, MetricKind};

/// Bucket bounds as the contract lists them.
pub mod buckets {
    /// "D" of operations.md section 8: durations of scheduling and of pods.
    pub const DURATION: [f64; 45] = [
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
        1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
        120.0, 150.0, 300.0, 450.0, 600.0,
    ];
    /// "D" up to 60 (OPS-176).
    pub const RECONCILE: [f64; 40] = {
        let mut bounds = [0.0; 40];
        let mut index = 0;
        while index < bounds.len() {
            bounds[index] = DURATION[index];
            index += 1;
        }
        bounds
    };
    /// "P": what Prometheus clients use when nothing is said.
    pub const DEFAULT: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
    /// OPS-118.
    pub const POWERS_1_TO_2048: [f64; 12] = exponential(1.0, 2.0);
    /// OPS-119.
    pub const POWERS_1_TO_1024: [f64; 11] = exponential(1.0, 2.0);
    /// OPS-125: a quarter of an hour to thirty days.
    pub const LIFETIME: [f64; 21] = [
        900.0,
        1800.0,
        2700.0,
        3600.0,
        7200.0,
        14400.0,
        21600.0,
        28800.0,
        36000.0,
        43200.0,
        57600.0,
        72000.0,
        86400.0,
        172_800.0,
        259_200.0,
        432_000.0,
        864_000.0,
        1_296_000.0,
        1_728_000.0,
        2_160_000.0,
        2_592_000.0,
    ];
    /// OPS-164.
    pub const SCORE: [f64; 8] = [0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0];
    /// OPS-170: 0.5, 1, 2 … 8192.
    pub const STATUS: [f64; 15] = exponential(0.5, 2.0);
    /// OPS-177.
    pub const WORKQUEUE: [f64; 12] = exponential(1e-8, 10.0);
    /// OPS-178.
    pub const REQUEST: [f64; 20] = exponential(0.001, 1.5);

    const fn exponential<const N: usize>(start: f64, factor: f64) -> [f64; N] {
        let mut bounds = [start; N];
        let mut index = 1;
        while index < N {
            bounds[index] = bounds[index - 1] * factor;
            index += 1;
        }
        bounds
    }
}

const fn define(
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    help: &'static str,
) -> MetricDef {
    MetricDef {
        name: Cow::Borrowed(name),
        kind,
        labels,
        extra: ExtraLabels::None,
        help,
    }
}

/// A family that carries the well-known node labels as well.
const fn define_per_node(
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    help: &'static str,
) -> MetricDef {
    MetricDef {
        name: Cow::Borrowed(name),
        kind,
        labels,
        extra: ExtraLabels::WellKnown,
        help,
    }
}

// Objects and lifecycle

/// OPS-114.
pub const BUILD_INFO: MetricDef = define(
    "karpenter_build_info",
    MetricKind::Gauge,
    &["version", "goversion", "goarch", "commit"],
    "Build of the controller; always 1.",
);

/// OPS-115.
pub const NODECLAIMS_CREATED: MetricDef = define(
    "karpenter_nodeclaims_created_total",
    MetricKind::Counter,
    &["reason", "nodepool", "min_values_relaxed"],
    "NodeClaims created by the controller, by reason and pool.",
);

/// OPS-116.
pub const NODECLAIMS_TERMINATED: MetricDef = define(
    "karpenter_nodeclaims_terminated_total",
    MetricKind::Counter,
    &["nodepool", "capacity_type", "zone"],
    "NodeClaims whose finalizer was removed.",
);

/// OPS-117.
pub const NODECLAIMS_DISRUPTED: MetricDef = define(
    "karpenter_nodeclaims_disrupted_total",
    MetricKind::Counter,
    &["reason", "nodepool", "capacity_type"],
    "NodeClaims deleted by the controller, by reason.",
);

/// OPS-118.
pub const NODECLAIMS_TERMINATION_DURATION: MetricDef = define(
    "karpenter_nodeclaims_termination_duration_seconds",
    MetricKind::Histogram(&buckets::POWERS_1_TO_2048),
    &["nodepool"],
    "Time from deletion of a NodeClaim to removal of its finalizer.",
);

/// OPS-119.
pub const NODECLAIMS_INSTANCE_TERMINATION_DURATION: MetricDef = define(
    "karpenter_nodeclaims_instance_termination_duration_seconds",
    MetricKind::Histogram(&buckets::POWERS_1_TO_1024),
    &["nodepool"],
    "Time from the call that ends an instance until it is gone.",
);

/// OPS-120.
pub const NODECLAIMS_UNHEALTHY_DISRUPTED: MetricDef = define(
    "karpenter_nodeclaims_unhealthy_disrupted_total",
    MetricKind::Counter,
    &["condition", "nodepool", "capacity_type", "image_id"],
    "NodeClaims deleted by node repair, by the condition that asked for it.",
);

/// OPS-121.
pub const NODES_CREATED: MetricDef = define(
    "karpenter_nodes_created_total",
    MetricKind::Counter,
    &["nodepool", "zone"],
    "Nodes that registered.",
);

/// OPS-122.
pub const NODES_TERMINATED: MetricDef = define(
    "karpenter_nodes_terminated_total",
    MetricKind::Counter,
    &["nodepool", "zone"],
    "Nodes whose finalizer was removed.",
);

/// OPS-123.
pub const NODES_DRAINED: MetricDef = define(
    "karpenter_nodes_drained_total",
    MetricKind::Counter,
    &["nodepool"],
    "Nodes that were drained.",
);

/// OPS-124.
pub const NODES_TERMINATION_DURATION: MetricDef = define(
    "karpenter_nodes_termination_duration_seconds",
    MetricKind::Summary,
    &["nodepool"],
    "Time from deletion of a node to removal of its finalizer.",
);

/// OPS-125.
pub const NODES_LIFETIME_DURATION: MetricDef = define(
    "karpenter_nodes_lifetime_duration_seconds",
    MetricKind::Histogram(&buckets::LIFETIME),
    &["nodepool"],
    "Age of nodes when they are removed.",
);

/// OPS-126.
pub const PODS_EVICTION_REQUESTS: MetricDef = define(
    "karpenter_pods_eviction_requests_total",
    MetricKind::Counter,
    &["code"],
    "Answers to eviction requests, by HTTP code.",
);

/// OPS-127.
pub const PODS_DRAINED: MetricDef = define(
    "karpenter_pods_drained_total",
    MetricKind::Counter,
    &["reason"],
    "Evictions that were accepted, by reason of the disruption.",
);

// Pools, nodes, pods (only with cluster-state observability)

/// OPS-128.
pub const NODEPOOLS_LIMIT: MetricDef = define(
    "karpenter_nodepools_limit",
    MetricKind::Gauge,
    &["resource_type", "nodepool"],
    "Limits of a NodePool, in base units.",
);

/// OPS-128.
pub const NODEPOOLS_USAGE: MetricDef = define(
    "karpenter_nodepools_usage",
    MetricKind::Gauge,
    &["resource_type", "nodepool"],
    "Resources a NodePool has provisioned, in base units.",
);

/// OPS-129.
pub const NODEPOOLS_COST: MetricDef = define(
    "karpenter_nodepools_cost_total",
    MetricKind::Gauge,
    &["nodepool"],
    "Sum of the prices of a NodePool's offerings in use.",
);

/// OPS-130.
pub const NODEPOOLS_COST_TRACKER_ERRORS: MetricDef = define(
    "karpenter_nodepools_cost_tracker_errors_total",
    MetricKind::Counter,
    &["nodepool"],
    "Price look-ups that failed.",
);

/// OPS-131.
pub const NODES_ALLOCATABLE: MetricDef = define_per_node(
    "karpenter_nodes_allocatable",
    MetricKind::Gauge,
    &["node_name", "phase", "managed", "resource_type"],
    "Allocatable resources of a node, in base units.",
);

/// OPS-131.
pub const NODES_TOTAL_POD_REQUESTS: MetricDef = define_per_node(
    "karpenter_nodes_total_pod_requests",
    MetricKind::Gauge,
    &["node_name", "phase", "managed", "resource_type"],
    "Requests of the pods on a node, daemons excepted.",
);

/// OPS-131.
pub const NODES_TOTAL_POD_LIMITS: MetricDef = define_per_node(
    "karpenter_nodes_total_pod_limits",
    MetricKind::Gauge,
    &["node_name", "phase", "managed", "resource_type"],
    "Limits of the pods on a node, daemons excepted.",
);

/// OPS-131.
pub const NODES_TOTAL_DAEMON_REQUESTS: MetricDef = define_per_node(
    "karpenter_nodes_total_daemon_requests",
    MetricKind::Gauge,
    &["node_name", "phase", "managed", "resource_type"],
    "Requests of the daemon pods on a node.",
);

/// OPS-131.
pub const NODES_TOTAL_DAEMON_LIMITS: MetricDef = define_per_node(
    "karpenter_nodes_total_daemon_limits",
    MetricKind::Gauge,
    &["node_name", "phase", "managed", "resource_type"],
    "Limits of the daemon pods on a node.",
);

/// OPS-131.
pub const NODES_SYSTEM_OVERHEAD: MetricDef = define_per_node(
    "karpenter_nodes_system_overhead",
    MetricKind::Gauge,
    &["node_name", "phase", "managed", "resource_type"],
    "Capacity of a node less its allocatable resources.",
);

/// OPS-132.
pub const NODES_CURRENT_LIFETIME: MetricDef = define_per_node(
    "karpenter_nodes_current_lifetime_seconds",
    MetricKind::Gauge,
    &["node_name", "phase", "managed"],
    "Age of a node.",
);

/// OPS-133.
pub const CLUSTER_UTILIZATION_PERCENT: MetricDef = define(
    "karpenter_cluster_utilization_percent",
    MetricKind::Gauge,
    &["resource_type"],
    "Share of the allocatable resources that pods request.",
);

/// OPS-134.
pub const PODS_STATE: MetricDef = define(
    "karpenter_pods_state",
    MetricKind::Gauge,
    &[
        "name",
        "namespace",
        "owner",
        "node",
        "scheduled",
        "nodepool",
        "zone",
        "arch",
        "capacity_type",
        "instance_type",
        "phase",
        "ready",
        "managed",
    ],
    "One series per pod; always 1.",
);

/// OPS-135.
pub const PODS_STARTUP_DURATION: MetricDef = define(
    "karpenter_pods_startup_duration_seconds",
    MetricKind::Summary,
    &[],
    "Time from creation of a pod until it is ready.",
);

/// OPS-136.
pub const PODS_UNSTARTED_TIME: MetricDef = define(
    "karpenter_pods_unstarted_time_seconds",
    MetricKind::Gauge,
    &["name", "namespace"],
    "Age of a pod that is not ready yet.",
);

/// OPS-137.
pub const PODS_BOUND_DURATION: MetricDef = define(
    "karpenter_pods_bound_duration_seconds",
    MetricKind::Histogram(&buckets::DURATION),
    &[],
    "Time from creation of a pod until it is bound.",
);

/// OPS-138.
pub const PODS_UNBOUND_TIME: MetricDef = define(
    "karpenter_pods_unbound_time_seconds",
    MetricKind::Gauge,
    &["name", "namespace"],
    "Age of a pod that is not bound yet.",
);

/// OPS-139.
pub const PODS_PROVISIONING_BOUND_DURATION: MetricDef = define(
    "karpenter_pods_provisioning_bound_duration_seconds",
    MetricKind::Histogram(&buckets::DURATION),
    &[],
    "Time from the first placement of a pod until it is bound.",
);

/// OPS-139.
pub const PODS_PROVISIONING_STARTUP_DURATION: MetricDef = define(
    "karpenter_pods_provisioning_startup_duration_seconds",
    MetricKind::Histogram(&buckets::DURATION),
    &[],
    "Time from the first placement of a pod until it is ready.",
);

/// OPS-140.
pub const PODS_PROVISIONING_UNBOUND_TIME: MetricDef = define(
    "karpenter_pods_provisioning_unbound_time_seconds",
    MetricKind::Gauge,
    &["name", "namespace"],
    "Time since the first placement of a pod that is not bound yet.",
);

/// OPS-140.
pub const PODS_PROVISIONING_UNSTARTED_TIME: MetricDef = define(
    "karpenter_pods_provisioning_unstarted_time_seconds",
    MetricKind::Gauge,
    &["name", "namespace"],
    "Time since the first placement of a pod that is not ready yet.",
);

/// OPS-141.
pub const PODS_PROVISIONING_UNDECIDED_TIME: MetricDef = define(
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
    MetricKind::Gauge,
    &["name", "namespace"],
    "Time since a pod was first seen without a decision on it.",
);

// Scheduler and state

/// OPS-145.
pub const SCHEDULING_DURATION: MetricDef = define(
    "karpenter_scheduler_scheduling_duration_seconds",
    MetricKind::Histogram(&buckets::DURATION),
    &["controller"],
    "Duration of scheduling runs.",
);

/// OPS-146.
pub const SCHEDULER_QUEUE_DEPTH: MetricDef = define(
    "karpenter_scheduler_queue_depth",
    MetricKind::Gauge,
    &["controller", "scheduling_id"],
    "Pods left in the running scheduling simulation.",
);

/// OPS-147.
pub const SCHEDULER_UNFINISHED_WORK: MetricDef = define(
    "karpenter_scheduler_unfinished_work_seconds",
    MetricKind::Gauge,
    &["controller", "scheduling_id"],
    "Age of the running scheduling simulation.",
);

/// OPS-148.
pub const SCHEDULER_IGNORED_PODS: MetricDef = define(
    "karpenter_scheduler_ignored_pods_count",
    MetricKind::Gauge,
    &[],
    "Pending pods that failed validation.",
);

/// OPS-149.
pub const SCHEDULER_UNSCHEDULABLE_PODS: MetricDef = define(
    "karpenter_scheduler_unschedulable_pods_count",
    MetricKind::Gauge,
    &["controller"],
    "Pods no place was found for.",
);

/// OPS-150.
pub const SCHEDULER_PENDING_PODS_BY_ZONE: MetricDef = define(
    "karpenter_scheduler_pending_pods_by_effective_zone_count",
    MetricKind::Gauge,
    &["controller", "zone"],
    "Pending pods by the zone they can go to.",
);

/// OPS-151.
pub const PODS_SCHEDULING_DECISION_DURATION: MetricDef = define(
    "karpenter_pods_scheduling_decision_duration_seconds",
    MetricKind::Histogram(&buckets::DURATION),
    &[],
    "Time from first sight of a pod to the first decision on it.",
);

/// OPS-152.
pub const CLUSTER_STATE_NODE_COUNT: MetricDef = define(
    "karpenter_cluster_state_node_count",
    MetricKind::Gauge,
    &[],
    "Nodes in memory.",
);

/// OPS-153.
pub const CLUSTER_STATE_SYNCED: MetricDef = define(
    "karpenter_cluster_state_synced",
    MetricKind::Gauge,
    &[],
    "Whether the state in memory covers the cluster.",
);

/// OPS-154.
pub const CLUSTER_STATE_UNSYNCED_TIME: MetricDef = define(
    "karpenter_cluster_state_unsynced_time_seconds",
    MetricKind::Gauge,
    &[],
    "Time for which the state in memory has not covered the cluster.",
);

// Disruption

/// OPS-155.
pub const DISRUPTION_EVALUATION_DURATION: MetricDef = define(
    "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
    MetricKind::Histogram(&buckets::DURATION),
    &["reason", "consolidation_type"],
    "Duration of one disruption method's evaluation.",
);

/// OPS-156.
pub const DISRUPTION_DECISIONS: MetricDef = define(
    "karpenter_voluntary_disruption_decisions_total",
    MetricKind::Counter,
    &["decision", "reason", "consolidation_type"],
    "Disruption commands started.",
);

/// OPS-157.
pub const DISRUPTION_DECISIONS_BY_NODEPOOL: MetricDef = define(
    "karpenter_voluntary_disruption_decisions_by_nodepool_total",
    MetricKind::Counter,
    &["nodepool", "decision", "reason", "consolidation_type"],
    "Disruption commands started, once per pool concerned.",
);

/// OPS-158.
pub const DISRUPTION_ELIGIBLE_NODES: MetricDef = define(
    "karpenter_voluntary_disruption_eligible_nodes",
    MetricKind::Gauge,
    &["reason"],
    "Nodes a disruption method may choose from.",
);

/// OPS-159.
pub const DISRUPTION_CONSOLIDATION_TIMEOUTS: MetricDef = define(
    "karpenter_voluntary_disruption_consolidation_timeouts_total",
    MetricKind::Counter,
    &["consolidation_type"],
    "Consolidation runs that ran out of time.",
);

/// OPS-160.
pub const DISRUPTION_FAILED_VALIDATIONS: MetricDef = define(
    "karpenter_voluntary_disruption_failed_validations_total",
    MetricKind::Counter,
    &["consolidation_type"],
    "Candidates dropped when a command was validated.",
);

/// OPS-161.
pub const DISRUPTION_QUEUE_FAILURES: MetricDef = define(
    "karpenter_voluntary_disruption_queue_failures_total",
    MetricKind::Counter,
    &["decision", "reason", "consolidation_type"],
    "Replacements that were not ready when their command failed.",
);

/// OPS-162.
pub const NODEPOOLS_ALLOWED_DISRUPTIONS: MetricDef = define(
    "karpenter_nodepools_allowed_disruptions",
    MetricKind::Gauge,
    &["nodepool", "reason"],
    "Nodes of a pool that its budgets allow to disrupt now.",
);

/// OPS-163.
pub const NODEPOOLS_NODES_CONSUMING_BUDGETS: MetricDef = define(
    "karpenter_nodepools_nodes_consuming_budgets",
    MetricKind::Gauge,
    &["nodepool", "reason"],
    "Nodes of a pool that count against its budgets.",
);

/// OPS-164.
pub const CONSOLIDATION_SCORE: MetricDef = define(
    "karpenter_consolidation_score",
    MetricKind::Histogram(&buckets::SCORE),
    &["decision", "nodepool", "policy"],
    "Score of consolidation moves under the balanced policy.",
);

/// OPS-165.
pub const CONSOLIDATION_MOVES: MetricDef = define(
    "karpenter_consolidation_moves_total",
    MetricKind::Counter,
    &["decision", "nodepool", "policy"],
    "Consolidation moves evaluated.",
);

// Provider

/// OPS-167.
pub const CLOUDPROVIDER_DURATION: MetricDef = define(
    "karpenter_cloudprovider_duration_seconds",
    MetricKind::Histogram(&buckets::DEFAULT),
    &["controller", "method", "provider"],
    "Duration of calls to the cloud provider.",
);

/// OPS-168.
pub const CLOUDPROVIDER_ERRORS: MetricDef = define(
    "karpenter_cloudprovider_errors_total",
    MetricKind::Counter,
    &["controller", "method", "provider", "error"],
    "Calls to the cloud provider that failed.",
);

// Status conditions of kinds, without the kind in the name

/// OPS-172.
pub const STATUS_TRANSITION_SECONDS: MetricDef = define(
    "operator_status_condition_transition_seconds",
    MetricKind::Histogram(&buckets::DEFAULT),
    &["type", "status", "group", "kind"],
    "How long a condition held its status before it changed.",
);

/// OPS-172.
pub const STATUS_CONDITION_COUNT: MetricDef = define(
    "operator_status_condition_count",
    MetricKind::Gauge,
    &["namespace", "name", "type", "status", "reason", "group", "kind"],
    "Conditions an object has; always 1.",
);

/// OPS-172.
pub const STATUS_CURRENT_STATUS_SECONDS: MetricDef = define(
    "operator_status_condition_current_status_seconds",
    MetricKind::Gauge,
    &["namespace", "name", "type", "status", "reason", "group", "kind"],
    "How long a condition has held its status.",
);

/// OPS-172.
pub const STATUS_TRANSITIONS: MetricDef = define(
    "operator_status_condition_transitions_total",
    MetricKind::Counter,
    &["type", "status", "reason", "group", "kind"],
    "Changes of conditions.",
);

/// OPS-172.
pub const TERMINATION_CURRENT_TIME: MetricDef = define(
    "operator_termination_current_time_seconds",
    MetricKind::Gauge,
    &["namespace", "name", "group", "kind"],
    "How long an object has been terminating.",
);

/// OPS-172.
pub const TERMINATION_DURATION: MetricDef = define(
    "operator_termination_duration_seconds",
    MetricKind::Histogram(&buckets::DEFAULT),
    &["group", "kind"],
    "Time from deletion of an object until it was gone.",
);

// Reconcile loops

/// OPS-176.
pub const RECONCILE_TOTAL: MetricDef = define(
    "controller_runtime_reconcile_total",
    MetricKind::Counter,
    &["controller", "result"],
    "Reconciliations by result.",
);

/// OPS-176.
pub const RECONCILE_ERRORS: MetricDef = define(
    "controller_runtime_reconcile_errors_total",
    MetricKind::Counter,
    &["controller"],
    "Reconciliations that failed.",
);

/// OPS-176.
pub const RECONCILE_TERMINAL_ERRORS: MetricDef = define(
    "controller_runtime_terminal_reconcile_errors_total",
    MetricKind::Counter,
    &["controller"],
    "Reconciliations that failed for good.",
);

/// OPS-176.
pub const RECONCILE_PANICS: MetricDef = define(
    "controller_runtime_reconcile_panics_total",
    MetricKind::Counter,
    &["controller"],
    "Reconciliations that panicked.",
);

/// OPS-176.
pub const RECONCILE_TIMEOUTS: MetricDef = define(
    "controller_runtime_reconcile_timeouts_total",
    MetricKind::Counter,
    &["controller"],
    "Reconciliations that ran out of time.",
);

/// OPS-176.
pub const RECONCILE_ACTIVE_WORKERS: MetricDef = define(
    "controller_runtime_active_workers",
    MetricKind::Gauge,
    &["controller"],
    "Workers that are reconciling now.",
);

/// OPS-176.
pub const RECONCILE_MAX_CONCURRENT: MetricDef = define(
    "controller_runtime_max_concurrent_reconciles",
    MetricKind::Gauge,
    &["controller"],
    "Most reconciliations that may run at once.",
);

/// OPS-176.
pub const RECONCILE_TIME: MetricDef = define(
    "controller_runtime_reconcile_time_seconds",
    MetricKind::Histogram(&buckets::RECONCILE),
    &["controller"],
    "Duration of reconciliations.",
);

/// OPS-177.
pub const WORKQUEUE_DEPTH: MetricDef = define(
    "workqueue_depth",
    MetricKind::Gauge,
    &["name", "controller", "priority"],
    "Keys that wait in a work queue.",
);

/// OPS-177.
pub const WORKQUEUE_ADDS: MetricDef = define(
    "workqueue_adds_total",
    MetricKind::Counter,
    &["name", "controller"],
    "Keys added to a work queue.",
);

/// OPS-177.
pub const WORKQUEUE_RETRIES: MetricDef = define(
    "workqueue_retries_total",
    MetricKind::Counter,
    &["name", "controller"],
    "Keys a work queue takes up again after a failure.",
);

/// OPS-177.
pub const WORKQUEUE_UNFINISHED_WORK: MetricDef = define(
    "workqueue_unfinished_work_seconds",
    MetricKind::Gauge,
    &["name", "controller"],
    "Time spent so far on keys that are being worked on.",
);

/// OPS-177.
pub const WORKQUEUE_LONGEST_RUNNING: MetricDef = define(
    "workqueue_longest_running_processor_seconds",
    MetricKind::Gauge,
    &["name", "controller"],
    "Time spent so far on the key worked on longest.",
);

/// OPS-177.
pub const WORKQUEUE_QUEUE_DURATION: MetricDef = define(
    "workqueue_queue_duration_seconds",
    MetricKind::Histogram(&buckets::WORKQUEUE),
    &["name", "controller"],
    "Time a key waits in a work queue.",
);

/// OPS-177.
pub const WORKQUEUE_WORK_DURATION: MetricDef = define(
    "workqueue_work_duration_seconds",
    MetricKind::Histogram(&buckets::WORKQUEUE),
    &["name", "controller"],
    "Time work on a key takes.",
);

/// OPS-178.
pub const CLIENT_REQUEST_DURATION: MetricDef = define(
    "client_go_request_duration_seconds",
    MetricKind::Histogram(&buckets::REQUEST),
    &["verb", "group", "version", "kind", "subresource"],
    "Duration of requests to the Kubernetes API.",
);

/// OPS-178.
pub const CLIENT_REQUESTS: MetricDef = define(
    "client_go_request_total",
    MetricKind::Counter,
    &["code", "method"],
    "Requests to the Kubernetes API by HTTP code and method.",
);

/// OPS-179.
pub const REST_CLIENT_REQUESTS: MetricDef = define(
    "rest_client_requests_total",
    MetricKind::Counter,
    &["code", "method", "host"],
    "Kept for compatibility; never counted.",
);

/// OPS-179.
pub const LEADER_STATUS: MetricDef = define(
    "leader_election_master_status",
    MetricKind::Gauge,
    &["name"],
    "Whether this process leads.",
);

/// OPS-179.
pub const LEADER_SLOWPATH: MetricDef = define(
    "leader_election_slowpath_total",
    MetricKind::Counter,
    &["name"],
    "Renewals that had to read the lease again.",
);

/// Every definition above with a fixed name.
pub const CATALOGUE: &[MetricDef] = &[
    BUILD_INFO,
    NODECLAIMS_CREATED,
    NODECLAIMS_TERMINATED,
    NODECLAIMS_DISRUPTED,
    NODECLAIMS_TERMINATION_DURATION,
    NODECLAIMS_INSTANCE_TERMINATION_DURATION,
    NODECLAIMS_UNHEALTHY_DISRUPTED,
    NODES_CREATED,
    NODES_TERMINATED,
    NODES_DRAINED,
    NODES_TERMINATION_DURATION,
    NODES_LIFETIME_DURATION,
    PODS_EVICTION_REQUESTS,
    PODS_DRAINED,
    NODEPOOLS_LIMIT,
    NODEPOOLS_USAGE,
    NODEPOOLS_COST,
    NODEPOOLS_COST_TRACKER_ERRORS,
    NODES_ALLOCATABLE,
    NODES_TOTAL_POD_REQUESTS,
    NODES_TOTAL_POD_LIMITS,
    NODES_TOTAL_DAEMON_REQUESTS,
    NODES_TOTAL_DAEMON_LIMITS,
    NODES_SYSTEM_OVERHEAD,
    NODES_CURRENT_LIFETIME,
    CLUSTER_UTILIZATION_PERCENT,
    PODS_STATE,
    PODS_STARTUP_DURATION,
    PODS_UNSTARTED_TIME,
    PODS_BOUND_DURATION,
    PODS_UNBOUND_TIME,
    PODS_PROVISIONING_BOUND_DURATION,
    PODS_PROVISIONING_STARTUP_DURATION,
    PODS_PROVISIONING_UNBOUND_TIME,
    PODS_PROVISIONING_UNSTARTED_TIME,
    PODS_PROVISIONING_UNDECIDED_TIME,
    SCHEDULING_DURATION,
    SCHEDULER_QUEUE_DEPTH,
    SCHEDULER_UNFINISHED_WORK,
    SCHEDULER_IGNORED_PODS,
    SCHEDULER_UNSCHEDULABLE_PODS,
    SCHEDULER_PENDING_PODS_BY_ZONE,
    PODS_SCHEDULING_DECISION_DURATION,
    CLUSTER_STATE_NODE_COUNT,
    CLUSTER_STATE_SYNCED,
    CLUSTER_STATE_UNSYNCED_TIME,
    DISRUPTION_EVALUATION_DURATION,
    DISRUPTION_DECISIONS,
    DISRUPTION_DECISIONS_BY_NODEPOOL,
    DISRUPTION_ELIGIBLE_NODES,
    DISRUPTION_CONSOLIDATION_TIMEOUTS,
    DISRUPTION_FAILED_VALIDATIONS,
    DISRUPTION_QUEUE_FAILURES,
    NODEPOOLS_ALLOWED_DISRUPTIONS,
    NODEPOOLS_NODES_CONSUMING_BUDGETS,
    CONSOLIDATION_SCORE,
    CONSOLIDATION_MOVES,
    CLOUDPROVIDER_DURATION,
    CLOUDPROVIDER_ERRORS,
    STATUS_TRANSITION_SECONDS,
    STATUS_CONDITION_COUNT,
    STATUS_CURRENT_STATUS_SECONDS,
    STATUS_TRANSITIONS,
    TERMINATION_CURRENT_TIME,
    TERMINATION_DURATION,
    RECONCILE_TOTAL,
    RECONCILE_ERRORS,
    RECONCILE_TERMINAL_ERRORS,
    RECONCILE_PANICS,
    RECONCILE_TIMEOUTS,
    RECONCILE_ACTIVE_WORKERS,
    RECONCILE_MAX_CONCURRENT,
    RECONCILE_TIME,
    WORKQUEUE_DEPTH,
    WORKQUEUE_ADDS,
    WORKQUEUE_RETRIES,
    WORKQUEUE_UNFINISHED_WORK,
    WORKQUEUE_LONGEST_RUNNING,
    WORKQUEUE_QUEUE_DURATION,
    WORKQUEUE_WORK_DURATION,
    CLIENT_REQUEST_DURATION,
    CLIENT_REQUESTS,
    REST_CLIENT_REQUESTS,
    LEADER_STATUS,
    LEADER_SLOWPATH,
];

/// The six families about conditions and termination of one kind (OPS-170).
#[derive(Clone, Debug)]
pub struct StatusConditions {
    /// How long the previous status lasted, labelled with it (OPS-174).
    pub transition_seconds: MetricDef,
    /// 1 per condition of an object.
    pub condition_count: MetricDef,
    /// How long a condition has held its status.
    pub current_status_seconds: MetricDef,
    /// Changes, labelled with the new status and reason (OPS-174).
    pub transitions_total: MetricDef,
    /// How long an object has been terminating.
    pub termination_current_time_seconds: MetricDef,
    /// Recorded when an object disappears (OPS-175).
    pub termination_duration_seconds: MetricDef,
}

/// The families of `kind`: nodeclaim, nodepool, node or capacitybuffer.
pub fn status_conditions(kind: &str) -> StatusConditions {
    let extra = match kind {
        "nodeclaim" => ExtraLabels::NodeClaim,
        "node" => ExtraLabels::Node,
        _ => ExtraLabels::None,
    };
    let family = |of: &str, metric: MetricKind, labels, help| MetricDef {
        name: Cow::Owned(format!("operator_{kind}_{of}")),
        kind: metric,
        labels,
        extra,
        help,
    };
    let histogram = MetricKind::Histogram(&buckets::STATUS);
    let condition: &[&str] = &["namespace", "name", "type", "status", "reason"];
    StatusConditions {
        transition_seconds: family(
            "status_condition_transition_seconds",
            histogram,
            &["type", "status"],
            STATUS_TRANSITION_SECONDS.help,
        ),
        condition_count: family(
            "status_condition_count",
            MetricKind::Gauge,
            condition,
            STATUS_CONDITION_COUNT.help,
        ),
        current_status_seconds: family(
            "status_condition_current_status_seconds",
            MetricKind::Gauge,
            condition,
            STATUS_CURRENT_STATUS_SECONDS.help,
        ),
        transitions_total: family(
            "status_condition_transitions_total",
            MetricKind::Counter,
            &["type", "status", "reason"],
            STATUS_TRANSITIONS.help,
        ),
        termination_current_time_seconds: family(
            "termination_current_time_seconds",
            MetricKind::Gauge,
            &["namespace", "name"],
            TERMINATION_CURRENT_TIME.help,
        ),
        termination_duration_seconds: family(
            "termination_duration_seconds",
            histogram,
            &[],
            TERMINATION_DURATION.help,
        ),
    }
}
