//! The domains of a group: those it knows, and those its owners may be in.

use crate::bits::Bits;
use crate::classes::{Owned, Variant};
use crate::requirements::ReqId;
use crate::topology::{GroupKind, TopologyKey};
use crate::world::World;
use rustc_hash::FxHashMap;
use std::sync::Arc;

impl World<'_> {
    pub(super) fn known_domains(&self, group: usize) -> Bits {
        let identity = &self.groups.list[group].identity;
        let TopologyKey::Domain(key) = identity.key else {
            return Bits::default();
        };
        let table = &self.keys.tables[key as usize];
        let passing_templates: Bits = (0..self.templates.len())
            .filter(|at| {
                identity
                    .filter
                    .is_none_or(|filter| self.template_passes(filter, &self.templates[*at]))
            })
            .collect();
        let passes = |at: usize| self.node_passes(identity.filter, &self.targets[at].node);
        let passing = self
            .prepared
            .passing(table.key, self.filter(identity.filter).unwrap_or_default(), || {
                let mut passing = vec![0; table.values.len()];
                for at in (0..self.targets.len()).filter(|at| passes(*at)) {
                    if let Some(domain) = table.domain_of(at) {
                        passing[domain as usize] += 1;
                    }
                }
                passing
            });
        let mut gone: FxHashMap<u32, u32> = FxHashMap::default();
        for at in self.excluded.iter().filter(|at| passes(*at)) {
            if let Some(domain) = table.domain_of(at) {
                *gone.entry(domain).or_default() += 1;
            }
        }
        let left = |domain: usize| passing[domain] > gone.get(&(domain as u32)).copied().unwrap_or(0);
        (0..table.values.len())
            .filter(|domain| table.offered_by[*domain].intersects(&passing_templates) || left(*domain))
            .collect()
    }

    /// The domains hard constraints admit (SCH-209). For spread that is what any required term admits, dropped ones too, or everything
    /// under policy Ignore: kube-scheduler takes the minimum over the pod as written (SCH-212, SCH-225).
    pub(super) fn find_pod_domains(&mut self) {
        let mut classes = std::mem::take(&mut self.classes);
        // Many classes share their readings. Those from before stay, so that no address is used twice.
        let mut known: FxHashMap<*const Variant, [Arc<[Variant]>; 2]> = FxHashMap::default();
        for class in &mut classes {
            let [_, found] = known.entry(class.variants.as_ptr()).or_insert_with(|| {
                let before = Arc::clone(&class.variants);
                let mut owned = before
                    .iter()
                    .flat_map(|variant| variant.owned.iter().map(move |own| (variant, own)));
                if owned.all(|(variant, own)| self.pod_domains(variant, own).is_none()) {
                    return [Arc::clone(&before), before];
                }
                let mut after = before.to_vec();
                for (after, before) in after.iter_mut().zip(before.iter()) {
                    for own in &mut after.owned {
                        own.pod_domains = self.pod_domains(before, own);
                    }
                }
                [before, after.into()]
            });
            class.variants = Arc::clone(found);
        }
        self.classes = classes;
    }

    fn pod_domains(&self, variant: &Variant, owned: &Owned) -> Option<Bits> {
        let identity = &self.groups.list[owned.group as usize].identity;
        let key = identity.key.table()?;
        let own = [variant.strict];
        let any_of: &[ReqId] = match (identity.kind, identity.filter) {
            (GroupKind::Spread, Some(filter)) => &self.groups.filters[filter as usize].any_of,
            (GroupKind::Spread, None) => &[],
            (GroupKind::Affinity | GroupKind::AntiAffinity | GroupKind::Inverse, _) => &own,
        };
        self.admitted_domains(key, any_of)
    }

    /// The domains of a key that any of some requirement sets admits; `None` for all.
    fn admitted_domains(&self, key: u32, any_of: &[ReqId]) -> Option<Bits> {
        let table = &self.keys.tables[key as usize];
        let mut union: Option<Bits> = None;
        for set in any_of {
            let requirement = self.req_sets.get(*set).get(table.key)?;
            let admitted = (0..table.values.len()).filter(|at| requirement.has(table.values[*at], self.interner()));
            union.get_or_insert_default().or(&admitted.collect());
        }
        union
    }
}
