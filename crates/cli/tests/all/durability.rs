//! `kerf up --data-dir` killed while several clients write: what was acknowledged is there after the restart.
//! `KERF_ROBUSTNESS=10` kills it ten times; a plain test run does so twice.

use crate::live::Up;
use kube::Client;
use kube::core::Request;
use kube::core::params::PostParams;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// Writes that are acknowledged before the server is killed, so that it is killed in the middle of many.
const WRITES: usize = 50;

/// Creates ConfigMaps one after another until the server is gone; returns the names it acknowledged, and counts them meanwhile.
async fn write(client: Client, prefix: String, count: Arc<AtomicUsize>) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for i in 0.. {
        let name = format!("{prefix}-{i}");
        let body = json!({"metadata": {"name": name}, "data": {"k": "v".repeat(i % 500)}});
        let request = Request::new(PATH).create(&PostParams::default(), body.to_string().into_bytes());
        match client.request::<Value>(request.expect("a request")).await {
            Ok(_) => {
                acknowledged.push(name);
                count.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => break,
        }
    }
    acknowledged
}

#[test]
fn no_acknowledged_write_is_lost_when_the_cluster_is_killed() {
    let rounds = std::env::var("KERF_ROBUSTNESS").ok();
    let rounds: usize = rounds.and_then(|text| text.parse().ok()).unwrap_or(2);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("killed-{}", std::process::id()));
    let folder = folder.display().to_string();
    let args = ["--no-controller", "--data-dir", &folder];
    let mut expected = BTreeSet::new();
    for round in 0..rounds {
        let mut up = Up::start_with("killed", &args);
        let pid = up.child.id().to_string();
        let acknowledged = up.with_client(async |client| {
            let count = Arc::new(AtomicUsize::new(0));
            let writers: Vec<_> = (0..4)
                .map(|writer| {
                    let prefix = format!("r{round}-w{writer}");
                    tokio::spawn(write(client.clone(), prefix, Arc::clone(&count)))
                })
                .collect();
            while count.load(Ordering::Relaxed) < WRITES {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let killed = std::process::Command::new("kill").args(["-s", "KILL", &pid]).status();
            assert!(killed.expect("kill runs").success());
            let mut acknowledged = Vec::new();
            for writer in writers {
                acknowledged.extend(writer.await.expect("a writer"));
            }
            acknowledged
        });
        up.child.wait().expect("it ended");
        expected.extend(acknowledged);
        drop(up);
        let up = Up::start_with("killed", &args);
        let found: BTreeSet<String> = up
            .list(PATH)
            .iter()
            .filter_map(|map| map["metadata"]["name"].as_str().map(str::to_owned))
            .collect();
        let lost: Vec<&String> = expected.difference(&found).collect();
        assert!(lost.is_empty(), "round {round} lost {lost:?}");
    }
    let _ = std::fs::remove_dir_all(&folder);
}
