//! Protobuf bodies, the encoding that client-go's typed clients prefer, read into JSON by the field numbers of the type table.
//!
//! A body is the prefix [`MAGIC`] and a message `runtime.Unknown`, which names apiVersion and kind and holds the object. Go writes every
//! field that is not a pointer, empty ones too; the JSON encoding leaves those out, and so does this reader.

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::builtin::{self, FieldDef, TypeDef, TypeRef};

const MAGIC: &[u8] = b"k8s\0";

/// Deepest nesting of messages. Objects of the type table stay far below; deeper bodies are refused.
const DEPTH_MAX: usize = 64;

/// The object in a protobuf body as JSON, with its apiVersion and kind. The error says what cannot be read.
pub(crate) fn decode(body: &[u8]) -> Result<Value, String> {
    let message = body
        .strip_prefix(MAGIC)
        .ok_or("the body does not start with the prefix of Kubernetes objects")?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in Fields(message) {
        match field? {
            (1, Wire::Bytes(type_meta)) => {
                for field in Fields(type_meta) {
                    match field? {
                        (1, wire) => api_version = wire.text()?.to_owned(),
                        (2, wire) => kind = wire.text()?.to_owned(),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let ty = match kind.as_str() {
        // Clients write it in the group of the object they delete.
        "DeleteOptions" => builtin::type_named("meta.v1.DeleteOptions"),
        _ => builtin::kind_type(group, version, &kind),
    };
    let ty = ty.ok_or_else(|| format!("{kind} in version {api_version:?} can only be sent as JSON or YAML"))?;
    let mut object = message_of(raw, ty, 0)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

/// One value of a message, by its wire type.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32,
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    fn bytes(self) -> Result<&'a [u8], String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Varint(_) | Self::Fixed64(_) | Self::Fixed32 => {
                Err("a number stands where bytes are expected".to_owned())
            }
        }
    }

    fn text(self) -> Result<&'a str, String> {
        std::str::from_utf8(self.bytes()?).map_err(|_| "a string is not UTF-8".to_owned())
    }

    fn integer(self) -> Result<i64, String> {
        match self {
            Self::Varint(bits) => Ok(bits.cast_signed()),
            Self::Fixed64(_) | Self::Fixed32 | Self::Bytes(_) => Err("an integer is expected".to_owned()),
        }
    }
}

/// The fields of a message: number and value.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or_else(cut_off)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number has more than 64 bits".to_owned())
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], String> {
        let length = usize::try_from(length).map_err(|_| cut_off())?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u64, Wire<'a>), String> {
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(self.take(8)?.try_into().map_err(|_| cut_off())?),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            other => return Err(format!("wire type {other} is not used by Kubernetes")),
        };
        Ok((tag >> 3, wire))
    }
}

