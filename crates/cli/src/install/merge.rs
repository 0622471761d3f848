//! Merges values as helm does: the defaults, then files, then `--set`.

use super::set::parse_set;
use super::values::{DEFAULTS, OF_AWS, OPEN, Values};
use kerf_api::Provider;
use kerf_units::nearest_name::nearest;
use serde_json::{Map, Value};

/// Values given by the user.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    /// Files: their names and texts.
    pub(crate) files: Vec<(String, String)>,
    /// Arguments of `--set`.
    pub(crate) sets: Vec<String>,
}

/// Merged values, and remarks on them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Merged {
    pub(crate) values: Values,
    /// Remarks for the user: values that have no effect.
    pub(crate) notes: Vec<String>,
}

/// Merges the defaults and the user's values. The error lists every problem.
pub(crate) fn merge(given: &Given) -> Result<Merged, Vec<String>> {
    let defaults: Value = serde_saphyr::from_str(DEFAULTS).map_err(|error| vec![format!("default values: {error}")])?;
    let mut problems = Vec::new();
    let mut merged = defaults.clone();
    for (name, text) in &given.files {
        match serde_saphyr::from_str::<Value>(text) {
            Ok(Value::Null) => {}
            Ok(overlay @ Value::Object(_)) => {
                apply(&mut merged, overlay, &defaults, (name, ""), &mut problems);
            }
            Ok(_) => problems.push(format!("{name}: is not a map of values")),
            Err(error) => {
                let error = error.to_string();
                let first = error.lines().next().unwrap_or_default();
                problems.push(format!(
                    "{name}: is not valid YAML: {}",
                    first.trim_start_matches("error: ")
                ));
            }
        }
    }
    for text in &given.sets {
        match parse_set(text, &merged) {
            Ok(overlay) => apply(&mut merged, overlay, &defaults, ("--set", ""), &mut problems),
            Err(problem) => problems.push(format!("--set {text}: {problem}")),
        }
    }
    if problems.is_empty() {
        typed(merged, &defaults)
    } else {
        Err(problems)
    }
}

/// Merges `overlay` into `base`: maps field by field, everything else as a whole; null removes a value.
fn apply(base: &mut Value, overlay: Value, defaults: &Value, (source, path): (&str, &str), problems: &mut Vec<String>) {
    let Value::Object(fields) = overlay else { return };
    let known = if is_open(path) { None } else { defaults.as_object() };
    for (name, value) in fields {
        let at = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let default = defaults.get(&name);
        if let (Some(known), None) = (known, default) {
            problems.push(unknown(source, path, &name, known));
            continue;
        }
        let default = default.unwrap_or(&Value::Null);
        let Value::Object(target) = &mut *base else { continue };
        match value {
            Value::Null => {
                target.remove(&name);
            }
            // Karpenter's chart has maps as defaults of some lists.
            Value::Object(empty) if empty.is_empty() && default.is_array() => {
                target.insert(name, Value::Array(Vec::new()));
            }
            value @ Value::Object(_) => {
                let old = target.entry(name).or_insert(Value::Null);
                if !old.is_object() {
                    *old = Value::Object(Map::new());
                }
                apply(old, value, default, (source, &at), problems);
            }
            value => {
                target.insert(name, value);
            }
        }
    }
}

