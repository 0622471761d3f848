//! A cache of all objects of one kind, filled by a watch and by the responses to the actors' own writes.

use kerf_runtime::watch::{Callback, WatchEvent, WatchOptions, watch};
use kerf_runtime::{CancellationToken, ObjectKey, Rng, Unreadable};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch as signal;

/// A kind that can be cached.
pub(crate) trait Kind:
    Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
}
impl<K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + Sync + 'static> Kind for K {}

/// The key of an object.
pub(crate) fn key_of<K: Resource>(object: &K) -> ObjectKey {
    let meta = object.meta();
    ObjectKey::new(
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

/// One change of an object: created (no old), updated, or deleted (no new).
pub(crate) struct Change<'a, K> {
    pub(crate) key: &'a ObjectKey,
    pub(crate) old: Option<&'a K>,
    pub(crate) new: Option<&'a K>,
}

impl<'a, K> Change<'a, K> {
    /// The newest known state.
    pub(crate) fn last(&self) -> Option<&'a K> {
        self.new.or(self.old)
    }
}

type Listener<K> = Arc<dyn Fn(&Change<'_, K>) + Send + Sync>;
/// Returns the index values of an object.
type Indexer<K> = fn(&K) -> Vec<String>;
/// Objects by value, then by key.
type Index<K> = BTreeMap<String, BTreeMap<ObjectKey, Arc<K>>>;

/// All objects of one kind, by key.
pub(crate) struct Store<K> {
    inner: Mutex<Inner<K>>,
    synced: signal::Sender<bool>,
}

struct Inner<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    /// By index and value.
    indexes: Vec<(Indexer<K>, Index<K>)>,
    listeners: Vec<Listener<K>>,
    /// The keys delivered so far by a list that is in progress.
    filling: Option<BTreeSet<ObjectKey>>,
    /// The highest resource version the watch has delivered.
    seen: u64,
}

