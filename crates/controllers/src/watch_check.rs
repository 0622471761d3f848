//! Checks each watch against fresh lists of metadata.
//!
//! A watch that silently lost an event leaves the mirror wrong until the next relist. So every watched kind is compared with a fresh list
//! at short intervals. It is listed again when an event is lost: the watch delivers events in the order of their versions, so one that is
//! missing after a later one was delivered is never delivered. A watch that is behind but delivers events is slow, not wrong. One that
//! delivers nothing for a while although something changed may have stopped, or lost the last event, so the kind is listed again too.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kerf_runtime::{Rng, SyncGate};
use kerf_state::Kind;
use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use tokio::time::Instant;

use crate::cluster::{CheckedKind, Cluster, Discrepancy, Listed, compare, listed, version};
use crate::metadata_list::MetadataList;
use crate::relist::Relist;

/// How often a kind is compared: an event that was lost is found within a minute.
const COMPARE_EVERY: Duration = Duration::from_secs(40);
/// How often a kind is compared while its last list is suspicious.
const COMPARE_EVERY_IN_DOUBT: Duration = Duration::from_secs(15);
/// How often a watch that is behind a list is checked: events usually arrive within a second.
const LAG: Duration = Duration::from_secs(5);
/// A watch that is behind and delivers nothing for this long has stopped. Together with [`COMPARE_EVERY`] it keeps the minute.
const STALLED: Duration = Duration::from_secs(15);
/// How long a requested relist takes at most.
const LISTING: Duration = Duration::from_secs(10);
/// A difference that relists do not end causes another relist after eleven minutes at the latest.
const DOUBLINGS_MAX: u32 = 4;
/// Objects per answer.
const PAGE: u32 = 1000;
/// With more pods than this, only unbound pods are compared: nodes are launched for them, and the watch lists all pods every ten minutes
/// anyway.
const PODS_MAX: usize = 4000;

/// Compares one kind for as long as it is polled.
pub(crate) struct WatchCheck {
    client: Client,
    /// The path of the list request.
    path: String,
    checked: CheckedKind,
    /// The name of the kind in the list of unreadable objects.
    kind: String,
    cluster: Cluster,
    gate: SyncGate,
    relist: Arc<Relist>,
    rng: Rng,
    /// Discrepancies that a relist did not end.
    unresolved: BTreeMap<Discrepancy, UnresolvedDiscrepancy>,
}

/// How many relists did not end a difference, and until when it causes no other one. The wait doubles each time, since most relists that fail
/// once fail again.
#[derive(Debug)]
struct UnresolvedDiscrepancy {
    failures: u32,
    until: Instant,
}

impl WatchCheck {
    /// A check that asks `relist` for a list when the kind has to be listed again.
    pub(crate) fn new(
        client: Client,
        path: String,
        (checked, kind): (CheckedKind, String),
        cluster: Cluster,
        gate: SyncGate,
        relist: Arc<Relist>,
        rng: Rng,
    ) -> Self {
        Self {
            client,
            path,
            checked,
            kind,
            cluster,
            gate,
            relist,
            rng,
            unresolved: BTreeMap::new(),
        }
    }

    /// Compares until it is dropped.
    pub(crate) async fn run(mut self) -> Infallible {
        self.gate.wait().await;
        // A round that waits for a watch or a relist delays the next one no further, so that the minute holds.
        let mut spent = Duration::ZERO;
        loop {
            let in_doubt = self.cluster.suspects(self.checked);
            let every = if in_doubt {
                COMPARE_EVERY_IN_DOUBT
            } else {
                COMPARE_EVERY
            };
            tokio::time::sleep(self.rng.jitter(every, 0.1).saturating_sub(spent)).await;
            let began = Instant::now();
            if let Err(error) = self.round().await {
                tracing::debug!(kind = ?self.checked, error = kerf_runtime::client::describe(&error), "comparing with a fresh list failed");
            }
            spent = began.elapsed();
        }
    }

