//! Keys, label rules, taints and hints.

use std::collections::BTreeSet;

use kerf_api::{
    LabelRules, NodeClassRef, StartupTaints, annotations, conditions, finalizers, labels, resources, startup_taints,
    taints,
};

// LIF-001, LIF-002, LIF-003
#[test]
fn keys_are_the_ones_users_have() {
    for (key, want) in [
        // API-153
        (labels::NODE_POOL, "karpenter.sh/nodepool"),
        // API-154
        (labels::CAPACITY_TYPE, "karpenter.sh/capacity-type"),
        // API-155
        (labels::REGISTERED, "karpenter.sh/registered"),
        // API-156
        (labels::INITIALIZED, "karpenter.sh/initialized"),
        // API-157
        (labels::DO_NOT_SYNC_TAINTS, "karpenter.sh/do-not-sync-taints"),
        // API-159
        (
            labels::EXCLUDE_FROM_LOAD_BALANCERS,
            "node.kubernetes.io/exclude-from-external-load-balancers",
        ),
        (labels::EXCLUDE_FROM_LOAD_BALANCERS_VALUE, "karpenter"),
        // API-164
        (annotations::DO_NOT_DISRUPT, "karpenter.sh/do-not-disrupt"),
        // API-165
        (annotations::NODE_POOL_HASH, "karpenter.sh/nodepool-hash"),
        // API-166
        (
            annotations::NODE_POOL_HASH_VERSION,
            "karpenter.sh/nodepool-hash-version",
        ),
        // API-167
        (
            annotations::TERMINATION_TIMESTAMP,
            "karpenter.sh/nodeclaim-termination-timestamp",
        ),
        // API-168
        (
            annotations::MIN_VALUES_RELAXED,
            "karpenter.sh/nodeclaim-min-values-relaxed",
        ),
        // API-169
        (annotations::REQUESTED_DRA_DRIVERS, "karpenter.sh/requested-dra-drivers"),
        // API-170
        (annotations::PRICE_OVERLAY_APPLIED, "karpenter.sh/price-overlay-applied"),
        (
            annotations::CAPACITY_OVERLAY_APPLIED,
            "karpenter.sh/capacity-overlay-applied",
        ),
        // API-171
        (
            annotations::PROVIDER_COMPATIBILITY,
            "compatibility.karpenter.sh/provider",
        ),
        // API-172
        (annotations::BUFFER_FAKE_POD, "karpenter.sh/capacity-buffer-fake-pod"),
        // API-173
        (annotations::BUFFER_NAME, "karpenter.sh/capacity-buffer-name"),
        (annotations::BUFFER_NAMESPACE, "karpenter.sh/capacity-buffer-namespace"),
        // API-177
        (finalizers::TERMINATION, "karpenter.sh/termination"),
    ] {
        assert_eq!(key, want);
    }
}

#[test]
fn the_class_label_is_made_of_group_and_kind() {
    // API-158, LIF-001
    let class = NodeClassRef {
        group: "karpenter.kwok.sh".into(),
        kind: "KWOKNodeClass".into(),
        name: "x".into(),
    };
    assert_eq!(class.label_key(), labels::kwok::NODE_CLASS);
}

#[test]
fn well_known_labels() {
    // API-160, SCH-107
    let want: BTreeSet<&str> = [
        "karpenter.sh/nodepool",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "karpenter.sh/capacity-type",
        "node.kubernetes.io/windows-build",
    ]
    .into();
    assert_eq!(LabelRules::core().well_known().collect::<BTreeSet<_>>(), want);
    // KWK-004
    let kwok = LabelRules::kwok().with_well_known(["reservation-id"]);
    for name in ["instance-size", "instance-family", "instance-cpu", "instance-memory"] {
        assert!(kwok.is_well_known(&format!("karpenter.kwok.sh/{name}")), "{name}");
    }
    assert!(kwok.is_well_known("reservation-id"));
    // API-161
    assert_eq!(
        labels::OFFERING,
        ["karpenter.sh/capacity-type", "topology.kubernetes.io/zone"]
    );
    // SCH-111
    let capacity_types = LabelRules::core()
        .well_known_values(labels::CAPACITY_TYPE)
        .cloned()
        .unwrap();
    assert!(capacity_types.iter().eq(["on-demand", "reserved", "spot"]));
}

