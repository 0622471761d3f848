//! Memory that registered nodes reported, by instance type and images (AWS-199, AWS-200, AWS-430, AWS-441).
//!
//! The part of memory that the hypervisor keeps is a guess until a node has registered. What nodes report replaces the guess, for the images
//! they run: other images may leave another amount.

use crate::intervals::DISCOVERED_MEMORY;
use jiff::{SignedDuration, Timestamp};
use kerf_api::ec2_node_class::NodeClassAmi;
use kerf_api::hash::{list, primitive};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Nodes that must have reported before an amount is used: one odd node must not decide about all later ones.
pub const SIGHTINGS_MIN: usize = 2;
/// How much later an amount must expire before the text of it is written anew, in days: an expiry alone is not worth a write each day.
const EXPIRY_LAG_DAYS: i64 = 7;
/// The longest text of all amounts. All annotations of an object together may have 256 KiB.
pub const TEXT_MAX: usize = 60_000;
/// How a text begins.
const VERSION: &str = "v1";
const SECONDS_PER_DAY: i64 = 24 * 60 * 60;

/// The images of a class as a key; their order does not count.
pub fn images_key(amis: &[NodeClassAmi]) -> u64 {
    list(amis.iter().map(|ami| primitive(ami.id.as_bytes())))
}

/// A Node as a key, by its UID. Two Nodes with the same key count as one, which only delays the use of an amount.
pub fn node_key(uid: &str) -> u32 {
    let [.., a, b, c, d] = primitive(uid.as_bytes()).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// What was reported for one instance type and set of images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The least memory that a node reported, in bytes.
    pub bytes: i64,
    /// The first nodes that reported, as many as are needed before the amount is used.
    pub nodes: BTreeSet<u32>,
    /// When it is forgotten.
    pub expires: Timestamp,
}

impl Sighting {
    fn add_node(&mut self, node: u32) {
        if self.nodes.len() < SIGHTINGS_MIN {
            self.nodes.insert(node);
        }
    }

    /// The day of the expiry, since 1970.
    fn expiry_day(&self) -> i64 {
        self.expires.as_second().div_euclid(SECONDS_PER_DAY)
    }

    fn is_usable(&self, now: Timestamp) -> bool {
        self.nodes.len() >= SIGHTINGS_MIN && self.expires > now
    }
}

/// When an amount that is reported now is forgotten.
fn expiry(now: Timestamp) -> Timestamp {
    let span = SignedDuration::try_from(DISCOVERED_MEMORY).unwrap_or(SignedDuration::ZERO);
    now.saturating_add(span).unwrap_or(now)
}

/// Memory that registered nodes reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveredMemory {
    /// By images and instance type.
    seen: BTreeMap<(u64, String), Sighting>,
}

impl DiscoveredMemory {
    /// A node registered. `is_current_image` says whether it runs the image that its type gets now; other nodes say nothing about new ones.
    /// A node counts once, however often it is seen. Returns whether an amount that is used changed, so that instance types must be
    /// computed anew.
    pub fn observe(
        &mut self,
        instance_type: &str,
        images: u64,
        node: u32,
        bytes: i64,
        is_current_image: bool,
        now: Timestamp,
    ) -> bool {
        if !is_current_image || bytes <= 0 {
            return false;
        }
        let nodes = BTreeSet::from([node]);
        let expires = expiry(now);
        let seen = Sighting { bytes, nodes, expires };
        self.add((images, instance_type.to_owned()), seen, now)
    }

    /// The memory of nodes of a type with these images, in bytes; `None` while too few nodes have reported.
    pub fn memory(&self, instance_type: &str, images: u64, now: Timestamp) -> Option<i64> {
        let sighting = self.seen.get(&(images, instance_type.to_owned()))?;
        sighting.is_usable(now).then_some(sighting.bytes)
    }

    /// Adds the observations of another, without those that have expired at `now`. Returns whether an amount that is used changed.
    pub fn merge(&mut self, other: &Self, now: Timestamp) -> bool {
        let mut changed = false;
        for (key, sighting) in &other.seen {
            changed |= self.add(key.clone(), sighting.clone(), now);
        }
        changed
    }

    /// What nodes with these images reported.
    pub fn of_images(&self, images: u64) -> Self {
        let each = self.seen.range((images, String::new())..);
        let each = each.take_while(|((of, _), _)| *of == images);
        Self {
            seen: each.map(|(key, sighting)| (key.clone(), sighting.clone())).collect(),
        }
    }

