//! Builds the NodeClaim for a planned launch.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kerf_api::hash::NODE_POOL_HASH_VERSION;
use kerf_api::{
    NodeClaim, NodeClaimSpec, NodePool, Operator, Requirement as Written, ResourceRequests, annotations, finalizers,
    labels,
};
use kerf_cloud::{Vocabulary, quantities};
use kerf_model::intern::{Interner, sym};
use kerf_model::plan::Launch;
use kerf_model::requirement::Requirement;
use kerf_runtime::client::uid_of;
use kube::Resource;

/// The input of a claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blueprint<'a> {
    /// The planned launch.
    pub launch: &'a Launch,
    /// The pool as it was when the plan was made.
    pub pool: &'a NodePool,
    /// The provider's label keys.
    pub vocabulary: &'a Vocabulary,
    /// The interner of all ids.
    pub interner: &'a Interner,
}

/// The claim for a launch, without a name (SCH-309 to SCH-320). The error says that the pool has no unique id.
pub(crate) fn build(blueprint: Blueprint<'_>) -> Result<NodeClaim, kube::Error> {
    let template = &blueprint.pool.spec.template.spec;
    let grace = template.termination_grace_period.clone();
    let default_grace = blueprint.vocabulary.default_termination_grace_period;
    let mut claim = NodeClaim {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", blueprint.launch.pool)),
            labels: Some(claim_labels(blueprint)),
            annotations: Some(claim_annotations(blueprint)),
            owner_references: Some(vec![owner(blueprint)?]),
            // LIF-017: with the claim itself, which saves a call for each.
            finalizers: Some(vec![finalizers::TERMINATION.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: NodeClaimSpec {
            taints: template.taints.clone(),
            startup_taints: template.startup_taints.clone(),
            requirements: requirements(blueprint),
            resources: resources(blueprint),
            node_class_ref: template.node_class_ref.clone(),
            termination_grace_period: grace.or_else(|| default_grace.map(Into::into)),
            expire_after: template.expire_after.clone(),
        },
        status: None,
    };
    claim.metadata.namespace = None;
    Ok(claim)
}

/// The requested resources (SCH-319); none for a claim without pods.
fn resources(blueprint: Blueprint<'_>) -> Option<ResourceRequests> {
    let requests = quantities(&blueprint.launch.requests, blueprint.interner);
    (!requests.is_empty()).then_some(ResourceRequests { requests })
}

fn owner(blueprint: Blueprint<'_>) -> Result<OwnerReference, kube::Error> {
    Ok(OwnerReference {
        api_version: NodePool::api_version(&()).into_owned(),
        kind: NodePool::kind(&()).into_owned(),
        name: blueprint.launch.pool.to_string(),
        uid: uid_of(blueprint.pool)?.to_owned(),
        block_owner_deletion: Some(true),
        controller: None,
    })
}

/// The labels of a claim: those of the template, and the values its requirements allow (SCH-310, SCH-311).
fn claim_labels(blueprint: Blueprint<'_>) -> BTreeMap<String, String> {
    let Blueprint {
        launch,
        pool,
        vocabulary,
        interner,
    } = blueprint;
    let drawn = launch.requirements.iter().filter_map(|requirement| {
        let key = interner.text(requirement.key);
        let known = vocabulary.labels.is_well_known(key);
        let simulated = [sym::HOSTNAME, sym::REGISTERED, sym::INITIALIZED].contains(&requirement.key);
        let value = (!known && !simulated).then(|| pick(requirement, interner))??;
        Some((key.to_owned(), value))
    });
    let mut all: BTreeMap<String, String> = drawn.collect();
    let template = pool.spec.template.labels();
    all.extend(template.map(|(key, value)| (key.to_owned(), value.to_owned())));
    all.insert(labels::NODE_POOL.to_owned(), launch.pool.to_string());
    let class = &pool.spec.template.spec.node_class_ref;
    all.insert(class.label_key(), class.name.clone());
    all
}

/// The label value for a requirement: the first by text, or the least integer, so that the same plan gives the same claim (SCH-310).
/// Excluded values are skipped (SCH-093).
fn pick(requirement: &Requirement, interner: &Interner) -> Option<String> {
    let texts = || requirement.values.iter().map(|value| interner.text(*value));
    if !requirement.complement {
        return texts().min().map(str::to_owned);
    }
    let (from, to) = (requirement.gte.unwrap_or(0), requirement.lte.unwrap_or(i64::MAX));
    // One more than there are exclusions is enough to find a free one.
    let candidates = (from.max(0)..=to).take(requirement.values.len() + 1);
    let mut candidates = candidates.map(|number| number.to_string());
    candidates.find(|number| !texts().any(|excluded| excluded == number))
}

/// The annotations of a claim (SCH-312).
fn claim_annotations(blueprint: Blueprint<'_>) -> BTreeMap<String, String> {
    let Blueprint { launch, pool, .. } = blueprint;
    let template = pool.spec.template.annotations();
    let mut all: BTreeMap<String, String> = template
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let mut set = |key: &str, value: &str| all.insert(key.to_owned(), value.to_owned());
    set(annotations::NODE_POOL_HASH, &pool.drift_hash());
    set(annotations::NODE_POOL_HASH_VERSION, NODE_POOL_HASH_VERSION);
    // SCH-402: nothing was relaxed for a node that is the template's as it stands.
    if !pool.spec.is_static() {
        set(
            annotations::MIN_VALUES_RELAXED,
            if launch.min_values_relaxed { "true" } else { "false" },
        );
    }
    let types = || {
        launch
            .types
            .iter()
            .filter_map(|at| launch.catalogue.types.get(*at as usize))
    };
    if types().any(|kind| kind.price_overlaid) {
        set(annotations::PRICE_OVERLAY_APPLIED, annotations::TRUE);
    }
    if types().any(|kind| kind.capacity_overlaid) {
        set(annotations::CAPACITY_OVERLAY_APPLIED, annotations::TRUE);
    }
    all
}

/// SCH-095, SCH-314: by key, values sorted.
fn requirements(blueprint: Blueprint<'_>) -> Vec<Written> {
    let interner = blueprint.interner;
    let kept = blueprint.launch.requirements.iter();
    let kept = kept.filter(|one| ![sym::HOSTNAME, sym::REGISTERED, sym::INITIALIZED].contains(&one.key));
    let mut all: Vec<Written> = kept.flat_map(|one| written(one, interner)).collect();
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all
}

/// One requirement in the form of the API. Bounds and excluded values get an entry each, so that none is lost.
fn written(requirement: &Requirement, interner: &Interner) -> Vec<Written> {
    let key = interner.text(requirement.key);
    let mut values: Vec<&str> = requirement.values.iter().map(|value| interner.text(*value)).collect();
    values.sort_unstable();
    let mut entries = Vec::new();
    if let Some(bound) = requirement.gte {
        entries.push(Written::new(key, Operator::Gte, [bound.to_string()]));
    }
    if let Some(bound) = requirement.lte {
        entries.push(Written::new(key, Operator::Lte, [bound.to_string()]));
    }
    match (requirement.complement, values.is_empty()) {
        (true, true) if !entries.is_empty() => {}
        (true, true) => entries.push(Written::new(key, Operator::Exists, values)),
        (true, false) => entries.push(Written::new(key, Operator::NotIn, values)),
        (false, true) => entries.push(Written::new(key, Operator::DoesNotExist, values)),
        (false, false) => entries.push(Written::new(key, Operator::In, values)),
    }
    for entry in &mut entries {
        entry.min_values = requirement.min_values.map(i64::from);
    }
    entries
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kerf_api::LabelRules;
    use kerf_cloud::TypeBuilder;
    use kerf_model::instance_type::Catalogue;
    use kerf_model::price::Price;
    use kerf_model::requirement::Requirements;
    use kerf_model::resources::Resources;
    use kerf_units::duration::GoDuration;
    use serde_json::json;

    use super::*;

    fn pool() -> NodePool {
        let mut pool: NodePool = serde_json::from_value(json!({
            "metadata": {"name": "web", "uid": "u1"},
            "spec": {"template": {
                "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b", annotations::NODE_POOL_HASH: "old"}},
                "spec": {
                    "requirements": [],
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                    "taints": [{"key": "gpu", "effect": "NoSchedule"}],
                    "startupTaints": [{"key": "cni", "effect": "NoExecute"}],
                    "expireAfter": "24h",
                },
            }},
        }))
        .expect("a pool");
        pool.metadata.generation = Some(1);
        pool
    }

    fn launch(interner: &Interner, requirements: impl IntoIterator<Item = Requirement>) -> Launch {
        let kind = TypeBuilder::new(interner, "small")
            .offering("a", "spot", Price::ZERO)
            .build();
        Launch {
            pool: "web".into(),
            catalogue: Arc::new(Catalogue { types: vec![kind] }),
            requirements: Requirements::from_all(requirements, interner),
            types: vec![0],
            pods: Vec::new(),
            requests: Resources::new().with(sym::CPU, 1500).with(sym::PODS, 2),
            min_values_relaxed: false,
            reservations: Vec::new(),
            cheapest: None,
        }
    }

    fn claim(requirements: impl FnOnce(&Interner) -> Vec<Requirement>) -> NodeClaim {
        let interner = Interner::default();
        let launch = launch(&interner, requirements(&interner));
        let vocabulary = Vocabulary::new(LabelRules::core());
        build(Blueprint {
            launch: &launch,
            pool: &pool(),
            vocabulary: &vocabulary,
            interner: &interner,
        })
        .expect("a claim")
    }

    // SCH-309, SCH-312, SCH-313, SCH-319, API-103
    #[test]
    fn a_claim_takes_over_what_its_pool_says() {
        let claim = claim(|_| Vec::new());
        let meta = &claim.metadata;
        assert_eq!(meta.generate_name.as_deref(), Some("web-"));
        assert_eq!(meta.finalizers, Some(vec!["karpenter.sh/termination".to_owned()]));
        let owners = meta.owner_references.clone().expect("an owner");
        let owner = owners.first().expect("one");
        assert_eq!(
            (
                owner.api_version.as_str(),
                owner.kind.as_str(),
                owner.name.as_str(),
                owner.uid.as_str()
            ),
            ("karpenter.sh/v1", "NodePool", "web", "u1")
        );
        assert_eq!((owner.block_owner_deletion, owner.controller), (Some(true), None));
        let labels = json!({"team": "a", "karpenter.sh/nodepool": "web", "karpenter.kwok.sh/kwoknodeclass": "default"});
        assert_eq!(serde_json::to_value(&meta.labels).expect("serialises"), labels);
        let annotations = meta.annotations.clone().expect("annotations");
        assert_eq!(annotations.get("note").map(String::as_str), Some("b"));
        assert_eq!(annotations.get(annotations::NODE_POOL_HASH), Some(&pool().drift_hash()));
        assert_eq!(
            annotations.get(annotations::NODE_POOL_HASH_VERSION).map(String::as_str),
            Some("v3")
        );
        assert_eq!(
            annotations.get(annotations::MIN_VALUES_RELAXED).map(String::as_str),
            Some("false")
        );
        assert_eq!(annotations.get(annotations::PRICE_OVERLAY_APPLIED), None);
        let spec = serde_json::to_value(&claim.spec).expect("serialises");
        assert_eq!(spec["taints"], json!([{"key": "gpu", "effect": "NoSchedule"}]));
        assert_eq!(spec["startupTaints"], json!([{"key": "cni", "effect": "NoExecute"}]));
        assert_eq!(spec["expireAfter"], json!("24h"));
        assert_eq!(spec["resources"]["requests"], json!({"cpu": "1500m", "pods": "2"}));
        assert_eq!(spec.get("terminationGracePeriod"), None);
    }

    // API-107
    #[test]
    fn a_pool_without_grace_period_gets_the_providers() {
        let interner = Interner::default();
        let launch = launch(&interner, []);
        let grace = |of_provider: Option<i64>, of_pool: Option<&str>| {
            let mut vocabulary = Vocabulary::new(LabelRules::core());
            assert_eq!(vocabulary.default_termination_grace_period, None);
            vocabulary.default_termination_grace_period = of_provider.map(GoDuration::from_secs);
            let mut pool = serde_json::to_value(pool()).expect("serialises");
            pool["spec"]["template"]["spec"]["terminationGracePeriod"] = json!(of_pool);
            let claim = build(Blueprint {
                launch: &launch,
                pool: &serde_json::from_value(pool).expect("a pool"),
                vocabulary: &vocabulary,
                interner: &interner,
            });
            let claim = claim.expect("a claim");
            claim.spec.termination_grace_period.map(|grace| grace.value())
        };
        let seconds = |seconds| Some(GoDuration::from_secs(seconds));
        assert_eq!(grace(None, None), None);
        assert_eq!(grace(Some(600), None), seconds(600));
        assert_eq!(grace(Some(600), Some("5m")), seconds(300));
    }

    // SCH-093, SCH-310, SCH-311, API-104
    #[test]
    fn labels_come_from_requirements_no_launch_sets() {
        let claim = claim(|interner| {
            let key = |text: &str| interner.intern(text);
            vec![
                Requirement::any_of(sym::ZONE, [key("a")]),
                Requirement::any_of(key("b-key"), [key("y"), key("x")]),
                Requirement::exists(key("exists")),
                Requirement::none_of(key("not-in"), [key("0"), key("1")]),
                Requirement::between(key("bounded"), Some(7), Some(9)),
                Requirement::does_not_exist(key("absent")),
                Requirement::is(sym::HOSTNAME, key("h")),
                Requirement::is(sym::REGISTERED, sym::TRUE),
                Requirement::is(sym::INITIALIZED, sym::TRUE),
            ]
        });
        let labels = claim.metadata.labels.expect("labels");
        let labels: Vec<(&str, &str)> = labels
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            labels,
            [
                ("b-key", "x"),
                ("bounded", "7"),
                ("exists", "0"),
                ("karpenter.kwok.sh/kwoknodeclass", "default"),
                ("karpenter.sh/nodepool", "web"),
                ("not-in", "2"),
                ("team", "a"),
            ]
        );
    }

    // SCH-095, SCH-314, SCH-315, SCH-318, API-105, API-106, API-234
    #[test]
    fn requirements_are_written_in_the_form_of_the_api() {
        let claim = claim(|interner| {
            let key = |text: &str| interner.intern(text);
            vec![
                Requirement::any_of(sym::INSTANCE_TYPE, [key("z"), key("m")]).with_min_values(Some(2)),
                Requirement::between(key("cpu"), Some(4), Some(8)).with_min_values(Some(1)),
                Requirement::exists(key("e")),
                Requirement::between(key("f"), Some(4), None),
                Requirement::between(key("g"), None, Some(8)),
                Requirement::none_of(key("n"), [key("z"), key("m")]),
                Requirement::does_not_exist(key("d")),
                Requirement::between(key("o"), Some(4), Some(8))
                    .intersect(&Requirement::none_of(key("o"), [key("6"), key("5")]), interner),
                Requirement::is(sym::HOSTNAME, key("h")),
                Requirement::is(sym::REGISTERED, sym::TRUE),
                Requirement::is(sym::INITIALIZED, sym::TRUE),
            ]
        });
        // A deviation: values that are excluded beside a bound stay excluded.
        assert_eq!(
            serde_json::to_value(&claim.spec.requirements).expect("serialises"),
            json!([
                {"key": "cpu", "operator": "Gte", "values": ["4"], "minValues": 1},
                {"key": "cpu", "operator": "Lte", "values": ["8"], "minValues": 1},
                {"key": "d", "operator": "DoesNotExist"},
                {"key": "e", "operator": "Exists"},
                {"key": "f", "operator": "Gte", "values": ["4"]},
                {"key": "g", "operator": "Lte", "values": ["8"]},
                {"key": "n", "operator": "NotIn", "values": ["m", "z"]},
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m", "z"], "minValues": 2},
                {"key": "o", "operator": "Gte", "values": ["4"]},
                {"key": "o", "operator": "Lte", "values": ["8"]},
                {"key": "o", "operator": "NotIn", "values": ["5", "6"]},
            ])
        );
    }

    // SCH-373
    #[test]
    fn overlaid_types_mark_their_claims() {
        let interner = Interner::default();
        let mut launch = launch(&interner, []);
        let mut catalogue = Catalogue::clone(&launch.catalogue);
        catalogue.types[0].capacity_overlaid = true;
        launch.catalogue = Arc::new(catalogue);
        let vocabulary = Vocabulary::new(LabelRules::core());
        let claim = build(Blueprint {
            launch: &launch,
            pool: &pool(),
            vocabulary: &vocabulary,
            interner: &interner,
        });
        let annotations = claim.expect("a claim").metadata.annotations.expect("annotations");
        assert_eq!(
            annotations
                .get(annotations::CAPACITY_OVERLAY_APPLIED)
                .map(String::as_str),
            Some("true")
        );
        assert_eq!(annotations.get(annotations::PRICE_OVERLAY_APPLIED), None);
    }
}
