//! Counts in a line of text.

/// A count with its noun: `1 node`, `2 nodes`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}