    async fn round(&mut self) -> Result<(), kube::Error> {
        let unbound_only = self.checked == CheckedKind::Mirrored(Kind::Pod) && self.cluster.pod_count() > PODS_MAX;
        let before = self.cluster.known(self.checked, unbound_only);
        let (fresh, version) = self.list(unbound_only).await?;
        let mut found = compare(&before, &fresh, version);
        drop((before, fresh));
        // The mirror keeps the last readable state of these objects, so they are behind on purpose.
        let unreadable = self.cluster.unreadable_keys(&self.kind);
        found.retain(|one| !unreadable.contains(one.key()));
        self.unresolved.retain(|one, _| found.contains(one));
        let now = Instant::now();
        found.retain(|one| self.unresolved.get(one).is_none_or(|known| known.until <= now));
        let has_stopped = self.wait_until_lost(&mut found, unbound_only).await;
        if !found.is_empty() {
            self.keep_confirmed(&mut found, has_stopped, unbound_only).await?;
        }
        self.cluster.note_comparison(self.checked, found.is_empty());
        if found.is_empty() {
            return Ok(());
        }
        tracing::warn!(kind = ?self.checked, objects = found.len(), first = ?found.first(), has_stopped, "watch lost events, listing the kind again");
        self.relist.signal().notify_one();
        self.wait_for(&mut found, LISTING, unbound_only).await;
        for one in found {
            let unresolved = self.unresolved.entry(one).or_insert(UnresolvedDiscrepancy {
                failures: 0,
                until: now,
            });
            unresolved.until = now + COMPARE_EVERY * 2_u32.pow(unresolved.failures.min(DOUBLINGS_MAX));
            unresolved.failures += 1;
        }
        Ok(())
    }

    /// Waits until the watch has caught up, or has lost an event, or has stopped. Keeps only discrepancies that persist. Returns whether it
    /// has stopped.
    async fn wait_until_lost(&self, found: &mut BTreeSet<Discrepancy>, unbound_only: bool) -> bool {
        let mut position = self.cluster.watch_position(self.checked);
        let mut moved = Instant::now();
        while !found.is_empty() {
            self.wait_for(found, LAG, unbound_only).await;
            let now_at = self.cluster.watch_position(self.checked);
            // A list that is being read shows what the watch has not delivered. Another request would restart it.
            let is_listing = self.relist.is_listing();
            if now_at != position || is_listing {
                (position, moved) = (now_at, Instant::now());
            }
            if is_listing {
                continue;
            }
            if found.iter().any(|one| one.is_lost(position)) {
                return false;
            }
            if moved.elapsed() >= STALLED {
                return true;
            }
        }
        false
    }

    /// Removes what a second list does not confirm. An object that was created and deleted while the check waited is unknown as one whose
    /// event was lost is, but it is not listed any more.
    async fn keep_confirmed(
        &self,
        found: &mut BTreeSet<Discrepancy>,
        has_stopped: bool,
        unbound_only: bool,
    ) -> Result<(), kube::Error> {
        let position = self.cluster.watch_position(self.checked);
        let before = self.cluster.known(self.checked, unbound_only);
        let (fresh, version) = self.list(unbound_only).await?;
        let again = compare(&before, &fresh, version);
        let lost = again.iter().filter(|one| has_stopped || one.is_lost(position));
        let keys: BTreeSet<_> = lost.map(Discrepancy::key).collect();
        found.retain(|one| keys.contains(one.key()));
        Ok(())
    }

    /// Waits, then removes the discrepancies that have ended.
    async fn wait_for(&self, found: &mut BTreeSet<Discrepancy>, time: Duration, unbound_only: bool) {
        if found.is_empty() {
            return;
        }
        tokio::time::sleep(time).await;
        let known = self.cluster.known(self.checked, false);
        // A pod that was bound meanwhile has left the objects that were listed, as a deleted one has.
        let unbound = unbound_only.then(|| self.cluster.known(self.checked, true));
        found.retain(|one| match one {
            Discrepancy::Behind { .. } => one.persists(&known),
            Discrepancy::Ghost { .. } => one.persists(unbound.as_ref().unwrap_or(&known)),
        });
    }

