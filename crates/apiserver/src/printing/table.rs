//! The Table of some objects.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::json_path::JsonPath;
use super::{age, builtin};
use crate::json;

/// How much of each object a row carries (`includeObject` of a request).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata, the default.
    Metadata,
    /// All of it.
    Object,
}

/// Which kind the rows are of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KindInfo<'a> {
    /// The API group, empty for the core group.
    pub(crate) group: &'a str,
    /// The kind.
    pub(crate) kind: &'a str,
}

/// Checks the JSON path of a printer column; the error says what is wrong with it.
pub(crate) fn check_json_path(path: &str) -> Result<(), String> {
    JsonPath::parse(path).map(|_| ())
}

/// The Table of some objects. `printer_columns` are the `additionalPrinterColumns` of a CRD version, `None` for built-in
/// kinds; `list_metadata` becomes the Table's metadata.
pub(crate) fn render<'a>(
    kind: KindInfo<'_>,
    printer_columns: Option<&[Value]>,
    objects: impl IntoIterator<Item = &'a Value>,
    include: IncludeObject,
    now: Timestamp,
    list_metadata: Value,
) -> Value {
    let columns = columns_of(kind, printer_columns);
    let rows: Vec<Value> = objects
        .into_iter()
        .map(|object| {
            let mut row = json!({"cells": columns.cells(object, now)});
            match include {
                IncludeObject::None => json::set(&mut row, &["object"], Value::Null),
                IncludeObject::Metadata => {
                    let metadata = json!({
                        "kind": "PartialObjectMetadata",
                        "apiVersion": "meta.k8s.io/v1",
                        "metadata": object.get("metadata"),
                    });
                    json::set(&mut row, &["object"], metadata);
                }
                IncludeObject::Object => json::set(&mut row, &["object"], object.clone()),
            }
            row
        })
        .collect();
    let mut table = json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "columnDefinitions": columns.definitions(),
        "rows": rows,
    });
    json::set(&mut table, &["metadata"], list_metadata);
    table
}

enum Columns {
    Builtin(builtin::Printer),
    Custom(Vec<CustomColumn>),
}

/// A printer column of a CRD.
struct CustomColumn {
    name: String,
    ty: String,
    format: String,
    description: String,
    priority: i64,
    path: Option<JsonPath>,
}

fn columns_of(kind: KindInfo<'_>, printer_columns: Option<&[Value]>) -> Columns {
    match printer_columns {
        None => Columns::Builtin(builtin::printer(kind.group, kind.kind)),
        Some([]) => {
            let age = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
                "description": builtin::AGE_DESCRIPTION});
            Columns::Custom(vec![CustomColumn::parse(&age)])
        }
        Some(listed) => Columns::Custom(listed.iter().map(CustomColumn::parse).collect()),
    }
}

impl CustomColumn {
    fn parse(column: &Value) -> Self {
        let text = |key: &str| column.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let described = text("description");
        Self {
            name: text("name"),
            ty: text("type"),
            format: text("format"),
            description: if described.is_empty() {
                format!(
                    "Custom resource definition column (in JSONPath format): {}",
                    text("jsonPath")
                )
            } else {
                described
            },
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
            path: JsonPath::parse(&text("jsonPath")).ok(),
        }
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(found) = self.path.as_ref().and_then(|p| p.first(object)) else {
            return Value::Null;
        };
        match (self.ty.as_str(), found) {
            ("date", Value::String(time)) => age::since_text(time, now).into(),
            ("integer", Value::Number(n)) => n.as_i64().map_or(Value::Null, Value::from),
            ("number", Value::Number(n)) => Value::Number(n.clone()),
            ("boolean", Value::Bool(b)) => Value::Bool(*b),
            ("string", Value::String(text)) => text.as_str().into(),
            ("string", Value::Null) => Value::Null,
            ("string", other) => other.to_string().into(),
            _ => Value::Null,
        }
    }
}

