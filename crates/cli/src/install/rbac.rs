//! The permissions that the controller needs: one table, from which the roles, the documentation and `kerf preflight` are made.

use k8s_openapi::api::rbac::v1::PolicyRule;
use kerf_api::Provider;

/// Where a permission is granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GrantScope {
    /// The ClusterRole of every controller.
    Cluster,
    /// The ClusterRole of the provider.
    Provider,
    /// The Role in the controller's namespace.
    OwnNamespace,
    /// The Role in kube-system.
    KubeSystem,
}

/// When a permission is granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    Always,
    /// Only with the feature gate CapacityBuffer.
    CapacityBuffer,
    /// Only with this provider.
    With(Provider),
}

/// An object that a grant is limited to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnlyObject {
    /// The leader election lease, whose name is an option.
    Lease,
    /// The object of this name.
    Named(&'static str),
}

/// Permissions on some resources of an API group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grant {
    pub(crate) scope: GrantScope,
    pub(crate) condition: Condition,
    /// The API group; "" is the core group.
    pub(crate) group: &'static str,
    pub(crate) resources: &'static [&'static str],
    pub(crate) verbs: &'static [&'static str],
    /// The only object that is meant, if not all are.
    pub(crate) only: Option<OnlyObject>,
    /// What the controller does with it.
    pub(crate) purpose: &'static str,
}

const fn grant(
    scope: GrantScope,
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
    purpose: &'static str,
) -> Grant {
    Grant {
        scope,
        condition: Condition::Always,
        group,
        resources,
        verbs,
        only: None,
        purpose,
    }
}

const fn for_buffers(grant: Grant) -> Grant {
    Grant {
        condition: Condition::CapacityBuffer,
        ..grant
    }
}

const fn with(provider: Provider, grant: Grant) -> Grant {
    Grant {
        condition: Condition::With(provider),
        ..grant
    }
}

const READ: &[&str] = &["get", "list", "watch"];
const FOLLOW: &[&str] = &["list", "watch"];

use GrantScope::{Cluster, KubeSystem, OwnNamespace};

