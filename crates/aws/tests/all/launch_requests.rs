//! Launch templates and fleet requests, and what their answers mean.

use crate::class::{class, class_with_status, of_family};
use crate::instance_types::group;
use crate::market::{claim, kind, offering, reserved};
use kerf_api::EC2NodeClass;
use kerf_aws::errors::ApiError;
use kerf_aws::launch::{
    AllocationStrategy, BlockDeviceRequest, FleetConfig, FleetError, FleetInput, FleetOverride, FleetScope,
    LaunchClaim, Mark, MarketType, ReservationPreference, TargetCapacity, TemplateData, TemplateInput, TemplateKey,
    Tenancy, failure, fleet_request, interfaces, launch_failures, marks, overrides, template_data, template_groups,
    template_name, volume_gib,
};
use kerf_aws::offering::{CapacityType, GroupScope, UnavailableKey};
use kerf_aws::placement_group::Strategy;
use kerf_aws::tags::Tags;
use kerf_cloud::CloudError;
use kerf_model::intern::Interner;
use kerf_model::price::Price;
use kerf_model::requirement::Requirement;
use kerf_model::resources::Resources;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn key() -> TemplateKey {
    TemplateKey {
        ami: "ami-1".to_owned(),
        efa_count: 0,
        pods: 29,
        reservation_id: None,
        reservation_type: None,
        interruptible: false,
        reserved: None,
    }
}

/// The data of a template of a class, with the input changed.
fn data(class: &EC2NodeClass, change: impl for<'a> FnOnce(&mut TemplateInput<'a>)) -> TemplateData {
    data_of(class, &key(), change)
}

fn data_of(
    class: &EC2NodeClass,
    key: &TemplateKey,
    change: impl for<'a> FnOnce(&mut TemplateInput<'a>),
) -> TemplateData {
    let tags = Tags::from([("team".to_owned(), "a".to_owned())]);
    let mut input = TemplateInput {
        class,
        region: "us-east-1",
        key,
        user_data: "dGV4dA==",
        tags: &tags,
        capacity_type: CapacityType::OnDemand,
        tenancy: Tenancy::Default,
        group: None,
        partition: None,
        enclaves: false,
        is_ipv6: false,
        reserved_capacity: true,
    };
    change(&mut input);
    template_data(&input)
}

// AWS-161, AWS-162
#[test]
fn a_template_has_what_the_class_says() {
    let class = class(json!({"detailedMonitoring": true, "cpuOptions": {"nestedVirtualization": "enabled"}}));
    let template = data(&class, |_| {});
    assert_eq!(template.instance_profile.as_deref(), Some("prod_1"));
    assert_eq!(template.monitoring, Some(true));
    assert_eq!(template.nested_virtualization.as_deref(), Some("enabled"));
    assert_eq!(
        (template.image_id.as_str(), template.user_data.as_str()),
        ("ami-1", "dGV4dA==")
    );
    assert_eq!(template.tagged_resources, ["network-interface"]);
    let spot = data(&class, |input| input.capacity_type = CapacityType::Spot);
    assert_eq!(spot.tagged_resources, ["network-interface", "spot-instances-request"]);
    assert_eq!(spot.tags["team"], "a");
}

// AWS-164
#[test]
fn enclaves_are_enabled_for_claims_that_ask_for_slots() {
    let interner = Interner::default();
    let mut claim = claim(&interner, &[]);
    assert!(!claim.wants_enclaves());
    claim.requests = Resources::new().with(interner.intern("eks.amazonaws.com/nip-slots"), 1);
    assert!(claim.wants_enclaves());
    assert!(data(&class(json!({})), |input| input.enclaves = true).enclaves);
}

// AWS-165
#[test]
fn some_regions_have_no_ipv6_metadata() {
    let class = class(json!({"metadataOptions": {
        "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "required",
    }}));
    let metadata = data(&class, |_| {}).metadata;
    assert_eq!(metadata.http_protocol_ipv6.as_deref(), Some("disabled"));
    assert_eq!(
        (metadata.http_put_response_hop_limit, metadata.http_tokens.as_deref()),
        (Some(1), Some("required"))
    );
    for region in [
        "us-iso-east-1",
        "us-iso-west-1",
        "us-isob-east-1",
        "us-isob-west-1",
        "us-isof-south-1",
        "us-isof-east-1",
    ] {
        let metadata = data(&class, |input| input.region = region).metadata;
        assert_eq!(metadata.http_protocol_ipv6, None, "{region}");
        assert_eq!(metadata.http_endpoint.as_deref(), Some("enabled"));
    }
}

