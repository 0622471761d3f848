//! Whether the lease can be read and written, for the log and the readiness probe.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::ElectionConfig;

/// How often a lasting fault is logged: often enough to be seen in the log, and rare beside thirty attempts a minute.
const REPEAT: Duration = Duration::from_secs(60);

/// Why the last attempt to read or write the lease failed, if it did. Clones share the state.
#[derive(Clone, Default)]
pub struct LeaseAccess(Arc<Mutex<Option<Fault>>>);

struct Fault {
    cause: String,
    logged_at: Instant,
}

/// What was tried.
#[derive(Clone, Copy)]
pub(super) enum Attempt {
    Read,
    Write,
}

impl LeaseAccess {
    /// `Ok` while the lease can be read, and written where that is wanted; the error is a sentence with the cause.
    pub fn check(&self) -> Result<(), String> {
        match &*self.locked() {
            Some(fault) => Err(fault.cause.clone()),
            None => Ok(()),
        }
    }

    /// Records that the lease can be used.
    pub(super) fn works(&self, config: &ElectionConfig) {
        if self.locked().take().is_some() {
            tracing::info!(lease = %config.name, namespace = %config.namespace, "the leader election lease can be used again");
        }
    }

    /// Records that an attempt failed, and logs it: at once, then every minute while the fault lasts.
    pub(super) fn fails(&self, config: &ElectionConfig, attempt: Attempt, error: &str) {
        let verb = match attempt {
            Attempt::Read => "read",
            Attempt::Write => "written",
        };
        let (name, namespace) = (&config.name, &config.namespace);
        let cause = format!("lease {name} in namespace {namespace} cannot be {verb}: {error}");
        let now = Instant::now();
        let mut fault = self.locked();
        let logged_at = fault.as_ref().map(|fault| fault.logged_at);
        let is_due = logged_at.is_none_or(|logged_at| now.duration_since(logged_at) >= REPEAT);
        *fault = Some(Fault {
            cause,
            logged_at: if is_due { now } else { logged_at.unwrap_or(now) },
        });
        drop(fault);
        if is_due {
            tracing::error!(
                lease = %name,
                namespace = %namespace,
                error = %error,
                "the leader election lease cannot be {verb}: without it this process provisions and disrupts nothing; retrying"
            );
        }
    }

    fn locked(&self) -> MutexGuard<'_, Option<Fault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
