//! EC2NodeClass as an API server admits it: schema, defaults and rules of the definition.

use kerf_api::{Provider, crds, with_later_kubelet_fields};
use kerf_apiserver::Admission;
use serde_json::{Value, json};

fn admission() -> Admission {
    let crds = crds(Provider::Aws);
    Admission::new(crds.iter().map(|crd| &crd.value))
}

/// A valid class with fields of its spec replaced; a null takes a field away.
fn class(changes: &Value) -> Value {
    let mut spec = json!({
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "prod"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "prod"}}],
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "nodes",
    });
    for (key, value) in changes.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}, "spec": spec})
}

/// Tries each spec: those of the first list must be admitted, those of the second refused.
fn judge(good: &[Value], bad: &[Value]) {
    let mut admission = admission();
    for changes in good {
        let admitted = admission.admit(&mut class(changes));
        assert!(admitted.is_ok(), "{changes}: {admitted:?}");
    }
    for changes in bad {
        assert!(admission.admit(&mut class(changes)).is_err(), "{changes} was admitted");
    }
}

fn repeat(count: usize, value: &Value) -> Value {
    vec![value.clone(); count].into()
}

/// So many different tags.
fn tags(count: usize) -> Value {
    (0..count).map(|at| (format!("k{at}"), json!("v"))).collect()
}

// AWS-001, AWS-002
#[test]
fn the_definition_names_the_kind_and_its_columns() {
    let crds = crds(Provider::Aws);
    let crd = crds
        .iter()
        .find(|crd| crd.name == "ec2nodeclasses.karpenter.k8s.aws")
        .unwrap();
    let spec = &crd.value["spec"];
    let version = &spec["versions"][0];
    assert_eq!(
        spec["names"],
        json!({
            "kind": "EC2NodeClass",
            "listKind": "EC2NodeClassList",
            "plural": "ec2nodeclasses",
            "singular": "ec2nodeclass",
            "shortNames": ["ec2nc", "ec2ncs"],
            "categories": ["karpenter"],
        })
    );
    assert_eq!(
        json!([
            spec["scope"],
            version["name"],
            version["served"],
            version["storage"],
            version["subresources"]
        ]),
        json!(["Cluster", "v1", true, true, {"status": {}}])
    );
    let columns = version["additionalPrinterColumns"].as_array().unwrap();
    let columns: Vec<_> = columns
        .iter()
        .map(|column| (&column["name"], &column["priority"]))
        .collect();
    assert_eq!(
        columns,
        [
            (&json!("Ready"), &Value::Null),
            (&json!("Age"), &Value::Null),
            (&json!("Role"), &json!(1))
        ]
    );
}

// AWS-003
#[test]
fn three_selectors_are_required() {
    judge(
        &[json!({})],
        &[
            json!({"subnetSelectorTerms": null}),
            json!({"securityGroupSelectorTerms": null}),
            json!({"amiSelectorTerms": null}),
        ],
    );
}

// AWS-004, AWS-026
#[test]
fn only_metadata_options_have_defaults() {
    let mut admission = admission();
    let mut admitted = |changes: Value| {
        let mut object = class(&changes);
        admission.admit(&mut object).unwrap();
        object["spec"].clone()
    };
    let defaults = json!({
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    });
    assert_eq!(admitted(json!({}))["metadataOptions"], defaults);
    let partly = admitted(json!({"metadataOptions": {"httpTokens": "optional"}}));
    assert_eq!(partly["metadataOptions"]["httpTokens"], "optional");
    assert_eq!(partly["metadataOptions"]["httpEndpoint"], "enabled");
    assert_eq!(admitted(json!({})).as_object().unwrap().len(), 5);
    judge(
        &[json!({"metadataOptions": {"httpPutResponseHopLimit": 64}})],
        &[
            json!({"metadataOptions": {"httpPutResponseHopLimit": 0}}),
            json!({"metadataOptions": {"httpPutResponseHopLimit": 65}}),
            json!({"metadataOptions": {"httpEndpoint": "on"}}),
            json!({"metadataOptions": {"httpTokens": "none"}}),
        ],
    );
}

