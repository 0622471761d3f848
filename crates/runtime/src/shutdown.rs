//! Orderly shutdown: a tree of cancellation tokens and a group of named tasks of which the first failure ends all.

use std::future::Future;

use futures::future::BoxFuture;
use tokio::task::JoinSet;
pub use tokio_util::sync::CancellationToken;

/// Why a task of a [`TaskGroup`] ended the group.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The task returned an error.
    #[error("{task}: {message}")]
    Failed {
        /// The task's name.
        task: String,
        /// Its error with all causes.
        message: String,
    },
    /// The task panicked.
    #[error("{task} panicked: {message}")]
    Panicked {
        /// The task's name.
        task: String,
        /// The panic's payload, when it was text.
        message: String,
    },
}

/// Named tasks under one token. The first that fails cancels the others; the group ends when all have ended.
#[derive(Debug)]
pub struct TaskGroup {
    token: CancellationToken,
    tasks: JoinSet<(String, Result<(), String>)>,
    names: Vec<(tokio::task::Id, String)>,
}

impl TaskGroup {
    /// An empty group whose token is a child of `parent`.
    pub fn new(parent: &CancellationToken) -> Self {
        Self {
            token: parent.child_token(),
            tasks: JoinSet::new(),
            names: Vec::new(),
        }
    }

    /// The token every task of the group should watch.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Starts a task. It should end soon after the group's token is cancelled.
    pub fn spawn<F, E>(&mut self, name: impl Into<String>, task: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display,
    {
        let task = async move { task.await.map_err(|error| error.to_string()) };
        self.spawn_boxed(name.into(), Box::pin(task));
    }

    /// The same for all tasks, so that it is compiled once.
    fn spawn_boxed(&mut self, name: String, task: BoxFuture<'static, Result<(), String>>) {
        let id = self.tasks.spawn({
            let name = name.clone();
            async move { (name, task.await) }
        });
        self.names.push((id.id(), name));
    }

    /// Waits until every task has ended and returns the first failure. Dropping this future aborts the tasks.
    pub async fn wait(mut self) -> Result<(), TaskError> {
        let mut first = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            let outcome = match ended {
                Ok((_, Ok(()))) => Ok(()),
                Ok((task, Err(message))) => Err(TaskError::Failed { task, message }),
                Err(error) => Err(TaskError::Panicked {
                    task: self
                        .names
                        .iter()
                        .find(|(id, _)| *id == error.id())
                        .map_or_else(String::new, |n| n.1.clone()),
                    message: panic_text(error),
                }),
            };
            if outcome.is_err() {
                self.token.cancel();
                if first.is_ok() {
                    first = outcome;
                }
            }
        }
        first
    }
}

/// What a task said when it panicked.
pub(crate) fn panic_text(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(payload) => payload
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned()),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_failure_ends_the_group() {
        let root = CancellationToken::new();
        let mut group = TaskGroup::new(&root);
        let token = group.token().clone();
        group.spawn("waits", async move {
            token.cancelled().await;
            Ok::<_, String>(())
        });
        group.spawn("fails", async { Err("out of luck".to_owned()) });
        let error = group.wait().await.expect_err("the group fails");
        assert_eq!(error.to_string(), "fails: out of luck");
        assert!(!root.is_cancelled(), "the parent decides for itself");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_a_failure_with_a_name() {
        let mut group = TaskGroup::new(&CancellationToken::new());
        group.spawn("shaky", async {
            if tokio::time::Instant::now().elapsed() < std::time::Duration::from_secs(1) {
                panic!("oh no");
            }
            Ok::<_, String>(())
        });
        assert_eq!(
            group.wait().await.expect_err("the group fails").to_string(),
            "shaky panicked: oh no"
        );
    }
}
