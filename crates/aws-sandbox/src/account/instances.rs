//! Instances: what they are, which state they are in at a time, and the calls about them.

use super::Account;
use super::capacity::{Pool, Purchase};
use super::filters::{Page, PageRequest, passes};
use super::network::Zone;
use super::refusal::{Answer, Refusal};
use jiff::{SignedDuration, Timestamp};
use kerf_aws::instance_end::StateReason;
use kerf_aws::selector::Filter;
use kerf_aws::tags::Tags;
use std::collections::BTreeMap;

/// From `shutting-down` to `terminated`.
const SHUTDOWN_TAKES: SignedDuration = SignedDuration::from_secs(30);
/// How long a terminated instance is still described.
const REMEMBERED_FOR: SignedDuration = SignedDuration::from_hours(1);

/// The state of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceState {
    /// It starts.
    Pending,
    /// It runs.
    Running,
    /// It is stopped; its disks are kept.
    Stopped,
    /// It ends.
    ShuttingDown,
    /// It has ended.
    Terminated,
}

impl InstanceState {
    /// EC2's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
        }
    }

    /// EC2's number.
    pub const fn code(self) -> u16 {
        match self {
            Self::Pending => 0,
            Self::Running => 16,
            Self::ShuttingDown => 32,
            Self::Terminated => 48,
            Self::Stopped => 80,
        }
    }
}

/// An announced maintenance of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenanceEvent {
    /// EC2's code, such as `instance-retirement`.
    pub code: String,
    /// What it is; begins with `[Completed]` once the event has ended.
    pub description: String,
    /// When it begins at the earliest.
    pub not_before: Timestamp,
}

/// Since when the checks of an instance fail; nothing while they pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The check of the instance.
    pub instance_impaired_since: Option<Timestamp>,
    /// The check of the system below it.
    pub system_impaired_since: Option<Timestamp>,
    /// Announced maintenance.
    pub events: Vec<MaintenanceEvent>,
}

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Id.
    pub id: String,
    /// Instance type.
    pub instance_type: String,
    /// Architecture in EC2's names.
    pub architecture: String,
    /// Image.
    pub image_id: String,
    /// Zone.
    pub zone: Zone,
    /// Subnet.
    pub subnet_id: String,
    /// Its network.
    pub vpc_id: String,
    /// Security groups.
    pub group_ids: Vec<String>,
    /// Address in the network.
    pub address: String,
    /// How it was bought.
    pub purchase: Purchase,
    /// Request that a spot instance came from.
    pub spot_request_id: Option<String>,
    /// `spot`, `capacity-block` or `interruptible-capacity-reservation`; nothing for others.
    pub lifecycle: Option<String>,
    /// Reservation it runs in.
    pub reservation_id: Option<String>,
    /// Which reservations its launch allowed.
    pub reservation_preference: Option<String>,
    /// Tenancy.
    pub tenancy: String,
    /// Types of its network interfaces.
    pub interface_types: Vec<String>,
    /// Placement group.
    pub placement_group: Option<String>,
    /// Partition of the placement group.
    pub partition: Option<u32>,
    /// Instance profile.
    pub profile: Option<String>,
    /// User data as base64 text.
    pub user_data: String,
    /// Sizes of disks in GiB, by device.
    pub volumes: BTreeMap<String, i64>,
    /// Tags.
    pub tags: Tags,
    /// When it was launched.
    pub launched: Timestamp,
    /// When it begins to run.
    pub runs_from: Timestamp,
    /// When it was stopped.
    pub stopped: Option<Timestamp>,
    /// When it begins to end.
    pub ends: Option<Timestamp>,
    /// Why it ends, if EC2 ends it.
    pub state_reason: Option<StateReason>,
    /// Its checks.
    pub health: Health,
    /// The state that was announced last.
    pub announced: Option<InstanceState>,
}

impl Instance {
    /// The state at a time.
    pub fn state(&self, now: Timestamp) -> InstanceState {
        match self.ends {
            Some(ends) if ends + SHUTDOWN_TAKES <= now => InstanceState::Terminated,
            Some(ends) if ends <= now => InstanceState::ShuttingDown,
            _ if self.stopped.is_some_and(|stopped| stopped <= now) => InstanceState::Stopped,
            _ if self.runs_from <= now => InstanceState::Running,
            _ => InstanceState::Pending,
        }
    }

    /// The name it has in its network, which is the name of its Node.
    pub fn private_name(&self) -> String {
        let region = self
            .zone
            .name
            .trim_end_matches(|letter: char| letter.is_ascii_lowercase());
        let domain = match region {
            "us-east-1" => "ec2.internal".to_owned(),
            region => format!("{region}.compute.internal"),
        };
        format!("ip-{}.{domain}", self.address.replace('.', "-"))
    }

    /// Whether it takes capacity: it does until it begins to end.
    pub(super) fn occupies(&self) -> bool {
        !matches!(
            self.announced,
            Some(InstanceState::ShuttingDown | InstanceState::Terminated)
        )
    }

    /// When its state changes next.
    pub(super) fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let ended = self.ends.map(|ends| ends + SHUTDOWN_TAKES);
        let moments = [Some(self.runs_from), self.ends, ended];
        moments.into_iter().flatten().filter(|moment| *moment > now).min()
    }
}

