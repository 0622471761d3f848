//! `kerf explain` against an API server: the one of `kerf up`, on a port and with a kubeconfig as any other.

use crate::kerf::{Outcome, kerf, kerf_with_input};
use crate::manifest::{self, amd64, class_ref};
use kerf_testkit::objects;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Request;
use kube::core::params::{DeleteParams, ListParams, PostParams};
use kube::{Client, Config};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A cluster in a process of its own, without a controller.
pub(crate) struct Up {
    pub(crate) child: Child,
    pub(crate) kubeconfig: PathBuf,
}

impl Up {
    pub(crate) fn start(name: &str) -> Self {
        Self::start_with(name, &["--no-controller"])
    }

    pub(crate) fn start_with(name: &str, args: &[&str]) -> Self {
        let kubeconfig =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.kubeconfig", std::process::id()));
        let mut child = Command::new(env!("CARGO_BIN_EXE_kerf"))
            .arg("up")
            .arg("--write-kubeconfig")
            .arg(&kubeconfig)
            .args(args)
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

    /// Runs `work` with a client of the cluster.
    pub(crate) fn with_client<T>(&self, work: impl AsyncFnOnce(Client) -> T) -> T {
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
            work(Client::try_from(config).expect("a client")).await
        })
    }

    /// The items of a list.
    pub(crate) fn list(&self, path: &str) -> Vec<Value> {
        let listed: Value = self.with_client(async |client| {
            let request = Request::new(path).list(&ListParams::default()).expect("a request");
            client.request(request).await.expect("a list")
        });
        listed["items"].as_array().cloned().unwrap_or_default()
    }

    /// Creates objects, each at its path, and returns them as they are stored.
    pub(crate) fn create(&self, objects: &[(&str, Value)]) -> Vec<Value> {
        self.with_client(async |client| {
            let mut created = Vec::new();
            for (path, object) in objects {
                let body = object.to_string().into_bytes();
                let request = Request::new(*path)
                    .create(&PostParams::default(), body)
                    .expect("a request");
                created.push(client.request(request).await.expect("it is created"));
            }
            created
        })
    }

    /// Deletes the object at a path.
    pub(crate) fn delete(&self, path: &str) {
        let (path, name) = path.rsplit_once('/').expect("a name");
        self.with_client(async |client| {
            let request = Request::new(path)
                .delete(name, &DeleteParams::default())
                .expect("a request");
            let _: Value = client.request(request).await.expect("it is deleted");
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

fn posted_pod(name: &str, cpu: &str) -> (&'static str, Value) {
    ("/api/v1/namespaces/default/pods", objects::pod(name, cpu))
}

fn posted_class() -> (&'static str, Value) {
    (
        "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses",
        manifest::class("default"),
    )
}

fn posted_pool(limits: &Value) -> (&'static str, Value) {
    let pool = manifest::pool("default", &amd64(), json!({"limits": limits}));
    ("/apis/karpenter.sh/v1/nodepools", pool)
}

#[test]
fn pods_of_a_claim_on_its_way_are_known_by_their_events() {
    let up = Up::start("promised");
    let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "default-x", "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {"nodeClassRef": class_ref("default"), "resources": {"requests": {"cpu": "3", "pods": "1"}},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]}]}});
    let created = up.create(&[
        posted_class(),
        posted_pool(&json!({"cpu": "4"})),
        ("/apis/karpenter.sh/v1/nodeclaims", claim),
        posted_pod("served", "3"),
        posted_pod("waiting", "3"),
    ]);
    let told = |name: &str, code: i32| -> (Value, String) {
        let outcome = up.explain(&[name, "-o", "json"]);
        assert_eq!(outcome.code, code, "{name}: {}\n{}", outcome.stdout, outcome.stderr);
        let document = serde_json::from_str(&outcome.stdout).expect("a document");
        (document, outcome.stderr)
    };
    // No event names the pods of the claim.
    let said = up.explain(&["pod/served"]).stderr;
    assert!(
        said.starts_with("note: NodeClaim default-x has no machine yet, "),
        "{said}"
    );
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "served.1"}, "reason": "Nominated", "type": "Normal",
        "message": "Pod should schedule on: nodeclaim/default-x", "source": {"component": "karpenter"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "served", "uid": created[3]["metadata"]["uid"]}});
    up.create(&[("/api/v1/namespaces/default/events", event)]);
    let (served, said) = told("pod/served", 0);
    assert_eq!(served["verdict"], "ExistingNode");
    assert_eq!(
        served["message"],
        "waits for NodeClaim default-x, which was made for it and is not launched yet"
    );
    assert_eq!(served["node"]["pods"], json!(["default/served"]));
    assert!(!said.contains("no machine yet"), "{said}");
    // The claim holds the other's room, and what it may become counts towards the limit.
    let (waiting, _) = told("pod/waiting", 1);
    assert_eq!(waiting["verdict"], "Unschedulable");
    let refusals = waiting["refusals"].as_array().expect("refusals");
    let codes: Vec<&Value> = refusals.iter().map(|refusal| &refusal["code"]).collect();
    assert!(codes.contains(&&json!("Limits")), "{waiting}");
    assert!(codes.contains(&&json!("NodeResources")), "{waiting}");
}

