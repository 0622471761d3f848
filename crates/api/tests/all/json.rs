//! Kinds as JSON.

use kerf_api::NodePool;
use kerf_api::json::{FromJson, ToJson};
use serde_json::json;

#[test]
fn an_object_is_the_same_from_text_and_from_a_value_and_comes_back() {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let written = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"},
        "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}},
    });
    let text = written.to_string();
    let (read, of_value) = (
        NodePool::from_text(&text).unwrap(),
        NodePool::from_value(written).unwrap(),
    );
    assert_eq!(read.to_value().unwrap(), of_value.to_value().unwrap());
    let again = NodePool::from_text(std::str::from_utf8(&read.to_bytes().unwrap()).unwrap()).unwrap();
    assert_eq!(again.to_value().unwrap(), read.to_value().unwrap());
    let error = NodePool::from_text(r#"{"metadata": {"name": 7}}"#).unwrap_err();
    assert!(error.to_string().contains("line 1"), "{error}");
}
