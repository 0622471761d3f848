//! The subresource `scale`.

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::support::Harness;

#[tokio::test(start_paused = true)]
async fn scale_reads_and_sets_the_replicas() {
    let h = Harness::new();
    let sets: Api<ReplicaSet> = h.api();
    sets.create(&PostParams::default(), &crate::support::replica_set("rs", 2))
        .await
        .unwrap();
    let scale = sets.get_scale("rs").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(2));
    assert_eq!(scale.status.unwrap().selector.as_deref(), Some("app=rs"));
    let patch = json!({"spec": {"replicas": 5}});
    sets.patch_scale("rs", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let after = sets.get("rs").await.unwrap();
    assert_eq!(
        (after.spec.unwrap().replicas, after.metadata.generation),
        (Some(5), Some(2))
    );
    let mut stale = serde_json::to_value(sets.get_scale("rs").await.unwrap()).unwrap();
    stale["metadata"]["resourceVersion"] = "1".into();
    let path = "/apis/apps/v1/namespaces/default/replicasets/rs/scale";
    assert_eq!(h.call("PUT", path, "", Some(stale)).await.0, 409);
}
