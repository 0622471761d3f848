//! Which resources the server serves: the built-in table plus what custom resource definitions add.

mod builtin;
mod conversion;
mod custom;
mod resource;
mod served;

pub(crate) use builtin::builtins;
pub(crate) use conversion::{converted, stored_form};
pub(crate) use custom::custom_resource;
pub(crate) use resource::{Names, Resource, ScalePaths, Verbs, api_version};
pub(crate) use served::Registry;
