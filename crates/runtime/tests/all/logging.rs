//! Log lines as the contract states them.

use crate::buffer::Buffer;
use kerf_runtime::logging::{LogConfig, LogError, LogLevel, Sinks, json};
use kerf_runtime::{CancellationToken, Clock, Controller, ObjectKey, Outcome, Queue, RateLimit, ReconcileError, Seed};
use serde_json::{Value, json};
use std::sync::Arc;

fn config(level: LogLevel) -> (LogConfig, Buffer) {
    let buffer = Buffer::default();
    let config = LogConfig {
        level,
        sinks: Sinks::to(buffer.clone()),
        error_sinks: Sinks::to(std::io::sink()),
        commit: Some("abcdef0".to_owned()),
        clock: Clock::simulated("2026-01-02T03:04:05.006Z".parse().expect("a timestamp")),
    };
    (config, buffer)
}

/// Logs what `write` logs and returns the lines.
fn logged(level: LogLevel, write: impl FnOnce()) -> Buffer {
    let (config, buffer) = config(level);
    tracing::subscriber::with_default(config.subscriber(), write);
    buffer
}

// The filter knows our crates by their names' beginning; tests are none of them, so each line says whose it is.
const TARGET: &str = "kerf_test";

#[tokio::test(start_paused = true)]
async fn a_line_has_its_keys_in_order() {
    let buffer = logged(LogLevel::Info, || {
        tracing::info!(
            target: TARGET,
            pods = 3,
            "instance-type" = "m5.large",
            share = 0.5,
            ok = true,
            Node = %json(&json!({"name": "n1"})),
            error = "quote \" and\nnewline",
            "registered nodeclaim"
        );
    });
    // OPS-214, OPS-216
    assert_eq!(
        buffer.text(),
        "{\"level\":\"INFO\",\"time\":\"2026-01-02T03:04:05.006Z\",\"logger\":\"controller\",\
         \"message\":\"registered nodeclaim\",\"commit\":\"abcdef0\",\"pods\":3,\"instance-type\":\"m5.large\",\
         \"share\":0.5,\"ok\":true,\"Node\":{\"name\":\"n1\"},\"error\":\"quote \\\" and\\nnewline\"}\n"
    );
}

#[tokio::test(start_paused = true)]
async fn a_line_has_each_key_once() {
    let buffer = logged(LogLevel::Info, || {
        let span = tracing::error_span!(target: TARGET, "reconcile", controllerKind = "NodePool", name = "default", namespace = "");
        let _inside = span.enter();
        tracing::info!(target: TARGET, NodePool = "default", name = "other", "launched");
    });
    let text = buffer.text();
    for key in ["NodePool", "name", "namespace", "controllerKind"] {
        // A reference to an object has a name, too.
        let references = usize::from(key == "name");
        assert_eq!(text.matches(&format!("\"{key}\":")).count(), 1 + references, "{text}");
    }
    let line = &buffer.lines()[0];
    assert_eq!(
        (&line["NodePool"], &line["name"]),
        (&json!({"name": "default"}), &json!("other"))
    );
}

#[tokio::test(start_paused = true)]
async fn objects_are_references() {
    let buffer = logged(LogLevel::Info, || {
        tracing::error!(target: TARGET, Pod = %"shop/web-1", NodePool = "default", "could not schedule pod");
    });
    let line = &buffer.lines()[0];
    // OPS-216
    assert_eq!(line["Pod"], json!({"name": "web-1", "namespace": "shop"}));
    assert_eq!(line["NodePool"], json!({"name": "default"}));
}

#[tokio::test(start_paused = true)]
async fn a_terminal_gets_lines_for_people() {
    let (mut config, _) = config(LogLevel::Info);
    let buffer = Buffer::default();
    config.sinks = Sinks::to_person(buffer.clone());
    let _guard = config.on_this_thread();
    let span = tracing::info_span!(
        target: TARGET,
        "reconcile",
        controller = "nodeclaim.lifecycle",
        controllerGroup = "karpenter.sh",
        controllerKind = "NodeClaim",
        namespace = "",
        name = "web-1",
        reconcileID = "0",
    );
    span.in_scope(
        || tracing::info!(target: TARGET, Node = %json(&json!({"name": "n1"})), zone = "a", "registered nodeclaim"),
    );
    tracing::warn!(target: TARGET, Pod = %json(&json!({"name": "p", "namespace": "shop"})), "odd\u{1b}[2J");
    tracing::error!(target: TARGET, error = "two words", pods = 3, "Reconciler error");
    assert_eq!(
        buffer.text(),
        "03:04:05 INFO  registered nodeclaim controller=nodeclaim.lifecycle NodeClaim=web-1 Node=n1 zone=a\n\
         03:04:05 WARN  odd\\u{1b}[2J Pod=shop/p\n\
         03:04:05 ERROR Reconciler error error=\"two words\" pods=3\n"
    );
}

