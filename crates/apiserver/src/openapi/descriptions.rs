//! The descriptions of built-in types and fields that `kubectl explain` shows, from the text file beside this one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

const SOURCE: &str = include_str!("builtin_descriptions.txt");

/// The description of one type and of its fields by name.
#[derive(Debug, Default)]
struct Described {
    text: &'static str,
    fields: BTreeMap<&'static str, &'static str>,
}

static TYPES: LazyLock<BTreeMap<&'static str, Described>> = LazyLock::new(|| parse(SOURCE));

fn parse(source: &'static str) -> BTreeMap<&'static str, Described> {
    let mut types = BTreeMap::new();
    let mut current: Option<&mut Described> = None;
    for line in source.lines().filter(|line| !line.starts_with('#')) {
        if let Some(line) = line.strip_prefix("type ") {
            let (name, text) = line.split_once(' ').unwrap_or((line, ""));
            let described: &mut Described = types.entry(name).or_default();
            described.text = text;
            current = Some(described);
        } else if let (Some(described), Some((field, text))) = (&mut current, line.trim_start().split_once(' ')) {
            described.fields.insert(field, text);
        }
    }
    types
}

fn with_line_breaks(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.replace("\\n", "\n"))
}

/// The description of a type of the type table, such as `core.v1.PodSpec`.
pub(super) fn of_type(name: &str) -> Option<String> {
    with_line_breaks(TYPES.get(name)?.text)
}

/// The description of a field of a type.
pub(super) fn of_field(type_name: &str, field: &str) -> Option<String> {
    let described = TYPES.get(type_name)?;
    with_line_breaks(described.fields.get(field)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_fields_are_described() {
        assert!(of_type("core.v1.PodSpec").is_some_and(|text| text.starts_with("PodSpec is")));
        let node_name = of_field("core.v1.PodSpec", "nodeName").expect("described");
        assert!(node_name.contains("node"), "{node_name}");
        assert!(
            of_field("meta.v1.ObjectMeta", "uid").is_some_and(|text| text.contains("\n\nPopulated by the system."))
        );
        assert_eq!(of_field("core.v1.PodSpec", "unheardOf"), None);
    }
}
