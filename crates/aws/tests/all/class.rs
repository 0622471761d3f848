//! Classes and settings for the tests of this crate.

use kerf_api::{EC2NodeClass, decode};
use kerf_aws::instance_type::{InstanceTypeDescription, ResolveSettings, builtin_types, resolve};
use kerf_model::instance_type::InstanceType;
use kerf_model::intern::Interner;
use kerf_model::requirement::Requirement;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A class with subnets in us-east-1a and us-east-1b, and fields of its spec replaced; a null takes a field away.
pub(crate) fn class(changes: Value) -> EC2NodeClass {
    class_with_status(changes, json!({}))
}

/// The same, with fields of its status replaced.
pub(crate) fn class_with_status(changes: Value, status_changes: Value) -> EC2NodeClass {
    let mut spec = json!({
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "prod"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "prod"}}],
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "nodes",
    });
    let mut status = json!({
        "subnets": [
            {"id": "subnet-a", "zone": "us-east-1a", "zoneID": "use1-az1"},
            {"id": "subnet-b", "zone": "us-east-1b", "zoneID": "use1-az2"},
        ],
        "securityGroups": [{"id": "sg-1"}],
        "instanceProfile": "prod_1",
    });
    for (target, changes) in [(&mut spec, changes), (&mut status, status_changes)] {
        for (key, value) in changes.as_object().unwrap() {
            target[key] = value.clone();
        }
        target.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    }
    let object =
        json!({"metadata": {"name": "nodes", "uid": "uid-1", "generation": 1}, "spec": spec, "status": status});
    decode(&object).unwrap()
}

/// A class of this family whose images are selected by id.
pub(crate) fn of_family(family: &str) -> EC2NodeClass {
    class(json!({"amiFamily": family, "amiSelectorTerms": [{"id": "ami-1"}]}))
}

/// A built-in type.
pub(crate) fn description(name: &str) -> InstanceTypeDescription {
    builtin_types()[name].clone()
}

pub(crate) fn settings() -> ResolveSettings {
    ResolveSettings::new("us-east-1")
}

pub(crate) fn zones(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// A built-in type as nodes of the class would have it, without offerings.
pub(crate) fn resolved(name: &str, class: &EC2NodeClass, interner: &Interner) -> InstanceType {
    let offered_in = zones(&["us-east-1a", "us-east-1b", "us-east-1c"]);
    resolve(&description(name), class, &offered_in, None, &settings(), interner)
}

/// The values of a label, sorted; `None` where the type does not define it, an empty list for one that does not exist.
pub(crate) fn label(kind: &InstanceType, key: &str, interner: &Interner) -> Option<Vec<String>> {
    let requirement = kind.requirements.get(interner.intern(key))?;
    let printed = requirement.print(interner);
    if requirement.is_does_not_exist() {
        return Some(Vec::new());
    }
    let values = printed
        .split_once('[')
        .map(|(_, rest)| rest.trim_end_matches(']'))
        .unwrap_or_default();
    Some(values.split(' ').map(str::to_owned).collect())
}

/// The single value of a label.
pub(crate) fn single(kind: &InstanceType, key: &str, interner: &Interner) -> Option<String> {
    let value = kind
        .requirements
        .get(interner.intern(key))
        .and_then(Requirement::single)?;
    Some(interner.text(value).to_owned())
}