    fn add(&mut self, key: (u64, String), seen: Sighting, now: Timestamp) -> bool {
        if seen.expires <= now {
            return false;
        }
        let used = |known: Option<&Sighting>| known.filter(|known| known.is_usable(now)).map(|known| known.bytes);
        let before = used(self.seen.get(&key));
        let known = self.seen.entry(key).or_insert_with(|| seen.clone());
        if known.expires <= now {
            *known = seen;
        } else {
            known.bytes = known.bytes.min(seen.bytes);
            known.expires = known.expires.max(seen.expires);
            for node in seen.nodes {
                known.add_node(node);
            }
        }
        used(Some(known)) != before
    }

    /// Whether a text of this says something that a text of `written` does not; a little later expiry is not worth it.
    pub fn is_news_to(&self, written: &Self) -> bool {
        let is_told = |(key, sighting): (&(u64, String), &Sighting)| {
            written.seen.get(key).is_some_and(|told| {
                let same = told.bytes == sighting.bytes && told.nodes == sighting.nodes;
                same && sighting.expiry_day() - told.expiry_day() < EXPIRY_LAG_DAYS
            })
        };
        self.seen.len() != written.seen.len() || !self.seen.iter().all(is_told)
    }

    /// The part that a text has room for: what expires last.
    #[must_use]
    pub fn newest(mut self) -> Self {
        let mut left = TEXT_MAX - VERSION.len();
        let mut images = BTreeSet::new();
        let mut all: Vec<((u64, String), Sighting)> = std::mem::take(&mut self.seen).into_iter().collect();
        // The sort is stable: what expires on the same day keeps its order by images and type.
        all.sort_by_key(|(_, sighting)| Reverse(sighting.expiry_day()));
        for (key, sighting) in all {
            let head = if images.insert(key.0) {
                images_text(key.0).len()
            } else {
                0
            };
            match left.checked_sub(head + sighting_text(&key.1, &sighting).len()) {
                Some(rest) => left = rest,
                None => break,
            }
            self.seen.insert(key, sighting);
        }
        self
    }

    /// The text that a restart reads: `v1`, then for each set of images ` @` and its key in hexadecimal, and ` TYPE=BYTES,DAY,NODE,NODE` for
    /// each type, where the day is that of the expiry since 1970 and nodes are keys in hexadecimal.
    pub fn to_text(&self) -> String {
        let mut text = VERSION.to_owned();
        let mut images = None;
        for ((of, instance_type), sighting) in &self.seen {
            if images.replace(*of) != Some(*of) {
                text.push_str(&images_text(*of));
            }
            text.push_str(&sighting_text(instance_type, sighting));
        }
        text
    }

    /// Reads a text. Whatever is wrong with it, `None`: a part of it is worth no guess. No amount lasts longer than one that is reported at
    /// `now`.
    pub fn from_text(text: &str, now: Timestamp) -> Option<Self> {
        let mut words = text.split(' ');
        if words.next() != Some(VERSION) {
            return None;
        }
        let (mut all, mut images) = (Self::default(), None);
        for word in words {
            if let Some(key) = word.strip_prefix('@') {
                images = Some(hexadecimal(key, 16)?);
                continue;
            }
            let (instance_type, facts) = word.split_once('=').filter(|(name, _)| !name.is_empty())?;
            let mut facts = facts.split(',');
            let bytes: i64 = facts.next()?.parse().ok().filter(|bytes| *bytes > 0)?;
            let day: i64 = facts.next()?.parse().ok()?;
            let expires = Timestamp::from_second(day.checked_mul(SECONDS_PER_DAY)?).ok()?;
            let nodes = facts.map(|node| u32::try_from(hexadecimal(node, 8)?).ok());
            let nodes = nodes.collect::<Option<BTreeSet<u32>>>()?;
            if nodes.is_empty() || nodes.len() > SIGHTINGS_MIN {
                return None;
            }
            let expires = expires.min(expiry(now));
            let sighting = Sighting { bytes, nodes, expires };
            all.seen.insert((images?, instance_type.to_owned()), sighting);
        }
        Some(all)
    }

    /// Without expired observations.
    #[must_use]
    pub fn without_expired(mut self, now: Timestamp) -> Self {
        self.seen.retain(|_, sighting| sighting.expires > now);
        self
    }
}

fn images_text(images: u64) -> String {
    format!(" @{images:016x}")
}

fn sighting_text(instance_type: &str, sighting: &Sighting) -> String {
    let mut text = format!(" {instance_type}={},{}", sighting.bytes, sighting.expiry_day());
    for node in &sighting.nodes {
        text.push_str(&format!(",{node:08x}"));
    }
    text
}

/// A number of exactly so many hexadecimal digits.
fn hexadecimal(text: &str, digits: usize) -> Option<u64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| u64::from_str_radix(text, 16).ok())?
}