    /// Lists the metadata of all objects, and returns them with the version of the list (`u64::MAX` if the answer has none). Without a
    /// resource version in the request, no cache may answer it.
    async fn list(&self, unbound_only: bool) -> Result<(BTreeMap<(Arc<str>, Arc<str>), Listed>, u64), kube::Error> {
        let mut params = ListParams::default().limit(PAGE);
        if unbound_only {
            params = params.fields("spec.nodeName=");
        }
        let mut all = BTreeMap::new();
        loop {
            let request = Request::new(&self.path).list_metadata(&params);
            let request = request.map_err(kube::Error::BuildRequest)?;
            let page: MetadataList = self.client.request(request).await?;
            all.extend(page.items.iter().map(|object| listed(&object.metadata)));
            match page.metadata.continue_token {
                none if none.is_empty() => {
                    let listed_at = version(&page.metadata.resource_version);
                    return Ok((all, if listed_at == 0 { u64::MAX } else { listed_at }));
                }
                token => params = params.continue_token(&token),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kerf_testkit::objects;
    use serde_json::{Value, from_value, json};

    use super::*;
    use crate::cluster::{Watched, relist};
    use crate::context::Context;
    use kerf_api::NodeClaim;
    use kerf_cloud::FAKE_NODE_CLASS;
    use kerf_runtime::Seed;
    use kerf_state::lean::LeanPod;

    fn check(context: &Context, kind: Kind) -> WatchCheck {
        WatchCheck::new(
            context.client.clone(),
            "/all".to_owned(),
            (CheckedKind::Mirrored(kind), format!("{kind:?}")),
            context.cluster.clone(),
            SyncGate::new(),
            Arc::new(Relist::new(Arc::default())),
            Seed(1).rng(),
        )
    }

    fn claim(class: &str) -> NodeClaim {
        let class = json!({"group": FAKE_NODE_CLASS.group, "kind": class, "name": "default"});
        let metadata = json!({"name": "web-1", "uid": "web-1", "resourceVersion": "3"});
        from_value(json!({"metadata": metadata, "spec": {"requirements": [], "nodeClassRef": class}})).expect("a claim")
    }

    /// A pod of the namespace `shop` in a version.
    fn pod_of_version(name: &str, version: u64) -> Value {
        let mut pod = objects::stored("shop", objects::pod(name, "1"));
        pod["metadata"]["resourceVersion"] = json!(version.to_string());
        pod
    }

    /// The answer to a list of metadata at a version, in which the pod has that version.
    fn list_of(name: &str, version: u64) -> Value {
        let metadata = &pod_of_version(name, version)["metadata"];
        json!({"metadata": {"resourceVersion": version.to_string()}, "items": [{"metadata": metadata}]})
    }

    /// The pod `name` in a version, which runs on the node `n`.
    fn running_pod(name: &str, version: u64) -> LeanPod {
        from_value(objects::running(pod_of_version(name, version), "n")).expect("a pod")
    }

    #[tokio::test(start_paused = true)]
    async fn empty_lists_of_a_real_api_server_end_the_suspicion() {
        let context = Context::answering(&json!({"metadata": {}, "items": null}), |_| ());
        let cluster = &context.cluster;
        relist(cluster, vec![claim(FAKE_NODE_CLASS.kind)], &BTreeSet::new());
        relist::<NodeClaim>(cluster, Vec::new(), &BTreeSet::new());
        assert!(cluster.trustworthy().is_err());
        let mut check = check(&context, Kind::NodeClaim);
        for _ in 0..4 {
            check.round().await.expect("the list is read");
            tokio::time::sleep(COMPARE_EVERY_IN_DOUBT).await;
        }
        assert_eq!(cluster.trustworthy(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_changes_nothing_the_mirror_reads_is_not_missed() {
        let context = Context::answering(&list_of("a", 6), |_| ());
        LeanPod::apply(&context.cluster, running_pod("a", 5));
        let mut burstable = objects::running(pod_of_version("a", 6), "n");
        burstable["status"]["qosClass"] = json!("Burstable");
        LeanPod::apply(&context.cluster, from_value(burstable).expect("a pod"));
        let mut check = check(&context, Kind::Pod);
        check.round().await.expect("the list is read");
        assert!(check.unresolved.is_empty(), "{:?}", check.unresolved);
    }

    #[tokio::test(start_paused = true)]
    async fn objects_of_other_providers_are_not_missed() {
        let metadata = json!({"name": "web-1", "uid": "web-1", "resourceVersion": "3"});
        let context = Context::answering(&json!({"items": [{"metadata": metadata}]}), |_| ());
        let mut check = check(&context, Kind::NodeClaim);
        NodeClaim::apply(&context.cluster, claim("EC2NodeClass"));
        check.round().await.expect("the list is read");
        assert!(check.unresolved.is_empty(), "{:?}", check.unresolved);
        relist(&context.cluster, vec![claim("EC2NodeClass")], &BTreeSet::new());
        check.round().await.expect("the list is read");
        assert!(check.unresolved.is_empty(), "{:?}", check.unresolved);
        NodeClaim::delete(&context.cluster, &claim("EC2NodeClass"));
        check.round().await.expect("the list is read");
        assert_eq!(check.unresolved.len(), 1, "the object that is listed is not known");
    }

    #[tokio::test(start_paused = true)]
    async fn unreadable_objects_are_not_missed() {
        let metadata = json!({"name": "web-1", "uid": "web-1", "resourceVersion": "9"});
        let context = Context::answering(&json!({"items": [{"metadata": metadata}]}), |_| ());
        let mut check = check(&context, Kind::NodeClaim);
        let mut unreadable = crate::cluster::Unreadables::default();
        unreadable.note::<NodeClaim>(crate::cluster::found("web-1"));
        context.cluster.set_unreadable("NodeClaim", unreadable.all());
        check.round().await.expect("the list is read");
        assert!(check.unresolved.is_empty(), "{:?}", check.unresolved);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_is_bound_during_the_comparison_is_no_ghost() {
        let context = Context::without_api();
        let unbound = from_value(pod_of_version("a", 4)).expect("a pod");
        LeanPod::apply(&context.cluster, unbound);
        let check = check(&context, Kind::Pod);
        let before = context.cluster.known(check.checked, true);
        let mut found = compare(&before, &BTreeMap::new(), 5);
        assert_eq!(found.len(), 1);
        LeanPod::apply(&context.cluster, running_pod("a", 5));
        check.wait_for(&mut found, LAG, true).await;
        assert!(found.is_empty(), "{found:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_slow_but_delivers_is_waited_for() {
        let context = Context::answering(&list_of("z", 90), |_| ());
        let cluster = context.cluster.clone();
        let slow = async {
            for version in (10..90).step_by(10) {
                tokio::time::sleep(Duration::from_secs(12)).await;
                LeanPod::apply(&cluster, running_pod("other", version));
            }
            tokio::time::sleep(Duration::from_secs(4)).await;
            LeanPod::delete(&cluster, &running_pod("other", 85));
            LeanPod::apply(&cluster, running_pod("z", 90));
        };
        let mut check = check(&context, Kind::Pod);
        let (round, ()) = tokio::join!(check.round(), slow);
        round.expect("the list is read");
        assert!(check.unresolved.is_empty(), "{:?}", check.unresolved);
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_came_and_went_meanwhile_is_not_missed() {
        for goes in [true, false] {
            let client = Client::new(kerf_apiserver::ApiServer::builder().build(), "default");
            let context = Context {
                client: client.clone(),
                ..Context::without_api()
            };
            let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::namespaced(client, "default");
            let new = from_value(objects::pod("brief", "1")).expect("a pod");
            let created = pods
                .create(&kube::api::PostParams::default(), &new)
                .await
                .expect("created");
            let created: LeanPod = from_value(serde_json::to_value(created).expect("serialises")).expect("a pod");
            let cluster = context.cluster.clone();
            let meanwhile = async {
                tokio::time::sleep(LAG / 2).await;
                if goes {
                    LeanPod::apply(&cluster, created.clone());
                    LeanPod::delete(&cluster, &created);
                    pods.delete("brief", &kube::api::DeleteParams::default())
                        .await
                        .expect("deleted");
                }
                LeanPod::apply(&cluster, running_pod("a", 1_000_000));
            };
            let mut check = check(&context, Kind::Pod);
            check.path = "/api/v1/pods".to_owned();
            let (round, ()) = tokio::join!(check.round(), meanwhile);
            round.expect("the list is read");
            assert_eq!(check.unresolved.is_empty(), goes, "{:?}", check.unresolved);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_under_way_is_waited_for() {
        let context = Context::answering(&list_of("z", 6), |_| ());
        let cluster = context.cluster.clone();
        let mut check = check(&context, Kind::Pod);
        let relist = Arc::clone(&check.relist);
        let begun = relist.begin();
        let slow = async {
            tokio::time::sleep(4 * STALLED).await;
            LeanPod::apply(&cluster, from_value(pod_of_version("z", 6)).expect("a pod"));
            relist.complete(begun);
        };
        let (round, ()) = tokio::join!(check.round(), slow);
        round.expect("the list is read");
        assert!(check.unresolved.is_empty(), "{:?}", check.unresolved);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_a_later_one_overtook_is_lost() {
        let context = Context::answering(&list_of("z", 6), |_| ());
        LeanPod::apply(&context.cluster, running_pod("a", 7));
        let mut check = check(&context, Kind::Pod);
        let began = Instant::now();
        check.round().await.expect("the list is read");
        assert!(!check.unresolved.is_empty() && began.elapsed() < STALLED + LISTING);
    }
}
