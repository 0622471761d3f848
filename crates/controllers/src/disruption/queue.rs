//! Completes commands (the controller `disruption.queue`; section 11 of `docs/behaviour/disruption.md`).

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kerf_api::NodeClaim;
use kerf_api::conditions::node_claim::INITIALIZED;
use kerf_api::status::Conditioned;
use kerf_disruption::Decision;
use kerf_model::budget::DisruptionReason;
use kerf_runtime::client::describe;
use kerf_runtime::metrics::catalogue;
use kerf_runtime::{ObjectRef, Outcome, RateLimit, ReconcileError};
use kerf_state::{CommandInFlight, CommandNode};
use kube::Api;

use super::destination_taints::DestinationTaints;
use super::events;
use super::taints::DisruptionTaints;
use crate::claim_writes::disrupt;
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};
use crate::retry::Retry;

const NAME: &str = "disruption.queue";
/// How often a command is examined (DIS-270).
const EXAMINE_EVERY: Duration = Duration::from_secs(1);

/// The result of an examination.
enum Finding {
    /// Everything is done.
    Done,
    /// Something is not there yet.
    Waiting,
    /// The command cannot be completed: the text says why.
    Lost(String),
}

/// The queue of commands in flight.
pub(crate) struct CommandQueue {
    context: Context,
    taints: DisruptionTaints,
    destination_taints: DestinationTaints,
    retry: Retry,
    work: WorkLoop<String>,
}

impl CommandQueue {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        let mut limit = RateLimit::exponential(EXAMINE_EVERY, Duration::from_secs(10));
        limit.bucket = Some((100.0, 1000));
        Arc::new(Self {
            context: context.clone(),
            taints: DisruptionTaints::new(context),
            destination_taints: DestinationTaints::new(context),
            retry: Retry::new(context, "disruption-deletions"),
            work: WorkLoop::new(context, NAME, limit).workers(context.workers(100, 1000)),
        })
    }

    /// Adds a command whose replacements exist (DIS-267).
    pub(super) fn take(&self, command: CommandInFlight) {
        let id = command.id.to_string();
        self.context.cluster.insert_command(command);
        self.work.add(id);
    }

    /// The finding while some replacement is not initialised; `None` when all are (DIS-271 to DIS-274).
    async fn replacements_missing(&self, command: &CommandInFlight) -> Option<Finding> {
        let mut waiting = false;
        for replacement in command
            .replacements
            .iter()
            .filter(|replacement| !replacement.initialized)
        {
            let claim = match self.claim(&replacement.claim).await {
                Ok(Some(claim)) => claim,
                Ok(None) => {
                    let why = format!("replacement nodeclaim {} is gone", replacement.claim);
                    return Some(Finding::Lost(why));
                }
                Err(_) => {
                    waiting = true;
                    continue;
                }
            };
            let object = ObjectRef::of(&*claim);
            if let Some(object) = object.clone() {
                self.context.recorder.publish(events::launching(object, command.reason));
            }
            if claim.condition_is_true(INITIALIZED) {
                self.context
                    .cluster
                    .note_replacement_initialized(&command.id, &replacement.claim);
            } else {
                if let Some(object) = object {
                    self.context.recorder.publish(events::waiting_readiness(object));
                }
                waiting = true;
            }
        }
        waiting.then_some(Finding::Waiting)
    }

    /// A claim, if there is one. The mirror may lack it, so only the API server's answer proves that it is gone.
    async fn claim(&self, name: &str) -> Result<Option<Arc<NodeClaim>>, kube::Error> {
        if let Some(known) = self.context.cluster.claim(name) {
            return Ok(Some(known));
        }
        let api: Api<NodeClaim> = Api::all(self.context.client.clone());
        Ok(api.get_opt(name).await?.map(Arc::new))
    }

    /// Deletes the claims, all at once. One that is gone is done (DIS-276, DIS-317).
    async fn delete_nodes(&self, command: &CommandInFlight) -> Finding {
        let results = join_all(command.nodes.iter().map(|node| self.delete(node, command.reason))).await;
        let errors: Vec<String> = results
            .into_iter()
            .filter_map(Result::err)
            .map(|error| describe(&error))
            .collect();
        if errors.is_empty() {
            return Finding::Done;
        }
        tracing::debug!(command = %command.id, error = errors.join("; "), "deleting nodeclaims failed, trying again");
        Finding::Waiting
    }

    async fn delete(&self, node: &CommandNode, reason: DisruptionReason) -> Result<(), kube::Error> {
        let known = self.claim(&node.claim).await?;
        let Some(claim) = known.filter(|claim| claim.metadata.uid.as_deref() == Some(&node.claim_uid)) else {
            return Ok(());
        };
        let delete = || disrupt(&self.context, &claim, reason.label());
        if !self.retry.run(delete).await? {
            return Ok(());
        }
        let node = node.node.as_deref().and_then(|name| self.context.cluster.node(name));
        let objects = node
            .and_then(|node| ObjectRef::of(&*node))
            .into_iter()
            .chain(ObjectRef::of(&*claim));
        for object in objects {
            self.context.recorder.publish(events::terminating(object, reason));
        }
        Ok(())
    }

    /// Undoes a command: removes the marks of its nodes; replacements that exist stay (DIS-281 to DIS-284).
    async fn give_up(&self, id: &str, why: &str) {
        let Some(command) = self.context.cluster.command(id) else {
            return;
        };
        let results = join_all(command.nodes.iter().map(|node| self.taints.unmark(node))).await;
        // The loop's clean-up repeats what failed here.
        let errors: Vec<String> = results
            .into_iter()
            .filter_map(Result::err)
            .map(|error| describe(&error))
            .collect();
        for node in &command.nodes {
            self.context.cluster.unmark_for_deletion(&node.provider_id);
        }
        self.context.cluster.give_up_command(id, self.context.now());
        let (decision, reason) = (decision(&command).as_str(), command.reason.label());
        let counter = self.context.metrics.counter(&catalogue::DISRUPTION_QUEUE_FAILURES);
        // DIS-282: the third label carries the decision.
        counter.add(&[decision, reason, decision], command.replacements_missing() as f64);
        let error = std::iter::once(why.to_owned())
            .chain(errors)
            .collect::<Vec<_>>()
            .join("; ");
        tracing::error!(
            command = id,
            error,
            "failed terminating nodes while executing a disruption command"
        );
    }
}

