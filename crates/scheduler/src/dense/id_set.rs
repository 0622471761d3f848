//! Sets of typed ids: a set of one kind of thing cannot be mixed with a set of another kind.

use crate::dense::bits::{Bits, bit_of, bits_of_word};
use crate::dense::ids::Id;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

/// A set of ids, in words of 64.
pub(crate) struct IdSet<T> {
    bits: Bits,
    kind: PhantomData<fn() -> T>,
}

impl<T> IdSet<T> {
    const fn of(bits: Bits) -> Self {
        Self {
            bits,
            kind: PhantomData,
        }
    }

    /// The set of the first `len` ids.
    pub(crate) fn full(len: usize) -> Self {
        Self::of(Bits::full(len))
    }

    /// The ids of the bits of a word, ascending. `at` is the position of the word in a set.
    pub(crate) fn ids_of_word(at: usize, word: u64) -> impl Iterator<Item = Id<T>> {
        bits_of_word(at, word).map(Id::new)
    }

    /// The position of the word that has an id, and the bit of the id in that word.
    pub(crate) const fn bit_of(id: Id<T>) -> (usize, u64) {
        bit_of(id.index())
    }

    /// The ids from `64 * at` on, as a word of bits.
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.bits.word(at)
    }

    pub(crate) fn get(&self, id: Id<T>) -> bool {
        self.bits.get(id.index())
    }

    pub(crate) fn insert(&mut self, id: Id<T>) {
        self.bits.insert(id.index());
    }

    pub(crate) fn remove(&mut self, id: Id<T>) {
        self.bits.remove(id.index());
    }

    pub(crate) fn set(&mut self, id: Id<T>, on: bool) {
        self.bits.set(id.index(), on);
    }

    pub(crate) fn and(&mut self, other: &Self) {
        self.bits.and(&other.bits);
    }

    pub(crate) fn and_not(&mut self, other: &Self) {
        self.bits.and_not(&other.bits);
    }

    pub(crate) fn or(&mut self, other: &Self) {
        self.bits.or(&other.bits);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }

    pub(crate) fn intersects(&self, other: &Self) -> bool {
        self.bits.intersects(&other.bits)
    }

    pub(crate) fn len(&self) -> usize {
        self.bits.len()
    }

    /// The ids, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Id<T>> + '_ {
        self.bits.iter().map(Id::new)
    }
}

// Not derived: the derived implementations would demand the same of `T`.
impl<T> Clone for IdSet<T> {
    fn clone(&self) -> Self {
        Self::of(self.bits.clone())
    }

    fn clone_from(&mut self, other: &Self) {
        self.bits.clone_from(&other.bits);
    }
}

impl<T> Default for IdSet<T> {
    fn default() -> Self {
        Self::of(Bits::default())
    }
}

impl<T> PartialEq for IdSet<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}

impl<T> Eq for IdSet<T> {}

impl<T> Hash for IdSet<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits.hash(state);
    }
}

impl<T> fmt::Debug for IdSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<T> FromIterator<Id<T>> for IdSet<T> {
    fn from_iter<I: IntoIterator<Item = Id<T>>>(ids: I) -> Self {
        Self::of(ids.into_iter().map(Id::index).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_ids_of_the_set() {
        let ids = [0, 63, 64, 200].map(Id::<u8>::new);
        let set: IdSet<u8> = ids.into_iter().collect();
        let of_words: Vec<Id<u8>> = (0..4).flat_map(|at| IdSet::ids_of_word(at, set.word(at))).collect();
        assert_eq!(of_words, ids);
        for id in ids {
            let (word, bit) = IdSet::bit_of(id);
            assert_ne!(set.word(word) & bit, 0, "{id:?}");
        }
    }
}
