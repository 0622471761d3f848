//! Annotations of a NodePool that make its machines fail.
//!
//! Every annotation of the pool that begins with `sandbox.kerf.sh/` also goes onto its Nodes, where simulated kubelets read it. An
//! annotation [`INTERRUPTION`] does not, because it would interrupt every new machine.

use crate::interruption_annotations::INTERRUPTION;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kerf_units::duration::GoDuration;
use kerf_units::quantity::{Format, Quantity};
use std::collections::BTreeMap;
use std::time::Duration;

/// What all these annotations begin with.
const PREFIX: &str = "sandbox.kerf.sh/";

/// On a NodePool: `never` (its machines get no Node), or how much later than otherwise their Nodes appear, as a Go duration.
pub const REGISTRATION: &str = "sandbox.kerf.sh/registration";

/// On a NodePool: what its Nodes report of each resource, in percent of the truth, such as `cpu=50%,nvidia.com/gpu=0%`.
pub const REPORTED_CAPACITY: &str = "sandbox.kerf.sh/reported-capacity";

/// When the Node of a machine appears.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Registration {
    #[default]
    Normal,
    Late(Duration),
    Never,
}

/// How the machines of a pool fail.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct MachineFaults {
    pub(crate) registration: Registration,
    /// Percent by resource.
    reported: BTreeMap<String, i64>,
    /// The pool's annotations that its Nodes get.
    annotations: BTreeMap<String, String>,
}

impl MachineFaults {
    /// Reads the annotations of a pool. A value that cannot be read is logged and has no effect.
    pub(crate) fn of(pool: &ObjectMeta) -> Self {
        let mut faults = Self::default();
        for (key, value) in pool.annotations.iter().flatten() {
            let readable = match key.as_str() {
                REGISTRATION => parse_registration(value).map(|registration| faults.registration = registration),
                REPORTED_CAPACITY => parse_percentages(value).map(|reported| faults.reported = reported),
                _ => Some(()),
            };
            if readable.is_none() {
                let pool = pool.name.as_deref();
                tracing::warn!(
                    NodePool = pool,
                    annotation = key,
                    value,
                    "annotation ignored: its value cannot be read"
                );
            }
            if key.starts_with(PREFIX) && key != INTERRUPTION {
                faults.annotations.insert(key.clone(), value.clone());
            }
        }
        faults
    }

    /// Changes what a new Node reports. What the provider promised for the claim stays as it was.
    pub(crate) fn apply(&self, node: &mut Node) {
        let annotations = node.metadata.annotations.get_or_insert_default();
        annotations.extend(self.annotations.clone());
        let Some(status) = &mut node.status else { return };
        for amounts in [&mut status.capacity, &mut status.allocatable].into_iter().flatten() {
            for (name, percent) in &self.reported {
                let known = amounts.get(name).and_then(|amount| amount.0.parse().ok());
                if let Some(reported) = known.map(|amount| share(&amount, *percent)) {
                    amounts.insert(name.clone(), ApiQuantity(reported.to_string()));
                }
            }
        }
    }
}

fn parse_registration(text: &str) -> Option<Registration> {
    if text == "never" {
        return Some(Registration::Never);
    }
    let delay: GoDuration = text.parse().ok()?;
    Some(Registration::Late(delay.to_std()))
}

/// Percent by resource: `cpu=50%,memory=90%`.
fn parse_percentages(text: &str) -> Option<BTreeMap<String, i64>> {
    text.split(',')
        .map(|part| {
            let (name, percent) = part.trim().split_once('=')?;
            let percent: u16 = percent.strip_suffix('%')?.parse().ok()?;
            Some((name.to_owned(), i64::from(percent)))
        })
        .collect()
}

/// Part of an amount, rounded down to whole bytes or thousandths.
fn share(amount: &Quantity, percent: i64) -> Quantity {
    let part = |whole: i64| i64::try_from(i128::from(whole) * i128::from(percent) / 100).unwrap_or(i64::MAX);
    match amount.format() {
        Format::BinarySi => Quantity::from_bytes(part(amount.units_floor())),
        Format::DecimalSi | Format::DecimalExponent => Quantity::from_millis(part(amount.milli_floor())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_cannot_be_read_are_refused() {
        assert_eq!(
            parse_registration("5m"),
            Some(Registration::Late(Duration::from_mins(5)))
        );
        assert_eq!(parse_registration("never"), Some(Registration::Never));
        assert_eq!(parse_registration("late"), None);
        assert_eq!(parse_percentages("cpu=50"), None);
        assert_eq!(parse_percentages("cpu"), None);
        let read = parse_percentages("cpu=50%, nvidia.com/gpu=0%").expect("percentages");
        assert_eq!(
            read,
            BTreeMap::from([("cpu".to_owned(), 50), ("nvidia.com/gpu".to_owned(), 0)])
        );
    }

    #[test]
    fn a_share_keeps_the_format() {
        for (amount, percent, expected) in [("4", 50, "2"), ("3", 50, "1500m"), ("16Gi", 25, "4Gi"), ("1", 0, "0")] {
            let amount: Quantity = amount.parse().expect("a quantity");
            assert_eq!(share(&amount, percent).to_string(), expected);
        }
    }
}
