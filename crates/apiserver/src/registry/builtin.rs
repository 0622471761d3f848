//! The one table of built-in resources.

use super::resource::{Names, Resource, Rules, ScalePaths, Verbs, api_version};
use crate::storage::TableId;

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Builtin {
    group: &'static str,
    version: &'static str,
    pub(crate) plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    verbs: Verbs,
    status: bool,
    scale: bool,
    rules: Rules,
    /// Fields a field selector may name beside `metadata.name` and `metadata.namespace`.
    pub(crate) fields: &'static [&'static str],
}

impl Builtin {
    const fn namespaced(group: &'static str, version: &'static str, plural: &'static str, kind: &'static str) -> Self {
        Self {
            group,
            version,
            plural,
            kind,
            namespaced: true,
            short_names: &[],
            categories: &[],
            verbs: Verbs::All,
            status: false,
            scale: false,
            rules: Rules {
                generation: false,
                unconditional_update: true,
                create_on_update: false,
                keep_status_on_create: false,
                metadata_through_status: false,
                returns_deleted: false,
                orphans_by_default: false,
                names: Names::DnsSubdomain,
            },
            fields: &[],
        }
    }

    const fn cluster(group: &'static str, version: &'static str, plural: &'static str, kind: &'static str) -> Self {
        let mut row = Self::namespaced(group, version, plural, kind);
        row.namespaced = false;
        row
    }

    const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    /// Part of `kubectl get all`.
    const fn in_all(mut self) -> Self {
        self.categories = &["all"];
        self
    }

    const fn status(mut self) -> Self {
        self.status = true;
        self
    }

    const fn scale(mut self) -> Self {
        self.scale = true;
        self
    }

    /// Changes of the spec raise `metadata.generation`.
    const fn generation(mut self) -> Self {
        self.rules.generation = true;
        self
    }

    /// Updates need a resource version.
    const fn conditional_update(mut self) -> Self {
        self.rules.unconditional_update = false;
        self
    }

    /// An update of a missing object creates it.
    const fn create_on_update(mut self) -> Self {
        self.rules.create_on_update = true;
        self
    }

    /// A deletion returns the object instead of a `Status`.
    const fn returns_deleted(mut self) -> Self {
        self.rules.returns_deleted = true;
        self
    }

    /// A deletion without a propagation policy orphans the dependents.
    const fn orphans_by_default(mut self) -> Self {
        self.rules.orphans_by_default = true;
        self
    }

    /// The subresource `status` may change labels and annotations.
    const fn metadata_through_status(mut self) -> Self {
        self.rules.metadata_through_status = true;
        self
    }

    /// A creation keeps the status of the object.
    const fn keep_status_on_create(mut self) -> Self {
        self.rules.keep_status_on_create = true;
        self
    }

    const fn names(mut self, names: Names) -> Self {
        self.rules.names = names;
        self
    }

    /// Objects are answered, not stored: the only verb is create.
    const fn create_only(mut self) -> Self {
        self.verbs = Verbs::CreateOnly;
        self
    }

    /// Field selectors besides name and namespace, as dotted paths.
    const fn fields(mut self, fields: &'static [&'static str]) -> Self {
        self.fields = fields;
        self
    }

    /// Group and version of the stored form, and the plural: rows that agree in it share a table.
    pub(crate) fn storage(&self) -> (&'static str, &'static str, &'static str) {
        if self.group == "events.k8s.io" {
            ("", "v1", "events")
        } else if self.group == "autoscaling" {
            ("autoscaling", "v2", self.plural)
        } else {
            (self.group, self.version, self.plural)
        }
    }

    pub(crate) fn resource(&self, table: TableId) -> Resource {
        let strings = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        let (storage_group, storage_version, _) = self.storage();
        Resource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            namespaced: self.namespaced,
            short_names: strings(self.short_names),
            categories: strings(self.categories),
            verbs: self.verbs,
            status: self.status,
            scale: self.scale.then(|| ScalePaths {
                spec_replicas: "spec.replicas".to_owned(),
                status_replicas: "status.replicas".to_owned(),
                label_selector: None,
            }),
            rules: self.rules,
            table,
            storage_api_version: api_version(storage_group, storage_version),
            crd: None,
        }
    }
}

/// The built-in resources, in the order of their tables.
pub(crate) fn builtins() -> &'static [Builtin] {
    TABLE
}

const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

const POD_FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
];

const RBAC: &str = "rbac.authorization.k8s.io";

