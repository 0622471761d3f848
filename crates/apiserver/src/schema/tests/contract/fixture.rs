//! Compiled CRDs, sample objects and a way to change them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::schema::{CompiledCrd, CompiledVersion, FieldValidation};

static KWOK: LazyLock<BTreeMap<String, CompiledCrd>> = LazyLock::new(|| compiled(kerf_api::Provider::Kwok));

fn compiled(provider: kerf_api::Provider) -> BTreeMap<String, CompiledCrd> {
    kerf_api::crds(provider)
        .iter()
        .map(|crd| {
            let kind = crd.value["spec"]["names"]["kind"].as_str().expect("a kind").to_owned();
            (kind, CompiledCrd::compile(&crd.value).expect("our CRDs compile"))
        })
        .collect()
}

/// The only version of a kind.
pub(super) fn version(kind: &str) -> &'static CompiledVersion {
    let crd = KWOK.get(kind).expect("a kind of ours");
    ["v1", "v1beta1", "v1alpha1"]
        .iter()
        .find_map(|v| crd.version(v))
        .expect("one version")
}

/// A small valid object of each kind.
pub(super) fn sample(kind: &str) -> Value {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    match kind {
        "NodePool" => json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}},
        }),
        "NodeClaim" => json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "default-abcde"},
            "spec": {"requirements": [], "nodeClassRef": class},
        }),
        "NodeOverlay" => json!({
            "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "cheap"},
            "spec": {"requirements": []},
        }),
        "CapacityBuffer" => json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"name": "spare", "namespace": "default"}, "spec": {},
        }),
        _ => json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
        }),
    }
}

/// Where a requirement list stands in a kind.
pub(super) fn requirements_path(kind: &str) -> &'static str {
    if kind == "NodePool" {
        "spec.template.spec.requirements"
    } else {
        "spec.requirements"
    }
}

/// `object` with the value at a dotted path set, parents included. A null removes nothing: it is set as it is.
pub(super) fn with(mut object: Value, path: &str, value: Value) -> Value {
    let mut at = &mut object;
    for key in path.split('.') {
        at = &mut at[key.replace('~', ".").as_str()];
    }
    *at = value;
    object
}

/// What create stores, or the texts of all errors.
pub(super) fn create(kind: &str, mut object: Value) -> Result<Value, Vec<String>> {
    match version(kind).admit_create(&mut object, FieldValidation::Strict) {
        Ok(_) => Ok(object),
        Err(errors) => Err(errors.iter().map(ToString::to_string).collect()),
    }
}

/// The texts of all errors of an update of the sample, as changed by `old`, to `new`.
pub(super) fn update(kind: &str, old: Value, mut new: Value) -> Vec<String> {
    let stored = create(kind, old).expect("the old object is valid");
    match version(kind).admit_update(&mut new, &stored, FieldValidation::Strict) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// Asserts that the sample of a kind with one change is accepted.
pub(super) fn accepts(kind: &str, path: &str, value: Value) {
    let shown = value.to_string();
    if let Err(errors) = create(kind, with(sample(kind), path, value)) {
        panic!("{kind} {path} = {shown} should be accepted: {errors:#?}");
    }
}

/// Asserts that the sample of a kind with one change is refused with this text among the errors.
pub(super) fn refuses(kind: &str, path: &str, value: Value, text: &str) {
    let shown = value.to_string();
    match create(kind, with(sample(kind), path, value)) {
        Ok(_) => panic!("{kind} {path} = {shown} should be refused with {text}"),
        Err(errors) => assert!(
            errors.iter().any(|e| e == text),
            "{kind} {path} = {shown}: {errors:#?}\nwanted {text}"
        ),
    }
}
