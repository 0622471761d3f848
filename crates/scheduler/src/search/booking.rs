//! Places pods on claims and updates counts, limits and reservations.

use crate::compile::catalogue::TypeRow;
use crate::compile::classes::ClassId;
use crate::compile::limits::LimitAmounts;
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::compile::templates::{TemplateId, unmet};
use crate::compile::topology::{ClaimDomains, ClaimId, Destination, GroupId, KeyId, TopologyKey};
use crate::dense::amounts::add;
use crate::dense::id_set::IdSet;
use crate::search::assignment::Assignment;
use crate::search::claims::Claim;
use crate::search::query::Narrowed;
use crate::search::reservations::HeldReservations;
use crate::search::specs::SpecId;
use smallvec::SmallVec;

impl Assignment<'_, '_> {
    /// Creates a claim of a template and places a pod on it. Returns the id of the claim.
    pub(crate) fn open(&mut self, template: TemplateId, narrowed: &Narrowed, class: ClassId, pod: PodId) -> ClaimId {
        if !self.uses_cheapest.get(template) {
            self.limits.take(self.problem.templates, template, &narrowed.rows);
        }
        let at = self.claims.push(Claim {
            template,
            spec: narrowed.spec,
            rows: narrowed.rows.clone(),
            threshold_counts: self.problem.types(template).threshold_counts(),
            used: self.problem.resources.zero(),
            room: self.problem.resources.zero(),
            pods: SmallVec::new(),
            members: SmallVec::new(),
            limit_use: LimitAmounts::from_elem(0, self.problem.templates[template].limited.len()),
            ports: Vec::new(),
            held_reservations: HeldReservations::new(),
            min_values_lowered: narrowed.min_values_lowered,
        });
        for key in self.claims_by_domain.ids() {
            self.record_domains(at, key, narrowed.spec);
        }
        self.place_on_claim(at, narrowed, class, pod);
        at
    }

    /// Updates the sets of claims by domain of a key.
    fn record_domains(&mut self, at: ClaimId, key: KeyId, spec: SpecId) {
        let domains = self.specs.get(spec).domains(key);
        self.claims_without_key[key].set(at, domains.no_domain());
        for (domain, claims) in self.claims_by_domain[key].entries_mut() {
            claims.set(at, domains.possible.get(domain));
        }
    }

    /// Places a pod on a claim that accepts it as `narrowed`.
    pub(crate) fn place_on_claim(&mut self, at: ClaimId, narrowed: &Narrowed, class_id: ClassId, pod: PodId) {
        let problem = self.problem;
        let class = problem.class(class_id);
        let before = self.claims[at].spec;
        self.update_limit_use(at, narrowed);
        self.reservations
            .exchange(&self.claims[at].held_reservations, &narrowed.held_reservations);
        if before != narrowed.spec {
            self.narrow_claim(at, before, narrowed.spec);
        }
        let claim = &mut self.claims[at];
        claim.spec = narrowed.spec;
        claim.rows.clone_from(&narrowed.rows);
        claim.held_reservations.clone_from(&narrowed.held_reservations);
        add(&mut claim.used, &class.requests);
        claim.ports.extend(class.shape.host_ports.iter().cloned());
        claim.pods.push(pod);
        match claim.members.iter_mut().find(|member| member.0 == class_id) {
            Some(member) => member.1 += 1,
            None => claim.members.push((class_id, 1)),
        }
        update_room(problem, claim);
        let count = claim.pods.len();
        let short = |(least, room): (&i64, &i64)| *least > 0 && room < least;
        let full = self.least.iter().zip(&claim.room).any(short);
        self.claims_by_pod_count.shift(at, count - 1, count, full);
        for id in class.counting_groups.iter().chain(class.inverse_groups.iter()) {
            self.record_on_claim(*id, at, narrowed.spec, 1);
        }
        self.order.push(pod);
        self.placed += 1;
    }

    /// Counts `n` pods on a claim for a group, if the group's node filter counts the claim.
    fn record_on_claim(&mut self, id: GroupId, at: ClaimId, spec: SpecId, n: u32) {
        let group = &self.problem.groups.list[id];
        if !self.claim_passes(group.identity.filter, spec) {
            return;
        }
        match group.identity.key {
            TopologyKey::Host => self.counts.add_host(id, Destination::Claim(at), n),
            TopologyKey::Domain(key) => {
                let domains = self.specs.get(spec).domains(key);
                self.counts.add_claim_domains(id, group.kind(), domains, n);
            }
        }
    }

    /// Moves the counts of a claim's pods to the domains the narrowed claim may be in.
    fn narrow_claim(&mut self, at: ClaimId, before: SpecId, after: SpecId) {
        let problem = self.problem;
        for key in self.claims_by_domain.ids() {
            let (old, new): (&ClaimDomains, &ClaimDomains) =
                (self.specs.get(before).domains(key), self.specs.get(after).domains(key));
            if old.one == new.one && old.possible == new.possible {
                continue;
            }
            let (old, new) = (old.clone(), new.clone());
            self.record_domains(at, key, after);
            for (class, n) in self.claims[at].members.clone() {
                let class = problem.class(class);
                for id in class.counting_groups.iter().chain(class.inverse_groups.iter()) {
                    let group = &problem.groups.list[*id];
                    if group.identity.key != TopologyKey::Domain(key) {
                        continue;
                    }
                    if self.claim_passes(group.identity.filter, before) {
                        self.counts.remove_claim_domains(*id, group.kind(), &old, n);
                    }
                    if self.claim_passes(group.identity.filter, after) {
                        self.counts.add_claim_domains(*id, group.kind(), &new, n);
                    }
                }
            }
        }
    }

    /// Restricts a claim to some of its rows and the reservations they have. Does nothing where the claim would lose all its reservations
    /// (SCH-295).
    pub(crate) fn restrict_rows(&mut self, at: ClaimId, rows: IdSet<TypeRow>) {
        let problem = self.problem;
        let claim = &mut self.claims[at];
        let spec = self.specs.get(claim.spec);
        let Ok(held_reservations) = self
            .reservations
            .holdable(problem, spec, &rows, &claim.held_reservations)
        else {
            return;
        };
        self.reservations.exchange(&claim.held_reservations, &held_reservations);
        claim.rows = rows;
        claim.held_reservations = held_reservations;
        update_room(problem, claim);
    }

    /// Restricts a claim to some of its rows where these are enough for its `minValues`.
    pub(crate) fn try_restrict_rows(&mut self, at: ClaimId, rows: IdSet<TypeRow>) {
        let spec = self.specs.get(self.claims[at].spec);
        let enough = !rows.is_empty() && unmet(self.problem.types(spec.template), &spec.requirements, &rows).is_empty();
        if enough {
            self.restrict_rows(at, rows);
        }
    }
}

/// Recomputes the room of a claim.
fn update_room(problem: &Problem<'_>, claim: &mut Claim) {
    let overhead = &problem.templates[claim.template].overhead_min;
    let types = problem.types(claim.template);
    types.room(
        &claim.rows,
        &claim.used,
        overhead,
        &mut claim.threshold_counts,
        &mut claim.room,
    );
}
