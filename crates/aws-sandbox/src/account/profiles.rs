//! Roles and instance profiles.

use super::Account;
use super::filters::{Page, PageRequest};
use super::refusal::{Answer, Refusal};
use jiff::Timestamp;
use kerf_aws::tags::Tags;

/// An instance profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name.
    pub name: String,
    /// Path, such as `/karpenter/`.
    pub path: String,
    /// Name of its role.
    pub role: Option<String>,
    /// When it was made. EC2 sees it a while later.
    pub created: Timestamp,
    /// Tags.
    pub tags: Tags,
}

fn no_entity(message: String) -> Refusal {
    Refusal::new("NoSuchEntity", message).with_status(404)
}

fn no_profile(name: &str) -> Refusal {
    no_entity(format!("Instance Profile {name} cannot be found."))
}

fn no_role(name: &str) -> Refusal {
    no_entity(format!("The role with name {name} cannot be found."))
}

impl Account {
    /// An instance profile.
    pub fn profile(&self, name: &str) -> Answer<&Profile> {
        self.profiles.get(name).ok_or_else(|| no_profile(name))
    }

    /// The instance profiles under a path.
    pub fn list_profiles(&self, path: &str, page: &PageRequest) -> Answer<Page<Profile>> {
        let under = self.profiles.values().filter(|profile| profile.path.starts_with(path));
        page.of(under.cloned())
    }

    /// Makes an instance profile without role.
    pub fn create_profile(&mut self, name: &str, path: &str, tags: Tags, now: Timestamp) -> Answer<&Profile> {
        if self.profiles.contains_key(name) {
            let message = format!("Instance Profile {name} already exists.");
            return Err(Refusal::new("EntityAlreadyExists", message).with_status(409));
        }
        let profile = Profile {
            name: name.to_owned(),
            path: path.to_owned(),
            role: None,
            created: now,
            tags,
        };
        Ok(self.profiles.entry(name.to_owned()).or_insert(profile))
    }

    /// Gives a role to a profile, which can have one.
    pub fn add_role(&mut self, name: &str, role: &str) -> Answer<()> {
        let profile = self.profiles.get_mut(name).ok_or_else(|| no_profile(name))?;
        if !self.roles.contains(role) {
            return Err(no_role(role));
        }
        if profile.role.is_some() {
            let message = "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1";
            return Err(Refusal::new("LimitExceeded", message).with_status(409));
        }
        profile.role = Some(role.to_owned());
        Ok(())
    }

    /// Takes the role from a profile.
    pub fn remove_role(&mut self, name: &str, role: &str) -> Answer<()> {
        let profile = self.profiles.get_mut(name).ok_or_else(|| no_profile(name))?;
        if profile.role.as_deref() != Some(role) {
            return Err(no_role(role));
        }
        profile.role = None;
        Ok(())
    }

    /// Deletes a profile, which must have no role.
    pub fn delete_profile(&mut self, name: &str) -> Answer<()> {
        let profile = self.profiles.get(name).ok_or_else(|| no_profile(name))?;
        if profile.role.is_some() {
            let message = "Cannot delete entity, must remove roles from instance profile first.";
            return Err(Refusal::new("DeleteConflict", message).with_status(409));
        }
        self.profiles.remove(name);
        Ok(())
    }
}