// AWS-166
#[test]
fn families_have_default_disks() {
    let disks = |family: &str| -> Vec<(String, Option<i64>)> {
        let template = data(&of_family(family), |_| {});
        assert!(template.block_devices.iter().all(|disk| disk.encrypted == Some(true)));
        assert!(
            template
                .block_devices
                .iter()
                .all(|disk| disk.volume_type.as_deref() == Some("gp3"))
        );
        let disks = template.block_devices.into_iter();
        disks.map(|disk| (disk.device_name.unwrap(), disk.volume_gib)).collect()
    };
    let disk = |name: &str, gib: i64| (name.to_owned(), Some(gib));
    assert_eq!(disks("AL2023"), [disk("/dev/xvda", 20)]);
    assert_eq!(disks("Bottlerocket"), [disk("/dev/xvda", 4), disk("/dev/xvdb", 20)]);
    assert_eq!(disks("Windows2022"), [disk("/dev/sda1", 50)]);
    assert_eq!(disks("Custom"), []);
}

// AWS-167, AWS-486
#[test]
fn volumes_are_whole_gibibytes_rounded_up() {
    for (size, gib) in [
        ("200G", 187),
        ("4G", 4),
        ("2G", 2),
        ("20Gi", 20),
        ("1T", 932),
        ("1Ti", 1024),
    ] {
        assert_eq!(volume_gib(&size.parse().unwrap()), gib, "{size}");
    }
    let ebs = json!({"snapshotID": "snap-1", "iops": 0, "throughput": 0, "volumeInitializationRate": 100});
    let class = class(json!({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": ebs}]}));
    assert_eq!(
        data(&class, |_| {}).block_devices,
        [BlockDeviceRequest {
            device_name: Some("/dev/xvda".to_owned()),
            snapshot_id: Some("snap-1".to_owned()),
            volume_initialization_rate: Some(100),
            ..BlockDeviceRequest::default()
        }]
    );
}

fn groups() -> Vec<String> {
    vec!["sg-1".to_owned()]
}

// AWS-163, AWS-168
#[test]
fn there_is_one_interface_by_default() {
    let plain = interfaces(&class(json!({})).spec, &groups(), 0, false);
    assert_eq!(plain.len(), 1);
    assert_eq!((plain[0].device_index, plain[0].network_card_index), (0, None));
    assert_eq!(plain[0].security_group_ids, ["sg-1"]);
    assert_eq!(
        (plain[0].associate_public_ip_address, plain[0].interface_type),
        (None, None)
    );
    let public = interfaces(
        &class(json!({"associatePublicIPAddress": false})).spec,
        &groups(),
        0,
        false,
    );
    assert_eq!(public[0].associate_public_ip_address, Some(false));
}

// AWS-169, AWS-171
#[test]
fn efa_has_an_interface_on_each_card() {
    let spec = class(json!({"associatePublicIPAddress": true, "ipPrefixCount": 2})).spec;
    let efa = interfaces(&spec, &groups(), 3, false);
    let seen: Vec<_> = efa
        .iter()
        .map(|one| {
            (
                one.network_card_index,
                one.device_index,
                one.interface_type,
                one.ipv4_prefix_count,
            )
        })
        .collect();
    let kind = Some("efa");
    assert_eq!(
        seen,
        [
            (Some(0), 0, kind, Some(2)),
            (Some(1), 1, kind, Some(2)),
            (Some(2), 1, kind, Some(2))
        ]
    );
    assert!(efa.iter().all(|one| one.associate_public_ip_address == Some(true)));
}

// AWS-170, AWS-173
#[test]
fn interfaces_of_the_class_are_taken_as_they_are() {
    let one = |card: i32, device: i32, kind: &str| json!({"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind});
    let spec = class(json!({
        "networkInterfaces": [one(0, 0, "interface"), one(1, 1, "efa-only")],
        "associatePublicIPAddress": true,
        "ipPrefixCount": 0,
        "connectionTracking": {"udpTimeout": 45},
    }))
    .spec;
    let listed = interfaces(&spec, &groups(), 7, true);
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0].interface_type, Some("interface"));
    assert_eq!(
        listed[0].connection_tracking.and_then(|tracking| tracking.udp_timeout),
        Some(45)
    );
    assert_eq!(
        (listed[0].ipv6_prefix_count, listed[0].primary_ipv6),
        (Some(0), Some(true))
    );
    assert_eq!(
        (listed[1].network_card_index, listed[1].interface_type),
        (Some(1), Some("efa-only"))
    );
    assert_eq!(
        (
            listed[1].associate_public_ip_address,
            listed[1].ipv6_prefix_count,
            listed[1].primary_ipv6,
            listed[1].connection_tracking
        ),
        (None, None, None, None)
    );
    assert_eq!(listed[1].security_group_ids, ["sg-1"]);
}

// AWS-171, AWS-172
#[test]
fn ipv6_clusters_have_ipv6_prefixes_and_addresses() {
    let spec = class(json!({"ipPrefixCount": 2})).spec;
    let v4 = &interfaces(&spec, &groups(), 0, false)[0];
    assert_eq!(
        (v4.ipv4_prefix_count, v4.ipv6_prefix_count, v4.ipv6_address_count),
        (Some(2), None, None)
    );
    let v6 = &interfaces(&spec, &groups(), 0, true)[0];
    assert_eq!(
        (v6.ipv4_prefix_count, v6.ipv6_prefix_count, v6.ipv6_address_count),
        (None, Some(2), Some(1))
    );
    assert_eq!(v6.primary_ipv6, Some(true));
}

// AWS-174, AWS-280
#[test]
fn placement_names_tenancy_group_and_partition() {
    let class = class(json!({}));
    let plain = data(&class, |_| {}).placement;
    assert_eq!(
        (plain.tenancy.as_str(), plain.group_id, plain.partition),
        ("default", None, None)
    );
    let group = group(Strategy::Partition);
    let tags = Tags::new();
    let placed = template_data(&TemplateInput {
        class: &class,
        region: "us-east-1",
        key: &key(),
        user_data: "",
        tags: &tags,
        capacity_type: CapacityType::OnDemand,
        tenancy: Tenancy::Dedicated,
        group: Some(&group),
        partition: group.targeted_partition(["2", "3"]),
        enclaves: false,
        is_ipv6: false,
        reserved_capacity: true,
    })
    .placement;
    assert_eq!(
        (placed.tenancy.as_str(), placed.group_id.as_deref(), placed.partition),
        ("dedicated", Some("pg-1"), Some(2))
    );
}

// AWS-175, AWS-488
#[test]
fn templates_say_which_reservations_may_be_used() {
    let class = class(json!({}));
    let reserved = |reservation_type: &str, interruptible: bool| TemplateKey {
        reservation_id: Some("cr-1".to_owned()),
        reservation_type: Some(reservation_type.to_owned()),
        interruptible,
        ..key()
    };
    let only = Some(ReservationPreference::Only("cr-1".to_owned()));
    let none = Some(ReservationPreference::None);
    for (key, bought, gate, preference, market) in [
        (key(), CapacityType::OnDemand, true, none.clone(), None),
        (key(), CapacityType::Spot, true, none, None),
        (key(), CapacityType::OnDemand, false, None, None),
        (
            reserved("default", false),
            CapacityType::Reserved,
            true,
            only.clone(),
            None,
        ),
        (
            reserved("default", true),
            CapacityType::Reserved,
            true,
            only.clone(),
            Some(MarketType::InterruptibleReservation),
        ),
        (
            reserved("capacity-block", false),
            CapacityType::Reserved,
            true,
            only,
            Some(MarketType::CapacityBlock),
        ),
    ] {
        let template = data_of(&class, &key, |input| {
            input.capacity_type = bought;
            input.reserved_capacity = gate;
        });
        assert_eq!((template.reservation, template.market), (preference, market), "{key:?}");
    }
}

// AWS-152, AWS-153, AWS-154
#[test]
fn the_name_of_a_template_follows_its_content() {
    let name = |class: &EC2NodeClass| template_name("prod", "nodes", &data(class, |_| {}));
    let base = name(&class(json!({})));
    let number = base.strip_prefix("karpenter.k8s.aws/").unwrap();
    assert!(number.parse::<u64>().is_ok());
    assert_eq!(name(&class(json!({}))), base);
    let disk = json!({"deviceName": "/dev/xvda", "ebs": {"volumeSize": "30Gi"}});
    for changes in [
        json!({"associatePublicIPAddress": true}),
        json!({"ipPrefixCount": 1}),
        json!({"blockDeviceMappings": [disk]}),
        json!({"metadataOptions": {"httpTokens": "optional"}}),
        json!({"cpuOptions": {"nestedVirtualization": "disabled"}}),
        json!({"detailedMonitoring": false}),
        json!({"networkInterfaces": [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}]}),
        json!({"connectionTracking": {"udpTimeout": 45}}),
    ] {
        assert_ne!(name(&class(changes.clone())), base, "{changes}");
    }
    let class = class(json!({}));
    assert_ne!(template_name("test", "nodes", &data(&class, |_| {})), base);
    assert_ne!(template_name("prod", "others", &data(&class, |_| {})), base);
    let changed = [
        template_name("prod", "nodes", &data(&class, |input| input.user_data = "eA==")),
        template_name(
            "prod",
            "nodes",
            &data(&class, |input| input.tenancy = Tenancy::Dedicated),
        ),
        template_name("prod", "nodes", &data(&class, |input| input.enclaves = true)),
        template_name(
            "prod",
            "nodes",
            &data(&class, |input| input.capacity_type = CapacityType::Spot),
        ),
        template_name("prod", "nodes", &data(&class, |input| input.partition = Some(1))),
    ];
    assert!(changed.iter().all(|name| *name != base));
    let other_ami = TemplateKey {
        ami: "ami-2".to_owned(),
        ..key()
    };
    assert_ne!(
        template_name("prod", "nodes", &data_of(&class, &other_ami, |_| {})),
        base
    );
    let groups = |ids: [&str; 2]| {
        let groups: Vec<Value> = ids.iter().map(|id| json!({ "id": id })).collect();
        name(&class_with_status(json!({}), json!({ "securityGroups": groups })))
    };
    assert_eq!(groups(["sg-1", "sg-2"]), groups(["sg-2", "sg-1"]));
    assert_ne!(groups(["sg-1", "sg-2"]), base);
}

fn amis() -> Vec<kerf_api::ec2_node_class::NodeClassAmi> {
    let arch = |name: &str| json!([{"key": "kubernetes.io/arch", "operator": "In", "values": [name]}]);
    serde_json::from_value(json!([
        {"id": "ami-amd", "requirements": arch("amd64")},
        {"id": "ami-arm", "requirements": arch("arm64")},
    ]))
    .unwrap()
}

// AWS-155, AWS-156
#[test]
fn types_that_need_equal_templates_share_one() {
    let interner = Interner::default();
    let class = class(json!({}));
    let od = || vec![offering(&interner, "a", "on-demand", 0.1)];
    let kinds = ["m5.large", "c5.large", "m6g.large", "m6idn.32xlarge"].map(|name| kind(name, &class, od(), &interner));
    let keys = |claim: &LaunchClaim<'_>| -> Vec<(String, i64, usize)> {
        let groups = template_groups(claim, &kinds, &amis(), CapacityType::OnDemand, &|_| Ok(None)).unwrap();
        groups
            .into_iter()
            .map(|group| (group.key.ami, group.key.efa_count, group.types.len()))
            .collect()
    };
    let mut claim = claim(&interner, &[]);
    // c5.large and m5.large hold the same number of pods.
    assert_eq!(
        keys(&claim),
        [
            ("ami-amd".to_owned(), 0, 2),
            ("ami-amd".to_owned(), 0, 1),
            ("ami-arm".to_owned(), 0, 1)
        ]
    );
    claim.requests = Resources::new().with(interner.intern("vpc.amazonaws.com/efa"), 1);
    assert!(keys(&claim).contains(&("ami-amd".to_owned(), 2, 1)));
    assert!(template_groups(&claim, &kinds, &[], CapacityType::OnDemand, &|_| Ok(None)).is_none());
    let reservations = vec![
        reserved(&interner, "a", "cr-1", "default", 0.001, 5),
        reserved(&interner, "b", "cr-2", "default", 0.001, 5),
    ];
    let kinds = [kind("m5.large", &class, reservations, &interner)];
    let groups = template_groups(&claim, &kinds, &amis(), CapacityType::Reserved, &|_| Ok(None)).unwrap();
    let ids: Vec<_> = groups
        .iter()
        .map(|group| group.key.reservation_id.as_deref().unwrap())
        .collect();
    assert_eq!(ids, ["cr-1", "cr-2"]);
}

fn subnets() -> BTreeMap<String, String> {
    [("us-east-1a", "subnet-a"), ("us-east-1b", "subnet-b")]
        .map(|(zone, subnet)| (zone.to_owned(), subnet.to_owned()))
        .into()
}

// AWS-248, AWS-249
#[test]
fn overrides_are_types_in_zones_with_a_subnet() {
    let interner = Interner::default();
    let class = class(json!({}));
    let of = |zone: &str, capacity_type: &str, price: f64| offering(&interner, zone, capacity_type, price);
    let mut partition = of("a", "on-demand", 0.1);
    let key = interner.intern("karpenter.k8s.aws/placement-group-partition");
    partition
        .requirements
        .replace(Requirement::is(key, interner.intern("2")));
    let kinds = [
        kind(
            "m5.large",
            &class,
            vec![
                of("a", "on-demand", 0.1),
                partition,
                of("a", "spot", 0.03),
                of("c", "on-demand", 0.1),
            ],
            &interner,
        ),
        kind("c5.large", &class, vec![of("b", "on-demand", 0.08)], &interner),
    ];
    let kinds: Vec<_> = kinds.iter().collect();
    let claim = claim(&interner, &[]);
    let on_demand = |zone| overrides(&claim, &kinds, &subnets(), "ami-1", CapacityType::OnDemand, None, zone);
    let made = |name: &str, zone: &str, subnet: Option<&str>, price: f64| FleetOverride {
        instance_type: name.to_owned(),
        zone: format!("us-east-1{zone}"),
        subnet_id: subnet.map(str::to_owned),
        image_id: "ami-1".to_owned(),
        priority: Price::from_per_hour(price).unwrap(),
    };
    assert_eq!(
        on_demand(None),
        [
            made("m5.large", "a", Some("subnet-a"), 0.1),
            made("c5.large", "b", Some("subnet-b"), 0.08)
        ]
    );
    assert_eq!(on_demand(Some("us-east-1b")), [made("c5.large", "b", None, 0.08)]);
    let reservations = vec![
        reserved(&interner, "a", "cr-1", "default", 0.001, 5),
        reserved(&interner, "b", "cr-2", "default", 0.001, 5),
    ];
    let kind = kind("m5.large", &class, reservations, &interner);
    let of_one = overrides(
        &claim,
        &[&kind],
        &subnets(),
        "ami-1",
        CapacityType::Reserved,
        Some("cr-2"),
        None,
    );
    assert_eq!(of_one, [made("m5.large", "b", Some("subnet-b"), 0.001)]);
}

fn config(name: &str) -> FleetConfig {
    FleetConfig {
        template_name: name.to_owned(),
        overrides: vec![FleetOverride {
            instance_type: "m5.large".to_owned(),
            zone: "us-east-1a".to_owned(),
            subnet_id: None,
            image_id: "ami-1".to_owned(),
            priority: Price::ZERO,
        }],
    }
}

// AWS-244, AWS-245, AWS-247
#[test]
fn fleets_ask_for_one_instance_by_the_strategy_of_its_kind() {
    let interner = Interner::default();
    let strategy = |bought, reservation: Option<&str>, interruptible, overlaid: bool| {
        let mut claim = claim(&interner, &[]);
        if overlaid {
            claim
                .annotations
                .insert("karpenter.sh/price-overlay-applied".to_owned(), String::new());
        }
        let request = fleet_request(&FleetInput {
            claim: &claim,
            capacity_type: bought,
            reservation_type: reservation,
            interruptible,
            configs: vec![config("one")],
            tags: Tags::new(),
            context: None,
        })
        .unwrap();
        (request.target.as_str(), request.strategy)
    };
    use AllocationStrategy::{
        CapacityOptimizedPrioritized, InterruptibleReservation, LowestPrice, None as NoOptions, PriceCapacityOptimized,
        Prioritized,
    };
    use CapacityType::{OnDemand, Reserved, Spot};
    for (bought, reservation, interruptible, overlaid, want) in [
        (Spot, None, false, false, ("spot", PriceCapacityOptimized)),
        (Spot, None, false, true, ("spot", CapacityOptimizedPrioritized)),
        (OnDemand, None, false, false, ("on-demand", LowestPrice)),
        (OnDemand, None, false, true, ("on-demand", Prioritized)),
        (Reserved, Some("default"), false, false, ("on-demand", LowestPrice)),
        (Reserved, Some("default"), false, true, ("on-demand", Prioritized)),
        (
            Reserved,
            Some("default"),
            true,
            false,
            ("reserved-capacity", InterruptibleReservation),
        ),
        (
            Reserved,
            Some("capacity-block"),
            false,
            false,
            ("capacity-block", NoOptions),
        ),
    ] {
        assert_eq!(strategy(bought, reservation, interruptible, overlaid), want);
    }
    assert_eq!(TargetCapacity::Spot.as_str(), "spot");
}

// AWS-246, AWS-250, AWS-415
#[test]
fn fleets_carry_tags_and_context() {
    let interner = Interner::default();
    let mut claim = claim(&interner, &[]);
    let request = |claim: &LaunchClaim<'_>, configs| {
        fleet_request(&FleetInput {
            claim,
            capacity_type: CapacityType::Spot,
            reservation_type: None,
            interruptible: false,
            configs,
            tags: Tags::from([("a".to_owned(), "b".to_owned())]),
            context: Some("context"),
        })
    };
    let empty = FleetConfig {
        template_name: "empty".to_owned(),
        overrides: Vec::new(),
    };
    let made = request(&claim, vec![config("one"), empty.clone()]).unwrap();
    assert_eq!(made.configs.len(), 1);
    assert_eq!(made.context.as_deref(), Some("context"));
    let tagged: Vec<_> = made
        .tags
        .iter()
        .map(|one| (one.resource, one.tags["a"].as_str()))
        .collect();
    assert_eq!(tagged, [("instance", "b"), ("volume", "b"), ("fleet", "b")]);
    assert_eq!(request(&claim, vec![empty]), None);
    claim.annotations.insert(
        "karpenter.sh/nodeclaim-min-values-relaxed".to_owned(),
        "true".to_owned(),
    );
    assert_eq!(request(&claim, vec![config("one")]).unwrap().context, None);
}

