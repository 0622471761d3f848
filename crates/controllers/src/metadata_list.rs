//! A `PartialObjectMetadataList`. Only the fields that the comparison with the mirror needs are decoded, because a large cluster answers
//! with many objects every minute.

use serde::{Deserialize, Deserializer};

/// One page of the list.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(crate) struct MetadataList {
    pub(crate) metadata: PageMetadata,
    /// API servers encode an empty list as `null`.
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) items: Vec<PartialObject>,
}

/// The metadata of a page.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(crate) struct PageMetadata {
    /// The token that asks for the next page; empty on the last one.
    #[serde(rename = "continue", deserialize_with = "null_as_default")]
    pub(crate) continue_token: String,
    /// The version of the list.
    #[serde(rename = "resourceVersion", deserialize_with = "null_as_default")]
    pub(crate) resource_version: String,
}

/// An object of the list.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(crate) struct PartialObject {
    pub(crate) metadata: Identity,
}

/// Which object it is, and which version of it.
#[derive(Deserialize, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Identity {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) namespace: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) uid: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) resource_version: String,
}

/// Reads `null` like an absent field.
fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_fields_are_empty() {
        let text = r#"{"metadata": {"resourceVersion": "7", "continue": "next"}, "items": [
            {"kind": "PartialObjectMetadata", "metadata": {"name": "a", "uid": "u", "resourceVersion": "5", "labels": {"x": "y"}}}
        ]}"#;
        let list: MetadataList = serde_json::from_str(text).expect("a list");
        assert_eq!(list.metadata.continue_token, "next");
        let object = &list.items[0].metadata;
        assert_eq!(
            [
                &*object.name,
                &*object.namespace,
                &*object.uid,
                &*object.resource_version
            ],
            ["a", "", "u", "5"]
        );
        let last: MetadataList = serde_json::from_str(r#"{"items": []}"#).expect("a list");
        assert!(last.metadata.continue_token.is_empty());
    }

    #[test]
    fn the_empty_list_of_a_real_api_server_is_read() {
        let text = r#"{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "412", "continue": null}, "items": null}"#;
        let list: MetadataList = serde_json::from_str(text).expect("a list");
        assert!(list.items.is_empty() && list.metadata.continue_token.is_empty());
    }
}
