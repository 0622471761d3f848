//! Vectors that are read by ids of their own.
//!
//! The solver has an `IdVec`, too. Its ids are made from any number; here only a vector gives ids out, so that reading one cannot fail.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A position in vectors of one sort. Only a vector of the sort gives one out, and all of them are equally long once ids are read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Id<S> {
    index: usize,
    sort: PhantomData<S>,
}

impl<S> Id<S> {
    fn new(index: usize) -> Self {
        let sort = PhantomData;
        Self { index, sort }
    }
}

/// A vector whose positions are of one sort.
#[derive(Clone, Debug)]
pub(crate) struct IdVec<S, T> {
    items: Vec<T>,
    sort: PhantomData<S>,
}

impl<S, T> IdVec<S, T> {
    pub(crate) fn new() -> Self {
        Self::from_iter([])
    }

    pub(crate) fn push(&mut self, item: T) -> Id<S> {
        self.items.push(item);
        Id::new(self.items.len() - 1)
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The id of a position, if there is one.
    pub(crate) fn id(&self, index: usize) -> Option<Id<S>> {
        (index < self.items.len()).then(|| Id::new(index))
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = Id<S>> + use<S, T> {
        (0..self.items.len()).map(Id::new)
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (Id<S>, &T)> {
        self.ids().zip(&self.items)
    }

    /// Another vector of the same sort.
    pub(crate) fn map<U>(&self, of: impl FnMut(&T) -> U) -> IdVec<S, U> {
        self.iter().map(of).collect()
    }
}

impl<S, T> FromIterator<T> for IdVec<S, T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let (items, sort) = (items.into_iter().collect(), PhantomData);
        Self { items, sort }
    }
}

impl<S, T> Index<Id<S>> for IdVec<S, T> {
    type Output = T;

    #[expect(clippy::indexing_slicing, reason = "an id is a position of vectors of its sort")]
    fn index(&self, id: Id<S>) -> &T {
        &self.items[id.index]
    }
}

impl<S, T> IndexMut<Id<S>> for IdVec<S, T> {
    #[expect(clippy::indexing_slicing, reason = "an id is a position of vectors of its sort")]
    fn index_mut(&mut self, id: Id<S>) -> &mut T {
        &mut self.items[id.index]
    }
}
