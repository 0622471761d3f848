//! Preference relaxation (section 17): the chain of ever weaker readings of one pod shape.

use crate::options::PreferencePolicy;
use kerf_model::pod::{AffinityTerm, PodShape, SpreadConstraint};
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
    let respect = policy == PreferencePolicy::Respect;
    let mut chain = Chain {
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
    };
    let mut readings = vec![chain.reading()];
    while chain.relax(soft_taints) {
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

impl<'a> Chain<'a> {
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
    fn relax(&mut self, soft_taints: bool) -> bool {
        if let [_, rest @ ..] = self.terms
            && !rest.is_empty()
        {
            self.terms = rest;
        } else if let Some(at) = heaviest(&self.affinity) {
            self.affinity.remove(at);
        } else if let Some(at) = heaviest(&self.anti_affinity) {
            self.anti_affinity.remove(at);
        } else if let Some(at) = heaviest(&self.preferred) {
            self.preferred.remove(at);
        } else if let Some(at) = self.spread.iter().position(|constraint| !constraint.required) {
            self.spread.swap_remove(at);
        } else if soft_taints && !self.soft && !self.shape.tolerations.contains(&Toleration::prefer_no_schedule()) {
            self.soft = true;
        } else {
            return false;
        }
        true
    }
}

/// The first of the heaviest (SCH-268).
fn heaviest<T>(terms: &[&(i32, T)]) -> Option<usize> {
    let most = terms.iter().map(|term| term.0).max()?;
    terms.iter().position(|term| term.0 == most)
}
