//! A check for debug builds: state that is updated in place equals the state recomputed from all placements.

use crate::compile::topology::{Counts, Destination, TopologyKey};
use crate::search::assignment::Assignment;
use crate::search::reservations::{HeldReservations, Reservations};

impl Assignment<'_, '_> {
    /// Asserts that counts, reservations and claim sets match the placements. Does nothing in release builds.
    pub(crate) fn assert_consistent(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        assert_eq!(self.placed, self.order.len() as u64, "every placed pod is in the order");
        self.assert_claims_consistent();
        let recounted = self.recounted();
        for id in self.problem.groups.list.ids() {
            // A claim is counted by a node filter as it was when its pods were placed, so such counts cannot be recomputed.
            if self.problem.groups.list[id].identity.filter.is_none() {
                assert_eq!(self.counts.get(id), recounted.get(id), "counts of group {id:?}");
            }
        }
        let mut reservations = Reservations::new(self.problem);
        for claim in &self.claims {
            reservations.exchange(&HeldReservations::new(), &claim.held_reservations);
        }
        assert_eq!(self.reservations, reservations, "what is left of reservations");
    }

    /// Asserts that members and domain sets match the claims.
    fn assert_claims_consistent(&self) {
        for (at, claim) in self.claims.entries() {
            let members: u32 = claim.members.iter().map(|member| member.1).sum();
            assert_eq!(members as usize, claim.pods.len(), "pods by class of claim {at:?}");
            let spec = self.specs.get(claim.spec);
            for key in self.claims_by_domain.ids() {
                let domains = spec.domains(key);
                assert_eq!(
                    self.claims_without_key[key].get(at),
                    domains.no_domain(),
                    "claim {at:?}"
                );
                for (domain, claims) in self.claims_by_domain[key].entries() {
                    assert_eq!(
                        claims.get(at),
                        domains.possible.get(domain),
                        "claim {at:?}, domain {domain:?}"
                    );
                }
            }
        }
    }

    /// The counts computed from the placements; wrong for groups with a node filter.
    fn recounted(&self) -> Counts {
        let problem = self.problem;
        let mut counts = problem.counts.clone();
        for updated in self.updated_targets.iter() {
            for class in updated.pods.iter().filter_map(|pod| problem.of_pod[*pod]) {
                let class = problem.class(class);
                for id in class.counting_groups.iter().chain(class.inverse_groups.iter()) {
                    match problem.groups.list[*id].identity.key {
                        TopologyKey::Host => counts.add_host(*id, Destination::Target(updated.at), 1),
                        TopologyKey::Domain(key) => {
                            if let Some(domain) = problem.keys.tables[key].domain_of(updated.at) {
                                counts.add_domain(*id, domain, 1);
                            }
                        }
                    }
                }
            }
        }
        for (at, claim) in self.claims.entries() {
            for (class, n) in &claim.members {
                let class = problem.class(*class);
                for id in class.counting_groups.iter().chain(class.inverse_groups.iter()) {
                    let group = &problem.groups.list[*id];
                    match group.identity.key {
                        TopologyKey::Host => counts.add_host(*id, Destination::Claim(at), *n),
                        TopologyKey::Domain(key) => {
                            let domains = self.specs.get(claim.spec).domains(key);
                            counts.add_claim_domains(*id, group.kind(), domains, *n);
                        }
                    }
                }
            }
        }
        counts
    }
}
