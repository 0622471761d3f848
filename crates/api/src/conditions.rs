//! Condition types, reasons and fixed messages (sections 2, 3, 4 and 11 of `docs/behaviour/api.md`).

/// The root of every kind's conditions (API-186).
pub const READY: &str = "Ready";
/// Reason of a condition that was not set yet (API-178).
pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
/// The message of [`AWAITING_RECONCILIATION`].
pub const AWAITING_RECONCILIATION_MESSAGE: &str = "object is awaiting reconciliation";
/// Reason of a root with a dependent that is False (API-184).
pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
/// Reason of a root with a dependent that is not known yet (API-184).
pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";

/// NodePool, NodeOverlay and NodeRepairPolicy: the object passed validation (API-084, API-132).
pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";

/// Conditions of a NodePool.
pub mod node_pool {
    /// Its node class can be used (API-085).
    pub const NODE_CLASS_READY: &str = "NodeClassReady";
    /// Its latest nodes have registered; not part of Ready (API-086).
    pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

    /// Reason of a failed validation (API-067).
    pub const VALIDATION_FAILED: &str = "NodePoolValidationFailed";
    /// Reason for a node class that does not exist.
    pub const NODE_CLASS_NOT_FOUND: &str = "NodeClassNotFound";
    /// Message for a node class that does not exist.
    pub const NODE_CLASS_NOT_FOUND_MESSAGE: &str = "NodeClass not found on cluster";
    /// Reason for a node class that is being deleted.
    pub const NODE_CLASS_TERMINATING: &str = "NodeClassTerminating";
    /// Message for a node class that is being deleted.
    pub const NODE_CLASS_TERMINATING_MESSAGE: &str = "NodeClass is Terminating";
    /// Reason for a node class whose readiness is unknown.
    pub const NODE_CLASS_READINESS_UNKNOWN: &str = "NodeClassReadinessUnknown";
    /// Message for a node class whose readiness is unknown.
    pub const NODE_CLASS_READINESS_UNKNOWN_MESSAGE: &str = "Node Class Readiness Unknown";
    /// Reason for nodes that were launched and did not register.
    pub const REGISTRATION_FAILED: &str = "RegistrationFailed";
    /// Message for nodes that were launched and did not register.
    pub const REGISTRATION_FAILED_MESSAGE: &str = "Failed to register node";

    /// The conditions Ready depends on.
    pub const DEPENDENTS: [&str; 2] = [super::VALIDATION_SUCCEEDED, NODE_CLASS_READY];
}

/// Conditions of a Pod that Kerf writes.
pub mod pod {
    /// Kerf has nominated the pod to the node that the message names (`status.nominatedNodeName`).
    pub const NOMINATED: &str = "kerf.sh/Nominated";
    /// Reason of [`NOMINATED`].
    pub const PLANNED_ONTO_NODE: &str = "PlannedOntoNode";
}

/// Conditions of a NodeClaim.
pub mod node_claim {
    /// The instance exists (API-108).
    pub const LAUNCHED: &str = "Launched";
    /// The instance has joined as a Node (API-109).
    pub const REGISTERED: &str = "Registered";
    /// The Node can run pods (API-110).
    pub const INITIALIZED: &str = "Initialized";
    /// No pod event happened on the node for `consolidateAfter` (API-112).
    pub const CONSOLIDATABLE: &str = "Consolidatable";
    /// The node no longer is what its pool asks for (API-113).
    pub const DRIFTED: &str = "Drifted";
    /// No pod is left to drain (API-114).
    pub const DRAINED: &str = "Drained";
    /// No volume is attached any more (API-115).
    pub const VOLUMES_DETACHED: &str = "VolumesDetached";
    /// The provider was asked to terminate the instance (API-116).
    pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
    /// Claim and Node agree (API-117).
    pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
    /// Why the node is being disrupted (API-118).
    pub const DISRUPTION_REASON: &str = "DisruptionReason";

    /// Reason for a launch that failed.
    pub const LAUNCH_FAILED: &str = "LaunchFailed";
    /// Reason for an instance without a Node.
    pub const NODE_NOT_FOUND: &str = "NodeNotFound";
    /// Message for an instance without a Node.
    pub const NODE_NOT_FOUND_MESSAGE: &str = "Node not registered with cluster";
    /// Reason for registration that waits for hooks.
    pub const REGISTRATION_HOOK_PENDING: &str = "RegistrationHookPending";
    /// Reason for an instance with several Nodes.
    pub const MULTIPLE_NODES_FOUND: &str = "MultipleNodesFound";
    /// Message for an instance with several Nodes.
    pub const MULTIPLE_NODES_FOUND_MESSAGE: &str = "Invariant violated, matched multiple nodes";
    /// Reason for a Node that is not ready.
    pub const NODE_NOT_READY: &str = "NodeNotReady";
    /// Message for a Node that is not ready.
    pub const NODE_NOT_READY_MESSAGE: &str = "Node status is NotReady";
    /// Reason for startup taints that are still there.
    pub const STARTUP_TAINTS_EXIST: &str = "StartupTaintsExist";
    /// Reason for taints that should have gone by themselves.
    pub const KNOWN_EPHEMERAL_TAINTS_EXIST: &str = "KnownEphemeralTaintsExist";
    /// Reason for a requested resource the Node does not offer yet.
    pub const RESOURCE_NOT_REGISTERED: &str = "ResourceNotRegistered";
    /// Reason for drivers that have not published their devices.
    pub const DRA_DRIVER_POOLS_NOT_PUBLISHED: &str = "DRADriverPoolsNotPublished";
    /// Reason while pods are drained.
    pub const DRAINING: &str = "Draining";
    /// Reason, and message, while volumes are attached.
    pub const AWAITING_VOLUME_DETACHMENT: &str = "AwaitingVolumeDetachment";
    /// Reason, and message, when the grace period ended the wait for volumes.
    pub const TERMINATION_GRACE_PERIOD_ELAPSED: &str = "TerminationGracePeriodElapsed";
    /// Reason when claim and Node do not agree.
    pub const CONSISTENCY_CHECK_FAILED: &str = "ConsistencyCheckFailed";
    /// Message when claim and Node do not agree.
    pub const CONSISTENCY_CHECK_FAILED_MESSAGE: &str = "Consistency Check Failed";

