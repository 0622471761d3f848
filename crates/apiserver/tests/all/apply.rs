//! Server-side apply.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::{Harness, code, reason};

#[tokio::test(start_paused = true)]
async fn apply_owns_fields() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    let apply = |data: Value| {
        Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}))
    };
    let one = PatchParams::apply("one");
    let made = maps
        .patch("a", &one, &apply(json!({"x": "1", "y": "1"})))
        .await
        .unwrap();
    assert_eq!(
        made.metadata.managed_fields.as_ref().unwrap()[0].manager.as_deref(),
        Some("one")
    );
    // The same again writes nothing.
    let again = maps
        .patch("a", &one, &apply(json!({"x": "1", "y": "1"})))
        .await
        .unwrap();
    assert_eq!(again.metadata.resource_version, made.metadata.resource_version);

    let two = PatchParams::apply("two");
    let error = maps.patch("a", &two, &apply(json!({"x": "2"}))).await.unwrap_err();
    assert_eq!((code(&error), reason(&error).as_str()), (409, "Conflict"));
    let causes = &crate::support::status(&error).details.as_ref().unwrap().causes;
    assert_eq!(
        (causes[0].reason.as_str(), causes[0].field.as_str()),
        ("FieldManagerConflict", ".data.x")
    );
    let forced = maps.patch("a", &two.force(), &apply(json!({"x": "2"}))).await.unwrap();
    assert_eq!(forced.data.unwrap()["x"], "2");
    // A field that a manager no longer applies is removed, unless another manager owns it.
    let after = maps.patch("a", &one, &apply(json!({}))).await.unwrap();
    assert_eq!(serde_json::to_value(after.data).unwrap(), json!({"x": "2"}));

    let nobody = PatchParams::default();
    let error = maps.patch("a", &nobody, &apply(json!({}))).await.unwrap_err();
    assert!(
        matches!(error, kube::Error::BuildRequest(_)) || code(&error) == 422,
        "{error}"
    );
}
