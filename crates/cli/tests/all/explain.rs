//! `kerf explain` as a user meets it.

use crate::kerf::{Outcome, kerf, kerf_with_input};
use crate::manifest::{NOW, pod_yaml};
use serde_json::Value;

fn explain(subject: &str, manifests: &str, extra: &[&str]) -> Outcome {
    let args: Vec<&str> = ["explain", subject, "-f", "-"]
        .into_iter()
        .chain(NOW)
        .chain(extra.iter().copied())
        .collect();
    kerf_with_input(&args, manifests.as_bytes())
}

fn document(subject: &str, manifests: &str) -> (i32, Value) {
    let outcome = explain(subject, manifests, &["-o", "json"]);
    let text = format!("{}\n{}", outcome.stdout, outcome.stderr);
    let document: Value = serde_json::from_str(&outcome.stdout).expect(&text);
    assert_eq!(document["apiVersion"], "kerf.sh/v1alpha1");
    assert_eq!(document["kind"], "PodExplanation");
    (outcome.code, document)
}

fn pool(name: &str, template: &str, spec: &str) -> String {
    format!(
        "apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {{name: {name}}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}}}
spec:
  {spec}
  template:
    spec:
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: {name}}}
      requirements:
        - {{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.xlarge, m5.2xlarge]}}
      {template}
---
"
    )
}

const NODE: &str = "apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/zone: us-east-1a, node.kubernetes.io/instance-type: m5.large}}
status:
  allocatable: {cpu: \"2\", memory: 4Gi, pods: \"20\"}
  capacity: {cpu: \"2\", memory: 4Gi, pods: \"20\"}
---
";

/// Two pools, a node, and a pod that runs there.
fn world() -> String {
    let tainted = "taints: [{key: team, value: red, effect: NoSchedule}]";
    let busy = "apiVersion: v1
kind: Pod
metadata: {name: busy}
spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: 1500m}}}]}
status: {phase: Running}
---
";
    format!("{}{}{NODE}{busy}", pool("default", "", ""), pool("red", tainted, ""))
}

#[test]
fn a_pod_without_a_place_hears_it_from_every_pool_and_node() {
    let (code, document) = document("pod/big", &(world() + &pod_yaml("big", "9", "")));
    assert_eq!(code, 1);
    assert_eq!(document["verdict"], "Unschedulable");
    assert_eq!(document["considered"], serde_json::json!({"nodes": 1, "nodePools": 2}));
    let refusals = document["refusals"].as_array().expect("refusals");
    let told: Vec<(&Value, &Value, &Value)> = refusals
        .iter()
        .map(|one| (&one["node"], &one["nodePool"], &one["code"]))
        .collect();
    let null = &Value::Null;
    assert_eq!(
        told,
        [
            (&"n1".into(), null, &"NodeResources".into()),
            (null, &"red".into(), &"Taint".into()),
            (null, &"default".into(), &"InstanceTypes".into()),
        ]
    );
    assert_eq!(refusals[0]["nearestMiss"], "needs 9 cpu; 0.5 is free");
    let miss = refusals[2]["nearestMiss"].as_str().expect("a miss");
    assert!(
        miss.starts_with("needs 9 cpu; the largest type that meets its requirements leaves 7."),
        "{miss}"
    );
    // The message is the text of its event.
    let message = document["message"].as_str().expect("a message");
    assert!(
        message
            .starts_with("did not tolerate taint (taint=team=red:NoSchedule); no instance type has enough resources, ")
    );
}

#[test]
fn the_text_says_it_to_people() {
    let outcome = explain("pod/big", &(world() + &pod_yaml("big", "9", "")), &[]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (1, ""));
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "Pod default/big has no place: no node and no NodePool takes it.",
            "",
            "Why no NodePool:",
            "  red: Taint",
            "    did not tolerate taint (taint=team=red:NoSchedule)",
        ]
    );
    assert_eq!(
        lines[8..],
        [
            "",
            "Why no node:",
            "  n1: NodeResources",
            "    needs 9 cpu; 0.5 is free",
            "    exceeds node resources"
        ]
    );
}

