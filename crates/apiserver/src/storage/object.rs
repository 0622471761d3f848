//! One stored object.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value;

use super::Change;
use crate::json;

/// 128 bits that stand for an object's uid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Uid(u128);

impl Uid {
    /// UUIDs are read as such; other texts (imported objects may carry any) are hashed.
    pub(crate) fn parse(text: &str) -> Self {
        let hex: String = text.chars().filter(|c| *c != '-').collect();
        if hex.len() == 32
            && let Ok(bits) = u128::from_str_radix(&hex, 16)
        {
            return Self(bits);
        }
        let fnv =
            |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        Self(text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, fnv))
    }

    /// A version 4 UUID made of random bits.
    pub(crate) fn random(bits: u128) -> (Self, String) {
        let bits = bits & !(0xf << 76) | (0x4 << 76);
        let bits = bits & !(0b11 << 62) | (0b10 << 62);
        let h = format!("{bits:032x}");
        let text = [0..8, 8..12, 12..16, 16..20, 20..32]
            .map(|r| h.get(r).unwrap_or_default())
            .join("-");
        (Self(bits), text)
    }
}

/// A field that selectors may name: its label and where it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldPath {
    pub(crate) label: String,
    path: Vec<String>,
    /// What an absent field reads as.
    absent: &'static str,
}

impl FieldPath {
    /// `label` with the dotted path it stands for.
    pub(crate) fn new(label: &str, path: &str) -> Self {
        let absent = match label {
            "spec.unschedulable" | "spec.hostNetwork" => "false",
            "status.replicas" | "status.successful" => "0",
            _ => "",
        };
        let path = match label {
            "status.successful" => "status.succeeded",
            "name" => "metadata.name",
            _ => path,
        };
        let path = path.trim_start_matches('.').split('.').map(str::to_owned).collect();
        Self {
            label: label.to_owned(),
            path,
            absent,
        }
    }

    fn read(&self, object: &Value) -> Box<str> {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        match json::at(object, &path) {
            Value::String(s) => s.as_str().into(),
            Value::Null => self.absent.into(),
            // An event's source is the component that reported it.
            Value::Object(source) => source
                .get("component")
                .and_then(Value::as_str)
                .unwrap_or(self.absent)
                .into(),
            other => other.to_string().into(),
        }
    }
}

/// An object as it is kept: the line of the watch event that announced it, of which the object is a slice. So one buffer
/// serves the store, every watcher and every read.
#[derive(Debug)]
pub(crate) struct Stored {
    line: Bytes,
    json: Bytes,
    metadata: Bytes,
    pub(crate) version: u64,
    change: Change,
    /// `namespace/name`, or the name alone for cluster-scoped objects.
    pub(crate) key: Arc<str>,
    pub(crate) uid: Uid,
    /// Sorted by key.
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of the table's selectable fields, in its order.
    pub(crate) fields: Box<[Box<str>]>,
    /// A graceful deletion or a finalizer holds the object.
    pub(crate) deleting: bool,
    /// The uids in its ownerReferences.
    pub(crate) owners: Box<[Uid]>,
    /// The parsed object, kept only for recently written ones.
    tree: Mutex<Option<Arc<Value>>>,
}

