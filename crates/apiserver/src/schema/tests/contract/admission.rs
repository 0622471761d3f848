//! Statements about admission as such.

use serde_json::json;

use super::fixture::{create, refuses, sample, version, with};
use crate::schema::{CompiledCrd, FieldError, FieldValidation};

const BLOCKED: &str = "<nil>: Invalid value: null: some validation rules were not checked because the object was \
                       invalid; correct the existing errors to complete validation";

#[test]
fn every_kind_has_a_small_valid_sample() {
    for kind in [
        "NodePool",
        "NodeClaim",
        "NodeOverlay",
        "CapacityBuffer",
        "KWOKNodeClass",
    ] {
        create(kind, sample(kind)).unwrap_or_else(|e| panic!("{kind}: {e:?}"));
    }
}

// API-007
#[test]
fn the_spec_is_required_except_for_kwok_classes() {
    for kind in ["NodePool", "NodeClaim", "NodeOverlay", "CapacityBuffer"] {
        let mut bare = sample(kind);
        bare.as_object_mut().expect("an object").remove("spec");
        let errors = create(kind, bare).expect_err("spec is missing");
        assert_eq!(errors, ["spec: Required value", BLOCKED], "{kind}");
    }
}

// API-025
#[test]
fn some_errors_keep_rules_from_being_checked() {
    let broken_rule = with(
        sample("NodePool"),
        "spec.template.spec.requirements",
        json!([{"key": "a", "operator": "In", "values": []}]),
    );
    let rule =
        "spec.template.spec.requirements: Invalid value: requirements with operator 'In' must have a value defined";
    assert_eq!(create("NodePool", broken_rule.clone()).expect_err("rule"), [rule]);
    for (path, value) in [
        ("spec.disruption", json!({})),
        (
            "spec.disruption",
            json!({"consolidateAfter": "0s", "consolidationPolicy": "never"}),
        ),
        ("spec.template.metadata.labels", json!({"a": "a".repeat(64)})),
        (
            "spec.disruption",
            json!({"consolidateAfter": "0s", "budgets": vec![json!({"nodes": "1"}); 51]}),
        ),
    ] {
        let errors = create("NodePool", with(broken_rule.clone(), path, value)).expect_err("blocked");
        assert!(
            errors.contains(&BLOCKED.to_owned()) && !errors.contains(&rule.to_owned()),
            "{errors:#?}"
        );
    }
    for (path, value) in [
        ("spec.weight", json!(0)),
        ("spec.weight", json!(101)),
        ("spec.template.spec.expireAfter", json!("soon")),
    ] {
        let errors = create("NodePool", with(broken_rule.clone(), path, value)).expect_err("both");
        assert!(errors.len() == 2 && errors.contains(&rule.to_owned()), "{errors:#?}");
    }
}

// API-024
#[test]
fn texts_of_structural_errors() {
    let nodes = "spec.disruption.budgets[0].nodes";
    for (path, value, text) in [
        (
            "spec.disruption",
            json!({"consolidateAfter": "0s", "budgets": [{"nodes": "x"}]}),
            format!("{nodes}: Invalid value: \"x\": {nodes} in body should match '^((100|[0-9]{{1,2}})%|[0-9]+)$'"),
        ),
        ("spec.weight", json!(0), "spec.weight: Invalid value: 0: spec.weight in body should be greater than or equal to 1".to_owned()),
        ("spec.weight", json!(101), "spec.weight: Invalid value: 101: spec.weight in body should be less than or equal to 100".to_owned()),
        ("spec.weight", json!("1"), "spec.weight: Invalid value: \"string\": spec.weight in body must be of type integer: \"string\"".to_owned()),
        ("spec.disruption", json!({}), "spec.disruption.consolidateAfter: Required value".to_owned()),
        (
            "spec.disruption",
            json!({"consolidateAfter": "0s", "consolidationPolicy": "x"}),
            "spec.disruption.consolidationPolicy: Unsupported value: \"x\": supported values: \"WhenEmpty\", \"WhenEmptyOrUnderutilized\", \"Balanced\"".to_owned(),
        ),
        (
            "spec.disruption",
            json!({"consolidateAfter": "0s", "budgets": vec![json!({"nodes": "1"}); 51]}),
            "spec.disruption.budgets: Too many: 51: must have at most 50 items".to_owned(),
        ),
        ("spec.template.metadata.labels", json!({"a": "a".repeat(64)}), "spec.template.metadata.labels.a: Too long: may not be more than 63 bytes".to_owned()),
    ] {
        refuses("NodePool", path, value, &text);
    }
}

#[test]
fn unknown_fields_are_dropped_warned_about_or_refused() {
    let pool = with(sample("NodePool"), "spec.typo", json!(1));
    let admit = |validation| {
        let mut object = pool.clone();
        version("NodePool")
            .admit_create(&mut object, validation)
            .map(|warnings| (object, warnings))
    };
    let (stored, warnings) = admit(FieldValidation::Ignore).expect("dropped");
    assert_eq!((stored["spec"].get("typo"), warnings.len()), (None, 0));
    assert_eq!(
        admit(FieldValidation::Warn).expect("warned").1,
        ["unknown field \"spec.typo\""]
    );
    let errors = admit(FieldValidation::Strict).expect_err("refused");
    assert_eq!(
        FieldError::strict_decoding_message(&errors).as_deref(),
        Some("strict decoding error: unknown field \"spec.typo\"")
    );
}

/// Compiles every CRD of the contract, whose rules must all be understood.
#[test]
#[ignore = "needs KERF_CONTRACT_DIR"]
fn the_contracts_own_definitions_compile() {
    let root = std::env::var("KERF_CONTRACT_DIR").expect("KERF_CONTRACT_DIR is set");
    let mut seen = 0;
    for provider in ["core", "kwok", "aws", "test"] {
        let folder = std::path::Path::new(&root).join("crds").join(provider);
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let text = std::fs::read_to_string(&path).expect("a file");
            let crd: serde_json::Value = serde_saphyr::from_str(text.trim_start_matches("---")).expect("YAML");
            if let Err(errors) = CompiledCrd::compile(&crd) {
                panic!("{}: {errors:#?}", path.display());
            }
            seen += 1;
        }
    }
    assert!(seen >= 13, "{seen} definitions");
}