fn decision(command: &CommandInFlight) -> Decision {
    match command.replacements.is_empty() {
        true => Decision::Delete,
        false => Decision::Replace,
    }
}

impl Reconciler for CommandQueue {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    async fn reconcile(&self, id: &String) -> Result<Outcome, ReconcileError> {
        let Some(command) = self.context.cluster.command(id) else {
            tracing::error!(command = id, "examining a command that is not known");
            return Ok(Outcome::Done);
        };
        let finding = match self.replacements_missing(&command).await {
            None => {
                self.destination_taints.put(&command.destinations).await;
                self.delete_nodes(&command).await
            }
            Some(finding) => finding,
        };
        let cluster = &self.context.cluster;
        let limit = cluster.command_time_limit(self.context.tuning.timeouts.replacement);
        let late = cluster.uptime().saturating_sub(command.started) > limit;
        match finding {
            Finding::Done => {
                tracing::debug!(command = id, "command succeeded");
                self.context.cluster.finish_command(id);
                Ok(Outcome::Done)
            }
            Finding::Lost(why) => {
                self.give_up(id, &why).await;
                Ok(Outcome::Done)
            }
            Finding::Waiting if late => {
                self.give_up(id, "command reached its time limit").await;
                Ok(Outcome::Done)
            }
            Finding::Waiting => Ok(Outcome::RequeueAfter(EXAMINE_EVERY)),
        }
    }
}

#[cfg(test)]
mod tests {
    use kerf_model::in_flight::Destinations;
    use kerf_sandbox::CapturedLog;
    use kerf_state::Replacement;
    use serde_json::{from_value, json};

    use super::*;
    use crate::cluster::Watched;