#[test]
fn a_cluster_is_asked_as_files_are() {
    let up = Up::start("explain");
    up.create(&[
        posted_class(),
        posted_pool(&json!({})),
        posted_pod("web-0", "1"),
        posted_pod("huge", "9000"),
    ]);
    let told = |name: &str, code: i32| -> Value {
        let outcome = up.explain(&[name, "-o", "json"]);
        assert_eq!(outcome.code, code, "{name}: {}\n{}", outcome.stdout, outcome.stderr);
        serde_json::from_str(&outcome.stdout).expect("a document")
    };
    let placed = told("pod/web-0", 0);
    assert_eq!(placed["verdict"], "NewNode");
    // No machine shows which instance types the controller knows: EC2's are assumed.
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
            missing
                .stderr
                .contains("there is no Pod web-1 in namespace default of the cluster")
        ),
        (3, true),
        "{}",
        missing.stderr
    );
    assert_eq!(up.explain(&["pod/web-0", "-n", "kube-system"]).code, 3);
    assert_eq!(up.explain(&["node/none"]).code, 3);
    let bare = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}});
    up.create(&[("/api/v1/nodes", bare)]);
    let bare = told("node/bare", 1);
    assert_eq!(
        (&bare["verdict"], &bare["obstacles"][0]["code"]),
        (&json!("Stays"), &json!("Unmanaged"))
    );
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

pub(crate) fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    free.expect("a free port").port()
}

/// Answers `GET path` of a server on this machine; `None` while it does not listen.
pub(crate) fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn a_controller_that_cannot_write_its_lease_says_so_and_is_not_ready() {
    let up = Up::start("lease");
    let port = free_port();
    let mut controller = Command::new(env!("CARGO_BIN_EXE_kerf"))
        .args([
            "controller",
            "--leader-election-namespace",
            "nowhere",
            "--metrics-port",
            "0",
        ])
        .args(["--health-probe-port", &port.to_string(), "--kubeconfig"])
        .arg(&up.kubeconfig)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the controller starts");
    let log = controller.stdout.take().expect("a pipe");
    let said = BufReader::new(log)
        .lines()
        .map_while(Result::ok)
        .find(|line| line.contains("\"ERROR\""));
    let ready = get(port, "/readyz");
    let alive = get(port, "/healthz");
    let _ = controller.kill();
    let _ = controller.wait();
    let said = said.expect("an error line");
    assert!(said.contains("the leader election lease cannot be written"), "{said}");
    assert!(said.contains("nowhere"), "{said}");
    let ready = ready.expect("an answer");
    assert!(ready.starts_with("HTTP/1.1 500"), "{ready}");
    assert!(
        ready.contains(
            "[-]leader-election failed: lease karpenter-leader-election in namespace nowhere cannot be written: "
        ),
        "{ready}"
    );
    assert!(alive.is_some_and(|answer| answer.starts_with("HTTP/1.1 200")));
}

