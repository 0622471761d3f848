use super::*;

struct Fixture(Interner);

impl Fixture {
    fn sym(&self, text: &str) -> Sym {
        self.0.intern(text)
    }
    fn key(&self) -> Sym {
        self.sym("key")
    }
    fn any_of(&self, values: &[&str]) -> Requirement {
        Requirement::any_of(self.key(), values.iter().map(|v| self.sym(v)))
    }
    fn none_of(&self, values: &[&str]) -> Requirement {
        Requirement::none_of(self.key(), values.iter().map(|v| self.sym(v)))
    }
    fn gt(&self, n: i64) -> Requirement {
        Requirement::greater(self.key(), n)
    }
    fn lt(&self, n: i64) -> Requirement {
        Requirement::less(self.key(), n)
    }
    fn show(&self, a: &Requirement, b: &Requirement) -> String {
        let both = a.intersect(b, &self.0);
        assert_eq!(both, b.intersect(a, &self.0), "intersection is commutative");
        both.print(&self.0)
    }
}

fn fixture() -> Fixture {
    Fixture(Interner::default())
}

// SCH-083, SCH-085, SCH-088, SCH-089, SCH-091
#[test]
fn the_examples_of_intersection_hold() {
    let w = fixture();
    let table = [
        (w.any_of(&["A", "B"]), w.none_of(&["A"]), "key In [B]"),
        (w.any_of(&["1", "9"]), w.gt(1), "key In [9]"),
        (w.none_of(&["1", "2"]), w.gt(1), "key NotIn [2] >=2"),
        (w.none_of(&["1", "2"]), w.lt(1), "key Exists <=0"),
        (w.gt(1), w.lt(9), "key Exists >=2 <=8"),
        (w.gt(9), w.lt(1), "key DoesNotExist"),
        (w.any_of(&["A"]), w.gt(1), "key DoesNotExist"),
        (w.none_of(&["A"]), w.none_of(&["1", "2"]), "key NotIn [1 2 A]"),
        (
            Requirement::does_not_exist(w.key()),
            Requirement::exists(w.key()),
            "key DoesNotExist",
        ),
    ];
    for (a, b, expected) in table {
        assert_eq!(w.show(&a, &b), expected);
    }
}

// SCH-084, SCH-479
#[test]
fn bounds_nothing_can_meet_are_does_not_exist() {
    let w = fixture();
    assert!(w.gt(i64::MAX).is_does_not_exist());
    assert!(w.lt(0).is_does_not_exist());
    assert!(w.lt(i64::MIN).is_does_not_exist());
    assert_eq!(w.lt(i64::MAX).print(&w.0), format!("key Exists <={}", i64::MAX - 1));
}

// SCH-087
#[test]
fn bounds_leave_no_room_for_text() {
    let w = fixture();
    assert!(w.gt(1).has(w.sym("2"), &w.0));
    assert!(!w.gt(1).has(w.sym("1"), &w.0));
    assert!(!w.gt(1).has(w.sym("two"), &w.0));
    assert!(w.none_of(&["a"]).has(w.sym("two"), &w.0));
}

// SCH-092
#[test]
fn the_larger_min_values_wins_even_over_a_smaller_set() {
    let w = fixture();
    let both = w
        .any_of(&["A"])
        .with_min_values(Some(1))
        .intersect(&w.any_of(&["A", "B"]).with_min_values(Some(2)), &w.0);
    assert_eq!(both.print(&w.0), "key In [A] minValues 2");
    let inherited = w
        .any_of(&["A"])
        .intersect(&w.any_of(&["A", "B"]).with_min_values(Some(2)), &w.0);
    assert_eq!(inherited.min_values, Some(2));
}

// SCH-094
#[test]
fn long_lists_are_cut_after_five_values() {
    let w = fixture();
    let many = w.any_of(&["g", "f", "e", "d", "c", "b", "a"]);
    assert_eq!(many.print(&w.0), "key In [a b c d e and 2 others]");
    let all = Requirements::from_all(
        [
            many,
            Requirement::is(sym::HOSTNAME, w.sym("n1")),
            Requirement::exists(sym::ARCH),
        ],
        &w.0,
    );
    assert_eq!(
        all.print(&w.0),
        "key In [a b c d e and 2 others], kubernetes.io/arch Exists"
    );
}

