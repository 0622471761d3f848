//! Who looks at rounds of disruption besides the loop that carries them out.

use std::fmt;
use std::sync::Arc;

use kerf_decide::{Inputs, Method, Round};

type Look = dyn Fn(&Inputs<'_>, Method, &Round) + Send + Sync;

/// Called with what each round was decided from, the method it began with, and what it came to, before anything of it is carried out.
/// By default it does nothing.
#[derive(Clone, Default)]
pub struct RoundObserver(Option<Arc<Look>>);

impl RoundObserver {
    /// Calls `look` for every round, on the thread that decides.
    pub fn new(look: impl Fn(&Inputs<'_>, Method, &Round) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(look)))
    }

    pub(crate) fn see(&self, inputs: &Inputs<'_>, from: Method, round: &Round) {
        if let Some(look) = &self.0 {
            look(inputs, from, round);
        }
    }
}

impl fmt::Debug for RoundObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let looks = if self.0.is_some() { "somebody" } else { "nobody" };
        f.debug_tuple("RoundObserver").field(&looks).finish()
    }
}
