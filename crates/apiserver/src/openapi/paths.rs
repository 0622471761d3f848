//! The paths of a resource and what can be done at each.

use serde_json::{Map, Value, json};

use super::documents::{DocumentedResource, document_path, gvk, reference};
use crate::json;

const PATCH_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// What custom resources take: kubectl picks its patch type by this list.
const CUSTOM_PATCH_TYPES: [&str; 3] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];

/// The component of the scale subresource.
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// Everything about a resource an operation mentions.
struct Subject<'a> {
    patch_types: &'static [&'static str],
    gvk: Value,
    plural: &'a str,
    component: &'a str,
    namespaced: bool,
}

/// All paths of a resource.
pub(super) fn of(
    group: &str,
    version: &str,
    resource: &DocumentedResource<'_>,
    component: &str,
) -> Vec<(String, Value)> {
    let base = format!("/{}", document_path(group, version));
    let subject = Subject {
        patch_types: if resource.custom.is_some() {
            &CUSTOM_PATCH_TYPES
        } else {
            &PATCH_TYPES
        },
        gvk: gvk(group, version, resource.kind),
        plural: resource.plural,
        component,
        namespaced: resource.namespaced,
    };
    let collection = if resource.namespaced {
        format!("{base}/namespaces/{{namespace}}/{}", resource.plural)
    } else {
        format!("{base}/{}", resource.plural)
    };
    let object = format!("{collection}/{{name}}");
    let mut out = Vec::new();
    if resource.namespaced {
        let everywhere = Subject {
            namespaced: false,
            gvk: subject.gvk.clone(),
            ..subject
        };
        let list = everywhere.operation("get", "list", &list_parameters(), &list_component(component), None);
        out.push((
            format!("{base}/{}", resource.plural),
            everywhere.item([("get", list)], false),
        ));
    }
    out.push((collection, subject.collection()));
    out.push((object.clone(), subject.object(true)));
    if resource.status {
        out.push((format!("{object}/status"), subject.object(false)));
    }
    if resource.scale {
        let scale = Subject {
            gvk: gvk("autoscaling", "v1", "Scale"),
            component: SCALE,
            ..subject
        };
        out.push((format!("{object}/scale"), scale.object(false)));
    }
    out
}

fn list_component(component: &str) -> String {
    format!("{component}List")
}

fn query(name: &str, ty: &str, description: &str) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": {"type": ty, "uniqueItems": true}})
}

fn list_parameters() -> Vec<Value> {
    vec![
        query("allowWatchBookmarks", "boolean", "Whether a watch may send bookmarks."),
        query("continue", "string", "Where an earlier list with a limit ended."),
        query("fieldSelector", "string", "Only objects whose fields match."),
        query("labelSelector", "string", "Only objects whose labels match."),
        query("limit", "integer", "At most this many objects."),
        query("resourceVersion", "string", "How fresh the answer has to be."),
        query("resourceVersionMatch", "string", "How resourceVersion is meant."),
        query(
            "sendInitialEvents",
            "boolean",
            "Whether a watch starts with what is there.",
        ),
        query("timeoutSeconds", "integer", "When a watch ends."),
        query("watch", "boolean", "Watch instead of listing."),
    ]
}

fn write_parameters() -> Vec<Value> {
    vec![
        query("dryRun", "string", "With All, nothing is stored."),
        query(
            "fieldManager",
            "string",
            "Who writes, for the books of server-side apply.",
        ),
        query(
            "fieldValidation",
            "string",
            "What to do about unknown fields: Ignore, Warn or Strict.",
        ),
    ]
}

fn patch_parameters() -> Vec<Value> {
    let mut parameters = write_parameters();
    parameters.push(query(
        "force",
        "boolean",
        "Take over fields of other managers; for apply patches only.",
    ));
    parameters
}

fn delete_parameters() -> Vec<Value> {
    vec![
        query("dryRun", "string", "With All, nothing is deleted."),
        query("gracePeriodSeconds", "integer", "How long the object may take to end."),
        query(
            "propagationPolicy",
            "string",
            "What happens to dependents: Orphan, Background or Foreground.",
        ),
    ]
}

impl Subject<'_> {
    fn collection(&self) -> Value {
        let list = self.operation("get", "list", &list_parameters(), &list_component(self.component), None);
        let create = self.operation("post", "post", &write_parameters(), self.component, Some(&["*/*"]));
        let mut parameters = list_parameters();
        parameters.extend(delete_parameters());
        let delete = self.operation(
            "delete",
            "deletecollection",
            &parameters,
            self.component,
            Some(&["*/*"]),
        );
        self.item([("get", list), ("post", create), ("delete", delete)], false)
    }

    fn object(&self, deletable: bool) -> Value {
        let mut operations = vec![
            ("get", self.operation("get", "get", &[], self.component, None)),
            (
                "put",
                self.operation("put", "put", &write_parameters(), self.component, Some(&["*/*"])),
            ),
            (
                "patch",
                self.operation(
                    "patch",
                    "patch",
                    &patch_parameters(),
                    self.component,
                    Some(self.patch_types),
                ),
            ),
        ];
        if deletable {
            let delete = self.operation("delete", "delete", &delete_parameters(), self.component, Some(&["*/*"]));
            operations.push(("delete", delete));
        }
        self.item(operations, true)
    }

    /// A path with its operations and the parameters that are part of the path.
    fn item(&self, operations: impl IntoIterator<Item = (&'static str, Value)>, named: bool) -> Value {
        let in_path = |name: &str, description: &str| {
            json!({"name": name, "in": "path", "required": true, "description": description,
                "schema": {"type": "string", "uniqueItems": true}})
        };
        let mut parameters = Vec::new();
        if named {
            parameters.push(in_path("name", "The name of the object."));
        }
        if self.namespaced {
            parameters.push(in_path("namespace", "The namespace of the object."));
        }
        parameters.push(query("pretty", "string", "Whether to indent the answer."));
        let mut item: Map<String, Value> = operations.into_iter().map(|(verb, op)| (verb.to_owned(), op)).collect();
        item.insert("parameters".to_owned(), Value::Array(parameters));
        Value::Object(item)
    }

    fn operation(&self, verb: &str, action: &str, parameters: &[Value], answer: &str, body: Option<&[&str]>) -> Value {
        let content = json!({"application/json": {"schema": {"$ref": reference(answer)}}});
        let mut operation = json!({
            "description": format!("{action} {}", self.plural),
            "operationId": format!("{verb}-{action}-{}", self.plural),
            "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": content}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": self.gvk,
        });
        if let Some(types) = body {
            let schema = json!({"schema": {"type": "object"}});
            let content: Map<String, Value> = types.iter().map(|ty| ((*ty).to_owned(), schema.clone())).collect();
            json::set(&mut operation, &["requestBody"], json!({"content": content}));
        }
        operation
    }
}
