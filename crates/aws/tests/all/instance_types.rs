//! Labels, capacity and overhead of instance types.

use crate::class::{class, class_with_status, description, label, of_family, resolved, settings, single, zones};
use kerf_aws::instance_type::{
    BUILTIN_ZONES, GpuDescription, Incompatibility, NameParts, NeuronDescription, TypeKey, architecture, builtin_types,
    incompatibility, memory_bytes, name_parts, pods, resolve,
};
use kerf_aws::placement_group::{PlacementGroup, Strategy};
use kerf_model::instance_type::{InstanceType, allocatable};
use kerf_model::intern::{Interner, sym};
use kerf_model::resources::Resources;
use serde_json::{Value, json};

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

fn left(kind: &InstanceType) -> Resources {
    allocatable(&kind.capacity, &kind.overhead, |_| false)
}

// AWS-186
#[test]
fn names_say_category_generation_family_and_size() {
    for (name, category, generation, family, size) in [
        ("m5.large", "m", "5", "m5", "large"),
        ("c7i-flex.large", "c", "7", "c7i-flex", "large"),
        ("u-6tb1.metal", "u", "1", "u-6tb1", "metal"),
        ("hpc7a.12xlarge", "hpc", "7", "hpc7a", "12xlarge"),
        ("g4dn.8xlarge", "g", "4", "g4dn", "8xlarge"),
    ] {
        let want = NameParts {
            category_generation: Some((category, generation)),
            family_size: Some((family, size)),
        };
        assert_eq!(name_parts(name), want, "{name}");
    }
    assert_eq!(name_parts("odd.name.here").family_size, None);
    // The table of types has the parts as columns of its own.
    let table = include_str!("../../data/instance_types.csv");
    for line in table.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let parts = name_parts(cells[0]);
        assert_eq!(parts.category_generation, Some((cells[1], cells[3])), "{line}");
        assert_eq!(parts.family_size, Some((cells[2], cells[4])), "{line}");
    }
}

// AWS-191
#[test]
fn labels_of_well_known_types() {
    let interner = Interner::default();
    for (name, labels) in [
        (
            "g4dn.8xlarge",
            &[
                ("instance-cpu", "32"),
                ("instance-cpu-manufacturer", "intel"),
                ("instance-cpu-sustained-clock-speed-mhz", "2500"),
                ("instance-memory", "131072"),
                ("instance-ebs-bandwidth", "9500"),
                ("instance-network-bandwidth", "50000"),
                ("instance-gpu-name", "t4"),
                ("instance-gpu-manufacturer", "nvidia"),
                ("instance-gpu-count", "1"),
                ("instance-gpu-memory", "16384"),
                ("instance-local-nvme", "900"),
                ("instance-hypervisor", "nitro"),
                ("instance-capability-flex", "false"),
            ][..],
        ),
        (
            "inf2.xlarge",
            &[
                ("instance-cpu", "4"),
                ("instance-cpu-manufacturer", "amd"),
                ("instance-cpu-sustained-clock-speed-mhz", "3600"),
                ("instance-memory", "16384"),
                ("instance-ebs-bandwidth", "10000"),
                ("instance-network-bandwidth", "2083"),
                ("instance-accelerator-name", "inferentia2"),
                ("instance-accelerator-manufacturer", "aws"),
                ("instance-accelerator-count", "1"),
            ],
        ),
        // AWS-184
        (
            "c7i-flex.large",
            &[("instance-capability-flex", "true"), ("instance-generation", "7")],
        ),
        // AWS-183
        ("m5.metal", &[("instance-hypervisor", ""), ("instance-category", "m")]),
    ] {
        let kind = resolved(name, &class(json!({})), &interner);
        for (key, want) in labels {
            // AWS-355
            let got = single(&kind, &format!("karpenter.k8s.aws/{key}"), &interner);
            assert_eq!(got.as_deref(), Some(*want), "{name} {key}");
        }
    }
}

