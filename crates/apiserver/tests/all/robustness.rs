//! Hostile clients: random requests, many watches, connections that send nothing. Short here; `KERF_ROBUSTNESS=20` makes each run 20 times
//! as long.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::{Harness, client_of, config_map, serve};

/// The factor by which runs are longer than in a plain `cargo test`.
fn factor() -> usize {
    let given = std::env::var("KERF_ROBUSTNESS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// A generator of numbers that are the same in every run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
    }

    fn one_of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

const PATHS: [&str; 20] = [
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/pods/p",
    "/api/v1/namespaces/default/pods/p/status",
    "/api/v1/namespaces/default/pods/p/binding",
    "/api/v1/namespaces/default/pods/p/eviction",
    "/api/v1/nodes/n",
    "/api/v1/nodes",
    "/api/v1/namespaces/default/configmaps/c",
    "/api/v1/namespaces/default/events",
    "/api/v1/namespaces/default/resourcequotas",
    "/api/v1/namespaces/default/limitranges/l",
    "/apis/apps/v1/namespaces/default/deployments/d",
    "/apis/apps/v1/namespaces/default/deployments/d/scale",
    "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com",
    "/apis/example.com/v1/widgets",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/openapi/v3/apis/apps/v1",
    "/apis//v1/%00/..",
];

const QUERIES: [&str; 14] = [
    "",
    "watch=1&timeoutSeconds=1",
    "watch=1&resourceVersion=0&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    "limit=1",
    "limit=-1&continue=e30",
    "resourceVersion=99999999999999999999",
    "resourceVersion=3&resourceVersionMatch=Exact",
    "labelSelector=a%3Db%2C%21c%2Cd%20in%20%28x%2Cy%29",
    "labelSelector=%28%29%29%2C%3D",
    "fieldSelector=metadata.name%3Dp%2Cstatus.phase%21%3DRunning",
    "fieldManager=f&force=true&dryRun=All",
    "fieldValidation=Strict",
    "gracePeriodSeconds=-9223372036854775808&propagationPolicy=Foreground",
    "%ff%fe=%",
];

const TYPES: [&str; 8] = [
    "application/json",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "application/yaml",
    "",
];

const ACCEPTED: [&str; 5] = [
    "application/json",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf",
    "*/*;q=x,,",
];

/// Objects and patches that are valid somewhere.
fn bodies() -> Vec<Value> {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    vec![
        json!({"metadata": {"name": "p", "generateName": "g-"}, "spec": {"containers": [{"name": "c", "image": "i",
            "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}, "ports": [{"containerPort": 80}]}],
            "tolerations": [{"operator": "Exists"}]}}),
        json!({"kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}),
        json!({"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "finalizers": ["x/y"]}, "data": {"k": "v"}}),
        json!({"metadata": {"name": "d"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}}),
        json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2", "requests.cpu": "1e3", "count/widgets.example.com": "1"}}}),
        json!({"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "1"}}]}}),
        json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-validations": [{"rule": "has(self.spec)"}],
            "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "pattern": "(a+)+"}}}}}}}]}}),
        json!({"metadata": {"name": "w"}, "spec": {"size": 1, "color": null}}),
        json!([{"op": "replace", "path": "/metadata/labels", "value": {"x": "y"}}, {"op": "test", "path": "/a~1b", "value": 1}]),
        json!({"spec": {"containers": [{"name": "c", "$patch": "delete"}], "$setElementOrder/containers": [{"name": "c"}]}}),
    ]
}

/// Replaces random parts of a value by something of another kind or size.
fn mutate(value: &mut Value, numbers: &mut Numbers) {
    if numbers.below(12) == 0 {
        *value = match numbers.below(9) {
            0 => Value::Null,
            1 => json!(-1),
            2 => json!(u64::MAX),
            3 => json!(1e308),
            4 => json!(""),
            5 => json!("\u{0}\u{fffd}é".repeat(1 + numbers.below(300))),
            6 => json!([[[[]]]]),
            7 => json!({"": {"$patch": "replace"}, "/~0~1": null}),
            _ => json!(true),
        };
        return;
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|field| mutate(field, numbers)),
        Value::Array(items) => items.iter_mut().for_each(|item| mutate(item, numbers)),
        _ => {}
    }
}

/// Every answer has a code that HTTP knows; an error is a `Status`. A panic fails the test.
#[tokio::test(start_paused = true)]
async fn random_requests_are_answered() {
    let h = Harness::new();
    let mut numbers = Numbers(0x5eed);
    let mut codes = std::collections::BTreeMap::new();
    for round in 0..2_000 * factor() {
        let path = PATHS[numbers.below(PATHS.len())];
        let query = QUERIES[numbers.below(QUERIES.len())];
        let uri = if query.is_empty() {
            path.to_owned()
        } else {
            format!("{path}?{query}")
        };
        let mut bodies = bodies();
        let mut body = bodies.swap_remove(numbers.below(bodies.len()));
        mutate(&mut body, &mut numbers);
        let (method, accept, content_type) = (
            numbers.one_of(&METHODS),
            numbers.one_of(&ACCEPTED),
            numbers.one_of(&TYPES),
        );
        let sent = (numbers.below(10) > 0).then_some(body);
        let (code, _, text) = h.raw(method, &uri, accept, content_type, sent).await;
        *codes.entry(code).or_insert(0) += 1;
        assert!((200..600).contains(&code), "round {round}: {method} {uri}: {code}");
        if code >= 400 && method != "HEAD" {
            let status: Value = serde_json::from_str(&text).unwrap_or_default();
            assert_eq!(status["code"], code, "round {round}: {method} {uri}: {text}");
        }
    }
    // The requests reach more than the parser.
    assert!(codes.contains_key(&200) && codes.contains_key(&201), "{codes:?}");
    let maps: Api<ConfigMap> = h.api();
    maps.list(&ListParams::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_thousand_watches_see_every_write() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    let mut watches = Vec::new();
    for _ in 0..1_000 * factor() {
        watches.push(maps.watch(&WatchParams::default(), "0").await.unwrap().boxed());
    }
    for name in ["a", "b"] {
        maps.create(&PostParams::default(), &config_map(name)).await.unwrap();
    }
    for mut events in watches {
        for name in ["a", "b"] {
            let Some(WatchEvent::Added(seen)) = events.try_next().await.unwrap() else {
                panic!("no event for {name}")
            };
            assert_eq!(seen.metadata.name.as_deref(), Some(name));
        }
    }
}

#[tokio::test]
async fn connections_that_send_nothing_hold_nobody_up() {
    let (handle, kubeconfig) = serve().await;
    let mut idle = Vec::new();
    for i in 0..100 * factor() {
        let mut connection = tokio::net::TcpStream::connect(("127.0.0.1", handle.port()))
            .await
            .unwrap();
        if i % 2 == 0 {
            // The first byte of a TLS handshake.
            connection.write_all(&[0x16]).await.unwrap();
        }
        idle.push(connection);
    }
    let maps: Api<ConfigMap> = Api::default_namespaced(client_of(kubeconfig).await);
    let start = Instant::now();
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    drop(idle);
    handle.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn alias_bombs_and_deep_nesting_are_refused() {
    let client = Harness::new().client();
    // Twelve lists, each with ten aliases of the one before: 10¹² values if they were expanded.
    let mut bomb =
        vec!["apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\nl0: &l0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned()];
    bomb.extend((1..12).map(|i| format!("l{i}: &l{i} [{}]\n", vec![format!("*l{}", i - 1); 10].join(","))));
    let bomb = bomb.concat();
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = "/api/v1/namespaces/default/configmaps/m?fieldManager=f";
    for (method, uri, content_type, body) in [
        ("POST", maps, "application/yaml", bomb.clone()),
        ("PATCH", map, "application/apply-patch+yaml", bomb),
        ("POST", maps, "application/yaml", format!("a: {nested}")),
        ("POST", maps, "application/json", format!(r#"{{"a":{nested}}}"#)),
        (
            "PATCH",
            map,
            "application/merge-patch+json",
            format!(r#"{{"a":{nested}}}"#),
        ),
    ] {
        let request = http::Request::builder().method(method).uri(uri);
        let request = request.header("content-type", content_type);
        let request = request.body(Body::from(body.into_bytes())).unwrap();
        let (head, body) = client.send(request).await.unwrap().into_parts();
        let answer: Value = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap();
        assert!(
            head.status.is_client_error() && answer["kind"] == "Status",
            "{method} {content_type}: {}: {answer}",
            head.status
        );
    }
}