// The definitions come first: a restart reads the tables in this order, and the custom objects need them.
const TABLE: &[Builtin] = &[
    Builtin::cluster(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    )
    .short(&["crd", "crds"])
    .status()
    .generation()
    .conditional_update(),
    Builtin::cluster("", "v1", "namespaces", "Namespace")
        .short(&["ns"])
        .status()
        .names(Names::DnsLabel)
        .fields(&["status.phase"])
        .returns_deleted(),
    Builtin::namespaced("", "v1", "pods", "Pod")
        .short(&["po"])
        .in_all()
        .status()
        .generation()
        .metadata_through_status()
        .returns_deleted()
        .fields(POD_FIELDS),
    Builtin::cluster("", "v1", "nodes", "Node")
        .short(&["no"])
        .status()
        .keep_status_on_create()
        .metadata_through_status()
        .fields(&["spec.unschedulable"]),
    Builtin::namespaced("", "v1", "services", "Service")
        .short(&["svc"])
        .in_all()
        .status()
        .names(Names::DnsLabel)
        .returns_deleted()
        .fields(&["spec.clusterIP", "spec.type"]),
    Builtin::namespaced("", "v1", "endpoints", "Endpoints")
        .short(&["ep"])
        .create_on_update(),
    Builtin::namespaced("", "v1", "configmaps", "ConfigMap").short(&["cm"]),
    Builtin::namespaced("", "v1", "secrets", "Secret").fields(&["type"]),
    Builtin::namespaced("", "v1", "serviceaccounts", "ServiceAccount")
        .short(&["sa"])
        .returns_deleted(),
    Builtin::namespaced("", "v1", "events", "Event")
        .short(&["ev"])
        .names(Names::PathSegment)
        .create_on_update()
        .fields(EVENT_FIELDS),
    Builtin::cluster("", "v1", "persistentvolumes", "PersistentVolume")
        .short(&["pv"])
        .status()
        .returns_deleted()
        .fields(&["name"]),
    Builtin::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
        .short(&["pvc"])
        .status()
        .returns_deleted()
        .fields(&["name"]),
    Builtin::namespaced("", "v1", "replicationcontrollers", "ReplicationController")
        .short(&["rc"])
        .in_all()
        .status()
        .scale()
        .generation()
        .orphans_by_default()
        .fields(&["status.replicas"]),
    Builtin::namespaced("", "v1", "limitranges", "LimitRange")
        .short(&["limits"])
        .create_on_update(),
    Builtin::namespaced("", "v1", "resourcequotas", "ResourceQuota")
        .short(&["quota"])
        .status()
        .returns_deleted(),
    Builtin::namespaced("", "v1", "podtemplates", "PodTemplate")
        .returns_deleted()
        .generation(),
    Builtin::namespaced("apps", "v1", "deployments", "Deployment")
        .short(&["deploy"])
        .in_all()
        .status()
        .scale()
        .generation(),
    Builtin::namespaced("apps", "v1", "replicasets", "ReplicaSet")
        .short(&["rs"])
        .in_all()
        .status()
        .scale()
        .generation()
        .fields(&["status.replicas"]),
    Builtin::namespaced("apps", "v1", "statefulsets", "StatefulSet")
        .short(&["sts"])
        .in_all()
        .status()
        .scale()
        .generation(),
    Builtin::namespaced("apps", "v1", "daemonsets", "DaemonSet")
        .short(&["ds"])
        .in_all()
        .status()
        .generation(),
    Builtin::namespaced("apps", "v1", "controllerrevisions", "ControllerRevision"),
    Builtin::namespaced("batch", "v1", "jobs", "Job")
        .in_all()
        .status()
        .generation()
        .orphans_by_default()
        .fields(&["status.successful"]),
    Builtin::namespaced("batch", "v1", "cronjobs", "CronJob")
        .short(&["cj"])
        .in_all()
        .status()
        .generation(),
    Builtin::namespaced(
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
    )
    .short(&["hpa"])
    .in_all()
    .status(),
    Builtin::namespaced(
        "autoscaling",
        "v1",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
    )
    .short(&["hpa"])
    .in_all()
    .status(),
    Builtin::namespaced("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
        .short(&["pdb"])
        .status()
        .generation()
        .conditional_update(),
    Builtin::cluster("storage.k8s.io", "v1", "storageclasses", "StorageClass")
        .short(&["sc"])
        .returns_deleted(),
    Builtin::cluster("storage.k8s.io", "v1", "csinodes", "CSINode")
        .conditional_update()
        .returns_deleted(),
    Builtin::cluster("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment")
        .status()
        .conditional_update()
        .returns_deleted(),
    Builtin::cluster("storage.k8s.io", "v1", "csidrivers", "CSIDriver")
        .conditional_update()
        .returns_deleted(),
    Builtin::namespaced("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity").conditional_update(),
    Builtin::namespaced("coordination.k8s.io", "v1", "leases", "Lease")
        .conditional_update()
        .create_on_update(),
    Builtin::cluster("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass")
        .short(&["pc"])
        .generation(),
    Builtin::namespaced("events.k8s.io", "v1", "events", "Event")
        .short(&["ev"])
        .names(Names::PathSegment)
        .create_on_update()
        .fields(EVENT_FIELDS),
    Builtin::namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice").conditional_update(),
    Builtin::namespaced("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
        .short(&["netpol"])
        .generation(),
    Builtin::namespaced("networking.k8s.io", "v1", "ingresses", "Ingress")
        .short(&["ing"])
        .status()
        .generation(),
    Builtin::cluster("networking.k8s.io", "v1", "ingressclasses", "IngressClass").generation(),
    Builtin::namespaced(RBAC, "v1", "roles", "Role")
        .names(Names::PathSegment)
        .create_on_update(),
    Builtin::namespaced(RBAC, "v1", "rolebindings", "RoleBinding")
        .names(Names::PathSegment)
        .create_on_update(),
    Builtin::cluster(RBAC, "v1", "clusterroles", "ClusterRole")
        .names(Names::PathSegment)
        .create_on_update(),
    Builtin::cluster(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding")
        .names(Names::PathSegment)
        .create_on_update(),
    Builtin::cluster("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass").conditional_update(),
    Builtin::cluster(
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
    )
    .create_only(),
    Builtin::cluster(
        "authorization.k8s.io",
        "v1",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
    )
    .create_only(),
    Builtin::cluster(
        "authorization.k8s.io",
        "v1",
        "subjectaccessreviews",
        "SubjectAccessReview",
    )
    .create_only(),
    Builtin::namespaced(
        "authorization.k8s.io",
        "v1",
        "localsubjectaccessreviews",
        "LocalSubjectAccessReview",
    )
    .create_only(),
    Builtin::cluster("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview").create_only(),
];
