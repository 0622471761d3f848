//! How a provider's objects are read.

use kerf_cloud::{Profile, Vocabulary};
use kerf_state::Conventions;

/// A provider's conventions.
pub(super) fn conventions(profile: &Profile, refuse_resource_claims: bool) -> Conventions {
    Conventions {
        node_classes: profile
            .node_classes
            .iter()
            .map(|class| (class.group.to_owned(), class.kind.to_owned()))
            .collect(),
        refuse_resource_claims,
        ..conventions_of(&profile.vocabulary)
    }
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
