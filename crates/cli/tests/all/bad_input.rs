//! What bad input gets: a typed reason on exactly the object at fault, and everything else is scheduled.

use crate::kerf::{Outcome, kerf, kerf_with_env, kerf_with_input};
use crate::manifest::{self, NOW, amd64, class, list, with};
use kerf_testkit::objects::pod;
use serde_json::{Value, json};

/// A pool and its class.
fn pool(name: &str, requirements: &Value) -> Vec<Value> {
    vec![class(name), manifest::pool(name, requirements, json!({}))]
}

fn affine(name: &str, expressions: &Value) -> Value {
    let term = json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
    with(
        pod(name, "1"),
        "spec/affinity",
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}),
    )
}

/// A pool, two good pods, and what is bad.
fn world(bad: Vec<Value>) -> String {
    let mut items = pool("default", &amd64());
    items.push(pod("good-1", "1"));
    items.extend(bad);
    items.push(pod("good-2", "1"));
    list(&items)
}

fn simulate(manifests: &str) -> (Outcome, Value) {
    let args = ["simulate", "-f", "-", "-o", "json", "--verify", NOW[0], NOW[1]];
    let outcome = kerf_with_input(&args, manifests.as_bytes());
    let shown: String = outcome.stderr.chars().take(2000).collect();
    let report: Value = serde_json::from_str(&outcome.stdout).expect(&shown);
    assert_eq!(report["verification"]["valid"], true, "{report}");
    (outcome, report)
}

fn explain(name: &str, manifests: &str) -> (i32, Value) {
    let args = [
        "explain",
        &format!("pod/{name}"),
        "-f",
        "-",
        "-o",
        "json",
        NOW[0],
        NOW[1],
    ];
    let outcome = kerf_with_input(&args, manifests.as_bytes());
    (
        outcome.code,
        serde_json::from_str(&outcome.stdout).unwrap_or(Value::Null),
    )
}

