//! Objects as text, whatever their kind.

use std::borrow::Cow;
use std::sync::OnceLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::readable::identity;

/// An object of a list or of a watch event, as its JSON text.
///
/// Lists and watches of all kinds are read as this type, so that the code for them is compiled once and not for each kind.
#[derive(Clone, Debug)]
pub(crate) struct RawObject {
    text: Box<RawValue>,
    /// Read when it is first asked for, which for the objects of a list is never.
    identity: OnceLock<Box<ObjectMeta>>,
    /// The metadata as a caller changed it.
    changed: Option<Box<ObjectMeta>>,
}

impl RawObject {
    /// The JSON text of the object.
    pub(crate) fn text(&self) -> &str {
        self.text.get()
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self {
            text: Box::<RawValue>::deserialize(deserializer)?,
            identity: OnceLock::new(),
            changed: None,
        })
    }
}

/// Of the metadata, name, namespace, unique id and version are read. All are absent where they cannot be read.
impl Resource for RawObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        of.kind.as_str().into()
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        of.group.as_str().into()
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        of.version.as_str().into()
    }

    fn api_version(of: &ApiResource) -> Cow<'_, str> {
        of.api_version.as_str().into()
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        of.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        let read = || Box::new(identity(self.text()));
        self.changed
            .as_deref()
            .unwrap_or_else(|| self.identity.get_or_init(read))
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        let now = Box::new(self.meta().clone());
        self.changed.insert(now)
    }
}