// AWS-005
#[test]
fn subnet_terms() {
    let terms = |terms: Value| json!({ "subnetSelectorTerms": terms });
    judge(
        &[
            terms(json!([{"id": "subnet-12ab"}])),
            terms(repeat(30, &json!({"id": "subnet-1"}))),
            terms(json!([{"tags": tags(20)}])),
        ],
        &[
            terms(json!([])),
            terms(json!([{}])),
            terms(json!([{"id": "subnet-1", "tags": {"a": "b"}}])),
            terms(json!([{"id": "vpc-1"}])),
            terms(repeat(31, &json!({"id": "subnet-1"}))),
            terms(json!([{"tags": tags(21)}])),
            terms(json!([{"tags": {"a": ""}}])),
            terms(json!([{"tags": {"": "a"}}])),
        ],
    );
}

// AWS-006
#[test]
fn security_group_terms() {
    let terms = |terms: Value| json!({ "securityGroupSelectorTerms": terms });
    judge(
        &[terms(json!([{"id": "sg-1"}, {"name": "one"}, {"tags": {"a": "*"}}]))],
        &[
            terms(json!([])),
            terms(json!([{}])),
            terms(json!([{"id": "sg-1", "name": "one"}])),
            terms(json!([{"name": "one", "tags": {"a": "b"}}])),
            terms(json!([{"id": "subnet-1"}])),
            terms(repeat(31, &json!({"id": "sg-1"}))),
        ],
    );
}

// AWS-007
#[test]
fn capacity_reservation_terms() {
    let terms = |terms: Value| json!({ "capacityReservationSelectorTerms": terms });
    judge(
        &[
            json!({}),
            terms(json!([{"id": "cr-1"}])),
            terms(json!([{"tags": {"a": "b"}, "ownerID": "123456789012", "instanceMatchCriteria": "open"}])),
            terms(json!([{"instanceMatchCriteria": "targeted"}])),
        ],
        &[
            terms(json!([{"ownerID": "123456789012"}])),
            terms(json!([{"id": "cr-1", "tags": {"a": "b"}}])),
            terms(json!([{"id": "x-cr-1"}])),
            terms(json!([{"instanceMatchCriteria": "any"}])),
            terms(json!([{"tags": {"a": "b"}, "ownerID": "12345"}])),
            terms(repeat(31, &json!({"id": "cr-1"}))),
        ],
    );
}

// AWS-008
#[test]
fn placement_group_selector() {
    let group = |selector: Value| json!({ "placementGroupSelector": selector });
    judge(
        &[group(json!({"name": "one"})), group(json!({"id": "pg-1"}))],
        &[
            group(json!({})),
            group(json!({"name": ""})),
            group(json!({"name": "one", "id": "pg-1"})),
            group(json!({"id": "one"})),
        ],
    );
}

// AWS-009
#[test]
fn image_terms() {
    let terms = |terms: Value| json!({"amiSelectorTerms": terms, "amiFamily": "AL2023"});
    judge(
        &[
            terms(
                json!([{"id": "ami-1"}, {"name": "x", "owner": "self"}, {"tags": {"a": "b"}}, {"ssmParameter": "/p"}]),
            ),
            terms(repeat(30, &json!({"id": "ami-1"}))),
        ],
        &[
            terms(json!([])),
            terms(json!([{}])),
            terms(json!([{"owner": "self"}])),
            terms(json!([{"id": "ami-1", "name": "x"}])),
            terms(json!([{"id": "ami-1", "owner": "self"}])),
            terms(json!([{"alias": "al2023@latest", "name": "x"}])),
            terms(json!([{"alias": "al2023@latest"}, {"id": "ami-1"}])),
            terms(json!([{"id": "image-1"}])),
            terms(repeat(31, &json!({"id": "ami-1"}))),
        ],
    );
}

