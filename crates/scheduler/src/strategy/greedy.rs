//! The greedy of section 16: pods by size, each offered to existing nodes, then to claims by fewest pods, then to new claims by pool weight.

use crate::claims::Cursor;
use crate::classes::{Class, ClassId};
use crate::run::{Ask, Fit, No, Run};
use crate::strategy::{Outcome, Start, Stop};
use crate::topology::Allowed;
use std::collections::VecDeque;

/// How often the deadline is looked at, in pods.
const STOP_EVERY: usize = 256;

/// After so many claims that would take the pod at too high a price, another machine is opened.
const DEAR_MAX: usize = 16;

/// How an attempt to place a pod ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attempt {
    Placed,
    Failed,
    /// Only reservations were in the way.
    Deferred,
}

impl From<No> for Attempt {
    fn from(no: No) -> Self {
        match no {
            No::Reserved(_) => Self::Deferred,
            No::Ever | No::Now => Self::Failed,
        }
    }
}

/// Chooses among claims there are and new ones, for a pod that no existing node takes.
pub(crate) trait Choose {
    /// Books the pod on a claim, if any takes it.
    fn place(&mut self, run: &mut Run<'_, '_>, ask: &Ask<'_>, class: ClassId, pod: u32) -> Attempt;
}

/// The claim with the fewest pods (SCH-248), else a new one.
pub(crate) struct FewestPods;

impl Choose for FewestPods {
    fn place(&mut self, run: &mut Run<'_, '_>, ask: &Ask<'_>, class: ClassId, pod: u32) -> Attempt {
        if join(run, ask, class, pod, |_, _, _| true) {
            return Attempt::Placed;
        }
        open(run, ask, class, pod)
    }
}

/// Places the pods of `queue`, again and again until a full cycle makes no progress (SCH-242, SCH-243).
pub(crate) fn solve<'w, 'a>(
    mut run: Run<'w, 'a>,
    queue: &[u32],
    choose: &mut dyn Choose,
    stop: Stop<'_>,
) -> Outcome<'w, 'a> {
    let world = run.world;
    let mut waiting: VecDeque<u32> = queue.iter().copied().collect();
    let mut last_length: Vec<u32> = vec![0; world.pods.len()];
    let mut failures: Vec<Option<(u64, Attempt)>> = vec![None; world.classes.len()];
    let mut latest: Vec<Option<Attempt>> = vec![None; world.pods.len()];
    let mut steps = 0;
    while let Some(pod) = waiting.front().copied() {
        if last_length[pod as usize] as usize == waiting.len() || (steps % STOP_EVERY == STOP_EVERY - 1 && stop()) {
            break;
        }
        steps += 1;
        waiting.pop_front();
        let Some(class) = world.of_pod[pod as usize] else {
            continue;
        };
        // Nothing has been placed since an equal pod failed: this one fails the same way.
        let attempt = match failures[class as usize] {
            Some((placed, failed)) if placed == run.placed => failed,
            _ => attempt(&mut run, class, pod, choose),
        };
        latest[pod as usize] = Some(attempt);
        if attempt != Attempt::Placed {
            failures[class as usize] = Some((run.placed, attempt));
            waiting.push_back(pod);
            last_length[pod as usize] = waiting.len() as u32;
        }
    }
    let (mut failed, mut unattempted) = (Vec::new(), Vec::new());
    for pod in waiting {
        match latest[pod as usize] {
            Some(attempt) => failed.push((pod, attempt == Attempt::Deferred)),
            None => unattempted.push(pod),
        }
    }
    Outcome {
        run,
        failed,
        unattempted,
    }
}

/// One pod with all its relaxations, from existing nodes on each time (SCH-267).
fn attempt(run: &mut Run<'_, '_>, class_id: ClassId, pod: u32, choose: &mut dyn Choose) -> Attempt {
    let world = run.world;
    let class = world.class(class_id);
    if class.reach.unclear {
        return Attempt::Failed;
    }
    for (level, variant) in class.variants.iter().enumerate() {
        if world.req_sets.get(variant.full).contradiction.is_some() {
            continue;
        }
        let Ok(allowed) = Allowed::compute(world, &run.counts, class, variant) else {
            continue;
        };
        let ask = Ask {
            class,
            variant,
            allowed: &allowed,
            reading: run.reading(class_id, level),
        };
        if let Some(target) = run.first_target(&ask) {
            run.place_on_target(target, class_id, pod);
            note_level(run, pod, level);
            return Attempt::Placed;
        }
        match choose.place(run, &ask, class_id, pod) {
            Attempt::Failed => {}
            Attempt::Placed => {
                note_level(run, pod, level);
                return Attempt::Placed;
            }
            // SCH-271: nothing is relaxed to escape a reservation.
            Attempt::Deferred => return Attempt::Deferred,
        }
    }
    Attempt::Failed
}

/// Remembers a pod whose strictest reading was not the one that placed it.
fn note_level(run: &mut Run<'_, '_>, pod: u32, level: usize) {
    if level > 0 {
        run.relaxed.push((pod, level));
    }
}

/// The claim with the fewest pods that takes the pod (SCH-248) at a price that `pays`.
pub(crate) fn join(
    run: &mut Run<'_, '_>,
    ask: &Ask<'_>,
    class: ClassId,
    pod: u32,
    pays: impl Fn(&mut Run<'_, '_>, usize, &Fit) -> bool,
) -> bool {
    let mut cursor = Cursor::default();
    let mut dear = 0;
    while let Some(claim) = run.next_claim(ask, &mut cursor) {
        if let Ok(fit) = run.try_claim(ask, claim) {
            if !pays(run, claim, &fit) {
                dear += 1;
                if dear == DEAR_MAX {
                    return false;
                }
                continue;
            }
            run.place_on_claim(claim, &fit, class, pod);
            return true;
        }
    }
    false
}

/// Opens a claim of the first template that takes the pod.
pub(crate) fn open(run: &mut Run<'_, '_>, ask: &Ask<'_>, class: ClassId, pod: u32) -> Attempt {
    match run.first_template(ask) {
        Ok((template, fit)) => {
            run.open(template, &fit, class, pod);
            Attempt::Placed
        }
        Err(no) => no.into(),
    }
}

/// The greedy with ties broken by price.
pub(super) fn plain<'w, 'a>(start: &Start<'w, 'a>, queue: &[u32], _: u64, stop: Stop<'_>) -> Option<Outcome<'w, 'a>> {
    let world = start.run.world;
    let settles =
        |class: &Class| !class.settles.is_empty() || class.variants.iter().any(|variant| !variant.owned.is_empty());
    world
        .classes
        .iter()
        .any(settles)
        .then(|| solve(Run::by_price(world), queue, &mut FewestPods, stop))
}
