//! Whether `kerf simulate` and `kerf explain`, given what the API server holds, decide as the controllers do at the same moment.

use std::fmt::Debug;
use std::ops::AddAssign;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use futures::FutureExt;
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use kerf_apiserver::ApiServer;
use kerf_cli::offline::{KINDS, ListedCluster};
use kerf_controllers::{DecisionObserver, ObservedDecision};
use kerf_decide::{Evaluation, Inputs, Memory, Method, NoPlan, Provision, Round};
use kerf_disruption::Command;
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_model::node::Node;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use serde_json::Value;
use tower::Service;

/// Rounds of disruption in which nothing is to be done are compared this often.
const IDLE: SignedDuration = SignedDuration::from_secs(120);

/// The results of the comparisons in one world; clones share them.
#[derive(Clone, Default)]
pub(crate) struct Agreement(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    last: Option<Timestamp>,
    tally: Tally,
    differences: Vec<String>,
}

/// How many decisions were compared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Passes of provisioning in which both saw the same cluster, and planned the same unless a difference was reported.
    pub(crate) passes: u64,
    /// The same of rounds of disruption.
    pub(crate) compared: u64,
    /// The same, and there was something to do.
    pub(crate) with_commands: u64,
    /// The same, with several commands.
    pub(crate) with_several: u64,
    /// Passes in which the controllers did not know yet, or knew more than, what the API server holds.
    pub(crate) passes_skipped: u64,
    /// The same of rounds.
    pub(crate) skipped: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, more: Self) {
        self.passes += more.passes;
        self.compared += more.compared;
        self.with_commands += more.with_commands;
        self.with_several += more.with_several;
        self.passes_skipped += more.passes_skipped;
        self.skipped += more.skipped;
    }
}

impl Agreement {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tally(&self) -> Tally {
        self.lock().tally
    }

    /// Decisions that differ.
    pub(crate) fn differences(&self) -> Vec<String> {
        self.lock().differences.clone()
    }

    /// Compares the decisions of controllers that use this API server and the instance types that `catalogue` makes.
    pub(crate) fn observer(&self, api: &ApiServer, catalogue: fn(&Interner) -> Arc<Catalogue>) -> DecisionObserver {
        let (agreement, api) = (self.clone(), api.clone());
        let made = OnceLock::new();
        DecisionObserver::new(move |inputs, memory, decision| {
            let catalogue = made.get_or_init(|| catalogue(&inputs.snapshot.interner));
            let decided = Decided {
                api: &api,
                catalogue,
                inputs,
                memory,
            };
            match decision {
                ObservedDecision::Provision(pass) => agreement.compare_pass(&decided, pass),
                ObservedDecision::Disrupt(from, round) => agreement.compare_round(&decided, from, round),
            }
        })
    }

    fn compare_round(&self, decided: &Decided<'_>, from: Method, round: &Round) {
        let (now, commands) = (decided.inputs.now, round.commands().count());
        let mut inner = self.lock();
        // A round that was cut off before its first method decided nothing.
        if round.evaluations.is_empty()
            || (commands == 0 && inner.last.is_some_and(|last| now.duration_since(last) < IDLE))
        {
            return;
        }
        inner.last = Some(now);
        let Some(listed) = inner.listed(decided) else {
            inner.tally.skipped += 1;
            return;
        };
        inner.tally.compared += 1;
        inner.tally.with_commands += u64::from(commands > 0);
        inner.tally.with_several += u64::from(commands > 1);
        let theirs = listed.disrupt(from, &mut decided.memory.findings());
        let (mine, theirs) = (outcome(round), outcome(&theirs));
        if mine != theirs {
            inner.differ(now, &mine, &theirs);
        }
        if from != Method::ORDER[0] {
            return;
        }
        let (mine, theirs) = (texts(round.commands()), texts(&listed.forecast().commands));
        // A forecast goes on as if the commands had succeeded.
        let agree = match mine.is_empty() {
            true => theirs.is_empty(),
            false => theirs.starts_with(&mine),
        };
        if !agree {
            inner.differ(now, &mine, &theirs);
        }
    }

    fn compare_pass(&self, decided: &Decided<'_>, pass: &Provision) {
        let mut inner = self.lock();
        if matches!(pass.plan, Err(NoPlan::NothingToPlace)) {
            return;
        }
        let Some(listed) = inner.listed(decided) else {
            inner.tally.passes_skipped += 1;
            return;
        };
        inner.tally.passes += 1;
        let theirs = listed.provision(&mut decided.memory.findings());
        let of = |pass: &Provision| {
            (
                pass.plan.clone(),
                keys(&pass.batch.pods),
                keys(&pass.held),
                pass.any_unreached,
            )
        };
        let (mine, theirs) = (of(pass), of(&theirs));
        if mine != theirs {
            inner.differ(decided.inputs.now, &mine, &theirs);
        }
    }
}

