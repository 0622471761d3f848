//! Node pools as decisions see them.

use crate::budget::DisruptionPolicy;
use crate::instance_type::{Catalogue, CatalogueFault};
use crate::intern::Sym;
use crate::requirement::Requirements;
use crate::resources::Resources;
use crate::selector::LabelSet;
use crate::taint::Taint;
use kerf_units::dollars::InvalidAmount;
use kerf_units::policy::{NodeOverheadCost, Packing, UnknownPolicy};
use std::fmt;
use std::sync::Arc;

/// A node pool with the catalogue its node class yields.
#[derive(Clone, PartialEq, Debug)]
pub struct NodePool {
    /// Its name.
    pub name: Arc<str>,
    /// Its name as a label value.
    pub label: Sym,
    /// Its unique id.
    pub uid: Arc<str>,
    /// Heavier pools are tried first (SCH-141).
    pub weight: i32,
    /// Whether it takes part in dynamic scheduling.
    pub eligibility: Eligibility,
    /// What its nodes will be: template requirements, labels, pool and class names (SCH-112).
    pub requirements: Requirements,
    /// The labels of its template, as nodes will carry them.
    pub labels: Vec<(Sym, Sym)>,
    /// The template's labels as text, for overlays and reports.
    pub template_labels: Arc<LabelSet>,
    /// Taints of its nodes.
    pub taints: Vec<Taint>,
    /// Taints its nodes carry only until they are initialised; they never repel (SCH-115).
    pub startup_taints: Vec<Taint>,
    /// Upper bounds on the sum of its nodes' capacity, `nodes` included.
    pub limits: Option<Resources>,
    /// Capacity its nodes use already, deleting ones excluded (SCH-145).
    pub usage: Resources,
    /// Its instance types.
    pub catalogue: Result<Arc<Catalogue>, CatalogueFault>,
    /// Its `NodeRegistrationHealthy` condition (SCH-080).
    pub registration_healthy: Option<bool>,
    /// How its nodes are chosen, as far as its annotations set it.
    pub packing: PoolPacking,
    /// When and how many of its nodes may be taken away.
    pub disruption: DisruptionPolicy,
}

/// How the nodes of a pool are chosen, as far as its annotations set it; `None` stands for the option.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolPacking {
    /// The way to pack. `Upstream` if an annotation cannot be read.
    pub packing: Option<Packing>,
    /// What a node of the pool costs besides its price.
    pub node_overhead: Option<NodeOverheadCost>,
    /// The annotations that cannot be read.
    pub faults: Vec<PackingFault>,
}

impl PoolPacking {
    /// Reads the annotations for the packing and for the node overhead cost. If one cannot be read, the packing is that of upstream.
    pub fn read(packing: Option<&str>, node_overhead: Option<&str>) -> Self {
        let mut read = Self::default();
        if let Some(text) = packing {
            match text.parse() {
                Ok(packing) => read.packing = Some(packing),
                Err(fault) => read.faults.push(PackingFault::Packing(fault)),
            }
        }
        if let Some(text) = node_overhead {
            match text.parse() {
                Ok(cost) => read.node_overhead = Some(cost),
                Err(fault) => read.faults.push(PackingFault::NodeOverhead(fault)),
            }
        }
        if !read.faults.is_empty() {
            read.packing = Some(Packing::Upstream);
        }
        read
    }
}

/// An annotation about packing that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PackingFault {
    /// The way to pack.
    Packing(UnknownPolicy),
    /// What a node costs besides its price.
    NodeOverhead(InvalidAmount),
}

impl fmt::Display for PackingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packing(fault) => fault.fmt(f),
            Self::NodeOverhead(fault) => fault.fmt(f),
        }
    }
}

/// Whether pods may get new nodes of a pool (SCH-136, SCH-137).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Eligibility {
    /// Pods may get new nodes of it.
    Eligible,
    /// It holds a fixed number of nodes (`spec.replicas`).
    Static,
    /// Its Ready condition is not True; the text is the condition's message or what is missing.
    NotReady(Arc<str>),
    /// It is being deleted.
    Deleting,
    /// Its node class is of a kind this provider does not serve.
    ForeignNodeClass,
}

