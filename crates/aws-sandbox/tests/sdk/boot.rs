//! User data of all families: what the provider writes is what machines read.

use kerf_api::ec2_node_class::{AmiFamily, InstanceStorePolicy, KubeletConfiguration};
use kerf_aws::user_data::{BootstrapInput, NodeTaint, render};
use kerf_aws_sandbox::boot::{BootError, Bootstrap, read_user_data};
use serde_json::json;
use std::collections::BTreeMap;

const FAMILIES: [AmiFamily; 4] = [
    AmiFamily::Al2,
    AmiFamily::Al2023,
    AmiFamily::Bottlerocket,
    AmiFamily::Windows2022,
];

fn kubelet() -> KubeletConfiguration {
    serde_json::from_value(json!({
        "maxPods": 42,
        "clusterDNS": ["10.100.0.10"],
        "systemReserved": {"cpu": "100m", "memory": "200Mi"},
        "kubeReserved": {"memory": "1Gi"},
        "evictionHard": {"memory.available": "5%", "nodefs.available": "10%"},
    }))
    .unwrap()
}

fn input(family: AmiFamily) -> BootstrapInput {
    BootstrapInput {
        family,
        cluster_name: "prod".to_owned(),
        endpoint: "https://cluster".to_owned(),
        ca_bundle: "Q0E=".to_owned(),
        cluster_cidr: Some("10.100.0.0/16".to_owned()),
        kubelet: kubelet(),
        taints: vec![
            NodeTaint::new("dedicated", "gpu", "NoSchedule"),
            NodeTaint::new("karpenter.sh/unregistered", "", "NoExecute"),
        ],
        labels: BTreeMap::from([
            ("karpenter.sh/capacity-type".to_owned(), "spot".to_owned()),
            ("team".to_owned(), "a".to_owned()),
        ]),
        instance_store_policy: Some(InstanceStorePolicy::Raid0),
        custom: None,
        binds_default_paths: true,
    }
}

#[test]
fn machines_read_what_the_provider_writes() {
    for family in FAMILIES {
        let input = input(family);
        let read = read_user_data(family, &render(&input).unwrap()).unwrap();
        let expected = Bootstrap {
            cluster_name: "prod".to_owned(),
            endpoint: Some("https://cluster".to_owned()),
            ca_bundle: Some("Q0E=".to_owned()),
            labels: input.labels.clone(),
            taints: input.taints.clone(),
            kubelet: kubelet(),
            uses_local_disks: !family.is_windows(),
        };
        assert_eq!(read, expected, "{family:?}");
        // A custom image reads every form.
        assert_eq!(
            read_user_data(AmiFamily::Custom, &render(&input).unwrap()),
            Ok(expected)
        );
    }
}

#[test]
fn an_image_does_not_read_the_user_data_of_another_family() {
    for family in FAMILIES {
        let text = render(&input(family)).unwrap();
        for other in FAMILIES.into_iter().filter(|other| *other != family) {
            assert!(read_user_data(other, &text).is_err(), "{other:?} reads {family:?}");
        }
    }
    assert_eq!(
        read_user_data(AmiFamily::Custom, "#!/bin/bash\necho"),
        Err(BootError::NoBootstrap)
    );
}

#[test]
fn wrong_user_data_says_what_is_wrong() {
    let cases = [
        (
            AmiFamily::Al2,
            "#!/bin/bash\n/etc/eks/bootstrap.sh --b64-cluster-ca x\n",
            BootError::Missing("name of a cluster"),
        ),
        (AmiFamily::Al2, "/etc/eks/bootstrap.sh prod", BootError::NoBootstrap),
        (
            AmiFamily::Al2,
            "#!/bin/bash\n/etc/eks/bootstrap.sh 'prod\n",
            BootError::Unreadable("the call of bootstrap.sh has a quote that does not end"),
        ),
        (AmiFamily::Al2023, "kind: Other\n", BootError::NoBootstrap),
        (
            AmiFamily::Al2023,
            "kind: NodeConfig\nspec: {cluster: {name: prod}}\n",
            BootError::Missing("API server"),
        ),
        (
            AmiFamily::Bottlerocket,
            "[settings",
            BootError::Unreadable("it is no TOML"),
        ),
        (
            AmiFamily::Bottlerocket,
            "[settings.kubernetes]\ncluster-name = 'prod'\n",
            BootError::Missing("API server"),
        ),
        (
            AmiFamily::Windows2022,
            "<powershell>\necho\n</powershell>",
            BootError::NoBootstrap,
        ),
        (
            AmiFamily::Windows2022,
            "<powershell>",
            BootError::Unreadable("<powershell> does not end"),
        ),
    ];
    for (family, text, expected) in cases {
        assert_eq!(read_user_data(family, text), Err(expected), "{text}");
    }
}

#[test]
fn later_node_configs_win_and_the_last_call_of_a_script_counts() {
    let mut merged = input(AmiFamily::Al2023);
    merged.custom = Some(
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: {name: other}\n  kubelet:\n    config: {registryPullQPS: 3}\n"
            .to_owned(),
    );
    let read = read_user_data(AmiFamily::Al2023, &render(&merged).unwrap()).unwrap();
    assert_eq!(read.cluster_name, "prod");
    let mut script = input(AmiFamily::Al2);
    script.custom = Some("#!/bin/bash\n/etc/eks/bootstrap.sh other\n".to_owned());
    assert_eq!(
        read_user_data(AmiFamily::Al2, &render(&script).unwrap())
            .unwrap()
            .cluster_name,
        "prod"
    );
}
