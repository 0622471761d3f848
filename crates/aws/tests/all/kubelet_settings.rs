//! Kubelet settings of later versions: expressions by instance type, kubelet's other fields, and their gates.

use crate::class::{class, description, of_family, settings, zones};
use kerf_api::{AmiFamily, EC2NodeClass};
use kerf_aws::instance_type::kubelet::{
    ClassKubelet, CompileError, EvaluationError, Expression, TEXT_MAX, Variables, checked_expressions, gate_problem,
    settings_for_nodes,
};
use kerf_aws::instance_type::resolve;
use kerf_aws::launch::{LaunchClaim, template_groups};
use kerf_aws::offering::CapacityType;
use kerf_aws::options::AwsFeatureGates;
use kerf_aws::user_data::{BootstrapInput, render};
use kerf_model::intern::{Interner, sym};
use kerf_model::requirement::Requirements;
use kerf_model::resources::Resources;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const MIB: i64 = 1 << 20;
const ON: AwsFeatureGates = AwsFeatureGates {
    node_class_cel: true,
    extended_kubelet: true,
};

fn variables() -> Variables {
    Variables {
        instance_type: "c6a.4xlarge".to_owned(),
        vcpus: 16,
        memory_mib: 32_768,
        default_enis: 8,
        ips_per_eni: 30,
        max_pods: 234,
    }
}

fn of(family: &str, kubelet: Value) -> EC2NodeClass {
    let mut class = of_family(family);
    class.spec.kubelet = serde_json::from_value(kubelet).unwrap();
    class
}

/// The settings of a class for a type.
fn computed(class: &EC2NodeClass, name: &str) -> Result<Value, String> {
    let kubelet = ClassKubelet::new(&class.spec, true).map_err(|problem| problem.to_string())?;
    let computed = kubelet.of_type(&description(name), &class.spec, 0);
    computed
        .map(|computed| json!(computed))
        .map_err(|problem| problem.to_string())
}

#[test]
fn expressions_give_numbers() {
    for (text, want) in [
        ("((default_enis - 1) * (ips_per_eni - 1)) + 2", 205),
        ("max(60, vcpus * 30)", 480),
        ("min(110, max_pods)", 110),
        ("11 * max_pods + 255", 2829),
        ("memory_mib / 64", 512),
        ("double(vcpus) * 1.55", 24),
        ("max(1, 2.5) + min(3.0, 4)", 5),
        ("-vcpus + 20", 4),
        ("vcpus > 8 ? 250 : 110", 250),
        ("instance_type.startsWith('c6a.') ? 1 : 2", 1),
        ("instance_type in ['m5.large', 'c6a.4xlarge'] ? 7 : 8", 7),
        ("{'c6a.4xlarge': 58}[instance_type]", 58),
        ("int(string(vcpus)) + size(instance_type)", 27),
        ("vcpus % 5", 1),
    ] {
        let expression = Expression::compile(text);
        let value = expression.map(|expression| expression.evaluate(&variables()));
        assert_eq!(value, Ok(Ok(want)), "{text}");
    }
}

#[test]
fn texts_that_are_no_expression() {
    let error = |text: &str| Expression::compile(text).map(|_| ()).unwrap_err();
    for text in ["", "vcpus +", "vcpus vcpus", "'open"] {
        assert!(
            matches!(error(text), CompileError::Syntax(_)),
            "{text}: {:?}",
            error(text)
        );
    }
    for (text, message) in [
        ("vcpu * 2", "has the unknown name vcpu; did you mean vcpus?"),
        ("maxx(1, 2)", "has the unknown name maxx; did you mean max?"),
        ("'a'", "must give an int or a double, not a string"),
        ("vcpus > 3", "must give an int or a double, not a bool"),
        (
            "[1].map(x, x)[0]",
            "has a macro, which expressions of kubelet settings cannot have",
        ),
        (
            "3u",
            "has an unsigned number, which expressions of kubelet settings cannot have",
        ),
    ] {
        assert_eq!(error(text).to_string(), message, "{text}");
    }
    assert!(
        error("instance_type.matches('m5') ? 1 : 2")
            .to_string()
            .starts_with("has the unknown name matches")
    );
    for text in ["vcpus * 1.5", "vcpus + 'a'", "max(1, 'a')", "max(1, 2, 3)", "!vcpus"] {
        assert!(
            matches!(error(text), CompileError::Types(_)),
            "{text}: {:?}",
            error(text)
        );
    }
}

