//! Images, and the parameters that name them.

use super::Account;
use super::filters::{Page, PageRequest, passes};
use super::refusal::{Answer, Refusal};
use jiff::{SignedDuration, Timestamp};
use kerf_api::ec2_node_class::{AmiAlias, AmiFamily};
use kerf_aws::ami::alias_parameters;
use kerf_aws::selector::Filter;
use kerf_aws::tags::Tags;

/// An image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Architecture in EC2's names.
    pub architecture: String,
    /// What is on it, which decides how it reads user data.
    pub family: AmiFamily,
    /// Account of its owner.
    pub owner_id: String,
    /// Name of its owner, such as `amazon`, where it has one.
    pub owner_alias: Option<String>,
    /// When it was made.
    pub created: Timestamp,
    /// From when on its owner advises against it.
    pub deprecated_from: Option<Timestamp>,
    /// State; `available` once it can be used.
    pub state: String,
    /// Tags.
    pub tags: Tags,
}

/// Account of the owner of EKS's images.
const EKS_OWNER: &str = "602401143452";
/// Stands for the version in names of parameters.
const RELEASE_MARK: &str = "RELEASE";
/// The age of a release that is requested by its version.
const RELEASED_BEFORE: SignedDuration = SignedDuration::from_hours(24 * 30);

/// Whether a text can be the version of a release: `v` and a day, or for Bottlerocket three numbers.
fn is_release(family: AmiFamily, text: &str) -> bool {
    if family == AmiFamily::Bottlerocket {
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        return text.split('.').count() == 3 && text.split('.').all(is_number);
    }
    let day = text.strip_prefix('v');
    day.is_some_and(|day| day.len() == 8 && day.bytes().all(|byte| byte.is_ascii_digit()))
}

/// How long after a release its images are deprecated.
const DEPRECATED_AFTER: SignedDuration = SignedDuration::from_hours(24 * 365 * 2);

impl Account {
    /// The images of these owners that pass the filters. `self` is this account, `amazon` the owner of EKS's images. Deprecated images are
    /// left out unless they are asked for.
    pub fn describe_images(
        &self,
        owners: &[String],
        filters: &[Filter],
        include_deprecated: bool,
        page: &PageRequest,
        now: Timestamp,
    ) -> Answer<Page<Image>> {
        let mut found = Vec::new();
        for image in &self.images {
            let is_owner = |owner: &String| match owner.as_str() {
                "self" => image.owner_id == self.id,
                owner => image.owner_id == owner || image.owner_alias.as_deref() == Some(owner),
            };
            let is_deprecated = image.deprecated_from.is_some_and(|from| from <= now);
            if !(owners.is_empty() || owners.iter().any(is_owner)) || (is_deprecated && !include_deprecated) {
                continue;
            }
            let fields = |name: &str| {
                Some(vec![match name {
                    "image-id" => image.id.clone(),
                    "name" => image.name.clone(),
                    "architecture" => image.architecture.clone(),
                    "state" => image.state.clone(),
                    "owner-id" => image.owner_id.clone(),
                    _ => return None,
                }])
            };
            if passes(filters, &image.tags, fields)? {
                found.push(image.clone());
            }
        }
        page.of(found)
    }

    /// The value of an SSM parameter.
    pub fn parameter(&mut self, name: &str, now: Timestamp) -> Answer<String> {
        if !self.parameters.contains_key(name) {
            self.publish_named_release(name, now);
        }
        let missing = || Refusal::new("ParameterNotFound", format!("Parameter {name} not found."));
        self.parameters.get(name).cloned().ok_or_else(missing)
    }

    /// Publishes the release that a parameter is about, where every release exists. The newest one stays what it is.
    fn publish_named_release(&mut self, name: &str, now: Timestamp) {
        let Some(version) = self.every_release_of.clone() else {
            return;
        };
        for family in [AmiFamily::Al2, AmiFamily::Al2023, AmiFamily::Bottlerocket] {
            let alias = AmiAlias {
                family,
                version: RELEASE_MARK.to_owned(),
            };
            let release = alias_parameters(&alias, &version).into_iter().find_map(|known| {
                let (before, after) = known.name.split_once(RELEASE_MARK)?;
                let release = name.strip_prefix(before)?.strip_suffix(after)?;
                is_release(family, release).then(|| release.to_owned())
            });
            if let Some(release) = release {
                let newest = self.parameters.clone();
                self.publish_images(family, &version, &release, now - RELEASED_BEFORE);
                self.parameters.extend(newest);
                return;
            }
        }
    }

    /// EKS publishes images of a release for a cluster version: the parameters of the release and of the newest release name them. `release`
    /// is the version of an alias, such as `v20260101`, or `1.50.0` for Bottlerocket. Returns the ids of the new images.
    pub fn publish_images(
        &mut self,
        family: AmiFamily,
        cluster_version: &str,
        release: &str,
        now: Timestamp,
    ) -> Vec<String> {
        let alias = |version: &str| AmiAlias {
            family,
            version: version.to_owned(),
        };
        let pinned = alias_parameters(&alias(release), cluster_version);
        let newest = alias_parameters(&alias("latest"), cluster_version);
        let mut ids = Vec::new();
        for (pinned, newest) in pinned.into_iter().zip(newest) {
            let is_arm = pinned
                .variants
                .iter()
                .flatten()
                .any(|need| need.values.iter().any(|value| value == "arm64"));
            let id = self.ids.next("ami");
            let name = pinned
                .name
                .trim_end_matches("/image_id")
                .trim_start_matches("/aws/service/")
                .replace('/', "-");
            self.images.push(Image {
                id: id.clone(),
                name,
                architecture: if is_arm { "arm64" } else { "x86_64" }.to_owned(),
                family,
                owner_id: EKS_OWNER.to_owned(),
                owner_alias: Some("amazon".to_owned()),
                created: now,
                deprecated_from: Some(now + DEPRECATED_AFTER),
                state: "available".to_owned(),
                tags: Tags::new(),
            });
            self.parameters.insert(pinned.name, id.clone());
            self.parameters.insert(newest.name, id.clone());
            ids.push(id);
        }
        ids
    }
}
