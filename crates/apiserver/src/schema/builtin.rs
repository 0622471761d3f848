//! The built-in types as one table: which fields a kind has, and how lists and maps of it merge.
//!
//! Strategic merge patch, server-side apply and the OpenAPI documents all read this table, so that they cannot disagree.
//! The table itself is the text file beside this one; it is parsed once.

use std::collections::BTreeMap;
use std::sync::LazyLock;

const SOURCE: &str = include_str!("builtin_types.txt");

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TypeRef {
    /// A string.
    String,
    /// A boolean.
    Bool,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A floating point number.
    Number,
    /// Base64 text.
    Bytes,
    /// An RFC 3339 time with seconds.
    Time,
    /// An RFC 3339 time with microseconds.
    MicroTime,
    /// A Kubernetes quantity.
    Quantity,
    /// An integer or a string.
    IntOrString,
    /// Anything at all.
    Any,
    /// A list.
    List(Box<TypeRef>),
    /// An object with free keys.
    Map(Box<TypeRef>),
    /// A type of the table, by name.
    Named(&'static str),
}

/// How server-side apply treats a list, map or struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// Lists are owned as a whole, maps and structs field by field.
    Default,
    /// Owned as a whole.
    Atomic,
    /// A list of scalars, owned value by value.
    Set,
    /// A list of objects, owned entry by entry; the fields that name an entry.
    Keyed(Vec<&'static str>),
}

/// One field of a built-in type.
#[derive(Debug, Clone)]
pub(crate) struct FieldDef {
    /// The JSON name.
    pub(crate) name: &'static str,
    /// Whether a client has to set it.
    pub(crate) required: bool,
    /// Its type.
    pub(crate) ty: TypeRef,
    /// Whether strategic merge patch merges the list instead of replacing it.
    pub(crate) patch_merge: bool,
    /// The field that names a list entry for strategic merge patch.
    pub(crate) patch_merge_key: Option<&'static str>,
    /// Whether `$retainKeys` is part of the patch strategy.
    pub(crate) retain_keys: bool,
    /// How server-side apply owns it.
    pub(crate) ownership: Ownership,
    /// The value assumed when the field is absent.
    pub(crate) default: Option<&'static str>,
    /// The field's number in protobuf; the second one when it stands in an embedded struct. `None` for fields of JSON only.
    pub(crate) number: Option<(u64, Option<u64>)>,
    /// Whether the field is a pointer in Go: it distinguishes the zero value from an absent one.
    pub(crate) pointer: bool,
}

impl FieldDef {
    /// The `x-kubernetes-patch-strategy` text, when there is one.
    pub(crate) fn patch_strategy(&self) -> Option<&'static str> {
        match (self.patch_merge, self.retain_keys) {
            (true, true) => Some("merge,retainKeys"),
            (true, false) => Some("merge"),
            (false, true) => Some("retainKeys"),
            (false, false) => None,
        }
    }
}

/// A built-in type.
#[derive(Debug)]
pub(crate) struct TypeDef {
    /// `<group>.<version>.<Type>`, for example `core.v1.PodSpec`.
    pub(crate) name: &'static str,
    /// Whether server-side apply owns a value of this type as a whole.
    pub(crate) atomic: bool,
    /// The fields in the order of the table.
    pub(crate) fields: Vec<FieldDef>,
}

impl TypeDef {
    /// The field of this name.
    pub(crate) fn field(&self, name: &str) -> Option<&FieldDef> {
        self.fields.iter().find(|f| f.name == name)
    }
}

/// A built-in kind.
#[derive(Debug)]
pub(crate) struct KindDef {
    /// The API group, empty for the core group.
    pub(crate) group: &'static str,
    /// The version.
    pub(crate) version: &'static str,
    /// The kind.
    pub(crate) kind: &'static str,
    /// The name of its type.
    pub(crate) type_name: &'static str,
}

struct Registry {
    kinds: Vec<KindDef>,
    types: BTreeMap<&'static str, TypeDef>,
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(parse);

/// The type of a built-in kind, `None` for a kind the table does not know.
pub(crate) fn kind_type(group: &str, version: &str, kind: &str) -> Option<&'static TypeDef> {
    let found = REGISTRY
        .kinds
        .iter()
        .find(|k| k.kind == kind && k.group == group && k.version == version)?;
    type_named(found.type_name)
}

/// A type of the table by its full name.
pub(crate) fn type_named(name: &str) -> Option<&'static TypeDef> {
    REGISTRY.types.get(name)
}

/// All built-in kinds in the order of the table.
#[cfg(test)]
pub(crate) fn kinds() -> &'static [KindDef] {
    &REGISTRY.kinds
}

fn parse() -> Registry {
    let mut registry = Registry {
        kinds: Vec::new(),
        types: BTreeMap::new(),
    };
    let mut current: Option<TypeDef> = None;
    for line in SOURCE.lines() {
        if let Some(rest) = line.strip_prefix("kind ") {
            registry.kinds.extend(parse_kind(rest));
        } else if let Some(rest) = line.strip_prefix("type ") {
            if let Some(done) = current.take() {
                registry.types.insert(done.name, done);
            }
            let (name, atomic) = match rest.split_once(' ') {
                Some((name, flag)) => (name, flag == "atomic"),
                None => (rest, false),
            };
            current = Some(TypeDef {
                name,
                atomic,
                fields: Vec::new(),
            });
        } else if let (Some(ty), Some(rest)) = (current.as_mut(), line.strip_prefix("  ")) {
            ty.fields.extend(parse_field(ty.name, rest));
        }
    }
    if let Some(done) = current {
        registry.types.insert(done.name, done);
    }
    registry
}

