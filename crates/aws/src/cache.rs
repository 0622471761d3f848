//! Values that stay valid for a time.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

use crate::intervals::SWEEP;

/// Values by key, each for a time. Time is tokio's, so that a simulation moves it.
#[derive(Debug)]
pub struct Cache<K, V> {
    ttl: Duration,
    state: Mutex<CacheState<K, V>>,
}

#[derive(Debug)]
struct CacheState<K, V> {
    entries: BTreeMap<K, (V, Instant)>,
    swept: Option<Instant>,
}

impl<K: Ord + Clone, V: Clone> Cache<K, V> {
    /// An empty cache whose values stay valid for `ttl`.
    pub const fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            state: Mutex::new(CacheState {
                entries: BTreeMap::new(),
                swept: None,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, CacheState<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a key, if it is still valid.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let now = Instant::now();
        let state = self.state();
        let (value, until) = state.entries.get(key)?;
        (*until > now).then(|| value.clone())
    }

    /// Keeps a value for the time of this cache, in place of an earlier one.
    pub fn insert(&self, key: K, value: V) {
        self.insert_for(key, value, self.ttl);
    }

    /// Keeps a value for another time. Once a minute expired values are removed (AWS-432).
    pub fn insert_for(&self, key: K, value: V, ttl: Duration) {
        let now = Instant::now();
        let mut state = self.state();
        if state.swept.is_none_or(|swept| now - swept >= SWEEP) {
            state.entries.retain(|_, (_, until)| *until > now);
            state.swept = Some(now);
        }
        state.entries.insert(key, (value, now + ttl));
    }

    /// Removes a key.
    pub fn remove<Q: Ord + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.state().entries.remove(key);
    }

    /// Removes the entries that `stays` refuses.
    pub fn retain(&self, stays: impl Fn(&K, &V) -> bool) {
        self.state().entries.retain(|key, (value, _)| stays(key, value));
    }

    /// All entries that are still valid.
    pub fn entries(&self) -> Vec<(K, V)> {
        let now = Instant::now();
        let state = self.state();
        let valid = state.entries.iter().filter(|(_, (_, until))| *until > now);
        valid.map(|(key, (value, _))| (key.clone(), value.clone())).collect()
    }

    /// Number of entries kept, expired ones included.
    pub fn kept(&self) -> usize {
        self.state().entries.len()
    }
}
