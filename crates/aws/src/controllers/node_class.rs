//! Keeps the status of a class: what it selects, and whether it is ready (AWS-055 to AWS-067).

use super::class_conditions::ClassConditions;
use super::class_end::{AFTER_CONFLICT, ClassEnd};
use super::validation::{Validation, ValidationFinding};
use crate::ami::Image;
use crate::ami::status_amis;
use crate::error_advice::{condition_reason, explain};
use crate::errors::ApiError;
use crate::lookup::ImageError;
use crate::node_class::{ConditionType, condition_types, finding};
use crate::provider::AwsCloud;
use crate::reservation::{requeue_after, status_reservation};
use crate::subnet::status_subnets;
use jiff::SignedDuration;
use kerf_api::ConditionStatus;
use kerf_api::ec2_node_class::{EC2NodeClass, FINALIZER};
use kerf_runtime::client::{Lock, Written, found, patch_object, patch_status, unless_conflict};
use kerf_runtime::{Outcome, ReconcileError};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// The controller `nodeclass`.
pub struct NodeClassController {
    cloud: Arc<AwsCloud>,
    validation: Arc<Validation>,
    end: ClassEnd,
}

/// Results of the steps of one pass.
#[derive(Default)]
struct Pass {
    errors: Vec<String>,
    /// Reasons and messages of the topics that nothing is known about.
    unknown: Vec<(ConditionType, String, String)>,
    /// Whether an error will not go away by itself.
    terminal: bool,
    again_after: Option<Duration>,
}

impl Pass {
    fn again(&mut self, after: Duration) {
        self.again_after = Some(self.again_after.map_or(after, |known| known.min(after)));
    }

    fn fail(&mut self, kind: ConditionType, error: &dyn std::fmt::Display) {
        self.errors.push(format!("{kind}: {error}"));
    }

    /// A call failed, so that nothing is known of a topic.
    fn fail_call(&mut self, kind: ConditionType, error: &ApiError) {
        self.fail(kind, error);
        self.unknown.push((kind, condition_reason(error), explain(error)));
    }
}

impl NodeClassController {
    /// A controller of the classes of a cluster.
    pub fn new(cloud: &Arc<AwsCloud>) -> Self {
        let validation = Arc::new(Validation::new(Arc::clone(cloud)));
        Self {
            end: ClassEnd::new(Arc::clone(cloud), Arc::clone(&validation)),
            cloud: Arc::clone(cloud),
            validation,
        }
    }

    /// Reconciles one class by name.
    pub async fn reconcile(&self, name: &str) -> Result<Outcome, ReconcileError> {
        let api = self.cloud.classes();
        let Some(mut class) = found(api.get(name).await)? else {
            return Ok(Outcome::Done);
        };
        if class.metadata.deletion_timestamp.is_some() {
            return self.end.reconcile(&class).await;
        }
        let guarded = guarded(&class);
        match unless_conflict(patch_object(&api, &class, &guarded, Lock::Optimistic).await)? {
            Some(Written::Stored(stored)) => class = *stored,
            Some(Written::Unchanged) => {}
            Some(Written::Gone) => return Ok(Outcome::Done),
            None => return Ok(AFTER_CONFLICT),
        }
        let stored = class.clone();
        let pass = self.find_all(&mut class).await;
        match unless_conflict(patch_status(&api, &stored, &class, Lock::Optimistic).await)? {
            Some(Written::Stored(_) | Written::Unchanged) => {}
            Some(Written::Gone) => return Ok(Outcome::Done),
            None => return Ok(AFTER_CONFLICT),
        }
        match (pass.errors.is_empty(), pass.terminal) {
            (true, _) => Ok(match pass.again_after {
                None => Outcome::Done,
                // At once would be a storm of calls while EC2 does not see a new profile, or throttles.
                Some(Duration::ZERO) => Outcome::Requeue,
                Some(after) => Outcome::RequeueAfter(after),
            }),
            (false, true) => Err(ReconcileError::terminal(pass.errors.join("; "))),
            (false, false) => Err(ReconcileError::message(pass.errors.join("; "))),
        }
    }

