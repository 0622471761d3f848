//! Launch templates and their versions.

use super::Account;
use super::filters::{Page, PageRequest, passes};
use super::refusal::{Answer, Refusal};
use jiff::Timestamp;
use kerf_aws::selector::Filter;
use kerf_aws::tags::Tags;
use std::collections::{BTreeMap, BTreeSet};

/// A network interface of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceSpec {
    /// Type; empty for an ordinary one.
    pub interface_type: String,
    /// Subnet, where the interface names it.
    pub subnet_id: Option<String>,
    /// Ids of security groups.
    pub group_ids: Vec<String>,
}

/// Which reservations a launch may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationSpec {
    /// `none`, `open` or `capacity-reservations-only`.
    pub preference: Option<String>,
    /// Id of the one reservation.
    pub target: Option<String>,
}

/// What a launch is made from: the data of a template, or of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchData {
    /// Image.
    pub image_id: Option<String>,
    /// Instance type.
    pub instance_type: Option<String>,
    /// Instance profile.
    pub profile: Option<String>,
    /// User data as base64 text.
    pub user_data: String,
    /// Network interfaces.
    pub interfaces: Vec<InterfaceSpec>,
    /// Tenancy.
    pub tenancy: Option<String>,
    /// Id of the placement group.
    pub placement_group: Option<String>,
    /// Partition of the placement group.
    pub partition: Option<u32>,
    /// `capacity-block` or `interruptible-capacity-reservation`, where the launch is neither spot nor on demand.
    pub market: Option<String>,
    /// Reservations.
    pub reservation: ReservationSpec,
    /// Sizes of disks in GiB, by device.
    pub volumes: BTreeMap<String, i64>,
    /// KMS keys that disks are encrypted with.
    pub kms_keys: BTreeSet<String>,
    /// Tags by kind of resource.
    pub tags: BTreeMap<String, Tags>,
}

/// A launch template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchTemplate {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// When it was made. Other calls see it a while later.
    pub created: Timestamp,
    /// Versions, the first one first.
    pub versions: Vec<LaunchData>,
    /// Tags of the template itself.
    pub tags: Tags,
}

/// Most bytes of user data before base64.
const USER_DATA_MAX: usize = 16_384;

fn no_template(name: &str) -> Refusal {
    let message = format!("The specified launch template, with template name {name}, does not exist.");
    Refusal::new("InvalidLaunchTemplateName.NotFoundException", message)
}

/// EC2 checks user data when it is given, not when an instance boots.
pub(super) fn check_user_data(text: &str) -> Answer<Vec<u8>> {
    use base64::Engine as _;
    let decoded = base64::engine::general_purpose::STANDARD.decode(text);
    let decoded =
        decoded.map_err(|_| Refusal::new("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data."))?;
    if decoded.len() > USER_DATA_MAX {
        let message = format!("User data is limited to {USER_DATA_MAX} bytes");
        return Err(Refusal::new("InvalidUserData.Malformed", message));
    }
    Ok(decoded)
}

impl Account {
    /// Makes a template with one version.
    pub fn create_template(
        &mut self,
        name: &str,
        data: LaunchData,
        tags: Tags,
        now: Timestamp,
    ) -> Answer<&LaunchTemplate> {
        if self.templates.contains_key(name) {
            let message = "Launch template name already in use.";
            return Err(Refusal::new(
                "InvalidLaunchTemplateName.AlreadyExistsException",
                message,
            ));
        }
        check_user_data(&data.user_data)?;
        let template = LaunchTemplate {
            id: self.ids.next("lt"),
            name: name.to_owned(),
            created: now,
            versions: vec![data],
            tags,
        };
        Ok(self.templates.entry(name.to_owned()).or_insert(template))
    }

    /// Deletes a template with all its versions.
    pub fn delete_template(&mut self, name: &str) -> Answer<LaunchTemplate> {
        self.templates.remove(name).ok_or_else(|| no_template(name))
    }

    /// The templates with these names that pass the filters; all without names. A name that does not exist is an error.
    pub fn describe_templates(
        &self,
        names: &[String],
        filters: &[Filter],
        page: &PageRequest,
        now: Timestamp,
    ) -> Answer<Page<LaunchTemplate>> {
        let is_visible = |template: &LaunchTemplate| template.created + self.delays.template <= now;
        for name in names {
            self.templates
                .get(name)
                .filter(|one| is_visible(one))
                .ok_or_else(|| no_template(name))?;
        }
        let mut found = Vec::new();
        for template in self.templates.values().filter(|one| is_visible(one)) {
            let fields = |name: &str| {
                Some(vec![match name {
                    "launch-template-name" => template.name.clone(),
                    "create-time" => template.created.to_string(),
                    _ => return None,
                }])
            };
            if (names.is_empty() || names.contains(&template.name)) && passes(filters, &template.tags, fields)? {
                found.push(template.clone());
            }
        }
        page.of(found)
    }

    /// The data of a version of a template: a number, `$Latest` or `$Default`, which is the first.
    pub(super) fn template_data(&self, name: &str, version: &str, now: Timestamp) -> Answer<&LaunchData> {
        let found = self
            .templates
            .get(name)
            .filter(|one| one.created + self.delays.template <= now);
        let template = found.ok_or_else(|| no_template(name))?;
        let data = match version {
            "$Latest" => template.versions.last(),
            "$Default" | "" => template.versions.first(),
            number => number
                .parse::<usize>()
                .ok()
                .and_then(|number| template.versions.get(number.checked_sub(1)?)),
        };
        data.ok_or_else(|| {
            let message = format!("Could not find launch template version {version} of {name}.");
            Refusal::new("InvalidLaunchTemplateId.VersionNotFound", message)
        })
    }
}
