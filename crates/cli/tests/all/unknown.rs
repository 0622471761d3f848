//! Fields and kinds that Kerf does not know.

use crate::kerf::{Outcome, kerf_with_input};
use crate::manifest::{NOW, amd64, class, list, pool, with};
use kerf_testkit::objects::pod;
use serde_json::{Value, json};

fn simulate(bad: &[Value], extra: &[&str]) -> Outcome {
    let mut items = vec![class("default"), pool("default", &amd64(), json!({})), pod("good", "1")];
    items.extend_from_slice(bad);
    let args = ["simulate", "-f", "-", "-o", "json", NOW[0], NOW[1]];
    let args: Vec<&str> = args.into_iter().chain(extra.iter().copied()).collect();
    kerf_with_input(&args, list(&items).as_bytes())
}

fn pods(outcome: &Outcome) -> u64 {
    let report: Value = serde_json::from_str(&outcome.stdout).expect("a report");
    report["totals"]["pods"].as_u64().expect("a number")
}

fn misspelt_pod() -> Value {
    with(
        pod("bad", "1"),
        "spec/containers",
        json!([{"name": "c", "image": "i", "resource": {"requests": {"cpu": "1"}}}]),
    )
}

#[test]
fn unknown_fields_are_refused_with_the_nearest_one() {
    let template = json!({"spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [], "expireAfterr": "1h"}});
    let cases = [
        (
            misspelt_pod(),
            "Pod default/bad: spec.containers[0].resource: unknown field; did you mean \"resources\"?",
        ),
        (
            with(pool("bad", &amd64(), json!({})), "spec/template", template),
            "NodePool bad: spec.template.spec.expireAfterr: unknown field; did you mean \"expireAfter\"?",
        ),
        (
            with(pod("bad", "1"), "metadata/owner", json!("me")),
            "Pod default/bad: metadata.owner: unknown field; remove it",
        ),
    ];
    for (bad, error) in cases {
        let outcome = simulate(std::slice::from_ref(&bad), &[]);
        assert_eq!(outcome.code, 2, "{error}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(error), "{error}: {}", outcome.stderr);
        assert_eq!(pods(&outcome), 1, "only the good pod is planned");
        let outcome = simulate(&[bad], &["--validate=false"]);
        assert_eq!(outcome.code, 0, "{error}: {}", outcome.stderr);
    }
}

#[test]
fn what_an_api_server_stored_may_have_newer_fields() {
    let stored = with(misspelt_pod(), "metadata/resourceVersion", json!("7"));
    let outcome = simulate(&[stored], &[]);
    assert_eq!((outcome.code, pods(&outcome)), (0, 2), "{}", outcome.stderr);
}

#[test]
fn unknown_kinds_are_notes_unless_they_are_misspelt() {
    let monitor = json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": {"name": "m"}, "spec": {}});
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod("x", "1")["spec"]});
    let rollout = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "r", "namespace": "shop"},
        "spec": {"replicas": 3, "template": template}});
    let outcome = simulate(&[monitor, rollout], &[]);
    assert_eq!((outcome.code, pods(&outcome)), (0, 1), "{}", outcome.stderr);
    for note in [
        "note: <stdin>: document 1: ServiceMonitor m: skipped, Kerf does not know the ServiceMonitor of monitoring.coreos.com/v1\n",
        "Rollout shop/r: skipped, Kerf does not know the Rollout of argoproj.io/v1alpha1; its pods are not planned: to plan them, add a Deployment",
    ] {
        assert!(outcome.stderr.contains(note), "{note}: {}", outcome.stderr);
    }
    let misspelt = json!({"apiVersion": "apps/v1", "kind": "Deploymnet", "metadata": {"name": "d"}, "spec": {}});
    let outcome = simulate(&[misspelt], &[]);
    assert_eq!(outcome.code, 2);
    let error = "unknown kind Deploymnet (apps/v1); did you mean Deployment?";
    assert!(outcome.stderr.contains(error), "{}", outcome.stderr);
}
