//! Every metric in one table: name, type, labels, buckets, help (sections 8 to 10 of `docs/behaviour/operations.md`).
//!
//! Upstream's casing of label values is inconsistent and dashboards rely on it (OPS-250); nothing here normalises.
//! The families per kind of object are in [`super::StatusConditions`].

use std::borrow::Cow;

use super::{ExtraLabels, MetricDef, MetricKind, buckets};

/// A row is `CONSTANT: type "name" [labels] "help";`, with `+ WellKnown` after the labels of families that also carry
/// the well-known node labels. The help text is the constant's documentation too.
macro_rules! catalogue {
    ($(
        $constant:ident: $kind:ident $(($buckets:expr))? $name:literal [$($label:literal),*] $(+ $extra:ident)? $help:literal;
    )*) => {
        $(
            #[doc = $help]
            pub static $constant: MetricDef = MetricDef {
                name: Cow::Borrowed($name),
                kind: catalogue!(@kind $kind $($buckets)?),
                labels: &[$($label),*],
                extra: catalogue!(@extra $($extra)?),
                help: $help,
            };
        )*
        /// Every definition above.
        pub static CATALOGUE: &[&MetricDef] = &[$(&$constant),*];
    };
    (@kind counter) => { MetricKind::Counter };
    (@kind gauge) => { MetricKind::Gauge };
    (@kind summary) => { MetricKind::Summary };
    (@kind histogram $buckets:expr) => { MetricKind::Histogram($buckets) };
    (@extra) => { ExtraLabels::None };
    (@extra $extra:ident) => { ExtraLabels::$extra };
}

