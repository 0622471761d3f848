//! Taints and tolerations (SCH-113 and following).

use std::fmt;
use std::sync::Arc;

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Effect {
    /// New pods stay away.
    NoSchedule,
    /// New pods stay away where they can.
    PreferNoSchedule,
    /// New pods stay away, running ones are evicted.
    NoExecute,
}

impl Effect {
    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }

    /// From the name in the API.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute]
            .into_iter()
            .find(|effect| effect.as_str() == text)
    }
}

/// A taint on a node, pool or claim.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Taint {
    /// The key.
    pub key: Arc<str>,
    /// The value, empty when unset.
    pub value: Arc<str>,
    /// The effect.
    pub effect: Effect,
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        write!(f, ":{}", self.effect.as_str())
    }
}

/// How a toleration compares its value with the taint's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum TolerationOperator {
    /// Equal text; also what an empty operator means.
    Equal,
    /// Any value.
    Exists,
    /// The taint's value, an integer, is below the toleration's.
    Lt,
    /// The taint's value, an integer, is above the toleration's.
    Gt,
    /// An operator this version does not know: matches nothing.
    Unknown,
}

/// A toleration of a pod.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Toleration {
    /// The key; `None` (with `Exists`) matches all keys.
    pub key: Option<Arc<str>>,
    /// The comparison.
    pub operator: TolerationOperator,
    /// The value compared with.
    pub value: Arc<str>,
    /// The effect; `None` matches all effects.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// The toleration of every `PreferNoSchedule` taint, relaxation's last step (SCH-119).
    pub fn prefer_no_schedule() -> Self {
        Self {
            key: None,
            operator: TolerationOperator::Exists,
            value: Arc::from(""),
            effect: Some(Effect::PreferNoSchedule),
        }
    }

    /// Whether this toleration covers the taint (SCH-113).
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if self
            .key
            .as_deref()
            .is_some_and(|key| !key.is_empty() && *key != *taint.key)
        {
            return false;
        }
        let integers = || Some((taint.value.parse::<i64>().ok()?, self.value.parse::<i64>().ok()?));
        match self.operator {
            TolerationOperator::Equal => self.value == taint.value,
            TolerationOperator::Exists => true,
            TolerationOperator::Lt => integers().is_some_and(|(taint, bound)| taint < bound),
            TolerationOperator::Gt => integers().is_some_and(|(taint, bound)| taint > bound),
            TolerationOperator::Unknown => false,
        }
    }
}

/// The first taint that no toleration covers, whatever its effect (SCH-113).
pub fn first_untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints
        .iter()
        .find(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str, effect: Effect) -> Taint {
        Taint {
            key: key.into(),
            value: value.into(),
            effect,
        }
    }

    fn toleration(key: &str, operator: TolerationOperator, value: &str, effect: Option<Effect>) -> Toleration {
        Toleration {
            key: (!key.is_empty()).then(|| key.into()),
            operator,
            value: value.into(),
            effect,
        }
    }

    // SCH-113
    #[test]
    fn tolerations_match_as_kubernetes_matches_them() {
        use TolerationOperator::{Equal, Exists, Gt, Lt, Unknown};
        let gpu = taint("gpu", "5", Effect::NoSchedule);
        let table = [
            (toleration("gpu", Equal, "5", Some(Effect::NoSchedule)), true),
            (toleration("gpu", Equal, "6", Some(Effect::NoSchedule)), false),
            (toleration("gpu", Equal, "5", None), true),
            (toleration("gpu", Exists, "", Some(Effect::NoExecute)), false),
            (toleration("gpu", Exists, "", None), true),
            (toleration("", Exists, "", None), true),
            (toleration("other", Exists, "", None), false),
            (toleration("gpu", Lt, "6", None), true),
            (toleration("gpu", Gt, "6", None), false),
            (toleration("gpu", Gt, "four", None), false),
            (toleration("gpu", Unknown, "5", None), false),
        ];
        for (toleration, expected) in table {
            assert_eq!(toleration.tolerates(&gpu), expected, "{toleration:?}");
        }
    }

    // SCH-113, SCH-119
    #[test]
    fn every_effect_repels_until_tolerated() {
        let soft = [taint("a", "", Effect::PreferNoSchedule)];
        assert_eq!(
            first_untolerated(&soft, &[]).map(ToString::to_string),
            Some("a:PreferNoSchedule".to_owned())
        );
        assert_eq!(first_untolerated(&soft, &[Toleration::prefer_no_schedule()]), None);
    }
}
