//! `kerf simulate` as a user meets it: examples, bad input, exit codes, formats.

use crate::kerf::{Outcome, kerf, kerf_with_input, root};
use crate::manifest::{NOW, pod_yaml};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

fn simulate(manifests: &str, extra: &[&str]) -> Outcome {
    let args: Vec<&str> = ["simulate", "-f", "-", "-o", "json", "--verify"]
        .into_iter()
        .chain(NOW)
        .chain(extra.iter().copied())
        .collect();
    kerf_with_input(&args, manifests.as_bytes())
}

fn report(outcome: &Outcome) -> Value {
    assert!(
        outcome.stdout.starts_with('{'),
        "{}\n{}",
        outcome.stdout,
        outcome.stderr
    );
    serde_json::from_str(&outcome.stdout).expect("a report")
}

const POOL: &str = "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
---
";

#[test]
fn every_example_finds_a_place_for_every_pod() {
    let mut examples: Vec<_> = fs::read_dir(root().join("examples"))
        .expect("examples")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    examples.sort();
    assert!(examples.len() >= 12);
    for example in &examples {
        let path = example.display().to_string();
        let outcome = kerf(&["simulate", "-f", &path, "-o", "json", "--verify", NOW[0], NOW[1]]);
        assert_eq!(outcome.code, 0, "{path}: {}\n{}", outcome.stdout, outcome.stderr);
        assert!(report(&outcome)["totals"]["scheduled"].as_u64() > Some(0), "{path}");
    }
    // Together as well: they share no name.
    let outcome = kerf(&["simulate", "-f", "examples", "-o", "json", "--verify", NOW[0], NOW[1]]);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
}

fn buffer(fields: &str) -> String {
    format!(
        "apiVersion: autoscaling.x-k8s.io/v1beta1\nkind: CapacityBuffer\nmetadata: {{name: spare}}\nspec: {{{fields}}}\n---\n"
    )
}

// SCH-380, SCH-381, SCH-386
#[test]
fn capacity_buffers_get_room() {
    let containers = "containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]";
    let template = format!(
        "apiVersion: v1\nkind: PodTemplate\nmetadata: {{name: shape}}\ntemplate: {{spec: {{{containers}}}}}\n---\n"
    );
    let workload = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec: {{replicas: 5, selector: {{matchLabels: {{app: web}}}}, \
         template: {{metadata: {{labels: {{app: web}}}}, spec: {{{containers}}}}}}}\n---\n"
    );
    let totals = |manifests: &str, extra: &[&str]| {
        let outcome = simulate(&format!("{POOL}{manifests}"), extra);
        assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
        let totals = &report(&outcome)["totals"];
        (totals["scheduled"].as_u64(), totals["bufferPods"].as_u64())
    };
    let of_template = template + &buffer("podTemplateRef: {name: shape}, replicas: 3");
    assert_eq!(totals(&of_template, &[]), (Some(3), Some(3)));
    let scalable = "scalableRef: {kind: Deployment, name: web}";
    let of_workload = workload.clone() + &buffer(&format!("{scalable}, percentage: 30"));
    assert_eq!(totals(&of_workload, &[]), (Some(7), Some(2)), "30 % of 5, rounded up");
    let off = ["--feature-gates", "CapacityBuffer=false"];
    assert_eq!(totals(&of_workload, &off), (Some(5), Some(0)));
    let foreign = workload
        + &buffer(&format!(
            "{scalable}, replicas: 3, provisioningStrategy: example.com/own"
        ));
    assert_eq!(totals(&foreign, &[]), (Some(5), Some(0)));

    let refused = |fields: &str| {
        let outcome = simulate(&format!("{POOL}{}", buffer(fields)), &[]);
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        outcome.stderr
    };
    let missing = refused("podTemplateRef: {name: gone}, replicas: 3");
    let expected =
        "CapacityBuffer default/spare: spec.podTemplateRef: PodTemplate \"gone\" is not in the input; add it";
    assert!(missing.contains(expected), "{missing}");
    let unsupported = refused("scalableRef: {kind: Rollout, name: web}, replicas: 3");
    assert!(unsupported.contains("unsupported kind \"Rollout\""), "{unsupported}");
}

