//! Create, read, update, patch and delete through a kube client on the in-process server.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use serde_json::json;

use crate::support::{Harness, code, config_map, from, pod, reason};

#[tokio::test(start_paused = true)]
async fn create_fills_in_what_the_server_owns() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    let made = maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let meta = &made.metadata;
    assert_eq!(meta.namespace.as_deref(), Some("default"));
    assert_eq!(meta.uid.as_ref().map(String::len), Some(36));
    assert_eq!(
        meta.creation_timestamp.as_ref().unwrap().0.to_string(),
        "2026-01-01T00:00:00Z"
    );
    assert!(meta.resource_version.as_ref().unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(maps.get("a").await.unwrap(), made);

    let again = maps.create(&PostParams::default(), &config_map("a")).await.unwrap_err();
    assert_eq!((code(&again), reason(&again).as_str()), (409, "AlreadyExists"));
    let missing = maps.get("b").await.unwrap_err();
    assert_eq!(crate::support::message(&missing), "configmaps \"b\" not found");
}

#[tokio::test(start_paused = true)]
async fn generated_names_differ_and_are_the_same_for_the_same_seed() {
    let names = |seed| async move {
        let h = Harness::seeded(seed);
        let maps: Api<ConfigMap> = h.api();
        let mut names = Vec::new();
        for _ in 0..3 {
            let map = from(json!({"metadata": {"generateName": "web-"}}));
            names.push(
                maps.create(&PostParams::default(), &map)
                    .await
                    .unwrap()
                    .metadata
                    .name
                    .unwrap(),
            );
        }
        names
    };
    let first = names(1).await;
    assert!(first.iter().all(|n| n.starts_with("web-") && n.len() == 9), "{first:?}");
    assert_eq!(first, names(1).await);
    assert_ne!(first, names(2).await);
}

#[tokio::test(start_paused = true)]
async fn the_namespace_must_exist() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = Api::namespaced(h.client(), "nowhere");
    let error = maps.create(&PostParams::default(), &config_map("a")).await.unwrap_err();
    assert_eq!(
        (code(&error), crate::support::message(&error).as_str()),
        (404, "namespaces \"nowhere\" not found")
    );
}

#[tokio::test(start_paused = true)]
async fn an_update_with_an_old_version_conflicts() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    let first = maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let mut second = first.clone();
    second.data = Some([("k".to_owned(), "2".to_owned())].into());
    let stored = maps.replace("a", &PostParams::default(), &second).await.unwrap();
    assert_ne!(stored.metadata.resource_version, first.metadata.resource_version);
    let stale = maps.replace("a", &PostParams::default(), &second).await.unwrap_err();
    assert_eq!((code(&stale), reason(&stale).as_str()), (409, "Conflict"));
    assert!(crate::support::message(&stale).contains("the object has been modified"));

    // Without a version the update is unconditional.
    second.metadata.resource_version = None;
    second.data = Some([("k".to_owned(), "3".to_owned())].into());
    let stored = maps.replace("a", &PostParams::default(), &second).await.unwrap();

    // An update that changes nothing keeps the version.
    let same = maps.replace("a", &PostParams::default(), &stored).await.unwrap();
    assert_eq!(same.metadata.resource_version, stored.metadata.resource_version);
}