#[tokio::test(start_paused = true)]
async fn a_named_logger_is_below_the_controllers() {
    let buffer = logged(
        LogLevel::Info,
        || tracing::info!(target: TARGET, logger = "metrics", "serving"),
    );
    // OPS-214
    assert_eq!(buffer.lines()[0]["logger"], "controller.metrics");
    assert_eq!(buffer.lines()[0].as_object().map(serde_json::Map::len), Some(5));
}

#[tokio::test(start_paused = true)]
async fn levels_select_lines_and_callers() {
    let write = || {
        tracing::debug!(target: TARGET, "detail");
        tracing::info!(target: TARGET, "news");
        tracing::error!(target: TARGET, "failure");
        tracing::debug!(target: "hyper", "noise of a library");
    };
    let levels = |level| -> Vec<String> {
        logged(level, write)
            .lines()
            .iter()
            .map(|line| line["level"].as_str().unwrap_or("").to_owned())
            .collect()
    };
    // OPS-015, OPS-219
    assert_eq!(levels(LogLevel::Debug), ["DEBUG", "INFO", "ERROR"]);
    assert_eq!(levels(LogLevel::Info), ["INFO", "ERROR"]);
    assert_eq!(levels(LogLevel::Error), ["ERROR"]);
    let line = logged(LogLevel::Debug, write).lines().remove(0);
    let caller = line["caller"].as_str().expect("a caller");
    // OPS-214, OPS-219
    assert!(caller.starts_with("all/logging.rs:"), "{caller}");
    assert!(logged(LogLevel::Info, write).lines()[0].get("caller").is_none());
}

#[tokio::test(start_paused = true)]
async fn floods_of_one_line_are_sampled() {
    let (config, buffer) = config(LogLevel::Info);
    let _guard = config.on_this_thread();
    for _ in 0..450 {
        tracing::info!(target: TARGET, "flood");
    }
    tracing::info!(target: TARGET, "other");
    // OPS-218
    assert_eq!(buffer.lines().len(), 100 + 3 + 1);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    tracing::info!(target: TARGET, "flood");
    assert_eq!(buffer.lines().len(), 100 + 3 + 2);
}

/// One failing reconciliation of `queue`'s only key, as logged.
async fn reconcile_line<K: kerf_runtime::Key>(controller: Controller, queue: Queue<K>) -> Value {
    let (config, buffer) = config(LogLevel::Info);
    let _guard = config.on_this_thread();
    let shutdown = CancellationToken::new();
    let reconcile = |stop: Arc<CancellationToken>, _| async move {
        stop.cancel();
        Err::<Outcome, _>(ReconcileError::message("no luck"))
    };
    let stop = Arc::new(shutdown.clone());
    controller.seed(Seed(1)).run(queue, stop, reconcile, shutdown).await;
    buffer.lines().remove(0)
}

#[tokio::test(start_paused = true)]
async fn a_reconcilers_lines_say_what_it_works_on() {
    let queue = Queue::new(RateLimit::DEFAULT);
    queue.add(ObjectKey::new("shop", "web-1"));
    let line = reconcile_line(Controller::new("provisioner.trigger.pod").for_kind("", "Pod"), queue).await;
    // OPS-105, OPS-215
    assert_eq!(
        (&line["level"], &line["message"], &line["error"]),
        (&json!("ERROR"), &json!("Reconciler error"), &json!("no luck"))
    );
    assert_eq!(
        (&line["controller"], &line["controllerKind"]),
        (&json!("provisioner.trigger.pod"), &json!("Pod"))
    );
    assert_eq!(line["Pod"], json!({"name": "web-1", "namespace": "shop"}));
    assert_eq!((&line["namespace"], &line["name"]), (&json!("shop"), &json!("web-1")));
    assert_eq!(line["reconcileID"].as_str().map(str::len), Some(36));

    let queue = Queue::new(RateLimit::DEFAULT);
    queue.add(String::from("default"));
    let line = reconcile_line(
        Controller::new("nodepool.hash").for_kind("karpenter.sh", "NodePool"),
        queue,
    )
    .await;
    // OPS-215
    assert_eq!(
        (&line["controllerGroup"], &line["NodePool"]),
        (&json!("karpenter.sh"), &json!({"name": "default"}))
    );

    let queue = Queue::new(RateLimit::SINGLETON);
    queue.add(());
    let line = reconcile_line(Controller::new("disruption"), queue).await;
    // OPS-215
    assert_eq!((&line["namespace"], &line["name"]), (&json!(""), &json!("")));
    assert!(line.get("controllerKind").is_none() && line.get("reconcileID").is_some());
}

#[test]
fn sinks_are_named() {
    let file = std::env::temp_dir().join(format!("kerf-log-{}", std::process::id()));
    let paths = format!("stdout,stderr,{}", file.display());
    // OPS-016
    assert!(Sinks::open(&paths).is_ok());
    std::fs::remove_file(&file).expect("the file was made");
    // OPS-027
    assert!(matches!(Sinks::open(""), Err(LogError::NoName)));
    let Err(error) = Sinks::open("/nowhere/at/all/log") else {
        panic!("there is no such folder")
    };
    assert!(error.to_string().contains("/nowhere/at/all/log"), "{error}");
}