fn placed(report: &Value) -> Vec<&str> {
    let nodes = report["nodes"].as_array().into_iter().flatten();
    nodes
        .filter_map(|node| node["pods"].as_array())
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn assert_good_pods_placed(what: &str, report: &Value) {
    let placed = placed(report);
    for good in ["default/good-1", "default/good-2"] {
        assert!(placed.contains(&good), "{what}: {good} was lost: {report}");
    }
}

/// An API server would refuse these: the error names the object and its field, exit code 2.
#[test]
fn what_no_api_server_would_store_is_named_and_left_out() {
    let selector = |operator: &str, values: Value| {
        let selector = json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
        let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod("x", "1")["spec"]});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "bad"},
            "spec": {"replicas": 1, "selector": selector, "template": template}})
    };
    let spread = |selector: Value| {
        let spread = json!([{"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]);
        with(pod("bad", "1"), "spec/topologySpreadConstraints", spread)
    };
    let expression = |operator: &str, values: Value| {
        affine(
            "bad",
            &json!([{"key": "kubernetes.io/arch", "operator": operator, "values": values}]),
        )
    };
    let cases: Vec<(&str, Vec<Value>, &[&str])> = vec![
        (
            "a selector with an unknown operator",
            vec![selector("Near", json!(["a"]))],
            &["Deployment default/bad", "Near"],
        ),
        (
            "a selector In nothing",
            vec![selector("In", json!([]))],
            &["Deployment default/bad", "values"],
        ),
        (
            "a spread selector with an unknown operator",
            vec![spread(
                json!({"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}),
            )],
            &["Pod default/bad", "Like"],
        ),
        (
            "a spread selector with an impossible label",
            vec![spread(json!({"matchLabels": {"-app-": "x"}}))],
            &["Pod default/bad", "-app-"],
        ),
        (
            "an unknown operator",
            vec![expression("Near", json!(["amd64"]))],
            &["Pod default/bad", "Near"],
        ),
        (
            "Gt on two numbers",
            vec![expression("Gt", json!(["1", "2"]))],
            &["Pod default/bad", "Gt"],
        ),
        (
            "Exists with values",
            vec![expression("Exists", json!(["amd64"]))],
            &["Pod default/bad", "Exists"],
        ),
        (
            "an overflowing exponent",
            vec![pod("bad", "1e999999999999")],
            &["Pod default/bad", "1e999999999999"],
        ),
        ("no number", vec![pod("bad", "NaN")], &["Pod default/bad", "NaN"]),
        (
            "Gt on text in a pool",
            pool(
                "bad",
                &json!([{"key": "karpenter.kwok.sh/instance-cpu", "operator": "Gt", "values": ["many"]}]),
            ),
            &["NodePool bad", "requirements"],
        ),
        (
            "an unknown operator in a pool",
            pool(
                "bad",
                &json!([{"key": "kubernetes.io/arch", "operator": "Near", "values": ["amd64"]}]),
            ),
            &["NodePool bad", "operator"],
        ),
    ];
    for (what, bad, names) in cases {
        let (outcome, report) = simulate(&world(bad));
        assert_eq!(outcome.code, 2, "{what}: {}", outcome.stderr);
        for name in names {
            assert!(
                outcome.stderr.contains(name),
                "{what} does not name {name}: {}",
                outcome.stderr
            );
        }
        assert_good_pods_placed(what, &report);
        assert_eq!(report["totals"]["unschedulable"], 0, "{what}: {report}");
    }
}

/// These an API server stores. The pod at fault has a typed reason, and nothing else is touched.
#[test]
fn what_cannot_be_meant_costs_its_own_pod_alone() {
    let claim = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec});
    let volume = |name: &str, claim: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": {"namespace": "default", "name": claim},
                "csi": {"driver": "d", "volumeHandle": "h"}}})
    };
    let using = |claim: &str| {
        with(
            pod("bad", "1"),
            "spec/volumes",
            json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]),
        )
    };
    let storage = json!({"requests": {"storage": "1Gi"}});
    let bound = |volume: &str| json!({"accessModes": ["ReadWriteOnce"], "volumeName": volume, "resources": storage});
    let unbound = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "nope", "resources": storage});
    // What is bad, the code of its reason, and whether a file is at fault for it (exit code 2) or only the pod left over (1).
    let cases: Vec<(&str, Vec<Value>, &str, i32)> = vec![
        (
            "contradictory requirements",
            vec![affine(
                "bad",
                &json!([
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "kubernetes.io/arch", "operator": "NotIn", "values": ["amd64"]},
                ]),
            )],
            "Incompatible",
            1,
        ),
        (
            "an empty range",
            vec![affine(
                "bad",
                &json!([
                    {"key": "cores", "operator": "Gt", "values": ["8"]},
                    {"key": "cores", "operator": "Lt", "values": ["4"]},
                ]),
            )],
            "Incompatible",
            1,
        ),
        (
            "Gt on text",
            vec![affine(
                "bad",
                &json!([{"key": "kubernetes.io/arch", "operator": "Gt", "values": ["many"]}]),
            )],
            "Requirement",
            1,
        ),
        (
            "more cores than a number can count",
            vec![pod("bad", "9223372036854775807")],
            "InstanceTypes",
            1,
        ),
        (
            "more bytes than there are",
            vec![with(
                pod("bad", "1"),
                "spec/containers",
                json!([{"name": "c", "image": "i", "resources": {"requests": {"memory": "8191Pi"}}}]),
            )],
            "InstanceTypes",
            1,
        ),
        ("a claim that is not there", vec![using("gone")], "Volume", 2),
        (
            "a class that is not there",
            vec![claim("data", unbound), using("data")],
            "Volume",
            2,
        ),
        (
            "a volume that is not there",
            vec![claim("data", bound("gone")), using("data")],
            "Volume",
            1,
        ),
        (
            "a volume that belongs to another claim, which belongs to another volume",
            vec![
                claim("data", bound("one")),
                claim("other", bound("two")),
                volume("one", "other"),
                volume("two", "data"),
                using("data"),
            ],
            "Volume",
            1,
        ),
    ];
    for (what, bad, code, exit) in cases {
        let manifests = world(bad);
        let (outcome, report) = simulate(&manifests);
        assert_good_pods_placed(what, &report);
        assert_eq!(outcome.code, exit, "{what}: {}\n{report}", outcome.stderr);
        let left = report["unschedulable"]
            .as_array()
            .into_iter()
            .chain(report["ignored"].as_array())
            .flatten();
        let left: Vec<(&Value, &Value)> = left.map(|one| (&one["pod"], &one["reasons"][0]["code"])).collect();
        assert_eq!(left, [(&"default/bad".into(), &code.into())], "{what}: {report}");
        let (exit, explanation) = explain("bad", &manifests);
        assert_eq!(exit, 1, "{what}: {explanation}");
        assert_eq!(explain("good-1", &manifests).0, 0, "{what}");
    }
}

