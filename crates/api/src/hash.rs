//! Drift hashes of templates, equal to those that Karpenter writes (API-187 to API-199).
//!
//! A claim whose stored hash differs from its pool's has drifted, so after a switch between the two implementations every
//! node would be replaced if a single bit came out differently. The algorithm walks a structure by type and field names:
//! each included field is mixed in and hashed again at once, which makes the order of fields matter; maps and lists do not
//! depend on order. Absent values are left out, present but empty ones are not (API-194, API-230).

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use kerf_units::duration::{GoDuration, NillableDuration};

use crate::annotations;
use crate::node_pool::{NodeClaimTemplate, NodeClaimTemplateSpec, NodePool, TemplateMetadata};
use crate::node_spec::NodeClassRef;

/// Version of the algorithm, written beside every hash (API-200). Another algorithm must use another one (API-203).
pub const NODE_POOL_HASH_VERSION: &str = "v3";

impl NodePool {
    /// The drift hash of the template, as its annotation shows it.
    pub fn drift_hash(&self) -> String {
        self.spec.template.drift_hash().to_string()
    }
}

impl NodeClaimTemplate {
    /// The drift hash: labels, annotations, taints, class, grace period and expiry; never the requirements (API-188).
    pub fn drift_hash(&self) -> u64 {
        let mut hash = StructHash::new("NodeClaimTemplate");
        // Both parts are plain structs in the original and count as zero only if all their fields do.
        hash.field("ObjectMeta", self.metadata.as_ref().and_then(metadata));
        hash.field("Spec", template_spec(&self.spec));
        hash.finish()
    }
}

fn metadata(metadata: &TemplateMetadata) -> Option<u64> {
    let TemplateMetadata { labels, annotations } = metadata;
    if labels.is_none() && annotations.is_none() {
        return None;
    }
    let mut hash = StructHash::new("ObjectMeta");
    hash.field("Labels", labels.as_ref().map(string_map));
    hash.field("Annotations", annotations.as_ref().map(string_map));
    Some(hash.finish())
}

fn template_spec(spec: &NodeClaimTemplateSpec) -> Option<u64> {
    let mut hash = StructHash::new("NodeClaimTemplateSpec");
    hash.field("Taints", spec.taints.as_deref().map(taints));
    hash.field("StartupTaints", spec.startup_taints.as_deref().map(taints));
    hash.field("NodeClassRef", Some(node_class_ref(&spec.node_class_ref)));
    let grace = spec.termination_grace_period.as_ref();
    hash.field(
        "TerminationGracePeriod",
        grace.map(|grace| duration("Duration", grace.value())),
    );
    let expiry = spec.expire_after.as_ref().and_then(NillableDuration::value);
    hash.field(
        "ExpireAfter",
        expiry.map(|expiry| duration_pointer("NillableDuration", expiry)),
    );
    Some(hash.finish())
}

fn node_class_ref(class: &NodeClassRef) -> u64 {
    let mut hash = StructHash::new("NodeClassReference");
    hash.field("Kind", text(&class.kind));
    hash.field("Name", text(&class.name));
    hash.field("Group", text(&class.group));
    hash.finish()
}

fn taints(taints: &[Taint]) -> u64 {
    list(taints.iter().map(|taint| {
        let mut hash = StructHash::new("Taint");
        hash.field("Key", text(&taint.key));
        hash.field("Value", text(taint.value.as_deref().unwrap_or_default()));
        hash.field("Effect", text(&taint.effect));
        hash.field("TimeAdded", taint.time_added.as_ref().map(|time| timestamp(time.0)));
        hash.finish()
    }))
}

/// A time of the API: taken for a struct of hidden fields, which contribute nothing. No vector covers it, and a template has
/// no use for the field.
fn timestamp(_time: Timestamp) -> u64 {
    StructHash::new("Time").finish()
}

/// Hash of a duration in a struct of this name; zero does not count.
pub(crate) fn duration(type_name: &str, value: GoDuration) -> u64 {
    let mut hash = StructHash::new(type_name);
    hash.field(
        "Duration",
        (value != GoDuration::ZERO).then(|| primitive(&value.as_nanos().to_le_bytes())),
    );
    hash.finish()
}

/// As [`duration`], for a field that points at its value: zero is then something else than absence.
fn duration_pointer(type_name: &str, value: GoDuration) -> u64 {
    let mut hash = StructHash::new(type_name);
    hash.field("Duration", Some(primitive(&value.as_nanos().to_le_bytes())));
    hash.finish()
}

/// A string field: left out when empty.
fn text(value: &str) -> Option<u64> {
    (!value.is_empty()).then(|| primitive(value.as_bytes()))
}

/// FNV-1, 64 bits: multiply, then xor (API-189).
pub fn primitive(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(*byte)
    })
}

fn ordered(a: u64, b: u64) -> u64 {
    let mut bytes = [0; 16];
    let (low, high) = bytes.split_at_mut(8);
    low.copy_from_slice(&a.to_le_bytes());
    high.copy_from_slice(&b.to_le_bytes());
    primitive(&bytes)
}

fn finish(hash: u64) -> u64 {
    primitive(&hash.to_le_bytes())
}

/// Hash of a map of strings: pairs in any order, hashed once more (API-193).
pub fn string_map(strings: &BTreeMap<String, String>) -> u64 {
    map(strings
        .iter()
        .map(|(key, value)| (key.as_str(), primitive(value.as_bytes()))))
}

/// Hash of a map from strings to values with these hashes.
pub(crate) fn map<'a>(entries: impl IntoIterator<Item = (&'a str, u64)>) -> u64 {
    let entries = entries.into_iter();
    finish(entries.fold(0, |hash, (key, value)| hash ^ ordered(primitive(key.as_bytes()), value)))
}

/// Hash of a list: its elements in any order, so that equal ones cancel out (API-193, API-197).
pub fn list(elements: impl IntoIterator<Item = u64>) -> u64 {
    elements.into_iter().fold(0, |hash, element| hash ^ element)
}

/// Hash of a structure under construction (API-192).
#[derive(Clone, Copy, Debug)]
pub struct StructHash(u64);

impl StructHash {
    /// Begins with the name of the type.
    pub fn new(type_name: &str) -> Self {
        Self(primitive(type_name.as_bytes()))
    }

    /// Mixes in a field; `None` is a zero value, which is left out.
    pub fn field(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.0 = finish(self.0 ^ ordered(primitive(name.as_bytes()), value));
        }
    }

    /// The hash.
    pub const fn finish(self) -> u64 {
        self.0
    }
}

/// Whether a text can be the hash of a template.
pub fn is_hash(text: &str) -> bool {
    text.parse::<u64>().is_ok()
}

/// Whether claim and pool say that the template has changed since the claim was made. Without all four annotations, or with
/// two versions, there is nothing to compare (API-202, DIS-221), nor with what is no hash (deviation at DIS-218).
pub fn has_drifted(pool: &BTreeMap<String, String>, claim: &BTreeMap<String, String>) -> bool {
    let both = |key| Some((pool.get(key)?, claim.get(key)?));
    let hashes = both(annotations::NODE_POOL_HASH).filter(|(pool, claim)| is_hash(pool) && is_hash(claim));
    let versions = both(annotations::NODE_POOL_HASH_VERSION);
    matches!((hashes, versions), (Some((a, b)), Some((v, w))) if v == w && a != b)
}
