//! Node overlays: which of them change which instance type of which pool (SCH-357 to SCH-378).
//!
//! In come overlays as written and the catalogues of all pools; out goes, per overlay, whether it is in force and why not,
//! and per pool a [`PoolOverlay`] that turns the provider's catalogue into the one decisions see.

use crate::price_change::{PriceChange, PriceChangeError};
use kerf_model::instance_type::{Catalogue, InstanceType};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::quantity::Quantity;
use kerf_model::requirement::{Operator, Requirement, Requirements};
use kerf_model::resources::Resources;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A NodeOverlay as written.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OverlaySpec {
    /// Its name.
    pub name: String,
    /// `spec.weight`; unset counts as 0.
    pub weight: Option<i32>,
    /// `spec.requirements` as key, operator and values.
    pub requirements: Vec<(String, String, Vec<String>)>,
    /// `spec.price`.
    pub price: Option<String>,
    /// `spec.priceAdjustment`.
    pub price_adjustment: Option<String>,
    /// `spec.capacity`.
    pub capacity: BTreeMap<String, Quantity>,
}

/// A valid overlay, ready for evaluation.
#[derive(Clone, PartialEq, Debug)]
pub struct Overlay {
    name: Arc<str>,
    weight: i32,
    requirements: Requirements,
    price: Option<PriceChange>,
    capacity: Resources,
}

/// Why an overlay is invalid: the message of its `ValidationSucceeded` condition (SCH-361).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OverlayFault {
    /// A requirement breaks the rules.
    #[error("invalid value: {0} in requirements, restricted")]
    Requirement(String),
    /// A resource overlays may not change.
    #[error("invalid capacity: {0} in resource, restricted")]
    Capacity(String),
    /// Both price fields are set (SCH-360).
    #[error("cannot set both 'price' and 'priceAdjustment'")]
    BothPrices,
    /// A price cannot be read.
    #[error(transparent)]
    Price(#[from] PriceChangeError),
}

/// The verdict on one overlay, for its `ValidationSucceeded` condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OverlayStatus {
    /// In force wherever it matches: True.
    Valid,
    /// False with reason `RuntimeValidation`.
    Invalid(OverlayFault),
    /// False with reason `Conflict`.
    Conflict,
}

impl OverlayStatus {
    /// The condition's reason where it is False.
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Valid => None,
            Self::Invalid(_) => Some("RuntimeValidation"),
            Self::Conflict => Some("Conflict"),
        }
    }

    /// The condition's message, empty where it is True.
    pub fn message(&self) -> String {
        match self {
            Self::Valid => String::new(),
            Self::Invalid(fault) => fault.to_string(),
            Self::Conflict => "conflict with another overlay".to_owned(),
        }
    }
}

/// Resources that come with the machine and that no overlay may change (SCH-357).
const FIXED_RESOURCES: [Sym; 4] = [sym::CPU, sym::MEMORY, sym::EPHEMERAL_STORAGE, sym::PODS];

impl Overlay {
    /// Validates an overlay; `key_fault` says what is wrong with a label key, if anything (SCH-108).
    pub fn read(
        spec: &OverlaySpec,
        key_fault: impl Fn(&str) -> Option<String>,
        interner: &Interner,
    ) -> Result<Self, OverlayFault> {
        let mut requirements = Requirements::new();
        for (key, operator, values) in &spec.requirements {
            let fault = key_fault(key).map(OverlayFault::Requirement);
            if let Some(fault) = fault {
                return Err(fault);
            }
            let one = requirement(key, operator, values, interner).map_err(OverlayFault::Requirement)?;
            requirements.add(one, interner);
        }
        let mut capacity = Resources::new();
        for (name, amount) in &spec.capacity {
            let id = interner.intern(name);
            if FIXED_RESOURCES.contains(&id) {
                return Err(OverlayFault::Capacity(name.clone()));
            }
            capacity.set(id, amount.units_floor());
        }
        let adjustment = spec.price_adjustment.as_deref().filter(|text| !text.is_empty());
        let price = match (&spec.price, adjustment) {
            (Some(_), Some(_)) => return Err(OverlayFault::BothPrices),
            (Some(price), None) => Some(PriceChange::price(price)?),
            (None, Some(adjustment)) => PriceChange::adjustment(adjustment)?,
            (None, None) => None,
        };
        Ok(Self {
            name: spec.name.as_str().into(),
            weight: spec.weight.unwrap_or(0),
            requirements,
            price,
            capacity,
        })
    }
}

fn requirement(key: &str, operator: &str, values: &[String], interner: &Interner) -> Result<Requirement, String> {
    let id = interner.intern(key);
    let unknown = || {
        format!(
            "key {key} has the unknown operator {operator}; use one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte"
        )
    };
    let operator = Operator::parse(operator).ok_or_else(unknown)?;
    let interned = || values.iter().map(|value| interner.intern(value));
    let bound = || match values {
        [only] => only.parse::<i64>().ok().filter(|n| *n >= 0),
        _ => None,
    };
    let bound = || {
        bound().ok_or_else(|| {
            format!(
                "key {key} with operator {} needs exactly one non-negative integer",
                operator.as_str()
            )
        })
    };
    Ok(match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            return Err(format!("key {key} with operator {} needs a value", operator.as_str()));
        }
        Operator::In => Requirement::any_of(id, interned()),
        Operator::NotIn => Requirement::none_of(id, interned()),
        Operator::Exists => Requirement::exists(id),
        Operator::DoesNotExist => Requirement::does_not_exist(id),
        Operator::Gt => Requirement::greater(id, bound()?),
        Operator::Lt => Requirement::less(id, bound()?),
        Operator::Gte => Requirement::between(id, Some(bound()?), None),
        Operator::Lte => Requirement::between(id, None, Some(bound()?)),
    })
}

