//! ResourceQuotas: which quotas count an object, and how much it uses of each quota resource. Pure functions of objects.

mod amounts;
mod scope;
mod usage;

pub(crate) use amounts::{Amounts, amounts, text};
pub(crate) use scope::counts;
pub(crate) use usage::{counted_resource, unspecified, usage};