// AWS-185, AWS-187, AWS-189
#[test]
fn what_a_type_lacks_does_not_exist() {
    let interner = Interner::default();
    let kind = resolved("m5.large", &class(json!({})), &interner);
    for key in [
        "instance-gpu-name",
        "instance-gpu-count",
        "instance-gpu-memory",
        "instance-gpu-manufacturer",
        "instance-accelerator-name",
        "instance-accelerator-manufacturer",
        "instance-accelerator-count",
        "instance-local-nvme",
        "capacity-reservation-id",
        "capacity-reservation-type",
        "capacity-reservation-interruptible",
    ] {
        let got = label(&kind, &format!("karpenter.k8s.aws/{key}"), &interner);
        assert_eq!(got, Some(Vec::new()), "{key}");
    }
    assert_eq!(
        label(&kind, "node.kubernetes.io/windows-build", &interner),
        Some(Vec::new())
    );
    let mut old = description("m5.large");
    old.network_mbps = None;
    old.ebs_mbps = None;
    old.clock_ghz = Some(2.499_6);
    let old = resolve(
        &old,
        &class(json!({})),
        &zones(&BUILTIN_ZONES),
        None,
        &settings(),
        &interner,
    );
    let text = |key: &str| label(&old, &format!("karpenter.k8s.aws/{key}"), &interner).unwrap();
    assert_eq!(text("instance-network-bandwidth"), Vec::<String>::new());
    assert_eq!(text("instance-ebs-bandwidth"), Vec::<String>::new());
    assert_eq!(text("instance-cpu-sustained-clock-speed-mhz"), ["2500"]);
}

// AWS-181, AWS-183
#[test]
fn zones_are_those_of_offerings_and_subnets_alike() {
    let interner = Interner::default();
    let kind = resolved("m5.large", &class(json!({})), &interner);
    let text = |key: &str| label(&kind, key, &interner).unwrap();
    assert_eq!(text("topology.kubernetes.io/zone"), ["us-east-1a", "us-east-1b"]);
    assert_eq!(text("topology.k8s.aws/zone-id"), ["use1-az1", "use1-az2"]);
    assert_eq!(text("topology.kubernetes.io/region"), ["us-east-1"]);
    assert_eq!(text("karpenter.sh/capacity-type"), ["on-demand", "spot"]);
    assert_eq!(text("karpenter.k8s.aws/instance-tenancy"), ["dedicated", "default"]);
    assert_eq!(text("kubernetes.io/os"), ["linux"]);
    let only_b = resolve(
        &description("m5.large"),
        &class(json!({})),
        &zones(&["us-east-1b", "us-east-1c"]),
        None,
        &settings(),
        &interner,
    );
    assert_eq!(
        single(&only_b, "topology.kubernetes.io/zone", &interner).as_deref(),
        Some("us-east-1b")
    );
    let unknown_ids = class_with_status(json!({}), json!({"subnets": [{"id": "s", "zone": "us-east-1a"}]}));
    let kind = resolved("m5.large", &unknown_ids, &interner);
    assert_eq!(label(&kind, "topology.k8s.aws/zone-id", &interner), None);
}

// AWS-182, AWS-190
#[test]
fn windows_runs_on_amd64_alone() {
    let interner = Interner::default();
    let windows = of_family("Windows2022");
    let kind = resolved("m5.large", &windows, &interner);
    assert_eq!(single(&kind, "kubernetes.io/os", &interner).as_deref(), Some("windows"));
    assert_eq!(
        single(&kind, "node.kubernetes.io/windows-build", &interner).as_deref(),
        Some("10.0.20348")
    );
    let graviton = resolved("m6g.large", &windows, &interner);
    assert_eq!(label(&graviton, "kubernetes.io/os", &interner), Some(Vec::new()));
    assert_eq!(architecture(&description("m6g.large")), Some("arm64"));
    let mut old = description("t3.large");
    old.architectures = vec!["i386".to_owned(), "x86_64".to_owned()];
    assert_eq!(architecture(&old), Some("amd64"));
}