fn version<K: Resource>(object: &K) -> u64 {
    let version = object.meta().resource_version.as_deref();
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

impl<K: Kind> Store<K> {
    pub(crate) fn new(indexers: &[Indexer<K>]) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                objects: BTreeMap::new(),
                indexes: indexers.iter().map(|indexer| (*indexer, BTreeMap::new())).collect(),
                listeners: Vec::new(),
                filling: None,
                seen: 0,
            }),
            synced: signal::channel(false).0,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `listener` for every later change. Listeners must not change the store.
    pub(crate) fn listen(&self, listener: impl Fn(&Change<'_, K>) + Send + Sync + 'static) {
        self.lock().listeners.push(Arc::new(listener));
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.lock().objects.get(key).cloned()
    }

    /// A cluster-scoped object.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<K>> {
        self.get(&ObjectKey::new("", name))
    }

    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.lock().objects.values().cloned().collect()
    }

    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let inner = self.lock();
        let from = inner.objects.range(ObjectKey::new(namespace, "")..);
        let own = from.take_while(|(key, _)| key.namespace == namespace);
        own.map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Objects one of the store's indexers gives this value, by key.
    pub(crate) fn by_index(&self, index: usize, value: &str) -> Vec<Arc<K>> {
        let inner = self.lock();
        let objects = inner.indexes.get(index).and_then(|(_, entries)| entries.get(value));
        objects.into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Stores the response to a write, so that the next reconcile sees it before the watch delivers it.
    pub(crate) fn record_write(&self, object: K) {
        let mut inner = self.lock();
        let version = version(&object);
        let known = inner.objects.contains_key(&key_of(&object));
        // The watch has passed this version without the object: it was deleted again.
        if version <= inner.seen && !known {
            return;
        }
        let delivery = inner.put(object);
        drop(inner);
        delivery.deliver();
    }

    /// Records that an object was deleted.
    pub(crate) fn record_delete(&self, key: &ObjectKey, uid: &str) {
        let mut inner = self.lock();
        if inner
            .objects
            .get(key)
            .is_some_and(|object| object.meta().uid.as_deref() == Some(uid))
        {
            let delivery = inner.take(key);
            drop(inner);
            delivery.deliver();
        }
    }

    fn apply(&self, event: WatchEvent<K>) {
        let mut inner = self.lock();
        let mut all = Vec::new();
        match event {
            WatchEvent::InitStart => inner.filling = Some(BTreeSet::new()),
            WatchEvent::Init(object) | WatchEvent::Apply(object) => {
                inner.seen = inner.seen.max(version(&object));
                if let Some(filling) = &mut inner.filling {
                    filling.insert(key_of(&object));
                }
                all.push(inner.put(object));
            }
            WatchEvent::InitDone => {
                let listed = inner.filling.take().unwrap_or_default();
                let gone: Vec<_> = inner
                    .objects
                    .keys()
                    .filter(|key| !listed.contains(*key))
                    .cloned()
                    .collect();
                all.extend(gone.iter().map(|key| inner.take(key)));
                self.synced.send_replace(true);
            }
            WatchEvent::Delete(object) => {
                inner.seen = inner.seen.max(version(&object));
                let key = key_of(&object);
                // A new object of the same name may already be stored from the response to its creation.
                if inner.objects.get(&key).is_some_and(|known| known.uid() == object.uid()) {
                    all.push(inner.take(&key));
                }
            }
            WatchEvent::Malformed(unreadable) => {
                let Unreadable { metadata, error, .. } = &*unreadable;
                let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
                tracing::warn!(kind = %K::kind(&()), namespace, name, error, "watch event ignored: the object does not match its kind");
            }
        }
        drop(inner);
        for delivery in all {
            delivery.deliver();
        }
    }

    pub(crate) async fn synced(&self) {
        // The sender lives as long as the store, so waiting cannot fail.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Watches the API until `shutdown`.
    pub(crate) async fn follow(self: Arc<Self>, client: Client, rng: Rng, shutdown: CancellationToken) {
        let options = WatchOptions {
            first_sync: None,
            ..WatchOptions::default()
        };
        let sink = Callback(move |event| self.apply(event));
        if let Err(error) = watch(client, options, rng, sink, shutdown).await {
            tracing::error!(%error, "watch ended");
        }
    }
}

/// A change with its listeners, called after the store's lock is released.
struct Delivery<K> {
    key: ObjectKey,
    old: Option<Arc<K>>,
    new: Option<Arc<K>>,
    listeners: Vec<Listener<K>>,
}

impl<K> Delivery<K> {
    fn deliver(self) {
        let change = Change {
            key: &self.key,
            old: self.old.as_deref(),
            new: self.new.as_deref(),
        };
        for listener in &self.listeners {
            listener(&change);
        }
    }
}

impl<K: Kind> Inner<K> {
    fn put(&mut self, object: K) -> Delivery<K> {
        let key = key_of(&object);
        let old = self.objects.get(&key).cloned();
        let stale = old.as_ref().is_some_and(|old| version(&**old) >= version(&object));
        let new = if stale { None } else { Some(Arc::new(object)) };
        if let Some(new) = &new {
            self.reindex(&key, old.as_deref(), Some(new));
            self.objects.insert(key.clone(), Arc::clone(new));
        }
        let listeners = if stale { Vec::new() } else { self.listeners.clone() };
        Delivery {
            key,
            old,
            new,
            listeners,
        }
    }

    fn take(&mut self, key: &ObjectKey) -> Delivery<K> {
        let old = self.objects.remove(key);
        self.reindex(key, old.as_deref(), None);
        let listeners = if old.is_some() {
            self.listeners.clone()
        } else {
            Vec::new()
        };
        Delivery {
            key: key.clone(),
            old,
            new: None,
            listeners,
        }
    }

    fn reindex(&mut self, key: &ObjectKey, old: Option<&K>, new: Option<&Arc<K>>) {
        for (indexer, entries) in &mut self.indexes {
            for value in old.map(*indexer).unwrap_or_default() {
                if let Some(keys) = entries.get_mut(&value) {
                    keys.remove(key);
                    if keys.is_empty() {
                        entries.remove(&value);
                    }
                }
            }
            for (value, new) in new
                .into_iter()
                .flat_map(|new| indexer(new).into_iter().map(move |value| (value, new)))
            {
                entries.entry(value).or_default().insert(key.clone(), Arc::clone(new));
            }
        }
    }
}
