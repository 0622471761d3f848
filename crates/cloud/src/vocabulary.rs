//! The words a provider adds to the scheduler's vocabulary (SCH-007): fixed before the process starts deciding.

use kerf_model::duration::GoDuration;
use std::collections::BTreeMap;

/// A provider's additions to label handling and to the defaults of claims.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Vocabulary {
    /// Label keys that may stay undefined on a claim until launch (SCH-107), sorted.
    pub well_known_labels: Vec<String>,
    /// Label domains users may not use but for well-known keys (SCH-108).
    pub restricted_domains: Vec<String>,
    /// Other names of label keys, and the key each stands for (SCH-099).
    pub normalised_labels: BTreeMap<String, String>,
    /// Per normalised key, other names of values and the value each stands for (SCH-099).
    pub normalised_values: BTreeMap<String, BTreeMap<String, String>>,
    /// Volume provisioners whose volumes no node of this provider can attach.
    pub unsupported_provisioners: Vec<String>,
    /// Topology keys of volumes no node of this provider carries.
    pub unsupported_volume_topology_keys: Vec<String>,
    /// The label that carries a capacity reservation's id.
    pub reservation_id_label: Option<String>,
    /// Labels only reserved offerings carry.
    pub reserved_only_labels: Vec<String>,
    /// The `terminationGracePeriod` of claims whose pool names none (SCH-313).
    pub default_termination_grace_period: Option<GoDuration>,
}

impl Vocabulary {
    /// The key a label key stands for.
    pub fn normalise_key<'a>(&'a self, key: &'a str) -> &'a str {
        self.normalised_labels.get(key).map_or(key, String::as_str)
    }

    /// The value a value of a normalised key stands for.
    pub fn normalise_value<'a>(&'a self, key: &str, value: &'a str) -> &'a str {
        let values = self.normalised_values.get(key);
        values
            .and_then(|values| values.get(value))
            .map_or(value, String::as_str)
    }

    /// Whether this provider declares the key well-known.
    pub fn is_well_known(&self, key: &str) -> bool {
        self.well_known_labels
            .binary_search_by(|known| known.as_str().cmp(key))
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // SCH-007, SCH-099
    #[test]
    fn aliases_are_resolved_and_everything_else_stays_as_it_is() {
        let zone = "topology.kubernetes.io/zone";
        let vocabulary = Vocabulary {
            well_known_labels: vec!["a.example/x".into(), "b.example/y".into()],
            normalised_labels: [("topology.ebs.csi.aws.com/zone".to_owned(), zone.to_owned())].into(),
            normalised_values: [(
                zone.to_owned(),
                [("use1-az1".to_owned(), "us-east-1a".to_owned())].into(),
            )]
            .into(),
            ..Vocabulary::default()
        };
        assert_eq!(vocabulary.normalise_key("topology.ebs.csi.aws.com/zone"), zone);
        assert_eq!(vocabulary.normalise_key("team"), "team");
        assert_eq!(vocabulary.normalise_value(zone, "use1-az1"), "us-east-1a");
        assert_eq!(vocabulary.normalise_value("team", "use1-az1"), "use1-az1");
        assert!(vocabulary.is_well_known("b.example/y") && !vocabulary.is_well_known("b.example/z"));
    }
}
