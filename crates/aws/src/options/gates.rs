//! The feature gates of the provider.

use kerf_runtime::options::go_bool;
use kerf_units::nearest_name::nearest;

/// Features of the provider that are off unless they are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AwsFeatureGates {
    /// `NodeClassCEL`: kubelet settings of a class may be expressions.
    pub node_class_cel: bool,
    /// `ExtendedKubeletConfiguration`: a class may have every field of kubelet's configuration.
    pub extended_kubelet: bool,
}

impl AwsFeatureGates {
    /// The names of the gates.
    pub const NAMES: [&str; 2] = ["NodeClassCEL", "ExtendedKubeletConfiguration"];

    /// Reads `Name=true,Name=false`; the last entry of a gate counts. An unknown gate is an error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut gates = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, value) = entry
                .split_once('=')
                .ok_or_else(|| format!("has the malformed pair {entry:?}, expect Name=true or Name=false"))?;
            let on = go_bool(value.trim()).ok_or_else(|| {
                format!(
                    "has the value {:?} for {}, which must be true or false",
                    value.trim(),
                    name.trim()
                )
            })?;
            match name.trim() {
                "NodeClassCEL" => gates.node_class_cel = on,
                "ExtendedKubeletConfiguration" => gates.extended_kubelet = on,
                unknown => {
                    let meant = nearest(unknown, Self::NAMES).map(|meant| format!(" (did you mean {meant}?)"));
                    let (meant, known) = (meant.unwrap_or_default(), Self::NAMES.join(", "));
                    return Err(format!("has the unknown gate {unknown}{meant}; known are {known}"));
                }
            }
        }
        Ok(gates)
    }
}
