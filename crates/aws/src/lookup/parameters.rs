//! SSM parameters that hold image ids (AWS-124, AWS-125).

use crate::cache::Cache;
use crate::errors::ApiError;
use crate::intervals::{INSTANCE_TYPES, LONG_LIVED, SHORT_LIVED};
use crate::services::{CallResult, Ssm};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
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
    /// The values of aliases' parameters that were read last, for as long as SSM answers with errors: an alias has at most five parameters for
    /// each version of it and of Kubernetes. Held during a call.
    last: Mutex<BTreeMap<String, String>>,
}

impl ParameterStore {
    /// A store that calls SSM.
    pub fn new(ssm: Arc<dyn Ssm>) -> Self {
        Self {
            ssm,
            known: Cache::new(LONG_LIVED),
            failed: Cache::new(SHORT_LIVED),
            last: Mutex::default(),
        }
    }

    /// Reads a parameter that is not cached. The caller makes sure that no other call runs at the same time.
    async fn read(&self, name: &str, is_mutable: bool, ttl: Duration) -> CallResult<String> {
        if let Some(known) = self.known.get(name) {
            return Ok(known.value);
        }
        if let Some(error) = self.failed.get(name) {
            return Err(error);
        }
        let value = match self.ssm.parameter(name).await {
            Ok(value) => value,
            Err(error) => {
                if !error.is_not_found() {
                    tracing::warn!(parameter = name, error = %error, "an image parameter cannot be read");
                }
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

    /// The value of a parameter of an alias; `is_mutable` says whether the alias follows new images. While SSM answers with an error, the value
    /// that was read last: without it, nodes of this image would drift. A parameter that does not exist has no value.
    pub async fn of_alias(&self, name: &str, is_mutable: bool) -> CallResult<String> {
        let mut last = self.last.lock().await;
        let read = self.read(name, is_mutable, LONG_LIVED).await;
        match &read {
            Ok(value) => {
                last.insert(name.to_owned(), value.clone());
            }
            Err(error) if error.is_not_found() => {
                last.remove(name);
            }
            Err(_) => {
                if let Some(value) = last.get(name) {
                    return Ok(value.clone());
                }
            }
        }
        read
    }

    /// The value of a parameter that a user names.
    pub async fn of_user(&self, name: &str) -> CallResult<String> {
        let _last = self.last.lock().await;
        self.read(name, false, INSTANCE_TYPES).await
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
