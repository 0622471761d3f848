//! A list of metadata, read for the little that says whether the mirror has the same: of large clusters it comes every minute.

use serde::Deserialize;

/// One page.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(crate) struct MetadataList {
    pub(crate) metadata: PageMetadata,
    pub(crate) items: Vec<PartialObject>,
}

/// Where the list goes on.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(crate) struct PageMetadata {
    /// Empty at the end.
    #[serde(rename = "continue")]
    pub(crate) continue_token: String,
}

/// An object of the list.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(crate) struct PartialObject {
    pub(crate) metadata: Identity,
}

/// Which object, and which state of it.
#[derive(Deserialize, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
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
}
