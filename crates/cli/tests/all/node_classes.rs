//! EC2NodeClasses: the instance types they give, and plans with them.

use crate::kerf::{kerf, kerf_with_input};
use serde_json::Value;

/// A class with these lines in its spec.
fn class(lines: &str) -> String {
    format!(
        "apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: default}}
spec:
  role: nodes
  amiSelectorTerms: [{{alias: bottlerocket@latest}}]
  subnetSelectorTerms: [{{tags: {{karpenter.sh/discovery: prod}}}}]
  securityGroupSelectorTerms: [{{tags: {{karpenter.sh/discovery: prod}}}}]
{lines}---
"
    )
}

const POOL: &str = "apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 12
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: web, resources: {requests: {cpu: 10m}}}]
";

fn nodes(lines: &str, flags: &[&str]) -> usize {
    let manifests = class(lines) + POOL;
    let args = [&["simulate", "-f", "-", "-o", "json", "--verify"], flags].concat();
    let outcome = kerf_with_input(&args, manifests.as_bytes());
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("a report");
    report["nodes"].as_array().expect("nodes").len()
}

#[test]
fn kubelet_settings_of_a_class_decide_how_many_nodes_are_needed() {
    assert_eq!(nodes("", &[]), 1);
    assert_eq!(nodes("  kubelet: {maxPods: 5}\n", &[]), 3);
    assert_eq!(nodes("  kubelet: {systemReserved: {cpu: 1890m}}\n", &[]), 3);
    // Three interfaces of ten addresses; with two kept from pods one is left.
    assert_eq!(nodes("", &["--reserved-enis", "2"]), 2);
    // Instance types of the command line are meant for all classes.
    assert_eq!(nodes("  kubelet: {maxPods: 5}\n", &["--catalogue", "ec2"]), 1);
}

#[test]
fn a_class_an_api_server_would_refuse_is_an_error() {
    let manifests = class("  instanceStorePolicy: RAID5\n") + POOL;
    let outcome = kerf_with_input(&["simulate", "-f", "-"], manifests.as_bytes());
    assert_eq!(outcome.code, 2, "{}", outcome.stdout);
    assert!(
        outcome.stderr.contains("spec.instanceStorePolicy"),
        "{}",
        outcome.stderr
    );
}

fn find<'a>(types: &'a Value, name: &str) -> &'a Value {
    let mut named = types
        .as_array()
        .expect("types")
        .iter()
        .filter(|one| one["name"] == name);
    named.next().expect("a type of that name")
}

#[test]
fn the_catalogue_prints_the_types_of_a_class() {
    let plain = kerf(&["catalogue", "-o", "json"]);
    assert_eq!(plain.code, 0, "{}", plain.stderr);
    let types: Value = serde_json::from_str(&plain.stdout).expect("a document");
    let m5 = find(&types, "m5.large");
    assert_eq!(m5["allocatable"]["cpu"], "1930m");
    assert_eq!(m5["capacity"]["pods"], "29");
    assert_eq!(m5["offerings"].as_array().expect("offerings").len(), 8);
    let small = class("  kubelet: {maxPods: 5}\n");
    let flags = ["catalogue", "--nodeclass", "-", "-o", "json", "--region", "eu-west-1"];
    let small = kerf_with_input(&flags, small.as_bytes());
    assert!(small.stderr.contains("no prices of eu-west-1"), "{}", small.stderr);
    let types: Value = serde_json::from_str(&small.stdout).expect("a document");
    let m5 = find(&types, "m5.large");
    assert_eq!(m5["capacity"]["pods"], "5");
    assert_eq!(m5["offerings"][0]["zone"], "eu-west-1a");
    let table = kerf(&["catalogue"]);
    assert!(table.stdout.starts_with("TYPE"), "{}", table.stdout);
    let two = class("") + &class("");
    assert_eq!(
        kerf_with_input(&["catalogue", "--nodeclass", "-"], two.as_bytes()).code,
        2
    );
}

#[test]
fn a_printed_catalogue_can_be_planned_with() {
    let printed = kerf(&["catalogue", "-o", "kwok"]);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    let path = std::env::temp_dir().join(format!("kerf-catalogue-{}.json", std::process::id()));
    std::fs::write(&path, &printed.stdout).expect("a file");
    let name = path.display().to_string();
    assert_eq!(nodes("", &["--instance-types", &name]), 1);
    std::fs::remove_file(&path).expect("the file is there");
}

/// A file in the folder for temporary files, removed at the end.
struct TempFile(std::path::PathBuf);

