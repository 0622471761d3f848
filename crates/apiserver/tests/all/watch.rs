//! Watches and lists: versions, bookmarks, streaming lists, selectors, pages, what happens after a compaction.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, VersionMatch, WatchEvent, WatchParams};
use kube::runtime::watcher;
use serde_json::{Value, json};

use crate::support::{Harness, code, config_map, pod, reason};

/// Type and name of each event, bookmarks without a name.
fn brief(event: &WatchEvent<ConfigMap>) -> (&'static str, String) {
    let name = |o: &ConfigMap| o.metadata.name.clone().unwrap();
    match event {
        WatchEvent::Added(o) => ("ADDED", name(o)),
        WatchEvent::Modified(o) => ("MODIFIED", name(o)),
        WatchEvent::Deleted(o) => ("DELETED", name(o)),
        WatchEvent::Bookmark(_) => ("BOOKMARK", String::new()),
        WatchEvent::Error(status) => ("ERROR", status.reason.clone()),
    }
}

async fn events(api: &Api<ConfigMap>, params: &WatchParams, version: &str) -> Vec<(&'static str, String)> {
    let stream = api.watch(params, version).await.unwrap();
    stream.map_ok(|e| brief(&e)).try_collect().await.unwrap()
}

fn briefly() -> WatchParams {
    WatchParams::default().timeout(1).disable_bookmarks()
}

