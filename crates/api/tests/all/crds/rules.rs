//! CEL rules and patterns.

use kerf_api::Provider;
use regex::Regex;

use super::schema::{QUANTITY, core, field, messages};

#[test]
fn rules_and_their_messages() {
    let domain = "label domain \"karpenter.sh\" is restricted";
    let (pool, host) = (
        "label \"karpenter.sh/nodepool\" is restricted",
        "label \"kubernetes.io/hostname\" is restricted",
    );
    let set = [
        "requirements with operator 'In' must have a value defined",
        "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
        "requirements with 'minValues' must have at least that many values specified in the 'values' field",
    ];
    for (plural, path, want) in [
        (
            "nodepools",
            "spec",
            vec![
                // API-053
                "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
                // API-054
                "only 'limits.nodes' is supported on static NodePools",
                // API-055
                "'weight' is not supported on static NodePools",
            ],
        ),
        // API-056
        (
            "nodepools",
            "spec.disruption.budgets",
            vec!["'schedule' must be set with 'duration'"],
        ),
        // API-057, API-058, API-060
        (
            "nodepools",
            "spec.template.spec.nodeClassRef",
            vec!["nodeClassRef.group is immutable", "nodeClassRef.kind is immutable"],
        ),
        // API-059
        (
            "nodepools",
            "spec.template.spec.nodeClassRef.group",
            vec!["group may not be empty"],
        ),
        (
            "nodepools",
            "spec.template.spec.nodeClassRef.kind",
            vec!["kind may not be empty"],
        ),
        ("nodeclaims", "spec.nodeClassRef.name", vec!["name may not be empty"]),
        // API-091
        ("nodeclaims", "spec", vec!["spec is immutable"]),
        // API-138
        ("nodepools", "spec.template.spec.requirements", set.to_vec()),
        ("nodeclaims", "spec.requirements", set.to_vec()),
        // API-127
        (
            "nodeoverlays",
            "spec.requirements",
            vec![
                "requirements with operator 'NotIn' must have a value defined",
                set[0],
                "requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value",
            ],
        ),
        // API-145, API-147, API-148, API-227
        ("nodepools", "spec.template.metadata.labels", vec![domain, pool, host]),
        (
            "nodepools",
            "spec.template.spec.requirements[].key",
            vec![domain, pool, host],
        ),
        ("nodeclaims", "spec.requirements[].key", vec![domain, host]),
        ("nodeoverlays", "spec.requirements[].key", vec![domain, host]),
    ] {
        let schema = core(plural, path);
        assert_eq!(messages(&schema), want, "{plural} {path}");
        if want.contains(&domain) {
            // API-145, API-229: admission judges a domain by its ending.
            let rule = schema["x-kubernetes-validations"][0]["rule"].as_str().unwrap();
            assert!(
                rule.contains(".find(\"^([^/]+)\").endsWith(\"karpenter.sh\")"),
                "{rule}"
            );
        }
    }
}

#[test]
fn providers_close_their_own_domain() {
    let rule = |provider, plural: &str, path: &str| {
        let schema = field(provider, plural, path);
        let rules = schema["x-kubernetes-validations"].as_array().unwrap();
        let rule = rules.iter().find(|rule| {
            !rule["message"].as_str().unwrap().contains("kubernetes.io/hostname")
                && !rule["message"].as_str().unwrap().contains("karpenter.sh")
        });
        rule.map(|rule| {
            (
                rule["message"].as_str().unwrap().to_owned(),
                rule["rule"].as_str().unwrap().to_owned(),
            )
        })
    };
    let (pool_keys, pool_labels) = ("spec.template.spec.requirements[].key", "spec.template.metadata.labels");
    // API-150
    let (message, text) = rule(Provider::Kwok, "nodepools", pool_keys).unwrap();
    assert_eq!(message, "label domain \"karpenter.kwok.sh\" is restricted");
    for name in [
        "kwoknodeclass",
        "instance-cpu",
        "instance-memory",
        "instance-family",
        "instance-size",
    ] {
        assert!(text.contains(&format!("\"karpenter.kwok.sh/{name}\"")), "{name}");
    }
    assert_eq!(
        rule(Provider::Kwok, "nodeclaims", "spec.requirements[].key"),
        Some((message, text))
    );
    assert_eq!(rule(Provider::Kwok, "nodepools", pool_labels), None);
    assert_eq!(rule(Provider::Kwok, "nodeoverlays", "spec.requirements[].key"), None);
    // API-151
    for (plural, path) in [
        ("nodepools", pool_keys),
        ("nodepools", pool_labels),
        ("nodeclaims", "spec.requirements[].key"),
        ("nodeoverlays", "spec.requirements[].key"),
    ] {
        let (message, _) = rule(Provider::Aws, plural, path).unwrap();
        assert_eq!(
            message, "label domain \"karpenter.k8s.aws\" is restricted",
            "{plural} {path}"
        );
        assert_eq!(rule(Provider::Core, plural, path), None, "{plural} {path}");
    }
}