#[test]
fn large_texts_are_refused_before_they_cost_anything() {
    let error = |text: String| Expression::compile(&text).map(|_| ()).unwrap_err();
    assert_eq!(error("1 + ".repeat(TEXT_MAX)), CompileError::TooLong);
    assert_eq!(
        error(format!("{}1{}", "(".repeat(17), ")".repeat(17))),
        CompileError::TooDeep
    );
    // Whatever such a chain gives, it ends.
    for part in ["1+", "-", "!", "true?1:", "1-"] {
        let text = format!("{}1", part.repeat((TEXT_MAX - 1) / part.len()));
        drop(Expression::compile(&text).map(|expression| expression.evaluate(&variables())));
    }
}

#[test]
fn values_that_no_setting_can_have() {
    let value = |text: &str| Expression::compile(text).unwrap().evaluate(&variables());
    for text in [
        "1 / (vcpus - 16)",
        "1 % (vcpus - 16)",
        "9223372036854775807 + vcpus",
        "-(-9223372036854775807 - vcpus + 15)",
        "[1][vcpus]",
    ] {
        assert!(
            matches!(value(text), Err(EvaluationError::Cel(_))),
            "{text}: {:?}",
            value(text)
        );
    }
    for text in ["1.0 / (double(vcpus) - 16.0)", "1e300", "0.0 / 0.0"] {
        assert!(
            matches!(value(text), Err(EvaluationError::OutOfBounds(_))),
            "{text}: {:?}",
            value(text)
        );
    }
    let kind = value("vcpus > 8 ? 'a' : 1 == 1 ? 1 : 2");
    assert_eq!(kind, Err(EvaluationError::NotANumber("string")));
}

#[test]
fn settings_differ_between_types() {
    let class = of(
        "AL2023",
        json!({
            "maxPods": "min(110, max_pods)",
            "kubeReserved": {"cpu": "vcpus * 31", "memory": "11 * max_pods + 255", "pid": "1000", "ephemeral-storage": "vcpus * 1"},
            "systemReserved": {"memory": "memory_mib / 100", "cpu": "100m"},
        }),
    );
    for (name, pods, cpu, memory, storage, system) in [
        ("m5.large", 29, "70m", "576Mi", "2Gi", "96Mi"),
        ("m5.4xlarge", 110, "500m", "1472Mi", "16Gi", "656Mi"),
    ] {
        let want = json!({
            "maxPods": pods,
            "kubeReserved": {"cpu": cpu, "memory": memory, "pid": "1000", "ephemeral-storage": storage},
            "systemReserved": {"memory": system, "cpu": "100m"},
        });
        assert_eq!(computed(&class, name), Ok(want), "{name}");
    }
}

#[test]
fn the_scheduler_counts_with_what_nodes_are_given() {
    let interner = Interner::default();
    let class = of(
        "AL2023",
        json!({"maxPods": "vcpus * 5", "systemReserved": {"memory": "160"}, "kubeReserved": {"cpu": "vcpus * 10 + 1"}}),
    );
    let mut settings = settings();
    let kind = |settings: &_| resolve(&description("m5.large"), &class, &zones(&[]), None, settings, &interner);
    settings.node_class_cel = true;
    let on = kind(&settings);
    assert_eq!(on.capacity.get(sym::PODS), 10);
    assert_eq!(on.overhead.get(sym::CPU), 30);
    settings.node_class_cel = false;
    let plain = resolve(
        &description("m5.large"),
        &of("AL2023", json!({})),
        &zones(&[]),
        None,
        &settings,
        &interner,
    );
    let off = kind(&settings);
    assert_eq!(off.capacity.get(sym::PODS), plain.capacity.get(sym::PODS));
    // "160" is a quantity of 160 bytes, with and without the gate.
    assert_eq!(on.overhead.get(sym::MEMORY) - plain.overhead.get(sym::MEMORY), 160);
    assert!(on.overhead.get(sym::MEMORY) > 100 * MIB);
}

