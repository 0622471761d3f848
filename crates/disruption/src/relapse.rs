//! Consolidations that did not last.
//!
//! Who evicts a pod does not say where its successor goes: kube-scheduler does, and may fill the place meant for a large pod with small ones.
//! Then a machine like the one that went is launched again, and without a memory the same would be tried for ever. So a kind of pod that
//! came back onto a new machine rests, each time twice as long (deviation at DIS-119).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kerf_model::pod::{Pod, PodShape};
use kerf_model::snapshot::Snapshot;

use crate::command::Command;

/// How long after a command began a new machine for its pods may be due to it.
const WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// How long pods rest after their first relapse.
const FIRST: Duration = Duration::from_secs(15 * 60);
/// The longest they rest.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Pods nobody can tell apart by what placement looks at; workloads of one namespace that ask for the same are one kind.
type Kind = (Arc<str>, Arc<PodShape>);

fn kind(pod: &Pod) -> Kind {
    (Arc::clone(&pod.namespace), Arc::clone(&pod.shape))
}

/// How many pods of each kind there are.
fn counts<'a>(snapshot: &Snapshot, kinds: impl IntoIterator<Item = &'a Kind>) -> Vec<(Kind, usize)> {
    let bound = snapshot.nodes.iter().flat_map(|node| &node.pods);
    let mut all: Vec<(Kind, usize)> = kinds.into_iter().map(|kind| (kind.clone(), 0)).collect();
    for pod in bound.chain(&snapshot.pending).filter(|pod| pod.is_active()) {
        let of = |(known, _): &&mut (Kind, usize)| known.0 == pod.namespace && known.1 == pod.shape;
        if let Some((_, count)) = all.iter_mut().find(of) {
            *count += 1;
        }
    }
    all
}

/// Pods that were moved, and when.
#[derive(Debug)]
struct Move {
    at: Timestamp,
    /// What was moved, and how many of it there were in the cluster.
    kinds: Vec<(Kind, usize)>,
    /// Machines launched on purpose.
    replacements: usize,
}

#[derive(Debug)]
struct Rest {
    kind: Kind,
    relapses: u32,
    until: Timestamp,
}

/// What was moved lately, and what rests.
#[derive(Debug, Default)]
pub struct Relapses {
    moves: Vec<Move>,
    rests: Vec<Rest>,
}

impl Relapses {
    /// Notes that the pods of a command's nodes are being moved: what the command was decided on, and when its start began.
    pub fn begun(&mut self, command: &Command, snapshot: &Snapshot, at: Timestamp) {
        let mut kinds: Vec<Kind> = Vec::new();
        for pod in command.candidates.iter().flat_map(|candidate| &candidate.pods) {
            let kind = kind(pod);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        self.moves.push(Move {
            at,
            kinds: counts(snapshot, &kinds),
            replacements: command.replacements.len(),
        });
    }

    /// Looks which pods came back onto new machines. Where there are more pods of a kind than before, the machine is for those.
    pub fn look(&mut self, snapshot: &Snapshot, now: Timestamp) {
        let moves = std::mem::take(&mut self.moves);
        for one in moves {
            let back = came_back(&one, snapshot);
            if !back.is_empty() {
                for kind in back {
                    self.relapse(kind, now);
                }
            } else if now.duration_since(one.at) < WITHIN {
                self.moves.push(one);
            } else {
                // It lasted.
                let moved = |rest: &Rest| one.kinds.iter().any(|(kind, _)| *kind == rest.kind);
                self.rests.retain(|rest| rest.until > now || !moved(rest));
            }
        }
        let longest = SignedDuration::try_from(LONGEST).unwrap_or(SignedDuration::MAX);
        self.rests.retain(|rest| now.duration_since(rest.until) < longest);
    }

    fn relapse(&mut self, kind: Kind, now: Timestamp) {
        let relapses = match self.rests.iter().position(|rest| rest.kind == kind) {
            Some(at) => self.rests.swap_remove(at).relapses.saturating_add(1),
            None => 1,
        };
        let rest = FIRST.saturating_mul(2_u32.saturating_pow(relapses - 1)).min(LONGEST);
        let until = now.checked_add(rest).unwrap_or(Timestamp::MAX);
        self.rests.push(Rest { kind, relapses, until });
    }

    /// Until when the last of these pods rests; `None` where none does.
    pub fn rest(&self, pods: &[Arc<Pod>], now: Timestamp) -> Option<Timestamp> {
        let resting = self.rests.iter().filter(|rest| rest.until > now);
        let found = resting.filter(|rest| {
            let mut of = pods.iter();
            of.any(|pod| pod.namespace == rest.kind.0 && pod.shape == rest.kind.1)
        });
        found.map(|rest| rest.until).max()
    }
}

/// The kinds of a move that are on more new machines than were launched on purpose.
fn came_back(one: &Move, snapshot: &Snapshot) -> Vec<Kind> {
    // Creation times are whole seconds.
    let since = one.at.as_second();
    let new = snapshot
        .nodes
        .iter()
        .filter(|node| node.managed && node.created.as_second() >= since);
    let mut found: BTreeSet<usize> = BTreeSet::new();
    let mut machines = 0;
    for node in new {
        let kinds = one.kinds.iter().enumerate().filter(|(_, (kind, _))| {
            let mut pods = node.pods.iter();
            pods.any(|pod| pod.created.as_second() >= since && pod.namespace == kind.0 && pod.shape == kind.1)
        });
        let here: Vec<usize> = kinds.map(|(index, _)| index).collect();
        machines += usize::from(!here.is_empty());
        found.extend(here);
    }
    if machines <= one.replacements {
        return Vec::new();
    }
    let now = counts(snapshot, one.kinds.iter().map(|(kind, _)| kind));
    let grown = |index: usize| {
        let (before, after) = (one.kinds.get(index), now.get(index));
        before
            .zip(after)
            .is_some_and(|((_, before), (_, after))| after > before)
    };
    found
        .into_iter()
        .filter(|index| !grown(*index))
        .filter_map(|index| Some(one.kinds.get(index)?.0.clone()))
        .collect()
}
