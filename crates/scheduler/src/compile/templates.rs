//! Templates: what a new node of each pool can be (section 11 of `docs/behaviour/scheduling.md`).

use crate::compile::catalogue::{CatalogueId, Offer, RowId, TypeIndex, TypeRow};
use crate::compile::daemons::{DaemonPartition, partitions};
use crate::compile::taints::TaintSetId;
use crate::dense::amounts::{Amounts, ResourceIndex};
use crate::dense::id_set::IdSet;
use crate::dense::ids::{Id, IdVec};
use kerf_model::intern::{Sym, sym};
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::snapshot::Snapshot;
use kerf_units::policy::MinValuesPolicy;
use std::sync::Arc;

/// The id of a template.
pub(crate) type TemplateId = Id<Template>;

/// The template of a pool's claims.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) pool: Arc<NodePool>,
    pub(crate) catalogue: CatalogueId,
    /// The pool's requirements, and those that exist only to match DaemonSets that ask for them (SCH-112).
    pub(crate) requirements: Requirements,
    /// Rows that no pod is needed to exclude: without negative amounts, and meeting the requirements.
    pub(crate) rows: IdSet<TypeRow>,
    pub(crate) taints: TaintSetId,
    pub(crate) partitions: Vec<DaemonPartition>,
    /// The smallest overhead of any partition, per resource. Used for quick rejections.
    pub(crate) overhead_min: Amounts,
    /// The limited resources; empty for a pool without limits.
    pub(crate) limited: Vec<LimitedResource>,
}

impl Template {
    /// The DaemonSets that run on nodes of a row.
    pub(crate) fn partition_of(&self, row: RowId) -> Option<&DaemonPartition> {
        self.partitions.iter().find(|partition| partition.rows.get(row))
    }
}

/// A resource that a pool limits.
#[derive(Clone, Debug)]
pub(crate) struct LimitedResource {
    pub(crate) name: Sym,
    /// The limit minus usage, in the model's units (SCH-145).
    pub(crate) left: i64,
    /// Rows by raw capacity, largest first: capacity, row.
    pub(crate) largest: Vec<(i64, RowId)>,
}

/// The resources a pool limits, with what its usage leaves.
fn limited(pool: &NodePool, types: &TypeIndex, rows: &IdSet<TypeRow>) -> Vec<LimitedResource> {
    let remaining = pool.remaining().unwrap_or_default();
    let limited = remaining.iter().map(|(name, left)| {
        let capacity = |row: RowId| types.instance_type(row).capacity.get(name);
        let mut largest: Vec<(i64, RowId)> = rows.iter().map(|row| (capacity(row), row)).collect();
        largest.sort_unstable_by(|a, b| b.cmp(a));
        LimitedResource { name, left, largest }
    });
    limited.collect()
}

/// The templates in the order they are tried, and the pools left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Templates {
    pub(crate) list: IdVec<Template, Template>,
    pub(crate) catalogues: IdVec<TypeIndex, SharedTypeIndex>,
    pub(crate) empty_pools: Vec<(Arc<str>, bool)>,
}

/// A shared index over a catalogue.
pub(crate) type SharedTypeIndex = Arc<TypeIndex>;

/// Eligible pools with a catalogue, by weight descending, then by name descending (SCH-136 to SCH-141).
fn eligible(snapshot: &Snapshot) -> Vec<&Arc<NodePool>> {
    let mut pools: Vec<_> = snapshot
        .pools
        .iter()
        .filter(|pool| pool.eligibility == Eligibility::Eligible)
        .filter(|pool| {
            pool.catalogue
                .as_ref()
                .is_ok_and(|catalogue| !catalogue.types.is_empty())
        })
        .collect();
    pools.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name)));
    pools
}

impl Templates {
    /// Compiles the eligible pools. Templates of unchanged pools are reused from `before`.
    pub(crate) fn compile(
        snapshot: &Snapshot,
        resources: &ResourceIndex,
        policy: MinValuesPolicy,
        may_be_undefined: impl Fn(Sym) -> bool + Copy,
        before: Option<&Self>,
    ) -> Self {
        let mut templates = Self::default();
        for pool in eligible(snapshot) {
            let Ok(catalogue) = &pool.catalogue else { continue };
            let id = templates.intern_catalogue(catalogue, resources, snapshot, before);
            if let Some(previous) = before.and_then(|before| before.template_of(pool, catalogue)) {
                let limited = limited(pool, &templates.catalogues[id], &previous.rows);
                templates.list.push(Template {
                    pool: Arc::clone(pool),
                    catalogue: id,
                    limited,
                    ..previous.clone()
                });
                continue;
            }
            let types = Arc::clone(&templates.catalogues[id]);
            let mut requirements = pool.requirements.clone();
            for key in [sym::REGISTERED, sym::INITIALIZED] {
                requirements.add(Requirement::is(key, sym::TRUE), &snapshot.interner);
            }
            let (rows, offered) = prefilter(snapshot, &types, &requirements, may_be_undefined);
            if offered.is_empty() {
                templates.empty_pools.push((Arc::clone(&pool.name), false));
                continue;
            }
            let short = !unmet(&types, &requirements, &offered).is_empty();
            if short && policy == MinValuesPolicy::Strict {
                templates.empty_pools.push((Arc::clone(&pool.name), true));
                continue;
            }
            let partitions = partitions(
                snapshot,
                resources,
                &types,
                &rows,
                (&requirements, &pool.taints),
                may_be_undefined,
            );
            let mut overhead_min = partitions
                .first()
                .map_or_else(|| resources.zero(), |first| first.overhead.clone());
            for partition in &partitions {
                for (least, amount) in overhead_min.iter_mut().zip(&partition.overhead) {
                    *least = (*least).min(*amount);
                }
            }
            let limited = limited(pool, &types, &rows);
            let (pool, catalogue) = (Arc::clone(pool), id);
            let template = Template {
                pool,
                catalogue,
                requirements,
                rows,
                taints: TaintSetId::new(0),
                partitions,
                overhead_min,
                limited,
            };
            templates.list.push(template);
        }
        templates.empty_pools.sort();
        templates
    }

