//! The permissions that Karpenter's own charts grant.

/// Rules as (group, resources, verbs), of both charts (OPS-222 to OPS-237).
pub const UPSTREAM_ROLES: &[(&str, &[&str], &[&str])] = &[
    (
        "karpenter.sh",
        &[
            "nodepools",
            "nodepools/status",
            "nodeclaims",
            "nodeclaims/status",
            "nodeoverlays",
            "nodeoverlays/status",
        ],
        READ,
    ),
    (
        "karpenter.sh",
        &["nodeclaims", "nodeclaims/status", "nodeclaims/finalizers"],
        &["create", "delete", "update", "patch"],
    ),
    (
        "karpenter.sh",
        &[
            "nodepools",
            "nodepools/status",
            "nodepools/finalizers",
            "nodeoverlays/status",
        ],
        &["update", "patch"],
    ),
    (
        "autoscaling.x-k8s.io",
        &["capacitybuffers", "capacitybuffers/status"],
        READ,
    ),
    (
        "autoscaling.x-k8s.io",
        &["capacitybuffers/status"],
        &["update", "patch"],
    ),
    (
        "",
        &[
            "pods",
            "nodes",
            "persistentvolumes",
            "persistentvolumeclaims",
            "replicationcontrollers",
            "namespaces",
            "podtemplates",
        ],
        READ,
    ),
    ("", &["events"], &["create", "patch"]),
    ("", &["nodes"], &["patch", "delete", "update", "create"]),
    ("", &["pods/eviction"], &["create"]),
    ("", &["pods"], &["delete"]),
    (
        "storage.k8s.io",
        &["storageclasses", "csinodes", "volumeattachments"],
        READ,
    ),
    (
        "apps",
        &["daemonsets", "deployments", "replicasets", "statefulsets"],
        READ,
    ),
    ("policy", &["poddisruptionbudgets"], READ),
    ("karpenter.kwok.sh", &["kwoknodeclasses"], READ),
    ("karpenter.k8s.aws", &["ec2nodeclasses"], READ),
    (
        "karpenter.k8s.aws",
        &["ec2nodeclasses", "ec2nodeclasses/status"],
        &["patch", "update"],
    ),
    ("", &["services"], &["get"]),
    (
        "coordination.k8s.io",
        &["leases"],
        &["get", "watch", "patch", "update", "create"],
    ),
];

const READ: &[&str] = &["get", "list", "watch"];
