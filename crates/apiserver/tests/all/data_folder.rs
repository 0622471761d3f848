//! The state on disk: restarts, damage, one owner, permissions, compaction.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kerf_apiserver::{ApiServer, OpenError};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;

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

#[tokio::test(start_paused = true)]
async fn a_folder_has_one_owner() {
    let folder = Folder::new("owner");
    let server = ApiServer::builder().open(&folder.0).unwrap();
    let error = open_error(&folder.0).to_string();
    let pid = std::process::id();
    assert!(
        error.contains(&format!("is in use by process {pid}: stop that process")),
        "{error}"
    );
    close(server).await;
    drop(ApiServer::builder().open(&folder.0).unwrap());
}

#[test]
fn a_file_is_no_folder() {
    let folder = Folder::new("file");
    let path = folder.0.join("x");
    std::fs::write(&path, "").unwrap();
    let error = open_error(&path).to_string();
    assert!(
        error.ends_with("x is not a folder: name a folder, which is made when it is missing"),
        "{error}"
    );
}

#[test]
fn only_the_owner_can_read_the_state() {
    let folder = Folder::new("modes");
    // As an older version left them.
    std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.log(), "").unwrap();
    let server = ApiServer::builder().open(&folder.0).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.0), 0o700);
    for file in std::fs::read_dir(&folder.0).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn the_log_is_compacted_while_the_server_runs() {
    let folder = Folder::new("compaction");
    let server = ApiServer::builder().open(&folder.0).unwrap();
    let maps = maps(&server);
    let big = "x".repeat(900 * 1024);
    maps.create(&PostParams::default(), &config_map("big")).await.unwrap();
    let mut largest = 0;
    for i in 0..50 {
        let patch = json!({"data": {"k": format!("{i}{big}")}});
        maps.patch("big", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
        largest = largest.max(std::fs::metadata(folder.log()).unwrap().len());
    }
    assert!(largest < 20 * 1024 * 1024, "{largest} bytes");
    let last = maps.get("big").await.unwrap();
    drop(maps);
    close(server).await;
    // A crash during a compaction leaves an unfinished file behind.
    std::fs::write(folder.0.join("objects.jsonl.new"), "{\"group\":").unwrap();
    let server = ApiServer::builder().open(&folder.0).unwrap();
    assert_eq!(self::maps(&server).get("big").await.unwrap(), last);
}

#[tokio::test(start_paused = true)]
async fn versions_do_not_go_back_when_the_last_write_was_a_deletion() {
    let folder = Folder::new("versions");
    let server = ApiServer::builder().open(&folder.0).unwrap();
    maps(&server)
        .create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    maps(&server).delete("a", &DeleteParams::default()).await.unwrap();
    let mut version = server.resource_version();
    close(server).await;
    // The first restart reads the deletion, the second only the compacted log.
    for _ in 0..2 {
        let server = ApiServer::builder().open(&folder.0).unwrap();
        assert!(server.resource_version() >= version);
        version = server.resource_version();
        close(server).await;
    }
}
