//! How many calls the provider makes, by action. `-- --nocapture` prints the tables; `KERF_LAUNCHES` is the number of launches (200).

use crate::cluster_fixture::{Cluster, GETTING_STARTED, cluster};
use crate::cluster_objects::ClusterObjects as _;
use kerf_aws_sandbox::account::{Call, CallKind, Throttle};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Pods of which each needs a node of its own.
const SPREAD: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: spread, namespace: default}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: spread}}
  template:
    metadata: {labels: {app: spread}}
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: spread}}}
      containers:
      - {name: pause, image: pause, resources: {requests: {cpu: 100m, memory: 64Mi}}}
"#;

async fn started() -> Cluster {
    let cluster = cluster(|_| {}).await;
    // A thousand small nodes need more than the guide's limit.
    cluster
        .apply(&GETTING_STARTED.replace("cpu: 1000\n", "cpu: 100000\n"))
        .await;
    cluster
        .until("all pods run", 10, async |cluster| cluster.running_pods().await == 5)
        .await;
    cluster
}

fn taken(cluster: &Cluster) -> Vec<Call> {
    cluster.aws.with(|account, _| account.take_calls())
}

/// Calls by service and action.
fn by_action(calls: &[Call]) -> BTreeMap<(&'static str, String), usize> {
    let mut counts = BTreeMap::new();
    for call in calls {
        *counts.entry((call.service, call.action.clone())).or_default() += 1;
    }
    counts
}

fn print(title: &str, counts: &BTreeMap<(&'static str, String), usize>) {
    let limits = Throttle::realistic().limits;
    println!("{title}\n\n| call | count | bucket: burst, calls per second |\n|---|---|---|");
    for ((service, action), count) in counts {
        let limit = limits.get(&CallKind::of(action)).filter(|_| *service == "ec2");
        let limit = limit
            .map(|one| format!("{}, {}", one.burst, one.per_second))
            .unwrap_or_default();
        println!("| {service}:{action} | {count} | {limit} |");
    }
    println!();
}

#[tokio::test(start_paused = true)]
async fn many_launches_take_few_calls() {
    let given = std::env::var("KERF_LAUNCHES").ok().and_then(|text| text.parse().ok());
    let launches: usize = given.unwrap_or(200);
    let cluster = started().await;
    taken(&cluster);
    cluster
        .apply(SPREAD.trim().replace("REPLICAS", &launches.to_string()).as_str())
        .await;
    cluster
        .until("all pods run", 30, async |cluster| {
            cluster.running_pods().await == launches + 5
        })
        .await;
    let calls = taken(&cluster);
    let counts = by_action(&calls);
    print(&format!("{launches} launches, until all pods run:"), &counts);
    let of = |action: &str| counts.get(&("ec2", action.to_owned())).copied().unwrap_or_default();
    let throttled = calls
        .iter()
        .filter(|call| call.error.as_deref() == Some("RequestLimitExceeded"));
    assert_eq!(throttled.count(), 0);
    assert!(cluster.instances().len() >= launches);
    // Claims of one pass are alike: their launches share requests. What is left over for a moment may need another one or two.
    assert!(of("CreateFleet") <= 4, "{counts:?}");
    cluster.stop().await;
}

/// EC2 chooses the spot pool with the most spare capacity among the types that it is offered: with few of them, machines are reclaimed soon.
#[tokio::test(start_paused = true)]
async fn a_spot_launch_offers_many_types() {
    let cluster = started().await;
    let calls = taken(&cluster);
    let spot = calls.iter().filter(|call| {
        let target = call
            .parameters
            .get("TargetCapacitySpecification.DefaultTargetCapacityType");
        call.action == "CreateFleet"
            && target.is_some_and(|target| target == "spot")
            && !call.parameters.contains_key("DryRun")
    });
    let offered: Vec<BTreeSet<&String>> = spot
        .map(|call| {
            let parameters = call.parameters.iter();
            let of_overrides =
                parameters.filter(|(key, _)| key.contains(".Overrides.") && key.ends_with(".InstanceType"));
            of_overrides.map(|(_, kind)| kind).collect()
        })
        .collect();
    println!(
        "spot launches offer so many types: {:?}",
        offered.iter().map(BTreeSet::len).collect::<Vec<_>>()
    );
    assert!(!offered.is_empty());
    assert!(offered.iter().all(|types| types.len() >= 10), "{offered:?}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn at_rest_only_the_intervals_of_caches_make_calls() {
    let cluster = started().await;
    tokio::time::sleep(Duration::from_secs(30 * 60)).await;
    taken(&cluster);
    tokio::time::sleep(Duration::from_secs(60 * 60)).await;
    let counts = by_action(&taken(&cluster));
    print("One hour at rest:", &counts);
    // Calls in an hour: what a class selects each minute, a dry run each half hour, garbage collection, capacity types and drift, three
    // queries of status each minute, and the queue, which waits twenty seconds for messages.
    let most = BTreeMap::from([
        ("CreateFleet", 2),
        ("CreateLaunchTemplate", 2),
        ("DeleteLaunchTemplate", 2),
        ("DescribeImages", 62),
        ("DescribeInstanceStatus", 180),
        ("DescribeInstances", 120),
        ("DescribeLaunchTemplates", 2),
        ("DescribeSecurityGroups", 60),
        ("DescribeSubnets", 60),
        ("RunInstances", 2),
        ("GetInstanceProfile", 4),
        ("ListInstanceProfiles", 2),
        ("ReceiveMessage", 180),
    ]);
    for ((_, action), count) in &counts {
        assert!(
            most.get(action.as_str()).is_some_and(|most| count <= most),
            "{action}: {count}"
        );
    }
    cluster.stop().await;
}