/// Everything that the controller asks of the API server.
pub(crate) const GRANTS: &[Grant] = &[
    grant(
        Cluster,
        "karpenter.sh",
        &["nodeclaims", "nodepools"],
        READ,
        "the state of the cluster",
    ),
    grant(
        Cluster,
        "karpenter.sh",
        &["nodeoverlays"],
        FOLLOW,
        "feature gate NodeOverlay",
    ),
    grant(
        Cluster,
        "karpenter.sh",
        &["nodeclaims"],
        &["create", "patch", "delete"],
        "launches and ends nodes",
    ),
    grant(
        Cluster,
        "karpenter.sh",
        &["nodepools"],
        &["patch"],
        "hash annotations of pools",
    ),
    grant(
        Cluster,
        "karpenter.sh",
        &["nodepools/status", "nodeclaims/status", "nodeoverlays/status"],
        &["patch"],
        "conditions and counts",
    ),
    grant(
        Cluster,
        "karpenter.sh",
        &["nodepools/finalizers", "nodeclaims/finalizers"],
        &["update"],
        "owner references that block deletion, where the API server checks them (OwnerReferencesPermissionEnforcement)",
    ),
    grant(
        Cluster,
        "",
        &["pods", "nodes", "persistentvolumeclaims"],
        READ,
        "the state of the cluster",
    ),
    grant(
        Cluster,
        "",
        &["namespaces", "persistentvolumes"],
        FOLLOW,
        "the state of the cluster",
    ),
    grant(
        Cluster,
        "",
        &["nodes"],
        &["create", "patch", "delete"],
        "taints, labels and finalizers; the provider kwok creates Nodes",
    ),
    grant(
        Cluster,
        "",
        &["pods"],
        &["delete"],
        "pods that outlive their node's deadline",
    ),
    grant(Cluster, "", &["pods/eviction"], &["create"], "drains nodes"),
    grant(Cluster, "", &["events"], &["create", "patch"], "publishes events"),
    grant(
        Cluster,
        "storage.k8s.io",
        &["storageclasses", "csinodes"],
        FOLLOW,
        "zones and limits of volumes",
    ),
    grant(
        Cluster,
        "storage.k8s.io",
        &["volumeattachments"],
        &["list"],
        "waits for volumes before it ends a machine",
    ),
    grant(Cluster, "apps", &["daemonsets"], FOLLOW, "overhead of new nodes"),
    grant(
        Cluster,
        "policy",
        &["poddisruptionbudgets"],
        FOLLOW,
        "which nodes can be disrupted",
    ),
    for_buffers(grant(
        Cluster,
        "autoscaling.x-k8s.io",
        &["capacitybuffers"],
        READ,
        "feature gate CapacityBuffer",
    )),
    for_buffers(grant(
        Cluster,
        "autoscaling.x-k8s.io",
        &["capacitybuffers/status"],
        &["patch"],
        "feature gate CapacityBuffer",
    )),
    for_buffers(grant(Cluster, "", &["podtemplates"], READ, "pods of a buffer")),
    for_buffers(grant(
        Cluster,
        "apps",
        &["deployments", "replicasets", "statefulsets"],
        READ,
        "pods of a buffer",
    )),
    // What Karpenter's own roles do not have: without it NodeRepairPolicies are not read.
    grant(
        Cluster,
        "kerf.sh",
        &["noderepairpolicies"],
        FOLLOW,
        "NodeRepairPolicies; Kerf only",
    ),
    grant(
        Cluster,
        "kerf.sh",
        &["noderepairpolicies/status"],
        &["patch"],
        "NodeRepairPolicies; Kerf only",
    ),
    with(
        Provider::Kwok,
        grant(
            GrantScope::Provider,
            "karpenter.kwok.sh",
            &["kwoknodeclasses"],
            READ,
            "node classes; provider kwok",
        ),
    ),
    with(
        Provider::Aws,
        grant(
            GrantScope::Provider,
            "karpenter.k8s.aws",
            &["ec2nodeclasses"],
            &["get", "list", "watch", "patch"],
            "node classes, with their finalizers and hashes; provider aws",
        ),
    ),
    with(
        Provider::Aws,
        grant(
            GrantScope::Provider,
            "karpenter.k8s.aws",
            &["ec2nodeclasses/status"],
            &["patch"],
            "conditions, subnets and images of node classes; provider aws",
        ),
    ),
    Grant {
        only: Some(OnlyObject::Named("kube-dns")),
        ..with(
            Provider::Aws,
            grant(
                KubeSystem,
                "",
                &["services"],
                &["get"],
                "the DNS address of nodes; provider aws",
            ),
        )
    },
    Grant {
        only: Some(OnlyObject::Lease),
        ..grant(
            OwnNamespace,
            "coordination.k8s.io",
            &["leases"],
            &["get", "update"],
            "leader election",
        )
    },
    // RBAC cannot name the object of a create.
    grant(
        OwnNamespace,
        "coordination.k8s.io",
        &["leases"],
        &["create"],
        "the first lease",
    ),
];

/// Permissions of people with the ClusterRole `admin`.
pub(crate) const ADMIN_GRANTS: &[Grant] = &[
    grant(Cluster, "karpenter.sh", ADMIN_RESOURCES, ADMIN_VERBS, ""),
    with(
        Provider::Kwok,
        grant(Cluster, "karpenter.kwok.sh", &["kwoknodeclasses"], ADMIN_VERBS, ""),
    ),
    with(
        Provider::Aws,
        grant(
            Cluster,
            "karpenter.k8s.aws",
            &["ec2nodeclasses", "ec2nodeclasses/status"],
            ADMIN_VERBS,
            "",
        ),
    ),
    grant(Cluster, "kerf.sh", &["noderepairpolicies"], ADMIN_VERBS, ""),
];
const ADMIN_RESOURCES: &[&str] = &["nodepools", "nodepools/status", "nodeclaims", "nodeclaims/status"];
const ADMIN_VERBS: &[&str] = &["get", "list", "watch", "create", "delete", "patch"];

impl Grant {
    /// Whether it is granted with a provider, and with the feature gate CapacityBuffer or without.
    pub(crate) fn applies(&self, provider: Provider, capacity_buffer: bool) -> bool {
        match self.condition {
            Condition::Always => true,
            Condition::CapacityBuffer => capacity_buffer,
            Condition::With(wanted) => wanted == provider,
        }
    }

