//! Node selector expressions, and labels that are still open.

use super::config;
use crate::rules::expression::{Expression, read_all, selects};
use crate::rules::open_label::{OpenLabel, may_satisfy};
use kerf_model::intern::{Interner, Sym};
use kerf_model::pod::PodShape;
use kerf_model::requirement::{Requirement, Requirements};
use proptest::prelude::*;

const VALUES: [&str; 9] = ["a", "b", "4", "5", "05", "6", "-1", "", "9223372036854775807"];
const KEYS: [&str; 3] = ["x", "y", "kubernetes.io/arch"];

/// An expression as a manifest writes it.
#[derive(Clone, Debug)]
enum Written {
    In(Vec<usize>),
    NotIn(Vec<usize>),
    Exists,
    DoesNotExist,
    Gt(i64),
    Lt(i64),
    Gte(i64),
    Lte(i64),
    /// `NotIn` the values, `Gte` the first number and `Lte` the second, as one requirement.
    NotInWithin(Vec<usize>, i64, i64),
}

fn values() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..VALUES.len(), 1..4)
}

fn with(number: impl Strategy<Value = i64>) -> impl Strategy<Value = Written> {
    let operators = [Written::Gt, Written::Lt, Written::Gte, Written::Lte];
    (prop::sample::select(operators.to_vec()), number).prop_map(|(operator, number)| operator(number))
}

fn written() -> impl Strategy<Value = Written> {
    prop_oneof![
        3 => values().prop_map(Written::In),
        2 => values().prop_map(Written::NotIn),
        1 => Just(Written::Exists),
        1 => Just(Written::DoesNotExist),
        3 => with(-2_i64..8),
    ]
}

/// Besides what a manifest writes usually: the ends of the range, and exclusions together with bounds.
fn unusual() -> impl Strategy<Value = Written> {
    prop_oneof![
        1 => with(prop::sample::select(&[i64::MIN, i64::MAX - 1, i64::MAX][..])),
        2 => (values(), -2_i64..8, -2_i64..8).prop_map(|(values, least, most)| Written::NotInWithin(values, least, most)),
    ]
}

impl Written {
    fn requirement(&self, key: Sym, interner: &Interner) -> Requirement {
        let text = |values: &[usize]| values.iter().map(|at| interner.intern(VALUES[*at])).collect::<Vec<_>>();
        match self {
            Self::In(values) => Requirement::any_of(key, text(values)),
            Self::NotIn(values) => Requirement::none_of(key, text(values)),
            Self::Exists => Requirement::exists(key),
            Self::DoesNotExist => Requirement::does_not_exist(key),
            Self::Gt(number) => Requirement::greater(key, *number),
            Self::Lt(number) => Requirement::less(key, *number),
            Self::Gte(number) => Requirement::between(key, Some(*number), None),
            Self::Lte(number) => Requirement::between(key, None, Some(*number)),
            Self::NotInWithin(values, least, most) => {
                let within = Requirement::between(key, Some(*least), Some(*most));
                Requirement::none_of(key, text(values)).intersect(&within, interner)
            }
        }
    }

    /// Whether a label, or its absence, satisfies the expression as Kubernetes documents the operators. Bounds that no integer of zero or
    /// more satisfies are read as `DoesNotExist` (SCH-084, SCH-088, SCH-479).
    fn admits(&self, label: Option<&str>) -> bool {
        let listed = |values: &[usize]| label.is_some_and(|label| values.iter().any(|at| VALUES[*at] == label));
        let integer = label.and_then(|label| label.parse::<i64>().ok());
        match self {
            Self::In(values) => listed(values),
            Self::NotIn(values) => !listed(values),
            Self::Exists => label.is_some(),
            Self::DoesNotExist | Self::Gt(i64::MAX) | Self::Lt(..=0) | Self::Lte(..0) => label.is_none(),
            Self::NotInWithin(_, least, most) if least > most || *most < 0 => label.is_none(),
            Self::Gt(number) => integer.is_some_and(|value| value > *number),
            Self::Lt(number) => integer.is_some_and(|value| value < *number),
            Self::Gte(number) => integer.is_some_and(|value| value >= *number),
            Self::Lte(number) => integer.is_some_and(|value| value <= *number),
            Self::NotInWithin(values, least, most) => {
                !listed(values) && integer.is_some_and(|value| *least <= value && value <= *most)
            }
        }
    }
}

/// Requirements over some of the keys, one expression a key.
fn set() -> impl Strategy<Value = Vec<(usize, Written)>> {
    prop::collection::vec((0..KEYS.len(), written()), 0..4)
}

fn read(set: &[(usize, Written)], interner: &Interner) -> Vec<Requirement> {
    let mut all: Vec<Requirement> = Vec::new();
    for (key, written) in set {
        let requirement = written.requirement(interner.intern(KEYS[*key]), interner);
        if all.iter().all(|known| known.key != requirement.key) {
            all.push(requirement);
        }
    }
    all
}

