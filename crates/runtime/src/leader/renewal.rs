//! One renewal of the lease. A call that is slow goes on while others are tried: on a loaded API server its answer may well come.

use tokio::time::Instant;

use super::Elector;
use super::access::Attempt;
use super::calls::{Answer, LeaseCalls};
use super::step::Step;
use crate::client::describe;

/// The call that begins next.
#[derive(Clone, Copy)]
enum Next {
    Write,
    /// After a write that failed: the lease may have changed.
    Read,
    /// While a call has had no answer for a time: its write may have been carried out.
    ReadWhileUnanswered,
}

impl Elector {
    /// Renews the lease; returns false when this process leads no more.
    pub(super) async fn renew(&mut self) -> bool {
        let mut calls = LeaseCalls::new(&self.api, &self.config.name);
        let (delay, pause) = (self.config.hedging_delay, self.config.retry_period / 4);
        let (mut next, mut due, mut delays) = (Next::Write, Instant::now(), 0);
        while self.decide() == Step::Renew {
            tokio::select! {
                biased;
                Some(answer) = calls.answer() => match answer {
                    Answer::Written { began, result: Ok(lease) } => {
                        self.note_lease(Some(lease));
                        self.note_success(began);
                        return true;
                    }
                    Answer::Written { result: Err(error), .. } => {
                        self.note_failure(&error);
                        (next, due) = (Next::Read, Instant::now());
                    }
                    Answer::Read(Ok(lease)) => {
                        if self.note_lease(lease) {
                            return true;
                        }
                        (next, due) = (Next::Write, Instant::now() + pause);
                    }
                    Answer::Read(Err(error)) => {
                        self.access.fails(&self.config, Attempt::Read, &describe(&error));
                        (next, due) = (Next::Write, Instant::now() + pause);
                    }
                },
                () = tokio::time::sleep_until(due) => {
                    match next {
                        Next::Write => self.begin_write(&mut calls),
                        Next::Read => {
                            self.count_slow_path();
                            calls.read();
                        }
                        Next::ReadWhileUnanswered => {
                            delays += 1;
                            self.note_no_answer(Attempt::Write, delays);
                            self.count_slow_path();
                            calls.read();
                        }
                    }
                    (next, due) = (Next::ReadWhileUnanswered, Instant::now() + delay);
                }
                () = tokio::time::sleep(self.left()) => {}
            }
        }
        false
    }

    fn count_slow_path(&self) {
        if let Some(slowpath) = &self.slowpath {
            slowpath.inc(&[&self.config.name]);
        }
    }
}
