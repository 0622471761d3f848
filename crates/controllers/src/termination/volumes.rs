//! Which volume attachments a node's end waits for (LIF-088 to LIF-091): pure.

use k8s_openapi::api::storage::v1::VolumeAttachment;
use std::collections::BTreeSet;

/// Names an event lists.
const NAMES_MAX: usize = 5;

/// The names of the attachments to `node` that have to go first: those of volumes no remaining pod uses. `kept` are
/// the persistent volumes of pods that stay until the node is gone.
pub(crate) fn blocking<'a>(attachments: &'a [VolumeAttachment], node: &str, kept: &BTreeSet<String>) -> Vec<&'a str> {
    let on_node = attachments
        .iter()
        .filter(|attachment| attachment.spec.node_name == node);
    let waited_for = on_node.filter(|attachment| {
        let volume = attachment.spec.source.persistent_volume_name.as_ref();
        volume.is_some_and(|volume| !kept.contains(volume))
    });
    let mut names: Vec<&str> = waited_for
        .filter_map(|attachment| attachment.metadata.name.as_deref())
        .collect();
    names.sort_unstable();
    names
}

/// The text of the event that says so (LIF-089).
pub(crate) fn message(names: &[&str]) -> String {
    let shown = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    let others = match names.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        left => format!(" and {left} other(s)"),
    };
    format!("Awaiting deletion of bound volumeattachments ({shown}{others})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::storage::v1::{VolumeAttachmentSource, VolumeAttachmentSpec};

    fn attachment(name: &str, node: &str, volume: Option<&str>) -> VolumeAttachment {
        let mut attachment = VolumeAttachment {
            spec: VolumeAttachmentSpec {
                node_name: node.to_owned(),
                source: VolumeAttachmentSource {
                    persistent_volume_name: volume.map(str::to_owned),
                    ..VolumeAttachmentSource::default()
                },
                ..VolumeAttachmentSpec::default()
            },
            ..VolumeAttachment::default()
        };
        attachment.metadata.name = Some(name.to_owned());
        attachment
    }

    // LIF-088
    #[test]
    fn volumes_of_pods_that_stay_and_other_nodes_do_not_count() {
        let attachments = [
            attachment("d", "n", Some("pv-d")),
            attachment("a", "n", Some("pv-a")),
            attachment("kept", "n", Some("pv-kept")),
            attachment("inline", "n", None),
            attachment("other", "m", Some("pv-o")),
        ];
        let kept = BTreeSet::from(["pv-kept".to_owned()]);
        assert_eq!(blocking(&attachments, "n", &kept), ["a", "d"]);
    }

    // LIF-089
    #[test]
    fn five_names_are_enough_for_an_event() {
        assert_eq!(
            message(&["a", "b"]),
            "Awaiting deletion of bound volumeattachments (a, b)"
        );
        assert_eq!(
            message(&["a", "b", "c", "d", "e", "f", "g"]),
            "Awaiting deletion of bound volumeattachments (a, b, c, d, e and 2 other(s))"
        );
    }
}