proptest! {
    #![proptest_config(config(1))]

    #[test]
    fn an_expression_admits_what_it_says(written in prop_oneof![written(), unusual()], value in prop::option::of(0..VALUES.len())) {
        let interner = Interner::default();
        let requirement = written.requirement(interner.intern("x"), &interner);
        let label = value.map(|at| VALUES[at]);
        let expected = written.admits(label);
        prop_assert_eq!(Expression::read(&requirement, &interner).holds(label), expected);
        match label {
            Some(text) => prop_assert_eq!(requirement.has(interner.intern(text), &interner), expected),
            // The model takes exclusions together with bounds for `NotIn`, which a missing label satisfies (SCH-085).
            None if matches!(written, Written::NotInWithin(..)) => {}
            None => prop_assert_eq!(requirement.admits_absence(), expected),
        }
    }

    #[test]
    fn labels_of_a_node_are_selected_alike(
        selector in set(), terms in prop::collection::vec(set(), 0..3),
        labels in prop::collection::vec(prop::option::of(0..VALUES.len()), KEYS.len()),
    ) {
        let interner = Interner::default();
        let shape = PodShape {
            node_selector: Requirements::from_all(read(&selector, &interner), &interner),
            required_terms: terms.iter().map(|term| read(term, &interner)).collect(),
            ..PodShape::default()
        };
        let value = |key: &str| KEYS.iter().position(|known| *known == key).and_then(|at| labels[at]).map(|at| VALUES[at]);
        let holds = |wanted: &Requirement| match value(interner.text(wanted.key)) {
            Some(text) => wanted.has(interner.intern(text), &interner),
            None => wanted.admits_absence(),
        };
        let expected = shape.node_selector.iter().all(holds)
            && (shape.required_terms.is_empty() || shape.required_terms.iter().any(|term| term.iter().all(holds)));
        prop_assert_eq!(selects(&shape, &interner, value), expected);
    }

    #[test]
    fn sets_are_compatible_alike(candidate in set(), wanted in set(), well_known in prop::collection::vec(any::<bool>(), KEYS.len())) {
        let interner = Interner::default();
        let (candidate, wanted) = (read(&candidate, &interner), read(&wanted, &interner));
        let may_miss = |key: Sym| KEYS.iter().position(|known| *known == interner.text(key)).is_some_and(|at| well_known[at]);
        let sets = [&candidate, &wanted].map(|all| Requirements::from_all(all.clone(), &interner));
        let expected = sets[0].compatible(&sets[1], may_miss, &interner).is_ok();
        let both = sets[0].intersects(&sets[1], &interner).is_ok();
        let expressions = [&candidate, &wanted].map(|all| read_all(all, &interner));
        let naive = |undefined: &dyn Fn(Sym) -> bool| {
            may_satisfy(&expressions[0], &expressions[1], |key| undefined(interner.intern(key)))
        };
        prop_assert_eq!(naive(&may_miss), expected);
        prop_assert_eq!(naive(&|_| true), both);
    }

    #[test]
    fn an_open_label_is_narrowed_alike(sources in prop::collection::vec(written(), 1..4), wanted in written()) {
        let interner = Interner::default();
        let key = interner.intern("x");
        let sources: Vec<Requirement> = sources.iter().map(|one| one.requirement(key, &interner)).collect();
        let wanted = wanted.requirement(key, &interner);
        let merged = sources.iter().cloned().reduce(|a, b| a.intersect(&b, &interner));
        let merged = merged.unwrap_or_else(|| Requirement::exists(key));
        let label = OpenLabel::new(read_all(&sources, &interner));
        let expression = [Expression::read(&wanted, &interner)];
        let listed = label.listed().map(|values| values.into_iter().map(|value| interner.intern(value)).collect::<Vec<_>>());
        let expected = (!merged.complement).then(|| merged.values.to_vec());
        // The model forgets which sources a merged requirement had: several may exclude each other, or ask for the label to be there.
        if merged.is_does_not_exist() {
            return Ok(());
        }
        prop_assert_eq!(listed.map(sorted), expected);
        prop_assert_eq!(label.only().map(|value| interner.intern(value)), merged.single());
        prop_assert_eq!(label.always(&expression), merged.intersect(&wanted, &interner) == merged);
        if sources.iter().all(Requirement::admits_absence) == merged.admits_absence() {
            let may = merged.intersects(&wanted, &interner) || (merged.admits_absence() && wanted.admits_absence());
            prop_assert_eq!(label.may(&expression), may);
        }
    }
}

fn sorted(mut values: Vec<Sym>) -> Vec<Sym> {
    values.sort_unstable();
    values
}