/// What a decision of the controllers was made from.
struct Decided<'a> {
    api: &'a ApiServer,
    catalogue: &'a Arc<Catalogue>,
    inputs: &'a Inputs<'a>,
    /// What the controllers remembered before it.
    memory: &'a Memory,
}

impl Inner {
    /// The cluster as the command line reads it, with what only the controllers know; `None` if the controllers saw another one.
    fn listed(&mut self, decided: &Decided<'_>) -> Option<ListedCluster> {
        let Decided {
            api, catalogue, inputs, ..
        } = decided;
        let lists = KINDS.iter().filter_map(|(path, _)| list(api, path)).collect();
        let interner = &inputs.snapshot.interner;
        let (listed, errors) = ListedCluster::read(lists, catalogue, inputs.settings, inputs.now, interner);
        self.differences.extend(errors);
        if let Err(difference) = same(inputs.snapshot, listed.snapshot()) {
            if std::env::var_os("KERF_CHAOS_SEED").is_some() {
                println!("{} skipped: {difference}", inputs.now);
            }
            return None;
        }
        Some(listed.knowing(inputs.in_flight.clone(), inputs.snapshot))
    }

    fn differ(&mut self, now: Timestamp, mine: &impl Debug, theirs: &impl Debug) {
        self.differences.push(format!(
            "at {now} the controllers decide {mine:?}, and the command line decides {theirs:?}"
        ));
    }
}

/// The answer to a request for a list, if there is one.
fn list(api: &ApiServer, path: &str) -> Option<Value> {
    let request = http::Request::get(path)
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .ok()?;
    // The embedded server answers at once.
    let answer = api.clone().call(request).now_or_never()?.ok()?;
    let body = answer.into_body().collect().now_or_never()?.ok()?.to_bytes();
    serde_json::from_slice(&body).ok()
}

/// Whether both describe the same cluster. The error names what differs.
fn same(controllers: &Snapshot, listed: &Snapshot) -> Result<(), String> {
    // No object says which nodes are promised to pods.
    let node = |node: &Arc<Node>| Node {
        nominated_until: None,
        ..Node::clone(node)
    };
    let nodes = |snapshot: &Snapshot| snapshot.nodes.iter().map(node).collect::<Vec<_>>();
    all_same("node", &nodes(controllers), &nodes(listed))?;
    all_same("NodePool", &controllers.pools, &listed.pools)?;
    all_same("pending pod", &controllers.pending, &listed.pending)?;
    all_same("untried pod", &controllers.untried, &listed.untried)?;
    all_same("DaemonSet", &controllers.daemons, &listed.daemons)?;
    all_same("namespace", &controllers.namespaces, &listed.namespaces)?;
    all_same("PodDisruptionBudget", &controllers.pdbs, &listed.pdbs)
}

fn all_same<T: Debug>(kind: &str, these: &[T], those: &[T]) -> Result<(), String> {
    if these.len() != those.len() {
        return Err(format!("{} of kind {kind} instead of {}", those.len(), these.len()));
    }
    for (this, that) in these.iter().zip(those) {
        let (this, that) = (format!("{this:?}"), format!("{that:?}"));
        if this != that {
            return Err(format!("{kind}\n  {this}\n  {that}"));
        }
    }
    Ok(())
}

/// Commands by what they do.
fn texts<'a>(commands: impl IntoIterator<Item = &'a Command>) -> Vec<String> {
    let text = |command: &Command| {
        let nodes = command.candidates.iter().map(|candidate| &*candidate.node.name);
        let nodes: Vec<&str> = nodes.collect();
        format!(
            "{:?} {nodes:?} for {:?}, as planned {:?}",
            command.reason, command.replacements, command.plan
        )
    };
    commands.into_iter().map(text).collect()
}

/// The result of a round: for each method its commands, their wait, what blocks the other nodes, and why it failed.
fn outcome(round: &Round) -> Vec<String> {
    let text = |evaluation: &Evaluation| {
        let candidates = &evaluation.sorted.candidates;
        let free = candidates.free.iter().map(|candidate| candidate.index);
        format!(
            "{:?} after {:?}: {:?}\n  free {:?}, blocked {:?}\n  stay {:?}\n  approved {:?}, budgets {:?}, error {:?}",
            evaluation.method,
            evaluation.wait,
            texts(&evaluation.commands),
            free.collect::<Vec<_>>(),
            candidates.blocked,
            evaluation.staying,
            evaluation.approvals,
            evaluation.allowance,
            evaluation.error,
        )
    };
    round.evaluations.iter().map(text).collect()
}

/// Pods by name.
fn keys(pods: &[Arc<Pod>]) -> Vec<String> {
    pods.iter().map(|pod| pod.key()).collect()
}