async fn label(maps: &Api<ConfigMap>, name: &str, tier: &str) {
    let patch = json!({"metadata": {"labels": {"tier": tier}}});
    maps.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_a_list_ended() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    maps.create(&PostParams::default(), &config_map("before"))
        .await
        .unwrap();
    let listed = maps.list(&ListParams::default()).await.unwrap();
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    label(&maps, "a", "web").await;
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let version = listed.metadata.resource_version.unwrap();
    let seen = events(&maps, &briefly(), &version).await;
    let names: Vec<_> = seen.iter().map(|(t, n)| (*t, n.as_str())).collect();
    assert_eq!(names, [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]);
    // Version 0 begins with the state.
    assert_eq!(events(&maps, &briefly(), "0").await, [("ADDED", "before".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn an_event_arrives_as_it_happens() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    let mut stream = maps.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let writer = maps.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(17)).await;
        writer
            .create(&PostParams::default(), &config_map("late"))
            .await
            .unwrap();
    });
    let start = tokio::time::Instant::now();
    let event = stream.try_next().await.unwrap().unwrap();
    assert_eq!(brief(&event), ("ADDED", "late".to_owned()));
    assert_eq!(start.elapsed().as_secs(), 17);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_carries_its_own_version() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    let made = maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let version = made.metadata.resource_version.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let mut stream = maps.watch(&briefly(), &version).await.unwrap().boxed();
    let Some(WatchEvent::Deleted(gone)) = stream.try_next().await.unwrap() else {
        panic!("no deletion")
    };
    let deleted: u64 = gone.metadata.resource_version.unwrap().parse().unwrap();
    assert!(deleted > version.parse::<u64>().unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_starts_to_match_appears_and_one_that_stops_disappears() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let from = h.server.resource_version().to_string();
    label(&maps, "a", "web").await;
    label(&maps, "a", "db").await;
    label(&maps, "a", "cache").await;
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let seen = events(&maps, &briefly().labels("tier in (web,db)"), &from).await;
    let types: Vec<_> = seen.iter().map(|(t, _)| *t).collect();
    assert_eq!(types, ["ADDED", "MODIFIED", "DELETED"]);
}

#[tokio::test(start_paused = true)]
async fn fields_select_pods_by_node() {
    let h = Harness::new();
    let pods: Api<Pod> = h.api();
    for name in ["a", "b"] {
        pods.create(&PostParams::default(), &pod(name)).await.unwrap();
    }
    crate::support::bind(&pods, "b", "node-1").await.unwrap();
    let by = |fields: &str| ListParams::default().fields(fields);
    assert_eq!(crate::support::names(&pods, &by("spec.nodeName=node-1")).await, ["b"]);
    assert_eq!(crate::support::names(&pods, &by("spec.nodeName=")).await, ["a"]);
    assert_eq!(
        crate::support::names(&pods, &by("status.phase=Pending,metadata.name!=a")).await,
        ["b"]
    );
    let error = pods.list(&by("spec.color=red")).await.unwrap_err();
    assert_eq!(code(&error), 400);
    assert!(crate::support::message(&error).contains("field label not supported: spec.color"));
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_ends_with_an_annotated_bookmark() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    for name in ["a", "b"] {
        maps.create(&PostParams::default(), &config_map(name)).await.unwrap();
    }
    let params = WatchParams::default().timeout(1).initial_events();
    let mut stream = maps.watch(&params, "").await.unwrap().boxed();
    let mut seen = Vec::new();
    let mark = loop {
        match stream.try_next().await.unwrap().unwrap() {
            WatchEvent::Bookmark(mark) => break mark,
            other => seen.push(brief(&other)),
        }
    };
    assert_eq!(seen, [("ADDED", "a".to_owned()), ("ADDED", "b".to_owned())]);
    assert_eq!(mark.metadata.annotations["k8s.io/initial-events-end"], "true");
    assert_eq!(mark.metadata.resource_version, h.server.resource_version().to_string());
}

#[tokio::test(start_paused = true)]
async fn initial_events_need_the_right_match() {
    let h = Harness::new();
    let (code, status) = h
        .call(
            "GET",
            "/api/v1/pods?watch=1&sendInitialEvents=true",
            "application/json",
            None,
        )
        .await;
    assert_eq!((code, status["reason"].as_str()), (422, Some("Invalid")));
}

#[tokio::test(start_paused = true)]
async fn quiet_watches_get_bookmarks() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    let pods: Api<Pod> = h.api();
    let mut stream = maps
        .watch(&WatchParams::default().timeout(200), "0")
        .await
        .unwrap()
        .boxed();
    pods.create(&PostParams::default(), &pod("p")).await.unwrap();
    let start = tokio::time::Instant::now();
    let event = stream.try_next().await.unwrap().unwrap();
    let WatchEvent::Bookmark(mark) = event else {
        panic!("no bookmark but {event:?}")
    };
    assert_eq!(start.elapsed().as_secs(), 60);
    // The bookmark moves on with writes to other resources.
    assert_eq!(mark.metadata.resource_version, h.server.resource_version().to_string());
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_its_timeout() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    let start = tokio::time::Instant::now();
    assert_eq!(
        events(&maps, &WatchParams::default().timeout(30).disable_bookmarks(), "0").await,
        []
    );
    assert_eq!(start.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_the_past_is_there_and_watches_have_ended() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    for name in ["changed", "deleted"] {
        maps.create(&PostParams::default(), &config_map(name)).await.unwrap();
    }
    let (backup, version) = (h.server.back_up(), h.server.resource_version());
    let open = maps.watch(&WatchParams::default(), &version.to_string()).await.unwrap();
    let open = tokio::spawn(open.map_ok(|e| brief(&e)).try_collect::<Vec<_>>());
    label(&maps, "changed", "web").await;
    maps.delete("deleted", &DeleteParams::default()).await.unwrap();
    maps.create(&PostParams::default(), &config_map("new")).await.unwrap();
    let later = h.server.resource_version();
    tokio::time::sleep(Duration::from_secs(1)).await;
    h.server.restore(&backup);
    let seen = open.await.unwrap().unwrap();
    assert_eq!(seen.len(), 3, "what came before the restore: {seen:?}");
    assert_eq!(h.server.resource_version(), version);
    let listed = maps.list(&ListParams::default()).await.unwrap();
    let names: Vec<_> = listed.iter().map(|map| map.metadata.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["changed", "deleted"]);
    assert!(listed.items[0].metadata.labels.is_none());
    // Nobody who is ahead hears of the writes that catch up.
    label(&maps, "deleted", "again").await;
    let ahead = events(&maps, &briefly(), &later.to_string()).await;
    assert_eq!(ahead, []);
    let seen = events(&maps, &briefly(), &version.to_string()).await;
    assert_eq!(seen, [("MODIFIED", "deleted".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn after_a_compaction_old_versions_are_expired() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let version = h.server.resource_version().to_string();
    let mut running = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    assert!(futures::poll!(running.next()).is_pending());
    h.server.compact();
    for mut stream in [
        running,
        maps.watch(&WatchParams::default(), &version).await.unwrap().boxed(),
    ] {
        let event = stream.try_next().await.unwrap().unwrap();
        let WatchEvent::Error(status) = event else {
            panic!("no error but {event:?}")
        };
        assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
        assert!(status.message.starts_with("too old resource version"));
        assert!(stream.try_next().await.unwrap().is_none());
    }
    // A new list is a new start.
    let listed = maps.list(&ListParams::default()).await.unwrap();
    let version = listed.metadata.resource_version.unwrap();
    assert_eq!(events(&maps, &briefly(), &version).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_behind_the_history_is_told() {
    let h = Harness::with_history(4);
    let maps: Api<ConfigMap> = h.api();
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let version = h.server.resource_version().to_string();
    for i in 0..6 {
        label(&maps, "a", &format!("t{i}")).await;
    }
    assert_eq!(
        events(&maps, &briefly(), &version).await,
        [("ERROR", "Expired".to_owned())]
    );
}

#[tokio::test(start_paused = true)]
async fn pages_show_one_moment() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    for name in ["a", "b", "c", "d", "e"] {
        maps.create(&PostParams::default(), &config_map(name)).await.unwrap();
    }
    let first = maps.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    maps.delete("d", &DeleteParams::default()).await.unwrap();
    maps.create(&PostParams::default(), &config_map("bb")).await.unwrap();
    label(&maps, "e", "new").await;

    let token = first.metadata.continue_.clone().unwrap();
    let rest = maps.list(&ListParams::default().continue_token(&token)).await.unwrap();
    let names: Vec<_> = rest.items.iter().map(|m| m.metadata.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["c", "d", "e"]);
    assert_eq!(rest.items[2].metadata.labels, None);
    assert_eq!(rest.metadata.resource_version, first.metadata.resource_version);
    assert_eq!(rest.metadata.continue_, None);

    h.server.compact();
    let expired = maps
        .list(&ListParams::default().continue_token(&token))
        .await
        .unwrap_err();
    assert_eq!((code(&expired), reason(&expired).as_str()), (410, "Expired"));
    // The error's own token goes on with the newest state.
    let token = crate::support::status(&expired)
        .metadata
        .as_ref()
        .unwrap()
        .continue_
        .clone()
        .unwrap();
    let rest = maps.list(&ListParams::default().continue_token(&token)).await.unwrap();
    let names: Vec<_> = rest.items.iter().map(|m| m.metadata.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["bb", "c", "e"]);
    let error = maps
        .list(&ListParams::default().continue_token("nonsense"))
        .await
        .unwrap_err();
    assert_eq!(code(&error), 400);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_as_of_the_version_asked_for() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let then = h.server.resource_version().to_string();
    maps.create(&PostParams::default(), &config_map("b")).await.unwrap();
    let at = |version: &str, exact: bool| {
        let rule = if exact {
            VersionMatch::Exact
        } else {
            VersionMatch::NotOlderThan
        };
        ListParams::default().at(version).matching(rule)
    };
    assert_eq!(crate::support::names(&maps, &at(&then, true)).await, ["a"]);
    assert_eq!(crate::support::names(&maps, &at(&then, false)).await, ["a", "b"]);
    assert_eq!(
        crate::support::names(&maps, &ListParams::default().match_any()).await,
        ["a", "b"]
    );
    let future = maps.list(&at("999999", false)).await.unwrap_err();
    assert_eq!((code(&future), reason(&future).as_str()), (504, "Timeout"));
    h.server.compact();
    let old = maps.list(&at(&then, true)).await.unwrap_err();
    assert_eq!(code(&old), 410);
}

#[tokio::test(start_paused = true)]
async fn kubes_watcher_follows_in_both_modes_and_over_a_compaction() {
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let h = Harness::new();
        let maps: Api<ConfigMap> = h.api();
        maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
        let mut stream = watcher(maps.clone(), config).boxed();
        let mut next = async || match stream.next().await.unwrap() {
            Ok(watcher::Event::Apply(o)) => format!("apply {}", o.metadata.name.unwrap()),
            Ok(watcher::Event::Delete(o)) => format!("delete {}", o.metadata.name.unwrap()),
            Ok(watcher::Event::Init) => "init".to_owned(),
            Ok(watcher::Event::InitApply(o)) => format!("found {}", o.metadata.name.unwrap()),
            Ok(watcher::Event::InitDone) => "done".to_owned(),
            Err(_) => "error".to_owned(),
        };
        for expected in ["init", "found a", "done"] {
            assert_eq!(next().await, expected);
        }
        maps.create(&PostParams::default(), &config_map("b")).await.unwrap();
        assert_eq!(next().await, "apply b");
        maps.delete("a", &DeleteParams::default()).await.unwrap();
        assert_eq!(next().await, "delete a");
        h.server.compact();
        for expected in ["error", "init", "found b", "done"] {
            assert_eq!(next().await, expected);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_and_tables_are_listed_and_watched() {
    let h = Harness::new();
    let pods: Api<Pod> = h.api();
    pods.create(&PostParams::default(), &pod("p")).await.unwrap();
    let meta = pods.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(meta.items[0].metadata.name.as_deref(), Some("p"));
    let mut stream = pods.watch_metadata(&briefly(), "0").await.unwrap().boxed();
    let Some(WatchEvent::Added(seen)) = stream.try_next().await.unwrap() else {
        panic!("no event")
    };
    assert_eq!(seen.metadata.name.as_deref(), Some("p"));

    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let path = "/api/v1/namespaces/default/pods";
    let (_, table) = h.call("GET", path, accept, None).await;
    assert_eq!(
        (table["kind"].as_str(), table["rows"][0]["cells"][0].as_str()),
        (Some("Table"), Some("p"))
    );
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let (_, table) = h
        .call("GET", &format!("{path}/p?includeObject=None"), accept, None)
        .await;
    assert_eq!(table["rows"][0]["object"], Value::Null);
    let (_, _, text) = h
        .raw(
            "GET",
            &format!("{path}?watch=1&timeoutSeconds=1&resourceVersion=0"),
            accept,
            "",
            None,
        )
        .await;
    let event: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(
        (event["type"].as_str(), event["object"]["kind"].as_str()),
        (Some("ADDED"), Some("Table"))
    );
}
