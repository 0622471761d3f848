//! Observes a world: every event is folded into the view, logged, and checked by the invariants at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_apiserver::Write;
use kerf_runtime::Clock;
use tokio::time::Instant;

use crate::caller::Caller;
use crate::invariants::{Invariant, all};
use crate::view::{self, Diff, Event, Instance, View};

/// Lines remembered.
const LINES_MAX: usize = 400_000;

/// Where a world's instances are seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instances {
    /// Nodes are the instances.
    AreNodes,
    /// The cloud reports them.
    AreReported,
}

/// A world under observation; clones share it.
#[derive(Clone)]
pub struct Observation(Arc<Mutex<Inner>>);

impl std::fmt::Debug for Observation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observation").finish_non_exhaustive()
    }
}

struct Inner {
    clock: Clock,
    began: Instant,
    seen: View,
    rules: Vec<Box<dyn Invariant>>,
    log: VecDeque<String>,
    whole: bool,
    instances: Instances,
    events: u64,
    violations: Vec<String>,
}

impl Observation {
    /// Of a world that begins now; `whole` keeps every line.
    pub fn new(clock: Clock, whole: bool, instances: Instances) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            clock,
            began: Instant::now(),
            seen: View::default(),
            rules: all(),
            log: VecDeque::new(),
            whole,
            instances,
            events: 0,
            violations: Vec::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write to the API.
    pub fn write(&self, write: &Write<'_>) {
        if view::is_noise(write) {
            return;
        }
        let caller = Caller::now();
        let mut inner = self.lock();
        inner.tick();
        let elapsed = inner.seen.elapsed;
        if write.plural != "leases" {
            inner.note(|| view::line(write, caller, elapsed));
        }
        inner.seen.acting = Caller::life();
        let Some(event) = inner.seen.fold(write) else { return };
        if inner.instances == Instances::AreReported {
            return inner.judge(caller, &event);
        }
        if let Event::Node(Diff { after: Some(node), .. }) = &event {
            inner.seen.instances.entry(node.provider_id.clone()).or_default();
        }
        inner.judge(caller, &event);
        if let Event::Node(Diff {
            before: Some(node),
            after: None,
        }) = &event
        {
            inner.seen.instances.remove(&node.provider_id);
        }
    }

    /// A life of the controllers made a call that changes something in the cloud.
    pub fn called(&self, life: u64, name: &str) {
        let mut inner = self.lock();
        inner.tick();
        inner.seen.acting = life;
        inner.judge(Caller::Kerf, &Event::Call(name.to_owned()));
    }

    /// An instance began.
    pub fn launched(&self, id: &str, claim: &str) {
        self.remark(&format!("{id} was launched for {claim}"));
        self.lock().seen.instances.insert(id.to_owned(), Instance::default());
    }

    /// Records that the controllers terminate an instance.
    pub fn ending(&self, id: &str) {
        self.remark(&format!("{id} was told to end"));
        let mut inner = self.lock();
        inner.judge(Caller::Others, &Event::Ending(id.to_owned()));
        if let Some(instance) = inner.seen.instances.get_mut(id) {
            instance.stopping = true;
        }
    }

    /// An instance does not run any more although nobody said that it ends.
    pub fn stopped(&self, id: &str) {
        self.remark(&format!("{id} was stopped"));
        if let Some(instance) = self.lock().seen.instances.get_mut(id) {
            instance.stopping = true;
        }
    }

    /// An instance is gone.
    pub fn gone(&self, id: &str) {
        self.remark(&format!("{id} is gone"));
        let mut inner = self.lock();
        inner.seen.instances.remove(id);
        inner.seen.gone.insert(id.to_owned());
    }

    /// Something the driver did.
    pub fn remark(&self, text: &str) {
        let mut inner = self.lock();
        inner.tick();
        let at = inner.seen.elapsed.as_secs_f64();
        inner.note(|| format!("{at:>9.3} ---- {text}"));
    }

    /// Notes whether watches may lose what happens from now on.
    pub fn watches_lose(&self, lose: bool) {
        let mut inner = self.lock();
        inner.tick();
        let now = inner.seen.elapsed;
        inner.seen.honest_since = match inner.seen.honest_since {
            _ if lose => Some(Duration::MAX),
            Some(Duration::MAX) => Some(now),
            before => before,
        };
    }

    /// Notes which workloads there are, and whether they are daemons.
    pub fn workload(&self, name: &str, is_daemon: bool) {
        self.lock().seen.workloads.insert(name.to_owned(), is_daemon);
    }

    /// What is not as it must be once quiet.
    pub fn unfinished(&self) -> Vec<String> {
        let inner = self.lock();
        let rules = inner.rules.iter();
        rules
            .flat_map(|rule| {
                let wrong = rule.quiet(&inner.seen);
                wrong.into_iter().map(|text| format!("{}: {text}", rule.name()))
            })
            .collect()
    }

    /// Reports what never became quiet.
    pub fn report(&self, wrong: Vec<String>) {
        self.lock().violations.extend(wrong);
    }

    /// Reads what is seen.
    pub fn look<T>(&self, read: impl FnOnce(&View) -> T) -> T {
        read(&self.lock().seen)
    }

    /// What was wrong so far.
    pub fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// How many events were judged.
    pub fn events(&self) -> u64 {
        self.lock().events
    }

    /// The lines that were kept.
    pub fn log(&self) -> Vec<String> {
        self.lock().log.iter().cloned().collect()
    }
}

impl Inner {
    fn tick(&mut self) {
        self.seen.elapsed = self.began.elapsed();
        self.seen.now = self.clock.now();
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if !self.whole {
            return;
        }
        self.log.push_back(line());
        if self.log.len() > LINES_MAX {
            self.log.pop_front();
        }
    }

    fn judge(&mut self, caller: Caller, event: &Event) {
        self.events += 1;
        let at = self.seen.elapsed.as_secs_f64();
        for rule in &mut self.rules {
            if let Some(wrong) = rule.after(&self.seen, caller, event) {
                self.violations.push(format!("{at:.3} s: {}: {wrong}", rule.name()));
                let line = format!("{at:>9.3} !!!! {wrong}");
                self.log.push_back(line);
            }
        }
    }
}