impl Columns {
    fn definitions(&self) -> Vec<Value> {
        match self {
            Self::Builtin(printer) => printer.columns.iter().map(builtin::Column::definition).collect(),
            Self::Custom(columns) => {
                let own = columns.iter().map(|c| {
                    json!({"name": c.name, "type": c.ty, "format": c.format, "description": c.description,
                        "priority": c.priority})
                });
                std::iter::once(builtin::NAME.definition()).chain(own).collect()
            }
        }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self {
            Self::Builtin(printer) => (printer.row)(object, now),
            Self::Custom(columns) => {
                let name = builtin::name(object);
                std::iter::once(name)
                    .chain(columns.iter().map(|c| c.cell(object, now)))
                    .collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T01:00:00Z";

    fn now() -> Timestamp {
        NOW.parse().expect("a time")
    }

    fn pool_columns() -> Vec<Value> {
        vec![
            json!({"name": "NodeClass", "type": "string", "jsonPath": ".spec.template.spec.nodeClassRef.name"}),
            json!({"name": "Nodes", "type": "string", "jsonPath": ".status.nodes"}),
            json!({"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}),
            json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}),
            json!({"name": "Weight", "type": "integer", "jsonPath": ".spec.weight", "priority": 1}),
            json!({"name": "Zone", "type": "string", "jsonPath": ".metadata.labels.topology\\.kubernetes\\.io/zone"}),
        ]
    }

    /// The table of one NodePool.
    fn pool_table(pool: &Value, include: IncludeObject, metadata: Value) -> Value {
        let kind = KindInfo {
            group: "karpenter.sh",
            kind: "NodePool",
        };
        render(kind, Some(&pool_columns()), [pool], include, now(), metadata)
    }

    // API-009, API-010
    #[test]
    fn custom_columns_are_read_by_path() {
        let pool = json!({
            "metadata": {"name": "default", "creationTimestamp": "2026-01-01T00:55:00Z",
                "labels": {"topology.kubernetes.io/zone": "z-a"}},
            "spec": {"weight": 10, "template": {"spec": {"nodeClassRef": {"name": "kwok"}}}},
            "status": {"nodes": 3, "conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        let table = pool_table(&pool, IncludeObject::Metadata, json!({"resourceVersion": "7"}));
        assert_eq!(
            table["rows"][0]["cells"],
            json!(["default", "kwok", "3", "True", "5m", 10, "z-a"])
        );
        assert_eq!(table["columnDefinitions"][5]["priority"], 1);
        assert_eq!(table["columnDefinitions"][0]["format"], "name");
        assert_eq!(table["metadata"]["resourceVersion"], "7");
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
        let whole = pool_table(&pool, IncludeObject::Object, json!({}));
        assert_eq!(whole["rows"][0]["object"], pool);
    }

    // API-232
    #[test]
    fn absent_values_are_empty_cells() {
        let bare = json!({"metadata": {"name": "x"}});
        let table = pool_table(&bare, IncludeObject::None, json!({}));
        assert_eq!(
            table["rows"][0],
            json!({"cells": ["x", null, null, null, null, null, null], "object": null})
        );
    }

    // API-013
    #[test]
    fn a_kind_without_columns_shows_name_and_age() {
        let object = json!({"metadata": {"name": "x", "creationTimestamp": "2025-12-31T01:00:00Z"}});
        let kind = KindInfo {
            group: "karpenter.kwok.sh",
            kind: "KWOKNodeClass",
        };
        let table = render(kind, Some(&[]), [&object], IncludeObject::None, now(), json!({}));
        assert_eq!(table["rows"][0]["cells"], json!(["x", "24h"]));
        let names: Vec<&str> = table["columnDefinitions"]
            .as_array()
            .expect("list")
            .iter()
            .filter_map(|c| c["name"].as_str())
            .collect();
        assert_eq!(names, ["Name", "Age"]);
    }

    #[test]
    fn every_builtin_row_has_as_many_cells_as_columns() {
        let bare = json!({"metadata": {"name": "x"}});
        for (group, kind) in builtin::KINDS {
            let info = KindInfo { group, kind };
            let table = render(info, None, [&bare], IncludeObject::None, now(), json!({}));
            let columns = table["columnDefinitions"].as_array().map(Vec::len);
            assert_eq!(
                table["rows"][0]["cells"].as_array().map(Vec::len),
                columns,
                "{group}/{kind}"
            );
        }
    }
}