impl NodePool {
    /// An eligible pool of this name without requirements, limits, load or instance types; the name is its unique id too.
    pub fn empty(name: Arc<str>, label: Sym) -> Self {
        Self {
            uid: Arc::clone(&name),
            name,
            label,
            weight: 0,
            eligibility: Eligibility::Eligible,
            requirements: Requirements::default(),
            labels: Vec::new(),
            template_labels: Arc::default(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            limits: None,
            usage: Resources::new(),
            catalogue: Err(CatalogueFault::Empty),
            registration_healthy: None,
            packing: PoolPacking::default(),
            disruption: DisruptionPolicy::default(),
        }
    }

    /// What the limits leave after current usage, for the resources the limits name; `None` without limits (SCH-145).
    pub fn remaining(&self) -> Option<Resources> {
        let mut left = self.limits.clone()?;
        for (name, _) in self.limits.iter().flat_map(Resources::iter) {
            left.set(name, left.get(name).saturating_sub(self.usage.get(name)));
        }
        Some(left)
    }

    /// A limit that current usage and `more` together exceed; none if they just reach it.
    pub fn exceeded_limit(&self, more: &Resources) -> Option<ExceededLimit> {
        let mut limits = self.limits.iter().flat_map(Resources::iter);
        limits.find_map(|(resource, limit)| {
            let usage = self.usage.get(resource).saturating_add(more.get(resource));
            (usage > limit).then_some(ExceededLimit { resource, limit, usage })
        })
    }
}

/// A limit of a pool that is exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExceededLimit {
    /// The resource it limits.
    pub resource: Sym,
    /// The most of it that the nodes of the pool may have.
    pub limit: i64,
    /// What they have.
    pub usage: i64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intern::{Interner, sym};

    fn limited(limits: Option<Resources>, usage: Resources) -> NodePool {
        NodePool {
            limits,
            usage,
            ..NodePool::empty("web".into(), Interner::default().intern("web"))
        }
    }

    // SCH-150, SCH-467
    #[test]
    fn a_limit_is_reached_before_it_is_exceeded() {
        let limits = Resources::new().with(sym::CPU, 4000).with(sym::MEMORY, 1024);
        let used = |cpu| Resources::new().with(sym::CPU, cpu).with(sym::PODS, 110);
        let exceeded = |usage| {
            Some(ExceededLimit {
                resource: sym::CPU,
                limit: 4000,
                usage,
            })
        };
        let table = [
            (used(4000), Resources::new(), None),
            (used(4001), Resources::new(), exceeded(4001)),
            (used(3000), used(1000), None),
            (used(3000), used(1001), exceeded(4001)),
            (used(i64::MAX), used(i64::MAX), exceeded(i64::MAX)),
        ];
        for (usage, more, expected) in table {
            let pool = limited(Some(limits.clone()), usage.clone());
            assert_eq!(pool.exceeded_limit(&more), expected, "{usage:?} {more:?}");
            assert_eq!(limited(None, usage).exceeded_limit(&more), None, "without limits");
        }
    }

    #[test]
    fn an_annotation_that_cannot_be_read_means_the_packing_of_upstream() {
        assert_eq!(PoolPacking::read(None, None), PoolPacking::default());
        let read = PoolPacking::read(Some("cheapest"), Some("0.5"));
        assert_eq!(
            (read.packing, read.node_overhead),
            (Some(Packing::Cheapest), NodeOverheadCost::from_per_hour(0.5))
        );
        for (packing, cost) in [
            (Some("Cheapest"), None),
            (Some("balanced"), Some("-1")),
            (None, Some("1e9")),
        ] {
            let read = PoolPacking::read(packing, cost);
            assert_eq!(
                (read.packing, read.faults.len()),
                (Some(Packing::Upstream), 1),
                "{packing:?} {cost:?}"
            );
        }
    }
}
