//! Typed ids: the id of one kind of thing cannot index a list of another kind.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// The position of a `T` in the list of all of them.
pub(crate) struct Id<T> {
    index: u32,
    kind: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// The id of the thing at a position. Lists have fewer than 2³² elements.
    pub(crate) const fn new(index: usize) -> Self {
        Self {
            index: index as u32,
            kind: PhantomData,
        }
    }

    /// The position.
    pub(crate) const fn index(self) -> usize {
        self.index as usize
    }
}

// Not derived: the derived implementations would demand the same of `T`.
impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.index.cmp(&other.index)
    }
}

impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.index.hash(state);
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.index)
    }
}

/// A value of type `V` for every `K`, indexed by the id of the `K`.
pub(crate) struct IdVec<K, V> {
    values: Vec<V>,
    kind: PhantomData<fn() -> K>,
}

impl<K, V> IdVec<K, V> {
    pub(crate) const fn new() -> Self {
        Self {
            values: Vec::new(),
            kind: PhantomData,
        }
    }

    /// The same value for ids `0..len`.
    pub(crate) fn filled(value: V, len: usize) -> Self
    where
        V: Clone,
    {
        Self {
            values: vec![value; len],
            kind: PhantomData,
        }
    }

    /// Empty, with room for values.
    pub(crate) fn with_capacity(len: usize) -> Self {
        Self {
            values: Vec::with_capacity(len),
            kind: PhantomData,
        }
    }

    /// Appends a value and returns its id.
    pub(crate) fn push(&mut self, value: V) -> Id<K> {
        self.values.push(value);
        Id::new(self.values.len() - 1)
    }

    /// The id the next value gets.
    pub(crate) fn next_id(&self) -> Id<K> {
        Id::new(self.values.len())
    }

    /// The value of an id that may be beyond the last one, to change.
    pub(crate) fn get_mut(&mut self, id: Id<K>) -> Option<&mut V> {
        self.values.get_mut(id.index())
    }

    /// The value of an id to change. Ids up to it that have no value get one.
    pub(crate) fn get_or_fill(&mut self, id: Id<K>, value: V) -> &mut V
    where
        V: Clone,
    {
        if self.values.len() <= id.index() {
            self.values.resize(id.index() + 1, value);
        }
        &mut self.values[id.index()]
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// All ids, ascending.
    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = Id<K>> + use<K, V> {
        (0..self.values.len()).map(Id::new)
    }

    /// The value of an id that may be beyond the last one.
    pub(crate) fn get(&self, id: Id<K>) -> Option<&V> {
        self.values.get(id.index())
    }

    /// The ids with their values, ascending.
    pub(crate) fn entries(&self) -> impl DoubleEndedIterator<Item = (Id<K>, &V)> {
        self.values.iter().enumerate().map(|(at, value)| (Id::new(at), value))
    }

    /// The ids with their values to change, ascending.
    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = (Id<K>, &mut V)> {
        let values = self.values.iter_mut().enumerate();
        values.map(|(at, value)| (Id::new(at), value))
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, V> {
        self.values.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, V> {
        self.values.iter_mut()
    }
}

impl<K, V> Index<Id<K>> for IdVec<K, V> {
    type Output = V;

    fn index(&self, id: Id<K>) -> &V {
        &self.values[id.index()]
    }
}

impl<K, V> IndexMut<Id<K>> for IdVec<K, V> {
    fn index_mut(&mut self, id: Id<K>) -> &mut V {
        &mut self.values[id.index()]
    }
}

impl<K, V> FromIterator<V> for IdVec<K, V> {
    fn from_iter<I: IntoIterator<Item = V>>(values: I) -> Self {
        Self {
            values: values.into_iter().collect(),
            kind: PhantomData,
        }
    }
}

impl<K, V> Extend<V> for IdVec<K, V> {
    fn extend<I: IntoIterator<Item = V>>(&mut self, values: I) {
        self.values.extend(values);
    }
}

impl<'x, K, V> IntoIterator for &'x IdVec<K, V> {
    type Item = &'x V;
    type IntoIter = std::slice::Iter<'x, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.iter()
    }
}

impl<'x, K, V> IntoIterator for &'x mut IdVec<K, V> {
    type Item = &'x mut V;
    type IntoIter = std::slice::IterMut<'x, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.iter_mut()
    }
}

impl<K, V> IntoIterator for IdVec<K, V> {
    type Item = V;
    type IntoIter = std::vec::IntoIter<V>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.into_iter()
    }
}

impl<K, V: Clone> Clone for IdVec<K, V> {
    fn clone(&self) -> Self {
        Self {
            values: self.values.clone(),
            kind: PhantomData,
        }
    }
}

impl<K, V: PartialEq> PartialEq for IdVec<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl<K, V> Default for IdVec<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V: fmt::Debug> fmt::Debug for IdVec<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.values).finish()
    }
}