#[test]
fn the_cost_of_each_constraint_is_printed() {
    let manifests = format!("{POOL}{}", pod_yaml("a", "1", ""));
    let document = report(&simulate(&manifests, &["--explain-cost", "--catalogue", "kwok"]));
    let cost = document["totals"]["pricePerHour"].as_f64().expect("a price");
    let costs = document["constraintCosts"].as_array().expect("a list");
    let names: Vec<&str> = costs.iter().filter_map(|one| one["without"].as_str()).collect();
    assert!(
        names.contains(&"NodePool default: requirement kubernetes.io/arch"),
        "{names:?}"
    );
    for one in costs {
        let number = |field: &str| one[field].as_f64().expect("a number");
        assert!(
            (cost - number("pricePerHour") - number("savesPerHour")).abs() < 1e-9,
            "{one}"
        );
        assert!(
            (number("savesPerHour") * 730.0 - number("savesPerMonth")).abs() < 1e-6,
            "{one}"
        );
    }
    let saves = |one: &Value| one["savesPerHour"].as_f64();
    assert!(
        costs.windows(2).all(|pair| saves(&pair[0]) >= saves(&pair[1])),
        "{costs:?}"
    );

    let args = ["simulate", "-f", "examples/web.yaml", "--explain-cost", NOW[0], NOW[1]];
    let table = kerf(&args).stdout;
    assert!(table.contains("WITHOUT ") && table.contains("SAVES $/MONTH"), "{table}");
    assert!(
        table.contains("topology spread over topology.kubernetes.io/zone"),
        "{table}"
    );
}

#[test]
fn the_gap_to_the_lower_bound_is_divided_among_its_causes() {
    let args = ["simulate", "-f", "examples/stateful.yaml", "--bound", NOW[0], NOW[1]];
    let document = report(&kerf(&[&args[..], &["-o", "json"]].concat()));
    let (bound, number) = (&document["bound"], |value: &Value| value.as_f64().expect("a number"));
    let causes = bound["causes"].as_array().expect("a list");
    let sum: f64 = causes.iter().map(|one| number(&one["pricePerHour"])).sum();
    let gap = number(&document["totals"]["pricePerHour"]) - number(&bound["pricePerHour"]);
    assert!((gap - sum).abs() < 1e-9, "{bound}");
    assert!(
        (gap / number(&bound["pricePerHour"]) - number(&bound["gap"])).abs() < 1e-9,
        "{bound}"
    );
    assert!(causes.iter().any(|one| one["cause"] == "topology"), "{bound}");

    let table = kerf(&args).stdout;
    assert!(
        table.contains("lower bound: ") && table.contains("  due to: topology "),
        "{table}"
    );

    // Nothing is launched for no pods.
    let nothing = kerf_with_input(&["simulate", "-f", "-", "--bound", NOW[0], NOW[1]], POOL.as_bytes()).stdout;
    assert!(nothing.contains("lower bound: 0.0000 $/h\n"), "{nothing}");
}

#[test]
fn pods_that_share_no_pool_cost_the_same_planned_together() {
    let (ci, cilium) = ("examples/ci-runners.yaml", "examples/cilium-startup-taints.yaml");
    let cost = |files: &[&str]| {
        let mut args = vec!["simulate", "-o", "json", NOW[0], NOW[1]];
        args.extend(files.iter().flat_map(|file| ["-f", *file]));
        report(&kerf(&args))["totals"]["pricePerHour"]
            .as_f64()
            .expect("a price")
    };
    let (apart, together) = (cost(&[ci]) + cost(&[cilium]), cost(&[ci, cilium]));
    assert!(together <= apart + 1e-9, "{together} $/h instead of {apart}");
}

#[test]
fn groups_that_share_no_pool_cost_no_more_together() {
    // Different strategies are best for these examples.
    let examples =
        ["web", "graviton", "pod-affinity", "daemonset", "spot-fallback"].map(|name| format!("examples/{name}.yaml"));
    let cost = |files: &[&str]| {
        let mut args = vec!["simulate", "-o", "json", "--packing", "cheapest", NOW[0], NOW[1]];
        args.extend(files.iter().flat_map(|file| ["-f", *file]));
        report(&kerf(&args))["totals"]["pricePerHour"]
            .as_f64()
            .expect("a price")
    };
    let apart: Vec<f64> = examples.iter().map(|file| cost(&[file])).collect();
    for at in 1..examples.len() {
        let (sum, together) = (apart[0] + apart[at], cost(&[&examples[0], &examples[at]]));
        assert!(
            together <= sum + 1e-9,
            "{}: {together} $/h instead of {sum}",
            examples[at]
        );
    }
    let (sum, together) = (
        apart.iter().sum::<f64>(),
        cost(&examples.each_ref().map(String::as_str)),
    );
    assert!(together <= sum + 1e-9, "all: {together} $/h instead of {sum}");
}

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web, resources: {requests: {cpu: 100m}}}]}
";

