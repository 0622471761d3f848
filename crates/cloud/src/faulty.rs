//! A decorator that injects faults into calls, scripted or drawn from a seeded generator.

use crate::choose::Randomness;
use crate::decorator::Decorator;
use crate::error::CloudError;
use crate::metered::Method;
use crate::provider::{CloudProvider, DriftReason, Launched};
use async_trait::async_trait;
use kerf_api::{NodeClaim, NodePool};
use kerf_model::instance_type::Catalogue;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A fault of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Insufficient capacity; nothing was launched.
    InsufficientCapacity,
    /// The request is throttled; nothing was done.
    Throttled,
    /// An internal error; nothing was done.
    Unavailable,
    /// The call succeeds after this time.
    Slow(Duration),
    /// The call was carried out, but its answer is lost.
    AnswerLost,
    /// The instance disappears right after its launch.
    Vanish,
}

/// How often faults are drawn for calls without a scripted one, in thousandths of the calls to which the fault applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultRates {
    /// Of `create`.
    pub insufficient_capacity: u16,
    /// Of every call.
    pub throttled: u16,
    /// Of every call.
    pub unavailable: u16,
    /// Of every call.
    pub slow: u16,
    /// The longest time a slow call takes.
    pub slow_max: Duration,
    /// Of `create` and `delete`.
    pub answer_lost: u16,
    /// Of `create`.
    pub vanish: u16,
}

/// Injects faults into the calls of another provider.
pub struct FaultyProvider {
    inner: Arc<dyn CloudProvider>,
    rates: FaultRates,
    random: Box<dyn Randomness>,
    state: Mutex<FaultState>,
}

#[derive(Default)]
struct FaultState {
    script: Vec<(Method, Fault)>,
    vanished: BTreeSet<String>,
}

impl FaultyProvider {
    /// Around another provider, without faults but those of [`next`](Self::next) and [`vanish`](Self::vanish).
    pub fn scripted(inner: Arc<dyn CloudProvider>) -> Self {
        Self::random(inner, FaultRates::default(), |_: u64| 0)
    }

    /// Around another provider, with faults drawn from a generator.
    pub fn random(inner: Arc<dyn CloudProvider>, rates: FaultRates, random: impl Randomness + 'static) -> Self {
        Self {
            inner,
            rates,
            random: Box::new(random),
            state: Mutex::default(),
        }
    }

    /// Adds a fault for the next call of the method; several faults of one method happen in the order they were added.
    pub fn next(&self, method: Method, fault: Fault) {
        self.locked().script.push((method, fault));
    }

    /// Hides the instance from now on, even if the provider below still has it.
    pub fn vanish(&self, provider_id: &str) {
        self.locked().vanished.insert(provider_id.to_owned());
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, FaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_gone(&self, provider_id: &str) -> bool {
        self.locked().vanished.contains(provider_id)
    }

    fn fault(&self, method: Method) -> Option<Fault> {
        let mut state = self.locked();
        if let Some(at) = state.script.iter().position(|(scripted, _)| *scripted == method) {
            return Some(state.script.remove(at).1);
        }
        drop(state);
        self.drawn(method)
    }

    fn drawn(&self, method: Method) -> Option<Fault> {
        let create = method == Method::Create;
        let changes = create || method == Method::Delete;
        let candidates = [
            (create, self.rates.insufficient_capacity, Fault::InsufficientCapacity),
            (true, self.rates.throttled, Fault::Throttled),
            (true, self.rates.unavailable, Fault::Unavailable),
            (true, self.rates.slow, Fault::Slow(self.rates.slow_max)),
            (changes, self.rates.answer_lost, Fault::AnswerLost),
            (create, self.rates.vanish, Fault::Vanish),
        ];
        for (applies, rate, fault) in candidates {
            if applies && rate > 0 && self.random.below(1000) < u64::from(rate) {
                let Fault::Slow(most) = fault else { return Some(fault) };
                let millis = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
                return Some(Fault::Slow(Duration::from_millis(
                    self.random.below(millis.saturating_add(1)),
                )));
            }
        }
        None
    }

    /// Fails or waits before the call, according to the fault.
    async fn before(&self, fault: Option<Fault>) -> Result<(), CloudError> {
        match fault {
            Some(Fault::InsufficientCapacity) => Err(CloudError::insufficient_capacity("injected by the test")),
            Some(Fault::Throttled) => Err(CloudError::Retryable {
                message: "request limit exceeded (injected)".into(),
                after: Some(Duration::from_secs(1)),
            }),
            Some(Fault::Unavailable) => Err(CloudError::other("internal error (injected)")),
            Some(Fault::Slow(delay)) => {
                tokio::time::sleep(delay).await;
                Ok(())
            }
            Some(Fault::AnswerLost | Fault::Vanish) | None => Ok(()),
        }
    }

    async fn around<T>(
        &self,
        method: Method,
        call: impl Future<Output = Result<T, CloudError>> + Send,
    ) -> Result<T, CloudError> {
        let fault = self.fault(method);
        self.before(fault).await?;
        let answer = call.await;
        match fault {
            Some(Fault::AnswerLost) => Err(answer_lost()),
            _ => answer,
        }
    }
}

fn answer_lost() -> CloudError {
    CloudError::Retryable {
        message: "connection reset before the answer (injected)".into(),
        after: None,
    }
}

#[async_trait]
impl Decorator for FaultyProvider {
    fn inner(&self) -> &Arc<dyn CloudProvider> {
        &self.inner
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Launched, CloudError> {
        let fault = self.fault(Method::Create);
        self.before(fault).await?;
        let launched = self.inner.create(claim).await?;
        match fault {
            Some(Fault::AnswerLost) => return Err(answer_lost()),
            Some(Fault::Vanish) => self.vanish(&launched.provider_id),
            _ => {}
        }
        Ok(launched)
    }

    async fn delete(&self, claim: &NodeClaim) -> Result<(), CloudError> {
        // The provider below terminates it as well.
        let answer = self.around(Method::Delete, self.inner.delete(claim)).await;
        let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        match (answer, id) {
            (Ok(()), Some(id)) if self.is_gone(id) => Err(CloudError::not_found(id)),
            (answer, _) => answer,
        }
    }

    async fn get(&self, provider_id: &str) -> Result<Launched, CloudError> {
        if self.is_gone(provider_id) {
            return Err(CloudError::not_found(provider_id));
        }
        self.around(Method::Get, self.inner.get(provider_id)).await
    }

    async fn list(&self) -> Result<Vec<Launched>, CloudError> {
        let mut instances = self.around(Method::List, self.inner.list()).await?;
        instances.retain(|instance| !self.is_gone(&instance.provider_id));
        Ok(instances)
    }

    async fn instance_types(&self, pool: &NodePool) -> Result<Arc<Catalogue>, CloudError> {
        self.around(Method::GetInstanceTypes, self.inner.instance_types(pool))
            .await
    }

    async fn is_drifted(&self, claim: &NodeClaim) -> Result<Option<DriftReason>, CloudError> {
        self.around(Method::IsDrifted, self.inner.is_drifted(claim)).await
    }
}
