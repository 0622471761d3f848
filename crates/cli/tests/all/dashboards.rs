//! The dashboard and the rules name metric families and labels that exist.

use kerf_runtime::metrics::catalogue::CATALOGUE;
use kerf_runtime::metrics::{ExtraLabels, MetricDef, MetricKind};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn read(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../dashboards")
        .join(file);
    let text = fs::read_to_string(path).expect("a file");
    if file.ends_with(".json") {
        serde_json::from_str(&text).expect("JSON")
    } else {
        serde_saphyr::from_str(&text).expect("YAML")
    }
}

/// All texts under a key, at any depth.
fn texts_of<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == key => found.push(text),
                    value => texts_of(value, key, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts_of(item, key, found)),
        _ => {}
    }
}

/// Families besides those of the catalogue.
const PROCESS: [&str; 2] = ["process_resident_memory_bytes", "process_cpu_seconds_total"];

/// Labels that Prometheus adds.
const OF_TARGETS: [&str; 3] = ["job", "pod", "namespace"];

/// Words of the query language that are not followed by a parenthesis.
const KEYWORDS: [&str; 12] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "or",
    "and",
    "unless",
    "bool",
    "offset",
    "inf",
];

/// A family by the name of one of its series.
fn family(series: &str) -> Option<&'static MetricDef> {
    let find = |name: &str| CATALOGUE.iter().copied().find(|def| def.name == name);
    find(series)
        .filter(|def| !matches!(def.kind, MetricKind::Histogram(_)))
        .or_else(|| {
            let parts = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|part| series.strip_suffix(part));
            find(parts?).filter(|def| matches!(def.kind, MetricKind::Histogram(_) | MetricKind::Summary))
        })
}

#[derive(Debug, PartialEq)]
struct Named {
    series: BTreeSet<String>,
    labels: BTreeSet<String>,
}

/// The series and labels that an expression names.
fn named(expression: &str) -> Named {
    let letters: Vec<char> = expression.chars().collect();
    let (mut series, mut labels) = (BTreeSet::new(), BTreeSet::new());
    let (mut at, mut in_braces, mut in_grouping) = (0, false, false);
    let mut last_word = String::new();
    while let Some(letter) = letters.get(at).copied() {
        match letter {
            '"' => {
                at += 1;
                while letters.get(at).is_some_and(|letter| *letter != '"') {
                    at += 1;
                }
            }
            '[' => {
                while letters.get(at).is_some_and(|letter| *letter != ']') {
                    at += 1;
                }
            }
            '{' => in_braces = true,
            '}' => in_braces = false,
            '(' => in_grouping = ["by", "without", "on", "ignoring"].contains(&last_word.as_str()),
            ')' => in_grouping = false,
            _ if letter.is_ascii_alphabetic() || letter == '_' => {
                let start = at;
                while letters
                    .get(at)
                    .is_some_and(|letter| letter.is_ascii_alphanumeric() || "_:".contains(*letter))
                {
                    at += 1;
                }
                let word: String = letters[start..at].iter().collect();
                let rest: String = letters[at..].iter().collect();
                let rest = rest.trim_start();
                // An aggregation has its parameters in parentheses, or first says by what it groups.
                let is_function = ["(", "by ", "by(", "without ", "without("]
                    .iter()
                    .any(|next| rest.starts_with(next));
                if in_braces || in_grouping {
                    labels.insert(word.clone());
                } else if !is_function && !KEYWORDS.contains(&word.as_str()) {
                    series.insert(word.clone());
                }
                last_word = word;
                continue;
            }
            _ if letter.is_ascii_digit() => {
                while letters
                    .get(at)
                    .is_some_and(|letter| letter.is_ascii_alphanumeric() || *letter == '.')
                {
                    at += 1;
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    Named { series, labels }
}

#[test]
fn series_and_labels_of_an_expression_are_found() {
    let found =
        named(r#"sum by (job, zone) (rate(a_total{code=~"5..", x!="y"}[5m])) / on(job) b:c > 0.9 or vector(0)"#);
    let set = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    assert_eq!(found.series, set(&["a_total", "b:c"]));
    assert_eq!(found.labels, set(&["job", "zone", "code", "x"]));
    assert!(family("karpenter_pods_bound_duration_seconds_bucket").is_some());
    assert!(
        family("karpenter_pods_bound_duration_seconds").is_none(),
        "a histogram has no series of its name"
    );
    assert!(family("karpenter_nodes_created_total_bucket").is_none());
}

fn check(expression: &str, recorded: &BTreeSet<&str>) {
    let named = named(expression);
    assert!(!named.series.is_empty(), "{expression}");
    let mut known: BTreeSet<&str> = BTreeSet::from(OF_TARGETS);
    known.insert("le");
    for series in &named.series {
        if PROCESS.contains(&series.as_str()) || recorded.contains(series.as_str()) {
            continue;
        }
        let family = family(series);
        assert!(family.is_some(), "there is no metric {series}: {expression}");
        let Some(family) = family else { continue };
        known.extend(family.labels);
        assert!(
            matches!(family.extra, ExtraLabels::None)
                || named.labels.iter().all(|label| known.contains(label.as_str())),
            "{expression}"
        );
    }
    let unknown: Vec<_> = named
        .labels
        .iter()
        .filter(|label| !known.contains(label.as_str()))
        .collect();
    assert!(unknown.is_empty(), "labels {unknown:?}: {expression}");
}

#[test]
fn every_expression_names_metrics_and_labels_that_exist() {
    let (dashboard, rules) = (read("kerf.json"), read("rules.yaml"));
    let (mut expressions, mut recorded) = (Vec::new(), Vec::new());
    texts_of(&dashboard, "expr", &mut expressions);
    let panels = expressions.len();
    texts_of(&rules, "expr", &mut expressions);
    texts_of(&rules, "record", &mut recorded);
    assert!(
        panels > 30 && expressions.len() > panels + 10,
        "{panels} {}",
        expressions.len()
    );
    let recorded: BTreeSet<&str> = recorded.into_iter().collect();
    for expression in expressions {
        check(expression, &recorded);
    }
}

#[test]
fn alerts_say_what_is_wrong() {
    let rules = read("rules.yaml");
    let groups = rules["groups"].as_array().expect("groups");
    let all = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().expect("rules"));
    let mut names = BTreeSet::new();
    for alert in all.filter(|rule| rule.get("alert").is_some()) {
        let name = alert["alert"].as_str().expect("a name");
        assert!(names.insert(name), "{name} twice");
        assert!(alert["annotations"]["summary"].is_string(), "{name}");
        assert!(alert["labels"]["severity"].is_string(), "{name}");
    }
    assert!(names.len() > 5);
}
