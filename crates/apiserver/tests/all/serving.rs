//! The HTTPS listener.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};

use crate::support::{client_of, config_map, serve};

#[tokio::test]
async fn a_kubeconfig_is_all_a_client_needs() {
    let (handle, kubeconfig) = serve().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client_of(kubeconfig).await);
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
    let (handle, mut kubeconfig) = serve().await;
    kubeconfig.auth_infos.clear();
    kubeconfig.contexts[0].context.as_mut().unwrap().user = None;
    let maps: Api<ConfigMap> = Api::default_namespaced(client_of(kubeconfig).await);
    assert!(maps.list(&ListParams::default()).await.is_err());
    handle.shutdown().await;
}