#[test]
fn a_result_that_a_type_cannot_have_names_field_and_type() {
    for (kubelet, message) in [
        (
            json!({"maxPods": "vcpus - 3"}),
            "spec.kubelet.maxPods: for m5.large the result is -1, which is negative",
        ),
        (
            json!({"maxPods": "vcpus * 2000000000"}),
            "spec.kubelet.maxPods: for m5.large the result is 4000000000, which is more than a node can have",
        ),
        (
            json!({"systemReserved": {"cpu": "vcpus - 100"}}),
            "spec.kubelet.systemReserved[cpu]: for m5.large the result is -98, which is negative",
        ),
        (
            json!({"kubeReserved": {"memory": "vcpu"}}),
            "spec.kubelet.kubeReserved[memory]: the expression has the unknown name vcpu; did you mean vcpus?",
        ),
    ] {
        assert_eq!(computed(&of("AL2023", kubelet), "m5.large"), Err(message.to_owned()));
    }
    let zero = computed(
        &of("AL2023", json!({"kubeReserved": {"cpu": "1 / (vcpus - 2)"}})),
        "m5.large",
    )
    .unwrap_err();
    assert!(
        zero.starts_with("spec.kubelet.kubeReserved[cpu]: for m5.large "),
        "{zero}"
    );
    assert!(zero.contains("zero"), "{zero}");
}

#[test]
fn gates_are_off_unless_asked_for() {
    let off = AwsFeatureGates::default();
    assert!(!off.node_class_cel && !off.extended_kubelet);
    let reason = |class: &EC2NodeClass, gates| gate_problem(&class.spec, gates).map(|(reason, _)| reason);
    let expressions = of("AL2", json!({"maxPods": "vcpus", "kubeReserved": {"cpu": "vcpus"}}));
    let (_, message) = gate_problem(&expressions.spec, off).unwrap();
    assert!(message.contains("maxPods, kubeReserved[cpu]"), "{message}");
    assert_eq!(reason(&expressions, off), Some("KubeletExpressionsDisabled"));
    assert_eq!(reason(&expressions, ON), None);
    let fields = |family| of(family, json!({"maxPods": 10, "topologyManagerPolicy": "best-effort"}));
    assert_eq!(reason(&fields("AL2023"), off), Some("KubeletFieldsDisabled"));
    assert_eq!(reason(&fields("AL2023"), ON), None);
    assert_eq!(reason(&fields("Custom"), ON), None);
    for family in ["AL2", "Bottlerocket", "Windows2022"] {
        assert_eq!(
            reason(&fields(family), ON),
            Some("UnsupportedKubeletConfiguration"),
            "{family}"
        );
    }
    let taints = of("AL2023", json!({"registerWithTaints": []}));
    assert_eq!(reason(&taints, ON), Some("InvalidKubeletConfiguration"));
    let wrong = of("AL2023", json!({"maxPods": "vcpu"}));
    let problem = checked_expressions(&wrong.spec, ON).unwrap_err();
    assert_eq!(problem.0, "KubeletExpressionInvalid");
    // What 1.14 takes is taken with every gate.
    let plain = of("AL2023", json!({"maxPods": 10, "kubeReserved": {"cpu": "100m"}}));
    assert_eq!((reason(&plain, off), reason(&plain, ON)), (None, None));
}

/// The user data of a family's node of a type.
fn user_data(class: &EC2NodeClass, name: &str, gates: AwsFeatureGates) -> String {
    let kubelet = ClassKubelet::new(&class.spec, gates.node_class_cel).unwrap();
    let computed = kubelet.of_type(&description(name), &class.spec, 0).unwrap();
    let input = BootstrapInput {
        family: class.spec.effective_family(),
        cluster_name: "prod".to_owned(),
        endpoint: "https://prod".to_owned(),
        ca_bundle: String::new(),
        cluster_cidr: Some("10.100.0.0/16".to_owned()),
        kubelet: settings_for_nodes(computed, gates),
        taints: Vec::new(),
        labels: BTreeMap::new(),
        instance_store_policy: None,
        custom: None,
        binds_default_paths: true,
    };
    render(&input.with_defaults(29, None)).unwrap()
}

#[test]
fn user_data_has_numbers_instead_of_expressions() {
    let kubelet = json!({"maxPods": "vcpus * 10", "kubeReserved": {"cpu": "vcpus * 50"}, "systemReserved": {"memory": "memory_mib / 64"}});
    for (family, parts) in [
        (
            "AL2",
            [
                "--max-pods=20",
                "--kube-reserved=\"cpu=100m\"",
                "--system-reserved=\"memory=128Mi\"",
            ],
        ),
        ("AL2023", ["maxPods: 20", "cpu: 100m", "memory: 128Mi"]),
        (
            "Bottlerocket",
            ["max-pods = 20", "cpu = \"100m\"", "memory = \"128Mi\""],
        ),
        (
            "Windows2022",
            [
                "--max-pods=20",
                "--kube-reserved=\"cpu=100m\"",
                "--system-reserved=\"memory=128Mi\"",
            ],
        ),
    ] {
        let text = user_data(&of(family, kubelet.clone()), "m5.large", ON);
        for part in parts {
            assert!(text.contains(part), "{family}: {part} in {text}");
        }
        assert!(
            !text.contains("vcpus") && !text.contains("memory_mib"),
            "{family}: {text}"
        );
    }
    assert_eq!(user_data(&of("Custom", kubelet), "m5.large", ON), "");
}