catalogue! {
    // Objects and lifecycle

    // OPS-114
    BUILD_INFO: gauge "karpenter_build_info" ["version", "goversion", "goarch", "commit"]
        "Build of the controller; always 1.";

    // OPS-115
    NODECLAIMS_CREATED: counter "karpenter_nodeclaims_created_total" ["reason", "nodepool", "min_values_relaxed"]
        "NodeClaims created by the controller, by reason and pool.";

    // OPS-116
    NODECLAIMS_TERMINATED: counter "karpenter_nodeclaims_terminated_total" ["nodepool", "capacity_type", "zone"]
        "NodeClaims whose finalizer was removed.";

    // OPS-117
    NODECLAIMS_DISRUPTED: counter "karpenter_nodeclaims_disrupted_total" ["reason", "nodepool", "capacity_type"]
        "NodeClaims deleted by the controller, by reason.";

    // OPS-118
    NODECLAIMS_TERMINATION_DURATION: histogram(&buckets::POWERS_1_TO_2048) "karpenter_nodeclaims_termination_duration_seconds"
        ["nodepool"]
        "Time from deletion of a NodeClaim to removal of its finalizer.";

    // OPS-119
    NODECLAIMS_INSTANCE_TERMINATION_DURATION: histogram(&buckets::POWERS_1_TO_1024) "karpenter_nodeclaims_instance_termination_duration_seconds"
        ["nodepool"]
        "Time from the call that ends an instance until it is gone.";

    // OPS-120
    NODECLAIMS_UNHEALTHY_DISRUPTED: counter "karpenter_nodeclaims_unhealthy_disrupted_total"
        ["condition", "nodepool", "capacity_type", "image_id"]
        "NodeClaims deleted by node repair, by the condition that asked for it.";

    // OPS-121
    NODES_CREATED: counter "karpenter_nodes_created_total" ["nodepool", "zone"]
        "Nodes that registered.";

    // OPS-122
    NODES_TERMINATED: counter "karpenter_nodes_terminated_total" ["nodepool", "zone"]
        "Nodes whose finalizer was removed.";

    // OPS-123
    NODES_DRAINED: counter "karpenter_nodes_drained_total" ["nodepool"]
        "Nodes that were drained.";

    // OPS-124
    NODES_TERMINATION_DURATION: summary "karpenter_nodes_termination_duration_seconds" ["nodepool"]
        "Time from deletion of a node to removal of its finalizer.";

    // OPS-125
    NODES_LIFETIME_DURATION: histogram(&buckets::LIFETIME) "karpenter_nodes_lifetime_duration_seconds" ["nodepool"]
        "Age of nodes when they are removed.";

    // OPS-126
    PODS_EVICTION_REQUESTS: counter "karpenter_pods_eviction_requests_total" ["code"]
        "Answers to eviction requests, by HTTP code.";

    // OPS-127
    PODS_DRAINED: counter "karpenter_pods_drained_total" ["reason"]
        "Evictions that were accepted, by reason of the disruption.";

    // Pools, nodes, pods (only with cluster-state observability)

    // OPS-128
    NODEPOOLS_LIMIT: gauge "karpenter_nodepools_limit" ["resource_type", "nodepool"]
        "Limits of a NodePool, in base units.";

    // OPS-128
    NODEPOOLS_USAGE: gauge "karpenter_nodepools_usage" ["resource_type", "nodepool"]
        "Resources a NodePool has provisioned, in base units.";

    // OPS-129
    NODEPOOLS_COST: gauge "karpenter_nodepools_cost_total" ["nodepool"]
        "Sum of the prices of a NodePool's offerings in use.";

    // OPS-130
    NODEPOOLS_COST_TRACKER_ERRORS: counter "karpenter_nodepools_cost_tracker_errors_total" ["nodepool"]
        "Price look-ups that failed.";

    // OPS-131
    NODES_ALLOCATABLE: gauge "karpenter_nodes_allocatable"
        ["node_name", "phase", "managed", "resource_type"] + WellKnown
        "Allocatable resources of a node, in base units.";

    // OPS-131
    NODES_TOTAL_POD_REQUESTS: gauge "karpenter_nodes_total_pod_requests"
        ["node_name", "phase", "managed", "resource_type"] + WellKnown
        "Requests of the pods on a node, daemons excepted.";

    // OPS-131
    NODES_TOTAL_POD_LIMITS: gauge "karpenter_nodes_total_pod_limits"
        ["node_name", "phase", "managed", "resource_type"] + WellKnown
        "Limits of the pods on a node, daemons excepted.";

    // OPS-131
    NODES_TOTAL_DAEMON_REQUESTS: gauge "karpenter_nodes_total_daemon_requests"
        ["node_name", "phase", "managed", "resource_type"] + WellKnown
        "Requests of the daemon pods on a node.";

    // OPS-131
    NODES_TOTAL_DAEMON_LIMITS: gauge "karpenter_nodes_total_daemon_limits"
        ["node_name", "phase", "managed", "resource_type"] + WellKnown
        "Limits of the daemon pods on a node.";

    // OPS-131
    NODES_SYSTEM_OVERHEAD: gauge "karpenter_nodes_system_overhead"
        ["node_name", "phase", "managed", "resource_type"] + WellKnown
        "Capacity of a node less its allocatable resources.";

    // OPS-132
    NODES_CURRENT_LIFETIME: gauge "karpenter_nodes_current_lifetime_seconds"
        ["node_name", "phase", "managed"] + WellKnown
        "Age of a node.";

    // OPS-133
    CLUSTER_UTILIZATION_PERCENT: gauge "karpenter_cluster_utilization_percent" ["resource_type"]
        "Share of the allocatable resources that pods request.";

    // OPS-134
    PODS_STATE: gauge "karpenter_pods_state"
        ["name", "namespace", "owner", "node", "scheduled", "nodepool", "zone", "arch", "capacity_type", "instance_type", "phase", "ready", "managed"]
        "One series per pod; always 1.";

    // OPS-135
    PODS_STARTUP_DURATION: summary "karpenter_pods_startup_duration_seconds" []
        "Time from creation of a pod until it is ready.";

    // OPS-136
    PODS_UNSTARTED_TIME: gauge "karpenter_pods_unstarted_time_seconds" ["name", "namespace"]
        "Age of a pod that is not ready yet.";

    // OPS-137
    PODS_BOUND_DURATION: histogram(&buckets::DURATION) "karpenter_pods_bound_duration_seconds" []
        "Time from creation of a pod until it is bound.";

    // OPS-138
    PODS_UNBOUND_TIME: gauge "karpenter_pods_unbound_time_seconds" ["name", "namespace"]
        "Age of a pod that is not bound yet.";

    // OPS-139
    PODS_PROVISIONING_BOUND_DURATION: histogram(&buckets::DURATION) "karpenter_pods_provisioning_bound_duration_seconds"
        []
        "Time from the first placement of a pod until it is bound.";

    // OPS-139
    PODS_PROVISIONING_STARTUP_DURATION: histogram(&buckets::DURATION) "karpenter_pods_provisioning_startup_duration_seconds"
        []
        "Time from the first placement of a pod until it is ready.";

    // OPS-140
    PODS_PROVISIONING_UNBOUND_TIME: gauge "karpenter_pods_provisioning_unbound_time_seconds" ["name", "namespace"]
        "Time since the first placement of a pod that is not bound yet.";

    // OPS-140
    PODS_PROVISIONING_UNSTARTED_TIME: gauge "karpenter_pods_provisioning_unstarted_time_seconds" ["name", "namespace"]
        "Time since the first placement of a pod that is not ready yet.";

    // OPS-141
    PODS_PROVISIONING_UNDECIDED_TIME: gauge "karpenter_pods_provisioning_scheduling_undecided_time_seconds"
        ["name", "namespace"]
        "Time since a pod was first seen without a decision on it.";

    // Scheduler and state

    // OPS-145
    SCHEDULING_DURATION: histogram(&buckets::DURATION) "karpenter_scheduler_scheduling_duration_seconds"
        ["controller"]
        "Duration of scheduling runs.";

    // OPS-146
    SCHEDULER_QUEUE_DEPTH: gauge "karpenter_scheduler_queue_depth" ["controller", "scheduling_id"]
        "Pods left in the running scheduling simulation.";

    // OPS-147
    SCHEDULER_UNFINISHED_WORK: gauge "karpenter_scheduler_unfinished_work_seconds" ["controller", "scheduling_id"]
        "Age of the running scheduling simulation.";

    // OPS-148
    SCHEDULER_IGNORED_PODS: gauge "karpenter_scheduler_ignored_pods_count" []
        "Pending pods that failed validation.";

    // OPS-149
    SCHEDULER_UNSCHEDULABLE_PODS: gauge "karpenter_scheduler_unschedulable_pods_count" ["controller"]
        "Pods no place was found for.";

    // OPS-150
    SCHEDULER_PENDING_PODS_BY_ZONE: gauge "karpenter_scheduler_pending_pods_by_effective_zone_count"
        ["controller", "zone"]
        "Pending pods by the zone they can go to.";

    // OPS-151
    PODS_SCHEDULING_DECISION_DURATION: histogram(&buckets::DURATION) "karpenter_pods_scheduling_decision_duration_seconds"
        []
        "Time from first sight of a pod to the first decision on it.";

    // OPS-152
    CLUSTER_STATE_NODE_COUNT: gauge "karpenter_cluster_state_node_count" []
        "Nodes in memory.";

    // OPS-153
    CLUSTER_STATE_SYNCED: gauge "karpenter_cluster_state_synced" []
        "Whether the state in memory covers the cluster.";

    // OPS-154
    CLUSTER_STATE_UNSYNCED_TIME: gauge "karpenter_cluster_state_unsynced_time_seconds" []
        "Time for which the state in memory has not covered the cluster.";

    // Disruption

    // OPS-155
    DISRUPTION_EVALUATION_DURATION: histogram(&buckets::DURATION) "karpenter_voluntary_disruption_decision_evaluation_duration_seconds"
        ["reason", "consolidation_type"]
        "Duration of one disruption method's evaluation.";

    // OPS-156
    DISRUPTION_DECISIONS: counter "karpenter_voluntary_disruption_decisions_total"
        ["decision", "reason", "consolidation_type"]
        "Disruption commands started.";

    // OPS-157
    DISRUPTION_DECISIONS_BY_NODEPOOL: counter "karpenter_voluntary_disruption_decisions_by_nodepool_total"
        ["nodepool", "decision", "reason", "consolidation_type"]
        "Disruption commands started, once per pool concerned.";

    // OPS-158
    DISRUPTION_ELIGIBLE_NODES: gauge "karpenter_voluntary_disruption_eligible_nodes" ["reason"]
        "Nodes a disruption method may choose from.";

    // OPS-159
    DISRUPTION_CONSOLIDATION_TIMEOUTS: counter "karpenter_voluntary_disruption_consolidation_timeouts_total"
        ["consolidation_type"]
        "Consolidation runs that ran out of time.";

    // OPS-160
    DISRUPTION_FAILED_VALIDATIONS: counter "karpenter_voluntary_disruption_failed_validations_total"
        ["consolidation_type"]
        "Candidates dropped when a command was validated.";

    // OPS-161
    DISRUPTION_QUEUE_FAILURES: counter "karpenter_voluntary_disruption_queue_failures_total"
        ["decision", "reason", "consolidation_type"]
        "Replacements that were not ready when their command failed.";

    // OPS-162
    NODEPOOLS_ALLOWED_DISRUPTIONS: gauge "karpenter_nodepools_allowed_disruptions" ["nodepool", "reason"]
        "Nodes of a pool that its budgets allow to disrupt now.";

    // OPS-163
    NODEPOOLS_NODES_CONSUMING_BUDGETS: gauge "karpenter_nodepools_nodes_consuming_budgets" ["nodepool", "reason"]
        "Nodes of a pool that count against its budgets.";

    // OPS-164
    CONSOLIDATION_SCORE: histogram(&buckets::SCORE) "karpenter_consolidation_score" ["decision", "nodepool", "policy"]
        "Score of consolidation moves under the balanced policy.";

    // OPS-165
    CONSOLIDATION_MOVES: counter "karpenter_consolidation_moves_total" ["decision", "nodepool", "policy"]
        "Consolidation moves evaluated.";

    // Provider

    // OPS-167
    CLOUDPROVIDER_DURATION: histogram(&buckets::DEFAULT) "karpenter_cloudprovider_duration_seconds"
        ["controller", "method", "provider"]
        "Duration of calls to the cloud provider.";

    // OPS-168
    CLOUDPROVIDER_ERRORS: counter "karpenter_cloudprovider_errors_total" ["controller", "method", "provider", "error"]
        "Calls to the cloud provider that failed.";

    // Status conditions of kinds, without the kind in the name

    // OPS-172
    STATUS_TRANSITION_SECONDS: histogram(&buckets::DEFAULT) "operator_status_condition_transition_seconds"
        ["type", "status", "group", "kind"]
        "How long a condition held its status before it changed.";

    // OPS-172
    STATUS_CONDITION_COUNT: gauge "operator_status_condition_count"
        ["namespace", "name", "type", "status", "reason", "group", "kind"]
        "Conditions an object has; always 1.";

    // OPS-172
    STATUS_CURRENT_STATUS_SECONDS: gauge "operator_status_condition_current_status_seconds"
        ["namespace", "name", "type", "status", "reason", "group", "kind"]
        "How long a condition has held its status.";

    // OPS-172
    STATUS_TRANSITIONS: counter "operator_status_condition_transitions_total"
        ["type", "status", "reason", "group", "kind"]
        "Changes of conditions.";

    // OPS-172
    TERMINATION_CURRENT_TIME: gauge "operator_termination_current_time_seconds" ["namespace", "name", "group", "kind"]
        "How long an object has been terminating.";

    // OPS-172
    TERMINATION_DURATION: histogram(&buckets::DEFAULT) "operator_termination_duration_seconds" ["group", "kind"]
        "Time from deletion of an object until it was gone.";

    // Reconcile loops

    // OPS-176
    RECONCILE_TOTAL: counter "controller_runtime_reconcile_total" ["controller", "result"]
        "Reconciliations by result.";

    // OPS-176
    RECONCILE_ERRORS: counter "controller_runtime_reconcile_errors_total" ["controller"]
        "Reconciliations that failed.";

    // OPS-176
    RECONCILE_TERMINAL_ERRORS: counter "controller_runtime_terminal_reconcile_errors_total" ["controller"]
        "Reconciliations that failed for good.";

    // OPS-176
    RECONCILE_PANICS: counter "controller_runtime_reconcile_panics_total" ["controller"]
        "Reconciliations that panicked.";

    // OPS-176
    RECONCILE_TIMEOUTS: counter "controller_runtime_reconcile_timeouts_total" ["controller"]
        "Reconciliations that ran out of time.";

    // OPS-176
    RECONCILE_ACTIVE_WORKERS: gauge "controller_runtime_active_workers" ["controller"]
        "Workers that are reconciling now.";

    // OPS-176
    RECONCILE_MAX_CONCURRENT: gauge "controller_runtime_max_concurrent_reconciles" ["controller"]
        "Most reconciliations that may run at once.";

    // OPS-176
    RECONCILE_TIME: histogram(&buckets::RECONCILE) "controller_runtime_reconcile_time_seconds" ["controller"]
        "Duration of reconciliations.";

    // OPS-177
    WORKQUEUE_DEPTH: gauge "workqueue_depth" ["name", "controller", "priority"]
        "Keys that wait in a work queue.";

    // OPS-177
    WORKQUEUE_ADDS: counter "workqueue_adds_total" ["name", "controller"]
        "Keys added to a work queue.";

    // OPS-177
    WORKQUEUE_RETRIES: counter "workqueue_retries_total" ["name", "controller"]
        "Keys a work queue takes up again after a failure.";

    // OPS-177
    WORKQUEUE_UNFINISHED_WORK: gauge "workqueue_unfinished_work_seconds" ["name", "controller"]
        "Time spent so far on keys that are being worked on.";

    // OPS-177
    WORKQUEUE_LONGEST_RUNNING: gauge "workqueue_longest_running_processor_seconds" ["name", "controller"]
        "Time spent so far on the key worked on longest.";

    // OPS-177
    WORKQUEUE_QUEUE_DURATION: histogram(&buckets::WORKQUEUE) "workqueue_queue_duration_seconds" ["name", "controller"]
        "Time a key waits in a work queue.";

    // OPS-177
    WORKQUEUE_WORK_DURATION: histogram(&buckets::WORKQUEUE) "workqueue_work_duration_seconds" ["name", "controller"]
        "Time work on a key takes.";

    // OPS-178
    CLIENT_REQUEST_DURATION: histogram(&buckets::REQUEST) "client_go_request_duration_seconds"
        ["verb", "group", "version", "kind", "subresource"]
        "Duration of requests to the Kubernetes API.";

    // OPS-178
    CLIENT_REQUESTS: counter "client_go_request_total" ["code", "method"]
        "Requests to the Kubernetes API by HTTP code and method.";

    // OPS-179
    REST_CLIENT_REQUESTS: counter "rest_client_requests_total" ["code", "method", "host"]
        "Kept for compatibility; never counted.";

    // OPS-179
    LEADER_STATUS: gauge "leader_election_master_status" ["name"]
        "Whether this process leads.";

    // OPS-179
    LEADER_SLOWPATH: counter "leader_election_slowpath_total" ["name"]
        "Renewals that had to read the lease again.";

    // Kerf's own

    PLAN_GAP: gauge "kerf_plan_gap_ratio" []
        "How much a plan that launched nodes costs more than a lower bound of its cost, as a share of the bound; at most one plan in five minutes is measured.";

    // Kerf's own, with --observe

    SHADOW_DECISIONS: counter "kerf_shadow_decisions_total" ["decision", "reason"]
        "Decisions made beside another autoscaler and not carried out.";

    SHADOW_SAVINGS: gauge "kerf_shadow_savings_per_hour" []
        "What the disruption commands that hold and are not carried out would save, in dollars per hour.";
}
