//! Which claims should have an instance, and which instances belong to no claim (LIF-128 to LIF-131).

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

/// How far the clocks of cloud and API server may differ: a minute, as everywhere in Kerf.
const CLOCK_DIFFERENCE: SignedDuration = SignedDuration::from_secs(60);

/// A claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim<'a> {
    /// Its instance's provider id, once launched.
    pub provider_id: Option<&'a str>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Whether its launch has neither succeeded nor failed.
    pub launching: bool,
    /// Whether its Node is registered.
    pub registered: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl Claim<'_> {
    /// Whether the provider has to have an instance for the claim (LIF-129, LIF-130).
    pub const fn needs_instance(&self) -> bool {
        !self.deleting && self.registered && self.provider_id.is_some()
    }
}

/// An instance that the provider lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instance<'a> {
    /// Its provider id.
    pub provider_id: &'a str,
    /// When it was created, if the provider says so.
    pub created: Option<Timestamp>,
    /// Whether it was launched for a claim of this cluster.
    pub ours: bool,
    /// Whether its Node is registered: then the Node's finalizer and owner end the instance.
    pub registered: bool,
    /// Whether it is being terminated.
    pub deleting: bool,
}

/// Since when a claim has been launching: the earliest creation of those that are. `None` when none is.
pub fn launching_since<'a>(claims: impl IntoIterator<Item = Claim<'a>>) -> Option<Timestamp> {
    let launching = claims.into_iter().filter(|claim| claim.launching);
    launching.map(|claim| claim.created.unwrap_or(Timestamp::MIN)).min()
}

/// Whether an instance may belong to a claim that is launching: no instance is older than its claim. `since` comes from
/// [`launching_since`].
pub fn may_be_launching(instance: &Instance<'_>, since: Option<Timestamp>) -> bool {
    let is_older = |created: Timestamp, since: Timestamp| since.duration_since(created) > CLOCK_DIFFERENCE;
    since.is_some_and(|since| instance.created.is_none_or(|created| !is_older(created, since)))
}

/// Instances launched for claims of this cluster that no claim names, and that are not ending anyway.
pub fn orphans<'a>(
    instances: impl IntoIterator<Item = Instance<'a>>,
    known: &BTreeSet<&str>,
) -> impl Iterator<Item = Instance<'a>> {
    instances.into_iter().filter(move |instance| {
        instance.ours && !instance.deleting && !instance.registered && !known.contains(instance.provider_id)
    })
}

/// The orphans of earlier rounds, by provider id. An instance is terminated only when two rounds find it to be an orphan.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Suspects(BTreeSet<String>);

impl Suspects {
    /// The orphans of this round that an earlier round found as well; the others become suspects. An orphan that may belong to a claim
    /// that is launching is not judged, and stays what it was: in a large cluster some claim is launching most of the time.
    pub fn confirm<'a>(
        &mut self,
        orphans: impl IntoIterator<Item = Instance<'a>>,
        launching_since: Option<Timestamp>,
    ) -> Vec<Instance<'a>> {
        let before = std::mem::take(&mut self.0);
        let mut confirmed = Vec::new();
        for orphan in orphans {
            let suspected = before.contains(orphan.provider_id);
            let judged = !may_be_launching(&orphan, launching_since);
            if suspected || judged {
                self.0.insert(orphan.provider_id.to_owned());
            }
            if suspected && judged {
                confirmed.push(orphan);
            }
        }
        confirmed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    const CLAIM: Claim<'static> = Claim {
        provider_id: Some("x"),
        created: None,
        launching: false,
        registered: true,
        deleting: false,
    };

    fn instance(provider_id: &str) -> Instance<'_> {
        Instance {
            provider_id,
            created: None,
            ours: true,
            registered: false,
            deleting: false,
        }
    }

    // LIF-130
    #[test]
    fn only_registered_claims_are_missed() {
        assert!(CLAIM.needs_instance());
        let others = [
            Claim {
                registered: false,
                ..CLAIM
            },
            Claim {
                deleting: true,
                ..CLAIM
            },
            Claim {
                provider_id: None,
                ..CLAIM
            },
        ];
        for claim in others {
            assert!(!claim.needs_instance(), "{claim:?}");
        }
    }

    #[test]
    fn instances_are_orphans_only_if_nobody_can_want_them() {
        let instances = [
            instance("orphan"),
            instance("known"),
            Instance {
                registered: true,
                ..instance("registered")
            },
            Instance {
                ours: false,
                ..instance("foreign")
            },
            Instance {
                deleting: true,
                ..instance("going")
            },
        ];
        let found: Vec<&str> = orphans(instances, &BTreeSet::from(["known"]))
            .map(|orphan| orphan.provider_id)
            .collect();
        assert_eq!(found, ["orphan"]);
    }

    #[test]
    fn an_instance_may_be_of_a_launch_that_is_not_younger() {
        let launching = |seconds: i64| Claim {
            provider_id: None,
            created: Some(at(seconds)),
            launching: true,
            ..CLAIM
        };
        let launched = Claim {
            created: Some(at(0)),
            ..CLAIM
        };
        assert_eq!(launching_since([launched]), None);
        let since = launching_since([launched, launching(900), launching(600)]);
        assert_eq!(since, Some(at(600)));
        let may_be = |created: Option<i64>, since| {
            let created = created.map(at);
            may_be_launching(
                &Instance {
                    created,
                    ..instance("x")
                },
                since,
            )
        };
        assert!(may_be(Some(700), since) && may_be(Some(540), since));
        assert!(!may_be(Some(539), since), "no clock is so far off");
        assert!(may_be(None, since), "nobody knows how old it is");
        assert!(!may_be(None, None) && !may_be(Some(700), None));
    }

    #[test]
    fn an_orphan_is_confirmed_by_a_second_round() {
        let mut suspects = Suspects::default();
        let mut round = |ids: &[&str], since: Option<Timestamp>| -> Vec<String> {
            let orphans = ids.iter().map(|id| instance(id));
            let confirmed = suspects.confirm(orphans, since);
            confirmed.iter().map(|orphan| orphan.provider_id.to_owned()).collect()
        };
        assert!(round(&["a", "b"], None).is_empty());
        // Not judged while something launches, and not forgotten.
        assert!(round(&["a", "c"], Some(at(0))).is_empty());
        assert_eq!(round(&["a", "b", "c"], None), ["a"]);
        assert_eq!(round(&["b", "c"], None), ["b", "c"]);
    }
}
