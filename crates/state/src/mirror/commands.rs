//! The commands that change what is in flight, and the machines and pods that change with it.

use super::Mirror;
use super::machines::node_key;
use crate::convert::ClaimFacts;
use crate::in_flight::{CommandInFlight, Now, PodTimes, SuspiciousList, Unlaunched};
use crate::key::MachineKey;
use crate::object::Kind;
use jiff::Timestamp;
use kerf_model::node::Node;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

impl Mirror {
    /// Removes what has expired by `now`: nominations, the waits for machines that start again, the waits for claims that are not launched, limits
    /// of launches, failures of replacements, and undone moves of consolidation. Planning does not wait for those claims any longer; they count as machines being launched
    /// (see [`Mirror::adopt`]).
    pub fn expire(&mut self, now: Now) {
        self.dirty.machines.extend(self.in_flight.nominations.expire(now.wall));
        self.dirty.machines.extend(self.in_flight.restarts.expire(now.wall));
        let unlaunched: BTreeSet<Unlaunched> = self.unlaunched().collect();
        for claim in self.in_flight.unlaunched_timeouts.expire(&unlaunched, now.uptime) {
            self.adopt(&claim);
        }
        self.in_flight.launch_limits.expire(now.wall);
        self.in_flight.failed_replacements.expire(now.wall);
        if !self.in_flight.consolidation_back_off.is_empty() {
            let snapshot = self.snapshot(now.wall);
            self.in_flight.consolidation_back_off.expire(&snapshot, now.wall);
        }
    }

    /// Adds a disruption command whose replacements exist (DIS-267).
    pub fn insert_command(&mut self, command: CommandInFlight) {
        self.in_flight.commands.insert(command);
    }

    /// The disruption command of an id, while it is in flight.
    pub fn command(&self, id: &str) -> Option<&Arc<CommandInFlight>> {
        self.in_flight.commands.get(id)
    }

    /// Records that a replacement of a command is initialised.
    pub fn note_replacement_initialized(&mut self, id: &str, claim: &str) {
        self.in_flight.commands.note_initialized(id, claim);
    }

    /// Removes a command whose claims are deleted.
    pub fn finish_command(&mut self, id: &str) {
        self.in_flight.commands.remove(id);
    }

    /// Removes a command that is undone. If a replacement was not ready, drift pauses for its machines (deviation at DIS-247).
    pub fn give_up_command(&mut self, id: &str, now: Timestamp) {
        let Some(command) = self.in_flight.commands.remove(id) else {
            return;
        };
        if command.replacements_missing() > 0 {
            for node in &command.nodes {
                self.in_flight
                    .failed_replacements
                    .note(Arc::clone(&node.provider_id), now);
            }
        }
    }

    /// Whether a command in flight holds a machine (DIS-023).
    pub fn holds(&self, machine: &Node) -> bool {
        let held = self.in_flight.commands.held();
        machine.provider_id.as_ref().is_some_and(|id| held.contains(id))
    }

    /// The names of the Nodes onto which commands in flight planned pods.
    pub fn planned_destinations(&self) -> BTreeSet<Arc<str>> {
        self.in_flight.commands.planned()
    }

    /// How long a command may take now: 80 ms per machine that commands hold, at least `least`, at most an hour (DIS-279).
    pub fn command_time_limit(&self, least: Duration) -> Duration {
        self.in_flight.commands.time_limit(least)
    }

