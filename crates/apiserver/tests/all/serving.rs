//! The HTTPS listener.

use std::net::SocketAddr;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kerf_apiserver::{ApiServer, serve_https};
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::support::config_map;

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
