//! Node overlays: which of them change which instance type of which pool (SCH-357 to SCH-378).
//!
//! From the overlays and the catalogues of all pools follows, per overlay, whether it applies and why not, and per pool a
//! [`PoolOverlay`] that changes the provider's catalogue.

use crate::price_change::PriceChange;
use crate::requirement::requirement;
use kerf_api::conditions::node_overlay;
use kerf_api::{LabelRules, NodeOverlay, NodePool, validate};
use kerf_model::instance_type::{Catalogue, InstanceType};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A valid overlay, ready for evaluation.
struct Overlay {
    name: String,
    weight: i32,
    requirements: Requirements,
    price: Option<PriceChange>,
    capacity: Resources,
    has_one_requirement: bool,
}

/// Whether an overlay applies, for its `ValidationSucceeded` condition (SCH-361).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OverlayStatus {
    /// True: it applies wherever it matches.
    Valid,
    /// False with reason `RuntimeValidation` and this message.
    Invalid(String),
    /// False with reason `Conflict`.
    Conflict,
}

impl OverlayStatus {
    /// The condition's reason where it is False.
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Valid => None,
            Self::Invalid(_) => Some(node_overlay::RUNTIME_VALIDATION),
            Self::Conflict => Some(node_overlay::CONFLICT),
        }
    }

    /// The condition's message, empty where it is True.
    pub fn message(&self) -> &str {
        match self {
            Self::Valid => "",
            Self::Invalid(message) => message,
            Self::Conflict => node_overlay::CONFLICT_MESSAGE,
        }
    }
}

impl Overlay {
    /// Reads an overlay; the error is the message of its condition.
    fn read(name: &str, written: &NodeOverlay, rules: &LabelRules, interner: &Interner) -> Result<Self, String> {
        let spec = &written.spec;
        let findings = validate::node_overlay(spec, rules);
        if !findings.is_valid() {
            return Err(findings.message());
        }
        let adjustment = spec.price_adjustment.as_deref().filter(|text| !text.is_empty());
        let price = match (spec.price.as_deref(), adjustment) {
            // Admission refuses this already, with the same words (SCH-360).
            (Some(_), Some(_)) => return Err("cannot set both 'price' and 'priceAdjustment'".to_owned()),
            (Some(price), None) => PriceChange::price(price).map(Some),
            (None, Some(adjustment)) => PriceChange::adjustment(adjustment),
            (None, None) => Ok(None),
        };
        let each = spec.requirements.iter();
        let each = each.map(|one| requirement(&one.key, &one.operator, &one.values, rules, interner));
        let capacity = spec.capacity.iter();
        Ok(Self {
            name: name.to_owned(),
            weight: spec.weight.unwrap_or(0),
            requirements: Requirements::from_all(each, interner),
            price: price.map_err(|error| error.to_string())?,
            capacity: capacity
                .map(|(name, amount)| (interner.intern(name), amount.units_floor()))
                .collect(),
            has_one_requirement: spec.requirements.len() == 1,
        })
    }

