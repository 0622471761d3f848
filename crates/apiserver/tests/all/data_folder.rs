//! The state on disk: restarts and damage.

use std::path::Path;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kerf_apiserver::{ApiServer, OpenError};
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};

use crate::support::config_map;

/// A folder of one test, removed at its end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kerf-apiserver-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn log(&self) -> std::path::PathBuf {
        self.0.join("objects.jsonl")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn maps(server: &ApiServer) -> Api<ConfigMap> {
    Api::default_namespaced(kube::Client::new(server.clone(), "default"))
}

fn open_error(folder: &Path) -> OpenError {
    ApiServer::builder().open(folder).unwrap_err()
}

/// Drops the server and lets the tasks of its clients end, which hold it too.
async fn close(server: ApiServer) {
    drop(server);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn state_survives_a_restart_and_a_torn_line() {
    let folder = Folder::new("restart");
    let open = |seed| ApiServer::builder().seed(seed).open(&folder.0).unwrap();
    let server = open(1);
    let kept = maps(&server)
        .create(&PostParams::default(), &config_map("kept"))
        .await
        .unwrap();
    maps(&server)
        .create(&PostParams::default(), &config_map("gone"))
        .await
        .unwrap();
    maps(&server).delete("gone", &DeleteParams::default()).await.unwrap();
    let version = server.resource_version();
    close(server).await;
    let mut log = std::fs::read_to_string(folder.log()).unwrap();
    log.push_str("{\"group\":\"\",\"resource\":\"configm");
    std::fs::write(folder.log(), log).unwrap();

    let server = open(2);
    assert_eq!(
        crate::support::names(&maps(&server), &ListParams::default()).await,
        ["kept"]
    );
    assert_eq!(maps(&server).get("kept").await.unwrap(), kept);
    assert!(server.resource_version() >= version);
    // Watches from before the restart have to list again.
    let mut events = maps(&server)
        .watch(&WatchParams::default(), &version.to_string())
        .await
        .unwrap()
        .boxed();
    assert!(matches!(events.try_next().await.unwrap(), Some(WatchEvent::Error(e)) if e.code == 410));
    // The log was rewritten without the torn line and the superseded lines.
    let log = std::fs::read_to_string(folder.log()).unwrap();
    assert!(!log.contains("\"gone\"") && log.lines().all(|l| l.ends_with('}')));
}

#[tokio::test(start_paused = true)]
async fn a_damaged_log_is_named_by_line() {
    let folder = Folder::new("damaged");
    std::fs::write(
        folder.log(),
        "{\"group\":\"\",\"resource\":\"pods\",\"key\":\"a/b\"}\n{}\n{}\n",
    )
    .unwrap();
    let error = open_error(&folder.0).to_string();
    assert!(
        error.starts_with("line 1 of ") && error.contains("is damaged (no object)"),
        "{error}"
    );
}