impl Stored {
    /// Serialises `object`, which carries `version` already.
    pub(crate) fn new(key: &str, version: u64, change: Change, object: &Value, fields: &[FieldPath]) -> Self {
        let mut place = 0..0;
        let line = event_line(change, |out| place = write(out, object));
        let json = object_in(&line, change);
        let metadata = line.slice(place);
        let mut labels: Vec<(Box<str>, Box<str>)> = json::at(object, &["metadata", "labels"])
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(k, v)| Some((k.as_str().into(), v.as_str()?.into())))
            .collect();
        labels.sort();
        Self {
            line,
            json,
            metadata,
            version,
            change,
            key: Arc::from(key),
            uid: Uid::parse(json::text(object, &["metadata", "uid"]).unwrap_or_default()),
            labels: labels.into(),
            fields: fields.iter().map(|f| f.read(object)).collect(),
            deleting: json::text(object, &["metadata", "deletionTimestamp"]).is_some(),
            owners: json::items(object, &["metadata", "ownerReferences"])
                .iter()
                .filter_map(|o| json::text(o, &["uid"]).map(Uid::parse))
                .collect(),
            tree: Mutex::default(),
        }
    }

    /// The object as JSON.
    pub(crate) fn json(&self) -> &Bytes {
        &self.json
    }

    /// Its metadata as JSON; empty when it has none.
    pub(crate) fn metadata(&self) -> &Bytes {
        &self.metadata
    }

    /// The object, parsed.
    #[expect(clippy::expect_used, reason = "the bytes were written from a parsed object")]
    pub(crate) fn value(&self) -> Arc<Value> {
        let kept = self.tree().clone();
        kept.unwrap_or_else(|| {
            let tree = serde_json::from_slice(&self.json);
            Arc::new(tree.expect("invariant: stored bytes are the JSON this server wrote"))
        })
    }

    /// The object, parsed, to be changed.
    pub(crate) fn to_value(&self) -> Value {
        Arc::unwrap_or_clone(self.value())
    }

    /// Keeps the parsed object until [`Self::forget`].
    pub(super) fn keep(&self, tree: Arc<Value>) {
        *self.tree() = Some(tree);
    }

    /// Drops the parsed object.
    pub(crate) fn forget(&self) {
        *self.tree() = None;
    }

    fn tree(&self) -> MutexGuard<'_, Option<Arc<Value>>> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line of the watch event for `change`; the stored line when its change is the same.
    pub(crate) fn event(&self, change: Change) -> Bytes {
        if change == self.change {
            return self.line.clone();
        }
        event_line(change, |out| out.extend_from_slice(&self.json))
    }

    pub(crate) fn name(&self) -> &str {
        self.key.rsplit_once('/').map_or(&self.key, |(_, name)| name)
    }

    /// The namespace, empty for cluster-scoped objects.
    pub(crate) fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(ns, _)| ns)
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let found = self.labels.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        self.labels.get(found).map(|(_, v)| &**v)
    }
}

/// Writes an object; returns the range of its metadata in `out`.
#[expect(clippy::expect_used, reason = "writing a JSON value to memory cannot fail")]
fn write(out: &mut Vec<u8>, object: &Value) -> Range<usize> {
    let mut place = 0..0;
    let value = |out: &mut Vec<u8>, value: &Value| {
        serde_json::to_writer(out, value).expect("invariant: JSON values serialise");
    };
    let Value::Object(fields) = object else {
        value(out, object);
        return place;
    };
    for (index, (key, field)) in fields.iter().enumerate() {
        out.push(if index == 0 { b'{' } else { b',' });
        serde_json::to_writer(&mut *out, key).expect("invariant: texts serialise");
        out.push(b':');
        let start = out.len();
        value(out, field);
        if key == "metadata" {
            place = start..out.len();
        }
    }
    out.extend_from_slice(if fields.is_empty() { b"{}" } else { b"}" });
    place
}

const MIDDLE: &[u8] = b"\",\"object\":";
const START: &[u8] = b"{\"type\":\"";
const END: &[u8] = b"}\n";

/// A watch event around what `write` writes.
pub(crate) fn event_line(change: Change, write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    named_event_line(change.name(), write)
}

/// A watch event of any type (`BOOKMARK` and `ERROR` are no changes).
pub(crate) fn named_event_line(name: &str, write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut line = Vec::with_capacity(1024);
    line.extend_from_slice(START);
    line.extend_from_slice(name.as_bytes());
    line.extend_from_slice(MIDDLE);
    write(&mut line);
    line.extend_from_slice(END);
    // The buffer lives as long as the object, so unused capacity is released.
    line.shrink_to_fit();
    Bytes::from(line)
}

fn object_in(line: &Bytes, change: Change) -> Bytes {
    let start = START.len() + change.name().len() + MIDDLE.len();
    line.slice(start..line.len() - END.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_object_is_a_slice_of_its_event() {
        let object = json!({"metadata": {"name": "x", "labels": {"b": "2", "a": "1"}}, "spec": {"nodeName": "n"}});
        let fields = [FieldPath::new("spec.nodeName", "spec.nodeName")];
        let stored = Stored::new("ns/x", 7, Change::Modified, &object, &fields);
        assert_eq!(*stored.value(), object);
        let metadata: Value = serde_json::from_slice(stored.metadata()).unwrap();
        assert_eq!(metadata, object["metadata"]);
        assert_eq!(stored.label("a"), Some("1"));
        assert_eq!(&*stored.fields[0], "n");
        assert_eq!((stored.namespace(), stored.name()), ("ns", "x"));
        for change in [Change::Added, Change::Modified, Change::Deleted] {
            let event: Value = serde_json::from_slice(&stored.event(change)).unwrap();
            assert_eq!(event, json!({"type": change.name(), "object": object}));
        }
    }

    #[test]
    fn random_uids_are_version_four_and_read_back() {
        let (uid, text) = Uid::random(u128::MAX);
        assert_eq!(text, "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(Uid::parse(&text), uid);
    }
}
