//! IAM on the SDK.

use super::errors::{NO_ANSWER, api_error};
use crate::errors::ApiError;
use crate::services::{CallResult, Iam, InstanceProfile};
use crate::tags::Tags;
use async_trait::async_trait;
use aws_sdk_iam::types;

pub(super) struct SdkIam(pub(super) aws_sdk_iam::Client);

fn profile(from: &types::InstanceProfile) -> InstanceProfile {
    InstanceProfile {
        name: from.instance_profile_name().to_owned(),
        role: from.roles().first().map(|role| role.role_name().to_owned()),
    }
}

/// Tags for IAM. A tag without key is none.
fn sdk_tags(tags: &Tags) -> Vec<types::Tag> {
    let tag = |(key, value): (&String, &String)| types::Tag::builder().key(key).value(value).build().ok();
    tags.iter().filter_map(tag).collect()
}

#[async_trait]
impl Iam for SdkIam {
    async fn instance_profile(&self, name: &str) -> CallResult<InstanceProfile> {
        let answer = self.0.get_instance_profile().instance_profile_name(name).send().await;
        let answer = answer.map_err(|error| api_error(&error))?;
        let found = answer.instance_profile().map(profile);
        found.ok_or_else(|| ApiError::new(NO_ANSWER, "the answer has no instance profile"))
    }

    async fn create_instance_profile(&self, name: &str, path: &str, tags: &Tags) -> CallResult<()> {
        let call = self.0.create_instance_profile().instance_profile_name(name).path(path);
        let call = call.set_tags(Some(sdk_tags(tags)));
        call.send().await.map(drop).map_err(|error| api_error(&error))
    }

    async fn add_role(&self, profile: &str, role: &str) -> CallResult<()> {
        let call = self
            .0
            .add_role_to_instance_profile()
            .instance_profile_name(profile)
            .role_name(role);
        call.send().await.map(drop).map_err(|error| api_error(&error))
    }

    async fn remove_role(&self, profile: &str, role: &str) -> CallResult<()> {
        let call = self.0.remove_role_from_instance_profile();
        let call = call.instance_profile_name(profile).role_name(role);
        call.send().await.map(drop).map_err(|error| api_error(&error))
    }

    async fn delete_instance_profile(&self, name: &str) -> CallResult<()> {
        let call = self.0.delete_instance_profile().instance_profile_name(name);
        call.send().await.map(drop).map_err(|error| api_error(&error))
    }

    async fn instance_profiles(&self, path: &str) -> CallResult<Vec<InstanceProfile>> {
        let mut pages = self
            .0
            .list_instance_profiles()
            .path_prefix(path)
            .into_paginator()
            .items()
            .send();
        let mut all = Vec::new();
        while let Some(one) = pages.next().await {
            all.push(profile(&one.map_err(|error| api_error(&error))?));
        }
        Ok(all)
    }
}
