//! The path of a value in an object, formatted only for errors.

use super::field_error::{child, index};

/// A path from the object's root as a linked list on the stack of the code that walks the object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl Place<'_> {
    /// As messages write it: `spec.containers[0].name`; nothing for the root.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(parent, name) => child(&parent.path(), name),
            Self::Item(parent, at) => index(&parent.path(), *at),
        }
    }
}
