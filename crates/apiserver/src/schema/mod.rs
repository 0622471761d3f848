//! What objects may look like: the table of built-in types, and CRD schemas that default, prune and validate objects.

pub(crate) mod builtin;