#[test]
fn restricted_labels() {
    let (core, kwok) = (LabelRules::core(), LabelRules::kwok());
    for (key, by_core, by_kwok) in [
        // API-143, API-144, SCH-108
        ("karpenter.sh/x", false, false),
        ("karpenter.sh/registered", false, false),
        // API-146, API-229: whole domains count here, unlike at admission.
        ("sub.karpenter.sh/x", false, false),
        ("notkarpenter.sh/x", true, true),
        ("karpenter.sh", true, true),
        // API-148
        ("kubernetes.io/hostname", false, false),
        // API-149
        ("karpenter.sh/capacity-type", true, true),
        // API-150
        ("karpenter.kwok.sh/foo", true, false),
        ("karpenter.kwok.sh/instance-cpu", true, true),
        // API-152
        ("kubernetes.io/x", true, true),
        ("k8s.io/x", true, true),
        ("sub.k8s.io/x", true, true),
        ("node-restriction.kubernetes.io/x", true, true),
        ("kops.k8s.io/x", true, true),
        ("team", true, true),
    ] {
        assert_eq!(
            (core.check(key).is_ok(), kwok.check(key).is_ok()),
            (by_core, by_kwok),
            "{key}"
        );
    }
    // API-071, SCH-108
    assert_eq!(
        core.check("karpenter.sh/x").unwrap_err().to_string(),
        "using label karpenter.sh/x is not allowed as it might interfere with the internal provisioning logic; specify a \
         well known label: [karpenter.sh/capacity-type karpenter.sh/nodepool kubernetes.io/arch kubernetes.io/os \
         node.kubernetes.io/instance-type node.kubernetes.io/windows-build topology.kubernetes.io/region \
         topology.kubernetes.io/zone], or a custom label that does not use a restricted domain: [karpenter.sh]"
    );
}

#[test]
fn old_keys_are_read_as_new_ones() {
    // API-162, SCH-099
    let rules = LabelRules::core();
    for (old, new) in [
        ("failure-domain.beta.kubernetes.io/zone", labels::ZONE),
        ("failure-domain.beta.kubernetes.io/region", labels::REGION),
        ("beta.kubernetes.io/arch", labels::ARCH),
        ("beta.kubernetes.io/os", labels::OS),
        ("beta.kubernetes.io/instance-type", labels::INSTANCE_TYPE),
        ("team", "team"),
    ] {
        assert_eq!(rules.normalize(old), new);
    }
    assert_eq!(rules.normalize_value(labels::ARCH, "x86_64"), "x86_64");
    let rules = rules
        .with_normalized("old/key", labels::ARCH)
        .with_normalized_value(labels::ARCH, "x86_64", "amd64");
    assert_eq!(rules.normalize("old/key"), labels::ARCH);
    assert_eq!(rules.normalize_value(labels::ARCH, "x86_64"), "amd64");
}

#[test]
fn misspelt_keys_get_a_hint() {
    // SCH-105
    let rules = LabelRules::core();
    for (key, hint) in [
        ("zone", Some(labels::ZONE)),
        ("node.io/zone", Some(labels::ZONE)),
        ("topology.kubernetesio/zone", Some(labels::ZONE)),
        ("topology.kubernetes.io/regio", Some(labels::REGION)),
        ("karpenter/nodepool", Some(labels::NODE_POOL)),
        ("deployment", None),
        ("", None),
        ("team/", None),
        ("my/tem", Some("company/my/tem")),
    ] {
        assert_eq!(rules.hint(key, ["company/my/tem"]), hint, "{key}");
    }
}

#[test]
fn resources_overlays_may_not_touch() {
    // API-163
    assert_eq!(resources::WELL_KNOWN, ["cpu", "ephemeral-storage", "memory", "pods"]);
    assert_eq!(resources::NODES, "nodes");
    // API-089
    assert_eq!(
        resources::STATUS_BASE,
        ["cpu", "ephemeral-storage", "memory", "nodes", "pods"]
    );
}

#[test]
fn own_taints() {
    // API-175, LIF-004
    let taint = taints::disrupted();
    assert_eq!(
        (taint.key.as_str(), taint.effect.as_str(), taint.value.as_deref()),
        ("karpenter.sh/disrupted", "NoSchedule", None)
    );
    // API-176
    let taint = taints::unregistered();
    assert_eq!(
        (taint.key.as_str(), taint.effect.as_str(), taint.value.as_deref()),
        ("karpenter.sh/unregistered", "NoExecute", None)
    );
    // LIF-004: a value makes no difference, the effect does.
    let mut other = taints::unregistered();
    other.value = Some("x".to_owned());
    assert!(taints::matches(&other, &taint));
    other.effect = "NoSchedule".to_owned();
    assert!(!taints::matches(&other, &taint));
}

