//! `kerf explain` against an API server: the one of `kerf up`, on a port and with a kubeconfig as any other.

mod support;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Request;
use kube::core::params::PostParams;
use kube::{Client, Config};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::{Outcome, kerf, kerf_with_input};

/// A cluster in a process of its own, without a controller.
struct Up {
    child: Child,
    kubeconfig: PathBuf,
}

impl Up {
    fn start(name: &str) -> Self {
        let kubeconfig =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.kubeconfig", std::process::id()));
        let mut child = Command::new(env!("CARGO_BIN_EXE_kerf"))
            .args(["up", "--no-controller", "--write-kubeconfig"])
            .arg(&kubeconfig)
            .stdout(Stdio::piped())
            .spawn()
            .expect("kerf up starts");
        // It says so once it is up.
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        assert!(line.starts_with("The cluster is up"), "{line}");
        Self { child, kubeconfig }
    }

    fn create(&self, objects: &[(&str, Value)]) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).expect("a kubeconfig");
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .expect("a configuration");
            let client = Client::try_from(config).expect("a client");
            for (path, object) in objects {
                let body = object.to_string().into_bytes();
                let request = Request::new(*path)
                    .create(&PostParams::default(), body)
                    .expect("a request");
                let _: Value = client.request(request).await.expect("it is created");
            }
        });
    }

    fn explain(&self, args: &[&str]) -> Outcome {
        let kubeconfig = self.kubeconfig.display().to_string();
        let args: Vec<&str> = ["explain", "--kubeconfig", &kubeconfig]
            .iter()
            .chain(args)
            .copied()
            .collect();
        kerf_with_input(&args, b"")
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

fn pod(name: &str, cpu: &str) -> (&'static str, Value) {
    let containers = json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]);
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}});
    ("/api/v1/namespaces/default/pods", pod)
}

#[test]
fn a_cluster_is_asked_as_files_are() {
    let up = Up::start("explain");
    let class =
        json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}});
    let template = json!({"spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}});
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {"template": template}});
    up.create(&[
        ("/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", class),
        ("/apis/karpenter.sh/v1/nodepools", pool),
        pod("web-0", "1"),
        pod("huge", "9000"),
    ]);
    let told = |name: &str, code: i32| -> Value {
        let outcome = up.explain(&[name, "-o", "json"]);
        assert_eq!(outcome.code, code, "{name}: {}\n{}", outcome.stdout, outcome.stderr);
        serde_json::from_str(&outcome.stdout).expect("a document")
    };
    let placed = told("pod/web-0", 0);
    assert_eq!(placed["verdict"], "NewNode");
    // No machine tells which instance types the controller knows: EC2's are assumed.
    assert!(
        placed["instanceTypes"]
            .as_array()
            .is_some_and(|types| types.iter().any(|kind| kind["name"] == "m5.large"))
    );
    let huge = told("pod/huge", 1);
    assert_eq!(huge["verdict"], "Unschedulable");
    assert_eq!(huge["refusals"][0]["nodePool"], "default");

    let missing = up.explain(&["pod/web-1"]);
    assert_eq!(
        (
            missing.code,
            missing.stderr.contains("there is no pod web-1 in namespace default")
        ),
        (3, true),
        "{}",
        missing.stderr
    );
    assert_eq!(up.explain(&["pod/web-0", "-n", "kube-system"]).code, 3);
    assert_eq!(up.explain(&["node/none"]).code, 3);
    let context = up.explain(&["pod/web-0", "--context", "elsewhere"]);
    assert_eq!(
        (context.code, context.stderr.contains("elsewhere")),
        (4, true),
        "{}",
        context.stderr
    );
    // Files and a cluster are two different questions.
    assert_eq!(
        kerf(&["explain", "pod/web-0", "-f", "x.yaml", "--context", "c"]).code,
        2
    );
}