// AWS-188
#[test]
fn several_kinds_of_accelerators_give_no_label() {
    let interner = Interner::default();
    let resolve = |description| {
        resolve(
            &description,
            &class(json!({})),
            &zones(&["us-east-1a"]),
            None,
            &settings(),
            &interner,
        )
    };
    let mut kind = description("g5.xlarge");
    kind.gpus = vec![GpuDescription {
        name: "RTX PRO Server 6000".to_owned(),
        manufacturer: "NVIDIA".to_owned(),
        count: 2,
        memory_mib: 24_576,
    }];
    let one = resolve(kind.clone());
    assert_eq!(
        single(&one, "karpenter.k8s.aws/instance-gpu-name", &interner).as_deref(),
        Some("rtx-pro-server-6000")
    );
    kind.gpus.push(kind.gpus[0].clone());
    let two = resolve(kind);
    assert_eq!(
        label(&two, "karpenter.k8s.aws/instance-gpu-name", &interner),
        Some(Vec::new())
    );
    assert_eq!(two.capacity.get(interner.intern("nvidia.com/gpu")), 4);
}

// AWS-211, AWS-198, AWS-208
#[test]
fn allocatable_of_well_known_types() {
    let interner = Interner::default();
    for (name, cpu, memory_mib) in [
        ("m5.large", 1930, 6903),
        ("t3.large", 1930, 6837),
        ("m6g.large", 1930, 6844),
        ("c7i.4xlarge", 15890, 27381),
        ("g5.xlarge", 3920, 14162),
    ] {
        let kind = resolved(name, &class(json!({})), &interner);
        let left = left(&kind);
        assert_eq!(
            (left.get(sym::CPU), left.get(sym::MEMORY) / MIB),
            (cpu, memory_mib),
            "{name}"
        );
        assert_eq!(left.get(sym::EPHEMERAL_STORAGE), 17 * GIB, "{name}");
    }
    for (cores, milli) in [
        ("m5.metal", 310),
        ("m6g.medium", 60),
        ("m5.large", 70),
        ("m5.xlarge", 80),
    ] {
        let kind = resolved(cores, &class(json!({})), &interner);
        assert_eq!(kind.overhead.get(sym::CPU), milli, "{cores}");
    }
}

// AWS-212
#[test]
fn estimates_do_not_exceed_what_kubelet_reports() {
    for (name, reported_kib) in [
        ("m5.large", 7_220_184),
        ("t4g.small", 1_408_312),
        ("t4g.medium", 3_377_496),
        ("t4g.xlarge", 15_136_012),
    ] {
        let interner = Interner::default();
        let kind = resolved(name, &class(json!({})), &interner);
        let estimate_kib = left(&kind).get(sym::MEMORY) / 1024;
        assert!(estimate_kib <= reported_kib, "{name}: {estimate_kib} KiB");
    }
}

// AWS-484, AWS-198
#[test]
fn memory_overhead_is_taken_in_whole_mebibytes_after_the_firmware() {
    // 8192 MiB, 7.5 % are 614.4 MiB.
    assert_eq!(memory_bytes(&description("m5.large"), 0.075), (8192 - 615) * MIB);
    // 8192 − 64 = 8128 MiB, 7.5 % are 609.6 MiB.
    assert_eq!(memory_bytes(&description("m6g.large"), 0.075), (8128 - 610) * MIB);
    assert_eq!(memory_bytes(&description("m6g.large"), 0.0), 8128 * MIB);
}

// AWS-199, AWS-213
#[test]
fn discovered_memory_replaces_the_estimate_but_not_the_thresholds() {
    let interner = Interner::default();
    let class = class(json!({"kubelet": {"evictionHard": {"memory.available": "10%"}}}));
    let resolve = |memory| {
        resolve(
            &description("m5.large"),
            &class,
            &zones(&["us-east-1a"]),
            memory,
            &settings(),
            &interner,
        )
    };
    let (estimated, discovered) = (resolve(None), resolve(Some(7800 * MIB)));
    assert_eq!(discovered.capacity.get(sym::MEMORY), 7800 * MIB);
    assert_eq!(estimated.overhead, discovered.overhead);
}

