//! Node pools as decisions see them.

use crate::budget::DisruptionPolicy;
use crate::instance_type::{Catalogue, CatalogueFault};
use crate::intern::Sym;
use crate::requirement::Requirements;
use crate::resources::Resources;
use crate::selector::LabelSet;
use crate::taint::Taint;
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
    /// When and how many of its nodes may be taken away.
    pub disruption: DisruptionPolicy,
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
    /// What the limits leave after current usage, for the resources the limits name; `None` without limits (SCH-145).
    pub fn remaining(&self) -> Option<Resources> {
        let mut left = self.limits.clone()?;
        for (name, _) in self.limits.iter().flat_map(Resources::iter) {
            left.set(name, left.get(name).saturating_sub(self.usage.get(name)));
        }
        Some(left)
    }
}
