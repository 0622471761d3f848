//! Validation of a class by dry runs (AWS-069 to AWS-085).

use super::conditions::ConditionType;
use crate::ami::group_by_ami;
use crate::error_advice::explain;
use crate::errors::{ApiError, classify};
use crate::labels::{ACCELERATOR_COUNT, GPU_COUNT, TENANCY, TENANCY_DEDICATED};
use crate::launch::Tenancy;
use kerf_api::ec2_node_class::{AmiFamily, NodeClassAmi};
use kerf_model::instance_type::InstanceType;
use kerf_model::intern::Interner;
use kerf_model::requirement::Requirements;

/// A call that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRunStep {
    /// CreateLaunchTemplate, which has no dry run: a template is really created.
    LaunchTemplate,
    /// CreateFleet.
    Fleet,
    /// RunInstances.
    Instances,
}

impl DryRunStep {
    const fn denied_reason(self) -> &'static str {
        match self {
            Self::LaunchTemplate => "CreateLaunchTemplateAuthCheckFailed",
            Self::Fleet => "CreateFleetAuthCheckFailed",
            Self::Instances => "RunInstancesAuthCheckFailed",
        }
    }

    const fn call(self) -> &'static str {
        match self {
            Self::LaunchTemplate => "ec2:CreateLaunchTemplate",
            Self::Fleet => "ec2:CreateFleet",
            Self::Instances => "ec2:RunInstances",
        }
    }
}

/// What a tried call means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValidationOutcome {
    /// It would succeed.
    Succeeded,
    /// It would fail: the condition is False, and the result is kept.
    Failed {
        /// The condition's reason.
        reason: &'static str,
        /// The condition's message.
        message: String,
    },
    /// It cannot be said now: try again, and leave the condition as it is.
    Retry,
    /// An error without a rule of its own.
    Error(String),
}

/// What the answer of a tried call means; no error is success (AWS-077 to AWS-080).
pub fn dry_run_outcome(step: DryRunStep, error: Option<&ApiError>) -> ValidationOutcome {
    let Some(error) = error.filter(|error| !error.is_dry_run_success()) else {
        return ValidationOutcome::Succeeded;
    };
    if error.is_rate_limited() || error.server_fault || error.is_profile_not_visible() {
        return ValidationOutcome::Retry;
    }
    if error.is_unauthorized() {
        let message = classify(&error.to_string()).message;
        return ValidationOutcome::Failed {
            reason: step.denied_reason(),
            // Log parsers rely on the end (AWS-414).
            message: format!(
                "{} is denied ({}; allow it, and iam:PassRole on the node role: kerf manifests --iam): {message}",
                step.call(),
                error.code
            ),
        };
    }
    if error.is_user_data_too_large() {
        return ValidationOutcome::Failed {
            reason: "UserDataSizeLimitExceeded",
            message: explain(error),
        };
    }
    if error.is_refused_class() {
        return ValidationOutcome::Failed {
            reason: match classify(&error.to_string()).reason {
                "LaunchFailed" => "ValidationFailed",
                reason => reason,
            },
            message: format!("{} is refused, {}", step.call(), explain(error)),
        };
    }
    ValidationOutcome::Error(explain(error))
}

/// Whether validation can begin: `Ok` if all it needs is ready; else whether the condition is False (`Some(false)`) or Unknown (`None`).
/// Placement group and reservations are no prerequisites (AWS-070).
pub fn dependencies(statuses: &[(ConditionType, Option<bool>)]) -> Result<(), Option<bool>> {
    let needed = [
        ConditionType::Amis,
        ConditionType::InstanceProfile,
        ConditionType::SecurityGroups,
        ConditionType::Subnets,
    ];
    let status = |kind: &ConditionType| {
        let found = statuses.iter().find(|(known, _)| known == kind);
        found.and_then(|(_, status)| *status)
    };
    let statuses: Vec<Option<bool>> = needed.iter().map(status).collect();
    if statuses.contains(&Some(false)) {
        Err(Some(false))
    } else if statuses.contains(&None) {
        Err(None)
    } else {
        Ok(())
    }
}

/// Types that stand in where no pool of the class has any.
const STAND_INS: [&str; 2] = ["m5.large", "m6g.large"];

/// The types a dry run may use, the best first: those the pools of the class can have; of these, those with an image for machines without
/// accelerators, since images for GPUs may need larger disks than the class allows. `kinds` are the types that go with the class, and
/// `pools` the requirements of its pools (AWS-082 to AWS-084).
pub fn candidate_types<'k>(
    kinds: &'k [InstanceType],
    pools: &[Requirements],
    family: AmiFamily,
    amis: &[NodeClassAmi],
    interner: &Interner,
) -> Vec<&'k InstanceType> {
    let mut candidates: Vec<&InstanceType> = Vec::new();
    for pool in pools {
        let fits = |kind: &&InstanceType| kind.requirements.intersects(pool, interner).is_ok();
        let new: Vec<_> = kinds
            .iter()
            .filter(fits)
            .filter(|kind| !candidates.iter().any(|c| c.name == kind.name))
            .collect();
        candidates.extend(new);
    }
    if candidates.is_empty() || family.is_windows() {
        let is_stand_in = |kind: &&InstanceType| STAND_INS.contains(&interner.text(kind.name));
        candidates = kinds.iter().filter(is_stand_in).collect();
        if candidates.is_empty() {
            candidates = kinds.iter().collect();
        }
    }
    let standard: Vec<NodeClassAmi> = amis.iter().filter(|ami| is_standard(ami)).cloned().collect();
    let with_image = |amis: &[NodeClassAmi]| -> Vec<&'k InstanceType> {
        let groups = group_by_ami(candidates.iter().copied(), amis, interner);
        let named: Vec<_> = groups
            .iter()
            .flat_map(|(_, kinds)| kinds.iter().map(|kind| kind.name))
            .collect();
        candidates
            .iter()
            .filter(|kind| named.contains(&kind.name))
            .copied()
            .collect()
    };
    let preferred = with_image(&standard);
    if preferred.is_empty() {
        with_image(amis)
    } else {
        preferred
    }
}

/// Whether an image is for machines without GPUs and accelerators.
fn is_standard(ami: &NodeClassAmi) -> bool {
    let needs = |key: &str| {
        let of_key = ami.requirements.iter().filter(|one| one.key == key);
        of_key
            .map(|one| &one.operator)
            .any(|operator| *operator == kerf_api::Operator::Exists)
    };
    !needs(GPU_COUNT) && !needs(ACCELERATOR_COUNT)
}

/// Tenancy of the template of a dry run: dedicated if a pool asks for it, also beside the default (AWS-085).
pub fn dry_run_tenancy(pools: &[Requirements], interner: &Interner) -> Tenancy {
    let (key, dedicated) = (interner.intern(TENANCY), interner.intern(TENANCY_DEDICATED));
    let asks = |pool: &Requirements| pool.get(key).is_some_and(|values| values.has(dedicated, interner));
    if pools.iter().any(asks) {
        Tenancy::Dedicated
    } else {
        Tenancy::Default
    }
}
