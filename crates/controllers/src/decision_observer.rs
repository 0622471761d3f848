//! Who looks at decisions besides the controllers that carry them out.

use std::fmt;
use std::sync::Arc;

use kerf_decide::{Inputs, Memory, Method, Provision, Round};

/// A decision, before anything of it is carried out.
#[derive(Clone, Copy, Debug)]
pub enum ObservedDecision<'a> {
    /// A pass of provisioning.
    Provision(&'a Provision),
    /// A round of disruption that began with this method.
    Disrupt(Method, &'a Round),
}

type Callback = dyn Fn(&Inputs<'_>, &Memory, ObservedDecision<'_>) + Send + Sync;

/// Called with each decision, what it was decided from, and what the memory said before it. By default it does nothing.
#[derive(Clone, Default)]
pub struct DecisionObserver(Option<Arc<Callback>>);

impl DecisionObserver {
    /// Calls `callback` for every decision, on the thread that decides.
    pub fn new(callback: impl Fn(&Inputs<'_>, &Memory, ObservedDecision<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(callback)))
    }

    /// A copy of the memory before a decision, if anybody looks at it.
    pub(crate) fn before(&self, memory: &Memory) -> Memory {
        self.0.as_ref().map(|_| memory.findings()).unwrap_or_default()
    }

    pub(crate) fn observe(&self, inputs: &Inputs<'_>, before: &Memory, decision: ObservedDecision<'_>) {
        if let Some(callback) = &self.0 {
            callback(inputs, before, decision);
        }
    }
}

impl fmt::Debug for DecisionObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let looks = if self.0.is_some() { "somebody" } else { "nobody" };
        f.debug_tuple("DecisionObserver").field(&looks).finish()
    }
}