/// A pool as overlays see it.
#[derive(Clone, Debug)]
pub struct OverlayPool {
    /// Its name.
    pub name: Arc<str>,
    /// The labels of its template; its requirements are not consulted (SCH-364).
    pub labels: Vec<(Sym, Sym)>,
    /// The provider's catalogue for it.
    pub catalogue: Arc<Catalogue>,
}

/// What overlays do to the types of one pool; types that are not there stay as they are.
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
    /// Per overlay, whether it is in force.
    pub statuses: BTreeMap<String, OverlayStatus>,
    /// Per pool, what changes.
    pub pools: BTreeMap<Arc<str>, Arc<PoolOverlay>>,
}

/// What is recorded on one type of one pool while overlays are processed.
#[derive(Default)]
struct Record {
    /// Per offering: the weight of the last overlay that asked for a price, and the change in force.
    prices: FxHashMap<usize, (i32, PriceChange)>,
    /// Per resource: the weight of the last overlay that asked for an amount, and the amount in force.
    capacity: BTreeMap<Sym, (i32, i64)>,
}

/// A place an overlay matches: pool, type, and the matching offerings.
struct Target {
    pool: usize,
    kind: usize,
    offerings: Vec<usize>,
}

/// Evaluates overlays (SCH-363 to SCH-371): by weight, heaviest first, then by name, last first; one that meets another of its weight
/// on the same price or resource of the same type is in force nowhere.
pub fn evaluate(
    overlays: &[OverlaySpec],
    pools: &[OverlayPool],
    key_fault: impl Fn(&str) -> Option<String>,
    interner: &Interner,
) -> Evaluation {
    let mut evaluation = Evaluation::default();
    let mut valid = Vec::new();
    for spec in overlays {
        match Overlay::read(spec, &key_fault, interner) {
            Ok(overlay) => valid.push(overlay),
            Err(fault) => {
                evaluation
                    .statuses
                    .insert(spec.name.clone(), OverlayStatus::Invalid(fault));
            }
        }
    }
    valid.sort_by(|a, b| (b.weight, &b.name).cmp(&(a.weight, &a.name)));
    let faces: Vec<Vec<Requirements>> = pools.iter().map(|pool| pool.faces(interner)).collect();
    let mut records: FxHashMap<(usize, usize), Record> = FxHashMap::default();
    for overlay in &valid {
        let targets = targets(overlay, pools, &faces, interner);
        let clash = targets.iter().any(|target| {
            records
                .get(&(target.pool, target.kind))
                .is_some_and(|record| record.clashes(overlay, target))
        });
        let status = if clash {
            OverlayStatus::Conflict
        } else {
            OverlayStatus::Valid
        };
        evaluation.statuses.insert(overlay.name.to_string(), status);
        if !clash {
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
    /// Per type: `{nodepool} ∩ template labels ∩ type requirements` (SCH-364).
    fn faces(&self, interner: &Interner) -> Vec<Requirements> {
        let mut base = Requirements::from_labels(&self.labels, interner);
        base.add(Requirement::is(sym::NODEPOOL, interner.intern(&self.name)), interner);
        let face = |kind: &InstanceType| {
            let mut face = base.clone();
            face.add_all(&kind.requirements, interner);
            face
        };
        self.catalogue.types.iter().map(face).collect()
    }
}

fn targets(overlay: &Overlay, pools: &[OverlayPool], faces: &[Vec<Requirements>], interner: &Interner) -> Vec<Target> {
    let wanted = &overlay.requirements;
    let mut targets = Vec::new();
    for (pool, (input, faces)) in pools.iter().zip(faces).enumerate() {
        for (kind, (original, face)) in input.catalogue.types.iter().zip(faces).enumerate() {
            if face.compatible(wanted, |_| false, interner).is_err() {
                continue;
            }
            let matching = original.offerings.iter().enumerate();
            let offerings: Vec<usize> = matching
                .filter(|(_, offering)| wanted.intersects(&offering.requirements, interner).is_ok())
                .map(|(at, _)| at)
                .collect();
            if !offerings.is_empty() {
                targets.push(Target { pool, kind, offerings });
            }
        }
    }
    targets
}

impl Record {
    fn clashes(&self, overlay: &Overlay, target: &Target) -> bool {
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

    /// The first to come stays in force; later ones only leave their weight behind.
    fn note(&mut self, overlay: &Overlay, target: &Target) {
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

    /// The catalogue with the overlays in force; the same one where nothing changes (SCH-374). Availability, requirements, overhead and
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
