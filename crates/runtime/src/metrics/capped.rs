//! A bound on label values that come from free text. A counter keeps a series for every value until the process ends, so a value that is
//! different each time fills the memory of the process and that of Prometheus.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The value shown for all combinations beyond the bound.
const OTHER: &str = "other";

/// Shows the first combinations of label values as they are, and all later ones as `other`.
#[derive(Debug)]
pub struct Capped<const LABELS: usize> {
    combinations_max: usize,
    shown: Mutex<BTreeSet<[Box<str>; LABELS]>>,
}

impl<const LABELS: usize> Capped<LABELS> {
    /// At most `combinations_max` combinations are shown as they are.
    pub fn new(combinations_max: usize) -> Self {
        Self {
            combinations_max,
            shown: Mutex::default(),
        }
    }

    /// The label values to use for these.
    pub fn show<'a>(&self, values: [&'a str; LABELS]) -> [&'a str; LABELS] {
        let key = values.map(Box::from);
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.contains(&key) || shown.len() < self.combinations_max {
            shown.insert(key);
            return values;
        }
        [OTHER; LABELS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_combinations_are_shown_and_all_others_are_one() {
        let capped = Capped::new(2);
        assert_eq!(capped.show(["Ready", "KubeletReady"]), ["Ready", "KubeletReady"]);
        assert_eq!(capped.show(["Ready", "KubeletNotReady"]), ["Ready", "KubeletNotReady"]);
        assert_eq!(capped.show(["DiskPressure", "KubeletReady"]), [OTHER; 2]);
        assert_eq!(capped.show(["Ready", "KubeletReady"]), ["Ready", "KubeletReady"]);
    }
}
