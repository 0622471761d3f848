//! Validates a class by trying what a launch does (AWS-069 to AWS-085).

use crate::annotations::DISCOVERED_MEMORY;
use crate::cache::Cache;
use crate::error_advice::explain;
use crate::errors::ApiError;
use crate::instance_end::ENDED_AT_LAUNCH;
use crate::instance_type::incompatibility;
use crate::instance_type::kubelet::{
    ClassKubelet, KubeletProblem, checked_expressions, evaluation_failed, gate_problem,
};
use crate::intervals::{VALIDATION, VALIDATION_PERIOD};
use crate::labels::label_rules;
use crate::launch::{FleetTagSpecification, InterfaceRequest, LaunchClaim, TemplateData, Tenancy, template_groups};
use crate::node_class::{
    ConditionType, DryRunStep, ValidationOutcome, candidate_types, dependencies, dry_run_outcome, dry_run_tenancy,
};
use crate::offering::CapacityType;
use crate::options::AwsFeatureGates;
use crate::provider::{AwsCloud, TemplateError, TemplateRequest};
use crate::services::{FleetDryRun, InstancesDryRun};
use crate::tags::{Tags, first_restricted, launch_tags};
use crate::user_data::node_taints;
use kerf_api::ec2_node_class::NodeClassSubnet;
use kerf_api::hash::primitive;
use kerf_api::{AmiFamily, ConditionStatus, EC2NodeClass, NodePool};
use kerf_cloud::requirements;
use kerf_model::instance_type::InstanceType;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use kerf_runtime::client::{describe, name_of};
use kube::Api;
use kube::api::ListParams;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a validation found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ValidationFinding {
    /// Status, reason and message of the condition; `None` leaves it as it is.
    pub(super) condition: Option<(ConditionStatus, &'static str, String)>,
    /// When to validate again.
    pub(super) again_after: Option<Duration>,
    /// The error of the pass.
    pub(super) error: Option<String>,
    /// Whether the error will not go away by itself.
    pub(super) terminal: bool,
}

impl ValidationFinding {
    fn condition(status: ConditionStatus, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            condition: Some((status, reason, message.into())),
            again_after: Some(VALIDATION_PERIOD),
            ..Self::default()
        }
    }

    /// The class cannot be used until it is changed.
    fn terminal((reason, message): KubeletProblem) -> Self {
        Self {
            error: Some(message.clone()),
            terminal: true,
            again_after: None,
            ..Self::condition(ConditionStatus::False, reason, message)
        }
    }

    /// Nothing can be said now.
    fn retry() -> Self {
        Self {
            again_after: Some(Duration::ZERO),
            ..Self::default()
        }
    }

    fn error(text: impl Into<String>) -> Self {
        Self {
            error: Some(text.into()),
            ..Self::default()
        }
    }

    fn of(known: &ValidationResult) -> Self {
        match known {
            None => Self::condition(ConditionStatus::True, "", ""),
            Some((reason, message)) => Self::condition(ConditionStatus::False, reason, message.clone()),
        }
    }
}

