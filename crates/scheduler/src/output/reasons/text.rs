//! Amounts and lists as text for people.

use crate::compile::problem::Problem;
use kerf_model::intern::{Sym, sym};
use kerf_model::resources::Resources;

/// The name of the first resource of which less than `wanted` is there, with both amounts as text.
pub(super) fn first_short(
    problem: &Problem<'_>,
    wanted: &[i64],
    have: impl Fn(usize) -> i64,
) -> Option<(String, String, String)> {
    let short = |(at, wanted): (usize, &i64)| (*wanted > 0 && *wanted > have(at)).then_some((at, *wanted));
    let (at, wanted) = wanted.iter().enumerate().find_map(short)?;
    let name = *problem.resources.names.get(at)?;
    let (wanted, have) = amounts(name, wanted, have(at).max(0));
    Some((problem.interner().text(name).to_owned(), wanted, have))
}

/// Two amounts of one resource as text. Exact where rounding would make them look equal.
pub(super) fn amounts(name: Sym, a: i64, b: i64) -> (String, String) {
    let rounded = (amount(name, a), amount(name, b));
    if rounded.0 == rounded.1 && a != b {
        return (Resources::print(name, a), Resources::print(name, b));
    }
    rounded
}

/// An amount as text: cores, and memory in the largest unit, with at most two decimals.
pub(super) fn amount(name: Sym, amount: i64) -> String {
    if name == sym::CPU {
        return decimals(amount as f64 / 1e3, 3);
    }
    if name == sym::MEMORY || name == sym::EPHEMERAL_STORAGE {
        let units = [(1u64 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
        for (unit, suffix) in units {
            if amount.unsigned_abs() >= unit {
                return decimals(amount as f64 / unit as f64, 2) + suffix;
            }
        }
    }
    Resources::print(name, amount)
}

/// A number with at most `most` decimal places, without trailing zeros.
pub(super) fn decimals(number: f64, most: usize) -> String {
    let text = format!("{number:.most$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The first five names, and the number of further ones.
pub(super) fn listed(mut names: Vec<String>) -> String {
    const MOST: usize = 5;
    let more = names.len().saturating_sub(MOST);
    names.truncate(MOST);
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
