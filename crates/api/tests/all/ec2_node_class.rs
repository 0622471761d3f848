//! EC2NodeClass: its text, its family, its drift hash, and the mistakes that the schema lets pass.

use std::collections::BTreeMap;

use kerf_api::ec2_node_class::{
    AmiAlias, AmiFamily, EC2_NODE_CLASS_HASH_VERSION, has_static_drift, is_restricted_tag, migrated_claim_annotations,
};
use kerf_api::{EC2NodeClass, decode};
use serde_json::{Value, json};

const CA_BUNDLE: &str = "test-ca-bundle";

/// The object of the known vectors, with fields replaced; a null takes a field away.
fn class(changes: Value) -> EC2NodeClass {
    let mut spec = json!({
        "role": "role-1",
        "tags": {"keyTag-1": "valueTag-1", "keyTag-2": "valueTag-2"},
        "context": "fake-context",
        "detailedMonitoring": false,
        "associatePublicIPAddress": false,
        "metadataOptions": {
            "httpEndpoint": "disabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": 1,
            "httpTokens": "optional",
        },
        "userData": "userdata-test-1",
        "blockDeviceMappings": [
            {
                "deviceName": "map-device-1",
                "ebs": {
                    "deleteOnTermination": false,
                    "encrypted": false,
                    "iops": 0,
                    "kmsKeyID": "fakeKMSKeyID",
                    "snapshotID": "fakeSnapshot",
                    "throughput": 0,
                    "volumeSize": "2G",
                    "volumeType": "standard",
                },
            },
            {"deviceName": "map-device-2"},
        ],
        "subnetSelectorTerms": [],
        "securityGroupSelectorTerms": [],
        "amiSelectorTerms": [],
    });
    if let Value::Object(changes) = changes {
        spec.as_object_mut().unwrap().extend(changes);
    }
    spec.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    decode(&json!({"metadata": {"name": "default"}, "spec": spec})).unwrap()
}

fn hash(changes: Value) -> String {
    class(changes).drift_hash(CA_BUNDLE)
}

#[test]
fn hash_vectors() {
    let tags = json!({"keyTag-1": "valueTag-1", "keyTag-2": "valueTag-2", "keyTag-test-3": "valueTag-test-3"});
    let mut disks = serde_json::to_value(class(json!({})).spec.block_device_mappings).unwrap();
    disks[0]["ebs"]["volumeSize"] = json!("10G");
    for (changes, want) in [
        // AWS-048, AWS-039, AWS-040, AWS-041, AWS-042, AWS-043, AWS-045, AWS-047, API-199
        (json!({}), "2608468723537941485"),
        // AWS-049. API-191: strings, booleans and integers, all behind pointers.
        (json!({"userData": "userdata-test-2"}), "2153344579995979450"),
        (json!({"context": "context-2"}), "11612053647989098410"),
        (json!({"detailedMonitoring": true}), "11845605438531206428"),
        (json!({"instanceStorePolicy": "RAID0"}), "6430637013089544585"),
        (json!({"associatePublicIPAddress": true}), "6811176403923819181"),
        // AWS-050, AWS-046
        (json!({ "tags": tags }), "4608386791045313156"),
        (
            json!({"connectionTracking": {"tcpEstablishedTimeout": 300}}),
            "12177489405137904098",
        ),
        (
            json!({"connectionTracking": {"udpStreamTimeout": 120}}),
            "17567831983996427",
        ),
        (json!({"connectionTracking": {"udpTimeout": 45}}), "5078825826133662844"),
        (
            json!({"cpuOptions": {"nestedVirtualization": "enabled"}}),
            "17001101224536964682",
        ),
        // AWS-051
        (json!({ "blockDeviceMappings": disks }), "3564293065344858862"),
        (
            json!({"role": null, "instanceProfile": "test-instance-profile"}),
            "3585768058063247698",
        ),
    ] {
        assert_eq!(hash(changes.clone()), want, "{changes}");
    }
}

#[test]
fn the_effective_family_and_the_ca_bundle_are_hashed() {
    // AWS-035
    let alias = json!([{"alias": "al2023@latest"}]);
    let implied = hash(json!({ "amiSelectorTerms": alias }));
    assert_eq!(implied, hash(json!({"amiSelectorTerms": alias, "amiFamily": "AL2023"})));
    assert_ne!(implied, hash(json!({"amiSelectorTerms": alias, "amiFamily": "Custom"})));
    assert_ne!(
        implied,
        class(json!({ "amiSelectorTerms": alias })).drift_hash("another")
    );
}

