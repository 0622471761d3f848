//! The account with its clock, which the connector, the nodes and the injection of faults share.

use crate::account::{Account, Answer, Signal};
use jiff::Timestamp;
use kerf_runtime::Clock;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// An account in this process. Clones are the same account.
#[derive(Clone, Debug)]
pub struct AwsSandbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    account: Mutex<Account>,
    clock: Clock,
    changed: Notify,
    observer: Option<Observer>,
}

type Look = dyn Fn(&Account, Timestamp) + Send + Sync;

struct Observer(Box<Look>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

impl AwsSandbox {
    /// An account whose time is that of the clock.
    pub fn new(account: Account, clock: Clock) -> Self {
        Self::with_observer(account, clock, None)
    }

    /// The same, and `look` is called with the account after every call and every change. It must be fast and must not use the account.
    pub fn observed(
        account: Account,
        clock: Clock,
        look: impl Fn(&Account, Timestamp) + Send + Sync + 'static,
    ) -> Self {
        Self::with_observer(account, clock, Some(Observer(Box::new(look))))
    }

    fn with_observer(account: Account, clock: Clock, observer: Option<Observer>) -> Self {
        Self {
            shared: Arc::new(Shared {
                account: Mutex::new(account),
                clock,
                changed: Notify::new(),
                observer,
            }),
        }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    #[cfg(feature = "sdk")]
    pub(crate) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    fn lock(&self) -> MutexGuard<'_, Account> {
        self.shared.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads or changes the account at the current time. Everything that is due happens first, and waiting calls check their condition afterwards.
    pub fn with<T>(&self, act: impl FnOnce(&mut Account, Timestamp) -> T) -> T {
        let (done, _) = self.serve(|account, now| {
            account.changes += 1;
            act(account, now)
        });
        done
    }

    /// The same for calls: waiting calls check their condition only if there was a change. Returns the number of the change, too.
    pub(crate) fn serve<T>(&self, act: impl FnOnce(&mut Account, Timestamp) -> T) -> (T, u64) {
        let now = self.now();
        let mut account = self.lock();
        let before = account.changes;
        account.advance(now);
        let done = act(&mut account, now);
        if let Some(Observer(look)) = &self.shared.observer {
            look(&account, now);
        }
        let after = account.changes;
        drop(account);
        if before != after {
            self.shared.changed.notify_waiters();
        }
        (done, after)
    }

    /// Lets something happen to an instance.
    pub fn signal(&self, id: &str, signal: Signal) -> Answer<()> {
        self.with(|account, now| account.signal(id, signal, now))
    }

    /// Waits until there is a change after `seen`, or until something happens in the account by itself; at most so long.
    pub(crate) async fn changed(&self, seen: u64, at_most: Duration) {
        let changed = self.shared.changed.notified();
        tokio::pin!(changed);
        // From here on no change is missed.
        changed.as_mut().enable();
        let now = self.now();
        let due = {
            let account = self.lock();
            if account.changes != seen {
                return;
            }
            account.next_change(now)
        };
        let left = due.map_or(at_most, |due| due.duration_since(now).unsigned_abs().min(at_most));
        tokio::select! {
            () = changed => {}
            () = tokio::time::sleep(left) => {}
        }
    }
}