#[test]
fn without_gates_user_data_is_that_of_a_class_without_the_fields() {
    for family in [
        "AL2",
        "AL2023",
        "Bottlerocket",
        "Windows2019",
        "Windows2022",
        "Windows2025",
        "Custom",
    ] {
        let later = json!({"podsPerCore": 4, "maxPods": "vcpus", "containerLogMaxSize": "50Mi", "kubeReserved": {"cpu": "100m", "memory": "vcpus"}});
        let plain = json!({"podsPerCore": 4, "kubeReserved": {"cpu": "100m"}});
        let off = AwsFeatureGates::default();
        assert_eq!(
            user_data(&of(family, later), "m5.large", off),
            user_data(&of(family, plain.clone()), "m5.large", off),
            "{family}"
        );
        assert_eq!(
            user_data(&of(family, plain.clone()), "m5.large", ON),
            user_data(&of(family, plain), "m5.large", off),
            "{family}"
        );
    }
}

#[test]
fn other_fields_reach_nodeadm_as_they_are() {
    let class = of(
        "AL2023",
        json!({"containerLogMaxSize": "50Mi", "serializeImagePulls": false, "registerWithTaints": [{"key": "a"}]}),
    );
    let text = user_data(&class, "m5.large", ON);
    assert!(text.contains("containerLogMaxSize: 50Mi"), "{text}");
    assert!(text.contains("serializeImagePulls: false"), "{text}");
    assert!(text.contains("registerWithTaints: []"), "{text}");
}

#[test]
fn types_that_reserve_the_same_share_a_template() {
    let interner = Interner::default();
    let class = class(json!({"kubelet": {"maxPods": 50, "kubeReserved": {"cpu": "vcpus * 2"}}}));
    let kubelet = ClassKubelet::new(&class.spec, true).unwrap();
    let names = ["m5.large", "c5.large", "m5.4xlarge"];
    let types = names.map(|name| resolve(&description(name), &class, &zones(&[]), None, &settings(), &interner));
    let claim = LaunchClaim::new(Requirements::new(), Resources::new(), &interner);
    let amis = serde_json::from_value::<Vec<_>>(json!([{"id": "ami-1", "requirements": []}])).unwrap();
    let groups = template_groups(&claim, &types, &amis, CapacityType::OnDemand, &|kind| {
        kubelet.reserved_of_type(&description(interner.text(kind.name)), &class.spec, 0)
    });
    let groups: Vec<(String, usize)> = groups
        .unwrap()
        .iter()
        .map(|group| {
            (
                group.key.reserved.as_ref().unwrap().kube["cpu"].clone(),
                group.types.len(),
            )
        })
        .collect();
    assert_eq!(groups, [("10m".to_owned(), 2), ("40m".to_owned(), 1)]);
    let fixed = ClassKubelet::fixed(&class.spec);
    let plain = template_groups(&claim, &types, &amis, CapacityType::OnDemand, &|kind| {
        fixed.reserved_of_type(&description(interner.text(kind.name)), &class.spec, 0)
    });
    assert_eq!(plain.unwrap().len(), 1);
}

#[test]
fn the_hash_counts_the_fields_only_where_they_are() {
    let hash = |kubelet: Value| of("AL2023", kubelet).drift_hash("");
    assert_eq!(of("AL2023", json!({})).spec.effective_family(), AmiFamily::Al2023);
    let plain = hash(json!({"maxPods": 10}));
    for other in [
        json!({"maxPods": "10"}),
        json!({"maxPods": 10, "eventBurst": 1}),
        json!({"maxPods": 10, "eventBurst": 2}),
        json!({"maxPods": 10, "memorySwap": {"a": 1, "b": 2}}),
    ] {
        assert_ne!(hash(other.clone()), plain, "{other}");
    }
    assert_eq!(
        hash(json!({"maxPods": 10, "x": {"a": 1, "b": 2}})),
        hash(json!({"x": {"b": 2, "a": 1}, "maxPods": 10}))
    );
    assert_ne!(hash(json!({"eventBurst": 1})), hash(json!({"eventBurst": 2})));
}
