//! What must hold in a world: always, in calm times, and once it is quiet.

use super::places::{self, Place};
use super::reports::is_own;
use super::strangers::{self, Strangers};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kerf_api::{Condition, ConditionStatus, EC2NodeClass, NodeClaim};
use kerf_aws::annotations::INSTANCE_PROFILE;
use kerf_aws::provider_id::instance_id;
use kerf_aws::tags::{NODE_CLAIM, NODE_CLASS};
use kerf_aws_sandbox::account::{Account, Instance, InstanceState};
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// How long an instance may live without a claim: the age from which it is garbage, the period of garbage collection, and some time to act.
const ORPHAN_MAX: Duration = Duration::from_secs(5 * 60);
/// How long a claim may live without its instance.
const BEREFT_MAX: Duration = Duration::from_secs(10 * 60);
/// How long a claim may take to go while no pod keeps it: pods that do not move wait for nothing longer.
const ENDING_MAX: Duration = Duration::from_secs(15 * 60);

/// How long a template that nothing needs may stay: a minute, a minute until it is looked for, and some time to act.
const TEMPLATE_MAX: SignedDuration = SignedDuration::from_mins(3);

/// An instance of the cluster.
#[derive(Clone, Debug)]
pub(super) struct OwnInstance {
    pub(super) id: String,
    claim: Option<String>,
}

/// What there is at a moment.
pub(super) struct Sight {
    pub(super) now: Timestamp,
    pub(super) claims: Vec<NodeClaim>,
    pub(super) nodes: Vec<Node>,
    pub(super) classes: Vec<EC2NodeClass>,
    /// Instances of the cluster that neither end nor have ended.
    pub(super) instances: Vec<OwnInstance>,
    /// Where the instances run, by id.
    pub(super) places: BTreeMap<String, Place>,
    /// Ids of placement groups by id and name.
    pub(super) groups: BTreeMap<String, String>,
    /// Templates of the cluster by name: the class that each is for, and when it was made.
    templates: BTreeMap<String, (String, Timestamp)>,
    /// Profiles under the path of the cluster: name, and the path that names the class.
    profiles: BTreeMap<String, String>,
    strangers: Strangers,
    /// Names of claims that pods keep from ending.
    pub(super) held: BTreeSet<String>,
}

/// The id of a claim's instance.
pub(super) fn id_of(claim: &NodeClaim) -> Option<&str> {
    instance_id(claim.status.as_ref()?.provider_id.as_deref()?).ok()
}

impl Sight {
    pub(super) fn of(
        (claims, nodes, classes): (Vec<NodeClaim>, Vec<Node>, Vec<EC2NodeClass>),
        held: BTreeSet<String>,
        account: &Account,
        now: Timestamp,
    ) -> Self {
        let living = |one: &&Instance| is_own(&one.tags) && one.state(now) < InstanceState::ShuttingDown;
        let instances = || account.instances.values().filter(living);
        let templates = account.templates.values().filter(|one| is_own(&one.tags));
        let profiles = account.profiles.values();
        Self {
            claims,
            nodes,
            classes,
            now,
            places: instances()
                .map(|one| (one.id.clone(), Place::of(one, account)))
                .collect(),
            groups: places::group_ids(account),
            instances: instances()
                .map(|one| OwnInstance {
                    id: one.id.clone(),
                    claim: one.tags.get(NODE_CLAIM).cloned(),
                })
                .collect(),
            templates: templates
                .map(|one| {
                    let class = one.tags.get(NODE_CLASS).cloned().unwrap_or_default();
                    (one.name.clone(), (class, one.created))
                })
                .collect(),
            profiles: profiles
                .filter(|one| one.path.starts_with("/karpenter/us-east-1/kerf/"))
                .map(|one| (one.name.clone(), one.path.clone()))
                .collect(),
            strangers: strangers::look(account),
            held,
        }
    }
}

/// Remembers since when things are as they should not stay.
#[derive(Default)]
pub(super) struct Watcher {
    /// Since when, by what.
    since: BTreeMap<String, Instant>,
    /// The instance that each claim has had, by uid.
    instance_of: BTreeMap<String, String>,
    strangers: Option<Strangers>,
}

impl Watcher {
    pub(super) fn keeps_strangers(&self) -> bool {
        self.strangers.is_some()
    }

    /// Strangers must stay as they are now.
    pub(super) fn keep_strangers(&mut self, sight: &Sight) {
        self.strangers = Some(sight.strangers.clone());
    }

