//! Memory that registered nodes reported, by instance type and images (AWS-199, AWS-200, AWS-430, AWS-441).
//!
//! The part of memory that the hypervisor keeps is a guess until a node has registered. What nodes report replaces the guess, for the images
//! they run: other images may leave another amount.

use crate::intervals::DISCOVERED_MEMORY;
use jiff::{SignedDuration, Timestamp};
use kerf_api::ec2_node_class::NodeClassAmi;
use kerf_api::hash::{list, primitive};
use std::collections::BTreeMap;

/// Nodes that must have reported before an amount is used: one odd node must not decide about all later ones.
pub const SIGHTINGS_MIN: u32 = 2;

/// The images of a class as a key; their order does not count.
pub fn images_key(amis: &[NodeClassAmi]) -> u64 {
    list(amis.iter().map(|ami| primitive(ami.id.as_bytes())))
}

/// What was reported for one instance type and set of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The least memory that a node reported, in bytes.
    pub bytes: i64,
    /// Number of nodes that reported.
    pub nodes: u32,
    /// When it is forgotten.
    pub expires: Timestamp,
}

/// Memory that registered nodes reported.
#[derive(Clone, Debug, Default)]
pub struct DiscoveredMemory {
    seen: BTreeMap<(String, u64), Sighting>,
}

impl DiscoveredMemory {
    /// A node registered. `is_current_image` says whether it runs the image that its type gets now; other nodes say nothing about new ones.
    /// Returns whether an amount that is used changed, so that instance types must be computed anew.
    pub fn observe(
        &mut self,
        instance_type: &str,
        images: u64,
        bytes: i64,
        is_current_image: bool,
        now: Timestamp,
    ) -> bool {
        if !is_current_image || bytes <= 0 {
            return false;
        }
        let before = self.memory(instance_type, images, now);
        let span = SignedDuration::try_from(DISCOVERED_MEMORY).unwrap_or(SignedDuration::ZERO);
        let expires = now.saturating_add(span).unwrap_or(now);
        let fresh = Sighting {
            bytes,
            nodes: 0,
            expires,
        };
        let entry = self.seen.entry((instance_type.to_owned(), images)).or_insert(fresh);
        if entry.expires <= now {
            *entry = fresh;
        }
        entry.bytes = entry.bytes.min(bytes);
        entry.nodes = entry.nodes.saturating_add(1);
        entry.expires = expires;
        self.memory(instance_type, images, now) != before
    }

    /// The memory of nodes of a type with these images, in bytes; `None` while too few nodes have reported.
    pub fn memory(&self, instance_type: &str, images: u64, now: Timestamp) -> Option<i64> {
        let sighting = self.seen.get(&(instance_type.to_owned(), images))?;
        (sighting.nodes >= SIGHTINGS_MIN && sighting.expires > now).then_some(sighting.bytes)
    }

    /// Everything known, to be kept where a restart finds it.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64, Sighting)> {
        self.seen
            .iter()
            .map(|((name, images), sighting)| (name.as_str(), *images, *sighting))
    }

    /// Takes back what was kept.
    pub fn restore(&mut self, instance_type: &str, images: u64, sighting: Sighting) {
        self.seen.insert((instance_type.to_owned(), images), sighting);
    }
}
