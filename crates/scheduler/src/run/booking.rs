//! Booking pods on claims: what claims, counts, limits and reservations become.

use crate::amounts::add;
use crate::bits::Bits;
use crate::claims::Claim;
use crate::classes::ClassId;
use crate::reservations::Held;
use crate::run::{Fit, Run};
use crate::states::{Domains, StateId};
use crate::topology::{Place, TopologyKey};
use crate::world::World;
use smallvec::SmallVec;

impl Run<'_, '_> {
    /// Opens a claim of a template for a pod.
    pub(crate) fn open(&mut self, template: usize, fit: &Fit, class: ClassId, pod: u32) -> usize {
        let at = self.claims.len();
        self.limits.take(self.world, template, &fit.rows);
        self.claims.push(Claim {
            template,
            state: fit.state,
            rows: fit.rows.clone(),
            tops: self.world.types(template).tops(),
            used: self.world.resources.zero(),
            room: self.world.resources.zero(),
            pods: SmallVec::new(),
            members: SmallVec::new(),
            ports: Vec::new(),
            held: Held::new(),
            relaxed: fit.relaxed,
        });
        for key in 0..self.claims_in.len() {
            self.enter_domains(at, key, fit.state);
        }
        self.place_on_claim(at, fit, class, pod);
        at
    }

    fn enter_domains(&mut self, at: usize, key: usize, state: StateId) {
        let domains = &self.states.get(state).domains[key];
        self.claims_without[key].set(at, domains.nowhere());
        for (domain, claims) in self.claims_in[key].iter_mut().enumerate() {
            claims.set(at, domains.bits.get(domain));
        }
    }

    /// Books a pod on a claim that was found to take it.
    pub(crate) fn place_on_claim(&mut self, at: usize, fit: &Fit, class_id: ClassId, pod: u32) {
        let world = self.world;
        let class = world.class(class_id);
        let before = self.claims[at].state;
        self.reservations.exchange(&self.claims[at].held, &fit.held);
        if before != fit.state {
            self.narrow_claim(at, before, fit.state);
        }
        let claim = &mut self.claims[at];
        claim.state = fit.state;
        claim.rows.clone_from(&fit.rows);
        claim.held.clone_from(&fit.held);
        add(&mut claim.used, &class.requests);
        claim.ports.extend(class.shape.host_ports.iter().cloned());
        claim.pods.push(pod);
        match claim.members.iter_mut().find(|member| member.0 == class_id) {
            Some(member) => member.1 += 1,
            None => claim.members.push((class_id, 1)),
        }
        measure(world, claim);
        let count = claim.pods.len();
        let short = |(least, room): (&i64, &i64)| *least > 0 && room < least;
        let full = self.least.iter().zip(&claim.room).any(short);
        self.by_pods.shift(at, count - 1, count, full);
        for id in class.counted_in.iter().chain(class.repels.iter()) {
            self.record_on_claim(*id, at, fit.state, 1);
        }
        self.order.push(pod);
        self.placed += 1;
    }

    fn record_on_claim(&mut self, id: u32, at: usize, state: StateId, n: u32) {
        let group = &self.world.groups.list[id as usize];
        if !self.claim_passes(group.identity.filter, state) {
            return;
        }
        match group.identity.key {
            TopologyKey::Host => self.counts.add_host(id, Place::Claim(at), n),
            TopologyKey::Domain(key) => {
                let domains = &self.states.get(state).domains[key as usize];
                self.counts.add_claim_domains(id, group.kind(), domains, n);
            }
        }
    }

    /// A claim's state narrows: pods placed before count where it may land now.
    fn narrow_claim(&mut self, at: usize, before: StateId, after: StateId) {
        let world = self.world;
        for key in 0..self.claims_in.len() {
            let (old, new): (&Domains, &Domains) = (
                &self.states.get(before).domains[key],
                &self.states.get(after).domains[key],
            );
            if old.one == new.one && old.bits == new.bits {
                continue;
            }
            let (old, new) = (old.clone(), new.clone());
            self.enter_domains(at, key, after);
            for (class, n) in self.claims[at].members.clone() {
                let class = world.class(class);
                for id in class.counted_in.iter().chain(class.repels.iter()) {
                    let group = &world.groups.list[*id as usize];
                    if group.identity.key != TopologyKey::Domain(key as u32) {
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

    /// Narrows a claim to some of its rows, and what it holds with them, unless it would lose all it holds (SCH-295).
    pub(crate) fn give_up_rows(&mut self, at: usize, rows: Bits) {
        let world = self.world;
        let claim = &mut self.claims[at];
        let state = self.states.get(claim.state);
        let Ok(held) = self.reservations.would_hold(world, state, &rows, &claim.held) else {
            return;
        };
        self.reservations.exchange(&claim.held, &held);
        claim.rows = rows;
        claim.held = held;
        measure(world, claim);
    }
}

/// Sees what room a claim has left.
fn measure(world: &World<'_>, claim: &mut Claim) {
    let overhead = &world.templates[claim.template].overhead_min;
    let types = world.types(claim.template);
    types.room(&claim.rows, &claim.used, overhead, &mut claim.tops, &mut claim.room);
}
