//! Chooses the machine for a claim and builds its Node. Pure: the same claim gives the same machine (KWK-033 to KWK-053).

use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use kerf_api::node_spec::ResourceList;
use kerf_api::{LabelRules, NodeClaim, Operator, labels, taints};
use kerf_cloud::{Choice, CloudError, Launched, cheapest, claim_name, launch_id, quantities, requirements};
use kerf_model::instance_type::{Catalogue, InstanceType, Offering, allocatable};
use kerf_model::intern::{Interner, Sym};
use kerf_model::requirement::Requirements;
use kerf_runtime::{Rng, Seed};
use kube::api::ObjectMeta;
use std::collections::BTreeMap;

/// What provider ids begin with (KWK-002).
pub const PROVIDER_ID_PREFIX: &str = "kwok://";
/// Label with the price in dollars per hour, which eks-node-viewer shows.
pub const LABEL_PRICE: &str = "eks-node-viewer/instance-price";
/// Label that says which KWOK instance simulates the node.
pub const LABEL_PARTITION: &str = "kwok-partition";
/// Label and annotation that mark a simulated node.
pub const LABEL_SIMULATED: &str = "kwok.x-k8s.io/node";

const PARTITION: &str = "a";
const SIMULATED: &str = "fake";
/// The longest name of a Node.
const NAME_MAX: usize = 253;

/// A machine chosen for a claim; its Node is not created yet.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Machine {
    /// The Node to create.
    pub(crate) node: Node,
    /// What `create` returns for the claim.
    pub(crate) launched: Launched,
}

/// Chooses a machine for a claim: the cheapest offering of the types the claim names. The error is insufficient capacity if no offering
/// is compatible, or says which type is unknown.
pub(crate) fn choose_machine(
    claim: &NodeClaim,
    catalogue: &Catalogue,
    rules: &LabelRules,
    interner: &Interner,
) -> Result<Machine, CloudError> {
    let random = launch_seed(claim)?.rng();
    let kinds = requested_types(claim, catalogue, interner)?;
    let wanted = requirements(&claim.spec.requirements, rules, interner);
    // Every key of an offering is well-known (KWK-004), so none must be defined by the claim.
    let choice = cheapest(kinds, &wanted, |_| true, interner);
    let choice =
        choice.ok_or_else(|| CloudError::insufficient_capacity("no instance type has a compatible offering"))?;
    let claim_name = claim_name(claim)?;
    let name = node_name(claim_name, &random);
    let labels = node_labels(claim_name, claim, &choice, pick_offering(&choice, &random), interner);
    let mut annotations = claim.metadata.annotations.clone().unwrap_or_default();
    annotations.insert(LABEL_SIMULATED.to_owned(), SIMULATED.to_owned());
    let (capacity, allocatable) = amounts(claim, choice.kind, interner);
    let provider_id = format!("{PROVIDER_ID_PREFIX}{name}");
    let node = Node {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some(labels.clone()),
            annotations: Some(annotations.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(provider_id.clone()),
            taints: Some(vec![taints::unregistered()]),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            phase: Some("Pending".to_owned()),
            capacity: Some(to_api(&capacity)),
            allocatable: Some(to_api(&allocatable)),
            ..NodeStatus::default()
        }),
    };
    let launched = Launched {
        name: name.clone(),
        node_name: Some(name),
        provider_id,
        labels,
        annotations,
        capacity,
        allocatable,
        ..Launched::default()
    };
    Ok(Machine { node, launched })
}

/// The seed of everything random about a machine. It follows from the claim's uid (its name where it has none), so a repeated launch
/// gives the same machine again.
fn launch_seed(claim: &NodeClaim) -> Result<Seed, CloudError> {
    Ok(Seed(0).derive(launch_id(claim)?))
}

