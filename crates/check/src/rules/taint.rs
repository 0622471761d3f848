//! Taints and tolerations.

use kerf_model::taint::{Effect, Taint, Toleration, TolerationOperator};

/// Whether a toleration matches a taint: keys and effects are the same (one that is not given matches all), and the operator is `Exists`,
/// or `Equal` with the taint's value, or `Lt` or `Gt` between two integers.
pub(crate) fn matches(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let same_key = key.is_empty() || key == &*taint.key;
    let same_effect = match toleration.effect {
        None => true,
        Some(effect) => effect.as_str() == taint.effect.as_str(),
    };
    let (taint_number, number) = (taint.value.parse::<i64>(), toleration.value.parse::<i64>());
    let value = match toleration.operator {
        TolerationOperator::Exists => true,
        TolerationOperator::Equal => *taint.value == *toleration.value,
        TolerationOperator::Lt => matches!((taint_number, number), (Ok(own), Ok(bound)) if own < bound),
        TolerationOperator::Gt => matches!((taint_number, number), (Ok(own), Ok(bound)) if own > bound),
        TolerationOperator::Unknown => false,
    };
    same_key && same_effect && value
}

/// The first taint that keeps a pod with these tolerations from being bound: `PreferNoSchedule` never does.
pub(crate) fn first_refusing<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    for taint in taints {
        let refuses = taint.effect == Effect::NoSchedule || taint.effect == Effect::NoExecute;
        if refuses && !tolerations.iter().any(|toleration| matches(toleration, taint)) {
            return Some(taint);
        }
    }
    None
}
