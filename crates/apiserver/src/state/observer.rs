//! Looking on: every write, in order, as it is carried out.

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

/// Is told of every write while it happens, before any watcher is. It must be quick and must not call the server.
#[derive(Clone)]
pub(crate) struct Observer(Arc<dyn Fn(Write<'_>) + Send + Sync>);

impl Observer {
    pub(crate) fn new(look: impl Fn(Write<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    pub(crate) fn tell(&self, write: Write<'_>) {
        (self.0)(write);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}