    /// Records that consolidation moves the pods of the Nodes `from`, given its plan, the snapshot it was decided on and when the command began.
    pub fn note_moved<'a>(
        &mut self,
        from: Vec<Arc<str>>,
        pods: impl IntoIterator<Item = &'a Arc<Pod>>,
        plan: Option<&Plan>,
        snapshot: &Snapshot,
        at: Timestamp,
    ) {
        let back_off = &mut self.in_flight.consolidation_back_off;
        back_off.begun(from, pods, plan, snapshot, at);
    }

    /// Records that provisioning launched a machine of this price per hour for pods, which may undo a move of consolidation.
    pub fn note_launched(&mut self, pods: &[Arc<Pod>], price: Option<Price>, at: Timestamp) {
        self.in_flight.consolidation_back_off.launched(pods, price, at);
    }

    /// Records that a claim of a NodePool was created for pods. Its launch counts until its result is known.
    pub fn note_launch_begun(&mut self, pool: &str, claim: &Arc<str>, now: Timestamp) {
        self.in_flight.launch_limits.begun(pool, claim, now);
    }

    /// Records the result of a claim's launch: whether there was capacity.
    pub fn note_launch_result(&mut self, pool: &str, claim: &str, any_capacity: bool, now: Timestamp) {
        let limits = &mut self.in_flight.launch_limits;
        match any_capacity {
            true => limits.launched(pool, claim),
            false => limits.exhausted(self.converter.text(pool), claim, now),
        }
    }

    /// The claims that are neither launched nor made for promised pods, by name.
    pub(super) fn unlaunched(&self) -> impl Iterator<Item = Unlaunched> {
        let claims = self.machines.claims.iter().map(|(_, claim)| claim);
        let waits = move |claim: &&ClaimFacts| {
            let promised = self.in_flight.promises.of_claim(&claim.name).is_some();
            claim.provider_id.is_none() && !claim.deleting && !promised
        };
        claims.filter(waits).map(|claim| Unlaunched {
            claim: Arc::clone(&claim.name),
            refused: claim.launch_refused,
        })
    }

    /// When pods were first seen, decided on and planned, for latency metrics.
    pub fn times(&self) -> &PodTimes {
        &self.in_flight.pod_times
    }

    /// The times, to record one of a pod; `None` if the pod is not known, since nothing would remove the record again.
    pub fn times_of(&mut self, pod: &Pod) -> Option<&mut PodTimes> {
        let key = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
        let is_known = self.pods.get(&key).is_some_and(|entry| entry.pod.uid == pod.uid);
        is_known.then_some(&mut self.in_flight.pod_times)
    }

    /// Locks pods before a claim is created for them and returns the unique ids of the locked ones, which [`Mirror::unlock_launch`] takes.
    /// `None`, and none is locked, if one of them is locked already or is planned onto a claim that is not among `known`, the names of the
    /// claims the caller decided on. A pod that moves is taken with its node, so only pods without a node count.
    pub fn lock_launch<'a>(
        &mut self,
        pods: impl IntoIterator<Item = &'a Arc<Pod>>,
        known: &BTreeSet<&str>,
    ) -> Option<Vec<Arc<str>>> {
        let waiting: Vec<&Arc<Pod>> = pods.into_iter().filter(|pod| pod.node_name.is_none()).collect();
        let is_taken = |pod: &&Arc<Pod>| {
            let planned = self.in_flight.pod_times.get(&pod.namespace, &pod.name);
            let claim = planned.and_then(|planned| planned.claim.as_ref());
            let is_news = |claim: &Arc<str>| !known.contains(&**claim) && self.machines.claims.named(claim).is_some();
            self.in_flight.launch_locks.contains(&pod.uid) || claim.is_some_and(is_news)
        };
        if waiting.iter().any(is_taken) {
            return None;
        }
        let uids: Vec<Arc<str>> = waiting.iter().map(|pod| Arc::clone(&pod.uid)).collect();
        self.in_flight.launch_locks.lock(&uids);
        Some(uids)
    }

    /// Unlocks pods by their unique ids.
    pub fn unlock_launch(&mut self, pod_uids: &[Arc<str>]) {
        self.in_flight.launch_locks.unlock(pod_uids);
    }

    /// Whether the last lists of Nodes and NodeClaims prove what exists.
    ///
    /// An empty list or one with older objects is the sign of a restored etcd: then instances run whose claims the API has lost. The mirror
    /// follows such a list, because decisions must be about objects that exist. Code that deletes instances because an object is missing
    /// must check here first. The result is an error until all missing objects are back, or until fresh lists have agreed for a while.
    pub fn trustworthy(&self) -> Result<(), SuspiciousList> {
        self.in_flight.suspicious_lists.verdict()
    }

    /// Whether the last lists of a kind were suspicious.
    pub fn suspects(&self, kind: Kind) -> bool {
        self.in_flight.suspicious_lists.suspects(kind)
    }

    /// Records whether a fresh list of a kind agrees with the mirror. Returns the suspicion that ends because fresh lists have agreed for long
    /// enough.
    pub fn compared(&mut self, kind: Kind, agrees: bool, uptime: Duration) -> Option<SuspiciousList> {
        let lists = &mut self.in_flight.suspicious_lists;
        if agrees {
            return lists.confirm(kind, uptime);
        }
        lists.contradict(kind);
        None
    }

    /// Promises pods to a claim that was just created: until it is launched, is being deleted or is gone they are not pending, and the
    /// claim counts as a machine that is full of them. `capacity` is the most its instance type may have per resource, for the pool's
    /// limits. False if no such claim waits to be launched; then nothing is promised.
    pub fn promise(&mut self, claim: &str, pods: &[Arc<Pod>], capacity: Resources) -> bool {
        let name = self.converter.text(claim);
        let waits = |claim: &ClaimFacts| claim.provider_id.is_none() && !claim.deleting;
        if !self.machines.claims.named(&name).is_some_and(waits) {
            return false;
        }
        self.end_promise(&name);
        for loser in self.in_flight.promises.give(&name, pods, capacity) {
            self.dirty.machines.insert(MachineKey::Planned(loser));
        }
        for pod in pods {
            self.refresh_pending(&(Arc::clone(&pod.namespace), Arc::clone(&pod.name)));
        }
        self.dirty.machines.insert(MachineKey::Planned(name));
        true
    }

    /// Counts a claim that is not launched and has no promised pods as a machine being launched, with all that it requests free. False if there is
    /// no such claim.
    pub fn adopt(&mut self, claim: &str) -> bool {
        let name = self.converter.text(claim);
        let Some(free) = self.machines.claims.named(&name).map(|claim| claim.requests.clone()) else {
            return false;
        };
        self.in_flight.promises.of_claim(&name).is_none()
            && self.promise(claim, &[], Resources::new())
            && self.in_flight.promises.free(&name, &free)
    }

    /// The claim a pod is promised to, if any. Pods on nodes that are to go can be promised too; a plan must leave them alone.
    pub fn promised_to(&self, pod: &Pod) -> Option<&Arc<str>> {
        let key = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
        self.in_flight.promises.of_pod(&key, &pod.uid)
    }

    pub(super) fn end_promise(&mut self, claim: &Arc<str>) {
        let Some(pods) = self.in_flight.promises.end(claim) else {
            return;
        };
        for pod in pods {
            self.refresh_pending(&pod);
        }
        self.dirty.machines.insert(MachineKey::Planned(Arc::clone(claim)));
    }

    /// Records that pods were placed on a machine, by its name in snapshots: it is not disrupted until then (SCH-072). A later time
    /// extends the nomination, an earlier one changes nothing.
    pub fn nominate(&mut self, machine: &str, until: Timestamp) {
        let Some(key) = self.key_shown(machine) else { return };
        self.in_flight.nominations.nominate(key.clone(), until);
        self.dirty.machines.insert(key);
    }

    /// Marks a machine as held by a disruption command (SCH-067). An id no machine has changes nothing (LIF-211).
    pub fn mark_for_deletion(&mut self, provider_id: &str) {
        let key = MachineKey::Provider(self.converter.text(provider_id));
        if let MachineKey::Provider(id) = &key
            && (self.machines.node_of(&key).is_some() || self.machines.claim_of(&key).is_some())
            && self.in_flight.deletion_marks.insert(id)
        {
            self.dirty.machines.insert(key);
        }
    }

    /// Removes the mark of a disruption command and, if the machine stays, the promises to its pods.
    pub fn unmark_for_deletion(&mut self, provider_id: &str) {
        let key = MachineKey::Provider(self.converter.text(provider_id));
        let node = self.machines.node_of(&key).map(|node| Arc::clone(&node.name));
        if self.in_flight.deletion_marks.remove(provider_id) {
            self.dirty.machines.insert(key);
        }
        if let Some(node) = node {
            self.release(&self.pods_on_node(&node));
        }
    }

    /// Ends the promises to those of the pods that stay where they are, because their machine does not go after all.
    pub fn release<'a>(&mut self, pods: impl IntoIterator<Item = &'a Arc<Pod>>) {
        for pod in pods {
            if self.promised_to(pod).is_some() && self.stays(pod) {
                self.withdraw_promise(&(Arc::clone(&pod.namespace), Arc::clone(&pod.name)));
            }
        }
    }

    /// Whether a pod is on a machine that is not going to be deleted.
    fn stays(&self, pod: &Pod) -> bool {
        let node = pod.node_name.as_ref().and_then(|name| self.machines.nodes.named(name));
        let Some((node, key)) = node.and_then(|node| Some((node, node_key(node)?))) else {
            return false;
        };
        let is_marked = self.in_flight.deletion_marks.has(&key);
        let is_going = self.machines.claim_of(&key).map_or(node.deleting, ClaimFacts::is_going);
        !is_marked && !is_going
    }
}