#[test]
fn taints_that_go_by_themselves() {
    // API-119, SCH-116
    for (key, effect, ephemeral) in [
        ("node.kubernetes.io/not-ready", "NoSchedule", true),
        ("node.kubernetes.io/not-ready", "NoExecute", true),
        ("node.kubernetes.io/unreachable", "NoSchedule", true),
        ("node.kubernetes.io/unreachable", "NoExecute", false),
        ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule", true),
        ("node.cloudprovider.kubernetes.io/uninitialized", "NoExecute", false),
        ("karpenter.sh/unregistered", "NoExecute", true),
        ("readiness.k8s.io/network", "PreferNoSchedule", true),
        ("x.readiness.k8s.io/network", "NoSchedule", false),
        ("karpenter.sh/disrupted", "NoSchedule", false),
    ] {
        assert_eq!(taints::is_known_ephemeral(key, effect), ephemeral, "{key}:{effect}");
    }
}

#[test]
fn taints_well_known_software_takes_away() {
    let taints = StartupTaints::with(["corp.example/agent".to_owned(), "boot.example/".to_owned()]);
    for (key, passes) in [
        ("node.cilium.io/agent-not-ready", true),
        ("node.cloudprovider.kubernetes.io/uninitialized", true),
        ("ebs.csi.aws.com/agent-not-ready", true),
        ("startup-taint.cluster-autoscaler.kubernetes.io/disk", true),
        ("corp.example/agent", true),
        ("boot.example/anything", true),
        ("boot.example/", false),
        ("corp.example/agent-2", false),
        ("nvidia.com/gpu", false),
        ("karpenter.sh/disrupted", false),
        ("node.kubernetes.io/unschedulable", false),
    ] {
        assert_eq!(taints.contains(key), passes, "{key}");
    }
    let manual = include_str!("../../../../docs/startup-taints.md");
    for (at, row) in startup_taints::KNOWN.iter().enumerate() {
        assert!(row.source.starts_with("https://"), "{}", row.key);
        let line = format!("| `{}` | {} | <{}> |", row.key, row.by, row.source);
        assert!(manual.contains(&line), "docs/startup-taints.md lacks {line}");
        assert_eq!(
            startup_taints::KNOWN.iter().position(|other| other.key == row.key),
            Some(at)
        );
    }
}

#[test]
fn condition_texts() {
    use conditions::node_claim as claim;
    // API-110
    assert_eq!(
        claim::startup_taint_message("a=b:NoSchedule"),
        "StartupTaint \"a=b:NoSchedule\" still exists"
    );
    assert_eq!(
        claim::ephemeral_taint_message("a:NoExecute"),
        "KnownEphemeralTaint \"a:NoExecute\" still exists"
    );
    assert_eq!(
        claim::resource_message("gpu"),
        "Resource \"gpu\" was requested but not registered"
    );
    assert_eq!(
        claim::dra_driver_message("d"),
        "DRA driver \"d\" has not published a complete resource pool"
    );
    // API-108
    let long = "e".repeat(299);
    assert_eq!(claim::launch_failed_message(&long), long);
    assert_eq!(
        claim::launch_failed_message(&format!("{long}xyz")),
        format!("{long}x...")
    );
    assert_eq!(claim::launch_failed_message(&format!("{long}é")), format!("{long}..."));
    // API-085, API-086, API-109, API-117
    for (reason, message, want) in [
        (
            conditions::node_pool::NODE_CLASS_NOT_FOUND,
            conditions::node_pool::NODE_CLASS_NOT_FOUND_MESSAGE,
            "NodeClassNotFound: NodeClass not found on cluster",
        ),
        (
            conditions::node_pool::NODE_CLASS_TERMINATING,
            conditions::node_pool::NODE_CLASS_TERMINATING_MESSAGE,
            "NodeClassTerminating: NodeClass is Terminating",
        ),
        (
            conditions::node_pool::NODE_CLASS_READINESS_UNKNOWN,
            conditions::node_pool::NODE_CLASS_READINESS_UNKNOWN_MESSAGE,
            "NodeClassReadinessUnknown: Node Class Readiness Unknown",
        ),
        (
            conditions::node_pool::REGISTRATION_FAILED,
            conditions::node_pool::REGISTRATION_FAILED_MESSAGE,
            "RegistrationFailed: Failed to register node",
        ),
        (
            claim::NODE_NOT_FOUND,
            claim::NODE_NOT_FOUND_MESSAGE,
            "NodeNotFound: Node not registered with cluster",
        ),
        (
            claim::MULTIPLE_NODES_FOUND,
            claim::MULTIPLE_NODES_FOUND_MESSAGE,
            "MultipleNodesFound: Invariant violated, matched multiple nodes",
        ),
        (
            claim::NODE_NOT_READY,
            claim::NODE_NOT_READY_MESSAGE,
            "NodeNotReady: Node status is NotReady",
        ),
        (
            claim::CONSISTENCY_CHECK_FAILED,
            claim::CONSISTENCY_CHECK_FAILED_MESSAGE,
            "ConsistencyCheckFailed: Consistency Check Failed",
        ),
    ] {
        assert_eq!(format!("{reason}: {message}"), want);
    }
}
