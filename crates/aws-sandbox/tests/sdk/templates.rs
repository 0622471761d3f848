//! Launch templates.

use crate::fixture::{account, pass, tags, world, world_of};
use jiff::SignedDuration;
use kerf_api::ec2_node_class::ConnectionTracking;
use kerf_aws::launch::{BlockDeviceRequest, InterfaceRequest, MetadataRequest, ReservationPreference};
use kerf_aws::selector::Filter;
use kerf_aws::services::TemplateQuery;
use kerf_aws_sandbox::account::Delays;

fn named(name: &str) -> TemplateQuery {
    TemplateQuery {
        names: vec![name.to_owned()],
        filters: Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn templates_are_made_found_and_deleted() {
    let world = world();
    let ec2 = &world.services.ec2;
    assert!(ec2.launch_templates(&named("one")).await.unwrap_err().is_not_found());
    world.put_template("one", &world.data()).await;
    assert_eq!(ec2.launch_templates(&named("one")).await.unwrap(), ["one"]);
    let by_tag = |value: &str| TemplateQuery {
        names: vec![],
        filters: vec![Filter::new("tag:team", [value])],
    };
    assert_eq!(ec2.launch_templates(&by_tag("a")).await.unwrap(), ["one"]);
    assert!(ec2.launch_templates(&by_tag("b")).await.unwrap().is_empty());
    let again = ec2.create_launch_template("one", &world.data()).await.unwrap_err();
    assert_eq!(again.code, "InvalidLaunchTemplateName.AlreadyExistsException");
    ec2.delete_launch_template("one").await.unwrap();
    let gone = ec2.delete_launch_template("one").await.unwrap_err();
    assert!(gone.is_launch_template_not_found() && gone.is_not_found());
}

#[tokio::test(start_paused = true)]
async fn templates_are_listed_in_pages_of_200() {
    let mut account = account();
    account.throttle.limits.clear();
    let world = world_of(account);
    for number in 0..250 {
        world
            .put_template(&format!("karpenter.k8s.aws/{number}"), &world.data())
            .await;
    }
    world.calls("");
    let all = world
        .services
        .ec2
        .launch_templates(&TemplateQuery::default())
        .await
        .unwrap();
    assert_eq!(all.len(), 250);
    let calls = world.calls("DescribeLaunchTemplates");
    assert_eq!((calls.len(), calls[0].parameters["MaxResults"].as_str()), (2, "200"));
}

#[tokio::test(start_paused = true)]
async fn a_new_template_may_not_be_seen_at_once() {
    let mut account = account();
    account.delays = Delays {
        template: SignedDuration::from_secs(3),
        ..Delays::default()
    };
    let world = world_of(account);
    world.put_template("one", &world.data()).await;
    assert!(
        world
            .services
            .ec2
            .launch_templates(&named("one"))
            .await
            .unwrap_err()
            .is_not_found()
    );
    pass(3).await;
    assert_eq!(
        world.services.ec2.launch_templates(&named("one")).await.unwrap(),
        ["one"]
    );
}

#[tokio::test(start_paused = true)]
async fn everything_of_a_template_is_sent() {
    let world = world();
    let mut data = world.data();
    data.block_devices = vec![BlockDeviceRequest {
        device_name: Some("/dev/xvda".to_owned()),
        delete_on_termination: Some(true),
        encrypted: Some(true),
        iops: Some(3000),
        kms_key_id: Some("key".to_owned()),
        snapshot_id: Some("snap-1".to_owned()),
        throughput: Some(125),
        volume_initialization_rate: Some(100),
        volume_gib: Some(20),
        volume_type: Some("gp3".to_owned()),
    }];
    data.nested_virtualization = Some("enabled".to_owned());
    data.instance_profile = Some("prod_1".to_owned());
    data.monitoring = Some(true);
    data.metadata = MetadataRequest {
        http_endpoint: Some("enabled".to_owned()),
        http_protocol_ipv6: Some("disabled".to_owned()),
        http_put_response_hop_limit: Some(1),
        http_tokens: Some("required".to_owned()),
    };
    data.interfaces = vec![InterfaceRequest {
        network_card_index: Some(1),
        device_index: 1,
        interface_type: Some("efa"),
        security_group_ids: vec!["sg-1".to_owned()],
        associate_public_ip_address: Some(false),
        ipv4_prefix_count: Some(2),
        ipv6_prefix_count: Some(3),
        primary_ipv6: Some(true),
        ipv6_address_count: Some(1),
        connection_tracking: Some(ConnectionTracking {
            tcp_established_timeout: Some(60),
            udp_stream_timeout: None,
            udp_timeout: Some(30),
        }),
    }];
    data.placement.group_id = Some("pg-1".to_owned());
    data.placement.partition = Some(2);
    data.enclaves = true;
    data.reservation = Some(ReservationPreference::None);
    data.tagged_resources = vec!["network-interface", "spot-instances-request"];
    data.tags = tags([("team", "a b&c")]);
    world.put_template("one", &data).await;
    let sent = world.calls("CreateLaunchTemplate").remove(0).parameters;
    let image = world.image("x86_64");
    let expected = [
        ("BlockDeviceMapping.1.DeviceName", "/dev/xvda"),
        ("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true"),
        ("BlockDeviceMapping.1.Ebs.Encrypted", "true"),
        ("BlockDeviceMapping.1.Ebs.Iops", "3000"),
        ("BlockDeviceMapping.1.Ebs.KmsKeyId", "key"),
        ("BlockDeviceMapping.1.Ebs.SnapshotId", "snap-1"),
        ("BlockDeviceMapping.1.Ebs.Throughput", "125"),
        ("BlockDeviceMapping.1.Ebs.VolumeInitializationRate", "100"),
        ("BlockDeviceMapping.1.Ebs.VolumeSize", "20"),
        ("BlockDeviceMapping.1.Ebs.VolumeType", "gp3"),
        ("CapacityReservationSpecification.CapacityReservationPreference", "none"),
        ("CpuOptions.NestedVirtualization", "enabled"),
        ("EnclaveOptions.Enabled", "true"),
        ("IamInstanceProfile.Name", "prod_1"),
        ("ImageId", &image),
        ("MetadataOptions.HttpEndpoint", "enabled"),
        ("MetadataOptions.HttpProtocolIpv6", "disabled"),
        ("MetadataOptions.HttpPutResponseHopLimit", "1"),
        ("MetadataOptions.HttpTokens", "required"),
        ("MetadataOptions.InstanceMetadataTags", "disabled"),
        ("Monitoring.Enabled", "true"),
        ("NetworkInterface.1.AssociatePublicIpAddress", "false"),
        (
            "NetworkInterface.1.ConnectionTrackingSpecification.TcpEstablishedTimeout",
            "60",
        ),
        ("NetworkInterface.1.ConnectionTrackingSpecification.UdpTimeout", "30"),
        ("NetworkInterface.1.DeviceIndex", "1"),
        ("NetworkInterface.1.InterfaceType", "efa"),
        ("NetworkInterface.1.Ipv4PrefixCount", "2"),
        ("NetworkInterface.1.Ipv6AddressCount", "1"),
        ("NetworkInterface.1.Ipv6PrefixCount", "3"),
        ("NetworkInterface.1.NetworkCardIndex", "1"),
        ("NetworkInterface.1.PrimaryIpv6", "true"),
        ("NetworkInterface.1.SecurityGroupId.1", "sg-1"),
        ("Placement.GroupId", "pg-1"),
        ("Placement.PartitionNumber", "2"),
        ("Placement.Tenancy", "default"),
        ("TagSpecification.1.ResourceType", "network-interface"),
        ("TagSpecification.1.Tag.1.Key", "team"),
        ("TagSpecification.1.Tag.1.Value", "a b&c"),
        ("TagSpecification.2.ResourceType", "spot-instances-request"),
        ("TagSpecification.2.Tag.1.Key", "team"),
        ("TagSpecification.2.Tag.1.Value", "a b&c"),
        ("UserData", "aGVsbG8="),
    ];
    let of_data =
        |(path, value): (&String, &String)| Some((path.strip_prefix("LaunchTemplateData.")?.to_owned(), value.clone()));
    let found: Vec<(String, String)> = sent.iter().filter_map(of_data).collect();
    assert_eq!(found, expected.map(|(path, value)| (path.to_owned(), value.to_owned())));
    assert_eq!(sent["TagSpecification.1.ResourceType"], "launch-template");
    assert_eq!(sent["TagSpecification.1.Tag.1.Value"], "a b&c");
}

#[tokio::test(start_paused = true)]
async fn user_data_that_is_too_large_is_refused() {
    let world = world();
    let mut data = world.data();
    data.user_data = kerf_aws::user_data::encode(&"x".repeat(16_385));
    let error = world
        .services
        .ec2
        .create_launch_template("one", &data)
        .await
        .unwrap_err();
    assert!(error.is_user_data_too_large(), "{error}");
    data.user_data = kerf_aws::user_data::encode(&"x".repeat(16_384));
    world.put_template("one", &data).await;
    data.user_data = "no base64".to_owned();
    let error = world
        .services
        .ec2
        .create_launch_template("two", &data)
        .await
        .unwrap_err();
    assert!(
        error.code == "InvalidUserData.Malformed" && !error.is_user_data_too_large(),
        "{error}"
    );
}
