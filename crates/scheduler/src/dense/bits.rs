//! Growable bit sets, inline up to 896 bits. Bits beyond the stored words are zero. Sets of things with typed ids are `IdSet`s.

use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// A set of small integers.
#[derive(Debug, Default)]
pub(crate) struct Bits(Words);

type Words = SmallVec<[u64; 14]>;

// Not derived, because the derived clone copies word by word.
impl Clone for Bits {
    fn clone(&self) -> Self {
        Self(Words::from_slice(&self.0))
    }

    fn clone_from(&mut self, other: &Self) {
        self.0.clear();
        self.0.extend_from_slice(&other.0);
    }
}

impl PartialEq for Bits {
    fn eq(&self, other: &Self) -> bool {
        let words = self.0.len().max(other.0.len());
        (0..words).all(|at| self.word(at) == other.word(at))
    }
}

impl Eq for Bits {}

impl Hash for Bits {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Equal sets may store different numbers of trailing zero words.
        let used = self.0.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        self.0[..used].hash(state);
    }
}

impl Bits {
    /// The set `0..len`.
    pub(crate) fn full(len: usize) -> Self {
        let mut all: Words = SmallVec::from_elem(u64::MAX, len.div_ceil(64));
        if let (Some(last), true) = (all.last_mut(), !len.is_multiple_of(64)) {
            *last = (1 << (len % 64)) - 1;
        }
        Self(all)
    }

    pub(crate) fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }

    pub(crate) fn get(&self, bit: usize) -> bool {
        let (at, bit) = bit_of(bit);
        self.word(at) & bit != 0
    }

    pub(crate) fn insert(&mut self, bit: usize) {
        let (at, bit) = bit_of(bit);
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        self.0[at] |= bit;
    }

    pub(crate) fn remove(&mut self, bit: usize) {
        let (at, bit) = bit_of(bit);
        if let Some(word) = self.0.get_mut(at) {
            *word &= !bit;
        }
    }

    pub(crate) fn set(&mut self, bit: usize, on: bool) {
        if on { self.insert(bit) } else { self.remove(bit) }
    }

    pub(crate) fn and(&mut self, other: &Self) {
        let shared = self.0.len().min(other.0.len());
        let (front, back) = self.0.split_at_mut(shared);
        for (word, other) in front.iter_mut().zip(other.0.iter()) {
            *word &= other;
        }
        back.fill(0);
    }

    pub(crate) fn and_not(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(other.0.iter()) {
            *word &= !other;
        }
    }

    pub(crate) fn or(&mut self, other: &Self) {
        if other.0.len() > self.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn intersects(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The smallest element that is at least `from`.
    pub(crate) fn first(&self, from: usize) -> Option<usize> {
        self.first_besides(&Self::default(), from)
    }

    /// The smallest element that is at least `from` and not in `others`.
    pub(crate) fn first_besides(&self, others: &Self, from: usize) -> Option<usize> {
        let mut ahead = u64::MAX << (from % 64);
        for (at, word) in self.0.iter().enumerate().skip(from / 64) {
            let left = word & ahead & !others.word(at);
            if let Some(first) = bits_of_word(at, left).next() {
                return Some(first);
            }
            ahead = u64::MAX;
        }
        None
    }

    /// The elements that are not in `others`, ascending.
    pub(crate) fn iter_besides<'x>(&'x self, others: &'x Self) -> impl Iterator<Item = usize> + 'x {
        let words = self.0.iter().enumerate();
        words.flat_map(move |(at, word)| bits_of_word(at, *word & !others.word(at)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| bits_of_word(at, *word))
    }
}

impl FromIterator<usize> for Bits {
    fn from_iter<T: IntoIterator<Item = usize>>(iter: T) -> Self {
        let mut bits = Self::default();
        for bit in iter {
            bits.insert(bit);
        }
        bits
    }
}

/// The elements of a word of a set, ascending. `at` is the position of the word.
pub(crate) fn bits_of_word(at: usize, mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if word == 0 {
            return None;
        }
        let bit = word.trailing_zeros() as usize;
        word &= word - 1;
        Some(at * 64 + bit)
    })
}

/// The position of the word that has an element, and the bit of the element in that word.
pub(crate) const fn bit_of(element: usize) -> (usize, u64) {
    (element / 64, 1 << (element % 64))
}
