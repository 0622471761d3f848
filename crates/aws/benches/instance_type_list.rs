//! The instance types of an EC2NodeClass with their offerings: `cargo bench -p kerf-aws --bench instance_type_list`.
//!
//! All built-in types are offered in six zones, on demand and as spot. `new_class` resolves types and offerings anew, as after a change of
//! kubelet settings; `no_capacity` computes offerings anew, as after a launch that found no capacity; `nothing_changed` finds the list known.

#![expect(clippy::disallowed_macros, reason = "a bench prints")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use jiff::Timestamp;
use kerf_api::ec2_node_class::EC2NodeClass;
use kerf_aws::catalogue::InstanceTypes;
use kerf_aws::instance_type::{ResolveSettings, builtin_types};
use kerf_aws::market::Market;
use kerf_aws::offering::{CapacityType, UnavailableKey};
use kerf_aws::reservation::ReservationCounts;
use kerf_aws::services::InstanceTypeZone;
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use serde_json::json;

const REGION: &str = "us-east-1";
const ZONES: [&str; 6] = [
    "us-east-1a",
    "us-east-1b",
    "us-east-1c",
    "us-east-1d",
    "us-east-1e",
    "us-east-1f",
];
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A class with subnets in all zones and one image for each architecture; `max_pods` tells classes apart.
fn class(max_pods: u32) -> EC2NodeClass {
    let arch = |name: &str| json!([{"key": "kubernetes.io/arch", "operator": "In", "values": [name]}]);
    let subnet = |zone: &&str| json!({"id": format!("subnet-{zone}"), "zone": zone, "zoneID": format!("id-{zone}")});
    serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default", "uid": "1"},
        "spec": {
            "role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": [{"id": "*"}],
            "securityGroupSelectorTerms": [{"id": "*"}], "kubelet": {"maxPods": max_pods},
        },
        "status": {
            "subnets": ZONES.iter().map(subnet).collect::<Vec<_>>(),
            "amis": [{"id": "ami-amd", "requirements": arch("amd64")}, {"id": "ami-arm", "requirements": arch("arm64")}],
        },
    }))
    .expect("a class")
}

fn instance_types() -> InstanceTypes {
    let types = InstanceTypes::new(ResolveSettings::new(REGION), Arc::new(Interner::default()));
    let descriptions: Vec<_> = builtin_types().values().cloned().collect();
    let zones = descriptions.iter().flat_map(|one| {
        ZONES.map(|zone| InstanceTypeZone {
            instance_type: one.name.clone(),
            zone: zone.to_owned(),
        })
    });
    let zones = zones.collect();
    types.report(descriptions, zones);
    types
}

fn list(types: &InstanceTypes, class: &EC2NodeClass, market: &Market) -> Arc<Catalogue> {
    let counts = ReservationCounts::default();
    let list = types.list(class, None, market, &counts, Arc::default(), NOW);
    list.expect("types, zones and subnets are known")
}

fn benches(criterion: &mut Criterion) {
    let (types, market) = (instance_types(), Market::new(REGION, false));
    let known = list(&types, &class(0), &market);
    let offerings: usize = known.types.iter().map(|one| one.offerings.len()).sum();
    println!(
        "{} types with {offerings} offerings in {} zones",
        known.types.len(),
        ZONES.len()
    );
    let mut group = criterion.benchmark_group("instance_type_list");
    let mut max_pods = 1;
    group.bench_function("new_class", |bencher| {
        let next = || {
            max_pods += 1;
            class(max_pods)
        };
        bencher.iter_batched(
            next,
            |class| black_box(list(&types, &class, &market)),
            BatchSize::PerIteration,
        );
    });
    let class = class(0);
    let names: Vec<&String> = builtin_types().keys().collect();
    let key = |at: usize| UnavailableKey {
        capacity_type: CapacityType::Spot,
        instance_type: names[at % names.len()].clone(),
        zone: ZONES[at % ZONES.len()].to_owned(),
        group: None,
    };
    let mut at = 0;
    group.bench_function("no_capacity", |bencher| {
        let next = || {
            at += 1;
            market.unavailable().mark_exhausted(key(at), NOW);
        };
        bencher.iter_batched(
            next,
            |()| black_box(list(&types, &class, &market)),
            BatchSize::PerIteration,
        );
    });
    group.bench_function("nothing_changed", |bencher| {
        bencher.iter(|| black_box(list(&types, &class, &market)));
    });
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
