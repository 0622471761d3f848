//! Systems Manager on the SDK.

use super::errors::api_error;
use super::values::text;
use crate::services::{CallResult, Ssm};
use async_trait::async_trait;

pub(super) struct SdkSsm(pub(super) aws_sdk_ssm::Client);

#[async_trait]
impl Ssm for SdkSsm {
    async fn parameter(&self, name: &str) -> CallResult<String> {
        let answer = self.0.get_parameter().name(name).send().await;
        let answer = answer.map_err(|error| api_error(&error))?;
        Ok(text(answer.parameter().and_then(|parameter| parameter.value())))
    }
}