#[tokio::test(start_paused = true)]
async fn status_and_spec_are_written_apart() {
    let h = Harness::new();
    let sets: Api<ReplicaSet> = h.api();
    let made = sets
        .create(&PostParams::default(), &crate::support::replica_set("rs", 2))
        .await
        .unwrap();
    assert_eq!(made.metadata.generation, Some(1));
    assert_eq!(made.status.as_ref().map(|s| s.replicas), Some(0));

    let patch = json!({"spec": {"replicas": 9}, "status": {"replicas": 2}});
    let after = sets
        .patch_status("rs", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    assert_eq!(after.spec.as_ref().unwrap().replicas, Some(2));
    assert_eq!(after.status.as_ref().unwrap().replicas, 2);
    assert_eq!(after.metadata.generation, Some(1));

    let after = sets
        .patch("rs", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    assert_eq!(after.spec.as_ref().unwrap().replicas, Some(9));
    assert_eq!(after.status.as_ref().unwrap().replicas, 2);
    assert_eq!(after.metadata.generation, Some(2));

    let mut replaced = after.clone();
    replaced.status.as_mut().unwrap().replicas = 5;
    let after = sets
        .replace_status("rs", &PostParams::default(), &replaced)
        .await
        .unwrap();
    assert_eq!(after.status.unwrap().replicas, 5);
}

#[tokio::test(start_paused = true)]
async fn patches_carry_preconditions() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    let made = maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let params = PatchParams::default();
    let stale = json!({"metadata": {"resourceVersion": "1"}, "data": {"k": "x"}});
    let error = maps.patch("a", &params, &Patch::Merge(&stale)).await.unwrap_err();
    assert_eq!(code(&error), 409);
    let other = json!({"metadata": {"uid": "other"}, "data": {"k": "x"}});
    let error = maps.patch("a", &params, &Patch::Merge(&other)).await.unwrap_err();
    assert!(
        crate::support::message(&error).contains("UID in precondition: other"),
        "{error}"
    );
    let good = json!({"metadata": {"resourceVersion": made.metadata.resource_version}, "data": {"k": "x"}});
    maps.patch("a", &params, &Patch::Merge(&good)).await.unwrap();

    let operations: json_patch::Patch =
        serde_json::from_value(json!([{"op": "add", "path": "/data/l", "value": "y"}])).unwrap();
    let after = maps.patch("a", &params, &Patch::Json::<()>(operations)).await.unwrap();
    assert_eq!(after.data.unwrap().get("l").map(String::as_str), Some("y"));
    let error = maps.patch("b", &params, &Patch::Merge(&good)).await.unwrap_err();
    assert_eq!(code(&error), 404);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_stores_nothing() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = maps.create(&dry, &config_map("a")).await.unwrap();
    assert!(made.metadata.uid.is_some());
    assert_eq!(code(&maps.get("a").await.unwrap_err()), 404);
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    maps.delete(
        "a",
        &DeleteParams {
            dry_run: true,
            ..DeleteParams::default()
        },
    )
    .await
    .unwrap();
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let drafted = maps
        .patch("a", &dry, &Patch::Merge(json!({"data": {"k": "2"}})))
        .await
        .unwrap();
    assert_eq!(drafted.data.unwrap()["k"], "2");
    assert_eq!(maps.get("a").await.unwrap().data.unwrap()["k"], "1");
}

#[tokio::test(start_paused = true)]
async fn delete_honours_preconditions() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    let made = maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let with_uid = |uid: Option<String>| DeleteParams {
        preconditions: Some(Preconditions {
            uid,
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let error = maps.delete("a", &with_uid(Some("x".to_owned()))).await.unwrap_err();
    assert_eq!((code(&error), reason(&error).as_str()), (409, "Conflict"));
    let deleted = maps.delete("a", &with_uid(made.metadata.uid)).await.unwrap();
    assert!(deleted.is_right());
    assert_eq!(
        code(&maps.delete("a", &DeleteParams::default()).await.unwrap_err()),
        404
    );
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_the_object() {
    let h = Harness::new();
    let nodes: Api<Node> = Api::all(h.client());
    let node = from(json!({"metadata": {"name": "n", "finalizers": ["karpenter.sh/termination"]}}));
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let marked = nodes
        .delete("n", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .unwrap();
    assert!(marked.metadata.deletion_timestamp.is_some());

    let add = json!({"metadata": {"finalizers": ["karpenter.sh/termination", "other/one"]}});
    let error = nodes
        .patch("n", &PatchParams::default(), &Patch::Merge(&add))
        .await
        .unwrap_err();
    assert_eq!(code(&error), 422);
    assert!(
        crate::support::message(&error).contains("no new finalizers can be added"),
        "{error}"
    );

    // A second delete is no error and changes nothing.
    let again = nodes
        .delete("n", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .unwrap();
    assert_eq!(again.metadata.resource_version, marked.metadata.resource_version);

    let clear = json!({"metadata": {"finalizers": null}});
    nodes
        .patch("n", &PatchParams::default(), &Patch::Merge(&clear))
        .await
        .unwrap();
    assert_eq!(code(&nodes.get("n").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_ends_gracefully_and_an_unbound_one_at_once() {
    let h = Harness::new();
    let pods: Api<Pod> = h.api();
    pods.create(&PostParams::default(), &pod("pending")).await.unwrap();
    pods.delete("pending", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(&pods.get("pending").await.unwrap_err()), 404);

    pods.create(&PostParams::default(), &pod("bound")).await.unwrap();
    crate::support::bind(&pods, "bound", "n").await.unwrap();
    let going = pods
        .delete("bound", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .unwrap();
    assert_eq!(going.metadata.deletion_grace_period_seconds, Some(30));
    assert_eq!(
        going.metadata.deletion_timestamp.as_ref().unwrap().0.to_string(),
        "2026-01-01T00:00:30Z"
    );

    // A shorter grace brings the end nearer, a longer one does nothing.
    let params = |s| DeleteParams {
        grace_period_seconds: Some(s),
        ..DeleteParams::default()
    };
    let shorter = pods.delete("bound", &params(5)).await.unwrap().left().unwrap();
    assert_eq!(shorter.metadata.deletion_grace_period_seconds, Some(5));
    let longer = pods.delete("bound", &params(60)).await.unwrap().left().unwrap();
    assert_eq!(longer.metadata.deletion_grace_period_seconds, Some(5));

    // The kubelet deletes with grace 0 when the containers have ended.
    pods.delete("bound", &params(0)).await.unwrap();
    assert_eq!(code(&pods.get("bound").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_once() {
    let h = Harness::new();
    let pods: Api<Pod> = h.api();
    pods.create(&PostParams::default(), &pod("p")).await.unwrap();
    crate::support::bind(&pods, "p", "n").await.unwrap();
    let bound = pods.get("p").await.unwrap();
    assert_eq!(bound.spec.unwrap().node_name.as_deref(), Some("n"));
    let conditions = bound.status.unwrap().conditions.unwrap();
    assert!(
        conditions
            .iter()
            .any(|c| c.type_ == "PodScheduled" && c.status == "True")
    );
    let error = crate::support::bind(&pods, "p", "m").await.unwrap_err();
    assert_eq!((code(&error), reason(&error).as_str()), (409, "Conflict"));
    assert_eq!(code(&crate::support::bind(&pods, "q", "m").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_with_its_content() {
    let h = Harness::new();
    let namespaces: Api<Namespace> = Api::all(h.client());
    namespaces
        .create(&PostParams::default(), &from(json!({"metadata": {"name": "team"}})))
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(h.client(), "team");
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let mut held = config_map("held");
    held.metadata.finalizers = Some(vec!["x/hold".to_owned()]);
    maps.create(&PostParams::default(), &held).await.unwrap();

    let going = namespaces
        .delete("team", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .unwrap();
    assert_eq!(going.status.unwrap().phase.as_deref(), Some("Terminating"));
    assert_eq!(code(&maps.get("a").await.unwrap_err()), 404);
    let error = maps.create(&PostParams::default(), &config_map("b")).await.unwrap_err();
    assert_eq!(code(&error), 403);
    assert!(
        crate::support::message(&error).contains("because it is being terminated"),
        "{error}"
    );

    let clear = json!({"metadata": {"finalizers": []}});
    maps.patch("held", &PatchParams::default(), &Patch::Merge(&clear))
        .await
        .unwrap();
    assert_eq!(code(&namespaces.get("team").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn dependents_follow_their_owner() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    let owner = maps.create(&PostParams::default(), &config_map("owner")).await.unwrap();
    let other = maps.create(&PostParams::default(), &config_map("other")).await.unwrap();
    maps.create(&PostParams::default(), &crate::support::owned("one", &[&owner]))
        .await
        .unwrap();
    maps.create(&PostParams::default(), &crate::support::owned("two", &[&owner, &other]))
        .await
        .unwrap();
    let one = maps.get("one").await.unwrap();
    maps.create(&PostParams::default(), &crate::support::owned("grandchild", &[&one]))
        .await
        .unwrap();

    maps.delete("owner", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(&maps.get("one").await.unwrap_err()), 404);
    assert_eq!(code(&maps.get("grandchild").await.unwrap_err()), 404);
    // An object with another owner stays and forgets the one that is gone.
    let two = maps.get("two").await.unwrap();
    assert_eq!(two.metadata.owner_references.unwrap().len(), 1);
    // An object made for an owner that is gone goes, too.
    maps.create(&PostParams::default(), &crate::support::owned("late", &[&owner]))
        .await
        .unwrap();
    assert_eq!(code(&maps.get("late").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn foreground_waits_for_dependents_and_orphan_keeps_them() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    let policy = |p| DeleteParams {
        propagation_policy: Some(p),
        ..DeleteParams::default()
    };
    let owner = maps.create(&PostParams::default(), &config_map("owner")).await.unwrap();
    let mut child = crate::support::owned("child", &[&owner]);
    child.metadata.finalizers = Some(vec!["x/hold".to_owned()]);
    maps.create(&PostParams::default(), &child).await.unwrap();

    maps.delete("owner", &policy(PropagationPolicy::Foreground))
        .await
        .unwrap();
    let waiting = maps.get("owner").await.unwrap();
    assert_eq!(waiting.metadata.finalizers.unwrap(), ["foregroundDeletion"]);
    assert!(maps.get("child").await.unwrap().metadata.deletion_timestamp.is_some());
    let clear = json!({"metadata": {"finalizers": null}});
    maps.patch("child", &PatchParams::default(), &Patch::Merge(&clear))
        .await
        .unwrap();
    assert_eq!(code(&maps.get("child").await.unwrap_err()), 404);
    assert_eq!(code(&maps.get("owner").await.unwrap_err()), 404);

    let owner = maps.create(&PostParams::default(), &config_map("owner")).await.unwrap();
    maps.create(&PostParams::default(), &crate::support::owned("kept", &[&owner]))
        .await
        .unwrap();
    maps.delete("owner", &policy(PropagationPolicy::Orphan)).await.unwrap();
    assert_eq!(code(&maps.get("owner").await.unwrap_err()), 404);
    assert_eq!(maps.get("kept").await.unwrap().metadata.owner_references, None);
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_by_selector() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    for (name, tier) in [("a", "web"), ("b", "db"), ("c", "web")] {
        let mut map = config_map(name);
        map.metadata.labels = Some([("tier".to_owned(), tier.to_owned())].into());
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    maps.delete_collection(&DeleteParams::default(), &ListParams::default().labels("tier=web"))
        .await
        .unwrap();
    assert_eq!(crate::support::names(&maps, &ListParams::default()).await, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_lives_for_an_hour_after_its_last_write() {
    let h = Harness::new();
    let events: Api<k8s_openapi::api::core::v1::Event> = h.api();
    let event = from(json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}}));
    events.create(&PostParams::default(), &event).await.unwrap();
    tokio::time::advance(std::time::Duration::from_secs(3000)).await;
    events
        .patch("e", &PatchParams::default(), &Patch::Merge(json!({"count": 2})))
        .await
        .unwrap();
    tokio::time::advance(std::time::Duration::from_secs(3000)).await;
    assert_eq!(events.get("e").await.unwrap().count, Some(2));
    tokio::time::advance(std::time::Duration::from_secs(600)).await;
    assert_eq!(code(&events.get("e").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_a_finalizer_goes_when_it_is_removed() {
    let h = Harness::new();
    let namespaces: Api<Namespace> = Api::all(h.client());
    let held = from(json!({"metadata": {"name": "held", "finalizers": ["x/hold"]}}));
    namespaces.create(&PostParams::default(), &held).await.unwrap();
    namespaces.delete("held", &DeleteParams::default()).await.unwrap();
    let clear = json!({"metadata": {"finalizers": null}});
    namespaces
        .patch("held", &PatchParams::default(), &Patch::Merge(&clear))
        .await
        .unwrap();
    assert_eq!(code(&namespaces.get("held").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn events_of_both_groups_are_the_same_objects() {
    let h = Harness::new();
    let core: Api<k8s_openapi::api::core::v1::Event> = h.api();
    let new: Api<k8s_openapi::api::events::v1::Event> = h.api();
    let event = from(json!({
        "metadata": {"name": "e"}, "reason": "Why", "note": "what", "type": "Normal", "action": "x",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}, "reportingController": "kerf",
        "reportingInstance": "kerf-1", "eventTime": "2026-01-01T00:00:00.000000Z",
    }));
    let made = new.create(&PostParams::default(), &event).await.unwrap();
    assert_eq!(made.note.as_deref(), Some("what"));
    let seen = core.get("e").await.unwrap();
    assert_eq!(seen.message.as_deref(), Some("what"));
    assert_eq!(seen.involved_object.name.as_deref(), Some("p"));
    let found = core
        .list(&ListParams::default().fields("involvedObject.name=p,reason=Why"))
        .await
        .unwrap();
    assert_eq!(found.items.len(), 1);
    assert_eq!(
        new.list(&ListParams::default().fields("regarding.name=q"))
            .await
            .unwrap()
            .items
            .len(),
        0
    );
}