#[test]
fn pods_without_constraints_are_spread_as_kube_scheduler_is_configured_to_do() {
    let manifests = format!("{POOL}{DEPLOYMENT}");
    let zones = |extra: &[&str]| {
        let document = report(&simulate(&manifests, extra));
        let nodes = document["nodes"].as_array().expect("a list").clone();
        let zones: BTreeSet<String> = nodes.iter().map(|node| node["zone"].to_string()).collect();
        zones.len()
    };
    assert_eq!(zones(&[]), 1);
    let constraint = "maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable";
    let config = |when: &str| {
        format!("--scheduler-config={{podTopologySpread: {{defaultConstraints: [{{{constraint}: {when}}}]}}}}")
    };
    assert_eq!(zones(&[&config("DoNotSchedule")]), 4);
    let refused = simulate(&manifests, &[&config("Never")]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains("defaultConstraints[0].whenUnsatisfiable \"Never\" must be DoNotSchedule or ScheduleAnyway"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_same_input_gives_the_same_bytes_at_any_thread_count() {
    let run = |threads: &str| {
        kerf(&[
            "simulate",
            "-f",
            "examples",
            "-o",
            "json",
            "--threads",
            threads,
            NOW[0],
            NOW[1],
        ])
        .stdout
    };
    let one = run("1");
    assert!(!one.is_empty());
    assert_eq!(one, run("4"));
    assert_eq!(one, run("1"));
}

#[test]
fn totals_add_up() {
    let outcome = simulate(
        &format!("{POOL}{}{}", pod_yaml("a", "1", ""), pod_yaml("b", "100000", "")),
        &[],
    );
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    let report = report(&outcome);
    let totals = &report["totals"];
    assert_eq!(
        (&totals["pods"], &totals["scheduled"], &totals["unschedulable"]),
        (&2.into(), &1.into(), &1.into())
    );
    assert_eq!(report["nodes"][0]["name"], "default-1");
    assert_eq!(report["nodes"][0]["pods"], serde_json::json!(["default/a"]));
    assert_eq!(report["nodes"][0]["pricePerHour"], totals["pricePerHour"]);
    let left = &report["unschedulable"][0];
    assert_eq!(left["pod"], "default/b");
    assert_eq!(left["reasons"][0]["nodePool"], "default");
    assert!(
        left["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("no instance type has enough resources")),
        "{left}"
    );
}

// SCH-161
#[test]
fn daemons_with_resource_claims_count_for_nothing() {
    let daemon = |claims: &str| {
        format!(
            "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: driver}}\nspec:\n  selector: {{matchLabels: {{app: driver}}}}\n  template:\n    metadata: {{labels: {{app: driver}}}}\n    spec:\n      {claims}\n      containers:\n        - {{name: c, image: i, resources: {{requests: {{cpu: 700m}}}}}}\n---\n"
        )
    };
    for (claims, requested) in [
        ("", "1700m"),
        ("resourceClaims: [{name: gpu, resourceClaimName: gpu}]", "1"),
    ] {
        let outcome = simulate(&format!("{POOL}{}{}", daemon(claims), pod_yaml("a", "1", "")), &[]);
        assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
        assert_eq!(report(&outcome)["nodes"][0]["requests"]["cpu"], requested, "{claims}");
    }
}

#[test]
fn lists_and_json_are_read_as_well() {
    let list = format!(
        "{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{}]}}",
        [r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#].join(",")
    );
    let outcome = kerf_with_input(&["simulate", "-f", "-", "-o", "json", NOW[0], NOW[1]], list.as_bytes());
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    let report = report(&outcome);
    assert_eq!(report["totals"]["unschedulable"], 1);
    assert_eq!(
        report["unschedulable"][0]["message"],
        "nodepool requirements filtered out all available instance types"
    );
}

/// Bad input and what its message must name.
#[test]
fn bad_input_is_named_with_document_object_field_and_remedy() {
    let good = pod_yaml("good", "1", "");
    let table: &[(&str, String, &[&str])] = &[
        ("malformed YAML", "a: [1\n---\n".to_owned(), &["document 1", "not valid YAML", "line"]),
        ("unknown kind", "apiVersion: v1\nkind: Podd\nmetadata: {name: x}\n---\n".to_owned(), &["document 1", "unknown kind Podd", "did you mean Pod?"]),
        ("wrong version", "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: x}\n---\n".to_owned(), &["NodePool x", "apiVersion", "karpenter.sh/v1"]),
        ("no kind", "apiVersion: v1\nmetadata: {name: x}\n---\n".to_owned(), &["document 1", "kind"]),
        ("no name", "apiVersion: v1\nkind: Pod\nspec: {}\n---\n".to_owned(), &["document 1", "metadata.name"]),
        ("impossible quantity", pod_yaml("bad", "1x", ""), &["Pod default/bad", "document 1", "1x"]),
        ("negative number", pod_yaml("bad", "-1", ""), &["Pod default/bad", "requests", "greater than or equal to 0"]),
        ("negative replicas", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  replicas: -3\n  selector: {matchLabels: {a: b}}\n  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}\n---\n".to_owned(), &["Deployment default/d", "spec.replicas"]),
        ("duplicate", format!("{}{}", pod_yaml("twin", "1", ""), pod_yaml("twin", "1", "")), &["document 2", "Pod default/twin", "appears twice", "document 1"]),
        ("pool without class", POOL.replace("name: default}\n---\napiVersion: karpenter.sh/v1\n", "name: other}\n---\napiVersion: karpenter.sh/v1\n"), &["NodePool default", "nodeClassRef", "not in the input"]),
        ("claim without class", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [ReadWriteOnce], storageClassName: nope, resources: {requests: {storage: 1Gi}}}\n---\n".to_owned(), &["PersistentVolumeClaim default/data", "spec.storageClassName", "nope"]),
        ("huge annotation", format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: fat\n  annotations: {{a: \"{}\"}}\nspec: {{containers: [{{name: c, image: i}}]}}\n---\n", "x".repeat(10 << 20)), &["Pod default/fat", "annotations"]),
    ];
    for (what, bad, names) in table {
        let outcome = simulate(&format!("{bad}{POOL_ELSE}{good}"), &[]);
        assert_eq!(
            outcome.code,
            2,
            "{what}: {}",
            outcome.stderr.chars().take(2000).collect::<String>()
        );
        for name in *names {
            assert!(
                outcome.stderr.contains(name),
                "{what} does not name {name}: {}",
                outcome.stderr.chars().take(2000).collect::<String>()
            );
        }
        let report = report(&outcome);
        let all = report["unschedulable"].to_string() + &report["nodes"].to_string();
        assert!(all.contains("default/good"), "{what}: the good pod was lost: {report}");
    }
}

/// A second pool, so that the good pod has a place whatever happened to the first.
const POOL_ELSE: &str = "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: spare}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: spare}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: spare}
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
---
";

#[test]
fn empty_missing_and_binary_files_are_refused() {
    let empty = kerf_with_input(&["simulate", "-f", "-"], b"");
    assert_eq!(empty.code, 2);
    assert!(
        empty.stderr.contains("<stdin>") && empty.stderr.contains("empty"),
        "{}",
        empty.stderr
    );
    let missing = kerf(&["simulate", "-f", "no/such/file.yaml"]);
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("no/such/file.yaml"), "{}", missing.stderr);
    let binary = kerf_with_input(&["simulate", "-f", "-"], b"\xff\xfe\x00");
    assert_eq!(binary.code, 2);
    assert!(binary.stderr.contains("UTF-8"), "{}", binary.stderr);
}

#[test]
fn instance_type_files_with_bad_prices_are_refused() {
    let file = std::env::temp_dir().join(format!("kerf-types-{}.json", std::process::id()));
    let types = |price: &str| {
        format!(
            r#"[{{"name":"a","architecture":"amd64","operatingSystems":["linux"],"resources":{{"cpu":"4","memory":"8Gi","pods":"10"}},"offerings":[{{{price}"Available":true,"Requirements":[{{"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]}},{{"key":"topology.kubernetes.io/zone","operator":"In","values":["z"]}}]}}]}}]"#
        )
    };
    let path = file.display().to_string();
    for (price, ok) in [
        ("\"Price\":0.1,", true),
        ("", false),
        ("\"Price\":-1,", false),
        ("\"Price\":1e12,", false),
    ] {
        fs::write(&file, types(price)).expect("a temporary file");
        let outcome = simulate(
            &format!("{POOL}{}", pod_yaml("a", "1", "")),
            &["--instance-types", &path],
        );
        if ok {
            assert_eq!(outcome.code, 0, "{price}: {}", outcome.stderr);
        } else {
            assert_eq!(outcome.code, 2, "{price}: {}", outcome.stderr);
            assert!(
                outcome.stderr.contains(&path) && outcome.stderr.contains("Price"),
                "{price}: {}",
                outcome.stderr
            );
        }
    }
    let _ = fs::remove_file(file);
}

#[test]
fn bad_usage_is_exit_code_two() {
    for args in [
        vec!["simulate"],
        vec!["simulate", "-f", "-", "--preference-policy", "respect"],
        vec!["simulate", "-f", "-", "--now", "yesterday"],
        vec!["simulate", "-f", "-", "--feature-gates", "NodeOverlay"],
        vec!["nonsense"],
        vec!["controller", "--cloud-provider", "mars"],
        vec!["controller", "--metrics-port", "many"],
    ] {
        assert_eq!(kerf_with_input(&args, b"").code, 2, "{args:?}");
    }
}

#[test]
fn tables_name_nodes_and_reasons() {
    let outcome = kerf_with_input(
        &["simulate", "-f", "-", "--verify", NOW[0], NOW[1]],
        format!("{POOL}{}{}", pod_yaml("a", "1", ""), pod_yaml("b", "100000", "")).as_bytes(),
    );
    for part in [
        "NODE",
        "default-1",
        "Not scheduled:",
        "default/b",
        "2 pods: 1 scheduled, 1 not, 0 ignored",
        "verified:",
    ] {
        assert!(outcome.stdout.contains(part), "{part} is missing: {}", outcome.stdout);
    }
}

/// Other groups have kinds of the same name; a kind in an old version is a mistake.
#[test]
fn kinds_of_other_groups_are_skipped_and_old_versions_are_not() {
    let object = |api_version: &str, kind: &str| {
        format!("apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: x, namespace: shop}}\n---\n")
    };
    let namesakes = object("serving.knative.dev/v1", "Service")
        + &object("autoscaling/v1", "HorizontalPodAutoscaler")
        + &object("batch.volcano.sh/v1alpha1", "Job");
    let outcome = simulate(&format!("{POOL}{}{namesakes}", pod_yaml("a", "1", "")), &[]);
    assert_eq!(
        (outcome.code, outcome.stderr.as_str()),
        (
            0,
            "note: <stdin>: document 6: Job shop/x: skipped, Kerf does not know the Job of batch.volcano.sh/v1alpha1\n"
        )
    );
    let old = object("extensions/v1beta1", "Deployment") + &object("karpenter.sh/v1beta1", "NodePool");
    let outcome = simulate(&format!("{POOL}{}{old}", pod_yaml("a", "1", "")), &[]);
    assert_eq!(outcome.code, 2);
    for part in [
        "Deployment shop/x: apiVersion: extensions/v1beta1 is not a version of Deployment Kerf reads; write apiVersion: apps/v1\n",
        "NodePool x: apiVersion: karpenter.sh/v1beta1 is not a version of NodePool Kerf reads; write apiVersion: karpenter.sh/v1\n",
    ] {
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
}

#[test]
fn timing_is_printed_for_both_questions() {
    for (question, parts) in [("--verify", "plan, check"), ("--consolidate", "plan")] {
        let outcome = kerf_with_input(&["simulate", "-f", "-", question, "--timing"], POOL.as_bytes());
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        assert!(outcome.stderr.starts_with("read "), "{}", outcome.stderr);
        for part in parts.split(", ") {
            assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
        }
    }
}
