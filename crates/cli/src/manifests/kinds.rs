//! The kinds a manifest may hold, and what becomes of them.

/// What reading does with a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// It takes part in the decision.
    Counts,
    /// It is expanded to pods.
    Expands,
    /// It is valid but says nothing about placement.
    PassedOver,
}

struct Kind {
    name: &'static str,
    group: &'static str,
    version: &'static str,
    namespaced: bool,
    used: Use,
}

const fn kind(name: &'static str, group: &'static str, version: &'static str, namespaced: bool, used: Use) -> Kind {
    Kind {
        name,
        group,
        version,
        namespaced,
        used,
    }
}

const KINDS: &[Kind] = &[
    kind("Pod", "", "v1", true, Use::Counts),
    kind("Node", "", "v1", false, Use::Counts),
    kind("Namespace", "", "v1", false, Use::Counts),
    kind("PersistentVolumeClaim", "", "v1", true, Use::Counts),
    kind("PersistentVolume", "", "v1", false, Use::Counts),
    kind("ReplicationController", "", "v1", true, Use::Expands),
    kind("Deployment", "apps", "v1", true, Use::Expands),
    kind("ReplicaSet", "apps", "v1", true, Use::Expands),
    kind("StatefulSet", "apps", "v1", true, Use::Expands),
    kind("DaemonSet", "apps", "v1", true, Use::Counts),
    kind("Job", "batch", "v1", true, Use::Expands),
    kind("StorageClass", "storage.k8s.io", "v1", false, Use::Counts),
    kind("CSINode", "storage.k8s.io", "v1", false, Use::Counts),
    kind("PodDisruptionBudget", "policy", "v1", true, Use::Counts),
    kind("PriorityClass", "scheduling.k8s.io", "v1", false, Use::Counts),
    kind("NodePool", "karpenter.sh", "v1", false, Use::Counts),
    kind("NodeClaim", "karpenter.sh", "v1", false, Use::Counts),
    kind("NodeOverlay", "karpenter.sh", "v1alpha1", false, Use::Counts),
    kind("NodeRepairPolicy", "kerf.sh", "v1alpha1", false, Use::PassedOver),
    kind("KWOKNodeClass", "karpenter.kwok.sh", "v1alpha1", false, Use::Counts),
    kind("EC2NodeClass", "karpenter.k8s.aws", "v1", false, Use::Counts),
    kind(
        "CapacityBuffer",
        "autoscaling.x-k8s.io",
        "v1beta1",
        true,
        Use::PassedOver,
    ),
    kind("Service", "", "v1", true, Use::PassedOver),
    kind("ConfigMap", "", "v1", true, Use::PassedOver),
    kind("Secret", "", "v1", true, Use::PassedOver),
    kind("ServiceAccount", "", "v1", true, Use::PassedOver),
    kind("Endpoints", "", "v1", true, Use::PassedOver),
    kind("Event", "", "v1", true, Use::PassedOver),
    kind("LimitRange", "", "v1", true, Use::PassedOver),
    kind("ResourceQuota", "", "v1", true, Use::PassedOver),
    kind("PodTemplate", "", "v1", true, Use::PassedOver),
    kind("ControllerRevision", "apps", "v1", true, Use::PassedOver),
    kind("CronJob", "batch", "v1", true, Use::PassedOver),
    kind("HorizontalPodAutoscaler", "autoscaling", "v2", true, Use::PassedOver),
    kind("Ingress", "networking.k8s.io", "v1", true, Use::PassedOver),
    kind("IngressClass", "networking.k8s.io", "v1", false, Use::PassedOver),
    kind("NetworkPolicy", "networking.k8s.io", "v1", true, Use::PassedOver),
    kind("Role", "rbac.authorization.k8s.io", "v1", true, Use::PassedOver),
    kind("RoleBinding", "rbac.authorization.k8s.io", "v1", true, Use::PassedOver),
    kind("ClusterRole", "rbac.authorization.k8s.io", "v1", false, Use::PassedOver),
    kind(
        "ClusterRoleBinding",
        "rbac.authorization.k8s.io",
        "v1",
        false,
        Use::PassedOver,
    ),
    kind("Lease", "coordination.k8s.io", "v1", true, Use::PassedOver),
    kind("EndpointSlice", "discovery.k8s.io", "v1", true, Use::PassedOver),
    kind("CSIDriver", "storage.k8s.io", "v1", false, Use::PassedOver),
    kind("CSIStorageCapacity", "storage.k8s.io", "v1", true, Use::PassedOver),
    kind("VolumeAttachment", "storage.k8s.io", "v1", false, Use::PassedOver),
    kind("RuntimeClass", "node.k8s.io", "v1", false, Use::PassedOver),
    kind(
        "CustomResourceDefinition",
        "apiextensions.k8s.io",
        "v1",
        false,
        Use::PassedOver,
    ),
    kind(
        "MutatingWebhookConfiguration",
        "admissionregistration.k8s.io",
        "v1",
        false,
        Use::PassedOver,
    ),
    kind(
        "ValidatingWebhookConfiguration",
        "admissionregistration.k8s.io",
        "v1",
        false,
        Use::PassedOver,
    ),
];