// AWS-010
#[test]
fn aliases() {
    let alias = |alias: &str| json!({"amiSelectorTerms": [{"alias": alias}]});
    judge(
        &[
            alias("bottlerocket@1.10.0"),
            alias("al2@v20240625"),
            alias("windows2025@latest"),
        ],
        &[
            alias("al2023"),
            alias("al2023@"),
            alias("@latest"),
            alias("al2023-latest"),
            alias("ubuntu@latest"),
            alias("windows2022@v1.0.0"),
            alias("al2023@v20240625-with-a-long-name"),
        ],
    );
}

// AWS-011
#[test]
fn families() {
    let family = |family: &str, term: Value| json!({"amiFamily": family, "amiSelectorTerms": [term]});
    let id = json!({"id": "ami-1"});
    let alias = json!({"alias": "bottlerocket@latest"});
    let mut good = vec![family("Bottlerocket", alias.clone()), family("Custom", alias.clone())];
    let families = [
        "AL2",
        "AL2023",
        "Bottlerocket",
        "Custom",
        "Windows2019",
        "Windows2022",
        "Windows2025",
    ];
    good.extend(families.map(|name| family(name, id.clone())));
    judge(
        &good,
        &[
            family("Ubuntu", id.clone()),
            family("AL2", alias),
            json!({"amiSelectorTerms": [id]}),
        ],
    );
}

// AWS-013, AWS-014
#[test]
fn role_or_instance_profile_and_free_user_data() {
    judge(
        &[
            json!({"userData": "anything: [at all"}),
            json!({"role": null, "instanceProfile": "mine"}),
        ],
        &[
            json!({"role": null}),
            json!({"instanceProfile": "mine"}),
            json!({"role": ""}),
            json!({"role": null, "instanceProfile": ""}),
        ],
    );
}

// AWS-015
#[test]
fn tags_of_the_class() {
    let one = |key: &str| json!({"tags": {key: "x"}});
    judge(
        &[
            json!({"tags": {}}),
            json!({"tags": {"empty": ""}}),
            one("karpenter.sh/managed"),
        ],
        &[
            one(""),
            one("eks:eks-cluster-name"),
            one("karpenter.sh/nodepool"),
            one("karpenter.sh/nodeclaim"),
            one("karpenter.k8s.aws/ec2nodeclass"),
            one("kubernetes.io/cluster/prod"),
            one("kubernetes.io/cluster"),
        ],
    );
}

