//! Admission without a server: what a POST of an object would default and refuse, for tools that read manifests.

use std::sync::Arc;

use serde_json::Value;

use super::admit;
use crate::json;
use crate::registry::Resource;
use crate::schema::FieldValidation;
use crate::state::State;
use crate::write::WriteRequest;

/// Defaults and validates objects as the server does at creation. References to other objects are not looked up; nothing is stored.
#[derive(Debug)]
pub struct Admission {
    state: State,
}

/// One reason for which the server refuses an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The path of the invalid field, if the reason is about one.
    pub field: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl Admission {
    /// Admission of the built-in kinds and those of the given CustomResourceDefinitions.
    pub fn new<'a>(crds: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut state = State::new(0, 0);
        for crd in crds {
            state.serve_custom_resource(crd);
        }
        Self { state }
    }

    /// The resource of a kind in a version, `None` when it is not served.
    pub(super) fn resource(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let mut resources = self.state.registry.iter();
        resources.find(|resource| resource.kind == kind && resource.api_version() == api_version)
    }

    /// Defaults `object` in place and validates it. Its status, its priority and the fields that only a server sets are unchanged. Objects
    /// of unknown kinds are accepted.
    pub fn admit(&mut self, object: &mut Value) -> Result<(), Vec<Problem>> {
        let (api_version, kind) = (text(object, &["apiVersion"]), text(object, &["kind"]));
        let Some(resource) = self.resource(&api_version, &kind).cloned() else {
            return Ok(());
        };
        let namespace = text(object, &["metadata", "namespace"]);
        let status = json::take(object, &["status"]);
        let class = json::take(object, &["spec", "priorityClassName"]);
        let mut write = WriteRequest {
            resource: &resource,
            namespace: &namespace,
            now: jiff::Timestamp::UNIX_EPOCH,
            dry_run: true,
            validation: FieldValidation::Ignore,
            manager: "",
            subresource: "",
            applied: false,
            warnings: Vec::new(),
        };
        let judged = admit::create(&mut self.state, &mut write, object);
        match status {
            Some(status) => json::set(object, &["status"], status),
            None => drop(json::take(object, &["status"])),
        }
        if let Some(class) = class {
            json::set(object, &["spec", "priorityClassName"], class);
            json::take(object, &["spec", "priority"]);
        }
        judged.map_err(|refused| problems(&refused.status()))
    }
}

fn text(object: &Value, path: &[&str]) -> String {
    json::text(object, path).unwrap_or_default().to_owned()
}

fn problems(status: &Value) -> Vec<Problem> {
    let causes = json::items(status, &["details", "causes"]);
    let of = |cause: &Value| Problem {
        field: json::text(cause, &["field"])
            .filter(|field| *field != "<nil>")
            .map(str::to_owned),
        message: text(cause, &["message"]),
    };
    if causes.is_empty() {
        return vec![Problem {
            field: None,
            message: text(status, &["message"]),
        }];
    }
    causes.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_are_defaulted_and_judged_without_a_server() {
        let mut admission = Admission::new([]);
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "x"}, "status": {"phase": "Running"},
            "spec": {"priorityClassName": "high", "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]}});
        assert_eq!(admission.admit(&mut pod), Ok(()));
        assert_eq!(
            pod.pointer("/spec/containers/0/resources/requests/cpu"),
            Some(&json!("1"))
        );
        assert_eq!(pod.pointer("/status/phase"), Some(&json!("Running")));
        assert_eq!(pod.pointer("/spec/priorityClassName"), Some(&json!("high")));
        json::set(
            &mut pod,
            &["spec", "containers"],
            json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": "-1"}}}]),
        );
        let problems = admission.admit(&mut pod).expect_err("a negative request");
        assert_eq!(
            problems.first().and_then(|p| p.field.as_deref()),
            Some("spec.containers[0].resources.requests[cpu]"),
            "{problems:?}"
        );
    }
}