/// What a look-up of `apiVersion` and `kind` found.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Known {
    /// The kind, in this version.
    Yes { used: Use, namespaced: bool },
    /// The kind, but in another version, or in a group it was in before or that is written by mistake.
    OtherVersion { known: String, namespaced: bool },
    /// Somebody else's kind of the same name.
    Namesake,
    /// Nothing of that name.
    No,
}

/// Groups Kubernetes' kinds were in before.
const FORMER_GROUPS: [&str; 1] = ["extensions"];

/// Looks a kind up. What is said of kinds that are passed over holds of their namesakes too.
pub(super) fn look_up(api_version: &str, kind: &str) -> Known {
    let candidates: Vec<_> = KINDS.iter().filter(|known| known.name == kind).collect();
    let spell = |known: &Kind| match known.group {
        "" => known.version.to_owned(),
        group => format!("{group}/{}", known.version),
    };
    if let Some(known) = candidates.iter().find(|known| spell(known) == api_version) {
        return Known::Yes {
            used: known.used,
            namespaced: known.namespaced,
        };
    }
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let is_familiar = || FORMER_GROUPS.contains(&group) || KINDS.iter().any(|known| known.group == group);
    match candidates.first() {
        Some(Kind {
            used: Use::PassedOver,
            namespaced,
            ..
        }) => Known::Yes {
            used: Use::PassedOver,
            namespaced: *namespaced,
        },
        Some(known) if is_familiar() => Known::OtherVersion {
            known: spell(known),
            namespaced: known.namespaced,
        },
        Some(_) => Known::Namesake,
        None => Known::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_group_and_version() {
        assert_eq!(
            look_up("apps/v1", "Deployment"),
            Known::Yes {
                used: Use::Expands,
                namespaced: true
            }
        );
        assert_eq!(look_up("v1", "Pods"), Known::No);
    }

    #[test]
    fn other_versions_and_former_groups_are_known_for_what_they_are() {
        for (api_version, kind, known, namespaced) in [
            ("extensions/v1beta1", "Deployment", "apps/v1", true),
            ("apps/v1beta2", "Deployment", "apps/v1", true),
            ("v1", "Deployment", "apps/v1", true),
            ("karpenter.sh/v1beta1", "NodePool", "karpenter.sh/v1", false),
        ] {
            let known = known.to_owned();
            assert_eq!(look_up(api_version, kind), Known::OtherVersion { known, namespaced });
        }
    }

    #[test]
    fn namesakes_are_nobodys_mistake() {
        let passed_over = Known::Yes {
            used: Use::PassedOver,
            namespaced: true,
        };
        for (api_version, kind) in [
            ("serving.knative.dev/v1", "Service"),
            ("autoscaling/v1", "HorizontalPodAutoscaler"),
            ("events.k8s.io/v1", "Event"),
            ("extensions/v1beta1", "Ingress"),
        ] {
            assert_eq!(look_up(api_version, kind), passed_over, "{api_version}");
        }
        assert_eq!(look_up("batch.volcano.sh/v1alpha1", "Job"), Known::Namesake);
    }
}
