//! The representations of objects in responses: whole, metadata only, Table, another API version.

use std::collections::VecDeque;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::json;
use crate::printing::{self, IncludeObject, KindInfo};
use crate::registry::{Resource, converted};
use crate::request::Format;
use crate::storage::{Change, Page, Stored, named_event_line};

/// The representation that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// The stored bytes.
    Stored,
    /// The stored object under another version of its group, or as a newer event.
    Converted,
    Metadata,
    Table(IncludeObject),
}

impl View {
    pub(crate) fn choose(resource: &Resource, format: Format, include: IncludeObject) -> Self {
        match format {
            Format::Table => Self::Table(include),
            Format::Metadata => Self::Metadata,
            Format::Full | Format::AggregatedDiscovery | Format::OpenApiV2Protobuf => {
                if resource.api_version() == resource.storage_api_version {
                    Self::Stored
                } else {
                    Self::Converted
                }
            }
        }
    }

    /// One stored object. Ages in a Table are relative to `now`.
    pub(crate) fn object(self, resource: &Resource, stored: &Stored, now: Timestamp) -> Bytes {
        match self {
            Self::Stored => stored.json().clone(),
            Self::Metadata => metadata_pieces(stored).concat().into(),
            Self::Converted | Self::Table(_) => self.value(resource, stored.to_value(), now).to_string().into(),
        }
    }

    /// One object that is not stored.
    pub(crate) fn value(self, resource: &Resource, value: Value, now: Timestamp) -> Value {
        match self {
            Self::Stored | Self::Converted => converted(resource, value),
            Self::Metadata => metadata_only(&value),
            Self::Table(include) => {
                let metadata = json!({"resourceVersion": json::at(&value, &["metadata", "resourceVersion"])});
                table(resource, &[converted(resource, value)], include, now, metadata)
            }
        }
    }

    /// A watch event.
    pub(crate) fn event(self, resource: &Resource, change: Change, stored: &Stored, now: Timestamp) -> Bytes {
        match self {
            Self::Stored => stored.event(change),
            Self::Converted | Self::Metadata | Self::Table(_) => {
                let object = self.object(resource, stored, now);
                named_event_line(change.name(), |out| out.extend_from_slice(&object))
            }
        }
    }

    /// The object of a bookmark with this metadata.
    pub(crate) fn bookmark(self, resource: &Resource, metadata: &Value, now: Timestamp) -> Value {
        match self {
            Self::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Self::Table(include) => {
                let version = json!({"resourceVersion": json::at(metadata, &["resourceVersion"])});
                let mut table = table(resource, &[], include, now, version);
                let object = json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata});
                // The annotations of the bookmark are in the object of the only row.
                json::set(&mut table, &["rows"], json!([{"cells": [], "object": object}]));
                table
            }
            Self::Stored | Self::Converted => {
                json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata})
            }
        }
    }

    /// A list, in pieces that share the stored bytes where the form allows it.
    pub(crate) fn list(self, resource: &Resource, page: &Page, now: Timestamp) -> VecDeque<Bytes> {
        let mut metadata = json!({"resourceVersion": page.version.to_string()});
        if let Some(token) = &page.continue_token {
            json::set(&mut metadata, &["continue"], token.as_str().into());
        }
        if let Some(remaining) = page.remaining {
            json::set(&mut metadata, &["remainingItemCount"], remaining.into());
        }
        if let Self::Table(include) = self {
            let objects: Vec<Value> = page.items.iter().map(|o| converted(resource, o.to_value())).collect();
            let table = table(resource, &objects, include, now, metadata);
            return VecDeque::from([Bytes::from(table.to_string())]);
        }
        let (kind, api_version) = match self {
            Self::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1".to_owned()),
            _ => (resource.list_kind.as_str(), resource.api_version()),
        };
        let (kind, api_version) = (Value::from(kind), Value::from(api_version));
        let head = format!("{{\"kind\":{kind},\"apiVersion\":{api_version},\"metadata\":{metadata},\"items\":");
        if self == Self::Metadata && page.items.is_empty() {
            // The real server builds this list by appending to a nil slice.
            return VecDeque::from([Bytes::from(head), Bytes::from_static(b"null}\n")]);
        }
        let mut pieces = VecDeque::with_capacity(page.items.len() * 2 + 3);
        pieces.push_back(Bytes::from(head));
        pieces.push_back(Bytes::from_static(b"["));
        for (i, object) in page.items.iter().enumerate() {
            if i > 0 {
                pieces.push_back(Bytes::from_static(b","));
            }
            match self {
                Self::Metadata => pieces.extend(metadata_pieces(object)),
                _ if resource.crd.is_none() => {
                    pieces.extend(without_type(resource, &self.object(resource, object, now)));
                }
                _ => pieces.push_back(self.object(resource, object, now)),
            }
        }
        pieces.push_back(Bytes::from_static(b"]}\n"));
        pieces
    }
}

fn table(resource: &Resource, objects: &[Value], include: IncludeObject, now: Timestamp, metadata: Value) -> Value {
    let kind = KindInfo {
        group: &resource.group,
        kind: &resource.kind,
    };
    let columns = resource.crd.as_ref().map(|crd| crd.printer_columns.as_slice());
    printing::render(kind, columns, objects, include, now, metadata)
}

/// An object without `apiVersion` and `kind`: the real server leaves them out of the items of lists of built-in kinds.
fn without_type(resource: &Resource, object: &Bytes) -> [Bytes; 2] {
    const OPEN: &[u8] = b"{";
    let (api_version, kind) = (Value::from(resource.api_version()), Value::from(resource.kind.as_str()));
    // Most kinds have no field that sorts before `kind`, so that the stored bytes can be shared.
    let head = format!("{{\"apiVersion\":{api_version},\"kind\":{kind},");
    if object.starts_with(head.as_bytes()) {
        return [Bytes::from_static(OPEN), object.slice(head.len()..)];
    }
    let mut value: Value = serde_json::from_slice(object).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    [Bytes::new(), Bytes::from(value.to_string())]
}

/// The metadata of a stored object, around the stored bytes.
fn metadata_pieces(stored: &Stored) -> [Bytes; 3] {
    const HEAD: &[u8] = b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":";
    let metadata = match stored.metadata() {
        none if none.is_empty() => Bytes::from_static(b"null"),
        some => some.clone(),
    };
    [Bytes::from_static(HEAD), metadata, Bytes::from_static(b"}")]
}

fn metadata_only(value: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": json::at(value, &["metadata"]),
    })
}
