//! What a launch needs to know of a claim, and how its instance is bought (AWS-241 to AWS-243).

use crate::labels::{TENANCY, TENANCY_DEDICATED, TENANCY_DEFAULT, label_rules};
use crate::offering::CapacityType;
use crate::resources::{EFA, NIP_SLOTS};
use kerf_api::LabelRules;
use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use std::collections::BTreeMap;

/// Fewer instance types than this make a fall-back from spot to on-demand likely to stay (AWS-243).
const FLEXIBLE_TYPES: usize = 5;

/// A claim to launch.
#[derive(Clone, Debug)]
pub struct LaunchClaim<'a> {
    /// What the labels of the node must be.
    pub requirements: Requirements,
    /// What the node must have room for.
    pub requests: Resources,
    /// Annotations of the claim.
    pub annotations: BTreeMap<String, String>,
    rules: LabelRules,
    interner: &'a Interner,
}

impl<'a> LaunchClaim<'a> {
    /// A claim with these requirements and requests.
    pub fn new(requirements: Requirements, requests: Resources, interner: &'a Interner) -> Self {
        Self {
            requirements,
            requests,
            annotations: BTreeMap::new(),
            rules: label_rules(),
            interner,
        }
    }

    /// The names of the claim's values.
    pub const fn interner(&self) -> &'a Interner {
        self.interner
    }

    /// Whether a label is well-known, so that the claim need not define it.
    pub(super) fn is_well_known(&self, key: Sym) -> bool {
        self.rules.is_well_known(self.interner.text(key))
    }

    /// The available offerings of a type that the claim allows.
    pub(super) fn usable<'k>(&self, kind: &'k InstanceType) -> Vec<&'k Offering> {
        kerf_cloud::usable(kind, &self.requirements, |key| self.is_well_known(key), self.interner)
    }

    /// Whether the claim allows a type.
    pub(super) fn allows(&self, kind: &InstanceType) -> bool {
        let well_known = |key| self.is_well_known(key);
        self.requirements
            .compatible(&kind.requirements, well_known, self.interner)
            .is_ok()
    }

    /// Whether the claim allows a value of a label; a claim that says nothing of the label allows all.
    pub(super) fn admits(&self, key: Sym, value: Sym) -> bool {
        let requirement = self.requirements.get(key);
        requirement.is_none_or(|requirement| requirement.has(value, self.interner))
    }

    /// The same claim with one capacity type.
    pub(super) fn pinned(&self, capacity_type: CapacityType) -> Self {
        let mut pinned = self.clone();
        let value = self.interner.intern(capacity_type.as_str());
        pinned.requirements.replace(Requirement::is(sym::CAPACITY_TYPE, value));
        pinned
    }

    /// Whether the claim asks for EFA interfaces.
    pub fn wants_efa(&self) -> bool {
        self.requests.get(self.interner.intern(EFA)) > 0
    }

    /// Whether the claim asks for slots that need enclave support (AWS-164).
    pub fn wants_enclaves(&self) -> bool {
        self.requests.contains(self.interner.intern(NIP_SLOTS))
    }
}

/// How the instance is bought: from a reservation if the claim allows it and there is one, else as spot under the same rule, else on demand.
pub fn capacity_type(claim: &LaunchClaim<'_>, kinds: &[InstanceType]) -> CapacityType {
    let offered = |wanted: CapacityType| {
        let value = claim.interner.intern(wanted.as_str());
        let is_wanted = |offering: &&Offering| offering.capacity_type() == Some(value);
        claim.admits(sym::CAPACITY_TYPE, value) && kinds.iter().any(|kind| claim.usable(kind).iter().any(is_wanted))
    };
    [CapacityType::Reserved, CapacityType::Spot]
        .into_iter()
        .find(|wanted| offered(*wanted))
        .unwrap_or(CapacityType::OnDemand)
}

/// Whose hardware the instance runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tenancy {
    /// Shared.
    Default,
    /// Of one account.
    Dedicated,
}

impl Tenancy {
    /// EC2's name and the label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => TENANCY_DEFAULT,
            Self::Dedicated => TENANCY_DEDICATED,
        }
    }
}

/// Shared hardware if the claim allows it, else dedicated.
pub fn tenancy(claim: &LaunchClaim<'_>) -> Tenancy {
    let key = claim.interner.intern(TENANCY);
    if claim.admits(key, claim.interner.intern(TENANCY_DEFAULT)) {
        Tenancy::Default
    } else {
        Tenancy::Dedicated
    }
}

/// Whether an on-demand launch of a claim that also allows spot has few instance types, which is worth a warning.
pub fn is_risky_on_demand_fallback(claim: &LaunchClaim<'_>, bought: CapacityType, types: usize) -> bool {
    let spot = claim.interner.intern(CapacityType::Spot.as_str());
    let asks_for_spot = claim
        .requirements
        .get(sym::CAPACITY_TYPE)
        .is_some_and(|requirement| requirement.has(spot, claim.interner));
    bought == CapacityType::OnDemand && asks_for_spot && types < FLEXIBLE_TYPES
}
