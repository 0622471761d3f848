//! SSM parameters that hold image ids (AWS-124, AWS-125).

use crate::cache::Cache;
use crate::errors::ApiError;
use crate::intervals::{INSTANCE_TYPES, LONG_LIVED, SHORT_LIVED};
use crate::services::{CallResult, Ssm};
use std::sync::Arc;
use tokio::sync::Mutex;

/// A value and whether the parameter of an alias follows new images.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parameter {
    value: String,
    is_mutable: bool,
}

/// Values of parameters. One call is made at a time.
pub struct ParameterStore {
    ssm: Arc<dyn Ssm>,
    known: Cache<String, Parameter>,
    /// Reads that failed. A class that is not ready is tried again after milliseconds, and each time would ask for every parameter.
    failed: Cache<String, ApiError>,
    calling: Mutex<()>,
}

impl ParameterStore {
    /// A store that calls SSM.
    pub fn new(ssm: Arc<dyn Ssm>) -> Self {
        Self {
            ssm,
            known: Cache::new(LONG_LIVED),
            failed: Cache::new(SHORT_LIVED),
            calling: Mutex::new(()),
        }
    }

    async fn value(&self, name: &str, is_mutable: bool, ttl: std::time::Duration) -> CallResult<String> {
        let _calling = self.calling.lock().await;
        if let Some(known) = self.known.get(name) {
            return Ok(known.value);
        }
        if let Some(error) = self.failed.get(name) {
            return Err(error);
        }
        let value = match self.ssm.parameter(name).await {
            Ok(value) => value,
            Err(error) => {
                self.failed.insert(name.to_owned(), error.clone());
                return Err(error);
            }
        };
        let parameter = Parameter {
            value: value.clone(),
            is_mutable,
        };
        self.known.insert_for(name.to_owned(), parameter, ttl);
        Ok(value)
    }

    /// The value of a parameter of an alias; `is_mutable` says whether the alias follows new images.
    pub async fn of_alias(&self, name: &str, is_mutable: bool) -> CallResult<String> {
        self.value(name, is_mutable, LONG_LIVED).await
    }

    /// The value of a parameter that a user names.
    pub async fn of_user(&self, name: &str) -> CallResult<String> {
        self.value(name, false, INSTANCE_TYPES).await
    }

    /// The image ids of parameters that follow new images.
    pub fn mutable_images(&self) -> Vec<String> {
        let known = self.known.entries().into_iter();
        let mutable = known.filter(|(_, parameter)| parameter.is_mutable);
        mutable.map(|(_, parameter)| parameter.value).collect()
    }

    /// Forgets the parameters that follow new images and hold one of these ids.
    pub fn forget(&self, images: &[String]) {
        self.known
            .retain(|_, parameter| !parameter.is_mutable || !images.contains(&parameter.value));
    }
}