fn error(code: &str, message: &str, zone: &str) -> FleetError {
    FleetError {
        error: ApiError::new(code, message),
        instance_type: "m5.large".to_owned(),
        zone: format!("us-east-1{zone}"),
        subnet_id: Some(format!("subnet-{zone}")),
    }
}

fn scope<'a>(
    capacity_type: CapacityType,
    group: Option<GroupScope>,
    reservations: &'a BTreeMap<(String, String), String>,
) -> FleetScope<'a> {
    FleetScope {
        capacity_type,
        instance_types: &["m5.large", "c5.large"],
        group,
        reservations,
    }
}

fn marked(name: &str, zone: &str, group: Option<GroupScope>) -> Mark {
    Mark::Offering(UnavailableKey {
        instance_type: name.to_owned(),
        zone: format!("us-east-1{zone}"),
        capacity_type: CapacityType::OnDemand,
        group,
    })
}

// AWS-252, AWS-253, AWS-232, AWS-479
#[test]
fn errors_of_a_fleet_are_remembered() {
    let none = BTreeMap::new();
    let on_demand = scope(CapacityType::OnDemand, None, &none);
    let errors = [
        error("InsufficientInstanceCapacity", "", "a"),
        error("RequestLimitExceeded", "", "b"),
        error("InsufficientFreeAddressesInSubnet", "", "b"),
    ];
    assert_eq!(
        marks(&errors, &on_demand),
        [
            marked("m5.large", "a", None),
            Mark::Subnet("subnet-b".to_owned()),
            marked("m5.large", "b", None)
        ]
    );
    let role = error("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "", "a");
    assert_eq!(
        marks(&[role], &scope(CapacityType::Spot, None, &none)),
        [Mark::CapacityType(CapacityType::Spot)]
    );
    let ids = BTreeMap::from([("us-east-1a".to_owned(), "use1-az1".to_owned())]);
    let failures: Vec<_> = launch_failures(&errors, &ids).collect();
    assert_eq!(
        failures,
        [
            ("us-east-1a", "use1-az1", "LaunchFailed"),
            ("us-east-1b", "", "RequestLimitExceeded"),
            ("us-east-1b", "", "InsufficientFreeAddressesInSubnet"),
        ]
    );
}

// AWS-253, AWS-503
#[test]
fn marks_of_placement_groups_are_scoped() {
    let none = BTreeMap::new();
    let scoped = |partition| {
        Some(GroupScope {
            id: "pg-1".to_owned(),
            partition,
        })
    };
    let capacity = error("InsufficientInstanceCapacity", "", "a");
    let partition = scope(CapacityType::OnDemand, scoped(Some(2)), &none);
    assert_eq!(
        marks(&[capacity], &partition),
        [marked("m5.large", "a", scoped(Some(2)))]
    );
    let limit = error(
        "InsufficientInstanceCapacity",
        "You've reached the limit of instances in this spread placement group.",
        "a",
    );
    let spread = scope(CapacityType::OnDemand, scoped(None), &none);
    assert_eq!(
        marks(std::slice::from_ref(&limit), &spread),
        [
            marked("m5.large", "a", scoped(None)),
            marked("c5.large", "a", scoped(None))
        ]
    );
    let without = scope(CapacityType::OnDemand, None, &none);
    assert_eq!(marks(&[limit], &without), [marked("m5.large", "a", None)]);
}

// AWS-254
#[test]
fn full_reservations_are_remembered_as_empty() {
    let place = |name: &str| (name.to_owned(), "us-east-1a".to_owned());
    let reservations = BTreeMap::from([
        (place("m5.large"), "cr-1".to_owned()),
        (place("c5.large"), "cr-2".to_owned()),
    ]);
    let scope = scope(CapacityType::Reserved, None, &reservations);
    let marks_of = |code: &str, message: &str, zone: &str| marks(&[error(code, message, zone)], &scope);
    assert_eq!(
        marks_of("ReservationCapacityExceeded", "", "a"),
        [Mark::Reservation("cr-1".to_owned())]
    );
    let mut other = error("ReservationCapacityExceeded", "", "a");
    other.instance_type = "c5.large".to_owned();
    assert_eq!(marks(&[other], &scope), [Mark::Reservation("cr-2".to_owned())]);
    assert_eq!(marks_of("ReservationCapacityExceeded", "", "b"), []);
    assert_eq!(marks_of("RequestLimitExceeded", "", "a"), []);
    let limit = "limit of instances in this spread placement group";
    assert_eq!(marks_of("InsufficientInstanceCapacity", limit, "a"), []);
}

// AWS-255, AWS-251
#[test]
fn a_launch_without_instance_is_dropped_or_retried() {
    let capacity = error("InsufficientInstanceCapacity", "none", "a");
    let role = error("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "no", "a");
    assert!(matches!(failure(&[]), CloudError::InsufficientCapacity(_)));
    assert!(matches!(
        failure(&[capacity.clone(), role]),
        CloudError::InsufficientCapacity(_)
    ));
    let throttled = error("RequestLimitExceeded", "slow down", "a");
    let CloudError::Create { reason, message } = failure(&[capacity, throttled.clone(), throttled]) else {
        panic!("it is no matter of capacity alone");
    };
    assert_eq!(&*reason, "RequestLimitExceeded");
    assert_eq!(message.matches("slow down").count(), 1);
}
