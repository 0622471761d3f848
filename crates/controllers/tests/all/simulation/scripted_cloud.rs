//! A cloud that fails as a test wants it and records its calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use kerf_api::{NodeClaim, NodePool};
use kerf_cloud::{CloudError, CloudProvider, Decorator, DriftReason, Launched, RegistrationHook};
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Sym;
use kerf_runtime::Options;
use kerf_sandbox::Sandbox;
use kube::Client;
use tokio::time::Instant;

use crate::simulation::harness::Simulation;

/// A call of the provider.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Call {
    Create,
    Delete,
    Get,
    List,
    IsDrifted,
}

/// What happens to calls of one kind.
#[derive(Clone)]
enum CloudFault {
    Fails(Arc<dyn Fn() -> CloudError + Send + Sync>),
    Hangs,
    /// It succeeds, and has no effect.
    Accepted,
}

#[derive(Default)]
struct State {
    faults: BTreeMap<Call, CloudFault>,
    calls: Vec<(Call, Instant)>,
    withdrawn: BTreeSet<Sym>,
    drifted: Option<&'static str>,
    /// Instances listed besides those there are.
    listed: Vec<Launched>,
}

/// What a test makes of the cloud; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<State>>);

impl Script {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls of this kind fail from now on.
    pub(crate) fn fail(&self, call: Call, error: impl Fn() -> CloudError + Send + Sync + 'static) {
        self.lock().faults.insert(call, CloudFault::Fails(Arc::new(error)));
    }

    /// Calls of this kind are never answered from now on.
    pub(crate) fn hang(&self, call: Call) {
        self.lock().faults.insert(call, CloudFault::Hangs);
    }

    /// Instances take their time to end from now on: each deletion is accepted, and has no effect yet.
    pub(crate) fn linger(&self) {
        self.lock().faults.insert(Call::Delete, CloudFault::Accepted);
    }

    fn lingers(&self) -> bool {
        matches!(self.lock().faults.get(&Call::Delete), Some(CloudFault::Accepted))
    }

    /// These instances are listed besides those there are from now on.
    pub(crate) fn list_also(&self, instances: Vec<Launched>) {
        self.lock().listed = instances;
    }

    /// Calls of this kind are carried out from now on.
    pub(crate) fn heal(&self, call: Call) {
        self.lock().faults.remove(&call);
    }

    /// These types, and no others, are no longer on offer from now on.
    pub(crate) fn withdraw(&self, kinds: impl IntoIterator<Item = Sym>) {
        self.lock().withdrawn = kinds.into_iter().collect();
    }

    /// Every instance has drifted for this reason from now on, or none by the cloud's account.
    pub(crate) fn drift(&self, reason: Option<&'static str>) {
        self.lock().drifted = reason;
    }

    /// When calls of this kind were made, in seconds since the first of them.
    pub(crate) fn times(&self, call: Call) -> Vec<f64> {
        let state = self.lock();
        let times: Vec<Instant> = state
            .calls
            .iter()
            .filter(|(made, _)| *made == call)
            .map(|(_, at)| *at)
            .collect();
        let first = times.first().copied();
        times
            .iter()
            .map(|at| first.map_or(0.0, |first| (*at - first).as_secs_f64()))
            .collect()
    }

    /// How many calls of this kind were made.
    pub(crate) fn count(&self, call: Call) -> usize {
        self.times(call).len()
    }

    async fn meet(&self, call: Call) -> Result<(), CloudError> {
        let fault = {
            let mut state = self.lock();
            state.calls.push((call, Instant::now()));
            state.faults.get(&call).cloned()
        };
        match fault {
            None | Some(CloudFault::Accepted) => Ok(()),
            Some(CloudFault::Fails(error)) => Err(error()),
            Some(CloudFault::Hangs) => std::future::pending().await,
        }
    }
}

struct Scripted {
    inner: Arc<dyn CloudProvider>,
    script: Script,
    hooks: Vec<Arc<dyn RegistrationHook>>,
}

#[async_trait]
impl Decorator for Scripted {
    fn inner(&self) -> &Arc<dyn CloudProvider> {
        &self.inner
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Launched, CloudError> {
        self.script.meet(Call::Create).await?;
        self.inner.create(claim).await
    }

    async fn delete(&self, claim: &NodeClaim) -> Result<(), CloudError> {
        self.script.meet(Call::Delete).await?;
        if self.script.lingers() {
            return Ok(());
        }
        self.inner.delete(claim).await
    }

    async fn get(&self, provider_id: &str) -> Result<Launched, CloudError> {
        self.script.meet(Call::Get).await?;
        self.inner.get(provider_id).await
    }

    async fn list(&self) -> Result<Vec<Launched>, CloudError> {
        self.script.meet(Call::List).await?;
        let mut listed = self.inner.list().await?;
        listed.extend(self.script.lock().listed.iter().cloned());
        Ok(listed)
    }

    async fn instance_types(&self, pool: &NodePool) -> Result<Arc<Catalogue>, CloudError> {
        let all = self.inner.instance_types(pool).await?;
        let state = self.script.lock();
        if state.withdrawn.is_empty() {
            return Ok(all);
        }
        let left = all.types.iter().filter(|kind| !state.withdrawn.contains(&kind.name));
        let types = left.cloned().collect();
        Ok(Arc::new(Catalogue { types }))
    }

    async fn is_drifted(&self, claim: &NodeClaim) -> Result<Option<DriftReason>, CloudError> {
        self.script.meet(Call::IsDrifted).await?;
        let scripted = self.script.lock().drifted;
        match scripted {
            Some(reason) => Ok(Some(DriftReason(reason.into()))),
            None => self.inner.is_drifted(claim).await,
        }
    }

    fn registration_hooks(&self) -> &[Arc<dyn RegistrationHook>] {
        &self.hooks
    }
}

/// A cluster whose cloud follows a script.
pub(crate) async fn scripted() -> (Simulation, Script) {
    scripted_with(|_| {}, Vec::new()).await
}

/// The same with other options, and with hooks nodes have to pass.
pub(crate) async fn scripted_with(
    change: impl FnOnce(&mut Options),
    hooks: Vec<Arc<dyn RegistrationHook>>,
) -> (Simulation, Script) {
    let sandbox = Simulation::start().await.crash().await;
    let client = sandbox.client();
    scripted_as(sandbox, client, change, hooks)
}

/// The same on a cluster there is already.
pub(crate) fn scripted_on(sandbox: Sandbox, change: impl FnOnce(&mut Options)) -> (Simulation, Script) {
    let client = sandbox.client();
    scripted_as(sandbox, client, change, Vec::new())
}

/// The same with a client of the controllers' own.
pub(crate) fn scripted_as(
    sandbox: Sandbox,
    client: Client,
    change: impl FnOnce(&mut Options),
    hooks: Vec<Arc<dyn RegistrationHook>>,
) -> (Simulation, Script) {
    let script = Script::default();
    let given = script.clone();
    let simulation = Simulation::join_around(sandbox, client, change, move |inner| {
        Arc::new(Scripted {
            inner,
            script: given,
            hooks,
        })
    });
    (simulation, script)
}