/// The instance types the claim names, in the order of the claim. The error says which type is unknown or that none is named.
fn requested_types<'a>(
    claim: &NodeClaim,
    catalogue: &'a Catalogue,
    interner: &Interner,
) -> Result<Vec<&'a InstanceType>, CloudError> {
    let translating = |problem: String| CloudError::other(format!("translating nodeclaim to node, {problem}"));
    let mut written = claim.spec.requirements.iter();
    let asked = written.find(|one| one.key == labels::INSTANCE_TYPE && one.operator == Operator::In);
    let asked = asked.ok_or_else(|| translating("instance type requirement not found".to_owned()))?;
    let each = asked.values.iter().map(|value| {
        let id = interner.get(value);
        let found = id.and_then(|id| catalogue.types.iter().find(|kind| kind.name == id));
        found.ok_or_else(|| translating(format!("instance type not found (instance-type={value})")))
    });
    each.collect()
}

/// One of the equally cheap offerings, at random.
fn pick_offering<'a>(choice: &Choice<'a>, random: &Rng) -> Option<&'a Offering> {
    kerf_cloud::pick(&choice.offerings, &|bound: u64| random.below(bound)).copied()
}

/// `kwok-<claim>-<characters>-<number>`, within the length of a name (KWK-043).
fn node_name(claim: &str, random: &Rng) -> String {
    let suffix = format!("-{}-{}", random.name_suffix(10), random.below(1 << 32));
    let room = NAME_MAX.saturating_sub("kwok-".len() + suffix.len());
    format!("kwok-{}{suffix}", claim.get(..room).unwrap_or(claim))
}

/// The Node's labels (KWK-045, KWK-046).
fn node_labels(
    claim_name: &str,
    claim: &NodeClaim,
    choice: &Choice<'_>,
    offering: Option<&Offering>,
    interner: &Interner,
) -> BTreeMap<String, String> {
    let mut all = claim.metadata.labels.clone().unwrap_or_default();
    for one in claim
        .spec
        .requirements
        .iter()
        .filter(|one| one.operator == Operator::In)
    {
        if let [only] = one.values.as_slice() {
            all.insert(one.key.clone(), only.clone());
        }
    }
    all.extend(single_valued(&choice.kind.requirements, interner));
    all.extend(
        offering
            .into_iter()
            .flat_map(|offering| single_valued(&offering.requirements, interner)),
    );
    for (key, value) in [
        (labels::INSTANCE_TYPE, interner.text(choice.kind.name).to_owned()),
        (LABEL_PRICE, format!("{:.6}", choice.price.per_hour())),
        (LABEL_PARTITION, PARTITION.to_owned()),
        (labels::HOSTNAME, claim_name.to_owned()),
        (LABEL_SIMULATED, SIMULATED.to_owned()),
    ] {
        all.insert(key.to_owned(), value);
    }
    all
}

/// Keys and values of the requirements that allow exactly one value.
fn single_valued<'a>(
    requirements: &'a Requirements,
    interner: &'a Interner,
) -> impl Iterator<Item = (String, String)> + 'a {
    let text = |id: Sym| interner.text(id).to_owned();
    requirements
        .iter()
        .filter_map(move |one| Some((text(one.key), text(one.single()?))))
}

/// The Node's capacity and allocatable: those of the instance type, as real clouds have it, and what the claim requests of resources that the
/// type lacks (KWK-049).
fn amounts(claim: &NodeClaim, kind: &InstanceType, interner: &Interner) -> (ResourceList, ResourceList) {
    let requests = claim
        .spec
        .resources
        .as_ref()
        .map(|resources| resources.requests.clone())
        .unwrap_or_default();
    let is_huge = |name: Sym| interner.text(name).starts_with("hugepages-");
    let of_type = allocatable(&kind.capacity, &kind.overhead, is_huge);
    let mut allocatable = requests.clone();
    allocatable.extend(quantities(&of_type, interner));
    let mut capacity = requests;
    capacity.extend(quantities(&kind.capacity, interner));
    (capacity, allocatable)
}

fn to_api(amounts: &ResourceList) -> BTreeMap<String, ApiQuantity> {
    amounts
        .iter()
        .map(|(name, amount)| (name.clone(), ApiQuantity(amount.as_written())))
        .collect()
}
