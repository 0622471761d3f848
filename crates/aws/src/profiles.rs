//! Instance profiles in IAM: made for classes with a role, deleted with them (section 5 of `docs/behaviour/aws.md`).

use crate::cache::Cache;
use crate::errors::ApiError;
use crate::instance_profile::{
    ProfileAction, class_path, cluster_path, is_garbage, legacy_name, new_name, profile_action,
};
use crate::intervals::{INSTANCE_PROFILES, PROTECTED_PROFILES, SHORT_LIVED};
use crate::services::{CallResult, Iam, InstanceProfile};
use crate::tags::{Tags, profile_tags};
use kerf_api::EC2NodeClass;
use kerf_runtime::Rng;
use kerf_runtime::client::{name_of, uid_of};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The profiles of one cluster.
pub struct Profiles {
    iam: Arc<dyn Iam>,
    cluster: String,
    region: String,
    rng: Rng,
    known: Cache<String, InstanceProfile>,
    /// Roles that IAM says do not exist, so that no profile is made for them again and again.
    missing_roles: Cache<String, ApiError>,
    /// Profiles just made, by role and uid of the class: the status of the class may not name them yet.
    recent: Cache<(String, String), String>,
    protected: Cache<String, ()>,
}

impl Profiles {
    /// The profiles of a cluster; names are drawn from `rng`.
    pub fn new(iam: Arc<dyn Iam>, cluster: &str, region: &str, rng: Rng) -> Self {
        Self {
            iam,
            cluster: cluster.to_owned(),
            region: region.to_owned(),
            rng,
            known: Cache::new(INSTANCE_PROFILES),
            missing_roles: Cache::new(SHORT_LIVED),
            recent: Cache::new(SHORT_LIVED),
            protected: Cache::new(PROTECTED_PROFILES),
        }
    }

    /// The profile that instances of a class get, made now if need be (AWS-086 to AWS-095).
    pub async fn ensure(&self, class: &EC2NodeClass) -> CallResult<String> {
        let (spec, current) = (&class.spec, class.status.instance_profile.as_deref());
        let protect = |name: &str| self.protected.insert(name.to_owned(), ());
        let (class_name, uid) = name_and_uid(class)?;
        let recent_key = (spec.role.clone().unwrap_or_default(), uid.to_owned());
        let recent = self.recent.get(&recent_key);
        let current_role = match current {
            Some(name) if spec.instance_profile.is_none() && recent.is_none() => self.role_of(name).await?,
            _ => None,
        };
        let known = current.map(|name| (name, current_role.as_deref()));
        match profile_action(
            spec.instance_profile.as_deref(),
            spec.role.as_deref(),
            known,
            recent.as_deref(),
        ) {
            ProfileAction::UseGiven(name) => {
                current.filter(|old| *old != name).into_iter().for_each(protect);
                Ok(name)
            }
            ProfileAction::Keep(name) => Ok(name),
            ProfileAction::Create { role } => {
                if let Some(error) = self.missing_roles.get(&role) {
                    return Err(error);
                }
                let name = new_name(&self.cluster, &self.region, class_name, &self.rng.uuid());
                let path = class_path(&self.region, &self.cluster, uid);
                let tags = profile_tags(spec.tags.as_ref(), &self.cluster, class_name, &self.region);
                protect(&name);
                current.into_iter().for_each(protect);
                if let Err(error) = self.create(&name, &path, &tags, &role).await {
                    // Whatever was made is of no use.
                    if let Err(also) = self.delete(&name).await {
                        tracing::debug!(profile = name, error = %also, "failed deleting an instance profile");
                    }
                    return Err(error);
                }
                self.recent.insert(recent_key, name.clone());
                Ok(name)
            }
        }
    }

    /// The role of a profile; `None` if there is no such profile, or it has none.
    async fn role_of(&self, name: &str) -> CallResult<Option<String>> {
        if let Some(known) = self.known.get(name) {
            return Ok(known.role);
        }
        match self.iam.instance_profile(name).await {
            Ok(profile) => {
                self.known.insert(name.to_owned(), profile.clone());
                Ok(profile.role)
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a profile with a role. One that has the role already stays as it is (AWS-093 to AWS-095).
    pub async fn create(&self, name: &str, path: &str, tags: &Tags, role: &str) -> CallResult<()> {
        let attached = match self.iam.instance_profile(name).await {
            Ok(profile) => profile.role,
            Err(error) if error.is_not_found() => match self.iam.create_instance_profile(name, path, tags).await {
                Err(error) if !error.is_already_exists() => return Err(error),
                _ => None,
            },
            Err(error) => return Err(error),
        };
        if attached.as_deref() == Some(role) {
            return Ok(());
        }
        if let Some(other) = attached {
            self.iam.remove_role(name, &other).await?;
        }
        if let Err(error) = self.iam.add_role(name, role).await {
            if error.is_role_not_found() {
                self.missing_roles.insert(role.to_owned(), error.clone());
            }
            return Err(error);
        }
        let profile = InstanceProfile {
            name: name.to_owned(),
            role: Some(role.to_owned()),
        };
        self.known.insert(name.to_owned(), profile);
        Ok(())
    }

    /// Deletes a profile, with its role taken off first. One that does not exist is deleted (AWS-096).
    pub async fn delete(&self, name: &str) -> CallResult<()> {
        let ignore_missing = |answer: CallResult<()>| match answer {
            Err(error) if error.is_not_found() => Ok(()),
            answer => answer,
        };
        match self.iam.instance_profile(name).await {
            Ok(profile) => {
                if let Some(role) = profile.role {
                    self.iam.remove_role(name, &role).await?;
                }
                ignore_missing(self.iam.delete_instance_profile(name).await)?;
            }
            Err(error) => ignore_missing(Err(error))?,
        }
        self.known.remove(name);
        self.protected.remove(name);
        Ok(())
    }

    /// Deletes the profiles made for a class that goes (AWS-097, AWS-099). A profile that the class only names is under another path.
    pub async fn delete_of_class(&self, class: &EC2NodeClass) -> CallResult<()> {
        let (class_name, uid) = name_and_uid(class)?;
        let path = class_path(&self.region, &self.cluster, uid);
        for profile in self.iam.instance_profiles(&path).await? {
            self.delete(&profile.name).await?;
        }
        match legacy_name(&self.cluster, &self.region, class_name) {
            Some(legacy) => self.delete(&legacy).await,
            None => Ok(()),
        }
    }

    /// Deletes the cluster's profiles that no class and no claim uses, except those made or replaced within the last hour (AWS-100).
    pub async fn collect_garbage(&self, in_status: &BTreeSet<&str>, on_claims: &BTreeSet<&str>) -> CallResult<()> {
        let path = cluster_path(&self.region, &self.cluster);
        let protected: BTreeSet<String> = self.protected.entries().into_iter().map(|(name, ())| name).collect();
        let protected: BTreeSet<&str> = protected.iter().map(String::as_str).collect();
        for profile in self.iam.instance_profiles(&path).await? {
            if is_garbage(&profile.name, in_status, &protected, on_claims) {
                self.delete(&profile.name).await?;
            }
        }
        Ok(())
    }
}

/// What the names and paths of profiles are made of.
fn name_and_uid(class: &EC2NodeClass) -> CallResult<(&str, &str)> {
    let found = name_of(class).and_then(|name| Ok((name, uid_of(class)?)));
    found.map_err(|error| ApiError::of_object(&error))
}
