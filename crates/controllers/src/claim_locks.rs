//! Lets the writes of one NodeClaim follow one another.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// Whose turn it is, by the unique id of the claim; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimTurns(Arc<Mutex<BTreeMap<String, Weak<Turn<()>>>>>);

impl ClaimTurns {
    /// Waits until no other write of the claim is under way. The turn ends when the result is dropped.
    pub(crate) async fn wait(&self, uid: &str) -> OwnedMutexGuard<()> {
        self.turn(uid).lock_owned().await
    }

    fn turn(&self, uid: &str) -> Arc<Turn<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(uid).and_then(Weak::upgrade) {
            return turn;
        }
        // Claims that nobody writes any more are forgotten here.
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Turn::new(()));
        turns.insert(uid.to_owned(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_turn_of_one_claim_is_nobody_elses() {
        let turns = ClaimTurns::default();
        let first = turns.wait("a").await;
        let _other = turns.wait("b").await;
        assert!(turns.turn("a").try_lock().is_err());
        drop(first);
        assert!(turns.turn("a").try_lock().is_ok());
    }
}
