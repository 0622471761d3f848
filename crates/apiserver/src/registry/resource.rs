//! One served resource: its names, its rules and where its objects are stored.

use std::sync::Arc;

use serde_json::Value;

use crate::schema::CompiledCrd;
use crate::storage::TableId;

/// Rules in which built-in kinds differ from each other (and from custom resources).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rules {
    /// `metadata.generation` counts changes of the spec.
    pub(crate) generation: bool,
    /// An update without resourceVersion overwrites whatever is stored.
    pub(crate) unconditional_update: bool,
    /// PUT makes the object when it is missing.
    pub(crate) create_on_update: bool,
    /// The creator's status is kept although there is a status subresource (nodes: the kubelet registers with it).
    pub(crate) keep_status_on_create: bool,
    /// The status endpoint may change labels and annotations.
    pub(crate) metadata_through_status: bool,
    /// A DELETE answers with the object, not with a `Status`.
    pub(crate) returns_deleted: bool,
    /// A DELETE that names no policy orphans the dependents.
    pub(crate) orphans_by_default: bool,
    /// Names are DNS labels, or path segments, instead of DNS subdomains.
    pub(crate) names: Names,
}

/// What an object's name may look like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Names {
    #[default]
    DnsSubdomain,
    DnsLabel,
    PathSegment,
}

/// Where the numbers of the scale subresource live (dotted JSON paths without the leading dot).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    /// A custom resource names a string field; the built-in kinds render `spec.selector`.
    pub(crate) label_selector: Option<String>,
}

/// What may be done with a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbs {
    All,
    /// Reviews: they are answered and never stored.
    CreateOnly,
}

impl Verbs {
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Self::All => &[
                "create",
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "update",
                "watch",
            ],
            Self::CreateOnly => &["create"],
        }
    }
}

/// One served resource in one version.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) namespaced: bool,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) verbs: Verbs,
    pub(crate) status: bool,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) rules: Rules,
    pub(crate) table: TableId,
    /// Group and version of the stored form; another served version differs only in `apiVersion`, except for events.
    pub(crate) storage_api_version: String,
    /// Schema and printer columns of a custom resource; `None` for built-in kinds.
    pub(crate) crd: Option<Arc<CrdVersion>>,
}

impl Resource {
    /// `v1` or `group/version`.
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// `pods`, `deployments.apps`: how messages name the resource.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// `Pod`, `Deployment.apps`: how validation messages name the kind.
    pub(crate) fn qualified_kind(&self) -> String {
        if self.group.is_empty() {
            self.kind.clone()
        } else {
            format!("{}.{}", self.kind, self.group)
        }
    }

    /// Whether this is the built-in resource `plural` of `group`.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// The storage key of an object.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced {
            format!("{namespace}/{name}")
        } else {
            name.to_owned()
        }
    }

    /// Whether autoscalers are served in their older version.
    pub(crate) fn is_v1_autoscaler(&self) -> bool {
        self.is("autoscaling", "horizontalpodautoscalers") && self.version == "v1"
    }

    /// The newer events API is a view of the core events.
    pub(crate) fn is_new_event_view(&self) -> bool {
        self.is("events.k8s.io", "events")
    }
}

pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// What the server needs to know of one version of a custom resource beside its names.
#[derive(Debug)]
pub(crate) struct CrdVersion {
    /// Schema and rules, compiled; shared by the definition's versions. A definition restored from disk always compiles,
    /// because it was accepted once.
    pub(crate) compiled: Option<Arc<CompiledCrd>>,
    /// `additionalPrinterColumns`.
    pub(crate) printer_columns: Vec<Value>,
}