    /// Makes a claim known, at a version of it.
    fn know(queue: &CommandQueue, name: &str, version: u32, initialized: bool) {
        let status = if initialized { "True" } else { "False" };
        let condition = json!({"type": INITIALIZED, "status": status, "lastTransitionTime": "1970-01-01T00:00:00Z"});
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        let claim = json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()},
            "spec": {"requirements": [], "nodeClassRef": class}, "status": {"conditions": [condition]},
        });
        let cluster = &queue.context.cluster;
        cluster.notify(Watched::apply(
            cluster,
            from_value::<NodeClaim>(claim).expect("a claim"),
        ));
    }

    /// A command that waits for these replacements.
    fn waiting(queue: &CommandQueue, replacements: &[&str]) {
        let replacement = |claim: &&str| Replacement {
            claim: (*claim).into(),
            initialized: false,
        };
        queue.take(CommandInFlight {
            id: "command".into(),
            reason: DisruptionReason::Drifted,
            nodes: Vec::new(),
            replacements: replacements.iter().map(replacement).collect(),
            destinations: Destinations::default(),
            started: Duration::ZERO,
        });
    }

    async fn examine(queue: &CommandQueue) -> Outcome {
        let outcome = queue.reconcile(&"command".to_owned()).await;
        outcome.expect("no error")
    }

    // DIS-285
    #[tokio::test]
    async fn a_command_nobody_knows_is_left_alone() {
        let queue = CommandQueue::new(&Context::without_api());
        let logged = CapturedLog::start();
        assert_eq!(examine(&queue).await, Outcome::Done);
        let lines = logged.lines("examining a command that is not known");
        assert_eq!(lines.len(), 1, "{lines:?}");
        let errors = logged.all().into_iter().filter(|line| line["level"] == "ERROR");
        assert_eq!(errors.collect::<Vec<_>>(), lines, "it is one, and the only one");
        let failures = queue.context.metrics.encode();
        assert!(!failures.contains("queue_failures_total{"), "{failures}");
    }

    // DIS-272
    #[tokio::test]
    async fn a_replacement_that_was_ready_once_need_not_stay_so() {
        let queue = CommandQueue::new(&Context::without_api());
        know(&queue, "quick", 1, true);
        know(&queue, "slow", 1, false);
        waiting(&queue, &["quick", "slow"]);
        assert_eq!(examine(&queue).await, Outcome::RequeueAfter(EXAMINE_EVERY));
        know(&queue, "quick", 2, false);
        assert_eq!(examine(&queue).await, Outcome::RequeueAfter(EXAMINE_EVERY));
        know(&queue, "slow", 2, true);
        assert_eq!(examine(&queue).await, Outcome::Done);
        assert!(
            queue.context.cluster.command("command").is_none(),
            "there was nothing else to do"
        );
    }

    // DIS-274
    #[tokio::test]
    async fn candidates_stay_until_the_last_replacement_is_ready_whatever_other_commands_do() {
        // Every deletion fails, so a command that comes to it waits for the next examination.
        let queue = CommandQueue::new(&Context::without_api());
        let candidate = |name: &str| CommandNode {
            node: None,
            claim: name.into(),
            claim_uid: name.into(),
            provider_id: format!("p://{name}").into(),
        };
        let replacement = |claim: &str| Replacement {
            claim: claim.into(),
            initialized: false,
        };
        for (id, old, new) in [("first", "a", ["b", "c"]), ("second", "d", ["e", "f"])] {
            for name in [old].iter().chain(&new) {
                know(&queue, name, 1, false);
            }
            queue.take(CommandInFlight {
                id: id.into(),
                reason: DisruptionReason::Drifted,
                nodes: vec![candidate(old)],
                replacements: new.map(replacement).to_vec(),
                destinations: Destinations::default(),
                started: Duration::ZERO,
            });
        }
        let log = CapturedLog::start();
        let deletions = async |id: &str| {
            let before = log.lines("deleting nodeclaims failed, trying again").len();
            let outcome = queue.reconcile(&id.to_owned()).await;
            assert!(
                matches!(outcome, Ok(Outcome::RequeueAfter(EXAMINE_EVERY))),
                "{outcome:?}"
            );
            log.lines("deleting nodeclaims failed, trying again").len() - before
        };
        assert_eq!((deletions("first").await, deletions("second").await), (0, 0));
        know(&queue, "b", 2, true);
        assert_eq!(
            (deletions("first").await, deletions("second").await),
            (0, 0),
            "one of two"
        );
        know(&queue, "e", 2, true);
        know(&queue, "f", 2, true);
        assert_eq!(
            (deletions("first").await, deletions("second").await),
            (0, 1),
            "each for itself"
        );
        know(&queue, "c", 2, true);
        assert_eq!(deletions("first").await, 1);
    }

    // DIS-276
    #[tokio::test]
    async fn a_node_whose_claim_cannot_be_read_is_not_taken_for_gone() {
        let queue = CommandQueue::new(&Context::without_api());
        queue.take(CommandInFlight {
            id: "command".into(),
            reason: DisruptionReason::Empty,
            nodes: vec![CommandNode {
                node: None,
                claim: "lost".into(),
                claim_uid: "lost".into(),
                provider_id: "p://lost".into(),
            }],
            replacements: Vec::new(),
            destinations: Destinations::default(),
            started: Duration::ZERO,
        });
        assert_eq!(examine(&queue).await, Outcome::RequeueAfter(EXAMINE_EVERY));
        assert!(queue.context.cluster.command("command").is_some());
    }

    // DIS-276
    #[tokio::test]
    async fn a_namesake_of_a_claim_that_is_gone_is_not_deleted() {
        // Any call would fail, and the command would wait.
        let queue = CommandQueue::new(&Context::without_api());
        know(&queue, "again", 2, true);
        queue.take(CommandInFlight {
            id: "command".into(),
            reason: DisruptionReason::Empty,
            nodes: vec![CommandNode {
                node: None,
                claim: "again".into(),
                claim_uid: "before".into(),
                provider_id: "p://before".into(),
            }],
            replacements: Vec::new(),
            destinations: Destinations::default(),
            started: Duration::ZERO,
        });
        assert_eq!(examine(&queue).await, Outcome::Done);
    }

    // DIS-273
    #[tokio::test]
    async fn a_replacement_that_cannot_be_read_is_waited_for() {
        let queue = CommandQueue::new(&Context::without_api());
        waiting(&queue, &["unheard-of"]);
        for _ in 0..3 {
            assert_eq!(examine(&queue).await, Outcome::RequeueAfter(EXAMINE_EVERY));
        }
        assert!(queue.context.cluster.command("command").is_some());
    }
}
