//! Text of messages.

/// The text with its first letter as a capital, if that is an ASCII letter.
pub(crate) fn capitalized(mut text: String) -> String {
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}
