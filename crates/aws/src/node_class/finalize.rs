//! The end of a class (AWS-068).

/// Names of claims in the event about what a class waits for.
pub const NAMES_IN_EVENT: usize = 5;

/// The message of the event that names the claims a deleted class waits for; `None` if there are none and the class can go.
pub fn waiting_message(claims: &[&str]) -> Option<String> {
    let (first, others) = claims.split_at(claims.len().min(NAMES_IN_EVENT));
    if first.is_empty() {
        return None;
    }
    let names = first.join(", ");
    Some(match others.len() {
        0 => format!("waiting on NodeClaim termination for {names}"),
        count => format!("waiting on NodeClaim termination for {names} and {count} other(s)"),
    })
}
