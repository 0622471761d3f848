//! How a provider's objects are read.

use kerf_api::StartupTaints;
use kerf_cloud::{Profile, Vocabulary};
use kerf_runtime::Options;
use kerf_state::Conventions;
use std::sync::Arc;

/// A provider's conventions, and what the options add to them.
pub(super) fn conventions(profile: &Profile, options: &Options) -> Conventions {
    Conventions {
        node_classes: profile
            .node_classes
            .iter()
            .map(|class| (class.group.to_owned(), class.kind.to_owned()))
            .collect(),
        refuse_resource_claims: options.ignore_dra_requests,
        startup_taints: startup_taints(options),
        default_constraints: Arc::clone(&options.scheduler_config.default_constraints),
        ..conventions_of(&profile.vocabulary)
    }
}

/// The taints nodes lose by themselves while they start: the well-known ones and those the options add.
pub(crate) fn startup_taints(options: &Options) -> StartupTaints {
    StartupTaints::with(options.startup_taints.iter().cloned())
}

/// A provider's vocabulary in the mirror's terms (SCH-007), serving node classes of every kind and refusing pods with resource claims.
pub fn conventions_of(vocabulary: &Vocabulary) -> Conventions {
    Conventions {
        unsupported_provisioners: vocabulary.unsupported_provisioners.iter().cloned().collect(),
        unsupported_topology_keys: vocabulary.unsupported_volume_topology_keys.iter().cloned().collect(),
        reservation_key: vocabulary.reservation_id_label.clone(),
        ..Conventions::new(vocabulary.labels.clone())
    }
}