fn cut_off() -> String {
    "the body ends within a field".to_owned()
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Wire<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

fn message_of(bytes: &[u8], ty: &'static TypeDef, depth: usize) -> Result<Map<String, Value>, String> {
    if depth > DEPTH_MAX {
        return Err(format!("more than {DEPTH_MAX} nested messages"));
    }
    let mut map = Map::new();
    for field in Fields(bytes) {
        let (number, wire) = field?;
        if let Some(field) = ty.fields.iter().find(|f| f.number == Some((number, None))) {
            set(&mut map, field, wire, depth)?;
        } else if ty
            .fields
            .iter()
            .any(|f| f.number.is_some_and(|(outer, _)| outer == number))
        {
            // The fields of an embedded struct stand beside the others in JSON.
            for field in Fields(wire.bytes()?) {
                let (inner, wire) = field?;
                if let Some(field) = ty.fields.iter().find(|f| f.number == Some((number, Some(inner)))) {
                    set(&mut map, field, wire, depth)?;
                }
            }
        }
    }
    Ok(map)
}

fn set(map: &mut Map<String, Value>, field: &FieldDef, wire: Wire<'_>, depth: usize) -> Result<(), String> {
    let in_field = |why: String| format!("{}: {why}", field.name);
    match &field.ty {
        TypeRef::List(item) => {
            let value = value_of(item, wire, depth).map_err(in_field)?;
            let list = map.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(items) = list {
                items.push(value);
            }
        }
        TypeRef::Map(item) => {
            let (mut key, mut value) = (String::new(), None);
            for entry in Fields(wire.bytes().map_err(in_field)?) {
                match entry.map_err(in_field)? {
                    (1, wire) => key = wire.text().map_err(in_field)?.to_owned(),
                    (2, wire) => value = Some(value_of(item, wire, depth).map_err(in_field)?),
                    _ => {}
                }
            }
            let entries = map.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(entries) = entries {
                entries.insert(key, value.unwrap_or_else(|| "".into()));
            }
        }
        ty => {
            let value = value_of(ty, wire, depth).map_err(in_field)?;
            let kept = match &value {
                Value::Null => false,
                Value::String(text) => field.pointer || !text.is_empty(),
                Value::Number(number) => field.pointer || number.as_f64() != Some(0.0),
                Value::Bool(set) => field.pointer || *set,
                Value::Array(_) | Value::Object(_) => true,
            };
            if kept {
                map.insert(field.name.to_owned(), value);
            }
        }
    }
    Ok(())
}

fn value_of(ty: &TypeRef, wire: Wire<'_>, depth: usize) -> Result<Value, String> {
    Ok(match ty {
        TypeRef::String => wire.text()?.into(),
        TypeRef::Bool => (wire.integer()? != 0).into(),
        TypeRef::Int32 | TypeRef::Int64 => wire.integer()?.into(),
        TypeRef::Number => match wire {
            Wire::Fixed64(bytes) => f64::from_le_bytes(bytes).into(),
            Wire::Varint(_) | Wire::Fixed32 | Wire::Bytes(_) => {
                return Err("a floating point number is expected".to_owned());
            }
        },
        TypeRef::Bytes => base64::engine::general_purpose::STANDARD.encode(wire.bytes()?).into(),
        TypeRef::Time => time(wire, false)?,
        TypeRef::MicroTime => time(wire, true)?,
        TypeRef::Quantity => parts(wire)?.1.unwrap_or_default().into(),
        TypeRef::IntOrString => int_or_string(wire)?,
        // A raw extension: its first field is JSON.
        TypeRef::Any => match parts(wire)?.1 {
            Some(text) if !text.is_empty() => serde_json::from_str(text).map_err(|e| format!("embedded JSON: {e}"))?,
            Some(_) | None => Value::Null,
        },
        TypeRef::Named(name) => {
            let ty = builtin::type_named(name).ok_or_else(|| format!("type {name} is not known"))?;
            Value::Object(message_of(wire.bytes()?, ty, depth + 1)?)
        }
        TypeRef::List(_) | TypeRef::Map(_) => return Err("a list of lists is not known to protobuf".to_owned()),
    })
}

/// Integers 1 and 2 and text 1 of a small message.
fn parts(wire: Wire<'_>) -> Result<([i64; 2], Option<&str>), String> {
    let (mut integers, mut text) = ([0; 2], None);
    for field in Fields(wire.bytes()?) {
        match field? {
            (1, wire @ Wire::Bytes(_)) => text = Some(wire.text()?),
            (1, wire) => integers = [wire.integer()?, integers[1]],
            (2, wire) => integers = [integers[0], wire.integer()?],
            _ => {}
        }
    }
    Ok((integers, text))
}

/// Seconds and nanoseconds; an empty message is the zero time, which JSON writes as null.
fn time(wire: Wire<'_>, micros: bool) -> Result<Value, String> {
    if wire.bytes()?.is_empty() {
        return Ok(Value::Null);
    }
    let ([seconds, nanos], _) = parts(wire)?;
    let nanos = i32::try_from(nanos).map_err(|_| "a time has too many nanoseconds")?;
    let at = Timestamp::new(seconds, if micros { nanos } else { 0 }).map_err(|e| e.to_string())?;
    Ok(if micros {
        format!("{at:.6}").into()
    } else {
        at.to_string().into()
    })
}

/// Field 1 says which one it is: 0 for the integer in field 2, 1 for the string in field 3.
fn int_or_string(wire: Wire<'_>) -> Result<Value, String> {
    let (mut is_text, mut integer, mut text) = (false, 0, "");
    for field in Fields(wire.bytes()?) {
        match field? {
            (1, wire) => is_text = wire.integer()? == 1,
            (2, wire) => integer = wire.integer()?,
            (3, wire) => text = wire.text()?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { integer.into() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A field of bytes: a string or a message.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2];
        let mut length = bytes.len();
        while length >= 0x80 {
            out.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend_from_slice(bytes);
        out
    }

    fn number(number: u8, value: u8) -> Vec<u8> {
        vec![number << 3, value]
    }

    fn body(api_version: &str, kind: &str, raw: &[Vec<u8>]) -> Vec<u8> {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [
            MAGIC.to_vec(),
            field(1, &type_meta),
            field(2, &raw.concat()),
            field(3, b""),
            field(4, b""),
        ]
        .concat()
    }

    #[test]
    fn empty_fields_are_left_out_unless_they_are_pointers() {
        // As Go writes a Namespace and a Deployment without replicas: unset strings, times and numbers are there.
        let metadata = [field(1, b"web"), field(2, b""), number(7, 0), field(8, b"")].concat();
        let namespace = body(
            "v1",
            "Namespace",
            &[field(1, &metadata), field(2, b""), field(3, &field(1, b""))],
        );
        assert_eq!(
            decode(&namespace),
            Ok(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}, "spec": {}, "status": {}}))
        );
        let deployment = body(
            "apps/v1",
            "Deployment",
            &[field(2, &[number(1, 0), number(5, 0)].concat())],
        );
        assert_eq!(decode(&deployment).unwrap()["spec"], json!({"replicas": 0}));
    }

    #[test]
    fn maps_quantities_times_embedded_structs_and_either_form_of_a_port_are_read() {
        let label = [field(1, b"app"), field(2, b"web")].concat();
        let time = [vec![1 << 3], vec![0x80, 0xf2, 0xd6, 0xca, 0x06]].concat();
        let metadata = [field(1, b"p"), field(8, &time), field(11, &label)].concat();
        let request = [field(1, b"cpu"), field(2, &field(1, b"100m"))].concat();
        let get = field(
            2,
            &[field(1, b"/"), field(2, &[number(1, 1), field(3, b"http")].concat())].concat(),
        );
        let probe = [field(1, &get), number(2, 5)].concat();
        let container = [field(1, b"c"), field(8, &field(2, &request)), field(10, &probe)].concat();
        let pod = body("v1", "Pod", &[field(1, &metadata), field(2, &field(2, &container))]);
        assert_eq!(
            decode(&pod),
            Ok(json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"}},
                "spec": {"containers": [{
                    "name": "c", "resources": {"requests": {"cpu": "100m"}},
                    "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "initialDelaySeconds": 5},
                }]},
            }))
        );
    }

    #[test]
    fn damaged_bodies_are_refused_and_read_no_further() {
        let whole = body("v1", "Namespace", &[field(1, &field(1, b"web"))]);
        for length in 0..whole.len() {
            // Some prefixes are whole messages without the later fields; none may panic.
            drop(decode(whole.get(..length).unwrap_or_default()));
        }
        assert!(decode(b"{}").unwrap_err().contains("prefix"));
        assert!(
            decode(&body("v1", "Wonder", &[]))
                .unwrap_err()
                .contains("can only be sent as JSON")
        );
        let long = [MAGIC, &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]].concat();
        assert!(decode(&long).is_err());
    }

    #[test]
    fn deletion_options_are_read_in_any_group() {
        let options = body("apps/v1", "DeleteOptions", &[number(1, 0), field(4, b"Background")]);
        let decoded = decode(&options).unwrap();
        assert_eq!(
            (&decoded["gracePeriodSeconds"], &decoded["propagationPolicy"]),
            (&json!(0), &json!("Background"))
        );
    }
}