#[test]
fn a_pool_that_excludes_every_type_is_passed_over_and_explained() {
    let bad = pool(
        "bad",
        &json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m9.imaginary"]}]),
    );
    let mut bad = bad;
    bad.push(pod("huge", "100000"));
    let manifests = world(bad);
    let (outcome, report) = simulate(&manifests);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert_good_pods_placed("an empty pool", &report);
    let (_, explanation) = explain("huge", &manifests);
    let refusals = explanation["refusals"].as_array().expect("refusals");
    let bad = refusals
        .iter()
        .find(|one| one["nodePool"] == "bad")
        .expect("the empty pool");
    assert_eq!(bad["code"], "PoolNotUsable");
    let miss = bad["nearestMiss"].as_str().unwrap_or_default();
    assert!(
        miss.ends_with("would do but for node.kubernetes.io/instance-type In [m9.imaginary]"),
        "{miss}"
    );
}

#[test]
fn overlays_that_conflict_are_named_and_applied_nowhere() {
    let overlay = |name: &str, price: &str| {
        json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name},
            "spec": {"weight": 1, "price": price, "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}})
    };
    let price = |report: &Value| report["totals"]["pricePerHour"].clone();
    let (_, plain) = simulate(&world(vec![]));
    let (outcome, report) = simulate(&world(vec![overlay("one", "7.5"), overlay("two", "9.5")]));
    assert_eq!(outcome.code, 2);
    assert_good_pods_placed("conflicting overlays", &report);
    let named: Vec<&str> = ["one", "two"]
        .into_iter()
        .filter(|name| {
            outcome
                .stderr
                .contains(&format!("error: NodeOverlay {name}: conflict with another overlay"))
        })
        .collect();
    assert_eq!(named.len(), 1, "{}", outcome.stderr);
    assert_ne!(price(&report), price(&plain), "the overlay that is right holds");
}

#[test]
fn long_lists_and_many_labels_are_no_trouble() {
    let values: Vec<String> = (0..10_000)
        .map(|n| format!("zone-{n}"))
        .chain(["us-east-1a".to_owned()])
        .collect();
    let zones = |name: &str, operator: &str| {
        affine(
            name,
            &json!([{"key": "topology.kubernetes.io/zone", "operator": operator, "values": values}]),
        )
    };
    let labels = |n: usize| -> Value {
        (0..100)
            .map(|m| (format!("label-{n}-{m}"), json!(format!("value-{n}-{m}"))))
            .collect()
    };
    let mut bad = vec![zones("in", "In"), zones("not-in", "NotIn")];
    bad.extend((0..500).map(|n| with(pod(&format!("labelled-{n}"), "10m"), "metadata/labels", labels(n))));
    let types: Vec<String> = (0..10_000).map(|n| format!("type-{n}")).collect();
    bad.extend(pool(
        "long",
        &json!([{"key": "node.kubernetes.io/instance-type", "operator": "NotIn", "values": types}]),
    ));
    let (outcome, report) = simulate(&world(bad));
    assert_eq!(
        outcome.code,
        0,
        "{}",
        outcome.stderr.chars().take(2000).collect::<String>()
    );
    assert_eq!(report["totals"]["scheduled"], 504);
}

#[test]
fn a_file_that_cannot_be_read_may_hold_the_pod() {
    let outcome = kerf(&["explain", "pod/p", "-f", "no/such/file.yaml"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("no/such/file.yaml"), "{}", outcome.stderr);
}

#[test]
fn a_key_that_stands_twice_is_named_with_one_place() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nmetadata: {name: b}\n";
    let outcome = kerf_with_input(&["simulate", "-f", "-"], text.as_bytes());
    let expected = "error: <stdin>: document 1: is not valid YAML: line 4, column 1: duplicate mapping key: metadata; fix the syntax at that place\n";
    assert_eq!((outcome.code, &*outcome.stderr), (2, expected));
}

/// Every command that reads a kubeconfig, with what it needs besides.
const WITH_KUBECONFIG: [&[&str]; 3] = [&["explain", "pod/web"], &["preflight"], &["controller"]];

