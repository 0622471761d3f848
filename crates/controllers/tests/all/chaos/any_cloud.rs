//! The cloud of a world: either the simulated cloud, or KWOK with faults.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_chaos::Observation;
use kerf_cloud::{CloudProvider, Fault, FaultyProvider, InterruptionKind, Method};
use kerf_kwok::KwokProvider;
use kerf_model::intern::Interner;
use kerf_runtime::{Clock, Rng};
use kube::Client;

use crate::chaos::cloud::{Cloud, CloudFaults, catalogue};

/// The calls of a kind a spell of faults strikes at most.
const CALLS: usize = 4;

pub(crate) enum AnyCloud {
    Cloud(Cloud),
    Kwok(Kwok),
}

impl AnyCloud {
    /// The provider of a process that reaches the API in this way.
    pub(crate) fn provider(&self, client: &Client) -> Arc<dyn CloudProvider> {
        match self {
            Self::Cloud(cloud) => Arc::new(cloud.clone()),
            Self::Kwok(kwok) => kwok.provider(client),
        }
    }

    pub(crate) fn is_kwok(&self) -> bool {
        matches!(self, Self::Kwok(_))
    }

    pub(crate) fn set_faults(&self, faults: CloudFaults) {
        match self {
            Self::Cloud(cloud) => cloud.set_faults(faults),
            Self::Kwok(kwok) => kwok.set_faults(faults),
        }
    }

    /// Instances that run, by id.
    pub(crate) fn running(&self, observation: &Observation) -> Vec<String> {
        match self {
            Self::Cloud(cloud) => cloud.running(),
            Self::Kwok(kwok) => {
                let gone = &kwok.lock().vanished;
                let all = observation.look(|seen| seen.instances.keys().cloned().collect::<Vec<_>>());
                all.into_iter().filter(|id| !gone.contains(id)).collect()
            }
        }
    }

    /// Ends an instance without any event.
    pub(crate) fn vanish(&self, id: &str) {
        match self {
            Self::Cloud(cloud) => cloud.vanish(id),
            Self::Kwok(kwok) => kwok.vanish(id),
        }
    }

    /// Announces that an instance will be taken away.
    pub(crate) fn reclaim(&self, id: &str) {
        match self {
            Self::Cloud(cloud) => cloud.reclaim(id),
            Self::Kwok(kwok) => kwok.reclaim(id),
        }
    }
}

/// KWOK: Nodes without machines, written by the processes themselves. Each has a provider of its own, as in production.
pub(crate) struct Kwok {
    clock: Clock,
    rng: Rng,
    interner: Arc<Interner>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    vanished: BTreeSet<String>,
    providers: Vec<(Arc<KwokProvider>, Arc<FaultyProvider>)>,
}

impl Kwok {
    pub(crate) fn new(clock: Clock, rng: Rng, interner: &Arc<Interner>) -> Self {
        Self {
            clock,
            rng,
            interner: Arc::clone(interner),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn provider(&self, client: &Client) -> Arc<dyn CloudProvider> {
        let catalogue = catalogue(&self.interner);
        let kwok = Arc::new(KwokProvider::new(client.clone(), Arc::clone(&self.interner), catalogue));
        let inner = Arc::clone(&kwok) as Arc<dyn CloudProvider>;
        let mut state = self.lock();
        let faulty = FaultyProvider::scripted(inner);
        for id in &state.vanished {
            faulty.vanish(id);
        }
        let faulty = Arc::new(faulty);
        state.providers.push((kwok, Arc::clone(&faulty)));
        faulty
    }

    /// The next calls fail, the more of them the more often calls of the cloud would.
    fn set_faults(&self, faults: CloudFaults) {
        let slow = Fault::Slow(Duration::from_millis(self.rng.below(60_000)));
        let script = [
            (Method::Create, Fault::InsufficientCapacity, faults.no_capacity),
            (Method::Create, slow, faults.slow),
            (Method::Create, Fault::AnswerLost, faults.answer_lost),
            (Method::Create, Fault::Vanish, faults.vanish),
            (Method::Delete, Fault::AnswerLost, faults.answer_lost),
            (Method::Create, Fault::Throttled, faults.throttled),
            (Method::Delete, Fault::Throttled, faults.throttled),
            (Method::List, Fault::Throttled, faults.throttled),
            (Method::Get, Fault::Unavailable, faults.unavailable),
            (Method::List, Fault::Unavailable, faults.unavailable),
        ];
        for (_, faulty) in &self.lock().providers {
            for (method, fault, chance) in script {
                for _ in 0..CALLS {
                    if chance > 0.0 && self.rng.unit() < chance {
                        faulty.next(method, fault);
                    }
                }
            }
        }
    }

    fn vanish(&self, id: &str) {
        let mut state = self.lock();
        state.vanished.insert(id.to_owned());
        for (_, faulty) in &state.providers {
            faulty.vanish(id);
        }
    }

    fn reclaim(&self, id: &str) {
        for (kwok, _) in &self.lock().providers {
            kwok.interrupt(InterruptionKind::SpotReclaim, [id.to_owned()], self.clock.now());
        }
    }
}
