//! Launch templates of one launch: types that need equal templates share one (AWS-155, AWS-156).

use super::claim::LaunchClaim;
use crate::ami::group_by_ami;
use crate::instance_type::kubelet::{ExpressionProblem, ReservedText};
use crate::labels::{RESERVATION_ID, RESERVATION_INTERRUPTIBLE, RESERVATION_TYPE};
use crate::offering::CapacityType;
use crate::resources::EFA;
use kerf_api::ec2_node_class::NodeClassAmi;
use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::intern::{Interner, sym};
use std::collections::{BTreeMap, BTreeSet};

/// What distinguishes the templates of one launch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TemplateKey {
    /// Image.
    pub ami: String,
    /// EFA interfaces; zero unless the claim asks for them.
    pub efa_count: i64,
    /// Pods of a node.
    pub pods: i64,
    /// Reservation the template is for, in a reserved launch.
    pub reservation_id: Option<String>,
    /// `default` or `capacity-block`, in a reserved launch.
    pub reservation_type: Option<String>,
    /// Whether EC2 may take the reservation's instances back.
    pub interruptible: bool,
    /// Resources reserved by expressions of the class; `None` where its types do not differ.
    pub reserved: Option<ReservedText>,
}

/// What the expressions of a class reserve on a type: `None` without such expressions, an error where they give nothing.
pub type ReservedOf<'f> = &'f dyn Fn(&InstanceType) -> Result<Option<ReservedText>, ExpressionProblem>;

/// A template and the types it is for.
#[derive(Clone, Debug)]
pub struct TemplateGroup<'k> {
    /// What distinguishes the template.
    pub key: TemplateKey,
    /// The types.
    pub types: Vec<&'k InstanceType>,
}

/// The reservations of a type's offerings: id, kind, and whether EC2 may take instances back.
fn reservations(kind: &InstanceType, interner: &Interner) -> BTreeSet<(String, String, bool)> {
    let text = |offering: &Offering, key: &str| {
        let value = offering.value(interner.intern(key))?;
        Some(interner.text(value).to_owned())
    };
    let reserved = kind
        .offerings
        .iter()
        .filter(|offering| offering.capacity_type() == Some(sym::RESERVED));
    reserved
        .filter_map(|offering| {
            let interruptible = text(offering, RESERVATION_INTERRUPTIBLE).as_deref() == Some("true");
            Some((
                text(offering, RESERVATION_ID)?,
                text(offering, RESERVATION_TYPE)?,
                interruptible,
            ))
        })
        .collect()
}

/// The templates for the types of a launch. A type with reservations in several zones is in one template for each of them. `None` if no
/// type has an image. A type that an expression of the class gives nothing for is in none.
pub fn template_groups<'k>(
    claim: &LaunchClaim<'_>,
    kinds: &'k [InstanceType],
    amis: &[NodeClassAmi],
    bought: CapacityType,
    reserved_of: ReservedOf<'_>,
) -> Option<Vec<TemplateGroup<'k>>> {
    let interner = claim.interner();
    let efa = interner.intern(EFA);
    let mut groups: BTreeMap<TemplateKey, Vec<&'k InstanceType>> = BTreeMap::new();
    for (ami, kinds) in group_by_ami(kinds, amis, interner) {
        for kind in kinds {
            let Ok(reserved) = reserved_of(kind) else { continue };
            let base = TemplateKey {
                ami: ami.to_owned(),
                efa_count: if claim.wants_efa() { kind.capacity.get(efa) } else { 0 },
                pods: kind.capacity.get(sym::PODS),
                reservation_id: None,
                reservation_type: None,
                interruptible: false,
                reserved,
            };
            if bought != CapacityType::Reserved {
                groups.entry(base).or_default().push(kind);
                continue;
            }
            for (id, reservation_type, interruptible) in reservations(kind, interner) {
                let key = TemplateKey {
                    reservation_id: Some(id),
                    reservation_type: Some(reservation_type),
                    interruptible,
                    ..base.clone()
                };
                groups.entry(key).or_default().push(kind);
            }
        }
    }
    let groups: Vec<_> = groups
        .into_iter()
        .map(|(key, types)| TemplateGroup { key, types })
        .collect();
    (!groups.is_empty()).then_some(groups)
}