    /// What is wrong. `calm_since` is since when nothing that hinders the controllers happens.
    pub(super) fn look(&mut self, sight: &Sight, calm_since: Option<Instant>) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.strangers.as_ref().is_some_and(|before| *before != sight.strangers) {
            wrong.push(format!(
                "what belongs to strangers was touched: {:?} {:?}",
                self.strangers, sight.strangers
            ));
            self.strangers = Some(sight.strangers.clone());
        }
        let mut owners: BTreeMap<&str, String> = BTreeMap::new();
        for claim in &sight.claims {
            let Some(id) = id_of(claim) else { continue };
            let name = claim.name_any();
            if let Some(other) = owners.insert(id, name.clone()) {
                wrong.push(format!("{name} and {other} have the same instance {id}"));
            }
            let first = self
                .instance_of
                .entry(claim.uid().unwrap())
                .or_insert_with(|| id.to_owned());
            if first != id {
                wrong.push(format!("{name} had {first}, and has {id}"));
            }
        }
        let mut named: BTreeMap<&str, &str> = BTreeMap::new();
        for one in &sight.instances {
            if let Some(other) = one.claim.as_deref().and_then(|claim| named.insert(claim, &one.id)) {
                wrong.push(format!("{other} and {} are both of {:?}", one.id, one.claim));
            }
        }
        let living: BTreeSet<&str> = sight.instances.iter().map(|one| one.id.as_str()).collect();
        let mut lasting: Vec<(String, Duration)> = Vec::new();
        for id in &living {
            if !owners.contains_key(id) {
                lasting.push((format!("{id} has no claim"), ORPHAN_MAX));
            }
        }
        for claim in &sight.claims {
            let name = claim.name_any();
            if id_of(claim).is_some_and(|id| !living.contains(id)) {
                lasting.push((format!("{name} has lost its instance"), BEREFT_MAX));
            }
            if claim.metadata.deletion_timestamp.is_some() && !sight.held.contains(&name) {
                lasting.push((format!("{name} does not end"), ENDING_MAX));
            }
        }
        lasting.extend(places::passing(sight));
        let now = Instant::now();
        wrong.extend(places::misplaced(sight, calm_since.map(|calm| now - calm)));
        self.since
            .retain(|what, _| lasting.iter().any(|(other, _)| other == what));
        for (what, most) in lasting {
            let since = *self.since.entry(what.clone()).or_insert(now);
            let counts_from = calm_since.map(|calm| calm.max(since));
            if counts_from.is_some_and(|from| now - from > most) {
                wrong.push(what);
            }
        }
        wrong
    }
}

/// What is not as it must be once the world is quiet.
pub(super) fn unfinished(sight: &Sight) -> Vec<String> {
    let mut wrong = Vec::new();
    let claimed: BTreeSet<&str> = sight.claims.iter().filter_map(id_of).collect();
    let living: BTreeSet<&str> = sight.instances.iter().map(|one| one.id.as_str()).collect();
    if claimed != living || claimed.len() != sight.claims.len() {
        wrong.push(format!(
            "instances {living:?} for claims {claimed:?} of {}",
            sight.claims.len()
        ));
    }
    let nodes: BTreeSet<&str> = sight
        .nodes
        .iter()
        .filter_map(|node| instance_id(node.spec.as_ref()?.provider_id.as_deref()?).ok())
        .collect();
    if nodes != living || nodes.len() != sight.nodes.len() {
        wrong.push(format!("nodes {nodes:?} for instances {living:?}"));
    }
    for one in &sight.instances {
        let claim = sight.claims.iter().find(|claim| id_of(claim) == Some(&one.id));
        if claim.map(ResourceExt::name_any) != one.claim {
            wrong.push(format!("{} is named {:?}", one.id, one.claim));
        }
    }
    for claim in &sight.claims {
        if claim.metadata.deletion_timestamp.is_some() {
            wrong.push(format!("{} ends", claim.name_any()));
        }
    }
    for class in &sight.classes {
        let is_ready = |one: &Condition| one.type_ == "Ready" && one.status == ConditionStatus::True;
        if class.metadata.deletion_timestamp.is_some() {
            wrong.push(format!("class {} ends", class.name_any()));
        } else if !class.status.conditions.iter().any(is_ready) {
            wrong.push(format!(
                "class {} is not ready: {:?}",
                class.name_any(),
                class.status.conditions
            ));
        }
    }
    let names: BTreeSet<String> = sight.classes.iter().map(ResourceExt::name_any).collect();
    wrong.extend(places::unsettled(sight));
    for (template, (class, _)) in &sight.templates {
        if !names.contains(class) {
            wrong.push(format!("template {template} of class {class} is left"));
        }
    }
    for (profile, path) in &sight.profiles {
        if !sight.classes.iter().any(|class| path.contains(&class.uid().unwrap())) {
            wrong.push(format!("profile {profile} of {path} is left"));
        }
    }
    wrong
}

/// The profiles and templates that are left although their time has passed.
pub(super) fn remains(sight: &Sight) -> Vec<String> {
    let mut used: BTreeSet<&str> = sight
        .classes
        .iter()
        .filter_map(|class| class.status.instance_profile.as_deref())
        .collect();
    let annotated = sight.claims.iter().filter_map(|claim| {
        let annotations = claim.metadata.annotations.as_ref()?;
        annotations.get(INSTANCE_PROFILE).map(String::as_str)
    });
    used.extend(annotated);
    let profiles = sight.profiles.keys().filter(|name| !used.contains(name.as_str()));
    let mut wrong: Vec<String> = profiles
        .map(|name| format!("profile {name} is not used and stays"))
        .collect();
    // Classes check every half hour whether they could launch, with a template that they keep for a minute.
    let stay = sight
        .templates
        .iter()
        .filter(|(_, (_, created))| sight.now.duration_since(*created) > TEMPLATE_MAX);
    wrong.extend(stay.map(|(name, _)| format!("template {name} is not used and stays")));
    wrong
}