    /// Works on every topic, also after one has failed (AWS-056).
    async fn find_all(&self, class: &mut EC2NodeClass) -> Pass {
        let mut pass = Pass::default();
        let mut found = Vec::new();
        for kind in condition_types(self.cloud.reserved_capacity) {
            match kind {
                ConditionType::Amis => found.push(self.find_amis(class, &mut pass).await),
                ConditionType::CapacityReservations => found.push(self.find_reservations(class, &mut pass).await),
                ConditionType::PlacementGroup => found.push(self.find_group(class, &mut pass).await),
                ConditionType::Subnets => found.push(self.find_subnets(class, &mut pass).await),
                ConditionType::SecurityGroups => found.push(self.find_security_groups(class, &mut pass).await),
                ConditionType::InstanceProfile => found.push(self.find_profile(class, &mut pass).await),
                // It needs the results of all others.
                ConditionType::Validation => {}
            }
        }
        let (reserved_capacity, now) = (self.cloud.reserved_capacity, self.cloud.clock.now());
        let mut conditions = ClassConditions::new(class, reserved_capacity, now);
        for (kind, ready, reason, message) in found.into_iter().flatten() {
            let status = if ready {
                ConditionStatus::True
            } else {
                ConditionStatus::False
            };
            conditions.set(kind, status, &reason, &message);
        }
        for (kind, reason, message) in &pass.unknown {
            conditions.explain_unknown(*kind, reason, message);
        }
        let statuses = conditions.statuses();
        let verdict = self.validation.judge(class, &statuses).await;
        let mut conditions = ClassConditions::new(class, reserved_capacity, now);
        apply(verdict, &mut conditions, &mut pass);
        conditions.finish();
        pass
    }

    async fn find_amis(&self, class: &mut EC2NodeClass, pass: &mut Pass) -> Option<TopicFinding> {
        let kind = ConditionType::Amis;
        let version = self.cloud.cluster.version().to_string();
        match self.cloud.images.list(class, &version, self.cloud.clock.now()).await {
            Ok(selected) => {
                class.status.amis = status_amis(&selected);
                let missing = match selected.len() {
                    0 => no_images(class, &self.cloud.images.unusable(class)),
                    _ => String::new(),
                };
                Some(judged(kind, selected.len(), &missing, pass))
            }
            Err(ImageError::Unsupported(error)) => {
                pass.fail(kind, &error);
                pass.terminal = true;
                Some((kind, false, "UnsupportedAlias".into(), error.to_string()))
            }
            Err(error) => {
                match &error {
                    ImageError::Call(error) => pass.fail_call(kind, error),
                    error @ (ImageError::Unsupported(_) | ImageError::NothingForAlias(_)) => pass.fail(kind, error),
                }
                if matches!(error, ImageError::NothingForAlias(_)) {
                    let message = format!("{error}; check the version of the alias, and allow ssm:GetParameter");
                    pass.unknown.push((kind, "AliasNotResolved".to_owned(), message));
                }
                None
            }
        }
    }

    async fn find_reservations(&self, class: &mut EC2NodeClass, pass: &mut Pass) -> Option<TopicFinding> {
        let kind = ConditionType::CapacityReservations;
        let now = self.cloud.clock.now();
        match self.cloud.reservations.list(class, now).await {
            Ok(found) => {
                let mut known = Vec::new();
                for described in &found {
                    match status_reservation(described, now) {
                        Ok(reservation) => known.push(reservation),
                        Err(error) => tracing::error!(error = %error, "a capacity reservation is left out"),
                    }
                }
                pass.again(span(requeue_after(&known, now)));
                class.status.capacity_reservations = known;
                Some((kind, true, "".into(), String::new()))
            }
            Err(error) => {
                pass.fail_call(kind, &error);
                None
            }
        }
    }

    /// The message of a selector that found nothing.
    fn nothing(&self, what: &str, field: &str) -> String {
        format!("{what} in {}; correct {field}", self.cloud.cluster.region)
    }

    async fn find_group(&self, class: &EC2NodeClass, pass: &mut Pass) -> Option<TopicFinding> {
        let kind = ConditionType::PlacementGroup;
        match self.cloud.groups.get(class).await {
            Ok(found) => {
                let is_ready = found.is_some() || class.spec.placement_group_selector.is_none();
                let missing = self.nothing("Placement group not found", "spec.placementGroupSelector");
                Some(judged(kind, usize::from(is_ready), &missing, pass))
            }
            Err(error) => {
                pass.fail(kind, &error);
                Some((kind, false, "PlacementGroupResolutionFailed".into(), explain(&error)))
            }
        }
    }

