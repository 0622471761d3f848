//! What a launch may become: each offered type with each of its offerings that is available and allowed.

use crate::rules::amounts::{self, Amounts};
use crate::rules::expression::{Expression, read_all};
use crate::rules::open_label::{OpenLabel, may_satisfy};
use crate::rules::taint;
use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::intern::{Interner, sym};
use kerf_model::nodepool::NodePool;
use kerf_model::plan::Launch;
use kerf_model::pod::PodShape;
use kerf_model::requirement::Requirement;
use kerf_model::snapshot::{Daemon, Snapshot};

/// One machine a launch may become.
#[derive(Clone, Copy)]
pub(crate) struct Outcome<'a> {
    pub(crate) launch: &'a Launch,
    pub(crate) pool: &'a NodePool,
    pub(crate) instance_type: &'a InstanceType,
    pub(crate) offering: &'a Offering,
}

/// The offerings of a type that can be had now and that requirements allow (SCH-129, SCH-132), with their positions.
pub(crate) fn usable_offerings<'a>(
    snapshot: &'a Snapshot,
    instance_type: &'a InstanceType,
    requirements: &[Expression<'a>],
) -> Vec<(u32, &'a Offering)> {
    let allowed = |offering: &Offering| {
        let own = read_all(&offering.requirements, &snapshot.interner);
        may_satisfy(requirements, &own, |key| is_well_known(snapshot, key))
    };
    let all = (0_u32..).zip(&instance_type.offerings);
    all.filter(|(_, offering)| offering.available && allowed(offering))
        .collect()
}

/// Whether a key may stay undefined on a claim.
pub(crate) fn is_well_known(snapshot: &Snapshot, key: &str) -> bool {
    let mut known = snapshot.well_known.iter();
    known.any(|known| snapshot.interner.text(*known) == key)
}

impl Outcome<'_> {
    /// What the label may be: what all of the launch, the pool's template, the type and the offering admit.
    pub(crate) fn label<'i>(&self, key: &str, interner: &'i Interner) -> OpenLabel<'i> {
        if [sym::REGISTERED, sym::INITIALIZED]
            .map(|own| interner.text(own))
            .contains(&key)
        {
            return OpenLabel::new([Expression::is(
                interner.text(sym::INITIALIZED),
                interner.text(sym::TRUE),
            )]);
        }
        let sets = [
            &self.launch.requirements,
            &self.instance_type.requirements,
            &self.offering.requirements,
        ];
        let required = sets.into_iter().flatten().filter(|one| interner.text(one.key) == key);
        let template = self
            .pool
            .labels
            .iter()
            .map(|(key, value)| (interner.text(*key), interner.text(*value)));
        let template = template.filter(|(known, _)| *known == key);
        OpenLabel::new(
            required
                .map(|one| Expression::read(one, interner))
                .chain(template.map(|(key, value)| Expression::is(key, value))),
        )
    }

    /// What pods and daemons can use of the machine.
    pub(crate) fn allocatable<'i>(&self, interner: &'i Interner) -> Amounts<'i> {
        amounts::allocatable(self.instance_type, self.offering, interner)
    }

    /// Whether everything a label may become satisfies a requirement.
    pub(crate) fn always(&self, wanted: &Requirement, interner: &Interner) -> bool {
        let wanted = Expression::read(wanted, interner);
        self.label(wanted.key, interner).always(&[wanted])
    }

    /// Whether everything the labels may become satisfies the pod's selector and some required term.
    pub(crate) fn selected_by(&self, shape: &PodShape, interner: &Interner) -> bool {
        let holds = |wanted: &Requirement| self.always(wanted, interner);
        shape.node_selector.iter().all(holds)
            && (shape.required_terms.is_empty() || shape.required_terms.iter().any(|term| term.iter().all(holds)))
    }

    /// Whether a daemon may run on the machine.
    pub(crate) fn runs(&self, daemon: &Daemon, interner: &Interner) -> bool {
        let may = |wanted: &Requirement| {
            let wanted = Expression::read(wanted, interner);
            self.label(wanted.key, interner).may(&[wanted])
        };
        let shape = &daemon.shape;
        taint::first_refusing(&self.pool.taints, &shape.tolerations).is_none()
            && shape.node_selector.iter().all(may)
            && (shape.required_terms.is_empty() || shape.required_terms.iter().any(|term| term.iter().all(may)))
    }
}

/// Whether a daemon counts as overhead of a pool's instance type, whatever a launch narrows later (SCH-154).
pub(crate) fn counts_as_overhead(
    snapshot: &Snapshot,
    pool: &NodePool,
    instance_type: &InstanceType,
    daemon: &Daemon,
) -> bool {
    let interner = &*snapshot.interner;
    let shape = &daemon.shape;
    let labels = pool.labels.iter().copied();
    let labels = labels.chain([(sym::REGISTERED, sym::TRUE), (sym::INITIALIZED, sym::TRUE)]);
    let mut template = read_all(&pool.requirements, interner);
    template.extend(labels.map(|(key, value)| Expression::is(interner.text(key), interner.text(value))));
    let of_type = read_all(&instance_type.requirements, interner);
    let wants = |term: &[Requirement]| {
        let wanted = read_all(shape.node_selector.iter().chain(term), interner);
        may_satisfy(&template, &wanted, |key| is_well_known(snapshot, key)) && may_satisfy(&of_type, &wanted, |_| true)
    };
    taint::first_refusing(&pool.taints, &shape.tolerations).is_none()
        && if shape.required_terms.is_empty() {
            wants(&[])
        } else {
            shape.required_terms.iter().any(|term| wants(term))
        }
}