#[test]
fn selectors_and_prefixes_are_not_hashed() {
    let base = hash(json!({}));
    // AWS-036, AWS-037, AWS-478
    for unhashed in [
        json!({"ipPrefixCount": 4}),
        json!({"subnetSelectorTerms": [{"id": "subnet-1"}]}),
        json!({"securityGroupSelectorTerms": [{"id": "sg-1"}]}),
        json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}),
        json!({"amiSelectorTerms": [{"id": "ami-1"}]}),
    ] {
        assert_eq!(hash(unhashed.clone()), base, "{unhashed}");
    }
    for hashed in [
        json!({"role": "role-2"}),
        json!({"placementGroupSelector": {"name": "one"}}),
        json!({"kubelet": {"maxPods": 10}}),
        json!({"networkInterfaces": [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}]}),
    ] {
        assert_ne!(hash(hashed.clone()), base, "{hashed}");
    }
}

#[test]
fn order_means_nothing_and_empty_is_not_absent() {
    // AWS-038
    let disks = json!([{"deviceName": "a"}, {"deviceName": "b"}]);
    let reversed = json!([{"deviceName": "b"}, {"deviceName": "a"}]);
    assert_eq!(
        hash(json!({ "blockDeviceMappings": disks })),
        hash(json!({ "blockDeviceMappings": reversed }))
    );
    let absent = hash(json!({"tags": null, "blockDeviceMappings": null}));
    let no_tags = hash(json!({"tags": {}, "blockDeviceMappings": null}));
    let no_disks = hash(json!({"tags": null, "blockDeviceMappings": []}));
    assert!(absent != no_tags && absent != no_disks && no_tags != no_disks);
    let twice = json!([{"deviceName": "a"}, {"deviceName": "a"}]);
    assert_eq!(hash(json!({"tags": null, "blockDeviceMappings": twice})), no_disks);
    assert_ne!(hash(json!({"detailedMonitoring": null})), hash(json!({})));
    // A soft eviction period of zero is a zero value inside its struct.
    // AWS-044
    let soft = |period: &str| hash(json!({"kubelet": {"evictionSoftGracePeriod": {"memory.available": period}}}));
    assert_ne!(soft("0s"), soft("1m"));
    assert_eq!(soft("60s"), soft("1m"));
}

