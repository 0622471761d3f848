//! Preference relaxation (section 17): the chain of ever weaker readings of one pod shape.

use crate::options::PreferencePolicy;
use kerf_model::pod::{AffinityTerm, PodShape, SpreadConstraint};
use kerf_model::relaxation::Relaxation;
use kerf_model::requirement::Requirement;
use kerf_model::taint::Toleration;

/// One reading of a shape: what of it is honoured.
#[derive(Clone, Debug)]
pub(crate) struct Reading<'a> {
    /// The required node-affinity term in force, if there are any.
    pub(crate) term: Option<&'a [Requirement]>,
    /// The preferred node-affinity term in force: the heaviest left.
    pub(crate) preferred: Option<&'a [Requirement]>,
    /// Spread constraints in force.
    pub(crate) spread: Vec<&'a SpreadConstraint>,
    /// Affinity terms in force, preferred ones included.
    pub(crate) affinity: Vec<&'a AffinityTerm>,
    /// Anti-affinity terms in force, preferred ones included.
    pub(crate) anti_affinity: Vec<&'a AffinityTerm>,
    /// Whether the blanket toleration of `PreferNoSchedule` was added.
    pub(crate) tolerates_soft_taints: bool,
    /// Whether upstream stops before it: a required term again that was given up while preferences were in force (SCH-269).
    pub(crate) beyond: bool,
}

struct Chain<'a> {
    shape: &'a PodShape,
    terms: &'a [Vec<Requirement>],
    preferred: Vec<&'a (i32, Vec<Requirement>)>,
    affinity: Vec<&'a (i32, AffinityTerm)>,
    anti_affinity: Vec<&'a (i32, AffinityTerm)>,
    spread: Vec<&'a SpreadConstraint>,
    soft: bool,
}

/// The readings of a shape, strictest first (SCH-266 to SCH-272). `soft_taints`: some pool or node has a
/// `PreferNoSchedule` taint.
pub(crate) fn readings(shape: &PodShape, policy: PreferencePolicy, soft_taints: bool) -> Vec<Reading<'_>> {
    let mut chain = Chain::new(shape, policy);
    let mut readings = vec![chain.reading()];
    while chain.relax(soft_taints).is_some() {
        readings.push(chain.reading());
    }
    if readings.len() > shape.required_terms.len()
        && let [given_up @ .., _] = &shape.required_terms[..]
    {
        readings.extend(given_up.iter().map(|term| Reading {
            term: Some(term),
            beyond: true,
            ..chain.reading()
        }));
    }
    readings
}

/// The steps from the strictest reading to the weakest upstream knows: the reading of a level comes after that many of them.
pub(crate) fn steps(shape: &PodShape, policy: PreferencePolicy, soft_taints: bool) -> Vec<Relaxation> {
    let mut chain = Chain::new(shape, policy);
    std::iter::from_fn(|| chain.relax(soft_taints)).collect()
}

impl<'a> Chain<'a> {
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

    fn reading(&self) -> Reading<'a> {
        let heaviest = heaviest(&self.preferred).map(|at| self.preferred[at].1.as_slice());
        let preferred = |terms: &[&'a (i32, AffinityTerm)]| terms.iter().map(|term| &term.1).collect::<Vec<_>>();
        Reading {
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
            beyond: false,
        }
    }

    /// Applies the first applicable step (SCH-267).
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

/// Where in a list an element borrowed from it stands.
fn position<T>(all: &[T], one: &T) -> Option<usize> {
    all.iter().position(|other| std::ptr::eq(other, one))
}

/// The first of the heaviest (SCH-268).
fn heaviest<T>(terms: &[&(i32, T)]) -> Option<usize> {
    let most = terms.iter().map(|term| term.0).max()?;
    terms.iter().position(|term| term.0 == most)
}
