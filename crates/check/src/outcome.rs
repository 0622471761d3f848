//! What a launch may become: each offered type with each of its offerings that is available and allowed.

use crate::matching::{all_satisfy, repelling};
use kerf_model::instance_type::{InstanceType, Offering, allocatable};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::nodepool::NodePool;
use kerf_model::plan::Launch;
use kerf_model::pod::PodShape;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
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
    requirements: &'a Requirements,
) -> impl Iterator<Item = (u32, &'a Offering)> {
    (0u32..).zip(&instance_type.offerings).filter(|(_, offering)| {
        let compatible = requirements.compatible(
            &offering.requirements,
            |key| snapshot.is_well_known(key),
            &snapshot.interner,
        );
        offering.available && compatible.is_ok()
    })
}

impl Outcome<'_> {
    /// What the label may be: `None` where the node will not have it.
    pub(crate) fn label(&self, key: Sym, interner: &Interner) -> Option<Requirement> {
        if key == sym::REGISTERED || key == sym::INITIALIZED {
            return Some(Requirement::is(key, sym::TRUE));
        }
        let template = self.pool.labels.iter().find(|(name, _)| *name == key);
        let template = template.map(|(_, value)| Requirement::is(key, *value));
        let sources = [
            self.launch.requirements.get(key).cloned(),
            template,
            self.instance_type.requirements.get(key).cloned(),
            self.offering.requirements.get(key).cloned(),
        ];
        sources.into_iter().flatten().reduce(|a, b| a.intersect(&b, interner))
    }

    /// What pods and daemons can use of the machine.
    pub(crate) fn allocatable(&self, interner: &Interner) -> Resources {
        let over = |base: &Resources, with: &Option<Resources>| {
            let mut all = base.clone();
            for (name, amount) in with.iter().flat_map(Resources::iter) {
                all.set(name, amount);
            }
            all
        };
        let capacity = over(&self.instance_type.capacity, &self.offering.capacity_override);
        let overhead = over(&self.instance_type.overhead, &self.offering.overhead_override);
        allocatable(&capacity, &overhead, |name| {
            interner.text(name).starts_with("hugepages-")
        })
    }

    /// Whether everything the labels may become satisfies the pod's selector and, for each possibility, some required term.
    pub(crate) fn selected_by(&self, shape: &PodShape, interner: &Interner) -> bool {
        let holds = |wanted: &Requirement| all_satisfy(wanted, self.label(wanted.key, interner).as_ref(), interner);
        shape.node_selector.iter().all(holds)
            && (shape.required_terms.is_empty() || shape.required_terms.iter().any(|term| term.iter().all(holds)))
    }

    /// Whether a daemon may run on the machine.
    pub(crate) fn runs(&self, daemon: &Daemon, interner: &Interner) -> bool {
        let may = |wanted: &Requirement| {
            self.label(wanted.key, interner).map_or_else(
                || wanted.admits_absence(),
                |open| {
                    let both = open.intersect(wanted, interner);
                    !both.is_does_not_exist() || (open.admits_absence() && wanted.admits_absence())
                },
            )
        };
        let shape = &daemon.shape;
        repelling(&self.pool.taints, &shape.tolerations).is_none()
            && shape.node_selector.iter().all(may)
            && (shape.required_terms.is_empty() || shape.required_terms.iter().any(|term| term.iter().all(may)))
    }
}

/// SCH-154: whether a daemon counts as overhead of a pool's instance type, whatever a launch narrows later.
pub(crate) fn counts_as_overhead(
    snapshot: &Snapshot,
    pool: &NodePool,
    instance_type: &InstanceType,
    daemon: &Daemon,
) -> bool {
    let interner = &*snapshot.interner;
    let shape = &daemon.shape;
    let mut template = pool.requirements.clone();
    template.add_all(&Requirements::from_labels(&pool.labels, interner), interner);
    for key in [sym::REGISTERED, sym::INITIALIZED] {
        template.add(Requirement::is(key, sym::TRUE), interner);
    }
    let wants = |term: &[Requirement]| {
        let mut all = shape.node_selector.clone();
        for requirement in term {
            all.add(requirement.clone(), interner);
        }
        template
            .compatible(&all, |key| snapshot.is_well_known(key), interner)
            .is_ok()
            && instance_type.requirements.intersects(&all, interner).is_ok()
    };
    repelling(&pool.taints, &shape.tolerations).is_none()
        && if shape.required_terms.is_empty() {
            wants(&[])
        } else {
            shape.required_terms.iter().any(|term| wants(term))
        }
}