/// A result that is kept: `None` for success, else reason and message.
type ValidationResult = Option<(&'static str, String)>;

/// How a sequence of tried calls ended early.
enum Ended {
    /// With a result.
    Result(ValidationResult),
    /// Without one.
    Finding(ValidationFinding),
}

/// Validates classes, and remembers the results.
pub struct Validation {
    cloud: Arc<AwsCloud>,
    /// By name of the class and a hash of everything that decides.
    results: Cache<(String, u64), ValidationResult>,
}

impl Validation {
    /// Validates classes of a cluster.
    pub const fn new(cloud: Arc<AwsCloud>) -> Self {
        Self {
            cloud,
            results: Cache::new(VALIDATION),
        }
    }

    /// Forgets the results of a class.
    pub(super) fn forget(&self, class: &str) {
        self.results.retain(|(name, _), _| name != class);
    }

    /// Judges a class whose other topics have these statuses.
    pub(super) async fn judge(
        &self,
        class: &EC2NodeClass,
        statuses: &[(ConditionType, Option<bool>)],
    ) -> ValidationFinding {
        if let Some(verdict) = self.resolve_cidr(class).await {
            return verdict;
        }
        let kubelet = match kubelet_settings(class, self.cloud.options.feature_gates) {
            Ok(kubelet) => kubelet,
            Err(problem) => return ValidationFinding::terminal(problem),
        };
        if let Err(status) = dependencies(statuses) {
            let status = status.map_or(ConditionStatus::Unknown, |_| ConditionStatus::False);
            let message = "Awaiting AMI, Instance Profile, Security Group, and Subnet resolution";
            return ValidationFinding::condition(status, "DependenciesNotReady", message);
        }
        if kubelet.has_expressions() {
            let descriptions = self.cloud.types.descriptions();
            if descriptions.is_empty() {
                return ValidationFinding::retry();
            }
            let enis = self.cloud.options.reserved_enis;
            if let Some(problem) = kubelet.problem(descriptions.values(), &class.spec, enis) {
                return ValidationFinding::terminal(evaluation_failed(&problem));
            }
        }
        if let Some(key) = first_restricted(class.spec.tags.as_ref()) {
            let message = format!("the tag {key:?} may not be set by a class");
            return ValidationFinding {
                error: Some(message.clone()),
                terminal: true,
                again_after: None,
                ..ValidationFinding::condition(ConditionStatus::False, "TagValidationFailed", message)
            };
        }
        if let Some(message) = self.cloud.ended_classes.reason(class) {
            return ValidationFinding::condition(ConditionStatus::False, ENDED_AT_LAUNCH, message);
        }
        let name = match name_of(class) {
            Ok(name) => name,
            Err(error) => return ValidationFinding::error(describe(&error)),
        };
        let tags = launch_tags(class.spec.tags.as_ref(), &self.cloud.cluster.name, "", name);
        let key = (name.to_owned(), result_hash(class, &tags));
        if let Some(known) = self.results.get(&key) {
            return ValidationFinding::of(&known);
        }
        let known = if self.cloud.options.disable_dry_run {
            None
        } else {
            match self.dry_run(class, &tags).await {
                Ok(()) => None,
                Err(Ended::Result(known)) => known,
                Err(Ended::Finding(verdict)) => return verdict,
            }
        };
        self.results.insert(key, known.clone());
        ValidationFinding::of(&known)
    }

    /// nodeadm needs the addresses of Services; other families never ask for them (AWS-069).
    async fn resolve_cidr(&self, class: &EC2NodeClass) -> Option<ValidationFinding> {
        if class.spec.effective_family() != AmiFamily::Al2023 {
            return None;
        }
        let error = self.cloud.cluster.resolve_cidr(&*self.cloud.services.eks).await.err()?;
        if error.server_fault {
            return Some(ValidationFinding::retry());
        }
        let message = format!("Failed to detect the cluster CIDR: {}", explain(&error));
        Some(ValidationFinding {
            error: Some(format!("failed to detect the cluster CIDR, {error}")),
            again_after: None,
            ..ValidationFinding::condition(ConditionStatus::False, "ClusterCIDRResolutionFailed", message)
        })
    }

    /// Tries a launch; stops at the first call that would fail.
    async fn dry_run(&self, class: &EC2NodeClass, tags: &Tags) -> Result<(), Ended> {
        let other = |text: String| Ended::Finding(ValidationFinding::error(text));
        let pools = self
            .pools(class)
            .await
            .map_err(|error| other(format!("listing NodePools, {error}")))?;
        let (types, group) = self
            .cloud
            .types_of(class)
            .await
            .map_err(|error| other(error.to_string()))?;
        let compatible: Vec<InstanceType> = types
            .types
            .iter()
            .filter(|kind| {
                let name = self.cloud.interner.text(kind.name);
                let family = class.spec.effective_family();
                let description = self.cloud.types.description(name);
                description.is_some_and(|one| incompatibility(&one, &class.spec, family, group.as_ref()).is_none())
            })
            .cloned()
            .collect();
        let interner = &*self.cloud.interner;
        let amis = &class.status.amis;
        let candidates = candidate_types(&compatible, &pools, class.spec.effective_family(), amis, interner);
        let Some(candidate) = candidates.first().copied().cloned() else {
            return Err(other("no instance type goes with the class".to_owned()));
        };
        let tenancy = dry_run_tenancy(&pools, interner);
        let (name, data) = self.try_template(class, &candidate, tenancy, tags).await?;
        let kind = interner.text(candidate.name).to_owned();
        self.try_fleet(class, &name, &kind, tags).await?;
        self.try_instances(class, &name, &kind, &data, tags).await
    }

    /// What the pools of a class want of instance types.
    async fn pools(&self, class: &EC2NodeClass) -> Result<Vec<Requirements>, kube::Error> {
        let pools = Api::<NodePool>::all(self.cloud.client.clone())
            .list(&ListParams::default())
            .await?;
        let (rules, interner) = (label_rules(), &*self.cloud.interner);
        let of_class = pools.items.into_iter().filter(|pool| {
            let class_ref = &pool.spec.template.spec.node_class_ref;
            class_ref.group == kerf_api::ec2_node_class::GROUP && Some(&*class_ref.name) == class.name()
        });
        let wanted = of_class.map(|pool| {
            let template = &pool.spec.template;
            let mut wanted = requirements(&template.spec.requirements, &rules, interner);
            for (key, value) in template.labels() {
                let label = Requirement::is(interner.intern(rules.normalize(key)), interner.intern(value));
                wanted.add(label, interner);
            }
            wanted
        });
        Ok(wanted.collect())
    }

    async fn try_template(
        &self,
        class: &EC2NodeClass,
        kind: &InstanceType,
        tenancy: Tenancy,
        tags: &Tags,
    ) -> Result<(String, TemplateData), Ended> {
        let other = |text: String| Ended::Finding(ValidationFinding::error(text));
        let claim = LaunchClaim::new(Requirements::new(), Resources::new(), &self.cloud.interner);
        let kinds = std::slice::from_ref(kind);
        let reserved = self.cloud.reserved_by_expressions(class);
        let groups = template_groups(&claim, kinds, &class.status.amis, CapacityType::OnDemand, &reserved);
        let Some(group) = groups.and_then(|groups| groups.into_iter().next()) else {
            return Err(other("no AMIs exist given constraints".to_owned()));
        };
        let request = TemplateRequest {
            labels: &BTreeMap::new(),
            taints: &node_taints(&[], &[]),
            capacity_type: CapacityType::OnDemand,
            tenancy,
            tags,
            group: None,
            partition: None,
            enclaves: false,
        };
        match self.cloud.ensure_template(class, &group.key, &request).await {
            Ok(made) => Ok(made),
            Err(TemplateError::Call(error)) => {
                ended(class, DryRunStep::LaunchTemplate, Some(&error))?;
                Err(other(explain(&error)))
            }
            Err(TemplateError::UserData(error)) if error.is_of_class() => Err(Ended::Result(Some((
                "UserDataInvalid",
                format!("{error}; correct spec.userData"),
            )))),
            Err(error) => Err(other(error.to_string())),
        }
    }

    async fn try_fleet(&self, class: &EC2NodeClass, template: &str, kind: &str, tags: &Tags) -> Result<(), Ended> {
        let request = FleetDryRun {
            template_name: template.to_owned(),
            instance_type: kind.to_owned(),
            subnet_ids: class.status.subnets.iter().map(|subnet| subnet.id.clone()).collect(),
            tags: specifications(["instance", "volume", "fleet"], tags),
        };
        let answer = self.cloud.services.ec2.dry_run_fleet(&request).await;
        ended(class, DryRunStep::Fleet, answer.err().as_ref())
    }

    /// Tries subnets until one succeeds; otherwise the error of the first one decides (AWS-080).
    async fn try_instances(
        &self,
        class: &EC2NodeClass,
        template: &str,
        kind: &str,
        data: &TemplateData,
        tags: &Tags,
    ) -> Result<(), Ended> {
        let interfaces: Vec<InterfaceRequest> = data.interfaces.clone();
        let mut first = None::<ApiError>;
        for subnet in &class.status.subnets {
            let request = InstancesDryRun {
                template_name: template.to_owned(),
                instance_type: kind.to_owned(),
                interfaces: interfaces.clone(),
                subnet_id: subnet.id.clone(),
                tags: specifications(["instance", "volume", "network-interface"], tags),
            };
            match self.cloud.services.ec2.dry_run_instances(&request).await {
                Err(error) if !error.is_dry_run_success() => {
                    first.get_or_insert(error);
                }
                _ => return Ok(()),
            }
        }
        ended(class, DryRunStep::Instances, first.as_ref())
    }
}

/// The kubelet settings of a class, or why it cannot have them.
fn kubelet_settings(class: &EC2NodeClass, gates: AwsFeatureGates) -> Result<ClassKubelet, KubeletProblem> {
    gate_problem(&class.spec, gates).map_or(Ok(()), Err)?;
    checked_expressions(&class.spec, gates)
}

/// What the answer of a tried call does to the sequence.
fn ended(class: &EC2NodeClass, step: DryRunStep, error: Option<&ApiError>) -> Result<(), Ended> {
    // A profile that Kerf made is seen in a moment. One that the user names should exist; it is looked for again.
    let is_given = class.spec.instance_profile.is_some();
    if let Some(error) = error.filter(|error| is_given && error.is_profile_not_visible()) {
        return Err(Ended::Finding(ValidationFinding {
            again_after: Some(Duration::ZERO),
            ..ValidationFinding::condition(ConditionStatus::False, "InstanceProfileNameInvalid", explain(error))
        }));
    }
    match dry_run_outcome(step, error) {
        ValidationOutcome::Succeeded => Ok(()),
        ValidationOutcome::Failed { reason, message } => Err(Ended::Result(Some((reason, message)))),
        ValidationOutcome::Retry => Err(Ended::Finding(ValidationFinding::retry())),
        ValidationOutcome::Error(text) => Err(Ended::Finding(ValidationFinding::error(text))),
    }
}

fn specifications(resources: [&'static str; 3], tags: &Tags) -> Vec<FleetTagSpecification> {
    let each = resources.map(|resource| FleetTagSpecification {
        resource,
        tags: tags.clone(),
    });
    each.into()
}

/// A hash of everything a result depends on (AWS-072). An annotation more is another hash, which forces a validation; what the controller itself
/// keeps in one does not. Subnets change places in the status whenever their free addresses do.
fn result_hash(class: &EC2NodeClass, tags: &Tags) -> u64 {
    let status = &class.status;
    let mut subnets: Vec<&NodeClassSubnet> = status.subnets.iter().collect();
    subnets.sort_by(|a, b| a.id.cmp(&b.id));
    let annotations = class.metadata.annotations.iter().flatten();
    let annotations: BTreeMap<_, _> = annotations.filter(|(key, _)| *key != DISCOVERED_MEMORY).collect();
    let text = format!(
        "{subnets:?}{:?}{:?}{:?}{:?}{annotations:?}{tags:?}",
        status.security_groups, status.amis, status.instance_profile, class.spec,
    );
    primitive(text.as_bytes())
}