#[test]
fn machines_that_say_the_same_stand_together() {
    let nodes: String = (1..8)
        .map(|n| NODE.replace("name: n1", &format!("name: node-{n}")))
        .collect();
    let outcome = explain("pod/big", &format!("{nodes}{}", pod_yaml("big", "9", "")), &[]);
    assert!(
        outcome
            .stdout
            .contains("  node-1, node-2, node-3, node-4, node-5 and 2 more: NodeResources\n"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_pod_that_gets_a_new_node_hears_which_and_for_how_much() {
    let (code, document) = document(
        "pod/mid",
        &(world()
            + &pod_yaml("mid", "1", "")
            + &pod_yaml("other", "500m", "nodeSelector: {karpenter.sh/nodepool: default}")),
    );
    assert_eq!((code, &document["verdict"]), (0, &"NewNode".into()));
    assert_eq!(document["message"], "would get a new node of NodePool default");
    let types = document["instanceTypes"].as_array().expect("types");
    let names: Vec<&str> = types.iter().filter_map(|kind| kind["name"].as_str()).collect();
    assert_eq!(names, ["m5.large", "m5.xlarge", "m5.2xlarge"]);
    let price = |value: &Value| value.as_f64().expect("a price");
    let prices: Vec<f64> = types.iter().map(|kind| price(&kind["pricePerHour"])).collect();
    assert!(prices.is_sorted(), "{prices:?}");
    assert!((price(&document["node"]["pricePerHour"]) - prices[0]).abs() < 1e-12);
    assert_eq!(
        document["node"]["pods"],
        serde_json::json!(["default/mid", "default/other"])
    );
    // Its own pool does not refuse it.
    let refusals = document["refusals"].as_array().expect("refusals");
    let pools: Vec<&Value> = refusals
        .iter()
        .map(|one| &one["nodePool"])
        .filter(|pool| !pool.is_null())
        .collect();
    assert_eq!(pools, ["red"]);

    let text = explain("pod/mid", &(world() + &pod_yaml("mid", "1", "")), &[]).stdout;
    assert!(
        text.starts_with(
            "Pod default/mid would get a new node of NodePool default.\n\n  cheapest        m5.large, us-east-1"
        ),
        "{text}"
    );
    assert!(text.contains("\nWhy no other NodePool:\n  red: Taint\n"), "{text}");
}

#[test]
fn a_pod_that_fits_on_a_node_hears_which() {
    let (code, document) = document("pod/small", &(world() + &pod_yaml("small", "100m", "")));
    assert_eq!((code, &document["verdict"]), (0, &"ExistingNode".into()));
    assert_eq!(document["message"], "would be placed on node n1, which has room for it");
    assert_eq!(document["node"]["name"], "n1");
    assert_eq!(document["node"]["requests"]["cpu"], "1600m");
}

/// Pods the question does not arise for.
#[test]
fn pods_that_need_no_place_are_told_so() {
    let owned = |kind: &str, version: &str| {
        pod_yaml("p", "1", "").replace(
            "metadata: {name: p}",
            &format!(
                "metadata: {{name: p, ownerReferences: [{{apiVersion: {version}, kind: {kind}, name: o, uid: u}}]}}"
            ),
        )
    };
    let ended = pod_yaml("p", "1", "").replace("---", "status: {phase: Succeeded}\n---");
    let cases = [
        (
            world().replace("name: busy", "name: p"),
            0,
            "Bound",
            "is bound to node n1",
        ),
        (world() + &ended, 0, "Finished", "has ended: its phase is Succeeded"),
        (
            world() + &pod_yaml("p", "1", "schedulingGates: [{name: later}]"),
            1,
            "Gated",
            "scheduling gates",
        ),
        (
            world() + &owned("DaemonSet", "apps/v1"),
            1,
            "NotConsidered",
            "belongs to a DaemonSet",
        ),
        (world() + &owned("Node", "v1"), 1, "NotConsidered", "is a static pod"),
        (
            world()
                + &pod_yaml(
                    "p",
                    "1",
                    "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}}}",
                ),
            1,
            "Ignored",
            "cannot be considered: node selector term with matchFields is not supported",
        ),
    ];
    for (manifests, expected, verdict, message) in cases {
        let (code, document) = document("pod/p", &manifests);
        assert_eq!((code, &document["verdict"]), (expected, &verdict.into()), "{document}");
        let said = document["message"].as_str().unwrap_or_default();
        assert!(said.contains(message), "{said}");
    }
}

#[test]
fn a_cluster_without_pools_and_nodes_has_nothing_to_choose_from() {
    let outcome = explain("pod/p", &pod_yaml("p", "1", ""), &[]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome
            .stdout
            .ends_with("\nThere is nothing to choose from: 0 NodePools and 0 nodes.\n"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn exit_codes_tell_missing_objects_from_bad_questions() {
    let manifests = world() + &pod_yaml("p", "1", "");
    let elsewhere = explain("pod/p", &manifests, &["-n", "shop"]);
    assert_eq!(elsewhere.code, 3);
    assert_eq!(
        elsewhere.stderr,
        "error: there is no Pod p in namespace shop of the input; -n names another namespace\n"
    );
    for subject in ["pod/p", "po/p", "pods/p", "pod/default/p"] {
        assert_eq!(explain(subject, &manifests, &[]).code, 0, "{subject}");
    }
    for (subject, part) in [
        ("deployment/web", "cannot explain \"deployment/web\": say pod/NAME"),
        ("p", "cannot explain \"p\""),
        ("pod/", "the name of the pod is missing"),
    ] {
        let outcome = explain(subject, &manifests, &[]);
        assert_eq!(outcome.code, 2, "{subject}");
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
    let bad = explain("pod/p", &pod_yaml("p", "1x", ""), &[]);
    assert_eq!(bad.code, 2, "{}", bad.stdout);
    assert!(
        bad.stderr.contains("Pod default/p") && bad.stderr.contains("nothing to explain until it is corrected"),
        "{}",
        bad.stderr
    );
    let nowhere = kerf(&["explain", "pod/p", "--kubeconfig", "/nowhere/config"]);
    assert_eq!(nowhere.code, 4);
    assert!(nowhere.stderr.contains("/nowhere/config"), "{}", nowhere.stderr);
}

/// Errors about other objects are printed, and do not prevent the answer.
#[test]
fn other_objects_faults_do_not_keep_the_answer_back() {
    let manifests = world() + &pod_yaml("bad", "1x", "") + &pod_yaml("small", "100m", "");
    let outcome = explain("pod/small", &manifests, &[]);
    assert_eq!(outcome.code, 0);
    assert!(outcome.stderr.contains("Pod default/bad"), "{}", outcome.stderr);
}

#[test]
fn every_code_is_documented() {
    let (_, body) = include_str!("../../../model/src/plan.rs")
        .split_once("fn code(&self)")
        .expect("the function");
    let (body, _) = body.split_once("\n    }\n").expect("its end");
    let mut codes: Vec<&str> = body.split('"').skip(1).step_by(2).collect();
    assert!(codes.len() > 15 && codes.contains(&"NoTemplates"), "{codes:?}");
    codes.sort_unstable();
    let manual = include_str!("../../../../docs/explanations.md");
    let (_, table) = manual.split_once("| code | who |").expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let mut documented: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    documented.sort_unstable();
    assert_eq!(documented, codes);
}
