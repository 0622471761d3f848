//! Claims of a pass: machines that will be launched, and the orders in which they are looked through.

use crate::amounts::Amounts;
use crate::bits::Bits;
use crate::classes::ClassId;
use crate::reservations::Held;
use crate::states::StateId;
use crate::types::Tops;
use kerf_model::pod::HostPort;
use smallvec::SmallVec;

/// A machine to be launched.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) template: usize,
    pub(crate) state: StateId,
    /// Rows that can still hold it.
    pub(crate) rows: Bits,
    /// See [`Tops`]: of these rows.
    pub(crate) tops: Tops,
    /// Requests of its pods.
    pub(crate) used: Amounts,
    /// The most it could still take if only one resource mattered: for quick refusals.
    pub(crate) room: Amounts,
    /// Its pods in the order placed, as indices into the request.
    pub(crate) pods: SmallVec<[u32; 8]>,
    /// Its pods by class.
    pub(crate) members: SmallVec<[(ClassId, u32); 6]>,
    /// Host ports its pods claim.
    pub(crate) ports: Vec<HostPort>,
    pub(crate) held: Held,
    /// Whether BestEffort lowered a `minValues` (SCH-285).
    pub(crate) relaxed: bool,
}

/// A set of claims; which of its words are not zero is a set again, so that sparse ones are walked quickly.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bucket {
    claims: Bits,
    words: Bits,
}

impl Bucket {
    pub(crate) fn insert(&mut self, claim: usize) {
        self.claims.insert(claim);
        self.words.insert(claim / 64);
    }

    pub(crate) fn remove(&mut self, claim: usize) {
        self.claims.remove(claim);
        if self.claims.word(claim / 64) == 0 {
            self.words.remove(claim / 64);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The words that hold claims, with their positions, besides some.
    pub(crate) fn words_besides<'x>(&'x self, others: &'x Bits) -> impl Iterator<Item = (usize, u64)> + 'x {
        self.words
            .iter_besides(others)
            .map(|word| (word, self.claims.word(word)))
    }

    /// The next claim at or after a position that is in `mask`, which gives 64 claims at a time, and in no word that is `spent`.
    fn next(&self, position: &mut Position, spent: &Bits, mut mask: impl FnMut(usize) -> u64) -> Option<usize> {
        while let Some(word) = self.words.first_besides(spent, position.word) {
            if word > position.word {
                (position.word, position.ahead) = (word, u64::MAX);
            }
            let mut left = self.claims.word(word) & position.ahead;
            if left != 0 {
                left &= mask(word);
            }
            if left != 0 {
                let bit = left.trailing_zeros();
                position.ahead = if bit == 63 { 0 } else { u64::MAX << (bit + 1) };
                return Some(word * 64 + bit as usize);
            }
            (position.word, position.ahead) = (word + 1, u64::MAX);
        }
        None
    }
}

/// A position in a [`Bucket`].
#[derive(Clone, Copy, Debug)]
struct Position {
    word: usize,
    ahead: u64,
}

impl Default for Position {
    fn default() -> Self {
        Self {
            word: 0,
            ahead: u64::MAX,
        }
    }
}

/// Claims by number of pods, for "fewest pods first" (SCH-248); equal counts by age.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByPods {
    buckets: Vec<Bucket>,
    /// The buckets that hold claims: a large machine alone has a thousand empty ones before it.
    occupied: Bits,
}

impl ByPods {
    /// A claim's number of pods changes; it is looked at no more if it is `full`.
    pub(crate) fn shift(&mut self, claim: usize, before: usize, after: usize, full: bool) {
        if let Some(bucket) = self.buckets.get_mut(before) {
            bucket.remove(claim);
            self.occupied.set(before, !bucket.is_empty());
        }
        if full {
            return;
        }
        if after >= self.buckets.len() {
            self.buckets.resize(after + 1, Bucket::default());
        }
        self.buckets[after].insert(claim);
        self.occupied.insert(after);
    }

    /// The next claim at or after `cursor` that is in `mask`, which gives 64 claims at a time, and in no word that is `spent`.
    pub(crate) fn next(&self, cursor: &mut Cursor, spent: &Bits, mut mask: impl FnMut(usize) -> u64) -> Option<usize> {
        while let Some(at) = self.occupied.first(cursor.bucket) {
            if at > cursor.bucket {
                *cursor = Cursor {
                    bucket: at,
                    ..Cursor::default()
                };
            }
            let bucket = self.buckets.get(at)?;
            let next = bucket.next(&mut cursor.position, spent, &mut mask);
            if next.is_some() {
                return next;
            }
            *cursor = Cursor {
                bucket: at + 1,
                ..Cursor::default()
            };
        }
        None
    }
}

/// A position in [`ByPods`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    bucket: usize,
    position: Position,
}