    /// Drift reason: the pool's template has changed.
    pub const NODE_POOL_DRIFTED: &str = "NodePoolDrifted";
    /// Drift reason: the pool's requirements exclude the node.
    pub const REQUIREMENTS_DRIFTED: &str = "RequirementsDrifted";
    /// Drift reason: the provider no longer offers the instance type.
    pub const INSTANCE_TYPE_NOT_FOUND: &str = "InstanceTypeNotFound";

    /// The conditions Ready depends on.
    pub const DEPENDENTS: [&str; 3] = [LAUNCHED, REGISTERED, INITIALIZED];

    /// Bytes of a launch error that the condition shows (API-108).
    const ERROR_BYTES_MAX: usize = 300;

    /// A launch error as its condition shows it: verbatim below 300 bytes, else its first 300 and three dots.
    /// A character across the border is left out, where upstream would cut through it.
    pub fn launch_failed_message(error: &str) -> String {
        if error.len() < ERROR_BYTES_MAX {
            return error.to_owned();
        }
        let head = error
            .get(..error.floor_char_boundary(ERROR_BYTES_MAX))
            .unwrap_or_default();
        format!("{head}...")
    }

    /// The message for a startup taint that is still there; `taint` in the form `key=value:effect`.
    pub fn startup_taint_message(taint: &str) -> String {
        format!("StartupTaint \"{taint}\" still exists")
    }

    /// The message for a taint that should have gone by itself; `taint` in the form `key=value:effect`.
    pub fn ephemeral_taint_message(taint: &str) -> String {
        format!("KnownEphemeralTaint \"{taint}\" still exists")
    }

    /// The message for a requested resource the Node does not offer yet.
    pub fn resource_message(resource: &str) -> String {
        format!("Resource \"{resource}\" was requested but not registered")
    }

    /// The message for a driver that has not published its devices.
    pub fn dra_driver_message(driver: &str) -> String {
        format!("DRA driver \"{driver}\" has not published a complete resource pool")
    }
}

/// Conditions of a NodeOverlay.
pub mod node_overlay {
    /// Reason of a failed validation (API-132).
    pub const RUNTIME_VALIDATION: &str = "RuntimeValidation";
    /// Reason for two overlays of one rank that touch the same offering.
    pub const CONFLICT: &str = "Conflict";
    /// Message for two overlays of one rank that touch the same offering.
    pub const CONFLICT_MESSAGE: &str = "conflict with another overlay";

    /// The conditions Ready depends on.
    pub const DEPENDENTS: [&str; 1] = [super::VALIDATION_SUCCEEDED];
}

/// Conditions of a NodeRepairPolicy.
pub mod node_repair_policy {
    /// Reason of a failed validation.
    pub const VALIDATION_FAILED: &str = "NodeRepairPolicyValidationFailed";
    /// Its action may be carried out now; not part of Ready.
    pub const REPAIR_ALLOWED: &str = "RepairAllowed";
    /// Reason for more unhealthy nodes than the policy tolerates.
    pub const TOO_MANY_UNHEALTHY: &str = "TooManyUnhealthyNodes";
    /// Reason while no maintenance window is open.
    pub const OUTSIDE_MAINTENANCE_WINDOW: &str = "OutsideMaintenanceWindow";
    /// Reason for a policy that is not valid.
    pub const INVALID: &str = "PolicyInvalid";

    /// The conditions Ready depends on.
    pub const DEPENDENTS: [&str; 1] = [super::VALIDATION_SUCCEEDED];
}

/// Conditions of a CapacityBuffer, which has no root (API-220, API-221).
pub mod capacity_buffer {
    /// The shape and number of the virtual pods are known.
    pub const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
    /// The capacity is there.
    pub const PROVISIONING: &str = "Provisioning";
    /// Reason of a resolved template.
    pub const RESOLVED: &str = "Resolved";
    /// Message of a resolved template.
    pub const RESOLVED_MESSAGE: &str = "Pod template resolved successfully";
    /// Reason for a PodTemplate that does not exist.
    pub const POD_TEMPLATE_NOT_FOUND: &str = "PodTemplateNotFound";
    /// Reason for a workload that does not exist.
    pub const SCALABLE_REF_NOT_FOUND: &str = "ScalableRefNotFound";
    /// Reason for a reference that cannot be resolved.
    pub const RESOLUTION_FAILED: &str = "ResolutionFailed";
    /// Message for a buffer that refers to nothing.
    pub const NO_REFERENCE_MESSAGE: &str = "Neither podTemplateRef nor scalableRef is set";

    /// Reserved, never set.
    pub const LIMITED_BY_QUOTAS: &str = "LimitedByQuotas";
}
