//! Would nodes drift on the day of the swap, because Kerf computes another hash of their EC2NodeClass?

use super::facts::{self, Facts, containers};
use super::finding::{Finding, Level};
use kerf_api::ec2_node_class::{EC2_NODE_CLASS_HASH_VERSION, has_static_drift};
use kerf_api::hash::primitive;
use kerf_api::{EC2NodeClass, NodeClaim, annotations};
use std::collections::{BTreeMap, BTreeSet};

const CHECK: &str = "drift";

/// A class whose stored hash has Kerf's version.
struct Hashed<'a> {
    class: &'a EC2NodeClass,
    stored: &'a str,
    /// The part of the stored hash that is the CA bundle's, if everything else of it is as Kerf computes it: parts are joined by exclusive or.
    bundle: u64,
}

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    if facts.classes.is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut hashed = Vec::new();
    for class in &facts.classes {
        let stored = class.metadata.annotations.as_ref();
        let stored = |key: &str| stored.and_then(|all| all.get(key)).map(String::as_str);
        let version = stored(annotations::EC2_NODE_CLASS_HASH_VERSION);
        match stored(annotations::EC2_NODE_CLASS_HASH) {
            Some(hash) if version == Some(EC2_NODE_CLASS_HASH_VERSION) => {
                let number = |text: &str| text.parse::<u64>().unwrap_or_default();
                let without = number(&class.drift_hash("")) ^ primitive(b"");
                hashed.push(Hashed {
                    class,
                    stored: hash,
                    bundle: number(hash) ^ without,
                });
            }
            _ => {
                let written = version.unwrap_or("none");
                let message = format!(
                    "hash version is {written}, Kerf's is {EC2_NODE_CLASS_HASH_VERSION}: Kerf writes the hashes of the class and its claims anew, and nothing drifts"
                );
                findings.push(Finding::new(Level::Note, CHECK, message).on(title(class)));
            }
        }
    }
    findings.extend(compare(facts, &hashed));
    findings
}

fn title(class: &EC2NodeClass) -> String {
    facts::title("EC2NodeClass", None, class.name())
}

fn compare(facts: &Facts, hashed: &[Hashed<'_>]) -> Vec<Finding> {
    let bundles: BTreeSet<u64> = hashed.iter().map(|one| one.bundle).collect();
    let known = bundle(facts);
    let count = hashed.len();
    let (expected, how) = match (&known, bundles.first()) {
        (Some(bundle), _) => (primitive(bundle.as_bytes()), ""),
        // Two classes that have the same bundle prove each other.
        (None, Some(only)) if bundles.len() == 1 && count > 1 => {
            (*only, " (for one CA bundle, which is not among the files)")
        }
        _ => {
            let message = format!(
                "the CA bundle of the cluster is not known, so the hashes of {count} EC2NodeClasses cannot be compared; check the cluster itself, or add the Deployment with CLUSTER_CA_BUNDLE"
            );
            return match count {
                0 => Vec::new(),
                _ => vec![Finding::new(Level::Skipped, CHECK, message)],
            };
        }
    };
    let other = hashed.iter().filter(|one| one.bundle != expected);
    let findings: Vec<Finding> = other
        .map(|one| judge(one, known.as_deref().unwrap_or_default(), &facts.claims))
        .collect();
    if !findings.is_empty() || count == 0 {
        return findings;
    }
    let message = format!("the hashes of {count} EC2NodeClasses stay as they are{how}");
    vec![Finding::new(Level::Ok, CHECK, message)]
}

fn judge(one: &Hashed<'_>, bundle: &str, claims: &[NodeClaim]) -> Finding {
    let none = BTreeMap::new();
    let (before, computed) = (
        one.class.metadata.annotations.as_ref().unwrap_or(&none),
        one.class.drift_hash(bundle),
    );
    let mut after = before.clone();
    after.insert(annotations::EC2_NODE_CLASS_HASH.to_owned(), computed.clone());
    let of_class = claims
        .iter()
        .filter(|claim| Some(&claim.spec.node_class_ref.name) == one.class.metadata.name.as_ref());
    let drifting = of_class.filter(|claim| {
        let claim = claim.metadata.annotations.as_ref().unwrap_or(&none);
        has_static_drift(&after, claim) && !has_static_drift(before, claim)
    });
    let stored = one.stored;
    let message = format!("hash is {stored}, Kerf computes {computed}");
    let (level, message) = match drifting.count() {
        0 => (Level::Warning, format!("{message}; no NodeClaim drifts because of it")),
        count => {
            let reason = "the class was changed while no controller ran, the controller knows another CA bundle, or this is a defect of Kerf";
            (
                Level::Problem,
                format!("{message}: {count} NodeClaims would drift; {reason}"),
            )
        }
    };
    Finding::new(level, CHECK, message).on(title(one.class))
}

/// The CA bundle that the controller hashes: that of its option, else that with which it reaches the API server.
fn bundle(facts: &Facts) -> Option<String> {
    let mut variables = facts
        .deployments
        .iter()
        .flat_map(containers)
        .flat_map(|container| container.env.iter().flatten());
    let option = variables.find(|variable| variable.name == "CLUSTER_CA_BUNDLE");
    let option = option.and_then(|variable| variable.value.clone());
    option
        .filter(|value| !value.is_empty())
        .or_else(|| facts.ca_bundle.clone())
}