    /// The id of a catalogue, which is indexed if it is new.
    fn intern_catalogue(
        &mut self,
        catalogue: &Arc<kerf_model::instance_type::Catalogue>,
        resources: &ResourceIndex,
        snapshot: &Snapshot,
        before: Option<&Self>,
    ) -> CatalogueId {
        let same = |index: &&SharedTypeIndex| Arc::ptr_eq(&index.catalogue, catalogue);
        let known = self.catalogues.ids().find(|id| same(&&self.catalogues[*id]));
        known.unwrap_or_else(|| {
            let previous = before.and_then(|before| before.catalogues.iter().find(same).cloned());
            let index = previous.unwrap_or_else(|| Arc::new(TypeIndex::new(catalogue, resources, &snapshot.interner)));
            self.catalogues.push(index)
        })
    }

    /// The template of a pool that differs at most in usage, limits and weight.
    fn template_of(&self, pool: &NodePool, catalogue: &Arc<kerf_model::instance_type::Catalogue>) -> Option<&Template> {
        let alike = |template: &&Template| {
            let previous = &template.pool;
            let types = &self.catalogues[template.catalogue].catalogue;
            previous.name == pool.name
                && Arc::ptr_eq(types, catalogue)
                && previous.requirements == pool.requirements
                && previous.taints == pool.taints
        };
        self.list.iter().find(alike)
    }

    /// Returns whether both are equal except for limits, usage and weights.
    pub(crate) fn alike(&self, other: &Self) -> bool {
        let same = |(a, b): (&Template, &Template)| {
            a.pool.name == b.pool.name
                && a.pool.taints == b.pool.taints
                && a.catalogue == b.catalogue
                && a.requirements == b.requirements
                && a.rows == b.rows
        };
        self.share_catalogues(other)
            && self.list.len() == other.list.len()
            && self.list.iter().zip(&other.list).all(same)
    }

    /// Returns whether both have the same catalogues in the same order.
    pub(crate) fn share_catalogues(&self, other: &Self) -> bool {
        let mut pairs = self.catalogues.iter().zip(&other.catalogues);
        self.catalogues.len() == other.catalogues.len() && pairs.all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

/// The rows that meet the requirements, and those of them with a compatible available offering (SCH-144).
fn prefilter(
    snapshot: &Snapshot,
    types: &TypeIndex,
    requirements: &Requirements,
    may_be_undefined: impl Fn(Sym) -> bool,
) -> (IdSet<TypeRow>, IdSet<TypeRow>) {
    let mut rows = types.sound.clone();
    let mut offers: IdSet<Offer> = IdSet::full(types.offers.len());
    for requirement in requirements {
        rows.and(&types.rows_meeting(requirement, &snapshot.interner));
        offers.and(&types.offers_meeting(requirement, &snapshot.interner));
    }
    for (offer, key) in types.required_keys(may_be_undefined) {
        if requirements.get(key).is_none() {
            offers.remove(offer);
        }
    }
    let mut offered: IdSet<TypeRow> = offers.iter().map(|at| types.offers[at].row).collect();
    offered.and(&rows);
    (rows, offered)
}

/// The keys whose `minValues` these rows do not meet, with the number of values they have (SCH-275).
pub(crate) fn unmet(types: &TypeIndex, requirements: &Requirements, rows: &IdSet<TypeRow>) -> Vec<(Sym, u32)> {
    let mut unmet = Vec::new();
    for requirement in requirements {
        let Some(least) = requirement.min_values else { continue };
        let mut values: Vec<Sym> = rows
            .iter()
            .filter_map(|row| types.instance_type(row).requirements.get(requirement.key))
            .filter(|own| !own.complement)
            .flat_map(|own| own.values.iter().copied())
            .collect();
        values.sort_unstable();
        values.dedup();
        if (values.len() as u64) < u64::from(least) && !rows.is_empty() {
            unmet.push((requirement.key, values.len() as u32));
        }
    }
    unmet
}
