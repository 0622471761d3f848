//! Subresources of single objects.

mod binding;
mod eviction;
mod scale;
mod subresource;

pub(crate) use subresource::{Target, answer};
