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
use kerf_decide::{Inputs, Method, NoPlan, Provision, Round};
use kerf_disruption::Command;
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_model::node::Node;
use kerf_model::snapshot::Snapshot;
use serde_json::Value;
use tower::Service;

/// Rounds of disruption in which nothing is to be done are compared this often.
const IDLE: SignedDuration = SignedDuration::from_secs(120);

/// What came of the comparisons in one world; clones share it.
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
        DecisionObserver::new(move |inputs, decision| {
            let catalogue = made.get_or_init(|| catalogue(&inputs.snapshot.interner));
            match decision {
                ObservedDecision::Provision(pass) => agreement.compare_pass(&api, catalogue, inputs, pass),
                ObservedDecision::Disrupt(from, round) => agreement.compare_round(&api, catalogue, inputs, from, round),
            }
        })
    }

    fn compare_round(
        &self,
        api: &ApiServer,
        catalogue: &Arc<Catalogue>,
        inputs: &Inputs<'_>,
        from: Method,
        round: &Round,
    ) {
        if from != Method::ORDER[0] {
            return;
        }
        let commands = round.evaluations.last().map_or(&[][..], |last| &last.commands);
        let mut inner = self.lock();
        if commands.is_empty() && inner.last.is_some_and(|last| inputs.now.duration_since(last) < IDLE) {
            return;
        }
        inner.last = Some(inputs.now);
        let Some(listed) = inner.listed(api, catalogue, inputs) else {
            return;
        };
        inner.tally.compared += 1;
        inner.tally.with_commands += u64::from(!commands.is_empty());
        let forecast = listed.forecast();
        let (mine, theirs): (Vec<_>, Vec<_>) = (texts(commands), texts(&forecast.commands));
        // A forecast goes on as if the commands had succeeded.
        let agree = match mine.is_empty() {
            true => theirs.is_empty(),
            false => theirs.starts_with(&mine),
        };
        if !agree {
            inner.differ(inputs.now, &mine, &theirs);
        }
    }

    fn compare_pass(&self, api: &ApiServer, catalogue: &Arc<Catalogue>, inputs: &Inputs<'_>, pass: &Provision) {
        let mut inner = self.lock();
        if matches!(pass.plan, Err(NoPlan::NothingToPlace)) {
            return;
        }
        let Some(listed) = inner.listed(api, catalogue, inputs) else {
            return;
        };
        inner.tally.passes += 1;
        let theirs = listed.provision();
        if pass.plan != theirs.plan {
            inner.differ(inputs.now, &pass.plan, &theirs.plan);
        }
    }
}

impl Inner {
    /// The cluster as the command line reads it, with what only the controllers know; `None` if the controllers saw another one.
    fn listed(&mut self, api: &ApiServer, catalogue: &Arc<Catalogue>, inputs: &Inputs<'_>) -> Option<ListedCluster> {
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
        Some(listed.knowing(inputs.in_flight.clone()))
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
    // What no object tells: nodes promised to pods.
    let node = |node: &Arc<Node>| Node {
        nominated_until: None,
        ..Node::clone(node)
    };
    let nodes = |snapshot: &Snapshot| snapshot.nodes.iter().map(node).collect::<Vec<_>>();
    all_same("node", &nodes(controllers), &nodes(listed))?;
    if controllers.nodes.iter().any(|node| node.nominated_until.is_some()) {
        return Err("a node is promised to pods".to_owned());
    }
    all_same("NodePool", &controllers.pools, &listed.pools)?;
    all_same("pending pod", &controllers.pending, &listed.pending)?;
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
fn texts(commands: &[Command]) -> Vec<String> {
    let text = |command: &Command| {
        let nodes = command.candidates.iter().map(|candidate| &*candidate.node.name);
        let nodes: Vec<&str> = nodes.collect();
        format!("{:?} {nodes:?} for {:?}", command.reason, command.replacements)
    };
    commands.iter().map(text).collect()
}
