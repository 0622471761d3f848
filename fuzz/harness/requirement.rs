// Requirements: an intersection admits what both sides admit, whichever comes first, and nobody finds two sides disjoint that share a value.

use kerf_model::intern::{Interner, Sym};
use kerf_model::requirement::{Requirement, Requirements};
use std::sync::LazyLock;

const VALUES: [&str; 12] = [
    "a",
    "b",
    "c",
    "",
    "0",
    "1",
    "-1",
    "7",
    "8",
    "9223372036854775807",
    "-9223372036854775808",
    "1e3",
];

/// One for all inputs: the texts are always the same.
static INTERNER: LazyLock<Interner> = LazyLock::new(Interner::default);

/// Bytes as choices; nothing left reads as zero.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn next(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    fn number(&mut self) -> i64 {
        match self.next() % 4 {
            0 => i64::MIN,
            1 => i64::MAX,
            2 => i64::from(self.next()) - 128,
            _ => i64::from_le_bytes(std::array::from_fn(|_| self.next())),
        }
    }

    fn requirement(&mut self, key: Sym, values: &[Sym]) -> Requirement {
        let some = |choices: &mut Self| -> Vec<Sym> {
            let mask = u16::from(choices.next()) | u16::from(choices.next()) << 8;
            (0..values.len())
                .filter(|at| mask >> at & 1 == 1)
                .map(|at| values[at])
                .collect()
        };
        match self.next() % 8 {
            0 => Requirement::any_of(key, some(self)),
            1 => Requirement::none_of(key, some(self)),
            2 => Requirement::exists(key),
            3 => Requirement::does_not_exist(key),
            4 => Requirement::greater(key, self.number()),
            5 => Requirement::less(key, self.number()),
            6 => Requirement::between(key, Some(self.number()), Some(self.number())),
            _ => {
                let bound = Requirement::greater(key, self.number());
                bound.with_min_values(Some(u32::from(self.next())))
            }
        }
    }
}

/// One input.
pub(crate) fn check(data: &[u8]) {
    let interner = &*INTERNER;
    let key = interner.intern("key");
    let values: Vec<Sym> = VALUES.iter().map(|value| interner.intern(value)).collect();
    let mut choices = Choices(data.iter());
    let (a, b, c) = (
        choices.requirement(key, &values),
        choices.requirement(key, &values),
        choices.requirement(key, &values),
    );
    let both = a.intersect(&b, interner);
    let show = |requirement: &Requirement| requirement.print(interner);
    let context = || format!("{} and {} give {}", show(&a), show(&b), show(&both));
    let admitted = |requirement: &Requirement| -> Vec<bool> {
        values.iter().map(|value| requirement.has(*value, interner)).collect()
    };
    let expected: Vec<bool> = admitted(&a).iter().zip(admitted(&b)).map(|(a, b)| *a && b).collect();
    assert_eq!(admitted(&both), expected, "{}", context());
    assert_eq!(admitted(&b.intersect(&a, interner)), expected, "{}", context());
    let shared = a.intersects(&b, interner);
    assert_eq!(shared, b.intersects(&a, interner), "{}", context());
    assert!(shared || !expected.contains(&true), "{}", context());
    let left = both.intersect(&c, interner);
    let right = a.intersect(&b.intersect(&c, interner), interner);
    assert_eq!(
        admitted(&left),
        admitted(&right),
        "{} {} {}",
        show(&a),
        show(&b),
        show(&c)
    );
    let set = Requirements::from_all([a.clone(), b.clone(), c], interner);
    let _ = set.print(interner);
    let one = Requirements::from_all([a], interner);
    let other = Requirements::from_all([b], interner);
    let _ = (
        one.compatible(&other, |_| false, interner).is_ok(),
        one.intersects(&other, interner).is_ok(),
    );
}
