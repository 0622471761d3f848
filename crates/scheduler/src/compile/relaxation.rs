//! Preference relaxation (section 17 of `docs/behaviour/scheduling.md`): the levels of one pod shape, each weaker than the one before.

use kerf_model::pod::{AffinityTerm, PodShape, SpreadConstraint};
use kerf_model::relaxation::Relaxation;
use kerf_model::requirement::Requirement;
use kerf_model::taint::Toleration;
use kerf_units::policy::PreferencePolicy;

/// One relaxation level of a pod shape: the constraints in force.
#[derive(Clone, Debug)]
pub(crate) struct RelaxationLevel<'a> {
    /// The required node-affinity term in force, if the pod has any.
    pub(crate) term: Option<&'a [Requirement]>,
    /// The preferred node-affinity term in force: the heaviest that is left.
    pub(crate) preferred: Option<&'a [Requirement]>,
    /// Spread constraints in force.
    pub(crate) spread: Vec<&'a SpreadConstraint>,
    /// Affinity terms in force, preferred ones included.
    pub(crate) affinity: Vec<&'a AffinityTerm>,
    /// Anti-affinity terms in force, preferred ones included.
    pub(crate) anti_affinity: Vec<&'a AffinityTerm>,
    /// Whether a toleration of all `PreferNoSchedule` taints is added.
    pub(crate) tolerates_soft_taints: bool,
    /// Whether upstream stops before this level: it tries a required term again that was dropped while preferences were in force (SCH-269).
    pub(crate) kerf_only: bool,
}

struct RelaxationChain<'a> {
    shape: &'a PodShape,
    terms: &'a [Vec<Requirement>],
    preferred: Vec<&'a (i32, Vec<Requirement>)>,
    affinity: Vec<&'a (i32, AffinityTerm)>,
    anti_affinity: Vec<&'a (i32, AffinityTerm)>,
    spread: Vec<&'a SpreadConstraint>,
    soft: bool,
}

/// The levels of a shape, strictest first (SCH-266 to SCH-272). `soft_taints`: some pool or node has a `PreferNoSchedule` taint.
pub(crate) fn relaxation_levels(
    shape: &PodShape,
    policy: PreferencePolicy,
    soft_taints: bool,
) -> Vec<RelaxationLevel<'_>> {
    let mut chain = RelaxationChain::new(shape, policy);
    let mut relaxation_levels = vec![chain.level()];
    while chain.relax(soft_taints).is_some() {
        relaxation_levels.push(chain.level());
    }
    if relaxation_levels.len() > shape.required_terms.len()
        && let [given_up @ .., _] = &shape.required_terms[..]
    {
        relaxation_levels.extend(given_up.iter().map(|term| RelaxationLevel {
            term: Some(term),
            kerf_only: true,
            ..chain.level()
        }));
    }
    relaxation_levels
}

/// The relaxations from the strictest level to the weakest level of upstream. Level `n` comes after the first `n` of them.
pub(crate) fn steps(shape: &PodShape, policy: PreferencePolicy, soft_taints: bool) -> Vec<Relaxation> {
    let mut chain = RelaxationChain::new(shape, policy);
    std::iter::from_fn(|| chain.relax(soft_taints)).collect()
}

impl<'a> RelaxationChain<'a> {
    fn new(shape: &'a PodShape, policy: PreferencePolicy) -> Self {
        let respect = policy == PreferencePolicy::Respect;
        Self {
            shape,
            terms: &shape.required_terms,
            preferred: if respect {
                shape.preferred_terms.iter().collect()
            } else {
                Vec::new()
            },
            affinity: if respect {
                shape.preferred_affinity.iter().collect()
            } else {
                Vec::new()
            },
            anti_affinity: if respect {
                shape.preferred_anti_affinity.iter().collect()
            } else {
                Vec::new()
            },
            spread: shape
                .spread
                .iter()
                .filter(|constraint| respect || constraint.required)
                .collect(),
            soft: false,
        }
    }

    fn level(&self) -> RelaxationLevel<'a> {
        let heaviest = heaviest(&self.preferred).map(|at| self.preferred[at].1.as_slice());
        let preferred = |terms: &[&'a (i32, AffinityTerm)]| terms.iter().map(|term| &term.1).collect::<Vec<_>>();
        RelaxationLevel {
            term: self.terms.first().map(Vec::as_slice),
            preferred: heaviest,
            spread: self.spread.clone(),
            affinity: self.shape.affinity.iter().chain(preferred(&self.affinity)).collect(),
            anti_affinity: self
                .shape
                .anti_affinity
                .iter()
                .chain(preferred(&self.anti_affinity))
                .collect(),
            tolerates_soft_taints: self.soft,
            kerf_only: false,
        }
    }

    /// Applies the first applicable relaxation (SCH-267). Returns `None` where nothing is left to relax.
    fn relax(&mut self, soft_taints: bool) -> Option<Relaxation> {
        let shape = self.shape;
        if let [_, rest @ ..] = self.terms
            && !rest.is_empty()
        {
            let at = shape.required_terms.len() - self.terms.len();
            self.terms = rest;
            Some(Relaxation::RequiredTerm(at))
        } else if let Some(at) = heaviest(&self.affinity) {
            let dropped = self.affinity.remove(at);
            position(&shape.preferred_affinity, dropped).map(Relaxation::PreferredAffinity)
        } else if let Some(at) = heaviest(&self.anti_affinity) {
            let dropped = self.anti_affinity.remove(at);
            position(&shape.preferred_anti_affinity, dropped).map(Relaxation::PreferredAntiAffinity)
        } else if let Some(at) = heaviest(&self.preferred) {
            let dropped = self.preferred.remove(at);
            position(&shape.preferred_terms, dropped).map(Relaxation::PreferredTerm)
        } else if let Some(at) = self.spread.iter().position(|constraint| !constraint.required) {
            let dropped = self.spread.swap_remove(at);
            position(&shape.spread, dropped).map(Relaxation::Spread)
        } else if soft_taints && !self.soft && !shape.tolerations.contains(&Toleration::prefer_no_schedule()) {
            self.soft = true;
            Some(Relaxation::SoftTaints)
        } else {
            None
        }
    }
}

/// The position of an element that was borrowed from the list. Compared by identity, because a list may hold equal terms.
fn position<T>(all: &[T], one: &T) -> Option<usize> {
    all.iter().position(|other| std::ptr::eq(other, one))
}

/// The position of the first term with the highest weight (SCH-268).
fn heaviest<T>(terms: &[&(i32, T)]) -> Option<usize> {
    let most = terms.iter().map(|term| term.0).max()?;
    terms.iter().position(|term| term.0 == most)
}
