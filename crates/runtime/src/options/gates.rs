//! Feature gates (section 2 of `docs/behaviour/operations.md`).

use std::str::FromStr;

use super::parse::go_bool;

/// Which features are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    /// Replaces nodes with unhealthy conditions (OPS-033).
    pub node_repair: bool,
    /// Plans with capacity reservations (OPS-034).
    pub reserved_capacity: bool,
    /// Lets consolidation replace spot nodes by spot nodes (OPS-035).
    pub spot_to_spot_consolidation: bool,
    /// Applies NodeOverlays to instance types (OPS-036).
    pub node_overlay: bool,
    /// Keeps the replicas of static pools (OPS-037).
    pub static_capacity: bool,
    /// Capacity buffers (OPS-038).
    pub capacity_buffer: bool,
}

impl FeatureGates {
    /// The names of all gates.
    pub const NAMES: [&'static str; 6] = [
        "NodeRepair",
        "ReservedCapacity",
        "SpotToSpotConsolidation",
        "NodeOverlay",
        "StaticCapacity",
        "CapacityBuffer",
    ];

    /// The names in a list of gates that this version does not know.
    pub fn unknown_names(text: &str) -> Vec<&str> {
        text.split(',')
            .map(|entry| entry.split('=').next().unwrap_or_default().trim())
            .filter(|name| !name.is_empty() && !Self::NAMES.contains(name))
            .collect()
    }
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self {
            node_repair: false,
            reserved_capacity: true,
            spot_to_spot_consolidation: false,
            node_overlay: false,
            static_capacity: false,
            capacity_buffer: false,
        }
    }
}

/// Why a list of gates cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// An entry without `=`.
    #[error("malformed pair {entry:?}, expect Name=true or Name=false")]
    NoValue {
        /// The entry.
        entry: String,
    },
    /// A value that is no boolean.
    #[error("invalid value of {name}: {value:?}, expect true or false")]
    NotBool {
        /// The gate.
        name: String,
        /// Its value.
        value: String,
    },
}

impl FromStr for FeatureGates {
    type Err = GateError;

    /// `Name=bool,…`: white space around names and values is ignored, unknown names too (they may be of a newer
    /// version), and gates not named keep their defaults (OPS-039).
    fn from_str(text: &str) -> Result<Self, GateError> {
        let mut gates = Self::default();
        for entry in text.split(',').filter(|entry| !entry.is_empty()) {
            let (name, value) = entry.split_once('=').ok_or_else(|| GateError::NoValue {
                entry: entry.to_owned(),
            })?;
            let (name, value) = (name.trim(), value.trim());
            let on = go_bool(value).ok_or_else(|| GateError::NotBool {
                name: name.to_owned(),
                value: value.to_owned(),
            })?;
            match name {
                "NodeRepair" => gates.node_repair = on,
                "ReservedCapacity" => gates.reserved_capacity = on,
                "SpotToSpotConsolidation" => gates.spot_to_spot_consolidation = on,
                "NodeOverlay" => gates.node_overlay = on,
                "StaticCapacity" => gates.static_capacity = on,
                "CapacityBuffer" => gates.capacity_buffer = on,
                _ => {}
            }
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_listed() {
        let known = FeatureGates::NAMES.join("=true,");
        assert!(FeatureGates::unknown_names(&known).is_empty());
        assert_eq!(FeatureGates::unknown_names("NodeRepair=true, Foo=true,"), ["Foo"]);
    }

    #[test]
    fn gates_not_named_keep_their_defaults() {
        // OPS-033, OPS-034, OPS-035, OPS-036, OPS-037, OPS-038, SCH-006
        let defaults = FeatureGates {
            node_repair: false,
            reserved_capacity: true,
            spot_to_spot_consolidation: false,
            node_overlay: false,
            static_capacity: false,
            capacity_buffer: false,
        };
        assert_eq!(FeatureGates::default(), defaults);
        // OPS-027
        assert_eq!("".parse(), Ok(defaults));
        // OPS-256
        assert_eq!(
            "NodeRepair=true".parse(),
            Ok(FeatureGates {
                node_repair: true,
                ..defaults
            })
        );
        // OPS-039, SCH-006
        assert_eq!(
            " StaticCapacity =\ttrue ,Unknown=true,ReservedCapacity=0,".parse(),
            Ok(FeatureGates {
                static_capacity: true,
                reserved_capacity: false,
                ..defaults
            })
        );
        assert_eq!(
            "NodeOverlay=T,CapacityBuffer=1,SpotToSpotConsolidation=TRUE".parse(),
            Ok(FeatureGates {
                node_overlay: true,
                capacity_buffer: true,
                spot_to_spot_consolidation: true,
                ..defaults
            })
        );
    }

    #[test]
    fn bad_gates_are_refused() {
        // OPS-039
        for text in ["NodeRepair", "NodeRepair=", "NodeRepair=yes", "Unknown=maybe", " "] {
            assert!(text.parse::<FeatureGates>().is_err(), "{text:?}");
        }
    }
}