// AWS-017, AWS-018, AWS-020
#[test]
fn kubelet_settings() {
    let kubelet = |kubelet: Value| json!({ "kubelet": kubelet });
    judge(
        &[
            kubelet(json!({"clusterDNS": ["10.0.0.10"], "maxPods": 0, "podsPerCore": 0, "cpuCFSQuota": false})),
            kubelet(
                json!({"evictionMaxPodGracePeriod": 300, "imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 79}),
            ),
            kubelet(json!({"kubeReserved": {"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "1e3", "pid": "10"}})),
            kubelet(
                json!({"evictionSoft": {"memory.available": "5%"}, "evictionSoftGracePeriod": {"memory.available": "1m"}}),
            ),
        ],
        &[
            kubelet(json!({"maxPods": -1})),
            kubelet(json!({"podsPerCore": -1})),
            kubelet(json!({"imageGCHighThresholdPercent": 101})),
            kubelet(json!({"imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 80})),
            kubelet(json!({"systemReserved": {"pods": "10"}})),
            kubelet(json!({"kubeReserved": {"cpu": "-100m"}})),
            kubelet(json!({"evictionSoft": {"memory.available": "5%"}})),
            kubelet(json!({"evictionSoftGracePeriod": {"memory.available": "1m"}})),
        ],
    );
}

// AWS-019, AWS-021
#[test]
fn eviction_thresholds() {
    let hard = |key: &str, value: &str| json!({"kubelet": {"evictionHard": {key: value}}});
    let memory = |value: &str| hard("memory.available", value);
    judge(
        &[
            memory("5%"),
            memory("99.99%"),
            memory("100%"),
            memory("100.00%"),
            memory("1.5Gi"),
            memory("1e3"),
            memory("10"),
            hard("nodefs.inodesFree", "5%"),
            hard("pid.available", "10%"),
        ],
        &[
            memory("110%"),
            memory("5%3"),
            memory("110GB"),
            memory("5.123%"),
            hard("memory", "5%"),
        ],
    );
}

// AWS-022, AWS-023
#[test]
fn block_devices() {
    let ebs = |ebs: Value| json!({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": ebs}]});
    let size = |size: &str| ebs(json!({ "volumeSize": size }));
    let disk = json!({"deviceName": "a", "ebs": {"volumeSize": "1Gi"}});
    let root = json!({"deviceName": "a", "rootVolume": true, "ebs": {"volumeSize": "1Gi"}});
    judge(
        &[
            size("1Gi"),
            size("59000Gi"),
            size("64000G"),
            size("58Ti"),
            size("64T"),
            ebs(json!({"snapshotID": "snap-1", "volumeInitializationRate": 100, "volumeType": "gp3"})),
            json!({ "blockDeviceMappings": repeat(50, &disk) }),
            json!({ "blockDeviceMappings": [root, disk] }),
        ],
        &[
            size("0Gi"),
            size("1m"),
            size("100T"),
            size("59001Gi"),
            ebs(json!({"volumeType": "gp3"})),
            ebs(json!({"volumeSize": "1Gi", "volumeType": "gp4"})),
            ebs(json!({"volumeSize": "1Gi", "volumeInitializationRate": 100})),
            ebs(json!({"snapshotID": "", "volumeInitializationRate": 100})),
            ebs(json!({"snapshotID": "snap-1", "volumeInitializationRate": 99})),
            json!({ "blockDeviceMappings": repeat(51, &disk) }),
            json!({ "blockDeviceMappings": [root, root] }),
        ],
    );
}

// AWS-024, AWS-028, AWS-029
#[test]
fn scalars() {
    judge(
        &[
            json!({"instanceStorePolicy": "RAID0"}),
            json!({"cpuOptions": {}}),
            json!({"cpuOptions": {"nestedVirtualization": "enabled"}}),
            json!({"associatePublicIPAddress": true, "ipPrefixCount": 0, "detailedMonitoring": false, "context": "x"}),
        ],
        &[
            json!({"instanceStorePolicy": "RAID1"}),
            json!({"cpuOptions": {"nestedVirtualization": "yes"}}),
            json!({"ipPrefixCount": -1}),
            json!({"context": 1}),
        ],
    );
}

// AWS-025
#[test]
fn network_interfaces() {
    let interface = |card: i32, device: i32, kind: &str| json!({"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind});
    let first = interface(0, 0, "interface");
    let list = |interfaces: Value| json!({ "networkInterfaces": interfaces });
    judge(
        &[
            list(json!([])),
            list(json!([first])),
            list(json!([first, interface(0, 1, "efa-only"), interface(1, 1, "efa-only")])),
        ],
        &[
            list(json!([interface(0, 1, "interface")])),
            list(json!([interface(0, 0, "efa-only")])),
            list(json!([first, first])),
            list(json!([first, interface(1, 0, "efa-only"), interface(1, 1, "efa-only")])),
            list(json!([first, interface(0, 1, "efa")])),
            list(json!([interface(-1, 0, "interface")])),
            list(repeat(151, &first)),
        ],
    );
}

// AWS-027
#[test]
fn connection_tracking() {
    let tracking = |tracking: Value| json!({ "connectionTracking": tracking });
    judge(
        &[
            tracking(json!({"tcpEstablishedTimeout": 432_000})),
            tracking(json!({"udpStreamTimeout": 60, "udpTimeout": 30})),
        ],
        &[
            tracking(json!({})),
            tracking(json!({"tcpEstablishedTimeout": 59})),
            tracking(json!({"udpStreamTimeout": 181})),
            tracking(json!({"udpTimeout": 61})),
        ],
    );
}

/// A NodePool whose requirement has this key and values.
fn pool(key: &str, label: Option<&str>) -> Value {
    let labels: Value = label.map_or(json!({}), |label| json!({label: "x"}));
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [{"key": key, "operator": "Exists"}],
        }}},
    })
}

// AWS-031
#[test]
fn pools_may_use_known_labels_of_the_domain() {
    let mut admission = admission();
    let family = "karpenter.k8s.aws/instance-family";
    for key in [
        family,
        "karpenter.k8s.aws/ec2nodeclass",
        "karpenter.k8s.aws/placement-group-id",
    ] {
        assert!(admission.admit(&mut pool(key, Some(key))).is_ok(), "{key}");
    }
    for key in ["karpenter.k8s.aws/instance-colour", "x.karpenter.k8s.aws/a"] {
        assert!(admission.admit(&mut pool(key, None)).is_err(), "{key}");
        assert!(admission.admit(&mut pool(family, Some(key))).is_err(), "{key}");
    }
}

// AWS-032
#[test]
fn overlays_may_not_use_labels_of_reservations_tenancy_and_placement() {
    let mut admission = admission();
    let mut admitted = |name: &str| {
        let mut overlay = json!({
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": "default"},
            "spec": {
                "price": "1.5",
                "requirements": [{"key": format!("karpenter.k8s.aws/{name}"), "operator": "Exists"}],
            },
        });
        admission.admit(&mut overlay).is_ok()
    };
    assert!(admitted("instance-family") && admitted("ec2nodeclass"));
    for name in [
        "capacity-reservation-id",
        "capacity-reservation-type",
        "capacity-reservation-interruptible",
        "instance-tenancy",
        "placement-group-id",
        "placement-group-partition",
    ] {
        assert!(!admitted(name), "{name}");
    }
}

// AWS-033
#[test]
fn tenancy_has_a_closed_set_of_values() {
    let rules = kerf_aws::labels::label_rules();
    let judge = |values: &[&str]| {
        let requirement = kerf_api::Requirement::new(
            "karpenter.k8s.aws/instance-tenancy",
            kerf_api::Operator::In,
            values.iter().copied(),
        );
        kerf_api::validate::requirement(&requirement, &rules).0.is_empty()
    };
    assert!(judge(&["default"]) && judge(&["dedicated", "host"]));
    assert!(!judge(&["host"]));
}

#[test]
fn later_kubelet_fields_are_in_the_definition_only_if_asked_for() {
    let crds = |expressions, every_field| {
        let crds = crds(Provider::Aws).into_iter();
        crds.map(|crd| with_later_kubelet_fields(crd, expressions, every_field))
            .collect::<Vec<_>>()
    };
    let kubelet = |expressions, every_field, kubelet: Value| {
        let crds = crds(expressions, every_field);
        let mut object = class(&json!({ "kubelet": kubelet }));
        let admitted = Admission::new(crds.iter().map(|crd| &crd.value)).admit(&mut object);
        admitted.ok().map(|_| object["spec"]["kubelet"].clone())
    };
    let expressions = json!({"maxPods": "vcpus * 10", "kubeReserved": {"cpu": "vcpus * 10"}});
    assert_eq!(kubelet(false, false, expressions.clone()), None);
    assert_eq!(kubelet(false, true, expressions.clone()), None);
    assert_eq!(kubelet(true, false, expressions.clone()), Some(expressions));
    let field = json!({"maxPods": 10, "containerLogMaxSize": "50Mi"});
    assert_eq!(kubelet(false, false, field.clone()), Some(json!({"maxPods": 10})));
    assert_eq!(kubelet(true, false, field.clone()), Some(json!({"maxPods": 10})));
    assert_eq!(kubelet(false, true, field.clone()), Some(field));
    for wrong in [
        json!({"maxPods": -1}),
        json!({"maxPods": true}),
        json!({"kubeReserved": {"cpu": "-1"}}),
        json!({"kubeReserved": {"gpu": "1"}}),
        json!({"imageGCHighThresholdPercent": 10, "imageGCLowThresholdPercent": 20}),
    ] {
        assert_eq!(kubelet(true, true, wrong.clone()), None, "{wrong}");
    }
    // The text is what the value says.
    for (crd, plain) in crds(true, true).iter().zip(crds(false, false)) {
        let read: Value = serde_json::from_str(&crd.yaml).unwrap_or(plain.value);
        assert_eq!(read, crd.value, "{}", crd.name);
    }
}
