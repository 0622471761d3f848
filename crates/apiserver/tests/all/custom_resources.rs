//! Kinds that definitions add.

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::support::{Harness, code, from, message};

fn widgets_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["toys"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "additionalPrinterColumns": [{"name": "Size", "type": "string", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {
                        "type": "object", "required": ["size"],
                        "properties": {
                            "size": {"type": "string", "enum": ["S", "L"]},
                            "replicas": {"type": "integer", "default": 3},
                            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                        },
                        "x-kubernetes-validations": [
                            {"rule": "self.replicas < 10", "message": "too many"},
                        ],
                    },
                    "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                }}},
            }],
        },
    })
}

fn widgets(h: &Harness) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("example.com", "v1", "Widget");
    Api::all_with(h.client(), &ApiResource::from_gvk_with_plural(&gvk, "widgets"))
}

pub(crate) async fn install_widgets(h: &Harness) -> Value {
    let (code, crd) = h
        .call(
            "POST",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "",
            Some(widgets_crd()),
        )
        .await;
    assert_eq!(code, 201, "{crd}");
    crd
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_served_at_once() {
    let h = Harness::new();
    assert_eq!(h.call("GET", "/apis/example.com/v1/widgets", "", None).await.0, 404);
    let crd = install_widgets(&h).await;
    let conditions = crd["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|c| c["status"] == "True"));
    assert_eq!(crd["status"]["acceptedNames"]["listKind"], "WidgetList");

    let api = widgets(&h);
    let widget = |spec: Value| -> DynamicObject {
        from(json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}))
    };
    let params = PostParams::default();
    let error = api.create(&params, &widget(json!({"size": "M"}))).await.unwrap_err();
    assert!(
        message(&error).contains("Widget.example.com \"w\" is invalid: ")
            && message(&error).contains("spec.size: Unsupported value: \"M\""),
        "{error}"
    );
    let error = api
        .create(&params, &widget(json!({"size": "S", "replicas": 10})))
        .await
        .unwrap_err();
    assert!(message(&error).contains("too many"), "{error}");
    let below = widget(json!({"size": "S", "replicas": -1}));
    let error = api.create(&params, &below).await.unwrap_err();
    let scale = ".spec.replicas: Invalid value: -1: should be a non-negative integer";
    assert!(message(&error).contains(scale), "{error}");
    let colored = serde_json::to_value(widget(json!({"size": "S", "color": "red"}))).unwrap();
    let path = "/apis/example.com/v1/widgets?fieldValidation=Strict";
    let (found, status) = h.call("POST", path, "", Some(colored)).await;
    assert_eq!(found, 400);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("unknown field \"spec.color\""),
        "{status}"
    );
    let mut with_status = widget(json!({"size": "S", "color": "red"}));
    with_status.data["status"] = json!({"replicas": 7});
    let made = api.create(&params, &with_status).await.unwrap();
    assert_eq!(made.data, json!({"spec": {"size": "S", "replicas": 3}}));
    assert_eq!(made.metadata.generation, Some(1));

    let status = json!({"status": {"replicas": 2}, "spec": {"size": "L"}});
    let after = api
        .patch_status("w", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
    assert_eq!(
        after.data,
        json!({"spec": {"size": "S", "replicas": 3}, "status": {"replicas": 2}})
    );
    assert_eq!(after.metadata.generation, Some(1));
    let scale = api.get_scale("w").await.unwrap();
    assert_eq!(
        (scale.spec.unwrap().replicas, scale.status.unwrap().replicas),
        (Some(3), 2)
    );
    api.patch_scale(
        "w",
        &PatchParams::default(),
        &Patch::Merge(json!({"spec": {"replicas": 4}})),
    )
    .await
    .unwrap();
    assert_eq!(api.get("w").await.unwrap().metadata.generation, Some(2));

    // A custom resource is never updated without a version, and takes no strategic merge patch.
    let mut blind = api.get("w").await.unwrap();
    blind.metadata.resource_version = None;
    let error = api.replace("w", &params, &blind).await.unwrap_err();
    assert!(
        message(&error).contains("metadata.resourceVersion: Invalid value: 0: must be specified for an update"),
        "{error}"
    );
    let error = api
        .patch("w", &PatchParams::default(), &Patch::Strategic(json!({})))
        .await
        .unwrap_err();
    assert_eq!(code(&error), 415);

    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let (_, table) = h.call("GET", "/apis/example.com/v1/widgets", accept, None).await;
    assert_eq!(table["columnDefinitions"][1]["name"], "Size");
    assert_eq!(table["rows"][0]["cells"], json!(["w", "S"]));

    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    assert_eq!(h.call("DELETE", crds, "", None).await.0, 200);
    assert_eq!(h.call("GET", "/apis/example.com/v1/widgets", "", None).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_broken_definition_is_refused() {
    let h = Harness::new();
    let mut crd = widgets_crd();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"][0]["rule"] =
        "self.nope(".into();
    let (code, status) = h
        .call(
            "POST",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "",
            Some(crd),
        )
        .await;
    assert_eq!(code, 422, "{status}");
}

#[tokio::test(start_paused = true)]
async fn our_own_definitions_are_served_and_scaled() {
    let h = Harness::new();
    for crd in kerf_api::crds::crds(kerf_api::crds::Provider::Kwok) {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (code, answer) = h.call("POST", path, "", Some(crd.value)).await;
        assert_eq!(code, 201, "{}: {answer}", crd.name);
    }
    let pool = json!({"metadata": {"name": "fixed"}, "spec": {"replicas": 2, "template": {"spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [],
    }}}});
    let pools = "/apis/karpenter.sh/v1/nodepools";
    let (code, made) = h.call("POST", pools, "", Some(pool)).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(
        made["spec"]["disruption"]["consolidationPolicy"],
        "WhenEmptyOrUnderutilized"
    );
    let scale = json!({"spec": {"replicas": 5}});
    let path = format!("{pools}/fixed/scale");
    let (code, _, text) = h
        .raw("PATCH", &path, "", "application/merge-patch+json", Some(scale))
        .await;
    assert_eq!(code, 200, "{text}");
    assert_eq!(
        h.call("GET", &format!("{pools}/fixed"), "", None).await.1["spec"]["replicas"],
        5
    );
}
