//! The observer: a callback for every write, in order.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::storage::Change;

/// One write.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The API group, "" for the core group.
    pub group: &'a str,
    /// The resource, as in paths.
    pub plural: &'a str,
    /// What happened.
    pub change: Change,
    /// The object after the write; of a deletion its last state.
    pub object: &'a Value,
}

/// The callback. It runs before watches deliver the write, must be fast and must not call the server.
#[derive(Clone)]
pub(crate) struct Observer(Arc<dyn Fn(Write<'_>) + Send + Sync>);

impl Observer {
    pub(crate) fn new(callback: impl Fn(Write<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(callback))
    }

    pub(crate) fn notify(&self, write: Write<'_>) {
        (self.0)(write);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}
