//! The definitions as a whole: shipped text and the original schemas.

use kerf_api::{Provider, crds};
use serde_json::{Value, json};

#[test]
fn shipped_text_is_the_data_and_has_no_marks_left() {
    for provider in [Provider::Core, Provider::Kwok, Provider::Aws] {
        for crd in crds(provider) {
            let read: Value = serde_saphyr::from_str(&crd.yaml).unwrap();
            assert_eq!(read, crd.value);
            assert_eq!(crd.value["metadata"]["name"], json!(crd.name));
            assert!(!crd.yaml.contains("provider rules"), "{}", crd.name);
        }
    }
}

/// Everything but descriptions and the generator's annotation.
fn structure(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, value)| key.as_str() != "description" || !value.is_string())
            .filter(|(key, _)| key.as_str() != "controller-gen.kubebuilder.io/version")
            .map(|(key, value)| (key.clone(), structure(value)))
            .filter(|(key, value)| key != "annotations" || value != &json!({}))
            .map(|(key, value)| {
                // Orders that mean nothing.
                let value = if key == "required" { sorted(value) } else { value };
                (key, value)
            })
            .collect(),
        Value::Array(items) => items.iter().map(structure).collect(),
        other => other.clone(),
    }
}

fn sorted(value: Value) -> Value {
    let Value::Array(mut items) = value else { return value };
    items.sort_by_key(ToString::to_string);
    Value::Array(items)
}

#[test]
#[ignore = "needs KERF_CONTRACT_DIR"]
fn structure_equals_the_contract() {
    // API-004, API-012, API-227
    let folder = std::path::PathBuf::from(std::env::var_os("KERF_CONTRACT_DIR").unwrap()).join("crds");
    for (provider, own) in [
        (Provider::Core, "core"),
        (Provider::Kwok, "kwok"),
        (Provider::Aws, "aws"),
    ] {
        for crd in crds(provider) {
            let (plural, group) = crd.name.split_once('.').unwrap();
            if group == "kerf.sh" {
                // Kerf's own; upstream has nothing to compare it with.
                continue;
            }
            let file = format!("{group}_{plural}.yaml");
            let path = [own, "core"]
                .map(|part| folder.join(part).join(&file))
                .into_iter()
                .find(|path| path.exists());
            let want: Value = serde_saphyr::from_str(&std::fs::read_to_string(path.unwrap()).unwrap()).unwrap();
            let (got, want) = (structure(&crd.value), structure(&want));
            let text = |value: &Value| serde_json::to_string_pretty(value).unwrap();
            for (got, want) in text(&got).lines().zip(text(&want).lines()) {
                assert_eq!(got, want, "{own} {}", crd.name);
            }
            assert_eq!(got, want, "{own} {}", crd.name);
            let described = crd
                .yaml
                .lines()
                .filter(|line| line.trim_start().starts_with("description:"));
            let theirs = want_descriptions(&folder);
            for line in described {
                let text = line.trim().trim_start_matches("description:").trim();
                assert!(!theirs.contains(&format!("description: {text}")), "copied text: {text}");
            }
        }
    }
}

fn want_descriptions(folder: &std::path::Path) -> String {
    let folders = ["core", "kwok", "aws"].map(|part| std::fs::read_dir(folder.join(part)).unwrap());
    let files = folders
        .into_iter()
        .flatten()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    files.collect()
}
