//! Selector terms as filters of describe calls (AWS-102, AWS-116, AWS-118, AWS-271).
//!
//! Terms are alternatives; the filters of one query all have to match. Ids merge into one query, and each term with tags is a query of its
//! own, so that a class with many terms makes few calls.

use std::collections::{BTreeMap, BTreeSet};

use kerf_api::ec2_node_class::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, SecurityGroupSelectorTerm, SubnetSelectorTerm,
};

/// A filter of a describe call: a name and the values it admits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Filter {
    /// Name, such as `subnet-id` or `tag:team`.
    pub name: String,
    /// Values; one of them must match.
    pub values: Vec<String>,
}

impl Filter {
    /// A filter with these values.
    pub fn new<V: Into<String>>(name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        Self {
            name: name.into(),
            values: values.into_iter().map(Into::into).collect(),
        }
    }
}

/// One describe call: all filters must match.
pub type Query = Vec<Filter>;

/// The filters of tags: the value `*` asks for the key alone.
fn tag_filters(tags: &BTreeMap<String, String>) -> Query {
    tags.iter()
        .map(|(key, value)| match value.as_str() {
            "*" => Filter::new("tag-key", [key]),
            _ => Filter::new(format!("tag:{key}"), [value]),
        })
        .collect()
}

/// The queries for the subnets of a class.
pub fn subnet_queries(terms: &[SubnetSelectorTerm]) -> Vec<Query> {
    let ids: BTreeSet<&String> = terms.iter().filter_map(|term| term.id.as_ref()).collect();
    let by_id = (!ids.is_empty()).then(|| vec![Filter::new("subnet-id", ids)]);
    let by_tags = terms
        .iter()
        .filter(|term| term.id.is_none())
        .filter_map(|term| term.tags.as_ref());
    by_id.into_iter().chain(by_tags.map(tag_filters)).collect()
}

/// The queries for the security groups of a class.
pub fn security_group_queries(terms: &[SecurityGroupSelectorTerm]) -> Vec<Query> {
    let ids: BTreeSet<&String> = terms.iter().filter_map(|term| term.id.as_ref()).collect();
    let unidentified = terms.iter().filter(|term| term.id.is_none());
    let names: BTreeSet<&String> = unidentified.clone().filter_map(|term| term.name.as_ref()).collect();
    let by_id = (!ids.is_empty()).then(|| vec![Filter::new("group-id", ids)]);
    let by_name = (!names.is_empty()).then(|| vec![Filter::new("group-name", names)]);
    let by_tags = unidentified
        .filter(|term| term.name.is_none())
        .filter_map(|term| term.tags.as_ref());
    by_id
        .into_iter()
        .chain(by_name)
        .chain(by_tags.map(tag_filters))
        .collect()
}

/// A call of DescribeCapacityReservations.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReservationQuery {
    /// Id, for a query by id; such a call takes no page size.
    pub id: Option<String>,
    /// Filters.
    pub filters: Query,
}

/// The queries for the capacity reservations of a class: one for each id, and one for each other term.
pub fn reservation_queries(terms: &[CapacityReservationSelectorTerm]) -> Vec<ReservationQuery> {
    let active = || Filter::new("state", ["active"]);
    let query = |term: &CapacityReservationSelectorTerm| {
        let mut filters = vec![active()];
        if let Some(id) = &term.id {
            return ReservationQuery {
                id: Some(id.clone()),
                filters,
            };
        }
        if let Some(owner) = &term.owner_id {
            filters.push(Filter::new("owner-id", [owner]));
        }
        if let Some(criteria) = &term.instance_match_criteria {
            filters.push(Filter::new("instance-match-criteria", [criteria]));
        }
        filters.extend(term.tags.as_ref().map(tag_filters).unwrap_or_default());
        ReservationQuery { id: None, filters }
    };
    terms.iter().map(query).collect()
}

/// A call of DescribeImages. Every call also asks for deprecated images (AWS-118).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageQuery {
    /// Accounts whose images are wanted; none for all.
    pub owners: Vec<String>,
    /// Filters.
    pub filters: Query,
}

/// The queries for the images of a class whose terms are no aliases. `parameter_image` gives the image id behind an SSM parameter, `None`
/// if the parameter does not exist or holds no image id (AWS-116, AWS-117).
pub fn image_queries(terms: &[AmiSelectorTerm], parameter_image: impl Fn(&str) -> Option<String>) -> Vec<ImageQuery> {
    let available = || Filter::new("state", ["available"]);
    let mut ids = BTreeSet::new();
    let mut others = Vec::new();
    for term in terms.iter().filter(|term| term.alias.is_none()) {
        if let Some(id) = &term.id {
            ids.insert(id.clone());
            continue;
        }
        if let Some(parameter) = &term.ssm_parameter {
            ids.extend(parameter_image(parameter).filter(|id| is_image_id(id)));
            continue;
        }
        let mut filters = vec![available()];
        filters.extend(term.name.as_ref().map(|name| Filter::new("name", [name])));
        filters.extend(term.tags.as_ref().map(tag_filters).unwrap_or_default());
        let default_owners: &[&str] = if term.name.is_some() { &["self", "amazon"] } else { &[] };
        let owners = match &term.owner {
            Some(owner) => vec![owner.clone()],
            None => default_owners.iter().map(|&owner| owner.to_owned()).collect(),
        };
        others.push(ImageQuery { owners, filters });
    }
    let by_id = (!ids.is_empty()).then(|| ImageQuery {
        owners: Vec::new(),
        filters: vec![available(), Filter::new("image-id", ids)],
    });
    by_id.into_iter().chain(others).collect()
}

/// Whether the value of an SSM parameter can be an image id (AWS-117).
pub fn is_image_id(text: &str) -> bool {
    text.starts_with("ami-")
}