/// The id of an instance that does not exist, or that the caller cannot see yet.
pub(super) fn no_instance(id: &str) -> Refusal {
    let message = format!("The instance ID '{id}' does not exist");
    Refusal::new("InvalidInstanceID.NotFound", message)
}

fn is_instance_id(id: &str) -> bool {
    id.strip_prefix("i-")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl Account {
    /// An instance that calls can see: a new one is not seen at once.
    fn visible(&self, id: &str, now: Timestamp) -> Answer<&Instance> {
        if !is_instance_id(id) {
            let message = format!("Invalid id: \"{id}\"");
            return Err(Refusal::new("InvalidInstanceID.Malformed", message));
        }
        let found = self
            .instances
            .get(id)
            .filter(|one| one.launched + self.delays.instance <= now);
        found.ok_or_else(|| no_instance(id))
    }

    /// The instances with these ids that pass the filters; all without ids. An id that is not seen is an error.
    pub fn describe_instances(
        &self,
        ids: &[String],
        filters: &[Filter],
        page: &PageRequest,
        now: Timestamp,
    ) -> Answer<Page<Instance>> {
        if !ids.is_empty() && page.max.is_some() {
            let message = "The parameter instancesSet cannot be used with the parameter maxResults";
            return Err(Refusal::new("InvalidParameterCombination", message));
        }
        for id in ids {
            self.visible(id, now)?;
        }
        let mut found = Vec::new();
        let visible = self
            .instances
            .values()
            .filter(|one| one.launched + self.delays.instance <= now);
        for one in visible.filter(|one| ids.is_empty() || ids.contains(&one.id)) {
            let fields = |name: &str| {
                Some(vec![match name {
                    "instance-state-name" => one.state(now).as_str().to_owned(),
                    "instance-id" => one.id.clone(),
                    "instance-type" => one.instance_type.clone(),
                    "availability-zone" => one.zone.name.clone(),
                    "subnet-id" => one.subnet_id.clone(),
                    "image-id" => one.image_id.clone(),
                    "instance-lifecycle" => return Some(one.lifecycle.clone().into_iter().collect()),
                    _ => return None,
                }])
            };
            if passes(filters, &one.tags, fields)? {
                found.push(one.clone());
            }
        }
        page.of(found)
    }

    /// The instances that run and pass the filters, for their checks and maintenance.
    pub fn describe_status(&self, filters: &[Filter], page: &PageRequest, now: Timestamp) -> Answer<Page<Instance>> {
        let word = |impaired: Option<Timestamp>| {
            if impaired.is_some_and(|since| since <= now) {
                "impaired"
            } else {
                "ok"
            }
        };
        let mut found = Vec::new();
        for one in self
            .instances
            .values()
            .filter(|one| one.state(now) == InstanceState::Running)
        {
            let fields = |name: &str| {
                Some(match name {
                    "instance-status.status" => vec![word(one.health.instance_impaired_since).to_owned()],
                    "system-status.status" => vec![word(one.health.system_impaired_since).to_owned()],
                    "event.code" => one.health.events.iter().map(|event| event.code.clone()).collect(),
                    _ => return None,
                })
            };
            if passes(filters, &one.tags, fields)? {
                found.push(one.clone());
            }
        }
        page.of(found)
    }

    /// Ends instances. Answers the state of each before and after. One id that is not seen, and none ends.
    pub fn terminate(&mut self, ids: &[String], now: Timestamp) -> Answer<Vec<(String, InstanceState, InstanceState)>> {
        for id in ids {
            self.visible(id, now)?;
        }
        let mut changes = Vec::new();
        for id in ids {
            let Some(one) = self.instances.get_mut(id) else {
                continue;
            };
            let before = one.state(now);
            if !matches!(before, InstanceState::ShuttingDown | InstanceState::Terminated) {
                one.ends = Some(now);
            }
            changes.push((id.clone(), before, one.state(now)));
        }
        self.advance(now);
        Ok(changes)
    }

    /// Puts tags onto instances and templates.
    pub fn tag(&mut self, ids: &[String], tags: &Tags, now: Timestamp) -> Answer<()> {
        if let Some(key) = tags.keys().find(|key| key.starts_with("aws:")) {
            let message = format!("Tag keys starting with 'aws:' are reserved for internal use: {key}");
            return Err(Refusal::new("InvalidParameterValue", message));
        }
        for id in ids {
            self.visible(id, now)?;
        }
        for id in ids {
            if let Some(one) = self.instances.get_mut(id) {
                one.tags.extend(tags.clone());
            }
        }
        Ok(())
    }

    /// How many instances take capacity in each pool.
    pub(super) fn occupied(&self) -> BTreeMap<Pool, u32> {
        let mut occupied: BTreeMap<Pool, u32> = BTreeMap::new();
        for one in self.instances.values().filter(|one| one.occupies()) {
            let pool = Pool {
                instance_type: one.instance_type.clone(),
                zone: one.zone.name.clone(),
                purchase: one.purchase,
            };
            *occupied.entry(pool).or_default() += 1;
        }
        occupied
    }

    /// Forgets instances that ended long ago.
    pub(super) fn forget_instances(&mut self, now: Timestamp) {
        let is_remembered = |one: &Instance| one.ends.is_none_or(|ends| ends + REMEMBERED_FOR > now);
        self.instances.retain(|_, one| is_remembered(one));
    }
}
