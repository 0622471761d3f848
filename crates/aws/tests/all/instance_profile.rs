//! Names and reuse of instance profiles.

use kerf_aws::instance_profile::{
    ProfileAction, class_path, cluster_path, is_garbage, legacy_name, new_name, profile_action, role_name,
};
use std::collections::BTreeSet;

// AWS-087
#[test]
fn each_creation_has_a_fresh_name_under_the_path_of_the_class() {
    let name = |nonce: &str| new_name("prod", "us-east-1", "default", nonce);
    assert_ne!(name("one"), name("two"));
    let (cluster, number) = name("one")
        .split_once('_')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    assert_eq!(cluster, "prod");
    assert!(number.parse::<u64>().is_ok());
    assert_eq!(
        class_path("us-east-1", "prod", "uid-1"),
        "/karpenter/us-east-1/prod/uid-1/"
    );
    assert_eq!(cluster_path("us-east-1", "prod"), "/karpenter/us-east-1/prod/");
}

// AWS-097
#[test]
fn a_legacy_name_iam_could_not_have_is_skipped() {
    assert!(legacy_name("prod", "us-east-1", "default").is_some_and(|name| name.starts_with("prod_")));
    assert_eq!(legacy_name("arn:aws:eks:prod", "us-east-1", "default"), None);
    assert_eq!(legacy_name(&"x".repeat(120), "us-east-1", "default"), None);
}

#[test]
fn a_profile_is_kept_made_anew_or_taken_from_the_class() {
    let create = |role: &str| ProfileAction::Create { role: role.to_owned() };
    let keep = |name: &str| ProfileAction::Keep(name.to_owned());
    for (given, role, current, recent, want) in [
        // AWS-086
        (
            Some("mine"),
            None,
            None,
            None,
            ProfileAction::UseGiven("mine".to_owned()),
        ),
        // AWS-088, AWS-494
        (None, Some("nodes"), Some(("p", Some("nodes"))), None, keep("p")),
        (None, Some("nodes"), Some(("p", Some("others"))), None, create("nodes")),
        (None, Some("nodes"), Some(("p", None)), None, create("nodes")),
        (None, Some("nodes"), None, None, create("nodes")),
        // AWS-089
        (None, Some("nodes"), None, Some("q"), keep("q")),
        // AWS-092
        (None, Some("team/nodes"), Some(("p", Some("nodes"))), None, keep("p")),
        (None, Some("team/nodes"), None, None, create("nodes")),
    ] {
        assert_eq!(
            profile_action(given, role, current, recent),
            want,
            "{given:?} {role:?} {current:?}"
        );
    }
    assert_eq!(role_name("a/b/nodes"), "nodes");
}

// AWS-090, AWS-100
#[test]
fn profiles_in_use_are_no_garbage() {
    let set = |names: &[&'static str]| names.iter().copied().collect::<BTreeSet<&str>>();
    let (status, protected, claims) = (set(&["a"]), set(&["b"]), set(&["c"]));
    for (name, garbage) in [("a", false), ("b", false), ("c", false), ("d", true)] {
        assert_eq!(is_garbage(name, &status, &protected, &claims), garbage, "{name}");
    }
}
