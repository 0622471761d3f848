//! The labels and defaults a provider adds to scheduling (SCH-007), fixed while the process runs.

use kerf_api::LabelRules;
use kerf_units::duration::GoDuration;

/// A provider's additions to label handling, volumes and the defaults of claims.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    /// Well-known labels, restricted domains, and other names of keys and values.
    pub labels: LabelRules,
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
    /// Label rules and nothing else.
    pub fn new(labels: LabelRules) -> Self {
        Self {
            labels,
            unsupported_provisioners: Vec::new(),
            unsupported_volume_topology_keys: Vec::new(),
            reservation_id_label: None,
            reserved_only_labels: Vec::new(),
            default_termination_grace_period: None,
        }
    }
}
