//! Label conflicts: what a pod requires of labels, and what a pool or a node has instead (SCH-100 to SCH-105).

use crate::compile::problem::Problem;
use crate::compile::requirements::{ReqSet, requirements_overlap};
use kerf_model::intern::{Sym, sym};
use kerf_model::plan::Cause;
use kerf_model::requirement::{Incompatibility, Requirement, Requirements};

/// The first conflict of an existing node's labels with a requirement set.
pub(super) fn node_conflict(
    problem: &Problem<'_>,
    have: &Requirements,
    wanted: &ReqSet,
    volume: bool,
) -> Option<Cause> {
    let interner = problem.interner();
    let parts = || wanted.labels.iter().chain(wanted.host.as_ref());
    let missing = parts().find(|want| have.get(want.key).is_none() && !want.admits_absence());
    if let Some(want) = missing {
        return Some(Cause::UndefinedLabel {
            key: interner.text(want.key).to_owned(),
            hint: hint(problem, have, want.key),
            volume,
        });
    }
    if let Some(key) = wanted.contradiction {
        return Some(contradicted(problem, have, key, volume));
    }
    let (want, own) = parts()
        .filter_map(|want| Some((want, have.get(want.key)?)))
        .find(|(want, own)| !requirements_overlap(own, want, interner))?;
    let key = interner.text(want.key).to_owned();
    Some(Cause::Incompatible {
        key,
        wanted: want.print(interner),
        offered: own.print(interner),
        volume,
    })
}

/// The conflict with a key whose constraints contradict each other (SCH-472).
fn contradicted(problem: &Problem<'_>, have: &Requirements, key: Sym, volume: bool) -> Cause {
    let interner = problem.interner();
    let offered = have.get(key).cloned().unwrap_or_else(|| Requirement::exists(key));
    Cause::Incompatible {
        key: interner.text(key).to_owned(),
        wanted: Requirement::does_not_exist(key).print(interner),
        offered: offered.print(interner),
        volume,
    }
}

/// A text that the pod contradicts itself, where it does.
pub(super) fn contradiction(problem: &Problem<'_>, wanted: &ReqSet) -> Option<String> {
    let key = problem.interner().text(wanted.contradiction?);
    Some(format!(
        "its own requirements on {key} contradict each other; no node can meet them"
    ))
}

/// The first conflict of a pool's requirements with a requirement set.
pub(super) fn pool_conflict(
    problem: &Problem<'_>,
    have: &Requirements,
    wanted: &ReqSet,
    volume: bool,
) -> Option<Cause> {
    let interner = problem.interner();
    let text = |requirement: &Requirement| requirement.print(interner);
    let conflict = |key: Sym, wanted: String, offered: String| Cause::Incompatible {
        key: interner.text(key).to_owned(),
        wanted,
        offered,
        volume,
    };
    if let Err(incompatibility) = have.compatible(&wanted.labels, |key| problem.may_be_undefined(key), interner) {
        return Some(match incompatibility {
            Incompatibility::UndefinedKey(key) => Cause::UndefinedLabel {
                key: interner.text(key).to_owned(),
                hint: hint(problem, have, key),
                volume,
            },
            Incompatibility::Conflict { wanted, offered } => conflict(wanted.key, text(&wanted), text(&offered)),
        });
    }
    if let Some(key) = wanted.contradiction {
        return Some(contradicted(problem, have, key, volume));
    }
    let host = wanted.host.as_ref().filter(|_| !wanted.allows_new_host())?;
    Some(conflict(
        sym::HOSTNAME,
        text(host),
        text(&Requirement::exists(sym::HOSTNAME)),
    ))
}

/// A hint for a typo: the well-known key, else the pool's or node's key, that resembles the undefined one (SCH-105).
fn hint(problem: &Problem<'_>, have: &Requirements, key: Sym) -> String {
    let interner = problem.interner();
    let text = interner.text(key);
    let tail = text.rsplit('/').next().unwrap_or(text);
    let alike = |known: &&str| known.contains(text) || (!tail.is_empty() && known.ends_with(tail));
    let sorted = |keys: &mut dyn Iterator<Item = Sym>| {
        let mut texts: Vec<&str> = keys.map(|key| interner.text(key)).collect();
        texts.sort_unstable();
        texts
    };
    let well_known = sorted(&mut problem.snapshot.well_known.iter().copied());
    let own = sorted(&mut have.iter().map(|requirement| requirement.key));
    let found = well_known.iter().chain(&own).find(|known| alike(known));
    found.map_or_else(String::new, |known| format!(" (typo of \"{known}\"?)"))
}
