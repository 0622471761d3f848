//! The rules every object's metadata obeys: names, labels, annotations, finalizers, owner references.

use serde_json::Value;

use crate::json;
use crate::registry::{Names, Resource};
use crate::schema::{ErrorKind, FieldError};

const SUBDOMAIN_MAX: usize = 253;
const LABEL_MAX: usize = 63;
/// Bytes of all annotations of an object together.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Checks names, labels, annotations, finalizers and owner references.
pub(crate) fn validate(resource: &Resource, object: &Value, causes: &mut Vec<FieldError>) {
    let name = json::text(object, &["metadata", "name"]).unwrap_or_default();
    if let Err(why) = name_rule(resource.rules.names, name) {
        causes.push(FieldError::invalid("metadata.name", &name.into(), &why));
    }
    labels("metadata.labels", json::at(object, &["metadata", "labels"]), causes);
    annotations(json::at(object, &["metadata", "annotations"]), causes);
    for finalizer in json::items(object, &["metadata", "finalizers"]) {
        let text = finalizer.as_str().unwrap_or_default();
        if let Err(why) = qualified_name(text) {
            causes.push(FieldError::invalid("metadata.finalizers", finalizer, &why));
        }
    }
    owners(json::items(object, &["metadata", "ownerReferences"]), causes);
}

fn name_rule(names: Names, name: &str) -> Result<(), String> {
    match names {
        Names::DnsSubdomain => dns_subdomain(name),
        Names::DnsLabel => dns_label(name),
        Names::PathSegment if name == "." || name == ".." || name.contains(['/', '%']) => {
            Err(format!("may not be or contain any of '.', '..', '/', '%': {name}"))
        }
        Names::PathSegment => Ok(()),
    }
}

/// RFC 1123 subdomain.
pub(crate) fn dns_subdomain(name: &str) -> Result<(), String> {
    if name.len() > SUBDOMAIN_MAX {
        return Err(format!("must be no more than {SUBDOMAIN_MAX} characters"));
    }
    if name.split('.').all(is_dns_label_text) {
        return Ok(());
    }
    Err("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and \
         end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        .to_owned())
}

/// RFC 1123 label.
pub(crate) fn dns_label(name: &str) -> Result<(), String> {
    if name.len() > LABEL_MAX {
        return Err(format!("must be no more than {LABEL_MAX} characters"));
    }
    if is_dns_label_text(name) {
        return Ok(());
    }
    Err("a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with \
         an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        .to_owned())
}

fn is_dns_label_text(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// `[prefix/]name`, as label keys, annotation keys and finalizers are.
fn qualified_name(text: &str) -> Result<(), String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if let Some(prefix) = prefix {
        dns_subdomain(prefix).map_err(|why| format!("prefix part {why}"))?;
    }
    if name.len() > LABEL_MAX {
        return Err(format!("name part must be no more than {LABEL_MAX} characters"));
    }
    if name.is_empty() {
        return Err("name part must be non-empty".to_owned());
    }
    if is_name_text(name) {
        return Ok(());
    }
    Err("name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
         character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        .to_owned())
}

fn is_name_text(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.chars().all(inner)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// Checks a map of labels at `path`.
pub(crate) fn labels(path: &str, labels: &Value, causes: &mut Vec<FieldError>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        label_key(path, key, causes);
        label_value(path, value, causes);
    }
}

/// The key of a label.
pub(super) fn label_key(path: &str, key: &str, causes: &mut Vec<FieldError>) {
    if let Err(why) = qualified_name(key) {
        causes.push(FieldError::invalid(path, &key.into(), why));
    }
}

/// The value of a label.
pub(super) fn label_value(path: &str, value: &Value, causes: &mut Vec<FieldError>) {
    let text = value.as_str().unwrap_or_default();
    if text.len() > LABEL_MAX {
        let why = format!("must be no more than {LABEL_MAX} characters");
        causes.push(FieldError::invalid(path, value, why));
    } else if !text.is_empty() && !is_name_text(text) {
        let why = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                   must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
                   regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
        causes.push(FieldError::invalid(path, value, why));
    }
}

fn annotations(annotations: &Value, causes: &mut Vec<FieldError>) {
    let mut bytes = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        if let Err(why) = qualified_name(&key.to_lowercase()) {
            causes.push(FieldError::invalid("metadata.annotations", &key.as_str().into(), &why));
        }
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATIONS_MAX {
        causes.push(FieldError::new(
            ErrorKind::TooLong,
            "metadata.annotations",
            None,
            format!("may not be more than {ANNOTATIONS_MAX} bytes"),
        ));
    }
}

fn owners(owners: &[Value], causes: &mut Vec<FieldError>) {
    for (i, owner) in owners.iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if json::text(owner, &[field]).is_none() {
                let path = format!("metadata.ownerReferences[{i}].{field}");
                causes.push(FieldError::invalid(
                    &path,
                    &"".into(),
                    format!("{field} must not be empty"),
                ));
            }
        }
    }
    let is_controller = |o: &&Value| json::at(o, &["controller"]).as_bool() == Some(true);
    if owners.iter().filter(is_controller).count() > 1 {
        let why = "Only one reference can have Controller set to true";
        causes.push(FieldError::invalid(
            "metadata.ownerReferences",
            &Value::Array(owners.to_vec()),
            why,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_keys() {
        for good in ["a", "a-b.c", "0"] {
            assert!(dns_subdomain(good).is_ok(), "{good}");
        }
        for bad in ["", "A", "-a", "a_b", "a..b", &"a".repeat(254)] {
            assert!(dns_subdomain(bad).is_err(), "{bad}");
        }
        for good in ["karpenter.sh/nodepool", "App", "a_b.c"] {
            assert!(qualified_name(good).is_ok(), "{good}");
        }
        for bad in ["/x", "a/", "a b", "x/y/z", "UPPER/x"] {
            assert!(qualified_name(bad).is_err(), "{bad}");
        }
    }
}
