//! Anti-affinity: which pods keep which away. It does not depend on the order of arrival.

use crate::id_vec::{Id, IdVec};
use crate::rules::selector::term_selects;
use crate::topology::site::{Domain, DomainsByKey, SiteId, SiteVec};
use crate::violation::{Rule, Violations};
use kerf_model::pod::{AffinityTerm, Pod};
use kerf_model::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};

/// A pod at a site in the final state.
#[derive(Clone, Copy)]
pub(crate) struct PodAt<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) site: SiteId,
    /// Placed by the plan.
    pub(crate) new: bool,
}

/// The sort of ids that terms of several pods have.
#[derive(Clone, Copy)]
enum Terms {}

#[derive(Default)]
struct Selected<'a> {
    old: u32,
    new: Vec<&'a Pod>,
}

/// SCH-235, SCH-237, SCH-238: no new pod may end in a domain of a pod it repels or that repels it, whatever its launch becomes.
pub(crate) fn check(
    snapshot: &Snapshot,
    possible: &mut DomainsByKey<'_, '_>,
    names: &SiteVec<&str>,
    all: &[PodAt<'_>],
    found: &mut Violations,
) {
    let mut reported = BTreeSet::new();
    for (owners, term) in owners_by_term(all).iter() {
        let domains = possible.of(term.key);
        let mut selected: BTreeMap<Domain<'_>, Selected<'_>> = BTreeMap::new();
        for other in all.iter().filter(|other| term_selects(snapshot, term, other.pod)) {
            // SCH-202: a terminating pod no longer keeps others away by being selected.
            if !other.new && other.pod.deletion.is_some() {
                continue;
            }
            for domain in domains[other.site].iter() {
                let entry = selected.entry(domain).or_default();
                if other.new {
                    entry.new.push(other.pod);
                } else {
                    entry.old += 1;
                }
            }
        }
        for owner in owners {
            for domain in domains[owner.site].iter() {
                let Some(others) = selected.get(&domain) else { continue };
                let culprit = if owner.new {
                    let other = others.new.iter().any(|pod| !is_same(pod, owner.pod)) || others.old > 0;
                    other.then_some(owner.pod)
                } else {
                    others.new.first().copied()
                };
                if let Some(pod) = culprit
                    && reported.insert((pod.key(), term.key))
                {
                    let key = snapshot.interner.text(term.key).to_owned();
                    found.add_for_placement(names[owner.site], &pod.key(), Rule::AntiAffinity { key });
                }
            }
        }
    }
}

fn is_same(one: &Pod, other: &Pod) -> bool {
    one.namespace == other.namespace && one.name == other.name
}

/// Pods with required anti-affinity, those of one shape and namespace together, per term. In order of first appearance.
fn owners_by_term<'a>(all: &[PodAt<'a>]) -> IdVec<Terms, (Vec<PodAt<'a>>, &'a AffinityTerm)> {
    let mut index: BTreeMap<&AffinityTerm, Id<Terms>> = BTreeMap::new();
    let mut groups: IdVec<Terms, (Vec<PodAt<'a>>, &'a AffinityTerm)> = IdVec::new();
    for located in all {
        for term in &located.pod.shape.anti_affinity {
            let id = *index.entry(term).or_insert_with(|| groups.push((Vec::new(), term)));
            groups[id].0.push(*located);
        }
    }
    groups
}
