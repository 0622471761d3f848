//! Earlier responses, for stale reads.

use bytes::Bytes;
use http::Response;
use std::collections::BTreeMap;

/// Most different reads kept: clients make fewer than this, so the oldest is rarely dropped.
const READS: usize = 256;

/// The last two responses of each read, by address.
#[derive(Debug, Default)]
pub(super) struct PreviousResponses(BTreeMap<String, [Option<Response<Bytes>>; 2]>);

impl PreviousResponses {
    pub(super) fn keep(&mut self, address: &str, response: &Response<Bytes>) {
        if self.0.len() >= READS && !self.0.contains_key(address) {
            self.0.pop_first();
        }
        let [older, newer] = self.0.entry(address.to_owned()).or_default();
        *older = newer.replace(response.clone());
    }

    /// The response before the last one, else the last one; `None` for a read that was never made.
    pub(super) fn take(&self, address: &str) -> Option<Response<Bytes>> {
        let [older, newer] = self.0.get(address)?;
        older.clone().or_else(|| newer.clone())
    }
}
