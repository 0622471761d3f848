//! One page of a list.

use std::sync::Arc;

use super::object::Stored;

/// Objects of a list with what the client needs to get the next page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) version: u64,
    pub(crate) continue_token: Option<String>,
    pub(crate) remaining: Option<usize>,
    pub(crate) items: Vec<Arc<Stored>>,
}
