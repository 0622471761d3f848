//! Node overlays, from the objects to the catalogue decisions see (SCH-357 to SCH-378).

use kerf_api::{LabelRules, NodeOverlay, NodePool};
use kerf_cloud::{
    CloudError, CloudProvider, Evaluation, FakeCloud, OverlayPool, OverlayProvider, OverlayStatus, TypeBuilder,
    evaluate,
};
use kerf_model::instance_type::{Catalogue, InstanceType, allocatable};
use kerf_model::intern::{Interner, sym};
use kerf_model::price::Price;
use kerf_model::resources::Resources;
use serde_json::{Value, json};
use std::sync::Arc;

struct Fixture {
    interner: Arc<Interner>,
    catalogue: Arc<Catalogue>,
}

impl Fixture {
    /// Types a (amd64) and b (arm64), each in two zones, on demand for 1 and spot for 0.5.
    fn new() -> Self {
        let interner = Arc::new(Interner::default());
        let make = |name: &str, arch: &str| {
            let mut builder = TypeBuilder::new(&interner, name)
                .label("kubernetes.io/arch", arch)
                .capacity(sym::CPU, 4000)
                .capacity(sym::MEMORY, 16 << 30)
                .overhead(sym::MEMORY, 1 << 30);
            for zone in ["zone-a", "zone-b"] {
                builder = builder
                    .offering(zone, "on-demand", dollars(1.0))
                    .offering(zone, "spot", dollars(0.5));
            }
            builder.build()
        };
        let types = vec![make("a", "amd64"), make("b", "arm64")];
        let catalogue = Arc::new(Catalogue { types });
        Self { interner, catalogue }
    }

    fn pool(&self, value: &Value) -> OverlayPool {
        OverlayPool::new(
            &pool(value),
            Arc::clone(&self.catalogue),
            &LabelRules::core(),
            &self.interner,
        )
        .expect("a pool with a name")
    }

    fn evaluate(&self, overlays: &[NodeOverlay], pools: &[OverlayPool]) -> Evaluation {
        evaluate(overlays, pools, &LabelRules::core(), &self.interner)
    }

    /// One pool called default, and its catalogue under the overlays.
    fn overlaid(&self, overlays: &[NodeOverlay]) -> (Evaluation, Arc<Catalogue>) {
        let evaluation = self.evaluate(overlays, &[self.pool(&json!({}))]);
        let catalogue = evaluation.pools["default"].apply(&self.catalogue);
        (evaluation, catalogue)
    }

    fn prices(&self, catalogue: &Catalogue) -> Vec<f64> {
        catalogue.types.iter().flat_map(prices).collect()
    }
}

fn prices(kind: &InstanceType) -> Vec<f64> {
    kind.offerings
        .iter()
        .map(|offering| offering.price.per_hour())
        .collect()
}

fn dollars(amount: f64) -> Price {
    Price::from_per_hour(amount).expect("a price")
}

fn pool(labels: &Value) -> NodePool {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let spec = json!({"nodeClassRef": class, "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]});
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": spec}},
    }))
    .expect("a pool")
}

fn overlay(name: &str, mut spec: Value) -> NodeOverlay {
    if spec.get("requirements").is_none() {
        spec["requirements"] = json!([]);
    }
    let object =
        json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name}, "spec": spec});
    serde_json::from_value(object).expect("an overlay")
}

fn only(key: &str, value: &str) -> Value {
    json!([{"key": key, "operator": "In", "values": [value]}])
}

const ARCH: &str = "kubernetes.io/arch";
const ZONE: &str = "topology.kubernetes.io/zone";
const SPOT: &str = "karpenter.sh/capacity-type";

// SCH-359, SCH-364, SCH-365
#[test]
fn a_price_changes_only_the_offerings_that_match() {
    let fixture = Fixture::new();
    let both = json!([
        {"key": SPOT, "operator": "In", "values": ["spot"]},
        {"key": ARCH, "operator": "In", "values": ["arm64"]},
    ]);
    let (evaluation, catalogue) =
        fixture.overlaid(&[overlay("o", json!({"requirements": both, "priceAdjustment": "-50%"}))]);
    assert_eq!(evaluation.statuses["o"], OverlayStatus::Valid);
    assert_eq!(fixture.prices(&catalogue), [1.0, 0.5, 1.0, 0.5, 1.0, 0.25, 1.0, 0.25]);
    let (_, catalogue) = fixture.overlaid(&[overlay("o", json!({"price": "0.3"}))]);
    assert_eq!(fixture.prices(&catalogue), [0.3; 8]);
}

