//! The domains a group counts, and the domains its pods may use.

use crate::compile::classes::{CompiledLevel, OwnGroup};
use crate::compile::problem::Problem;
use crate::compile::requirements::ReqId;
use crate::compile::targets::TargetId;
use crate::compile::templates::Template;
use crate::compile::topology::{Domain, DomainId, GroupId, GroupKind, KeyId, TopologyKey};
use crate::dense::id_set::IdSet;
use crate::dense::ids::IdVec;
use rustc_hash::FxHashMap;
use std::sync::Arc;

impl Problem<'_> {
    /// The domains a group counts: those of passing templates and passing targets (SCH-195 to SCH-199).
    pub(crate) fn counted_domains(&self, group: GroupId) -> IdSet<Domain> {
        let identity = &self.groups.list[group].identity;
        let TopologyKey::Domain(key) = identity.key else {
            return IdSet::default();
        };
        let table = &self.keys.tables[key];
        let passing_templates: IdSet<Template> = self
            .templates
            .ids()
            .filter(|at| {
                identity
                    .filter
                    .is_none_or(|filter| self.template_passes(filter, &self.templates[*at]))
            })
            .collect();
        let passes = |at: TargetId| self.node_passes(identity.filter, &self.targets[at].node);
        let passing =
            self.prepared
                .passing_targets(table.key, self.filter(identity.filter).unwrap_or_default(), || {
                    let mut passing = IdVec::filled(0, table.values.len());
                    for at in self.targets.ids().filter(|at| passes(*at)) {
                        if let Some(domain) = table.domain_of(at) {
                            passing[domain] += 1;
                        }
                    }
                    passing
                });
        let mut gone: FxHashMap<DomainId, u32> = FxHashMap::default();
        for at in self.excluded.iter().filter(|at| passes(*at)) {
            if let Some(domain) = table.domain_of(at) {
                *gone.entry(domain).or_default() += 1;
            }
        }
        let left = |domain: DomainId| passing[domain] > gone.get(&domain).copied().unwrap_or(0);
        table
            .values
            .ids()
            .filter(|domain| table.offered_by[*domain].intersects(&passing_templates) || left(*domain))
            .collect()
    }

    /// Computes the domains that hard constraints admit (SCH-209). For spread these are the domains any required term admits, relaxed terms
    /// included, or all under policy Ignore: kube-scheduler takes the minimum over the pod as written (SCH-212, SCH-225).
    pub(crate) fn compute_pod_domains(&mut self) {
        let mut classes = std::mem::take(&mut self.classes);
        // Classes with equal profile and constraints share their levels.
        let mut computed: FxHashMap<(u32, u32), Arc<[CompiledLevel]>> = FxHashMap::default();
        for class in &mut classes {
            let levels = computed.entry((class.profile, class.constraints)).or_insert_with(|| {
                let before = Arc::clone(&class.levels);
                let mut own_groups = before
                    .iter()
                    .flat_map(|level| level.own_groups.iter().map(move |own| (level, own)));
                if own_groups.all(|(level, own)| self.pod_domains(level, own).is_none()) {
                    return before;
                }
                let mut after = before.to_vec();
                for (after, before) in after.iter_mut().zip(before.iter()) {
                    for own in &mut after.own_groups {
                        own.pod_domains = self.pod_domains(before, own);
                    }
                }
                after.into()
            });
            class.levels = Arc::clone(levels);
        }
        self.classes = classes;
    }

    fn pod_domains(&self, level: &CompiledLevel, own_group: &OwnGroup) -> Option<IdSet<Domain>> {
        let identity = &self.groups.list[own_group.group].identity;
        let key = identity.key.table()?;
        let own = [level.strict];
        let any_of: &[ReqId] = match (identity.kind, identity.filter) {
            (GroupKind::Spread, Some(filter)) => &self.groups.filters[filter].any_of,
            (GroupKind::Spread, None) => &[],
            (GroupKind::Affinity | GroupKind::AntiAffinity | GroupKind::Inverse, _) => &own,
        };
        self.admitted_domains(key, any_of)
    }

    /// The domains of a key that at least one of some requirement sets admits; `None` means all.
    fn admitted_domains(&self, key: KeyId, any_of: &[ReqId]) -> Option<IdSet<Domain>> {
        let table = &self.keys.tables[key];
        let mut union: Option<IdSet<Domain>> = None;
        for set in any_of {
            let requirement = self.req_sets.get(*set).get(table.key)?;
            let admits = |domain: &DomainId| requirement.has(table.values[*domain], self.interner());
            let admitted = table.values.ids().filter(admits);
            union.get_or_insert_default().or(&admitted.collect());
        }
        union
    }
}
