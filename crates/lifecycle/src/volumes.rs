//! Which volume attachments the end of a node waits for (LIF-088 to LIF-091).

use std::collections::BTreeSet;

/// Names that the event lists at most, as upstream has it.
const NAMES_MAX: usize = 5;

/// A VolumeAttachment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attachment<'a> {
    /// Its name.
    pub name: &'a str,
    /// The node it attaches to.
    pub node: &'a str,
    /// The persistent volume it attaches; `None` for an inline volume.
    pub volume: Option<&'a str>,
}

/// The sorted names of the attachments to `node` that have to go first: those of volumes that no remaining pod uses. `kept` are the
/// persistent volumes of the pods that stay until the node is gone.
pub fn blocking<'a>(
    attachments: impl IntoIterator<Item = Attachment<'a>>,
    node: &str,
    kept: &BTreeSet<String>,
) -> Vec<&'a str> {
    let on_node = attachments.into_iter().filter(|attachment| attachment.node == node);
    let waited_for = on_node.filter(|attachment| attachment.volume.is_some_and(|volume| !kept.contains(volume)));
    let mut names: Vec<&str> = waited_for.map(|attachment| attachment.name).collect();
    names.sort_unstable();
    names
}

/// The text of the event about attachments that are waited for (LIF-089).
pub fn message(names: &[&str]) -> String {
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

    // LIF-088
    #[test]
    fn volumes_of_pods_that_stay_and_other_nodes_do_not_count() {
        let attachment = |name, node, volume| Attachment { name, node, volume };
        let attachments = [
            attachment("d", "n", Some("pv-d")),
            attachment("a", "n", Some("pv-a")),
            attachment("kept", "n", Some("pv-kept")),
            attachment("inline", "n", None),
            attachment("other", "m", Some("pv-o")),
        ];
        let kept = BTreeSet::from(["pv-kept".to_owned()]);
        assert_eq!(blocking(attachments, "n", &kept), ["a", "d"]);
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