fn annotations(hash: &str, version: &str) -> BTreeMap<String, String> {
    [
        ("karpenter.k8s.aws/ec2nodeclass-hash", hash),
        ("karpenter.k8s.aws/ec2nodeclass-hash-version", version),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

// AWS-034
#[test]
fn class_and_claims_carry_hash_and_version() {
    let current = class(json!({})).hash_annotations(CA_BUNDLE);
    assert_eq!(current.to_map(), annotations("2608468723537941485", "v5"));
    assert_eq!(EC2_NODE_CLASS_HASH_VERSION, "v5");
}

// AWS-294
#[test]
fn hashes_are_compared_only_within_one_version() {
    for (class, claim, drifted) in [
        (annotations("1", "v5"), annotations("2", "v5"), true),
        (annotations("1", "v5"), annotations("1", "v5"), false),
        (annotations("1", "v5"), annotations("2", "v4"), false),
        (annotations("1", "v5"), annotations("2", ""), false),
        (annotations("", "v5"), annotations("2", "v5"), false),
        (annotations("1", "v5"), annotations("two", "v5"), false),
    ] {
        assert_eq!(has_static_drift(&class, &claim), drifted, "{class:?} {claim:?}");
    }
}

// AWS-053, AWS-477
#[test]
fn claims_of_another_version_are_stamped_anew_unless_they_drifted() {
    let current = class(json!({})).hash_annotations(CA_BUNDLE);
    let old = annotations("1", "v4");
    assert_eq!(
        migrated_claim_annotations(&old, false, &current),
        Some(current.to_map())
    );
    assert_eq!(
        migrated_claim_annotations(&old, true, &current),
        Some(annotations("", "v5"))
    );
    assert_eq!(
        migrated_claim_annotations(&annotations("1", "v5"), false, &current),
        None
    );
}

// AWS-010
#[test]
fn aliases_name_a_family_and_a_version() {
    for bad in [
        "al2023",
        "al2023@",
        "@latest",
        "al2023-latest",
        "ubuntu@latest",
        "windows2022@v1.0.0",
        "AL2023@latest",
    ] {
        assert_eq!(AmiAlias::parse(bad), None, "{bad}");
    }
    for (good, family) in [
        ("bottlerocket@1.10.0", AmiFamily::Bottlerocket),
        ("al2@v20240625", AmiFamily::Al2),
        ("windows2025@latest", AmiFamily::Windows2025),
    ] {
        assert_eq!(AmiAlias::parse(good).map(|alias| alias.family), Some(family), "{good}");
    }
}

// AWS-012
#[test]
fn the_family_is_written_or_implied_by_the_alias() {
    for (changes, family) in [
        (
            json!({"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}),
            AmiFamily::Bottlerocket,
        ),
        (
            json!({"amiSelectorTerms": [{"alias": "bottlerocket@latest"}], "amiFamily": "Custom"}),
            AmiFamily::Custom,
        ),
        (
            json!({"amiSelectorTerms": [{"id": "ami-1"}], "amiFamily": "AL2"}),
            AmiFamily::Al2,
        ),
        (json!({"amiSelectorTerms": [{"id": "ami-1"}]}), AmiFamily::Custom),
    ] {
        assert_eq!(class(changes).spec.effective_family(), family);
    }
}

// AWS-359
#[test]
fn tags_of_ownership_are_restricted() {
    for restricted in [
        "karpenter.sh/nodepool",
        "karpenter.sh/nodeclaim",
        "karpenter.k8s.aws/ec2nodeclass",
        "eks:eks-cluster-name",
        "kubernetes.io/cluster/prod",
        "kubernetes.io/cluster/0-a_B",
    ] {
        assert!(is_restricted_tag(restricted), "{restricted}");
    }
    for free in [
        "Name",
        "karpenter.sh/managed",
        "kubernetes.io/cluster/",
        "kubernetes.io/cluster/-a",
        "team",
    ] {
        assert!(!is_restricted_tag(free), "{free}");
    }
}

// AWS-016, AWS-071
#[test]
fn every_term_is_judged_and_not_only_the_first() {
    let faults =
        |changes: Value| -> Vec<String> { class(changes).spec.faults().iter().map(ToString::to_string).collect() };
    assert_eq!(
        faults(json!({
            "subnetSelectorTerms": [{"id": "subnet-1"}, {"id": "subnet-2", "tags": {"a": "b"}}],
            "securityGroupSelectorTerms": [{"name": "one"}, {}],
            "capacityReservationSelectorTerms": [{"ownerID": "012345678901"}, {"id": "cr-1", "ownerID": "012345678901"}],
            "amiSelectorTerms": [{"id": "ami-1"}, {"id": "ami-2", "name": "two"}],
        })),
        [
            "subnetSelectorTerms[1] has more than one of the fields that exclude each other",
            "securityGroupSelectorTerms[1] selects nothing",
            "capacityReservationSelectorTerms[0] selects nothing",
            "capacityReservationSelectorTerms[1] has more than one of the fields that exclude each other",
            "amiSelectorTerms[1] has more than one of the fields that exclude each other",
        ]
    );
    assert_eq!(
        faults(json!({"tags": {"eks:eks-cluster-name": "x"}})),
        ["\"eks:eks-cluster-name\" tag does not pass tag validation requirements"]
    );
    assert_eq!(
        faults(json!({"kubelet": {"kubeReserved": {"memory": "-1Gi"}, "evictionHard": {"memory.available": "110%"}}}))
            .len(),
        2
    );
}

#[test]
fn an_object_is_written_as_it_was_read() {
    let object = json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "*"}}],
            "securityGroupSelectorTerms": [{"name": "nodes"}],
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "role": "nodes",
            "tags": {},
            "kubelet": {
                "clusterDNS": ["10.0.0.10"],
                "evictionSoft": {"memory.available": "5%"},
                "evictionSoftGracePeriod": {"memory.available": "60s"},
                "imageGCHighThresholdPercent": 80,
                "cpuCFSQuota": false,
            },
            "blockDeviceMappings": [{"deviceName": "/dev/xvda", "rootVolume": true, "ebs": {"volumeSize": "0.1T", "kmsKeyID": "k"}}],
            "instanceStorePolicy": "RAID0",
            "networkInterfaces": [],
            "associatePublicIPAddress": true,
            "metadataOptions": {"httpProtocolIPv6": "disabled"},
            "cpuOptions": {},
        },
        "status": {
            "amis": [{"id": "ami-1", "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}],
            "subnets": [{"id": "subnet-1", "zone": "us-east-1a", "zoneID": "use1-az1"}],
            "capacityReservations": [{
                "availabilityZone": "us-east-1a",
                "id": "cr-1",
                "instanceMatchCriteria": "open",
                "instanceType": "m5.large",
                "ownerID": "012345678901",
                "reservationType": "default",
                "interruptible": false,
                "state": "active",
            }],
        },
    });
    let read: EC2NodeClass = decode(&object).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), object);
}
