//! The kinds a manifest may hold, and how reading treats them.

use kerf_units::nearest_name::nearest;

/// How reading treats a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// Decisions read it.
    Counts,
    /// It becomes the pods its controller would create.
    Expands,
    /// It has no influence on placement.
    Skipped,
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
    kind("NodeRepairPolicy", "kerf.sh", "v1alpha1", false, Use::Counts),
    kind("KWOKNodeClass", "karpenter.kwok.sh", "v1alpha1", false, Use::Counts),
    kind("EC2NodeClass", "karpenter.k8s.aws", "v1", false, Use::Counts),
    kind("CapacityBuffer", "autoscaling.x-k8s.io", "v1beta1", true, Use::Counts),
    kind("Service", "", "v1", true, Use::Skipped),
    kind("ConfigMap", "", "v1", true, Use::Skipped),
    kind("Secret", "", "v1", true, Use::Skipped),
    kind("ServiceAccount", "", "v1", true, Use::Skipped),
    kind("Endpoints", "", "v1", true, Use::Skipped),
    kind("Event", "", "v1", true, Use::Skipped),
    kind("LimitRange", "", "v1", true, Use::Skipped),
    kind("ResourceQuota", "", "v1", true, Use::Skipped),
    kind("PodTemplate", "", "v1", true, Use::Counts),
    kind("ControllerRevision", "apps", "v1", true, Use::Skipped),
    kind("CronJob", "batch", "v1", true, Use::Skipped),
    kind("HorizontalPodAutoscaler", "autoscaling", "v2", true, Use::Skipped),
    kind("Ingress", "networking.k8s.io", "v1", true, Use::Skipped),
    kind("IngressClass", "networking.k8s.io", "v1", false, Use::Skipped),
    kind("NetworkPolicy", "networking.k8s.io", "v1", true, Use::Skipped),
    kind("Role", "rbac.authorization.k8s.io", "v1", true, Use::Skipped),
    kind("RoleBinding", "rbac.authorization.k8s.io", "v1", true, Use::Skipped),
    kind("ClusterRole", "rbac.authorization.k8s.io", "v1", false, Use::Skipped),
    kind(
        "ClusterRoleBinding",
        "rbac.authorization.k8s.io",
        "v1",
        false,
        Use::Skipped,
    ),
    kind("Lease", "coordination.k8s.io", "v1", true, Use::Skipped),
    kind("EndpointSlice", "discovery.k8s.io", "v1", true, Use::Skipped),
    kind("CSIDriver", "storage.k8s.io", "v1", false, Use::Skipped),
    kind("CSIStorageCapacity", "storage.k8s.io", "v1", true, Use::Skipped),
    kind("VolumeAttachment", "storage.k8s.io", "v1", false, Use::Skipped),
    kind("RuntimeClass", "node.k8s.io", "v1", false, Use::Skipped),
    kind(
        "CustomResourceDefinition",
        "apiextensions.k8s.io",
        "v1",
        false,
        Use::Skipped,
    ),
    kind(
        "MutatingWebhookConfiguration",
        "admissionregistration.k8s.io",
        "v1",
        false,
        Use::Skipped,
    ),
    kind(
        "ValidatingWebhookConfiguration",
        "admissionregistration.k8s.io",
        "v1",
        false,
        Use::Skipped,
    ),
];

/// The result of a look-up of `apiVersion` and `kind`.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Lookup {
    /// The kind, in this version.
    Found { used: Use, namespaced: bool },
    /// The kind in another version, in a group that had it before, or in a wrong group.
    OtherVersion { known: String, namespaced: bool },
    /// A kind of another group with the same name.
    SameName,
    /// No kind of this name. `meant` is the kind of a known group that it is probably meant to be.
    Unknown { meant: Option<&'static str> },
}

/// Groups that Kubernetes kinds were in before.
const FORMER_GROUPS: [&str; 1] = ["extensions"];

/// Looks a kind up. A kind with the name of a skipped kind is skipped too, whatever its group.
pub(super) fn look_up(api_version: &str, kind: &str) -> Lookup {
    let candidates: Vec<_> = KINDS.iter().filter(|known| known.name == kind).collect();
    let spell = |known: &Kind| match known.group {
        "" => known.version.to_owned(),
        group => format!("{group}/{}", known.version),
    };
    if let Some(known) = candidates.iter().find(|known| spell(known) == api_version) {
        return Lookup::Found {
            used: known.used,
            namespaced: known.namespaced,
        };
    }
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let is_familiar = || FORMER_GROUPS.contains(&group) || KINDS.iter().any(|known| known.group == group);
    match candidates.first() {
        Some(Kind {
            used: Use::Skipped,
            namespaced,
            ..
        }) => Lookup::Found {
            used: Use::Skipped,
            namespaced: *namespaced,
        },
        Some(known) if is_familiar() => Lookup::OtherVersion {
            known: spell(known),
            namespaced: known.namespaced,
        },
        Some(_) => Lookup::SameName,
        None => {
            let meant = nearest(kind, KINDS.iter().map(|known| known.name));
            Lookup::Unknown {
                meant: meant.filter(|_| is_familiar()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_group_and_version() {
        assert_eq!(
            look_up("apps/v1", "Deployment"),
            Lookup::Found {
                used: Use::Expands,
                namespaced: true
            }
        );
    }

    #[test]
    fn other_versions_and_former_groups_are_recognized() {
        for (api_version, kind, known, namespaced) in [
            ("extensions/v1beta1", "Deployment", "apps/v1", true),
            ("apps/v1beta2", "Deployment", "apps/v1", true),
            ("v1", "Deployment", "apps/v1", true),
            ("karpenter.sh/v1beta1", "NodePool", "karpenter.sh/v1", false),
        ] {
            let known = known.to_owned();
            assert_eq!(look_up(api_version, kind), Lookup::OtherVersion { known, namespaced });
        }
    }

    #[test]
    fn a_name_that_is_nearly_known_is_a_mistake_in_known_groups_alone() {
        for (api_version, kind, meant) in [
            ("v1", "Pods", Some("Pod")),
            ("apps/v1", "Deploymnet", Some("Deployment")),
            ("monitoring.coreos.com/v1", "ServiceMonitor", None),
            ("example.com/v1", "Pods", None),
            ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", None),
        ] {
            assert_eq!(look_up(api_version, kind), Lookup::Unknown { meant }, "{kind}");
        }
    }

    #[test]
    fn kinds_of_other_groups_may_have_a_known_name() {
        let skipped = Lookup::Found {
            used: Use::Skipped,
            namespaced: true,
        };
        for (api_version, kind) in [
            ("serving.knative.dev/v1", "Service"),
            ("autoscaling/v1", "HorizontalPodAutoscaler"),
            ("events.k8s.io/v1", "Event"),
            ("extensions/v1beta1", "Ingress"),
        ] {
            assert_eq!(look_up(api_version, kind), skipped, "{api_version}");
        }
        assert_eq!(look_up("batch.volcano.sh/v1alpha1", "Job"), Lookup::SameName);
    }
}
