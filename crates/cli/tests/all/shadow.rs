//! `kerf shadow report`, as a user meets it.

use crate::kerf::{kerf, kerf_with_input};
use serde_json::Value;

/// Half an hour of a process that observes, as it writes it.
const RECORDS: &str = r#"{"type":"start","time":"2026-01-01T00:00:00Z","version":"0.1.0"}
{"type":"cost","time":"2026-01-01T00:00:10Z","nodes":0,"pricePerHour":0.0}
{"type":"scaleUp","time":"2026-01-01T00:02:10Z","began":"2026-01-01T00:01:00Z","pods":3,"kerf":[{"pool":"web","instanceType":"m5.large","zone":"a","capacityType":"spot","pricePerHour":0.04}],"kerfLeftOver":0,"other":[{"claim":"web-1","pool":"web","instanceType":"m5.xlarge","pricePerHour":0.1},{"claim":"web-2","pool":"web","pricePerHour":0.02}],"otherLeftOver":1,"disturbed":false}
{"type":"cost","time":"2026-01-01T00:02:10Z","nodes":2,"pricePerHour":0.12}
{"type":"command","time":"2026-01-01T00:10:00Z","id":1,"reason":"Underutilized","nodes":[{"claim":"web-1","pool":"web","pricePerHour":0.1}],"replacements":[{"pool":"web","pricePerHour":0.04}],"savingsPerHour":0.06}
{"type":"ended","time":"2026-01-01T00:30:00Z","reason":"Empty","machine":{"claim":"web-2","pool":"web","pricePerHour":0.02}}
"#;

#[test]
fn the_report_compares_in_dollars_per_hour() {
    let outcome = kerf_with_input(&["shadow", "report", "-"], RECORDS.as_bytes());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{}", outcome.stdout);
    for part in [
        "observed 0.5 h, from 2026-01-01T00:00:00Z to 2026-01-01T00:30:00Z\n",
        "0.0000 at least, 0.1200 at most",
        "Kerf's machines would have cost -0.0800 $/h (-66.7 %).",
        "Commands of Kerf that were not carried out would have saved 0.0200 $ while they held, 0.0400 $/h on average.",
    ] {
        assert!(outcome.stdout.contains(part), "{part} is missing: {}", outcome.stdout);
    }
    let row = |first: &str| -> Vec<&str> {
        let line = outcome.stdout.lines().find(|line| line.starts_with(first));
        line.unwrap_or_else(|| panic!("no {first}: {}", outcome.stdout))
            .split_whitespace()
            .collect()
    };
    assert_eq!(
        row("Underutilized"),
        ["Underutilized", "1", "0", "0.0600", "0", "0", "0.0000"]
    );
    assert_eq!(row("Empty"), ["Empty", "0", "0", "0.0000", "1", "1", "0.0200"]);
    let wide = outcome.stdout.lines().find(|line| line.chars().count() > 140);
    assert_eq!(wide, None);
}

#[test]
fn documents_have_the_documented_fields() {
    let outcome = kerf_with_input(&["shadow", "report", "-o", "json", "-"], RECORDS.as_bytes());
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let documented = include_str!("../../../../docs/shadow-mode.md");
    let mut fields = Vec::new();
    collect(&report, &mut fields);
    for field in fields {
        let is_reason = ["Underutilized", "Empty"].contains(&field.as_str());
        assert!(
            is_reason || documented.contains(&format!("`{field}`")),
            "{field} is not documented"
        );
    }
    assert_eq!(report["scaleUps"]["other"]["leftOver"], 1);
    let yaml = kerf_with_input(&["shadow", "report", "-o", "yaml", "-"], RECORDS.as_bytes());
    let same: Value = serde_saphyr::from_str(&yaml.stdout).expect("YAML");
    assert_eq!(same["disruption"], report["disruption"]);
}

fn collect(value: &Value, fields: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        fields.push(name.clone());
        collect(value, fields);
    }
}

#[test]
fn what_is_no_record_is_named() {
    let outcome = kerf_with_input(&["shadow", "report", "-"], b"hello\n");
    assert_eq!(outcome.code, 2);
    assert!(
        outcome
            .stderr
            .starts_with("error: -:1: no record of kerf controller --observe: "),
        "{}",
        outcome.stderr
    );
    let outcome = kerf(&["shadow", "report", "/nowhere/at/all.jsonl"]);
    assert_eq!(outcome.code, 2);
    assert!(
        outcome.stderr.contains("reading /nowhere/at/all.jsonl: "),
        "{}",
        outcome.stderr
    );
    let outcome = kerf(&["controller", "--observe-file", "x.jsonl"]);
    assert_eq!(outcome.code, 2);
    assert!(
        outcome
            .stderr
            .contains("invalid OBSERVE_FILE \"x.jsonl\"; it needs --observe"),
        "{}",
        outcome.stderr
    );
}
