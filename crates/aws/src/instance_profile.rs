//! Names, paths and reuse of instance profiles (section 5 of `docs/behaviour/aws.md`).

use kerf_api::hash::primitive;
use std::collections::BTreeSet;

/// Longest name IAM takes.
const NAME_BYTES_MAX: usize = 128;

/// A fresh name for a profile: each creation has its own, so that a role is never exchanged under running instances (AWS-087). `nonce` is a
/// random UUID as text.
pub fn new_name(cluster: &str, region: &str, node_class: &str, nonce: &str) -> String {
    let hash = primitive(format!("{region}{node_class}{nonce}").as_bytes());
    format!("{cluster}_{hash}")
}

/// The name that older versions gave the profile of a class; `None` where IAM could not have such a name (AWS-097).
pub fn legacy_name(cluster: &str, region: &str, node_class: &str) -> Option<String> {
    let name = format!("{cluster}_{}", primitive(format!("{region}{node_class}").as_bytes()));
    is_valid_name(&name).then_some(name)
}

fn is_valid_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_+=,.@-".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

/// The IAM path of the cluster's profiles.
pub fn cluster_path(region: &str, cluster: &str) -> String {
    format!("/karpenter/{region}/{cluster}/")
}

/// The IAM path of the profiles of one class (AWS-087, AWS-097).
pub fn class_path(region: &str, cluster: &str, uid: &str) -> String {
    format!("/karpenter/{region}/{cluster}/{uid}/")
}

/// A role's name without its path (AWS-092).
pub fn role_name(role: &str) -> &str {
    role.rsplit_once('/').map_or(role, |(_, name)| name)
}

/// What a class needs done about its profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileAction {
    /// The class names a profile of its own: it is used and never changed (AWS-086).
    UseGiven(String),
    /// The profile in the status has the role already (AWS-088).
    Keep(String),
    /// A new profile with the role is needed; the old one is left for garbage collection (AWS-088, AWS-494).
    Create {
        /// The role's name without its path.
        role: String,
    },
}

/// Decides about the profile of a class. `current` is the profile its status names, with the role attached to it in IAM, if it exists and
/// has one; `recent` the profile created for the same role and class within the last minute, if any (AWS-089).
pub fn profile_action(
    given: Option<&str>,
    role: Option<&str>,
    current: Option<(&str, Option<&str>)>,
    recent: Option<&str>,
) -> ProfileAction {
    if let Some(given) = given {
        return ProfileAction::UseGiven(given.to_owned());
    }
    let role = role_name(role.unwrap_or_default());
    if let Some(recent) = recent {
        return ProfileAction::Keep(recent.to_owned());
    }
    match current {
        Some((name, Some(attached))) if role_name(attached) == role => ProfileAction::Keep(name.to_owned()),
        _ => ProfileAction::Create { role: role.to_owned() },
    }
}

/// Whether garbage collection may delete a profile: no class uses it, it was not created or replaced within the last hour, and no claim was
/// launched with it (AWS-100).
pub fn is_garbage(
    name: &str,
    in_class_status: &BTreeSet<&str>,
    protected: &BTreeSet<&str>,
    on_claims: &BTreeSet<&str>,
) -> bool {
    ![in_class_status, protected, on_claims]
        .iter()
        .any(|names| names.contains(name))
}