fn is_open(path: &str) -> bool {
    let within = |open: &str| {
        path.strip_prefix(open)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    // The profiles of the container's security context have the fields of their Kubernetes types.
    OPEN.iter().any(|open| within(open)) || path.starts_with("controller.securityContext.")
}

fn unknown(source: &str, path: &str, name: &str, known: &Map<String, Value>) -> String {
    let prefix = if path.is_empty() {
        String::new()
    } else {
        format!("{path}.")
    };
    let remedy = match nearest(name, known.keys().map(String::as_str)) {
        Some(meant) => format!("did you mean \"{prefix}{meant}\"?"),
        None => "charts/kerf/values.yaml lists all values".to_owned(),
    };
    format!("{source}: {prefix}{name}: unknown value; {remedy}")
}

/// Decodes merged values.
fn typed(mut merged: Value, defaults: &Value) -> Result<Merged, Vec<String>> {
    let mut notes = Vec::new();
    if let Some(resources) = merged.pointer_mut("/controller/resources") {
        quantities_as_text(resources);
    }
    if let Some(profiles) = merged
        .pointer_mut("/controller/securityContext")
        .and_then(Value::as_object_mut)
    {
        profiles.retain(|_, profile| !is_empty(profile));
    }
    let values: Values = match serde_path_to_error::deserialize(&merged) {
        Ok(values) => values,
        Err(error) => return Err(vec![format!("{}: {}", error.path(), error.inner())]),
    };
    // The Kubernetes types ignore fields that they do not know.
    let kept = serde_json::to_value(&values).map_err(|error| vec![error.to_string()])?;
    let mut problems = Vec::new();
    lost(&merged, &kept, "", &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    if values.settings.provider() != Ok(Provider::Aws) {
        let of = |all: &Value, name: &str| all.get("settings").and_then(|settings| settings.get(name)).cloned();
        let changed = OF_AWS.iter().filter(|name| of(&merged, name) != of(defaults, name));
        notes.extend(changed.map(|name| format!("settings.{name} has no effect: only the provider aws reads it")));
    }
    let repository = &values.controller.image.repository;
    if repository.ends_with("karpenter/controller") {
        notes.push(format!(
            "controller.image.repository is {repository}: that is Karpenter's image, not Kerf's"
        ));
    }
    Ok(Merged { values, notes })
}

/// Quantities may be numbers in YAML; the type knows text only.
fn quantities_as_text(resources: &mut Value) {
    for list in ["requests", "limits"] {
        let quantities = resources.get_mut(list).and_then(Value::as_object_mut);
        for quantity in quantities.into_iter().flat_map(|map| map.values_mut()) {
            if quantity.is_number() {
                *quantity = Value::String(quantity.to_string());
            }
        }
    }
}

/// Reports fields of `written` that decoding dropped.
fn lost(written: &Value, kept: &Value, path: &str, problems: &mut Vec<String>) {
    match written {
        Value::Object(fields) => {
            for (name, value) in fields {
                let at = format!("{path}{}{name}", if path.is_empty() { "" } else { "." });
                match kept.get(name) {
                    Some(kept) => lost(value, kept, &at, problems),
                    None if is_empty(value) => {}
                    None => problems.push(format!("{at}: unknown field")),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                if let Some(kept) = kept.get(index) {
                    lost(item, kept, &format!("{path}[{index}]"), problems);
                }
            }
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(sets: &[&str]) -> Result<Merged, Vec<String>> {
        merge(&Given {
            files: Vec::new(),
            sets: sets.iter().map(ToString::to_string).collect(),
        })
    }

    fn refused(sets: &[&str]) -> String {
        merged(sets).expect_err("bad values").join("\n")
    }

    #[test]
    fn the_defaults_of_the_chart_and_of_the_types_are_equal() {
        let mut written: Value = serde_saphyr::from_str(DEFAULTS).expect("YAML");
        let defaults = merged(&[]).expect("good values");
        assert_eq!(defaults.notes, Vec::<String>::new());
        let mut typed = serde_json::to_value(&defaults.values).expect("JSON");
        // The types have a field for everything that the chart documents, and the chart documents every field.
        drop_empty(&mut typed);
        drop_empty(&mut written);
        assert_eq!(typed, written);
        let every_field = serde_json::to_value(Values::default()).expect("JSON");
        let chart: Value = serde_saphyr::from_str(DEFAULTS).expect("YAML");
        let mut undocumented = Vec::new();
        lost(&every_field, &chart, "", &mut undocumented);
        assert_eq!(undocumented, Vec::<String>::new());
    }

    fn drop_empty(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.values_mut().for_each(drop_empty);
                fields.retain(|_, value| !is_empty(value));
            }
            Value::Array(items) => items.iter_mut().for_each(drop_empty),
            _ => {}
        }
    }

    #[test]
    fn unknown_values_are_refused_all_at_once_with_the_nearest_name() {
        let text = refused(&["replica=3", "settings.featureGates.nodeRepairs=true", "settings.zzz=1"]);
        assert_eq!(
            text,
            "--set: replica: unknown value; did you mean \"replicas\"?\n\
             --set: settings.featureGates.nodeRepairs: unknown value; did you mean \"settings.featureGates.nodeRepair\"?\n\
             --set: settings.zzz: unknown value; charts/kerf/values.yaml lists all values"
        );
        assert_eq!(
            refused(&["tolerations[0].efect=NoSchedule"]),
            "tolerations[0].efect: unknown field"
        );
        assert!(refused(&["replicas=many"]).starts_with("replicas: invalid type"));
    }

    #[test]
    fn values_without_effect_are_accepted_and_named() {
        let notes = |sets: &[&str]| merged(sets).expect("good values").notes;
        let found = notes(&[
            "settings.cloudProvider=kwok,settings.clusterName=a,settings.amiRefreshInterval=1m",
            "settings.awsFeatureGates.nodeClassCEL=true",
        ]);
        assert_eq!(
            found,
            [
                "settings.clusterName has no effect: only the provider aws reads it",
                "settings.awsFeatureGates has no effect: only the provider aws reads it",
            ]
        );
        assert_eq!(
            notes(&["settings.clusterName=a,settings.reservedENIs=1"]),
            Vec::<String>::new()
        );
        assert_eq!(
            notes(&["settings.interruptionQueue=a"]),
            ["settings.interruptionQueue has no effect: only the provider aws reads it"]
        );
        let notes = merged(&["controller.image.repository=public.ecr.aws/karpenter/controller"])
            .expect("good values")
            .notes;
        assert!(notes[0].contains("Karpenter's image"), "{notes:?}");
    }

    #[test]
    fn maps_merge_lists_replace_and_null_removes() {
        let file = "controller: {resources: {limits: {cpu: 2}}}\ntolerations: []\ninitContainers: {}\nschedulerName: null\npodLabels: {a: b}\n";
        let given = Given {
            files: vec![("values.yaml".to_owned(), file.to_owned())],
            sets: vec!["podLabels.c=d".to_owned()],
        };
        let values = merge(&given).expect("good values").values;
        let limits = values.controller.resources.limits.expect("limits");
        assert_eq!((limits["cpu"].0.as_str(), limits["memory"].0.as_str()), ("2", "1Gi"));
        assert!(values.tolerations.is_empty() && values.init_containers.is_empty());
        assert_eq!(values.scheduler_name, "");
        assert_eq!(values.pod_labels.len(), 2);
    }

    #[test]
    fn unreadable_files_are_refused() {
        let given = Given {
            files: vec![
                ("a.yaml".to_owned(), "[1]".to_owned()),
                ("b.yaml".to_owned(), "a: [".to_owned()),
            ],
            sets: Vec::new(),
        };
        let problems = merge(&given).expect_err("bad files");
        assert_eq!(problems[0], "a.yaml: is not a map of values");
        assert!(problems[1].starts_with("b.yaml: is not valid YAML: "), "{problems:?}");
    }
}
