//! The converter: what it shares between objects, and the names of labels.

use super::amounts::floor;
use super::conventions::{self, Conventions};
use super::sharing::{Pool, SharedText};
use crate::lean::Amounts;
use kerf_model::intern::{Interner, Sym};
use kerf_model::resources::Resources;
use std::sync::Arc;

/// Turns API objects into model values, sharing equal ones. One per mirror.
#[derive(Debug)]
pub struct Converter {
    pub(super) interner: Arc<Interner>,
    pub(super) conventions: conventions::Tables,
    pub(super) shapes: Pool<kerf_model::pod::PodShape>,
    pub(super) label_sets: Pool<kerf_model::selector::LabelSet>,
    pub(super) limits: Pool<kerf_model::resources::Resources>,
    pub(super) texts: SharedText,
}

impl Converter {
    /// A converter that interns into `interner` and follows `conventions`.
    pub fn new(interner: Arc<Interner>, conventions: &Conventions) -> Self {
        Self {
            conventions: conventions::Tables::new(conventions, &interner),
            interner,
            shapes: Pool::default(),
            label_sets: Pool::default(),
            limits: Pool::default(),
            texts: SharedText::default(),
        }
    }

    /// The interner of every id it returns.
    pub fn interner(&self) -> &Arc<Interner> {
        &self.interner
    }

    /// Label keys that may stay undefined on a claim (SCH-102, SCH-107), sorted by id.
    pub fn well_known(&self) -> Arc<[Sym]> {
        Arc::clone(&self.conventions.well_known)
    }

    /// The label key that carries a capacity reservation's id.
    pub fn reservation_key(&self) -> Option<Sym> {
        self.conventions.reservation_key
    }

    /// Whether a node class is of a kind the provider serves (SCH-136, LIF-005).
    pub fn serves(&self, class: &kerf_api::NodeClassRef) -> bool {
        let served = &self.conventions.given.node_classes;
        served.is_empty() || served.contains(&(class.group.clone(), class.kind.clone()))
    }

    /// A label key's id, after normalisation (SCH-099).
    pub fn label_key(&self, key: &str) -> Sym {
        self.conventions.key(key, &self.interner)
    }

    /// A label value's id under a normalised key (SCH-099).
    pub fn label_value(&self, key: Sym, value: &str) -> Sym {
        self.conventions.value(key, value, &self.interner)
    }

    /// A shared copy of a text that many objects repeat, such as a namespace or a node's name.
    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        self.texts.share(text)
    }

    /// Amounts a node or claim has, rounded down; illegible and negative ones are left out and named in `faults`.
    pub(crate) fn available(&self, amounts: &Amounts, faults: &mut Vec<String>) -> Resources {
        amounts
            .iter()
            .filter_map(|(name, amount)| match &amount.0 {
                Ok(quantity) if quantity.is_negative() => {
                    faults.push(format!("{name}: quantity {quantity} is negative"));
                    None
                }
                Ok(quantity) => {
                    let id = self.interner.intern(name);
                    Some((id, floor(id, quantity)))
                }
                Err(why) => {
                    faults.push(format!("{name}: {why}"));
                    None
                }
            })
            .collect()
    }
}