#[test]
fn patterns_admit_and_refuse() {
    let check = |plural: &str, path: &str, admitted: &[&str], refused: &[&str]| {
        let pattern = Regex::new(core(plural, path)["pattern"].as_str().unwrap()).unwrap();
        let wrong_yes = admitted
            .iter()
            .filter(|text| !pattern.is_match(text))
            .collect::<Vec<_>>();
        let wrong_no = refused.iter().filter(|text| pattern.is_match(text)).collect::<Vec<_>>();
        assert!(
            wrong_yes.is_empty() && wrong_no.is_empty(),
            "{path}: refused {wrong_yes:?}, admitted {wrong_no:?}"
        );
    };
    let budget = |name: &str| format!("spec.disruption.budgets[].{name}");
    // API-064
    check(
        "nodepools",
        &budget("schedule"),
        &["@annually", "@annuallyfoo", "a b c d e", "0 9 * * mon-fri", "@midnight"],
        &["@every 1h", "*", "* * * *"],
    );
    // API-065
    check(
        "nodepools",
        &budget("duration"),
        &["2h20m0s", "5m", "1h"],
        &["30s", "-1h", "1.5h", "10ms"],
    );
    // API-066
    check(
        "nodepools",
        &budget("nodes"),
        &["0", "10", "0%", "100%", "1000"],
        &["5.5%", "101%", "-1", "%"],
    );
    // API-032, API-228
    check(
        "nodepools",
        "spec.template.spec.terminationGracePeriod",
        &["0s", "1h30m"],
        &["Never", "1.5h", ""],
    );
    check(
        "nodepools",
        "spec.disruption.consolidateAfter",
        &["0s", "Never", "60m"],
        &["never", "-1h", "10ms"],
    );
    // API-029
    check(
        "nodepools",
        "spec.template.spec.taints[].value",
        &["a", "a.b/c"],
        &["", "a b"],
    );
    // API-134
    check(
        "nodepools",
        "spec.template.spec.requirements[].key",
        &["test", "test.com/test"],
        &["Test.com/test", "test/", "/test", "test/test/test", "test.com.com}"],
    );
    // API-128
    check(
        "nodeoverlays",
        "spec.priceAdjustment",
        &[
            "+1%",
            "-1%",
            "-0%",
            "-99.99%",
            "-100%",
            "+100.102%",
            "+298%",
            "+.5%",
            "+43",
            "-43",
            "-129",
            "+34.43",
            "-34.43",
            "+.5",
            "-.5",
        ],
        &["1", "1.3", "1%", "-100.0%", "-101%", "-.5%", "+5.", "+5.%"],
    );
    // API-129
    check(
        "nodeoverlays",
        "spec.price",
        &["0", "43", "34.43", "007"],
        &[
            "+42", "-1", ".5", "42.", "42%", "3,14", "1e10", "0x42", "ten", " 1", "42.0.0", "-", ".",
        ],
    );
}

#[test]
fn quantities_the_schema_admits_are_read() {
    // API-021
    let pattern = Regex::new(QUANTITY).unwrap();
    for text in ["1", "+1", "-1.5", ".5", "5.", "500m", "2Gi", "1e3", "1E-3", "3n", "7Ei"] {
        assert!(pattern.is_match(text), "{text}");
        assert!(text.parse::<kerf_units::quantity::Quantity>().is_ok(), "{text}");
    }
}
