//! `kerf controller` as a process: what keeps it from starting, and how it ends.

use crate::kerf::kerf;
use crate::live::Up;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Replaces a definition by one of an older Karpenter, which lacks a field of `spec`.
fn make_older(up: &Up, name: &str, field: &str) {
    let crds = kerf_api::crds(kerf_api::Provider::Kwok).into_iter();
    let mut older: Value = crds
        .map(|crd| crd.value)
        .find(|crd| crd["metadata"]["name"] == name)
        .expect("a definition");
    let spec = &mut older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let fields = spec["properties"].as_object_mut().expect("fields");
    fields.remove(field).expect("a field");
    // Rules that name it would not compile.
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("x-kubernetes-validations");
    }
    if let Some(columns) = older["spec"]["versions"][0].as_object_mut() {
        columns.remove("additionalPrinterColumns");
        if let Some(subresources) = columns.get_mut("subresources").and_then(Value::as_object_mut) {
            subresources.remove("scale");
        }
    }
    up.delete(&format!("{DEFINITIONS}/{name}"));
    up.create(&[(DEFINITIONS, older)]);
}

#[test]
fn old_definitions_are_refused_with_the_command_that_installs_newer_ones() {
    let up = Up::start("old-definitions");
    let kubeconfig = up.kubeconfig.display().to_string();
    let flags = [
        "--disable-leader-election",
        "--metrics-port",
        "0",
        "--health-probe-port",
        "0",
        "--feature-gates",
        "NodeOverlay=true",
    ];
    let says = |expected: &str| {
        let outcome = kerf(&[&["controller", "--kubeconfig", &kubeconfig], &flags[..]].concat());
        assert_eq!(outcome.code, 4, "{}\n{}", outcome.stdout, outcome.stderr);
        assert_eq!(outcome.stderr, expected);
    };
    // A kind that a feature gate switches on.
    make_older(&up, "nodeoverlays.karpenter.sh", "weight");
    let overlays = "nodeoverlays.karpenter.sh is older than this version of Kerf: it lacks spec.weight; \
                    `kerf crds | kubectl apply --server-side --force-conflicts -f -` installs it\n";
    says(&format!("error: {overlays}"));
    // NodePools of an older Karpenter have no replicas.
    make_older(&up, "nodepools.karpenter.sh", "replicas");
    let pools = "nodepools.karpenter.sh is older than this version of Kerf: it lacks spec.replicas; \
                 `kerf crds | kubectl apply --server-side --force-conflicts -f -` installs it";
    says(&format!("error: {pools}; {overlays}"));
}

#[test]
fn a_signal_ends_the_controller_with_code_0_within_ten_seconds() {
    let up = Up::start("signal");
    let mut controller = Command::new(env!("CARGO_BIN_EXE_kerf"))
        .args(["controller", "--leader-election-namespace", "kube-system"])
        .args(["--metrics-port", "0", "--health-probe-port", "0", "--kubeconfig"])
        .arg(&up.kubeconfig)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the controller starts");
    let log = BufReader::new(controller.stdout.take().expect("a pipe"));
    // Kept until the end: without a reader the controller could not log.
    let mut lines = log.lines().map_while(Result::ok);
    let leads = lines.by_ref().any(|line| line.contains("became leader"));
    let state = std::fs::read_to_string(format!("/proc/{}/status", controller.id())).unwrap_or_default();
    let signalled = Instant::now();
    let kill = Command::new("kill")
        .args(["-TERM", &controller.id().to_string()])
        .status();
    let end = signalled + Duration::from_secs(30);
    let status = loop {
        match controller.try_wait().expect("it can be waited for") {
            Some(status) => break Some(status),
            None if Instant::now() > end => break None,
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let _ = controller.kill();
    let _ = controller.wait();
    drop(lines);
    // Kernels before 5.0 do not say it.
    let huge_pages = state.lines().find(|line| line.starts_with("THP_enabled:"));
    assert!(huge_pages.is_none_or(|line| line.ends_with('0')), "{huge_pages:?}");
    assert!(leads && kill.is_ok_and(|kill| kill.success()));
    let took = signalled.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(status.and_then(|status| status.code()), Some(0));
    // OPS-051: see docs/deviations.md. KWK-095, KWK-205: a rollout ends with a new holder of the lease.
    let lease = up.list("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases");
    let holders: Vec<&str> = lease
        .iter()
        .filter_map(|lease| lease["spec"]["holderIdentity"].as_str())
        .collect();
    assert_eq!(holders, [""], "the lease is given back");
}