fn parse_kind(rest: &'static str) -> Option<KindDef> {
    let mut words = rest.split(' ');
    let (group_version, kind, type_name) = (words.next()?, words.next()?, words.next()?);
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    Some(KindDef {
        group,
        version,
        kind,
        type_name,
    })
}

fn parse_field(owner: &'static str, rest: &'static str) -> Option<FieldDef> {
    let (name, rest) = rest.split_once(" : ")?;
    let (ty, flags) = rest.split_once(" | ").unwrap_or((rest, ""));
    let mut field = FieldDef {
        name: name.trim_end_matches('!'),
        required: name.ends_with('!'),
        ty: parse_type(owner, ty)?,
        patch_merge: false,
        patch_merge_key: None,
        retain_keys: false,
        ownership: Ownership::Default,
        default: None,
        number: None,
        pointer: false,
    };
    for flag in flags.split(' ').filter(|f| !f.is_empty()) {
        match flag.split_once('=').unwrap_or((flag, "")) {
            ("merge", "") => field.patch_merge = true,
            ("merge", key) => {
                field.patch_merge = true;
                field.patch_merge_key = Some(key);
            }
            ("retain", _) => field.retain_keys = true,
            ("set", _) => field.ownership = Ownership::Set,
            ("atomic", _) => field.ownership = Ownership::Atomic,
            ("keys", keys) => field.ownership = Ownership::Keyed(keys.split(',').collect()),
            ("default", value) => field.default = Some(value),
            ("n", number) => field.number = Some(parse_number(number)?),
            ("ptr", _) => field.pointer = true,
            _ => return None,
        }
    }
    Some(field)
}

/// `N`, or `N.M` for field M of the embedded struct in field N.
fn parse_number(text: &str) -> Option<(u64, Option<u64>)> {
    match text.split_once('.') {
        Some((outer, inner)) => Some((outer.parse().ok()?, Some(inner.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

fn parse_type(owner: &'static str, text: &'static str) -> Option<TypeRef> {
    if let Some(item) = text.strip_prefix("[]") {
        return Some(TypeRef::List(Box::new(parse_type(owner, item)?)));
    }
    if let Some(item) = text.strip_prefix("map ") {
        return Some(TypeRef::Map(Box::new(parse_type(owner, item)?)));
    }
    Some(match text {
        "string" => TypeRef::String,
        "bool" => TypeRef::Bool,
        "int32" => TypeRef::Int32,
        "int64" => TypeRef::Int64,
        "number" => TypeRef::Number,
        "bytes" => TypeRef::Bytes,
        "time" => TypeRef::Time,
        "microtime" => TypeRef::MicroTime,
        "quantity" => TypeRef::Quantity,
        "intorstr" => TypeRef::IntOrString,
        "any" => TypeRef::Any,
        local if local.starts_with('.') => {
            let package = owner.rsplit_once('.')?.0;
            TypeRef::Named(full_name(package, local)?)
        }
        full if full.contains('.') => TypeRef::Named(full),
        _ => return None,
    })
}

/// The full name of a type of the same group: the text of its own `type` line, so that nothing is allocated.
fn full_name(package: &str, local: &str) -> Option<&'static str> {
    static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        SOURCE
            .lines()
            .filter_map(|l| l.strip_prefix("type "))
            .map(|l| l.split_once(' ').map_or(l, |(name, _)| name))
            .collect()
    });
    static INDEX: LazyLock<BTreeMap<&'static str, ()>> = LazyLock::new(|| NAMES.iter().map(|n| (*n, ())).collect());
    INDEX
        .get_key_value(format!("{package}{local}").as_str())
        .map(|(name, ())| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(ty: &TypeRef) -> Option<&'static str> {
        match ty {
            TypeRef::List(item) | TypeRef::Map(item) => named(item),
            TypeRef::Named(name) => Some(name),
            _ => None,
        }
    }

    #[test]
    fn every_line_of_the_table_is_understood_and_every_type_exists() {
        let fields = SOURCE.lines().filter(|l| l.starts_with("  ")).count();
        assert_eq!(REGISTRY.types.values().map(|t| t.fields.len()).sum::<usize>(), fields);
        for ty in REGISTRY.types.values() {
            for field in &ty.fields {
                if let Some(name) = named(&field.ty) {
                    assert!(type_named(name).is_some(), "{}.{} names {name}", ty.name, field.name);
                }
            }
        }
        for kind in kinds() {
            assert!(type_named(kind.type_name).is_some(), "{}", kind.kind);
        }
    }

    #[test]
    fn lists_merge_by_the_keys_clients_know() {
        let merge_key = |ty: &str, field: &str| {
            type_named(ty)
                .and_then(|t| t.field(field))
                .and_then(|f| f.patch_merge_key)
        };
        for (ty, field, key) in [
            ("core.v1.PodSpec", "containers", Some("name")),
            ("core.v1.PodSpec", "volumes", Some("name")),
            ("core.v1.PodSpec", "tolerations", None),
            ("core.v1.PodSpec", "imagePullSecrets", Some("name")),
            ("core.v1.PodSpec", "topologySpreadConstraints", Some("topologyKey")),
            ("core.v1.Container", "env", Some("name")),
            ("core.v1.Container", "ports", Some("containerPort")),
            ("core.v1.Container", "volumeMounts", Some("mountPath")),
            ("core.v1.NodeStatus", "addresses", Some("type")),
            ("core.v1.NodeStatus", "conditions", Some("type")),
            ("core.v1.ServiceSpec", "ports", Some("port")),
            ("meta.v1.ObjectMeta", "ownerReferences", Some("uid")),
        ] {
            assert_eq!(merge_key(ty, field), key, "{ty}.{field}");
        }
    }
}