    async fn find_subnets(&self, class: &mut EC2NodeClass, pass: &mut Pass) -> Option<TopicFinding> {
        let kind = ConditionType::Subnets;
        match self.cloud.subnets.list(class).await {
            Ok(found) => {
                class.status.subnets = status_subnets(&found);
                let missing = self.nothing("SubnetSelector did not match any Subnets", "spec.subnetSelectorTerms");
                Some(judged(kind, found.len(), &missing, pass))
            }
            Err(error) => {
                pass.fail_call(kind, &error);
                None
            }
        }
    }

    async fn find_security_groups(&self, class: &mut EC2NodeClass, pass: &mut Pass) -> Option<TopicFinding> {
        let kind = ConditionType::SecurityGroups;
        match self.cloud.security_groups.list(class).await {
            Ok(found) => {
                let count = found.len();
                class.status.security_groups = found;
                let missing = self.nothing(
                    "SecurityGroupSelector did not match any SecurityGroups",
                    "spec.securityGroupSelectorTerms",
                );
                Some(judged(kind, count, &missing, pass))
            }
            Err(error) => {
                pass.fail_call(kind, &error);
                None
            }
        }
    }

    async fn find_profile(&self, class: &mut EC2NodeClass, pass: &mut Pass) -> Option<TopicFinding> {
        let kind = ConditionType::InstanceProfile;
        match self.cloud.profiles.ensure(class).await {
            Ok(name) => {
                class.status.instance_profile = Some(name);
                Some((kind, true, "".into(), String::new()))
            }
            // Nothing can be launched until there is such a role; a profile of an earlier role would be used otherwise.
            Err(error) if error.is_role_not_found() => {
                pass.fail(kind, &error);
                Some((kind, false, condition_reason(&error).into(), explain(&error)))
            }
            Err(error) => {
                pass.fail_call(kind, &error);
                None
            }
        }
    }
}

/// The class with our finalizer (AWS-057).
fn guarded(class: &EC2NodeClass) -> EC2NodeClass {
    let mut guarded = class.clone();
    let finalizers = guarded.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|one| one == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    guarded
}

/// Why a class has no images: those that it names and that do not exist, and those that no node can run.
fn no_images(class: &EC2NodeClass, unusable: &[Image]) -> String {
    let mut parts = vec!["AMISelector did not match any AMIs".to_owned()];
    let named = class
        .spec
        .ami_selector_terms
        .iter()
        .filter_map(|term| term.id.as_deref());
    let missing: Vec<&str> = named
        .filter(|id| !unusable.iter().any(|image| image.id == *id))
        .collect();
    if !missing.is_empty() {
        let ids = missing.join(", ");
        parts.push(format!(
            "no image is found for {ids}: not existing, not available, or not shared with this account"
        ));
    }
    parts.extend(unusable.iter().map(|image| {
        let (id, architecture) = (&image.id, &image.architecture);
        format!("{id} has the architecture {architecture:?}, and nodes run x86_64 and arm64 only")
    }));
    if parts.len() > 1 {
        parts.push("correct spec.amiSelectorTerms".to_owned());
    }
    parts.join("; ")
}

/// A span as a time to wait; one in the past is no wait.
fn span(span: SignedDuration) -> Duration {
    Duration::try_from(span).unwrap_or(Duration::ZERO)
}

/// Topic, whether it is ready, reason and message.
type TopicFinding = (ConditionType, bool, Cow<'static, str>, String);

/// The finding of a look-up with `count` results.
fn judged(kind: ConditionType, count: usize, missing: &str, pass: &mut Pass) -> TopicFinding {
    let found = finding(kind, count);
    pass.again(span(found.again_after));
    let message = if found.ready { String::new() } else { missing.to_owned() };
    (kind, found.ready, found.reason.into(), message)
}

/// Takes over what validation found.
fn apply(verdict: ValidationFinding, conditions: &mut ClassConditions<'_>, pass: &mut Pass) {
    let kind = ConditionType::Validation;
    if let Some((status, reason, message)) = &verdict.condition {
        conditions.set(kind, *status, reason, message);
    }
    if let Some(error) = verdict.error {
        if verdict.condition.is_none() {
            conditions.explain_unknown(kind, "ValidationNotPossible", &error);
        }
        pass.fail(kind, &error);
        pass.terminal |= verdict.terminal;
    }
    if let Some(after) = verdict.again_after {
        pass.again(after);
    }
}
