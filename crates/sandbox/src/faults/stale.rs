//! Earlier answers, for reads that are to be stale.

use bytes::Bytes;
use http::Response;
use std::collections::BTreeMap;

/// Reads remembered; a client makes a limited number of different ones.
const READS: usize = 256;

/// The answer before the last of each read.
#[derive(Debug, Default)]
pub(super) struct Shelf(BTreeMap<String, [Option<Response<Bytes>>; 2]>);

impl Shelf {
    pub(super) fn keep(&mut self, address: &str, answer: &Response<Bytes>) {
        if self.0.len() >= READS && !self.0.contains_key(address) {
            self.0.pop_first();
        }
        let [older, newer] = self.0.entry(address.to_owned()).or_default();
        *older = newer.replace(answer.clone());
    }

    /// An answer older than the last, else the last; nothing for a read never made.
    pub(super) fn take(&self, address: &str) -> Option<Response<Bytes>> {
        let [older, newer] = self.0.get(address)?;
        older.clone().or_else(|| newer.clone())
    }
}
