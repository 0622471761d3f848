//! Follows the API server's watches, one task per kind, and passes their events to the cluster.

use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt;
use kerf_api::NodeClassKind;
use kerf_runtime::watch::{Callback, WatchError, WatchEvent, WatchOptions, watch, watch_failure};
use kerf_runtime::{CancellationToken, SyncGate};
use kerf_state::NodeClass;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::cluster::{CheckedKind, Cluster, Unreadables, Watched};
use crate::relist::Relist;
use crate::watch_check::WatchCheck;
use kerf_runtime::{Backoff, Rng};

/// Follows one kind until shutdown. Lists it again when the watch check finds that the watch lost an event.
pub(crate) async fn follow<K>(
    client: Client,
    cluster: Cluster,
    gate: SyncGate,
    relist: Arc<Relist>,
    rng: Rng,
    shutdown: CancellationToken,
) -> Result<(), WatchError>
where
    K: Watched + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
{
    let signal = relist.signal();
    let check = WatchCheck::new(
        client.clone(),
        K::url_path(&(), None),
        (K::CHECKED, K::kind(&()).into_owned()),
        cluster.clone(),
        gate.clone(),
        Arc::clone(&relist),
        rng.clone(),
    );
    let mut fold = Fold::<K>::new(cluster, gate, relist);
    let options = WatchOptions {
        relist_on: Some(signal),
        ..WatchOptions::default()
    };
    tokio::select! {
        biased;
        ended = watch(client, options, rng, Callback(move |event| fold.take(event)), shutdown) => ended,
        never = check.run() => match never {},
    }
}

/// A list that is not complete yet.
struct Filling<K: Watched> {
    begun: u64,
    objects: Vec<K::Listed>,
}

impl<K: Watched> Default for Filling<K> {
    fn default() -> Self {
        Self {
            begun: 0,
            objects: Vec::new(),
        }
    }
}

/// Collects a list until it is complete; the cluster keeps the old state until then.
struct Fold<K: Watched> {
    cluster: Cluster,
    gate: SyncGate,
    relist: Arc<Relist>,
    filling: Option<Filling<K>>,
    unreadable: Unreadables,
}

impl<K: Watched + Resource<DynamicType = ()>> Fold<K> {
    fn new(cluster: Cluster, gate: SyncGate, relist: Arc<Relist>) -> Self {
        Self {
            cluster,
            gate,
            relist,
            filling: None,
            unreadable: Unreadables::default(),
        }
    }

    fn take(&mut self, event: WatchEvent<K>) {
        match event {
            WatchEvent::InitStart => {
                K::expect_list(&self.cluster);
                self.unreadable.begin();
                self.filling = Some(Filling {
                    begun: self.relist.begin(),
                    ..Filling::default()
                });
            }
            WatchEvent::Init(object) => {
                let listed = K::listed(&self.cluster, object);
                self.filling.get_or_insert_default().objects.extend(listed);
            }
            WatchEvent::InitDone => {
                let Filling { begun, objects } = self.filling.take().unwrap_or_default();
                self.unreadable.complete();
                let changes = K::reset(&self.cluster, objects, &self.unreadable.keys());
                self.report_unreadable();
                self.cluster.notify(changes);
                self.gate.mark(&K::kind(&()));
                self.relist.complete(begun);
            }
            WatchEvent::Apply(object) => {
                let was_unreadable = self.unreadable.forget(&object);
                let changes = K::apply(&self.cluster, object);
                // Only now, so that at any time the cluster shows the object or that it cannot be read.
                if was_unreadable {
                    self.report_unreadable();
                }
                self.cluster.notify(changes);
            }
            WatchEvent::Delete(object) => {
                if self.unreadable.forget(&object) {
                    self.report_unreadable();
                }
                self.cluster.notify(K::delete(&self.cluster, &object));
            }
            WatchEvent::Malformed(found) => {
                self.unreadable.note::<K>(*found);
                self.report_unreadable();
            }
        }
    }

    fn report_unreadable(&self) {
        self.cluster.set_unreadable(&K::kind(&()), self.unreadable.all());
    }
}

/// Follows node classes of one kind until shutdown. Lists them again when the watch check finds that the watch lost an event. Only their
/// metadata and readiness are read, since the provider owns the spec.
pub(crate) async fn follow_classes(
    client: Client,
    kind: NodeClassKind,
    cluster: Cluster,
    gate: SyncGate,
    rng: Rng,
    shutdown: CancellationToken,
) {
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(kind.group, kind.version, kind.kind), kind.plural);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let relist = Arc::new(Relist::new(Arc::default()));
    let check = WatchCheck::new(
        client.clone(),
        DynamicObject::url_path(&resource, None),
        (CheckedKind::NodeClass(kind), kind.kind.to_owned()),
        cluster.clone(),
        gate.clone(),
        Arc::clone(&relist),
        rng.clone(),
    );
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = watch_classes(api, kind, &cluster, &gate, &rng, &relist) => {}
        never = check.run() => match never {},
    }
}

async fn watch_classes(
    api: Api<DynamicObject>,
    kind: NodeClassKind,
    cluster: &Cluster,
    gate: &SyncGate,
    rng: &Rng,
    relist: &Relist,
) {
    let backoff = Backoff::new(
        std::time::Duration::from_millis(800),
        std::time::Duration::from_secs(30),
    );
    let begin = || watcher::watcher(api.clone(), watcher::Config::default()).boxed();
    let (mut stream, signal) = (begin(), relist.signal());
    let (mut filling, mut begun) = (Vec::new(), 0);
    let mut failures = 0;
    let mut reported = None;
    loop {
        let event = tokio::select! {
            biased;
            () = signal.notified() => {
                stream = begin();
                continue;
            }
            event = stream.next() => event,
        };
        let read = |object| NodeClass::read(kind, &object);
        match event {
            // A list begins. It may still fail, so `failures` is not reset yet.
            Some(Ok(watcher::Event::Init)) => {
                begun = relist.begin();
                filling.clear();
            }
            Some(Ok(event)) => {
                (failures, reported) = (0, None);
                match event {
                    watcher::Event::Init => {}
                    watcher::Event::InitApply(object) => filling.extend(read(object)),
                    watcher::Event::InitDone => {
                        cluster.notify(cluster.reset_classes(kind, std::mem::take(&mut filling)));
                        gate.mark(kind.kind);
                        relist.complete(begun);
                    }
                    watcher::Event::Apply(object) => {
                        if let Some(class) = read(object) {
                            cluster.notify(cluster.apply_class(class));
                        }
                    }
                    watcher::Event::Delete(object) => {
                        if let Some(class) = read(object) {
                            cluster.notify(cluster.delete_class(&class));
                        }
                    }
                }
            }
            Some(Err(error)) => {
                failures += 1;
                let failure = watch_failure(kind.kind, &error);
                // Attempts often fail for the same reason, which is logged once.
                if reported.as_ref() != Some(&failure) {
                    tracing::warn!(kind = kind.kind, "{failure}");
                    reported = Some(failure);
                }
                tokio::time::sleep(rng.jitter(backoff.delay(failures), 0.5)).await;
            }
            None => return,
        }
    }
}
