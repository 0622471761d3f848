//! The kinds a mirror holds, and the events of their objects.

use crate::key::Key;
use crate::lean::{
    LeanCsiNode, LeanDaemonSet, LeanNamespace, LeanNode, LeanPdb, LeanPod, LeanPv, LeanPvc, LeanStorageClass,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kerf_api::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool};
use kube::Resource;
use std::sync::Arc;

/// An event of one kind of objects.
#[derive(Clone, Debug)]
pub enum Event<K> {
    /// An object is there, new or changed.
    Apply(K),
    /// An object is gone.
    Delete(K),
    /// These are all the objects there are: a first list or a relist.
    Reset(Vec<K>),
}

macro_rules! kinds {
    ($($kind:ident($type:ty)),+ $(,)?) => {
        /// A kind of object the mirror holds.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[expect(missing_docs, reason = "the names are the kinds' own")]
        pub enum Kind { $($kind),+ }

        impl Kind {
    /// Whether decisions need a complete list of the kind. NodeOverlays and CapacityBuffers are watched with their feature gates on only.
    pub fn is_required(self) -> bool {
        !matches!(self, Self::NodeOverlay | Self::CapacityBuffer)
    }

    /// Whether an object of the kind that is missing may mean that an instance has no owner.
    pub(crate) fn stands_for_machines(self) -> bool {
        matches!(self, Self::Node | Self::NodeClaim)
    }

            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];
        }

        /// An object of any kind the mirror holds.
        #[derive(Clone, Copy, Debug)]
        #[expect(missing_docs, reason = "the names are the kinds' own")]
        pub enum Object<'a> { $($kind(&'a Arc<$type>)),+ }

        $(
            impl Mirrored for $type {
                const KIND: Kind = Kind::$kind;

                fn as_object(this: &Arc<Self>) -> Object<'_> {
                    Object::$kind(this)
                }
            }
        )+
    };
}

/// A type whose objects the mirror holds.
pub trait Mirrored: Resource<DynamicType = ()> {
    /// Its kind.
    const KIND: Kind;
    /// The object as one of any kind.
    fn as_object(this: &Arc<Self>) -> Object<'_>;
}

kinds! {
    Pod(LeanPod),
    Node(LeanNode),
    NodeClaim(NodeClaim),
    NodePool(NodePool),
    DaemonSet(LeanDaemonSet),
    PersistentVolumeClaim(LeanPvc),
    PersistentVolume(LeanPv),
    StorageClass(LeanStorageClass),
    CsiNode(LeanCsiNode),
    PodDisruptionBudget(LeanPdb),
    Namespace(LeanNamespace),
    NodeOverlay(NodeOverlay),
    CapacityBuffer(CapacityBuffer),
}

impl Kind {
    fn is_namespaced(self) -> bool {
        matches!(
            self,
            Self::Pod
                | Self::DaemonSet
                | Self::PersistentVolumeClaim
                | Self::PodDisruptionBudget
                | Self::CapacityBuffer
        )
    }
}

/// The key, the unique id and the version of an object.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) key: Key,
    pub(crate) uid: Arc<str>,
    /// The resource version as a number, 0 where there is none.
    pub(crate) version: u64,
}

impl Identity {
    /// `None` without a name or unique id: no API server has such an object, so the mirror ignores it. `kerf_runtime::Readable` reports it where
    /// it is read.
    pub(crate) fn of(kind: Kind, meta: &ObjectMeta) -> Option<Self> {
        let (name, uid) = name_and_uid(meta)?;
        let namespace = match (kind.is_namespaced(), meta.namespace.as_deref()) {
            (true, Some(namespace)) => namespace,
            (true, None) => "default",
            (false, _) => "",
        };
        let version = meta
            .resource_version
            .as_deref()
            .and_then(|version| version.parse().ok());
        Some(Self {
            key: (Arc::from(namespace), Arc::from(name)),
            uid: Arc::from(uid),
            version: version.unwrap_or(0),
        })
    }
}

/// The name and the unique id of an object; `None` if one of them is absent or empty.
pub(crate) fn name_and_uid(meta: &ObjectMeta) -> Option<(&str, &str)> {
    let name = meta.name.as_deref().filter(|name| !name.is_empty())?;
    let uid = meta.uid.as_deref().filter(|uid| !uid.is_empty())?;
    Some((name, uid))
}

/// The changes of a relist that no watch event announced. They are a sign of missed events or, if there are many, of a restored etcd.
///
/// The mirror follows the list in any case. Code that deletes instances because an object is missing must check it first: an empty list,
/// or one with older objects than before, proves nothing about machines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResetReport {
    /// The kind that was listed.
    pub kind: Kind,
    /// How many objects the list had.
    pub listed: usize,
    /// How many objects the mirror had before.
    pub before: usize,
    /// Objects that are gone, as `namespace/name` or name, sorted.
    pub vanished: Vec<String>,
    /// How many of those were being deleted, so that their end is no surprise.
    pub deleted: usize,
    /// Objects that are older than the mirror knew them, sorted.
    pub rewound: Vec<String>,
}

impl ResetReport {
    /// Whether the list may be wrong: it is empty although objects were known that were not being deleted, or it has older versions of
    /// objects.
    pub fn is_suspicious(&self) -> bool {
        !self.rewound.is_empty() || (self.listed == 0 && self.before > 0 && self.vanished.len() > self.deleted)
    }
}

/// A key as people write it.
pub(crate) fn shown(key: &Key) -> String {
    if key.0.is_empty() {
        key.1.to_string()
    } else {
        format!("{}/{}", key.0, key.1)
    }
}
