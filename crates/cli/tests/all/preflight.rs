//! `kerf preflight`: of files, and of the cluster of `kerf up`.

use crate::kerf::{Outcome, kerf, kerf_with_input};
use crate::live::Up;
use crate::manifest::{self, amd64};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";

fn of_text(objects: &[Value], args: &[&str]) -> Outcome {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    kerf_with_input(
        &[&["preflight", "-f", "-"][..], args].concat(),
        list.to_string().as_bytes(),
    )
}

fn report(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).expect(&outcome.stderr)
}

/// The findings of a check, as results.
fn results(report: &Value, check: &str) -> Vec<String> {
    let findings = report["findings"].as_array().expect("findings");
    let of_check = findings.iter().filter(|finding| finding["check"] == check);
    of_check
        .map(|finding| finding["result"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn message(report: &Value, check: &str) -> String {
    let findings = report["findings"].as_array().expect("findings");
    let found = findings.iter().find(|finding| finding["check"] == check);
    found
        .map(|finding| finding["message"].as_str().unwrap_or_default().to_owned())
        .unwrap_or_default()
}

fn pool(annotations: &Value) -> Value {
    let mut pool = manifest::pool("default", &amd64(), json!({}));
    pool["metadata"]["annotations"] = annotations.clone();
    pool
}

fn claim(hash: &str) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "default-x", "labels": {"karpenter.sh/nodepool": "default"}, "annotations": marks(hash)},
        "spec": {"nodeClassRef": manifest::class_ref("default"), "requirements": []}})
}

fn marks(hash: &str) -> Value {
    json!({"karpenter.sh/nodepool-hash": hash, "karpenter.sh/nodepool-hash-version": "v3"})
}

#[test]
fn files_without_a_problem_end_with_code_zero() {
    let outcome = of_text(&[pool(&Value::Null)], &["-o", "json"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let report = report(&outcome);
    assert_eq!(report["problems"], 0);
    for check in ["definitions", "options", "permissions"] {
        assert_eq!(results(&report, check), ["skipped"], "{check}");
    }
    let table = of_text(&[pool(&Value::Null)], &[]);
    assert!(table.stdout.starts_with("RESULT"), "{}", table.stdout);
    assert!(table.stdout.contains("Kerf can take over"), "{}", table.stdout);
    let yaml = of_text(&[pool(&Value::Null)], &["-o", "yaml"]);
    assert!(yaml.stdout.contains("problems: 0"), "{}", yaml.stdout);
}

#[test]
fn problems_in_files_end_with_code_one() {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "karpenter-leader-election", "namespace": "karpenter"},
        "spec": {"holderIdentity": "karpenter-0_x", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}});
    let crds: Vec<Value> = kerf_api::crds(kerf_api::Provider::Kwok)
        .into_iter()
        .map(|crd| crd.value)
        .collect();
    let mut objects = vec![pool(&marks("1")), claim("1"), lease];
    objects.extend(
        crds.into_iter()
            .filter(|crd| crd["metadata"]["name"] != "nodeclaims.karpenter.sh"),
    );
    let outcome = of_text(&objects, &["-o", "json", "--now", "2026-01-01T00:00:05Z", "-n", "kerf"]);
    assert_eq!(outcome.code, 1, "{}{}", outcome.stdout, outcome.stderr);
    let report = report(&outcome);
    assert_eq!(report["problems"], 3, "{report:#}");
    for check in ["definitions", "drift", "lease"] {
        assert_eq!(results(&report, check), ["problem"], "{check}");
    }
    assert!(
        message(&report, "drift").contains("1 NodeClaims would drift"),
        "{report:#}"
    );
}

#[test]
fn unreadable_files_end_with_code_two() {
    assert_eq!(kerf(&["preflight", "-f", "no/such/file.yaml"]).code, 2);
    let mut broken = pool(&Value::Null);
    broken["spec"]["template"]["spec"]["nodeClassRef"] = json!(7);
    let outcome = of_text(&[broken], &[]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("NodePool default"), "{}", outcome.stderr);
    assert_eq!(kerf(&["preflight", "-f", "-", "--now", "soon"]).code, 2);
}

