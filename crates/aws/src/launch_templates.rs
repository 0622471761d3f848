//! Launch templates in EC2: made when they are needed, deleted once no launch has needed them for a minute (AWS-157 to AWS-160).

use crate::errors::ApiError;
use crate::intervals::{SHORT_LIVED, TEMPLATE_MAY_REMAIN};
use crate::launch::TemplateData;
use crate::selector::Filter;
use crate::services::{CallResult, Ec2, TemplateQuery};
use crate::tags;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// The templates of one cluster.
pub struct LaunchTemplates {
    ec2: Arc<dyn Ec2>,
    cluster: String,
    /// Names, and until when each is kept.
    known: Mutex<BTreeMap<String, Instant>>,
    /// Names of templates that may exist, and from when on they are deleted: the call that made or deleted them failed, or EC2 said that there is
    /// none, which it also does for some seconds after a template was made.
    may_remain: Mutex<BTreeMap<String, Instant>>,
    /// A lock for each name that is being made or deleted.
    busy: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl LaunchTemplates {
    /// The templates of a cluster, none known yet.
    pub fn new(ec2: Arc<dyn Ec2>, cluster: &str) -> Self {
        Self {
            ec2,
            cluster: cluster.to_owned(),
            known: Mutex::default(),
            may_remain: Mutex::default(),
            busy: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn may_remain(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.may_remain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs this while nothing else makes or deletes the template of this name.
    async fn alone<T>(&self, name: &str, work: impl Future<Output = T>) -> T {
        let busy = || self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let lock = Arc::clone(busy().entry(name.to_owned()).or_default());
        let done = {
            let _alone = lock.lock().await;
            work.await
        };
        drop(lock);
        // Who waits for the lock holds it, too; a lock that was left behind by a launch that gave up goes with the next one of its name.
        let mut busy = busy();
        if busy.get(name).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            busy.remove(name);
        }
        done
    }

    /// Makes sure that a template exists, and keeps it for another minute. Returns whether it was made now.
    pub async fn ensure(&self, name: &str, data: &TemplateData) -> CallResult<bool> {
        self.alone(name, async {
            let is_known = self.known().contains_key(name);
            let is_new = !is_known && !self.exists(name).await? && self.create(name, data).await?;
            self.known().insert(name.to_owned(), Instant::now() + SHORT_LIVED);
            self.may_remain().remove(name);
            Ok(is_new)
        })
        .await
    }

    /// Makes a template. Returns `false` if there is one of this name, which EC2 did not show yet: it has the same data, because the name is a
    /// hash of them.
    async fn create(&self, name: &str, data: &TemplateData) -> CallResult<bool> {
        match self.ec2.create_launch_template(name, data).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_launch_template_name_taken() => Ok(false),
            Err(error) => {
                // The next launch may need another template, and then nothing else would find this one.
                if error.may_be_done() {
                    let until = Instant::now() + TEMPLATE_MAY_REMAIN;
                    self.may_remain().insert(name.to_owned(), until);
                }
                Err(error)
            }
        }
    }

    async fn exists(&self, name: &str) -> CallResult<bool> {
        let query = TemplateQuery {
            names: vec![name.to_owned()],
            filters: Vec::new(),
        };
        match self.ec2.launch_templates(&query).await {
            Ok(found) if found.len() == 1 => Ok(true),
            Ok(found) => {
                let text = format!(
                    "expected to find one launch template named {name}, found {}",
                    found.len()
                );
                Err(ApiError::new("UnexpectedLaunchTemplates", &text))
            }
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Forgets templates that EC2 says do not exist, without deleting them: the next launch makes them anew (AWS-159, AWS-491). Those that no
    /// launch needs again are deleted later, because EC2 may only not show them yet.
    pub fn forget<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let (mut known, mut may_remain) = (self.known(), self.may_remain());
        for name in names {
            if known.remove(name).is_some() {
                may_remain.insert(name.to_owned(), Instant::now() + TEMPLATE_MAY_REMAIN);
            }
        }
    }

    /// Takes over the templates of an earlier process of this cluster, so that those no launch needs are deleted a minute later. Only a leader
    /// may do this: the templates may be those of the one before (AWS-158, AWS-491).
    pub async fn take_over(&self) -> CallResult<()> {
        let query = TemplateQuery {
            names: Vec::new(),
            filters: vec![self.of_cluster()],
        };
        let found = self.ec2.launch_templates(&query).await?;
        let until = Instant::now() + SHORT_LIVED;
        let mut known = self.known();
        for name in found {
            known.entry(name).or_insert(until);
        }
        Ok(())
    }

    fn of_cluster(&self) -> Filter {
        Filter::new(format!("tag:{}", tags::CLUSTER_NAME), [&self.cluster])
    }

    /// Deletes the templates that no launch has needed for a minute. A template that cannot be deleted is logged and tried again later. Launches
    /// go on meanwhile: one that needs a template of these before its turn keeps it, and one that needs it then makes it anew.
    pub async fn delete_unused(&self) {
        let now = Instant::now();
        let expired: BTreeSet<String> = {
            let (known, may_remain) = (self.known(), self.may_remain());
            let expired = known.iter().chain(&*may_remain).filter(|(_, until)| **until <= now);
            expired.map(|(name, _)| name.clone()).collect()
        };
        for name in expired {
            let deleted = self.alone(&name, async {
                let until = self.known().get(&name).copied();
                let until = until.or_else(|| self.may_remain().get(&name).copied());
                if until.is_none_or(|until| until > now) {
                    return Ok(());
                }
                self.known().remove(&name);
                let deleted = self.delete(&name).await;
                if deleted.is_err() {
                    self.may_remain().insert(name.clone(), now + TEMPLATE_MAY_REMAIN);
                } else {
                    self.may_remain().remove(&name);
                }
                deleted
            });
            if let Err(error) = deleted.await {
                tracing::error!(template = name, error = %error, "failed deleting a launch template");
            }
        }
    }

    async fn delete(&self, name: &str) -> CallResult<()> {
        match self.ec2.delete_launch_template(name).await {
            Err(error) if error.is_not_found() => Ok(()),
            answer => answer,
        }
    }

    /// Deletes the templates of a class. All are tried; the error is that of the first one that could not be deleted, and says how many there
    /// are (AWS-160).
    pub async fn delete_of_class(&self, class: &str) -> CallResult<()> {
        let query = TemplateQuery {
            names: Vec::new(),
            filters: vec![
                self.of_cluster(),
                Filter::new(format!("tag:{}", tags::NODE_CLASS), [class]),
            ],
        };
        let names = self.ec2.launch_templates(&query).await?;
        let mut errors = Vec::new();
        for name in &names {
            let deleted = self.alone(name, async {
                self.known().remove(name);
                self.delete(name).await
            });
            errors.extend(deleted.await.err());
        }
        let failed = errors.len();
        match errors.into_iter().next() {
            None => Ok(()),
            Some(first) => Err(ApiError {
                message: format!("{} ({failed} of {} launch templates)", first.message, names.len()),
                ..first
            }),
        }
    }
}
