//! Requests that the API server refuses because a permission is missing: each is logged once, with the rule to add.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, StatusCode, Uri};

use super::RequestInfo;

/// An RBAC rule that would allow a request.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PermissionRule {
    /// The API group, "" for core.
    pub group: String,
    /// The resource, with the subresource after a slash.
    pub resource: String,
    /// The verb.
    pub verb: &'static str,
    /// The namespace of the request; `None` for all namespaces and for objects without one.
    pub namespace: Option<String>,
}

impl PermissionRule {
    /// The rule for a request; `None` for paths that are not about a resource.
    pub fn of(method: &Method, uri: &Uri) -> Option<Self> {
        let info = RequestInfo::parse(method, uri.path())?;
        let watches = uri
            .query()
            .is_some_and(|query| query.split('&').any(|part| matches!(part, "watch=true" | "watch=1")));
        let verb = match (info.verb, info.named) {
            ("GET", _) => "get",
            ("LIST", _) if watches => "watch",
            ("LIST", _) => "list",
            ("CREATE", _) => "create",
            ("UPDATE", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", true) => "delete",
            ("DELETE", false) => "deletecollection",
            _ => return None,
        };
        let resource = match info.subresource.as_str() {
            "" => info.resource,
            subresource => format!("{}/{subresource}", info.resource),
        };
        Some(Self {
            group: info.group,
            resource,
            verb,
            namespace: namespace(uri.path()),
        })
    }

    /// Whether only a missing permission can be the cause of a refusal: admission refuses writes alone.
    fn reads(&self) -> bool {
        matches!(self.verb, "get" | "list" | "watch")
    }
}

/// The namespace that a path is inside of.
fn namespace(path: &str) -> Option<String> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let at = segments.iter().position(|segment| *segment == "namespaces")?;
    // `namespaces/NAME` alone is about the Namespace itself.
    segments.get(at + 2)?;
    segments.get(at + 1).map(|name| (*name).to_owned())
}

impl fmt::Display for PermissionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            resource,
            verb,
            namespace,
        } = self;
        write!(
            f,
            "apiGroups: [{group:?}], resources: [{resource:?}], verbs: [{verb:?}]"
        )?;
        match namespace {
            Some(namespace) => write!(f, " in a Role of namespace {namespace}, or in a ClusterRole"),
            None => write!(f, " in a ClusterRole"),
        }
    }
}

/// The rules that were logged already; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct MissingPermissions(Arc<Mutex<BTreeSet<PermissionRule>>>);

impl MissingPermissions {
    /// Logs the rule that a refused request needs, the first time it is missing.
    pub(super) fn note(&self, method: &Method, uri: &Uri, status: StatusCode) {
        if status != StatusCode::FORBIDDEN {
            return;
        }
        let Some(rule) = PermissionRule::of(method, uri) else {
            return;
        };
        let is_new = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(rule.clone());
        if !is_new {
            return;
        }
        if rule.reads() {
            tracing::warn!(%rule, "a permission is missing, add this rule");
        } else {
            tracing::warn!(%rule, "a write was refused; unless admission refuses it, a permission is missing: add this rule");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(method: &Method, uri: &str) -> String {
        let rule = PermissionRule::of(method, &uri.parse().expect("a URI"));
        rule.map(|rule| rule.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_rule_allows_the_request_and_nothing_else() {
        for (method, uri, expected) in [
            (
                Method::GET,
                "/api/v1/pods?limit=500",
                r#"apiGroups: [""], resources: ["pods"], verbs: ["list"] in a ClusterRole"#,
            ),
            (
                Method::GET,
                "/api/v1/pods?&watch=true&resourceVersion=7",
                r#"apiGroups: [""], resources: ["pods"], verbs: ["watch"] in a ClusterRole"#,
            ),
            (
                Method::GET,
                "/api/v1/namespaces/shop",
                r#"apiGroups: [""], resources: ["namespaces"], verbs: ["get"] in a ClusterRole"#,
            ),
            (
                Method::POST,
                "/api/v1/namespaces/shop/pods/web-0/eviction",
                r#"apiGroups: [""], resources: ["pods/eviction"], verbs: ["create"] in a Role of namespace shop, or in a ClusterRole"#,
            ),
            (
                Method::PATCH,
                "/apis/karpenter.sh/v1/nodeclaims/web-1/status",
                r#"apiGroups: ["karpenter.sh"], resources: ["nodeclaims/status"], verbs: ["patch"] in a ClusterRole"#,
            ),
            (
                Method::PUT,
                "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election",
                r#"apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["update"] in a Role of namespace kube-system, or in a ClusterRole"#,
            ),
            (
                Method::DELETE,
                "/apis/karpenter.sh/v1/nodeclaims/web-1",
                r#"apiGroups: ["karpenter.sh"], resources: ["nodeclaims"], verbs: ["delete"] in a ClusterRole"#,
            ),
            (
                Method::DELETE,
                "/apis/karpenter.sh/v1/nodeclaims",
                r#"apiGroups: ["karpenter.sh"], resources: ["nodeclaims"], verbs: ["deletecollection"] in a ClusterRole"#,
            ),
            (Method::GET, "/version", ""),
        ] {
            assert_eq!(rule(&method, uri), expected, "{uri}");
        }
    }

    #[test]
    fn a_rule_is_noted_once() {
        let missing = MissingPermissions::default();
        let uri: Uri = "/api/v1/pods".parse().expect("a URI");
        missing.note(&Method::GET, &uri, StatusCode::NOT_FOUND);
        assert!(missing.0.lock().expect("a lock").is_empty());
        for _ in 0..3 {
            missing.clone().note(&Method::GET, &uri, StatusCode::FORBIDDEN);
        }
        assert_eq!(missing.0.lock().expect("a lock").len(), 1);
    }
}