#[test]
fn no_cluster_is_code_four() {
    assert_eq!(kerf(&["preflight", "--kubeconfig", "no/such/kubeconfig"]).code, 4);
}

/// The path that creates an object.
fn path(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let version = text("/apiVersion");
    let api = if version.contains('/') { "apis" } else { "api" };
    let kind = text("/kind").to_lowercase();
    let plural = if let Some(stem) = kind.strip_suffix("policy") {
        format!("{stem}policies")
    } else {
        format!("{kind}s")
    };
    match text("/metadata/namespace") {
        "" => format!("/{api}/{version}/{plural}"),
        namespace => format!("/{api}/{version}/namespaces/{namespace}/{plural}"),
    }
}

#[test]
fn a_cluster_is_checked_and_takes_the_manifests() {
    let up = Up::start("preflight");
    let kubeconfig = up.kubeconfig.display().to_string();
    let check = || kerf(&["preflight", "--kubeconfig", &kubeconfig, "-o", "json"]);
    let outcome = check();
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let before = report(&outcome);
    for name in ["server", "definitions", "drift", "lease", "permissions"] {
        assert_eq!(results(&before, name), ["ok"], "{name}: {before:#}");
    }
    assert!(
        message(&before, "permissions").starts_with("your user has all "),
        "{before:#}"
    );
    // The objects of an installation, each created where it belongs.
    let printed = kerf(&["manifests", "--set", "networkPolicy.enabled=true"]);
    let documents = printed
        .stdout
        .split("---\n")
        .filter(|document| !document.trim().is_empty());
    let objects: Vec<(String, Value)> = documents
        .map(|document| serde_saphyr::from_str::<Value>(document).expect("YAML"))
        .map(|object| (path(&object), object))
        .collect();
    let objects: Vec<(&str, Value)> = objects
        .iter()
        .map(|(path, object)| (path.as_str(), object.clone()))
        .collect();
    up.create(&objects);
    up.create(&[
        (POOLS, pool(&marks("1"))),
        ("/apis/karpenter.sh/v1/nodeclaims", claim("1")),
    ]);
    let outcome = check();
    assert_eq!(outcome.code, 1, "{}{}", outcome.stdout, outcome.stderr);
    let after = report(&outcome);
    assert_eq!(results(&after, "drift"), ["problem"]);
    assert_eq!(results(&after, "options"), ["ok"], "{after:#}");
    assert!(
        message(&after, "permissions").starts_with("service account kube-system/kerf has all "),
        "{after:#}"
    );
}

#[test]
#[ignore = "needs helm: KERF_HELM names it"]
fn helm_installs_the_charts_in_a_cluster() {
    let helm = std::env::var("KERF_HELM").unwrap_or_else(|_| "helm".to_owned());
    let up = Up::start("helm");
    let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts");
    for (release, chart, sets) in [
        ("karpenter", "kerf", "nameOverride=karpenter"),
        ("karpenter", "kerf", "replicas=1,nameOverride=karpenter"),
    ] {
        let output = Command::new(&helm)
            .args(["upgrade", "--install", release])
            .arg(charts.join(chart))
            .args(["--namespace", "kube-system", "--set", sets, "--kubeconfig"])
            .arg(&up.kubeconfig)
            .output()
            .unwrap_or_else(|error| panic!("{helm}: {error}"));
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{chart}: {problem}");
    }
    let kubeconfig = up.kubeconfig.display().to_string();
    let outcome = kerf(&["preflight", "--kubeconfig", &kubeconfig, "-o", "json"]);
    let report = report(&outcome);
    assert_eq!(results(&report, "options"), ["ok"], "{report:#}");
}
