//! A queue of interruption signals for providers that raise them themselves.

use crate::interruption::{Interruption, InterruptionKind};
use jiff::Timestamp;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a delivered signal is hidden. It is delivered again after that unless it is acknowledged.
pub const REDELIVERY: Duration = Duration::from_secs(20);
/// The most signals kept; the oldest are dropped beyond that. Far more than instances a test interrupts at once.
const SIGNALS_MAX: usize = 10_000;

/// Waits until a delivered signal is due again; for ever if there is none.
pub async fn redelivery(due: Option<Instant>) {
    match due {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Signals in the order they were raised, each delivered until it is acknowledged.
#[derive(Debug, Default)]
pub struct SignalQueue {
    state: Mutex<Signals>,
    raised: Notify,
}

#[derive(Debug, Default)]
struct Signals {
    signals: Vec<(Interruption, Option<Instant>)>,
    count: u64,
}

impl SignalQueue {
    /// Raises a signal about instances.
    pub fn raise(&self, kind: InterruptionKind, provider_ids: impl IntoIterator<Item = String>, sent: Timestamp) {
        let mut state = self.locked();
        state.count += 1;
        let signal = Interruption {
            kind,
            provider_ids: provider_ids.into_iter().collect(),
            sent: Some(sent),
            receipt: state.count.to_string(),
        };
        if state.signals.len() >= SIGNALS_MAX {
            state.signals.remove(0);
        }
        state.signals.push((signal, None));
        drop(state);
        self.raised.notify_one();
    }

    /// Waits for signals that are not hidden, and hides them for a while.
    pub async fn receive(&self) -> Vec<Interruption> {
        loop {
            let (ready, next) = self.take(Instant::now());
            if !ready.is_empty() {
                return ready;
            }
            tokio::select! {
                biased;
                () = self.raised.notified() => {}
                () = redelivery(next) => {}
            }
        }
    }

    /// Removes a signal.
    pub fn acknowledge(&self, handled: &Interruption) {
        self.locked()
            .signals
            .retain(|(signal, _)| signal.receipt != handled.receipt);
    }

    /// Returns the signals that are due at `now` and when the next hidden one is due.
    fn take(&self, now: Instant) -> (Vec<Interruption>, Option<Instant>) {
        let mut state = self.locked();
        let mut ready = Vec::new();
        for (signal, hidden_until) in &mut state.signals {
            if hidden_until.is_none_or(|until| until <= now) {
                *hidden_until = Some(now + REDELIVERY);
                ready.push(signal.clone());
            }
        }
        let next = state.signals.iter().filter_map(|(_, until)| *until).min();
        (ready, next)
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Signals> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_signal_comes_again_until_it_is_acknowledged() {
        let queue = SignalQueue::default();
        queue.raise(
            InterruptionKind::SpotReclaim,
            ["kwok://a".to_owned()],
            Timestamp::UNIX_EPOCH,
        );
        queue.raise(
            InterruptionKind::InstanceStopped,
            ["kwok://b".to_owned()],
            Timestamp::UNIX_EPOCH,
        );
        let first = queue.receive().await;
        assert_eq!(
            first.iter().map(|signal| signal.kind).collect::<Vec<_>>(),
            [InterruptionKind::SpotReclaim, InterruptionKind::InstanceStopped]
        );
        queue.acknowledge(&first[0]);
        let start = Instant::now();
        assert_eq!(queue.receive().await, first[1..]);
        assert_eq!(start.elapsed(), REDELIVERY);
        queue.acknowledge(&first[1]);
        let received = tokio::time::timeout(Duration::from_secs(3600), queue.receive()).await;
        assert!(received.is_err());
    }
}