impl TempFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kerf-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("a file");
        Self(path)
    }

    fn name(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

// AWS-345
#[test]
fn offline_commands_and_the_controller_refuse_the_same_part_of_memory() {
    for value in ["-0.1", "NaN", "inf", "much"] {
        let flag = format!("--vm-memory-overhead-percent={value}");
        for command in [
            &["catalogue"][..],
            &["simulate", "-f", "-"],
            &["explain", "pod/a", "-f", "-"],
        ] {
            let outcome = kerf(&[command, &[&*flag]].concat());
            assert_eq!(outcome.code, 2, "{command:?} {value}: {}", outcome.stderr);
            assert!(
                outcome.stderr.contains("vm-memory-overhead-percent"),
                "{}",
                outcome.stderr
            );
        }
    }
    assert_eq!(kerf(&["catalogue", "--vm-memory-overhead-percent", "0"]).code, 0);
}

#[test]
fn prices_of_another_region_are_an_error() {
    let heading = "region,instance_type,currency,price_per_hour\n";
    let prices = TempFile::new("prices.csv", &format!("{heading}eu-west-1,m5.large,USD,0.5\n"));
    let name = prices.name();
    let wrong = kerf(&["catalogue", "--prices", &name, "--region", "eu-central-1"]);
    assert_eq!(wrong.code, 2, "{}", wrong.stdout);
    for part in [&*name, "eu-central-1", "eu-west-1", "--region"] {
        assert!(wrong.stderr.contains(part), "{part}: {}", wrong.stderr);
    }
    let right = kerf(&["catalogue", "--prices", &name, "--region", "eu-west-1", "-o", "json"]);
    assert_eq!((right.code, &*right.stderr), (0, ""));
    let types: Value = serde_json::from_str(&right.stdout).expect("a document");
    assert_eq!(find(&types, "m5.large")["offerings"][0]["pricePerHour"], 0.5);
    let empty = TempFile::new("empty.csv", heading);
    let none = kerf(&["simulate", "-f", "-", "--prices", &empty.name()]);
    assert!(none.code == 2 && none.stderr.contains("us-east-1"), "{}", none.stderr);
}

const RESERVED: &str = "status:
  capacityReservations:
  - {availabilityZone: us-east-1a, id: cr-1, instanceMatchCriteria: open, instanceType: m5.large, ownerID: '123456789012'}
";

// AWS-273
#[test]
fn reservations_have_the_instances_that_ec2_says_are_left() {
    let manifests = class("") + POOL;
    let manifests = manifests.replacen("---\n", &format!("{RESERVED}---\n"), 1);
    let manifests = manifests
        .replace("values: [on-demand]", "values: [on-demand, reserved]")
        .replace("cpu: 10m", "cpu: 1000m");
    let reserved = |flags: &[&str]| {
        let args = [&["simulate", "-f", "-", "-o", "json"], flags].concat();
        let outcome = kerf_with_input(&args, manifests.as_bytes());
        // As with Karpenter, pods that find the reservation full wait for the next pass.
        assert_eq!(outcome.code, 1, "{}{}", outcome.stdout, outcome.stderr);
        let report: Value = serde_json::from_str(&outcome.stdout).expect("a report");
        let nodes = report["nodes"].as_array().expect("nodes");
        assert!(nodes.iter().all(|node| node["capacityType"] == "reserved"), "{nodes:?}");
        (nodes.len(), outcome.stderr)
    };
    let (count, said) = reserved(&[]);
    assert_eq!(count, 1);
    assert!(
        said.contains("cr-1") && said.contains("--capacity-reservations"),
        "{said}"
    );
    let described = r#"{"CapacityReservations": [{"CapacityReservationId": "cr-1", "AvailableInstanceCount": 3}]}"#;
    let file = TempFile::new("reservations.json", described);
    let (count, said) = reserved(&["--capacity-reservations", &file.name()]);
    assert_eq!((count, &*said), (3, ""));
    let wrong = TempFile::new("wrong.json", "[]");
    let outcome = kerf(&["catalogue", "--capacity-reservations", &wrong.name()]);
    assert_eq!(outcome.code, 2);
    assert!(
        outcome.stderr.contains("describe-capacity-reservations"),
        "{}",
        outcome.stderr
    );
}

#[cfg(not(feature = "aws"))]
#[test]
fn a_build_without_aws_says_that_it_cannot_ask_an_account() {
    let outcome = kerf(&["catalogue", "--live"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("--features aws"), "{}", outcome.stderr);
    let outcome = kerf(&["catalogue", "--live", "--prices", "prices.csv"]);
    assert!(
        outcome.code == 2 && outcome.stderr.contains("--prices"),
        "{}",
        outcome.stderr
    );
}