// OPS-045, KWK-096, KWK-097
#[test]
fn a_standby_answers_probes_and_exposes_metrics() {
    let up = Up::start("standby");
    let start = || {
        let (metrics, health) = (free_port(), free_port());
        let child = Command::new(env!("CARGO_BIN_EXE_kerf"))
            .args(["controller", "--leader-election-namespace", "kube-system"])
            .args([
                "--metrics-port",
                &metrics.to_string(),
                "--health-probe-port",
                &health.to_string(),
            ])
            .arg("--kubeconfig")
            .arg(&up.kubeconfig)
            .stdout(Stdio::null())
            .spawn()
            .expect("the controller starts");
        (child, metrics, health)
    };
    let is_ok = |port, path| get(port, path).is_some_and(|answer| answer.starts_with("HTTP/1.1 200"));
    let until = |what: &str, look: &dyn Fn() -> bool| {
        let end = Instant::now() + Duration::from_secs(60);
        while !look() {
            if Instant::now() > end {
                return Err(format!("not within a minute: {what}"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    };
    let leads = |port, value: &str| {
        let line = format!("leader_election_master_status{{name=\"karpenter-leader-election\"}} {value}\n");
        get(port, "/metrics").is_some_and(|answer| answer.starts_with("HTTP/1.1 200") && answer.contains(&line))
    };
    up.create(&[posted_class(), posted_pool(&json!({}))]);
    let (mut leader, metrics, _) = start();
    let first = until("the first leads", &|| leads(metrics, "1"));
    // The series that upstream's suites read.
    let series = [
        "\nprocess_resident_memory_bytes ",
        "\nprocess_cpu_seconds_total ",
        "\nkarpenter_nodepools_cost_total{nodepool=\"default\"} ",
    ];
    let has_series = until("the leader has the series of the suites", &|| {
        get(metrics, "/metrics").is_some_and(|answer| series.iter().all(|line| answer.contains(line)))
    });
    let (mut standby, metrics, health) = start();
    let second = until("the second stands by", &|| {
        leads(metrics, "0") && is_ok(health, "/healthz") && is_ok(health, "/readyz")
    });
    for child in [&mut leader, &mut standby] {
        let _ = child.kill();
        let _ = child.wait();
    }
    assert_eq!((first, has_series, second), (Ok(()), Ok(()), Ok(())));
}

#[test]
fn the_limits_of_a_pool_count_whole_machines() {
    let up = Up::start_with("limits", &[]);
    let mut pool = posted_pool(&json!({"cpu": "8"}));
    pool.1["spec"]["template"]["spec"]["requirements"] =
        json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]}]);
    let pods = ["a", "b", "c", "d"].map(|name| posted_pod(name, "2"));
    up.create(&[posted_class(), pool]);
    up.create(&pods);
    let capacity = |claim: &Value| claim["status"]["capacity"]["cpu"].clone();
    let end = Instant::now() + Duration::from_secs(60);
    let claims = loop {
        let claims = up.list("/apis/karpenter.sh/v1/nodeclaims");
        let launched = claims.iter().filter(|claim| capacity(claim) != Value::Null).count();
        if launched >= 2 {
            break claims;
        }
        assert!(Instant::now() < end, "{claims:?}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(claims.iter().all(|claim| capacity(claim) == "4"), "{claims:?}");
    // A pass every few seconds plans the remaining pods again: two machines of 4 CPUs are all the limit allows.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(up.list("/apis/karpenter.sh/v1/nodeclaims").len(), 2);
}

#[test]
fn a_second_cluster_on_a_data_directory_is_refused_and_told_the_owner() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("one-owner-{}", std::process::id()));
    let folder = folder.display().to_string();
    let first = Up::start_with("one-owner", &["--no-controller", "--data-dir", &folder]);
    let kubeconfig = format!("{folder}-second.kubeconfig");
    let second = kerf(&[
        "up",
        "--no-controller",
        "--write-kubeconfig",
        &kubeconfig,
        "--data-dir",
        &folder,
    ]);
    assert_eq!(second.code, 4, "{}", second.stderr);
    let owner = format!("is in use by process {}: stop that process", first.child.id());
    assert!(second.stderr.contains(&owner), "{}", second.stderr);
    assert!(!Path::new(&kubeconfig).exists());
    drop(first);
    // The lock ends with its process, also when that is killed.
    drop(Up::start_with("one-owner", &["--no-controller", "--data-dir", &folder]));
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_kubeconfig_belongs_to_one_cluster_and_is_removed_at_every_signal() {
    for signal in ["HUP", "INT", "QUIT", "TERM"] {
        let mut first = Up::start("own-file");
        let text = std::fs::read_to_string(&first.kubeconfig).expect("a kubeconfig");
        let path = first.kubeconfig.display().to_string();
        let second = kerf(&["up", "--no-controller", "--write-kubeconfig", &path]);
        assert_eq!(second.code, 4, "{}", second.stderr);
        assert!(
            second.stderr.contains("belongs to another running kerf up"),
            "{}",
            second.stderr
        );
        assert_eq!(
            std::fs::read_to_string(&first.kubeconfig).expect("it is still there"),
            text
        );
        let sent = Command::new("kill")
            .args(["-s", signal, &first.child.id().to_string()])
            .status();
        assert!(sent.expect("kill runs").success());
        let end = first.child.wait().expect("it ends");
        assert!(end.success() && !first.kubeconfig.exists(), "{signal}: {end}");
    }
}

#[test]
fn the_controller_of_a_cluster_obeys_its_flags() {
    let port = free_port();
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("flags-{}.log", std::process::id()));
    let _ = std::fs::remove_file(&log);
    let up = Up::start_with(
        "flags",
        &[
            "--",
            "--metrics-port",
            &port.to_string(),
            "--log-level=debug",
            "--log-output-paths",
            &log.display().to_string(),
        ],
    );
    let end = Instant::now() + Duration::from_secs(120);
    let metrics = loop {
        match get(port, "/metrics") {
            Some(answer) => break answer,
            None => assert!(Instant::now() < end, "no metrics on port {port}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(metrics.contains("karpenter_"), "{metrics}");
    // A pod with a volume claim that does not exist is ignored, which is logged at DEBUG.
    let mut ignored = objects::pod("ignored", "1");
    ignored["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}]);
    up.create(&[
        posted_class(),
        posted_pool(&json!({})),
        ("/api/v1/namespaces/default/pods", ignored),
    ]);
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let written = std::fs::read_to_string(&log).unwrap_or_default();
        if written
            .lines()
            .any(|line| line.contains("\"DEBUG\"") && line.contains("ignoring pod"))
        {
            break;
        }
        assert!(Instant::now() < end, "{written}");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(up);
    let _ = std::fs::remove_file(&log);
    let refused = kerf(&["up", "--", "--feature-gates", "Foo=true"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("unknown feature gates: Foo"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_example_with_cilium_runs_by_itself() {
    let up = Up::start_with("cilium", &[]);
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cilium-startup-taints.yaml");
    let text = std::fs::read_to_string(example).expect("the example");
    let objects = text.split("\n---\n").map(|document| {
        let object: Value = serde_saphyr::from_str(document).expect("a manifest");
        let path = match object["kind"].as_str() {
            Some("KWOKNodeClass") => "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses",
            Some("NodePool") => "/apis/karpenter.sh/v1/nodepools",
            Some("DaemonSet") => "/apis/apps/v1/namespaces/kube-system/daemonsets",
            _ => "/apis/apps/v1/namespaces/default/deployments",
        };
        (path, object)
    });
    up.create(&objects.collect::<Vec<_>>());
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let pods = up.list("/api/v1/namespaces/default/pods");
        if pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count() == 6 {
            break;
        }
        assert!(Instant::now() < end, "{pods:?}");
        std::thread::sleep(Duration::from_millis(250));
    }
    let nodes = up.list("/api/v1/nodes");
    assert!(
        nodes
            .iter()
            .all(|node| node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)),
        "{nodes:?}"
    );
}
