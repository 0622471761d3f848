//! Selector terms as describe calls.

use kerf_api::ec2_node_class::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, SecurityGroupSelectorTerm, SubnetSelectorTerm,
};
use kerf_aws::selector::{
    Query, image_queries, is_image_id, reservation_queries, security_group_queries, subnet_queries,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn terms<T: DeserializeOwned>(terms: Value) -> Vec<T> {
    serde_json::from_value(terms).unwrap()
}

/// `name=value,value & name=value`.
fn text(query: &Query) -> String {
    let filters: Vec<String> = query
        .iter()
        .map(|filter| format!("{}={}", filter.name, filter.values.join(",")))
        .collect();
    filters.join(" & ")
}

// AWS-102
#[test]
fn ids_and_names_merge_and_tags_stay_apart() {
    let subnets: Vec<SubnetSelectorTerm> = terms(json!([
        {"tags": {"a": "b", "c": "*"}},
        {"id": "subnet-2"},
        {"tags": {"d": "e"}},
        {"id": "subnet-1"},
    ]));
    let queries: Vec<String> = subnet_queries(&subnets).iter().map(text).collect();
    assert_eq!(
        queries,
        ["subnet-id=subnet-1,subnet-2", "tag:a=b & tag-key=c", "tag:d=e"]
    );
    let groups: Vec<SecurityGroupSelectorTerm> = terms(json!([
        {"name": "one"}, {"id": "sg-1"}, {"name": "two"}, {"tags": {"a": "*"}},
    ]));
    let queries: Vec<String> = security_group_queries(&groups).iter().map(text).collect();
    assert_eq!(queries, ["group-id=sg-1", "group-name=one,two", "tag-key=a"]);
    assert!(subnet_queries(&[]).is_empty());
}

// AWS-271
#[test]
fn each_reservation_term_is_one_query_for_active_ones() {
    let terms: Vec<CapacityReservationSelectorTerm> = terms(json!([
        {"id": "cr-1"},
        {"id": "cr-2"},
        {"ownerID": "123456789012", "instanceMatchCriteria": "open", "tags": {"a": "b"}},
    ]));
    let queries: Vec<String> = reservation_queries(&terms)
        .iter()
        .map(|query| format!("{:?} {}", query.id.as_deref().unwrap_or_default(), text(&query.filters)))
        .collect();
    assert_eq!(
        queries,
        [
            "\"cr-1\" state=active",
            "\"cr-2\" state=active",
            "\"\" state=active & owner-id=123456789012 & instance-match-criteria=open & tag:a=b",
        ]
    );
}

// AWS-116, AWS-118
#[test]
fn images_are_asked_for_by_id_name_tags_or_owner() {
    let terms: Vec<AmiSelectorTerm> = terms(json!([
        {"id": "ami-2"},
        {"name": "mine-*"},
        {"name": "theirs", "owner": "123456789012"},
        {"tags": {"a": "*"}, "name": "x"},
        {"tags": {"a": "b"}},
        {"owner": "self"},
        {"ssmParameter": "/good"},
        {"ssmParameter": "/odd"},
        {"ssmParameter": "/absent"},
    ]));
    let parameter = |name: &str| match name {
        "/good" => Some("ami-1".to_owned()),
        "/odd" => Some("hello".to_owned()),
        _ => None,
    };
    let queries: Vec<String> = image_queries(&terms, parameter)
        .iter()
        .map(|query| format!("[{}] {}", query.owners.join(","), text(&query.filters)))
        .collect();
    assert_eq!(
        queries,
        [
            // AWS-117
            "[] state=available & image-id=ami-1,ami-2",
            "[self,amazon] state=available & name=mine-*",
            "[123456789012] state=available & name=theirs",
            "[self,amazon] state=available & name=x & tag-key=a",
            "[] state=available & tag:a=b",
            "[self] state=available",
        ]
    );
    assert!(is_image_id("ami-1") && !is_image_id("x-ami-1"));
}
