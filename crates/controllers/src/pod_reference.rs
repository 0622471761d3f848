//! References to pods, for events about them.

use kerf_runtime::ObjectRef;

/// A reference to a pod by namespace, name and uid.
pub(crate) fn pod_ref(namespace: &str, name: &str, uid: &str) -> ObjectRef {
    ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}
