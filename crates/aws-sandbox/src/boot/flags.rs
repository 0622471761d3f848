//! Kubelet's command-line flags.

use super::bootstrap::{BootError, Bootstrap};
use super::words::words;
use kerf_aws::user_data::NodeTaint;
use std::collections::BTreeMap;

/// Takes over kubelet's flags from a text.
pub(super) fn read(text: &str, into: &mut Bootstrap) -> Result<(), BootError> {
    let words = words(text).ok_or(BootError::Unreadable("kubelet's flags have a quote that does not end"))?;
    read_words(&words, into)
}

/// The same from single words.
pub(super) fn read_words(words: &[String], into: &mut Bootstrap) -> Result<(), BootError> {
    for word in words {
        let Some((name, value)) = word.split_once('=') else {
            continue;
        };
        // Flags of lists have their own quotes in the words that systemd splits.
        let value = value.trim_matches('"');
        let number = || {
            value
                .parse::<i32>()
                .map_err(|_| BootError::Unreadable("a flag of kubelet is no number"))
        };
        let kubelet = &mut into.kubelet;
        match name {
            "--node-labels" => into.labels.extend(pairs(value, '=')),
            "--register-with-taints" => into.taints.extend(value.split(',').filter_map(taint)),
            "--max-pods" => kubelet.max_pods = Some(number()?.into()),
            "--pods-per-core" => kubelet.pods_per_core = Some(number()?),
            "--system-reserved" => kubelet.system_reserved = Some(pairs(value, '=').collect()),
            "--kube-reserved" => kubelet.kube_reserved = Some(pairs(value, '=').collect()),
            "--eviction-hard" => kubelet.eviction_hard = Some(pairs(value, '<').collect()),
            "--eviction-soft" => kubelet.eviction_soft = Some(pairs(value, '<').collect()),
            "--image-gc-high-threshold" => kubelet.image_gc_high_threshold_percent = Some(number()?),
            "--image-gc-low-threshold" => kubelet.image_gc_low_threshold_percent = Some(number()?),
            _ => {}
        }
    }
    Ok(())
}

/// `key<separator>value,…`.
fn pairs(text: &str, separator: char) -> impl Iterator<Item = (String, String)> {
    let each = text.split(',').filter_map(move |pair| pair.split_once(separator));
    let owned: BTreeMap<String, String> = each.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    owned.into_iter()
}

/// `key=value:Effect` or `key:Effect`.
fn taint(text: &str) -> Option<NodeTaint> {
    let (rest, effect) = text.rsplit_once(':')?;
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    Some(NodeTaint::new(key, value, effect))
}