#[test]
fn the_path_of_a_missing_kubeconfig_is_said_once() {
    for args in WITH_KUBECONFIG {
        let flag = [args, &["--kubeconfig=/nowhere"]].concat();
        for (how, outcome) in [
            ("flag", kerf(&flag)),
            ("variable", kerf_with_env(args, &[("KUBECONFIG", "/nowhere")])),
        ] {
            assert_eq!(outcome.code, 4, "{args:?}, {how}");
            let expected = "error: kubeconfig /nowhere cannot be used: No such file or directory (os error 2)\n";
            assert_eq!(outcome.stderr, expected, "{args:?}, {how}");
        }
        let none = kerf_with_env(args, &[("HOME", "/nowhere")]);
        let expected = "error: no cluster to talk to: set KUBECONFIG, write ~/.kube/config, or run inside a cluster\n";
        assert_eq!((none.code, &*none.stderr), (4, expected), "{args:?}");
    }
}

#[test]
fn no_other_command_takes_a_kubeconfig() {
    let help = kerf(&["--help"]).stdout;
    let (_, commands) = help.split_once("Commands:\n").expect("the commands");
    let (commands, _) = commands.split_once("\n\n").expect("their end");
    let names = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let taking = names.filter(|name| kerf(&[name, "--help"]).stdout.contains("--kubeconfig"));
    let mut taking: Vec<&str> = taking.collect();
    taking.sort_unstable();
    let mut expected: Vec<&str> = WITH_KUBECONFIG
        .iter()
        .filter_map(|args| args.first().copied())
        .collect();
    expected.sort_unstable();
    assert_eq!(taking, expected);
}

#[test]
fn alias_bombs_and_deep_nesting_are_refused() {
    // Twelve lists, each with ten aliases of the one before: 10¹² values if they were expanded.
    let mut bomb =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\nl0: &l0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..12 {
        let aliases = vec![format!("*l{}", i - 1); 10].join(",");
        bomb.push_str(&format!("l{i}: &l{i} [{aliases}]\n"));
    }
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let yaml = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: deep}}\na: {nested}\n");
    let json = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"deep"}},"a":{nested}}}"#);
    for (text, cause) in [
        (bomb, "> 1000000; fix the syntax at that place"),
        (yaml, "recursion limit exceeded"),
        (json, "recursion limit exceeded"),
    ] {
        let outcome = kerf_with_input(&["simulate", "-f", "-"], text.as_bytes());
        assert_eq!(outcome.code, 2, "{cause}");
        assert!(
            outcome.stderr.contains(cause) && outcome.stderr.len() < 1000,
            "{cause}: {}",
            outcome.stderr.chars().take(1000).collect::<String>()
        );
    }
}

#[test]
fn each_of_many_documents_is_judged_and_errors_keep_their_order() {
    let mut text = String::new();
    for at in 0..300 {
        let depth = if at % 2 == 0 { 200 } else { 100_000 };
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        text.push_str(&format!(
            "---\n{{apiVersion: example.com/v1, kind: Deep, metadata: {{name: n{at}}}, a: {nested}}}\n"
        ));
    }
    let outcome = kerf_with_input(&["simulate", "-f", "-"], text.as_bytes());
    assert_eq!(outcome.code, 2);
    let refused: Vec<&str> = outcome
        .stderr
        .lines()
        .filter(|line| line.starts_with("error: "))
        .collect();
    assert_eq!(
        refused.len(),
        150,
        "{}",
        outcome.stderr.chars().take(1000).collect::<String>()
    );
    for (at, line) in refused.iter().enumerate() {
        let expected = format!(
            "error: <stdin>: document {}: is not valid YAML: line {},",
            2 * at + 2,
            4 * at + 4
        );
        assert!(
            line.starts_with(&expected) && line.contains("recursion limit exceeded"),
            "{line}"
        );
    }
}

#[test]
fn a_limit_with_an_exponent_is_a_quantity() {
    for limit in [json!(1e30), json!("1e30"), json!("1E3")] {
        let pool = manifest::pool("default", &amd64(), json!({"limits": {"cpu": limit}}));
        let (outcome, _) = simulate(&list(&[class("default"), pool, pod("p", "1")]));
        assert_eq!((outcome.code, &*outcome.stderr), (0, ""), "{limit}");
    }
}