// AWS-202, AWS-203
#[test]
fn interfaces_of_the_first_card_limit_pods() {
    let interface = |card: i32, device: i32, kind: &str| json!({"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind});
    let first = interface(0, 0, "interface");
    let mut reserved = settings();
    reserved.reserved_enis = 1;
    for (name, interfaces, reserved_enis, want) in [
        ("t3.large", json!(null), 0, 35),
        ("m6idn.32xlarge", json!(null), 0, 394),
        ("m6idn.32xlarge", json!([first, interface(0, 1, "efa-only")]), 0, 345),
        ("m6idn.32xlarge", json!([first, interface(1, 1, "efa-only")]), 0, 394),
        ("t3.large", json!(null), 1, 24),
        ("t3.large", json!(null), 9, 0),
    ] {
        let class = class(json!({ "networkInterfaces": interfaces }));
        let family = class.spec.effective_family();
        let got = pods(
            &description(name),
            family,
            &class.spec.kubelet(),
            reserved_enis,
            class.spec.interfaces(),
        );
        assert_eq!(got, want, "{name} {:?}", class.spec.network_interfaces);
    }
}

// AWS-201
#[test]
fn max_pods_and_pods_per_core() {
    let count = |family: &str, kubelet: Value| {
        let mut class = of_family(family);
        class.spec.kubelet = serde_json::from_value(kubelet).unwrap();
        pods(
            &description("t3.large"),
            class.spec.effective_family(),
            &class.spec.kubelet(),
            0,
            &[],
        )
    };
    for (family, kubelet, want) in [
        ("AL2023", json!({}), 35),
        ("AL2023", json!({"maxPods": 10}), 10),
        ("AL2023", json!({"podsPerCore": 4}), 8),
        ("AL2023", json!({"podsPerCore": 0}), 35),
        ("AL2023", json!({"podsPerCore": 100, "maxPods": 30}), 30),
        ("Bottlerocket", json!({"podsPerCore": 4}), 35),
        ("Windows2022", json!({}), 110),
        ("Windows2022", json!({"podsPerCore": 4}), 8),
    ] {
        assert_eq!(count(family, kubelet.clone()), want, "{family} {kubelet}");
    }
}

// AWS-207, AWS-483
#[test]
fn memory_of_kubelet_follows_interfaces_or_pods_by_family() {
    let interner = Interner::default();
    let overhead_mib = |family: &str, max_pods: Value, reserved_enis: i64| {
        let mut class = of_family(family);
        class.spec.kubelet = serde_json::from_value(json!({ "maxPods": max_pods })).unwrap();
        let mut settings = settings();
        settings.reserved_enis = reserved_enis;
        let kind = resolve(
            &description("t3.large"),
            &class,
            &zones(&[]),
            None,
            &settings,
            &interner,
        );
        kind.overhead.get(sym::MEMORY) / MIB - 100
    };
    for family in ["AL2", "AL2023", "Custom"] {
        assert_eq!(overhead_mib(family, json!(10), 0), 640, "{family}");
        assert_eq!(overhead_mib(family, json!(null), 1), 640, "{family}");
    }
    for family in ["Bottlerocket", "Windows2022"] {
        assert_eq!(overhead_mib(family, json!(10), 0), 365, "{family}");
    }
    assert_eq!(overhead_mib("Bottlerocket", json!(null), 1), 519);
    assert_eq!(overhead_mib("Windows2022", json!(null), 1), 1465);
}

// AWS-208, AWS-209, AWS-210, AWS-485
#[test]
fn kubelet_settings_replace_reservations_and_thresholds() {
    let interner = Interner::default();
    let overhead = |kubelet: Value| resolved("m5.large", &class(json!({ "kubelet": kubelet })), &interner).overhead;
    let capacity_mib = 8192 - 615;
    let base = overhead(json!({}));
    assert_eq!(base.get(sym::MEMORY), (574 + 100) * MIB);
    assert_eq!(base.get(sym::EPHEMERAL_STORAGE), GIB + 2 * GIB);
    let kube = overhead(json!({"kubeReserved": {"memory": "1Gi", "pid": "100"}}));
    assert_eq!(kube.get(sym::MEMORY), (1024 + 100) * MIB);
    assert_eq!(kube.get(interner.intern("pid")), 100);
    assert_eq!(kube.get(sym::CPU), 70);
    let system = overhead(json!({"systemReserved": {"cpu": "200m", "memory": "100Mi"}}));
    assert_eq!(
        (system.get(sym::CPU), system.get(sym::MEMORY)),
        (270, (574 + 200) * MIB)
    );
    for (threshold, mib) in [("500Mi", 500), ("100%", 0), ("100.00%", 0)] {
        let hard = overhead(json!({"evictionHard": {"memory.available": threshold}}));
        assert_eq!(hard.get(sym::MEMORY), (574 + mib) * MIB, "{threshold}");
    }
    let percent = overhead(json!({"evictionHard": {"memory.available": "10%", "nodefs.available": "5%"}}));
    assert_eq!(percent.get(sym::MEMORY), 574 * MIB + (capacity_mib * MIB + 9) / 10);
    assert_eq!(percent.get(sym::EPHEMERAL_STORAGE), 2 * GIB);
    let soft =
        json!({"evictionSoft": {"memory.available": "50%"}, "evictionSoftGracePeriod": {"memory.available": "1m"}});
    assert_eq!(overhead(soft), base);
}

// AWS-204, AWS-486
#[test]
fn ephemeral_storage_is_that_of_the_disk_with_pods() {
    let interner = Interner::default();
    let storage = |name: &str, family: &str, changes: Value| {
        let mut class = of_family(family);
        let changed = self::class(changes);
        class.spec.block_device_mappings = changed.spec.block_device_mappings;
        class.spec.instance_store_policy = changed.spec.instance_store_policy;
        resolved(name, &class, &interner).capacity.get(sym::EPHEMERAL_STORAGE)
    };
    let disks = |disks: Value| json!({ "blockDeviceMappings": disks });
    let xvda = json!({"deviceName": "/dev/xvda", "ebs": {"volumeSize": "50Gi"}});
    let xvdb = json!({"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "70Gi"}});
    let root = json!({"deviceName": "/dev/xvdc", "rootVolume": true, "ebs": {"volumeSize": "90Gi"}});
    let sizeless = json!({"deviceName": "/dev/xvda", "ebs": {"snapshotID": "snap-1"}});
    let raid = json!({"instanceStorePolicy": "RAID0"});
    for (name, family, changes, want) in [
        ("m5.large", "AL2023", json!({}), 20 * GIB),
        ("m5.large", "Bottlerocket", json!({}), 20 * GIB),
        ("m5.large", "Windows2022", json!({}), 50 * GIB),
        ("m5.large", "Custom", json!({}), 20 * GIB),
        ("m5.large", "AL2023", disks(json!([xvda, xvdb])), 50 * GIB),
        ("m5.large", "Bottlerocket", disks(json!([xvda, xvdb])), 70 * GIB),
        ("m5.large", "Custom", disks(json!([xvda, xvdb])), 70 * GIB),
        ("m5.large", "Custom", disks(json!([xvdb, sizeless])), 20 * GIB),
        ("m5.large", "AL2023", disks(json!([xvda, root])), 90 * GIB),
        ("m5.large", "AL2023", disks(json!([xvdb])), 20 * GIB),
        ("m5.large", "AL2023", disks(json!([sizeless])), 20 * GIB),
        ("m5.large", "AL2023", raid.clone(), 20 * GIB),
        ("m6idn.32xlarge", "AL2023", raid, 7_600_000_000_000),
    ] {
        assert_eq!(
            storage(name, family, changes.clone()),
            want,
            "{name} {family} {changes}"
        );
    }
}

// AWS-205, AWS-206
#[test]
fn extended_resources() {
    let interner = Interner::default();
    let amount = |name: &str, class: &kerf_api::EC2NodeClass, resource: &str| {
        resolved(name, class, &interner).capacity.get(interner.intern(resource))
    };
    let linux = class(json!({}));
    for (name, resource, want) in [
        ("g5.xlarge", "nvidia.com/gpu", 1),
        ("dl1.24xlarge", "habana.ai/gaudi", 8),
        ("inf2.48xlarge", "aws.amazon.com/neuron", 12),
        ("inf2.48xlarge", "aws.amazon.com/neuroncore", 24),
        ("m5.large", "vpc.amazonaws.com/pod-eni", 9),
        ("t3.large", "vpc.amazonaws.com/pod-eni", 0),
        ("m6idn.32xlarge", "vpc.amazonaws.com/efa", 2),
        ("m5.large", "vpc.amazonaws.com/PrivateIPv4Address", 0),
    ] {
        assert_eq!(amount(name, &linux, resource), want, "{name} {resource}");
    }
    let one = |kind: &str, device: i32| json!({"networkCardIndex": 0, "deviceIndex": device, "interfaceType": kind});
    let with_efa = class(json!({"networkInterfaces": [one("interface", 0), one("efa-only", 1)]}));
    assert_eq!(amount("m6idn.32xlarge", &with_efa, "vpc.amazonaws.com/efa"), 1);
    let without = class(json!({"networkInterfaces": []}));
    assert_eq!(amount("m6idn.32xlarge", &without, "vpc.amazonaws.com/efa"), 0);
    let windows = of_family("Windows2022");
    assert_eq!(amount("m5.large", &windows, "vpc.amazonaws.com/PrivateIPv4Address"), 9);
    assert!(
        !resolved("m5.large", &linux, &interner)
            .capacity
            .contains(interner.intern("nvidia.com/gpu"))
    );
    let mut several = description("inf2.48xlarge");
    several.neuron.push(NeuronDescription {
        name: "other".to_owned(),
        count: 5,
        cores_per_device: 8,
    });
    let kind = resolve(&several, &linux, &zones(&[]), None, &settings(), &interner);
    assert_eq!(kind.capacity.get(interner.intern("aws.amazon.com/neuron")), 17);
    assert_eq!(kind.capacity.get(interner.intern("aws.amazon.com/neuroncore")), 24);
}

/// What is kept from pods on a node of so many cores, with memory for kubelet for so many pods and a disk of 20 GiB: CPU, memory, storage.
fn kept(cores: i64, pods: i64) -> [i64; 3] {
    let first_four = [0, 60, 70, 75, 80];
    let cpu = match usize::try_from(cores).ok().and_then(|cores| first_four.get(cores)) {
        Some(milli) => *milli,
        None => 80 + (cores - 4) * 5 / 2,
    };
    [cpu, (11 * pods + 255 + 100) * MIB, GIB + 2 * GIB]
}

// AWS-207, AWS-208, AWS-210, AWS-211
#[test]
fn every_built_in_type_resolves_as_published() {
    let interner = Interner::default();
    let table = include_str!("../../data/instance_types.csv");
    assert_eq!(builtin_types().len() + 1, table.lines().count());
    let linux = class(json!({}));
    let bottlerocket = class(json!({"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}));
    let few = |alias: &str| class(json!({"amiSelectorTerms": [{"alias": alias}], "kubelet": {"maxPods": 10}}));
    let (few_linux, few_bottlerocket) = (few("al2023@latest"), few("bottlerocket@latest"));
    let header: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|one| *one == name).unwrap();
    let (cores, max_pods) = (column("vcpu"), column("max_pods_eni"));
    for line in table.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let (cores, pods): (i64, i64) = (cells[cores].parse().unwrap(), cells[max_pods].parse().unwrap());
        // Bottlerocket reserves for the pods that a node can have, the others for those of its network interfaces.
        for (class, runs, reserves_for) in [
            (&linux, pods, pods),
            (&bottlerocket, pods, pods),
            (&few_linux, 10, pods),
            (&few_bottlerocket, 10, 10),
        ] {
            let kind = resolved(cells[0], class, &interner);
            assert_eq!(kind.capacity.get(sym::PODS), runs, "{}", cells[0]);
            let overhead = [sym::CPU, sym::MEMORY, sym::EPHEMERAL_STORAGE].map(|one| kind.overhead.get(one));
            assert_eq!(overhead, kept(cores, reserves_for), "{}", cells[0]);
        }
        let left = left(&resolved(cells[0], &linux, &interner));
        assert!(left.get(sym::CPU) > 0 && left.get(sym::MEMORY) > 0, "{}", cells[0]);
    }
}

/// A placement group of three partitions.
pub(crate) fn group(strategy: Strategy) -> PlacementGroup {
    PlacementGroup {
        id: "pg-1".to_owned(),
        name: "one".to_owned(),
        strategy,
        partitions: 3,
    }
}

// AWS-192
#[test]
fn classes_and_types_that_do_not_go_together() {
    let interface = |card: i32, device: i32, kind: &str| json!({"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind});
    let first = interface(0, 0, "interface");
    let with = |interfaces: Value| json!({ "networkInterfaces": interfaces });
    let nested = json!({"cpuOptions": {"nestedVirtualization": "enabled"}});
    let tracking = json!({"connectionTracking": {"udpTimeout": 30}});
    use Incompatibility::{ConnectionTracking, Family, NestedVirtualization, NetworkInterfaces};
    for (name, changes, want) in [
        // AWS-193
        ("a1.large", json!({}), Some(Family)),
        (
            "a1.large",
            json!({"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}),
            None,
        ),
        ("a1.large", json!({"amiFamily": "Custom"}), None),
        // AWS-194
        ("m5.large", with(json!([first])), None),
        (
            "m5.large",
            with(json!([first, interface(1, 0, "interface")])),
            Some(NetworkInterfaces),
        ),
        (
            "m5.large",
            with(json!([first, interface(0, 3, "interface")])),
            Some(NetworkInterfaces),
        ),
        (
            "m5.large",
            with(json!([first, interface(0, 1, "efa-only")])),
            Some(NetworkInterfaces),
        ),
        (
            "m6idn.32xlarge",
            with(json!([first, interface(0, 1, "efa-only")])),
            None,
        ),
        // AWS-195
        ("m5.large", nested, Some(NestedVirtualization)),
        (
            "m5.large",
            json!({"cpuOptions": {"nestedVirtualization": "disabled"}}),
            None,
        ),
        ("m5.large", json!({"cpuOptions": {}}), None),
        // AWS-197
        ("m5.large", tracking.clone(), None),
        ("m5.metal", tracking.clone(), Some(ConnectionTracking)),
        ("m4.large", tracking, Some(ConnectionTracking)),
    ] {
        let class = class(changes.clone());
        let got = incompatibility(&description(name), &class.spec, class.spec.effective_family(), None);
        assert_eq!(got, want, "{name} {changes}");
    }
    let mut capable = description("m5.large");
    capable.processor_features = vec!["nested-virtualization".to_owned()];
    let class = class(json!({"cpuOptions": {"nestedVirtualization": "enabled"}}));
    let family = class.spec.effective_family();
    assert_eq!(incompatibility(&capable, &class.spec, family, None), None);
    // AWS-196
    let mut only_spread = description("m5.large");
    only_spread.placement_strategies = vec!["spread".to_owned()];
    let class = self::class(json!({}));
    let judge = |strategy| incompatibility(&only_spread, &class.spec, family, Some(&group(strategy)));
    assert_eq!(judge(Strategy::Spread), None);
    assert_eq!(judge(Strategy::Cluster), Some(Incompatibility::PlacementGroup));
}

// AWS-180
#[test]
fn classes_that_differ_in_order_alone_share_types() {
    let disks = |disks: Value| class(json!({ "blockDeviceMappings": disks }));
    let (a, b) = (
        json!({"deviceName": "a", "ebs": {"volumeSize": "1Gi"}}),
        json!({"deviceName": "b", "ebs": {"volumeSize": "1Gi"}}),
    );
    assert_eq!(TypeKey::new(&disks(json!([a, b]))), TypeKey::new(&disks(json!([b, a]))));
    let base = TypeKey::new(&class(json!({})));
    for changes in [
        json!({"kubelet": {"maxPods": 10}}),
        json!({"blockDeviceMappings": [a]}),
        json!({"instanceStorePolicy": "RAID0"}),
        json!({"networkInterfaces": []}),
        json!({"amiFamily": "Custom"}),
    ] {
        assert_ne!(TypeKey::new(&class(changes.clone())), base, "{changes}");
    }
    for unrelated in [
        json!({"tags": {"a": "b"}}),
        json!({"userData": "x"}),
        json!({"role": "other"}),
    ] {
        assert_eq!(TypeKey::new(&class(unrelated.clone())), base, "{unrelated}");
    }
    let fewer = class_with_status(json!({}), json!({"subnets": []}));
    assert_ne!(TypeKey::new(&fewer), base);
}
