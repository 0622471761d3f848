//! Repeats failed calls: four attempts with growing pauses (OPS-108; DIS-013, DIS-276, LIF-180).

use std::time::Duration;

use kerf_runtime::Rng;

use crate::context::Context;

const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const FACTOR: u32 = 5;
/// How much the pauses vary at random, as a share of them.
const JITTER: f64 = 0.1;

/// Repeats calls. Clones share one source of randomness for the pauses.
#[derive(Clone)]
pub(crate) struct Retry(Rng);

impl Retry {
    /// A retry whose pauses are drawn for the controller `user`.
    pub(crate) fn new(context: &Context, user: &str) -> Self {
        Self(context.seed.derive(user).rng())
    }

    /// Returns the first success, or the error of the last attempt. An attempt returns as a success what is no error for the caller,
    /// such as an object that is gone.
    pub(crate) async fn run<T, E, F>(&self, attempt: impl Fn() -> F + Send) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>> + Send,
        T: Send,
        E: Send,
    {
        for number in 0..ATTEMPTS - 1 {
            let failed = attempt().await;
            if failed.is_ok() {
                return failed;
            }
            let pause = FIRST_PAUSE * FACTOR.pow(number);
            tokio::time::sleep(self.0.jitter(pause, JITTER)).await;
        }
        attempt().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use kerf_runtime::Seed;
    use tokio::time::Instant;

    use super::*;

    // DIS-013, OPS-108
    #[tokio::test(start_paused = true)]
    async fn there_are_four_attempts_with_longer_and_longer_pauses() {
        let retry = Retry(Seed(7).rng());
        let (began, times) = (Instant::now(), Mutex::new(Vec::new()));
        let fail = || async {
            times.lock().expect("no panic").push(began.elapsed());
            Err::<(), usize>(times.lock().expect("no panic").len())
        };
        assert_eq!(retry.run(fail).await, Err(4), "what the last one said");
        let times = times.into_inner().expect("no panic");
        let pauses: Vec<f64> = times
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1000.0)
            .collect();
        for (pause, nominal) in pauses.iter().zip([10.0, 50.0, 250.0]) {
            // The clock counts whole milliseconds.
            assert!(
                (nominal * 0.9 - 1.0..=nominal * 1.1 + 1.0).contains(pause),
                "{pauses:?}"
            );
        }
        assert_eq!(pauses.len(), 3);
        assert_eq!(retry.run(|| async { Ok::<u8, ()>(7) }).await, Ok(7));
    }
}