    /// The instance types that this overlay selects by their names alone, and the price it sets for them.
    fn type_prices(&self, interner: &Interner) -> Vec<(String, Price)> {
        let types = self.requirements.get(sym::INSTANCE_TYPE);
        match (self.price, types) {
            (Some(PriceChange::Set(price)), Some(types)) if self.has_one_requirement && !types.complement => {
                let named = types.values.iter();
                named.map(|name| (interner.text(*name).to_owned(), price)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The facts about a pool that overlays depend on.
#[derive(Clone, Debug)]
pub struct OverlayPool {
    /// Its name.
    pub name: Arc<str>,
    /// The labels of its template; its requirements are not consulted (SCH-364).
    pub labels: Vec<(Sym, Sym)>,
    /// The provider's catalogue for it.
    pub catalogue: Arc<Catalogue>,
}

/// The changes to the types of one pool; absent types are not changed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PoolOverlay(FxHashMap<Sym, TypeOverlay>);

#[derive(Clone, PartialEq, Debug, Default)]
struct TypeOverlay {
    /// By the offering's requirements, which identify it also after the provider rebuilt its catalogue.
    prices: Vec<(Requirements, PriceChange)>,
    capacity: Resources,
}

/// The result of evaluating all overlays against all pools.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Evaluation {
    /// Per overlay name, whether it applies.
    pub statuses: BTreeMap<String, OverlayStatus>,
    /// Per pool name, the changes.
    pub pools: BTreeMap<Arc<str>, Arc<PoolOverlay>>,
    /// Per instance type, the price of the first overlay that applies, sets a price and has the type as its only requirement: for providers
    /// that know no price themselves (AWS-216).
    pub type_prices: BTreeMap<String, Price>,
}

/// What earlier overlays changed on one type of one pool.
#[derive(Default)]
struct TypeRecord {
    /// Per offering: the weight of the last overlay with a price for it, and the change that applies.
    prices: FxHashMap<usize, (i32, PriceChange)>,
    /// Per resource: the weight of the last overlay with an amount of it, and the amount that applies.
    capacity: BTreeMap<Sym, (i32, i64)>,
}

/// A type an overlay matches: indices of pool, type, and matching offerings.
struct MatchedType {
    pool: usize,
    kind: usize,
    offerings: Vec<usize>,
}

/// Evaluates overlays by weight, highest first, then by name, last first. An overlay that changes the same price or resource of the same
/// type as another of its weight applies nowhere (SCH-363 to SCH-371).
pub fn evaluate(
    overlays: &[NodeOverlay],
    pools: &[OverlayPool],
    rules: &LabelRules,
    interner: &Interner,
) -> Evaluation {
    let mut evaluation = Evaluation::default();
    // API servers give every object a name.
    let mut sorted: Vec<(&str, &NodeOverlay)> = overlays
        .iter()
        .filter_map(|written| Some((written.metadata.name.as_deref()?, written)))
        .collect();
    sorted.sort_by(|(_, a), (_, b)| a.compare_precedence(b));
    let mut valid = Vec::with_capacity(sorted.len());
    for (name, written) in sorted {
        match Overlay::read(name, written, rules, interner) {
            Ok(overlay) => valid.push(overlay),
            Err(message) => {
                let status = OverlayStatus::Invalid(message);
                evaluation.statuses.insert(name.to_owned(), status);
            }
        }
    }
    let launchable: Vec<Vec<Requirements>> = pools.iter().map(|pool| pool.launchable(interner)).collect();
    let mut records: FxHashMap<(usize, usize), TypeRecord> = FxHashMap::default();
    for overlay in &valid {
        let targets = targets(overlay, pools, &launchable, interner);
        let conflict = targets.iter().any(|target| {
            records
                .get(&(target.pool, target.kind))
                .is_some_and(|record| record.conflicts(overlay, target))
        });
        let status = if conflict {
            OverlayStatus::Conflict
        } else {
            OverlayStatus::Valid
        };
        evaluation.statuses.insert(overlay.name.clone(), status);
        if !conflict {
            for (name, price) in overlay.type_prices(interner) {
                evaluation.type_prices.entry(name).or_insert(price);
            }
            for target in &targets {
                records
                    .entry((target.pool, target.kind))
                    .or_default()
                    .note(overlay, target);
            }
        }
    }
    for (at, pool) in pools.iter().enumerate() {
        let changed = pool.catalogue.types.iter().enumerate().filter_map(|(kind, original)| {
            let record = records.get(&(at, kind))?;
            Some((original.name, record.finish(original)))
        });
        evaluation
            .pools
            .insert(Arc::clone(&pool.name), Arc::new(PoolOverlay(changed.collect())));
    }
    evaluation
}

impl OverlayPool {
    /// From a pool and the provider's catalogue for it; `None` for a pool without a name.
    pub fn new(pool: &NodePool, catalogue: Arc<Catalogue>, rules: &LabelRules, interner: &Interner) -> Option<Self> {
        let label = |(key, value): (&str, &str)| {
            let key = rules.normalize(key);
            (interner.intern(key), interner.intern(rules.normalize_value(key, value)))
        };
        Some(Self {
            name: pool.metadata.name.as_deref()?.into(),
            labels: pool.spec.template.labels().map(label).collect(),
            catalogue,
        })
    }

    /// The requirements of each type as launched by the pool: `{nodepool} ∩ template labels ∩ type requirements` (SCH-364).
    fn launchable(&self, interner: &Interner) -> Vec<Requirements> {
        let mut base = Requirements::from_labels(&self.labels, interner);
        base.add(Requirement::is(sym::NODEPOOL, interner.intern(&self.name)), interner);
        let requirements = |kind: &InstanceType| {
            let mut requirements = base.clone();
            requirements.add_all(&kind.requirements, interner);
            requirements
        };
        self.catalogue.types.iter().map(requirements).collect()
    }
}

fn targets(
    overlay: &Overlay,
    pools: &[OverlayPool],
    launchable: &[Vec<Requirements>],
    interner: &Interner,
) -> Vec<MatchedType> {
    let wanted = &overlay.requirements;
    let mut targets = Vec::new();
    for (pool, (input, launchable)) in pools.iter().zip(launchable).enumerate() {
        for (kind, (original, requirements)) in input.catalogue.types.iter().zip(launchable).enumerate() {
            if requirements.compatible(wanted, |_| false, interner).is_err() {
                continue;
            }
            let matching = original.offerings.iter().enumerate();
            let offerings: Vec<usize> = matching
                .filter(|(_, offering)| wanted.intersects(&offering.requirements, interner).is_ok())
                .map(|(at, _)| at)
                .collect();
            if !offerings.is_empty() {
                targets.push(MatchedType { pool, kind, offerings });
            }
        }
    }
    targets
}

impl TypeRecord {
    fn conflicts(&self, overlay: &Overlay, target: &MatchedType) -> bool {
        let same = |weight: Option<i32>| weight == Some(overlay.weight);
        let price = overlay.price.is_some()
            && target
                .offerings
                .iter()
                .any(|at| same(self.prices.get(at).map(|(weight, _)| *weight)));
        price
            || overlay
                .capacity
                .iter()
                .any(|(name, _)| same(self.capacity.get(&name).map(|(weight, _)| *weight)))
    }

    /// Records an overlay. The change of the first one applies; later ones only record their weight.
    fn note(&mut self, overlay: &Overlay, target: &MatchedType) {
        if let Some(change) = overlay.price {
            for at in &target.offerings {
                self.prices
                    .entry(*at)
                    .and_modify(|entry| entry.0 = overlay.weight)
                    .or_insert((overlay.weight, change));
            }
        }
        for (name, amount) in overlay.capacity.iter() {
            self.capacity
                .entry(name)
                .and_modify(|entry| entry.0 = overlay.weight)
                .or_insert((overlay.weight, amount));
        }
    }

    fn finish(&self, original: &InstanceType) -> TypeOverlay {
        let offerings = original.offerings.iter().enumerate();
        TypeOverlay {
            prices: offerings
                .filter_map(|(at, offering)| Some((offering.requirements.clone(), self.prices.get(&at)?.1)))
                .collect(),
            capacity: self
                .capacity
                .iter()
                .map(|(name, (_, amount))| (*name, *amount))
                .collect(),
        }
    }
}

impl PoolOverlay {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The catalogue with the changes applied; the same one if nothing changes (SCH-374). Availability, requirements, overhead and
    /// the overrides of offerings stay (SCH-372, SCH-378).
    pub fn apply(&self, catalogue: &Arc<Catalogue>) -> Arc<Catalogue> {
        if self.is_empty() {
            return Arc::clone(catalogue);
        }
        let mut overlaid = Catalogue::clone(catalogue);
        for kind in &mut overlaid.types {
            let Some(change) = self.0.get(&kind.name) else { continue };
            for (name, amount) in change.capacity.iter() {
                kind.capacity.set(name, amount);
                kind.capacity_overlaid = true;
            }
            for offering in &mut kind.offerings {
                let price = change
                    .prices
                    .iter()
                    .find(|(requirements, _)| *requirements == offering.requirements);
                if let Some((_, price)) = price {
                    offering.price = price.apply(offering.price);
                    kind.price_overlaid = true;
                }
            }
        }
        Arc::new(overlaid)
    }
}
