//! Open claims, and the index by pod count in which the greedy visits them.

use crate::compile::catalogue::{ThresholdCounts, TypeRow};
use crate::compile::classes::ClassId;
use crate::compile::limits::LimitAmounts;
use crate::compile::queue::PodId;
use crate::compile::templates::TemplateId;
use crate::compile::topology::{ClaimId, NewNode};
use crate::dense::amounts::Amounts;
use crate::dense::bits::Bits;
use crate::dense::id_set::IdSet;
use crate::search::reservations::HeldReservations;
use crate::search::specs::SpecId;
use kerf_model::pod::HostPort;
use smallvec::SmallVec;

/// A claim: a node to be launched.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) template: TemplateId,
    pub(crate) spec: SpecId,
    /// The rows that still fit its pods.
    pub(crate) rows: IdSet<TypeRow>,
    /// The [`ThresholdCounts`] of these rows.
    pub(crate) threshold_counts: ThresholdCounts,
    /// The sum of its pods' requests.
    pub(crate) used: Amounts,
    /// The largest amount of each resource it could still take, each resource alone. For quick rejections.
    pub(crate) room: Amounts,
    /// Its pods in the order they were placed, as indices into the request.
    pub(crate) pods: SmallVec<[PodId; 8]>,
    /// The number of its pods by class.
    pub(crate) members: SmallVec<[(ClassId, u32); 6]>,
    /// What it uses of the limits of its pool, where claims use what their cheapest row needs; else zero.
    pub(crate) limit_use: LimitAmounts,
    /// The host ports of its pods.
    pub(crate) ports: Vec<HostPort>,
    pub(crate) held_reservations: HeldReservations,
    /// Whether policy BestEffort lowered a `minValues` (SCH-285).
    pub(crate) min_values_lowered: bool,
}

/// A set of claims with an index of its non-zero words, so that sparse sets are walked quickly.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimSet {
    claims: IdSet<NewNode>,
    words: Bits,
}

impl ClaimSet {
    pub(crate) fn insert(&mut self, claim: ClaimId) {
        let (word, _) = IdSet::bit_of(claim);
        self.claims.insert(claim);
        self.words.insert(word);
    }

    pub(crate) fn remove(&mut self, claim: ClaimId) {
        let (word, _) = IdSet::bit_of(claim);
        self.claims.remove(claim);
        if self.claims.word(word) == 0 {
            self.words.remove(word);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The non-zero words and their positions, without the words in `others`.
    pub(crate) fn words_besides<'x>(&'x self, others: &'x Bits) -> impl Iterator<Item = (usize, u64)> + 'x {
        self.words
            .iter_besides(others)
            .map(|word| (word, self.claims.word(word)))
    }

    /// The next claim from a position on that is in `mask`, which returns 64 claims at a time. Words in `exhausted` are skipped.
    fn next(
        &self,
        position: &mut SetPosition,
        exhausted: &Bits,
        mut mask: impl FnMut(usize) -> u64,
    ) -> Option<ClaimId> {
        while let Some(word) = self.words.first_besides(exhausted, position.word) {
            if word > position.word {
                (position.word, position.ahead) = (word, u64::MAX);
            }
            let mut left = self.claims.word(word) & position.ahead;
            if left != 0 {
                left &= mask(word);
            }
            if let Some(next) = IdSet::ids_of_word(word, left).next() {
                // All bits above that of the claim.
                let (_, bit) = IdSet::bit_of(next);
                position.ahead = !(bit | (bit - 1));
                return Some(next);
            }
            (position.word, position.ahead) = (word + 1, u64::MAX);
        }
        None
    }
}

/// A position in a [`ClaimSet`].
#[derive(Clone, Copy, Debug)]
struct SetPosition {
    word: usize,
    ahead: u64,
}

impl Default for SetPosition {
    fn default() -> Self {
        Self {
            word: 0,
            ahead: u64::MAX,
        }
    }
}

/// Claims by number of pods, for "fewest pods first" (SCH-248). Claims with equal counts are in the order they were opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimsByPodCount {
    buckets: Vec<ClaimSet>,
    /// The pod counts for which there are claims. One large node leaves a thousand empty counts before it.
    occupied: Bits,
}

impl ClaimsByPodCount {
    /// Moves a claim to another pod count. A `full` claim is removed.
    pub(crate) fn shift(&mut self, claim: ClaimId, before: usize, after: usize, full: bool) {
        if let Some(bucket) = self.buckets.get_mut(before) {
            bucket.remove(claim);
            self.occupied.set(before, !bucket.is_empty());
        }
        if full {
            return;
        }
        if after >= self.buckets.len() {
            self.buckets.resize(after + 1, ClaimSet::default());
        }
        self.buckets[after].insert(claim);
        self.occupied.insert(after);
    }

    /// The next claim from `cursor` on that is in `mask`, which returns 64 claims at a time. Words in `exhausted` are skipped.
    pub(crate) fn next(
        &self,
        cursor: &mut ClaimCursor,
        exhausted: &Bits,
        mut mask: impl FnMut(usize) -> u64,
    ) -> Option<ClaimId> {
        while let Some(at) = self.occupied.first(cursor.bucket) {
            if at > cursor.bucket {
                *cursor = ClaimCursor {
                    bucket: at,
                    ..ClaimCursor::default()
                };
            }
            let bucket = self.buckets.get(at)?;
            let next = bucket.next(&mut cursor.position, exhausted, &mut mask);
            if next.is_some() {
                return next;
            }
            *cursor = ClaimCursor {
                bucket: at + 1,
                ..ClaimCursor::default()
            };
        }
        None
    }
}

/// A position in [`ClaimsByPodCount`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClaimCursor {
    bucket: usize,
    position: SetPosition,
}
