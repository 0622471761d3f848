//! Tags of EC2 resources.

use kerf_aws::tags::{Tags, cluster_key, first_restricted, is_owned, launch_tags, missing_name_tags, profile_tags};

fn tags(entries: &[(&str, &str)]) -> Tags {
    entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

// AWS-176
#[test]
fn launches_carry_the_tags_of_the_class_and_of_ownership() {
    let class = tags(&[("Name", "mine"), ("karpenter.sh/nodepool", "forged"), ("empty", "")]);
    assert_eq!(
        launch_tags(Some(&class), "prod", "default", "nodes"),
        tags(&[
            ("Name", "mine"),
            ("empty", ""),
            ("kubernetes.io/cluster/prod", "owned"),
            ("karpenter.sh/nodepool", "default"),
            ("eks:eks-cluster-name", "prod"),
            ("karpenter.k8s.aws/ec2nodeclass", "nodes"),
        ])
    );
    // AWS-417
    let own = launch_tags(None, "prod", "default", "nodes");
    assert!(own.contains_key(&cluster_key("prod")) && is_owned(&own, "prod"));
}

// AWS-093
#[test]
fn profiles_carry_class_and_region() {
    assert_eq!(
        profile_tags(Some(&tags(&[("team", "a")])), "prod", "nodes", "us-east-1"),
        tags(&[
            ("team", "a"),
            ("kubernetes.io/cluster/prod", "owned"),
            ("eks:eks-cluster-name", "prod"),
            ("karpenter.k8s.aws/ec2nodeclass", "nodes"),
            ("topology.kubernetes.io/region", "us-east-1"),
        ])
    );
}

// AWS-327
#[test]
fn names_are_added_later_and_never_overwritten() {
    assert_eq!(
        missing_name_tags(&tags(&[("Name", "mine")]), "node-1", "claim-1", "prod"),
        tags(&[("karpenter.sh/nodeclaim", "claim-1"), ("eks:eks-cluster-name", "prod")])
    );
    let all = missing_name_tags(&Tags::new(), "node-1", "claim-1", "prod");
    assert_eq!(all["Name"], "node-1");
    assert!(missing_name_tags(&all, "node-2", "claim-2", "prod").is_empty());
}

// AWS-325
#[test]
fn instances_without_the_tags_of_ownership_are_never_touched() {
    let own = launch_tags(None, "prod", "default", "nodes");
    assert!(is_owned(&own, "prod"));
    assert!(!is_owned(&own, "test"));
    for key in own.keys().filter(|key| !key.starts_with("kubernetes.io/cluster")) {
        let mut fewer = own.clone();
        fewer.remove(key);
        assert!(!is_owned(&fewer, "prod"), "{key}");
    }
}

// AWS-071, AWS-285
#[test]
fn a_class_may_not_set_tags_of_ownership() {
    assert_eq!(first_restricted(None), None);
    assert_eq!(first_restricted(Some(&tags(&[("karpenter.sh/managed", "x")]))), None);
    let forged = tags(&[("kubernetes.io/cluster/prod", "owned")]);
    assert_eq!(first_restricted(Some(&forged)), Some("kubernetes.io/cluster/prod"));
}