// SCH-365, SCH-372, SCH-373
#[test]
fn capacity_goes_to_the_whole_type_and_leaves_the_original_alone() {
    let fixture = Fixture::new();
    let before = Catalogue::clone(&fixture.catalogue);
    let spec =
        json!({"requirements": only(ZONE, "zone-a"), "capacity": {"example.com/widget": "4", "hugepages-2Mi": "2Gi"}});
    let (_, catalogue) = fixture.overlaid(&[overlay("o", spec)]);
    assert_eq!(*fixture.catalogue, before);
    let kind = &catalogue.types[0];
    assert!(kind.capacity_overlaid && !kind.price_overlaid);
    assert_eq!(kind.capacity.get(fixture.interner.intern("example.com/widget")), 4);
    assert_eq!(kind.capacity.get(sym::CPU), 4000);
    let huge = fixture.interner.intern("hugepages-2Mi");
    let left = allocatable(&kind.capacity, &kind.overhead, |name| name == huge);
    assert_eq!(left.get(sym::MEMORY), 13 << 30);
    assert_eq!(
        (&kind.requirements, &kind.overhead),
        (&before.types[0].requirements, &before.types[0].overhead)
    );
    let (_, repriced) = fixture.overlaid(&[overlay("o", json!({"requirements": only(ARCH, "arm64"), "price": "2"}))]);
    assert_eq!(
        [repriced.types[0].price_overlaid, repriced.types[1].price_overlaid],
        [false, true]
    );
}

// SCH-364
#[test]
fn pool_name_and_template_labels_count_but_template_requirements_do_not() {
    let fixture = Fixture::new();
    let matches = |labels: Value, requirements: Value| {
        let overlay = overlay("o", json!({"requirements": requirements, "price": "9"}));
        !fixture.evaluate(&[overlay], &[fixture.pool(&labels)]).pools["default"].is_empty()
    };
    assert!(matches(json!({}), only("karpenter.sh/nodepool", "default")));
    assert!(!matches(json!({}), only("karpenter.sh/nodepool", "other")));
    assert!(matches(json!({"team": "a"}), only("team", "a")));
    assert!(
        !matches(json!({}), only("team", "a")),
        "an undefined key does not match"
    );
    assert!(matches(json!({}), json!([{"key": "team", "operator": "DoesNotExist"}])));
    // The pool admits amd64 only by its requirements.
    assert!(matches(json!({}), only(ARCH, "arm64")));
    assert!(!matches(json!({"kubernetes.io/arch": "amd64"}), only(ARCH, "arm64")));
    assert!(!matches(json!({}), only(ZONE, "zone-z")), "no offering matches");
}

// SCH-364
#[test]
fn availability_is_ignored() {
    let mut fixture = Fixture::new();
    let mut catalogue = Catalogue::clone(&fixture.catalogue);
    for offering in catalogue.types.iter_mut().flat_map(|kind| &mut kind.offerings) {
        offering.available = false;
    }
    fixture.catalogue = Arc::new(catalogue);
    let (_, overlaid) = fixture.overlaid(&[overlay("o", json!({"price": "2"}))]);
    assert_eq!(fixture.prices(&overlaid), [2.0; 8]);
    assert!(
        overlaid
            .types
            .iter()
            .flat_map(|kind| &kind.offerings)
            .all(|offering| !offering.available)
    );
}

// SCH-363, SCH-366, SCH-371
#[test]
fn of_equal_weight_the_later_name_wins_and_the_loser_applies_nowhere() {
    let fixture = Fixture::new();
    let winner = overlay(
        "b",
        json!({"requirements": only(ARCH, "arm64"), "price": "2", "weight": 3}),
    );
    let loser = overlay("a", json!({"price": "2", "weight": 3}));
    let (evaluation, catalogue) = fixture.overlaid(&[loser.clone(), winner]);
    assert_eq!(evaluation.statuses["b"], OverlayStatus::Valid);
    let conflict = &evaluation.statuses["a"];
    assert_eq!(
        (conflict.reason(), conflict.message()),
        (Some("Conflict"), "conflict with another overlay")
    );
    assert_eq!(fixture.prices(&catalogue), [1.0, 0.5, 1.0, 0.5, 2.0, 2.0, 2.0, 2.0]);
    let (evaluation, catalogue) = fixture.overlaid(&[loser]);
    assert_eq!(evaluation.statuses["a"], OverlayStatus::Valid);
    assert_eq!(fixture.prices(&catalogue), [2.0; 8]);
}

// SCH-366
#[test]
fn overlays_of_equal_weight_that_meet_nowhere_do_not_conflict() {
    let fixture = Fixture::new();
    let (evaluation, catalogue) = fixture.overlaid(&[
        overlay("a", json!({"requirements": only(ZONE, "zone-a"), "price": "2"})),
        overlay("b", json!({"requirements": only(ZONE, "zone-b"), "price": "3"})),
        overlay("c", json!({"capacity": {"example.com/widget": "1"}})),
        overlay("d", json!({"capacity": {"example.com/gadget": "1"}})),
    ]);
    assert!(
        evaluation
            .statuses
            .values()
            .all(|status| *status == OverlayStatus::Valid)
    );
    assert_eq!(prices(&catalogue.types[0]), [2.0, 2.0, 3.0, 3.0]);
}

