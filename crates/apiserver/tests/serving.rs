//! The HTTPS listener and the state on disk.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops where something is wrong")]

mod support;

use std::net::SocketAddr;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kerf_apiserver::{ApiServer, serve_https};
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};

use support::config_map;

#[tokio::test]
async fn a_kubeconfig_is_all_a_client_needs() {
    let server = ApiServer::new();
    let handle = serve_https(server, SocketAddr::from(([127, 0, 0, 1], 0)))
        .await
        .unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&handle.kubeconfig()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let mut events = maps.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let Some(WatchEvent::Added(seen)) = events.try_next().await.unwrap() else {
        panic!("no event")
    };
    assert_eq!(seen.metadata.name.as_deref(), Some("a"));
    // An open watch does not hold the shutdown up.
    handle.shutdown().await;
    assert!(maps.get("a").await.is_err());
}

#[tokio::test]
async fn a_client_without_certificate_gets_nothing() {
    let handle = serve_https(ApiServer::new(), SocketAddr::from(([127, 0, 0, 1], 0)))
        .await
        .unwrap();
    let mut kubeconfig = Kubeconfig::from_yaml(&handle.kubeconfig()).unwrap();
    kubeconfig.auth_infos.clear();
    kubeconfig.contexts[0].context.as_mut().unwrap().user = None;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(kube::Client::try_from(config).unwrap());
    assert!(maps.list(&ListParams::default()).await.is_err());
    handle.shutdown().await;
}

/// A folder of this test alone, gone at the end.
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
    drop(server);
    let mut log = std::fs::read_to_string(folder.log()).unwrap();
    log.push_str("{\"group\":\"\",\"resource\":\"configm");
    std::fs::write(folder.log(), log).unwrap();

    let server = open(2);
    assert_eq!(support::names(&maps(&server), &ListParams::default()).await, ["kept"]);
    assert_eq!(maps(&server).get("kept").await.unwrap(), kept);
    assert!(server.resource_version() >= version);
    // Whoever watched before has to list again.
    let mut events = maps(&server)
        .watch(&WatchParams::default(), &version.to_string())
        .await
        .unwrap()
        .boxed();
    assert!(matches!(events.try_next().await.unwrap(), Some(WatchEvent::Error(e)) if e.code == 410));
    // The log was written anew: the torn line and what was superseded are gone.
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
    let error = ApiServer::builder().open(&folder.0).unwrap_err().to_string();
    assert!(
        error.starts_with("line 1 of ") && error.contains("is damaged (no object)"),
        "{error}"
    );
}