// SCH-103, SCH-451, SCH-452
#[test]
fn the_truth_table_of_compatibility_holds() {
    let w = fixture();
    let none: Option<Requirement> = None;
    let rows = [
        ("undefined", none),
        ("exists", Some(Requirement::exists(w.key()))),
        ("absent", Some(Requirement::does_not_exist(w.key()))),
        ("in 1 9", Some(w.any_of(&["1", "9"]))),
        ("not in 1", Some(w.none_of(&["1"]))),
        ("gt 5", Some(w.gt(5))),
        ("lt 3", Some(w.lt(3))),
    ];
    // Per row, the columns it accepts where the key may stay undefined.
    let accepts = |row: &str, column: &str| match row {
        "undefined" => true,
        "exists" => column != "absent",
        "absent" => matches!(column, "undefined" | "absent" | "not in 1"),
        "in 1 9" => column != "absent",
        "not in 1" => true,
        "gt 5" => !matches!(column, "absent" | "lt 3"),
        "lt 3" => !matches!(column, "absent" | "gt 5"),
        _ => unreachable!(),
    };
    for (row, have) in &rows {
        for (column, want) in &rows {
            let have = Requirements::from_all(have.clone(), &w.0);
            let want_set = Requirements::from_all(want.clone(), &w.0);
            let lenient = have.compatible(&want_set, |_| true, &w.0).is_ok();
            assert_eq!(lenient, accepts(row, column), "{row} against {column}");
            let strict = have.compatible(&want_set, |_| false, &w.0).is_ok();
            let expected = if *row == "undefined" {
                want.as_ref().is_none_or(Requirement::admits_absence)
            } else {
                lenient
            };
            assert_eq!(strict, expected, "strictly, {row} against {column}");
        }
    }
}

// SCH-096, SCH-097
#[test]
fn a_set_has_one_requirement_per_key() {
    let w = fixture();
    let set = Requirements::from_all([w.any_of(&["1", "9"]), w.gt(1)], &w.0);
    assert_eq!((set.len(), set.print(&w.0).as_str()), (1, "key In [9]"));
    assert!(set.get(sym::ZONE).is_none());
}

// SCH-086
#[test]
fn only_a_listed_value_can_be_the_only_one() {
    let w = fixture();
    assert_eq!(w.any_of(&["A"]).single(), Some(w.sym("A")));
    for many in [
        w.any_of(&["A", "B"]),
        w.none_of(&["A"]),
        Requirement::exists(w.key()),
        Requirement::between(w.key(), Some(3), Some(3)),
        Requirement::does_not_exist(w.key()),
    ] {
        assert_eq!(many.single(), None, "{many:?}");
    }
}

// SCH-090
#[test]
fn complements_meet_unless_their_bounds_forbid() {
    let w = fixture();
    let meet = |a: &Requirement, b: &Requirement| a.intersects(b, &w.0);
    assert!(meet(&w.none_of(&["A"]), &w.none_of(&["B"])));
    assert!(meet(&w.none_of(&["A"]), &Requirement::exists(w.key())));
    assert!(meet(&w.gt(1), &w.lt(9)));
    assert!(meet(&w.gt(1), &w.none_of(&["2"])));
    assert!(!meet(&w.gt(9), &w.lt(1)));
}

// SCH-104
#[test]
fn only_what_the_candidate_leaves_undefined_has_a_direction() {
    let w = fixture();
    let nothing = Requirements::new();
    let something = Requirements::from_all([w.any_of(&["A"])], &w.0);
    assert!(something.compatible(&nothing, |_| false, &w.0).is_ok());
    assert!(nothing.compatible(&something, |_| false, &w.0).is_err());
    assert!(nothing.compatible(&something, |_| true, &w.0).is_ok());
    let other = Requirements::from_all([w.any_of(&["B"])], &w.0);
    assert!(something.compatible(&other, |_| false, &w.0).is_err());
    assert!(other.compatible(&something, |_| false, &w.0).is_err());
}
