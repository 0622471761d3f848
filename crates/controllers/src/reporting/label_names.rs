//! The labels that metrics carry for the Nodes and NodeClaims of a provider.

use std::collections::BTreeSet;

use kerf_cloud::Profile;
use kerf_runtime::metrics::LabelNames;

/// The labels that metrics carry for the Nodes and NodeClaims of a provider (OPS-142, OPS-171).
pub fn label_names(profile: &Profile) -> LabelNames {
    // Labels of different domains may have the same last part; a metric has that label once.
    let well_known: BTreeSet<String> = profile.vocabulary.labels.well_known().map(LabelNames::short).collect();
    LabelNames {
        well_known: well_known.into_iter().collect(),
        node_classes: profile
            .node_classes
            .iter()
            .map(|class| LabelNames::long(&class.label_key()))
            .collect(),
    }
}
