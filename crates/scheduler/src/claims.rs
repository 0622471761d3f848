//! Claims of a pass: machines that will be launched, and the orders in which they are looked through.

use crate::amounts::Amounts;
use crate::bits::Bits;
use crate::classes::ClassId;
use crate::reservations::Held;
use crate::states::StateId;
use kerf_model::pod::HostPort;

/// A machine to be launched.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) template: usize,
    pub(crate) state: StateId,
    /// Rows that can still hold it.
    pub(crate) rows: Bits,
    /// Requests of its pods.
    pub(crate) used: Amounts,
    /// The most it could still take if only one resource mattered: for quick refusals.
    pub(crate) room: Amounts,
    /// Its pods in the order placed, as indices into the request.
    pub(crate) pods: Vec<u32>,
    /// Its pods by class.
    pub(crate) members: Vec<(ClassId, u32)>,
    /// Host ports its pods claim.
    pub(crate) ports: Vec<HostPort>,
    pub(crate) held: Held,
    /// The row it must not outgrow, where a strategy chose one.
    pub(crate) anchor: Option<u32>,
    /// Whether BestEffort lowered a `minValues` (SCH-285).
    pub(crate) relaxed: bool,
}

/// Claims by number of pods, for "fewest pods first" (SCH-248); equal counts by age.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByPods {
    buckets: Vec<Bits>,
}

impl ByPods {
    pub(crate) fn shift(&mut self, claim: usize, before: usize, after: usize) {
        if after >= self.buckets.len() {
            self.buckets.resize(after + 1, Bits::default());
        }
        if let Some(bucket) = self.buckets.get_mut(before) {
            bucket.remove(claim);
        }
        self.buckets[after].insert(claim);
    }

    /// The next claim at or after `cursor` that is in `mask`.
    pub(crate) fn next(&self, cursor: &mut Cursor, mask: &Bits) -> Option<usize> {
        while let Some(bucket) = self.buckets.get(cursor.bucket) {
            let words = bucket.words().min(mask.words());
            while cursor.word < words {
                let left = bucket.word(cursor.word) & mask.word(cursor.word) & cursor.ahead;
                if left != 0 {
                    let bit = left.trailing_zeros();
                    cursor.ahead = if bit == 63 { 0 } else { u64::MAX << (bit + 1) };
                    return Some(cursor.word * 64 + bit as usize);
                }
                cursor.word += 1;
                cursor.ahead = u64::MAX;
            }
            *cursor = Cursor {
                bucket: cursor.bucket + 1,
                ..Cursor::default()
            };
        }
        None
    }
}

/// A position in [`ByPods`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    bucket: usize,
    word: usize,
    ahead: u64,
}

impl Default for Cursor {
    fn default() -> Self {
        Self {
            bucket: 0,
            word: 0,
            ahead: u64::MAX,
        }
    }
}
