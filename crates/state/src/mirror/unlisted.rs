//! The known objects of a kind that a complete list has not named yet.

use crate::key::Key;
use crate::object::Identity;

/// The known objects, and which of them the list named so far.
pub(super) struct Unlisted {
    /// Sorted by key.
    known: Vec<Identity>,
    is_listed: Vec<bool>,
    /// The place after the last one found. A list has nearly the order of the keys, so the next object is mostly there.
    next: usize,
}

impl Unlisted {
    /// `known` is sorted by key.
    pub(super) fn new(known: Vec<Identity>) -> Self {
        debug_assert!(
            known.is_sorted_by(|one, next| one.key < next.key),
            "a store has each key once, in order"
        );
        Self {
            is_listed: vec![false; known.len()],
            known,
            next: 0,
        }
    }

    /// Removes an object that the list names. Returns it as it is known; `None` if it is not known, or was named before.
    pub(super) fn take(&mut self, key: &Key) -> Option<&Identity> {
        let is_next = self.known.get(self.next).is_some_and(|id| id.key == *key);
        if !is_next {
            self.next = self.known.binary_search_by(|id| id.key.cmp(key)).ok()?;
        }
        let place = self.next;
        self.next += 1;
        let is_listed = self.is_listed.get_mut(place)?;
        if std::mem::replace(is_listed, true) {
            None
        } else {
            self.known.get(place)
        }
    }

    /// The objects that the list did not name, by key.
    pub(super) fn into_rest(self) -> impl Iterator<Item = Identity> {
        let all = self.known.into_iter().zip(self.is_listed);
        all.filter(|(_, is_listed)| !is_listed).map(|(id, _)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        ("shop".into(), name.into())
    }

    fn unlisted(names: &[&str]) -> Unlisted {
        let identity = |name: &&str| Identity {
            key: key(name),
            uid: (*name).into(),
            version: 1,
        };
        Unlisted::new(names.iter().map(identity).collect())
    }

    #[test]
    fn objects_are_found_in_any_order_and_once() {
        for listed in [["a", "b", "d"], ["d", "a", "b"], ["b", "d", "a"]] {
            let mut all = unlisted(&["a", "b", "c", "d"]);
            for name in listed {
                assert_eq!(all.take(&key(name)).map(|id| &*id.uid), Some(name), "{listed:?}");
                assert!(all.take(&key(name)).is_none(), "{name} is named twice");
            }
            assert!(all.take(&key("x")).is_none());
            let rest: Vec<_> = all.into_rest().map(|id| id.uid.to_string()).collect();
            assert_eq!(rest, ["c"]);
        }
    }
}
