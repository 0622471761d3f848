//! Calls a provider's registration hooks and combines their answers (LIF-034 to LIF-037).

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kerf_api::NodeClaim;
use kerf_cloud::{CloudError, HookOutcome, RegistrationHook};
use kerf_runtime::ReconcileError;

/// The answers of all hooks to one call.
#[derive(Debug)]
pub(super) struct Answers(Vec<(String, Result<HookOutcome, CloudError>)>);

/// Calls all hooks at once.
pub(super) async fn ask(hooks: &[Arc<dyn RegistrationHook>], claim: &NodeClaim) -> Answers {
    let asked = hooks
        .iter()
        .map(|hook| async move { (hook.name().to_owned(), hook.register(claim).await) });
    Answers(join_all(asked).await)
}

impl Answers {
    /// The names of the hooks that are not ready; `None` when all are.
    pub(super) fn waiting(&self) -> Option<String> {
        let names = self
            .0
            .iter()
            .filter(|(_, answer)| !matches!(answer, Ok(HookOutcome::Ready { .. })));
        let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// The shortest time after which a hook wants to be called again; `None` when a hook that is not ready gave none.
    pub(super) fn again(&self) -> Option<Duration> {
        let pending = self.0.iter().filter_map(|(_, answer)| match answer {
            Ok(HookOutcome::Pending(again)) => Some(*again),
            _ => None,
        });
        let times: Option<Vec<Duration>> = pending.collect();
        times?.into_iter().min()
    }

    /// The errors, as one.
    pub(super) fn errors(&self) -> Result<(), ReconcileError> {
        let failed = self
            .0
            .iter()
            .filter_map(|(name, answer)| Some((name, answer.as_ref().err()?)));
        let texts: Vec<String> = failed
            .map(|(name, error)| format!("registration hook {name}, {error}"))
            .collect();
        ReconcileError::of_all(&texts)
    }

    /// Adds the labels and annotations of the hooks to the claim.
    pub(super) fn apply(self, claim: &mut NodeClaim) {
        for (_, answer) in self.0 {
            let Ok(HookOutcome::Ready { labels, annotations }) = answer else {
                continue;
            };
            if !labels.is_empty() {
                claim.metadata.labels.get_or_insert_default().extend(labels);
            }
            if !annotations.is_empty() {
                claim.metadata.annotations.get_or_insert_default().extend(annotations);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(all: Vec<(&str, Result<HookOutcome, CloudError>)>) -> Answers {
        Answers(
            all.into_iter()
                .map(|(name, answer)| (name.to_owned(), answer))
                .collect(),
        )
    }

    fn pending(seconds: Option<u64>) -> Result<HookOutcome, CloudError> {
        Ok(HookOutcome::Pending(seconds.map(Duration::from_secs)))
    }

    // LIF-035
    #[test]
    fn all_that_wait_are_named_and_the_shortest_time_counts() {
        let both = answers(vec![
            ("dns", pending(Some(30))),
            ("ready", Ok(HookOutcome::READY)),
            ("volumes", pending(Some(5))),
            ("broken", Err(CloudError::other("no answer"))),
        ]);
        assert_eq!(both.waiting().as_deref(), Some("dns, volumes, broken"));
        assert_eq!(both.again(), Some(Duration::from_secs(5)));
        let error = both.errors().expect_err("one failed").to_string();
        assert_eq!(error, "registration hook broken, no answer");
        // One that names no time gets a growing pause.
        assert_eq!(
            answers(vec![("a", pending(Some(5))), ("b", pending(None))]).again(),
            None
        );
    }

    // LIF-036
    #[test]
    fn no_hooks_keep_nothing_back() {
        assert_eq!(answers(vec![]).waiting(), None);
        assert_eq!(answers(vec![("a", Ok(HookOutcome::READY))]).waiting(), None);
    }
}
