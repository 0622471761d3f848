//! Requirements of API objects as the model's.

use kerf_api::{LabelRules, Operator};
use kerf_model::intern::Interner;
use kerf_model::requirement::{Requirement, Requirements};

/// One requirement with its key and values normalised (SCH-099); an operator that does not exist and a bound that is no integer admit
/// nothing, which validation reports elsewhere.
pub fn requirement(
    key: &str,
    operator: &Operator,
    values: &[String],
    rules: &LabelRules,
    interner: &Interner,
) -> Requirement {
    let key = rules.normalize(key);
    let id = interner.intern(key);
    let interned = values
        .iter()
        .map(|value| interner.intern(rules.normalize_value(key, value)));
    let bound = || values.first().and_then(|value| value.parse::<i64>().ok());
    let bounded = |make: fn(i64) -> (Option<i64>, Option<i64>)| match bound().map(make) {
        Some((gte, lte)) => Requirement::between(id, gte, lte),
        None => Requirement::does_not_exist(id),
    };
    match operator {
        Operator::In => Requirement::any_of(id, interned),
        Operator::NotIn => Requirement::none_of(id, interned),
        Operator::Exists => Requirement::exists(id),
        Operator::DoesNotExist | Operator::Unsupported(_) => Requirement::does_not_exist(id),
        Operator::Gt => bound().map_or_else(|| Requirement::does_not_exist(id), |n| Requirement::greater(id, n)),
        Operator::Lt => bound().map_or_else(|| Requirement::does_not_exist(id), |n| Requirement::less(id, n)),
        Operator::Gte => bounded(|n| (Some(n), None)),
        Operator::Lte => bounded(|n| (None, Some(n))),
    }
}

/// The requirements of a NodeClaim or of a pool's template.
pub fn requirements(written: &[kerf_api::Requirement], rules: &LabelRules, interner: &Interner) -> Requirements {
    let each = written.iter().map(|one| {
        let min_values = one.min_values.and_then(|least| u32::try_from(least).ok());
        requirement(&one.key, &one.operator, &one.values, rules, interner).with_min_values(min_values)
    });
    Requirements::from_all(each, interner)
}
