//! Gauge series owned by objects: when an object changes or is deleted, its former series are removed (OPS-143).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::Gauge;

/// One value an object exports.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The family.
    pub gauge: Gauge,
    /// The family's name, which distinguishes families.
    pub family: &'static str,
    /// Label values in the family's order.
    pub labels: Vec<String>,
    /// The value.
    pub value: f64,
}

type Owned = BTreeMap<(&'static str, Vec<String>), Gauge>;

/// Which series belong to which object. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct Series(Arc<Mutex<BTreeMap<String, Owned>>>);

impl Series {
    /// Exports exactly `samples` for the object `key`; what it exported before and does not now is deleted.
    pub fn replace(&self, key: &str, samples: Vec<Sample>) {
        let mut objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut old = objects.remove(key).unwrap_or_default();
        let mut new = Owned::new();
        for sample in &samples {
            old.remove(&(sample.family, sample.labels.clone()));
        }
        delete(old);
        for Sample {
            gauge,
            family,
            labels,
            value,
        } in samples
        {
            gauge.set(&borrowed(&labels), value);
            new.insert((family, labels), gauge);
        }
        if !new.is_empty() {
            objects.insert(key.to_owned(), new);
        }
    }

    /// Deletes every series of the object `key`.
    pub fn remove(&self, key: &str) {
        let owned = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        delete(owned.unwrap_or_default());
    }

    /// Deletes the series of all objects that are not in `keys`.
    pub fn retain(&self, keys: &BTreeSet<String>) {
        let mut objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        objects.retain(|key, owned| {
            let keep = keys.contains(key);
            if !keep {
                delete(std::mem::take(owned));
            }
            keep
        });
    }
}

fn delete(series: Owned) {
    for ((_, labels), gauge) in series {
        gauge.remove(&borrowed(&labels));
    }
}

fn borrowed(labels: &[String]) -> Vec<&str> {
    labels.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Metrics, catalogue};
    use super::*;

    #[test]
    fn a_changed_label_leaves_no_second_series() {
        let metrics = Metrics::default();
        let gauge = metrics.gauge(&catalogue::NODEPOOLS_USAGE);
        let series = Series::default();
        let sample = |resource: &str| Sample {
            gauge: gauge.clone(),
            family: "usage",
            labels: vec![resource.to_owned(), "web".to_owned()],
            value: 4.0,
        };
        // OPS-143
        series.replace("web", vec![sample("cpu"), sample("memory")]);
        series.replace("web", vec![sample("memory")]);
        let text = metrics.encode();
        assert!(!text.contains("cpu") && text.contains("memory"), "{text}");
        series.retain(&BTreeSet::new());
        assert_eq!(metrics.encode(), "");
    }
}
