//! The values of the gauges about instance types and offerings (AWS-361 to AWS-364). A region has some ten thousand offerings: they are kept as
//! ids, and turned into texts when they are scraped.

use kerf_model::intern::{Interner, Sym};
use kerf_model::price::Price;
use kerf_runtime::Metrics;
use kerf_runtime::metrics::MetricDef;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The values reported for an offering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfferingState {
    /// Whether any NodePool sees it available.
    pub available: bool,
    /// The price per hour.
    pub price: Price,
}

/// Instance type, capacity type and zone.
type OfferingId = (Sym, Sym, Sym);

#[derive(Default)]
struct Tables {
    /// vCPUs and memory in MiB.
    types: BTreeMap<Sym, (i64, i64)>,
    offerings: BTreeMap<OfferingId, OfferingState>,
}

/// The values of the gauges. Clones share them.
#[derive(Clone)]
pub struct InstanceTypeReport {
    tables: Arc<Mutex<Tables>>,
    interner: Arc<Interner>,
}

impl InstanceTypeReport {
    /// Empty tables.
    pub fn new(interner: Arc<Interner>) -> Self {
        Self {
            tables: Arc::default(),
            interner,
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the values of these types: vCPUs and memory in MiB. Other types keep theirs.
    pub fn set_types(&self, types: impl Iterator<Item = (Sym, (i64, i64))>) {
        self.tables().types.extend(types);
    }

    /// Sets the values of these offerings. Other offerings keep theirs.
    pub fn set_offerings(&self, offerings: BTreeMap<OfferingId, OfferingState>) {
        self.tables().offerings.extend(offerings);
    }

    /// Registers a gauge of types.
    pub(crate) fn report_types(
        &self,
        metrics: &Metrics,
        def: &MetricDef,
        value: fn(vcpus: i64, memory_mib: i64) -> f64,
    ) {
        let this = self.clone();
        metrics.report(def, move |take| {
            for (name, (vcpus, memory)) in &this.tables().types {
                take(&[this.interner.text(*name)], value(*vcpus, *memory));
            }
        });
    }

    /// Registers a gauge of offerings.
    pub(crate) fn report_offerings(&self, metrics: &Metrics, def: &MetricDef, value: fn(&OfferingState) -> f64) {
        let this = self.clone();
        metrics.report(def, move |take| {
            for ((name, bought, zone), state) in &this.tables().offerings {
                let labels = [*name, *bought, *zone].map(|label| this.interner.text(label));
                take(&labels, value(state));
            }
        });
    }
}