    /// The name of the only object it is limited to; `lease` is that of the leader election lease.
    pub(crate) fn only_name<'a>(&self, lease: &'a str) -> Option<&'a str> {
        self.only.map(|only| match only {
            OnlyObject::Lease => lease,
            OnlyObject::Named(name) => name,
        })
    }

    /// The rule of a role; `lease` is the name of the leader election lease.
    pub(crate) fn rule(&self, lease: &str) -> PolicyRule {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        PolicyRule {
            api_groups: Some(vec![self.group.to_owned()]),
            resources: Some(texts(self.resources)),
            resource_names: self.only_name(lease).map(|name| vec![name.to_owned()]),
            verbs: texts(self.verbs),
            ..PolicyRule::default()
        }
    }

    /// A row of the documentation's table.
    #[cfg(test)]
    fn row(&self) -> String {
        let group = if self.group.is_empty() { "core" } else { self.group };
        format!(
            "| {group} | {} | {} | {} |",
            self.resources.join(", "),
            self.verbs.join(", "),
            self.purpose
        )
    }
}

/// The rules of a scope.
pub(crate) fn rules(scope: GrantScope, provider: Provider, capacity_buffer: bool, lease: &str) -> Vec<PolicyRule> {
    GRANTS
        .iter()
        .filter(|grant| grant.scope == scope && grant.applies(provider, capacity_buffer))
        .map(|grant| grant.rule(lease))
        .collect()
}

/// The rules of all roles that the controller has, without regard to namespaces; `lease` is the name of the leader election lease.
pub fn controller_rules(provider: Provider, capacity_buffer: bool, lease: &str) -> Vec<PolicyRule> {
    let granted = GRANTS.iter().filter(|grant| grant.applies(provider, capacity_buffer));
    granted.map(|grant| grant.rule(lease)).collect()
}

#[cfg(test)]
mod tests {
    use kerf_testkit::upstream_roles::UPSTREAM_ROLES;

    use super::*;

    const INSTALL_DOCS: &str = include_str!("../../../../docs/install.md");

    #[test]
    fn the_documentation_lists_every_permission() {
        for grant in GRANTS {
            let row = grant.row();
            assert!(INSTALL_DOCS.contains(&row), "docs/install.md lacks\n{row}");
        }
    }

    // OPS-222 OPS-223 OPS-224 OPS-225 OPS-226 OPS-227 OPS-228 OPS-229 OPS-230 OPS-231 OPS-232 OPS-234 OPS-236 AWS-421
    #[test]
    fn karpenters_own_roles_are_enough_for_all_but_kerf_sh() {
        for grant in GRANTS.iter().filter(|grant| grant.group != "kerf.sh") {
            for resource in grant.resources {
                for verb in grant.verbs {
                    let allowed = UPSTREAM_ROLES.iter().any(|(group, resources, verbs)| {
                        *group == grant.group && resources.contains(resource) && verbs.contains(verb)
                    });
                    assert!(allowed, "{verb} {resource} in {:?}", grant.group);
                }
            }
        }
    }

    // AWS-421, OPS-233, OPS-234, OPS-237
    #[test]
    fn each_provider_has_the_rules_of_its_node_classes_only() {
        let resources = |provider| {
            let scopes = [GrantScope::Provider, GrantScope::Cluster, GrantScope::KubeSystem];
            let rules = scopes
                .into_iter()
                .flat_map(|scope| rules(scope, provider, true, "lease"));
            let all = rules.flat_map(|rule| {
                let names = rule.resource_names.unwrap_or_default();
                let resources = rule.resources.unwrap_or_default().into_iter();
                resources.map(move |resource| (resource, rule.verbs.join(","), names.join(",")))
            });
            all.filter(|(resource, _, _)| {
                resource.contains("nodeclasses") || resource == "services" || resource == "customresourcedefinitions"
            })
            .collect::<Vec<_>>()
        };
        let row = |resource: &str, verbs: &str, names: &str| (resource.to_owned(), verbs.to_owned(), names.to_owned());
        assert_eq!(
            resources(Provider::Kwok),
            [row("kwoknodeclasses", "get,list,watch", "")]
        );
        assert_eq!(
            resources(Provider::Aws),
            [
                row("ec2nodeclasses", "get,list,watch,patch", ""),
                row("ec2nodeclasses/status", "patch", ""),
                row("services", "get", "kube-dns"),
            ]
        );
    }
}