// SCH-368, SCH-369
#[test]
fn the_heavier_wins_per_price_and_resource_and_the_lighter_fills_the_rest() {
    let fixture = Fixture::new();
    let (evaluation, catalogue) = fixture.overlaid(&[
        overlay("light", json!({"weight": 1, "price": "2", "capacity": {"example.com/widget": "1", "example.com/gadget": "1"}})),
        overlay("heavy", json!({"weight": 9, "requirements": only(SPOT, "spot"), "price": "3", "capacity": {"example.com/widget": "7"}})),
    ]);
    assert!(
        evaluation
            .statuses
            .values()
            .all(|status| *status == OverlayStatus::Valid)
    );
    assert_eq!(prices(&catalogue.types[0]), [2.0, 3.0, 2.0, 3.0]);
    let of = |name: &str| catalogue.types[0].capacity.get(fixture.interner.intern(name));
    assert_eq!((of("example.com/widget"), of("example.com/gadget")), (7, 1));
}

// SCH-370
#[test]
fn a_third_overlay_conflicts_with_the_first_too() {
    let fixture = Fixture::new();
    let (evaluation, _) = fixture.overlaid(&[
        overlay("c", json!({"capacity": {"example.com/widget": "1"}})),
        overlay("b", json!({"capacity": {"example.com/gadget": "1"}})),
        overlay("a", json!({"capacity": {"example.com/widget": "1"}})),
    ]);
    let reasons: Vec<_> = evaluation.statuses.values().map(OverlayStatus::reason).collect();
    assert_eq!(reasons, [Some("Conflict"), None, None]);
}

// SCH-357, SCH-360, SCH-361, SCH-367
#[test]
fn an_invalid_overlay_neither_applies_nor_conflicts() {
    let fixture = Fixture::new();
    let table = [
        (
            json!({"capacity": {"cpu": "1"}}),
            "invalid capacity: cpu in resource, restricted",
        ),
        (
            json!({"price": "1", "priceAdjustment": "+1"}),
            "cannot set both 'price' and 'priceAdjustment'",
        ),
    ];
    for (spec, message) in table {
        let valid = overlay("a", json!({"price": "2"}));
        let (evaluation, catalogue) = fixture.overlaid(&[overlay("b", spec), valid]);
        let invalid = &evaluation.statuses["b"];
        assert_eq!(
            (invalid.reason(), invalid.message()),
            (Some("RuntimeValidation"), message)
        );
        assert_eq!(evaluation.statuses["a"], OverlayStatus::Valid);
        assert_eq!(fixture.prices(&catalogue), [2.0; 8]);
    }
    for requirements in [
        json!([{"key": ARCH, "operator": "In", "values": []}]),
        json!([{"key": ARCH, "operator": "Gt", "values": ["-1"]}]),
        json!([{"key": ARCH, "operator": "Like", "values": ["x"]}]),
        only("kubernetes.io/hostname", "n1"),
    ] {
        let (evaluation, _) = fixture.overlaid(&[overlay("b", json!({"requirements": requirements}))]);
        assert_eq!(
            evaluation.statuses["b"].reason(),
            Some("RuntimeValidation"),
            "{requirements}"
        );
    }
}

// SCH-378
#[test]
fn a_repriced_offering_keeps_its_overrides() {
    let mut fixture = Fixture::new();
    let mut catalogue = Catalogue::clone(&fixture.catalogue);
    let special = Some(Box::new(Resources::new().with(sym::PODS, 9)));
    catalogue.types[0].offerings[0].capacity_override.clone_from(&special);
    fixture.catalogue = Arc::new(catalogue);
    let (_, overlaid) = fixture.overlaid(&[overlay("o", json!({"price": "2"}))]);
    assert_eq!(overlaid.types[0].offerings[0].capacity_override, special);
}

// SCH-374
#[tokio::test]
async fn pools_wait_for_their_evaluation_and_untouched_ones_keep_their_catalogue() {
    let fixture = Fixture::new();
    let fake = Arc::new(FakeCloud::new(
        Arc::clone(&fixture.interner),
        Arc::clone(&fixture.catalogue),
    ));
    let provider = OverlayProvider::new(fake);
    let pool = pool(&json!({}));
    assert_eq!(
        provider.instance_types(&pool).await,
        Err(CloudError::AwaitingOverlays("default".into()))
    );
    provider.publish(&fixture.evaluate(&[], &[fixture.pool(&json!({}))]));
    let plain = provider.instance_types(&pool).await.expect("evaluated");
    assert!(Arc::ptr_eq(&plain, &fixture.catalogue));
    let (evaluation, _) = fixture.overlaid(&[overlay("o", json!({"price": "2"}))]);
    provider.publish(&evaluation);
    let first = provider.instance_types(&pool).await.expect("evaluated");
    let second = provider.instance_types(&pool).await.expect("evaluated");
    assert_eq!(fixture.prices(&first), [2.0; 8]);
    assert!(
        Arc::ptr_eq(&first, &second),
        "the result is kept as long as nothing changes"
    );
    provider.publish(&Evaluation::default());
    assert!(provider.instance_types(&pool).await.is_err());
}
