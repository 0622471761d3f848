//! Image aliases, selection of images, and their mapping to instance types.

use crate::class::{class, resolved};
use jiff::Timestamp;
use kerf_api::ec2_node_class::{AmiAlias, AmiFamily, NodeClassAmi};
use kerf_aws::ami::{
    Image, alias_parameters, ami_for, check_alias_support, default_volumes, group_by_ami, pod_device, select,
    status_amis,
};
use kerf_model::intern::Interner;
use serde_json::json;

/// Each parameter's name without the common start and end, and the keys of each variant's requirements.
fn parameters(alias: &str, version: &str) -> Vec<(String, Vec<String>)> {
    let alias = AmiAlias::parse(alias).unwrap();
    alias_parameters(&alias, version)
        .into_iter()
        .map(|parameter| {
            let name = parameter
                .name
                .trim_start_matches("/aws/service/")
                .trim_end_matches("/image_id");
            let variants = parameter.variants.iter().map(|requirements| {
                let each = requirements.iter().map(|one| {
                    let key = one.key.rsplit('/').next().unwrap();
                    format!("{key} {} {}", one.operator, one.values.join(","))
                });
                each.collect::<Vec<_>>()
                    .join("; ")
                    .replace("instance-", "")
                    .replace(" ;", ";")
                    .trim()
                    .to_owned()
            });
            (name.to_owned(), variants.collect())
        })
        .collect()
}

const STANDARD: &str = "accelerator-count DoesNotExist; gpu-count DoesNotExist";

// AWS-109, AWS-110, AWS-119
#[test]
fn al2_parameters() {
    let amd = |rest: &str| format!("arch In amd64; {rest}");
    assert_eq!(
        parameters("al2@latest", "1.32"),
        [
            (
                "eks/optimized-ami/1.32/amazon-linux-2/recommended".to_owned(),
                vec![amd(STANDARD)]
            ),
            (
                "eks/optimized-ami/1.32/amazon-linux-2-arm64/recommended".to_owned(),
                vec![format!("arch In arm64; {STANDARD}")]
            ),
            (
                "eks/optimized-ami/1.32/amazon-linux-2-gpu/recommended".to_owned(),
                vec![amd("accelerator-count Exists"), amd("gpu-count Exists")]
            ),
        ]
    );
    let pinned: Vec<String> = parameters("al2@v20240625", "1.32")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        pinned,
        [
            "eks/optimized-ami/1.32/amazon-linux-2/amazon-eks-node-1.32-v20240625",
            "eks/optimized-ami/1.32/amazon-linux-2-arm64/amazon-eks-arm64-node-1.32-v20240625",
            "eks/optimized-ami/1.32/amazon-linux-2-gpu/amazon-eks-gpu-node-1.32-v20240625",
        ]
    );
}

// AWS-111
#[test]
fn al2023_parameters() {
    let names: Vec<String> = parameters("al2023@latest", "1.35")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names,
        [
            "eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended",
            "eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia/recommended",
            "eks/optimized-ami/1.35/amazon-linux-2023/x86_64/neuron/recommended",
            "eks/optimized-ami/1.35/amazon-linux-2023/arm64/standard/recommended",
            "eks/optimized-ami/1.35/amazon-linux-2023/arm64/nvidia/recommended",
        ]
    );
    let pinned = parameters("al2023@v20260101", "1.35");
    assert_eq!(
        pinned[1].0,
        "eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia/amazon-eks-node-al2023-x86_64-nvidia-1.35-v20260101"
    );
    assert_eq!(pinned[4].1, ["arch In arm64; gpu-count Exists"]);
}

// AWS-112
#[test]
fn bottlerocket_parameters() {
    assert_eq!(
        parameters("bottlerocket@v1.20.0", "1.35"),
        [
            (
                "bottlerocket/aws-k8s-1.35/x86_64/1.20.0".to_owned(),
                vec![
                    format!("arch In amd64; {STANDARD}"),
                    "arch In amd64; accelerator-count Exists".to_owned()
                ]
            ),
            (
                "bottlerocket/aws-k8s-1.35/arm64/1.20.0".to_owned(),
                vec![format!("arch In arm64; {STANDARD}")]
            ),
            (
                "bottlerocket/aws-k8s-1.35-nvidia/x86_64/1.20.0".to_owned(),
                vec!["arch In amd64; gpu-count Exists".to_owned()]
            ),
            (
                "bottlerocket/aws-k8s-1.35-nvidia/arm64/1.20.0".to_owned(),
                vec!["arch In arm64; gpu-count Exists".to_owned()]
            ),
        ]
    );
    assert!(
        parameters("bottlerocket@latest", "1.35")[0]
            .0
            .ends_with("x86_64/latest")
    );
}

// AWS-113
#[test]
fn windows_parameters() {
    for (alias, year, build) in [
        ("windows2019@latest", "2019", "10.0.17763"),
        ("windows2022@latest", "2022", "10.0.20348"),
        ("windows2025@latest", "2025", "10.0.26100"),
    ] {
        assert_eq!(
            parameters(alias, "1.35"),
            [(
                format!("ami-windows-latest/Windows_Server-{year}-English-Core-EKS_Optimized-1.35"),
                vec![format!("arch In amd64; os In windows; windows-build In {build}")]
            )]
        );
    }
}

// AWS-115, AWS-059
#[test]
fn some_families_have_no_images_for_some_versions() {
    for (family, version, supported) in [
        (AmiFamily::Al2, "1.32", true),
        (AmiFamily::Al2, "1.33", false),
        (AmiFamily::Al2, "1.33.0", false),
        (AmiFamily::Windows2025, "1.34", false),
        (AmiFamily::Windows2025, "1.35", true),
        (AmiFamily::Al2023, "1.36", true),
    ] {
        assert_eq!(
            check_alias_support(family, version).is_ok(),
            supported,
            "{family} {version}"
        );
    }
}

fn image(id: &str, name: &str, day: i64, deprecated_from: Option<i64>) -> Image {
    let time = |day: i64| Timestamp::from_second(day * 86_400).unwrap();
    Image {
        id: id.to_owned(),
        name: Some(name.to_owned()),
        architecture: "x86_64".to_owned(),
        created: Some(time(day)),
        deprecated_from: deprecated_from.map(time),
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(100 * 86_400).unwrap()
}

fn ids(images: &[Image]) -> Vec<String> {
    let selected = select(images, |_| Vec::new(), now());
    status_amis(&selected).into_iter().map(|ami| ami.id).collect()
}

// AWS-120, AWS-496
#[test]
fn of_images_for_the_same_machines_the_best_is_kept() {
    // Newer wins, whatever the order.
    assert_eq!(
        ids(&[image("ami-1", "a", 1, None), image("ami-2", "b", 2, None)]),
        ["ami-2"]
    );
    assert_eq!(
        ids(&[image("ami-2", "b", 2, None), image("ami-1", "a", 1, None)]),
        ["ami-2"]
    );
    // An image that is not deprecated wins over a newer one that is.
    assert_eq!(
        ids(&[image("ami-1", "a", 1, None), image("ami-2", "b", 2, Some(99))]),
        ["ami-1"]
    );
    // A deprecation to come does not count.
    assert_eq!(
        ids(&[image("ami-1", "a", 1, None), image("ami-2", "b", 2, Some(101))]),
        ["ami-2"]
    );
    // A deprecated image is used where there is no other.
    assert_eq!(ids(&[image("ami-2", "b", 2, Some(100))]), ["ami-2"]);
    // Then the greater name wins, then the first.
    assert_eq!(
        ids(&[image("ami-1", "b", 1, None), image("ami-2", "a", 1, None)]),
        ["ami-1"]
    );
    assert_eq!(
        ids(&[image("ami-2", "a", 1, None), image("ami-1", "a", 1, None)]),
        ["ami-2"]
    );
}

// AWS-118, AWS-121
#[test]
fn images_are_listed_by_age_and_unknown_architectures_left_out() {
    let with = |id: &str, architecture: &str, created: Option<i64>| Image {
        architecture: architecture.to_owned(),
        created: created.map(|day| Timestamp::from_second(day * 86_400).unwrap()),
        ..image(id, id, 0, None)
    };
    assert_eq!(
        ids(&[
            with("ami-3", "x86_64", None),
            with("ami-2", "arm64", Some(5)),
            with("ami-1", "x86_64_mac", Some(9)),
        ]),
        ["ami-2", "ami-3"]
    );
}

// AWS-067
#[test]
fn requirements_are_listed_by_length_of_their_key() {
    let alias = AmiAlias::parse("bottlerocket@latest").unwrap();
    let variants = alias_parameters(&alias, "1.35")[0].variants.clone();
    let selected = select(&[image("ami-1", "a", 1, None)], |_| variants.clone(), now());
    let keys: Vec<Vec<String>> = status_amis(&selected)
        .into_iter()
        .map(|ami| ami.requirements.into_iter().map(|one| one.key).collect())
        .collect();
    let (arch, gpu, accelerator) = (
        "kubernetes.io/arch",
        "karpenter.k8s.aws/instance-gpu-count",
        "karpenter.k8s.aws/instance-accelerator-count",
    );
    assert_eq!(keys, [vec![arch, gpu, accelerator], vec![arch, accelerator]]);
}

fn amis() -> Vec<NodeClassAmi> {
    let requirement =
        |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
    let arch = |name: &str| requirement("kubernetes.io/arch", "In", &[name]);
    let gpu = |operator: &str| requirement("karpenter.k8s.aws/instance-gpu-count", operator, &[]);
    serde_json::from_value(json!([
        {"id": "ami-gpu", "requirements": [arch("amd64"), gpu("Exists")]},
        {"id": "ami-amd", "requirements": [arch("amd64"), gpu("DoesNotExist")]},
        {"id": "ami-arm", "requirements": [arch("arm64")]},
        {"id": "ami-any", "requirements": [arch("amd64")]},
    ]))
    .unwrap()
}

// AWS-122
#[test]
fn a_type_gets_the_first_image_that_fits() {
    let interner = Interner::default();
    let (class, amis) = (class(json!({})), amis());
    for (name, ami) in [
        ("g5.xlarge", "ami-gpu"),
        ("m5.large", "ami-amd"),
        ("m6g.large", "ami-arm"),
    ] {
        assert_eq!(
            ami_for(&resolved(name, &class, &interner), &amis, &interner),
            Some(ami),
            "{name}"
        );
    }
    assert_eq!(
        ami_for(&resolved("m6g.large", &class, &interner), &amis[..2], &interner),
        None
    );
    let kinds = ["m5.large", "m6g.large", "g5.xlarge", "c5.large"].map(|name| resolved(name, &class, &interner));
    let groups: Vec<(&str, usize)> = group_by_ami(&kinds, &amis, &interner)
        .into_iter()
        .map(|(ami, kinds)| (ami, kinds.len()))
        .collect();
    assert_eq!(groups, [("ami-gpu", 1), ("ami-amd", 2), ("ami-arm", 1)]);
}

// AWS-166
#[test]
fn default_disks_of_families() {
    const GIB: i64 = 1 << 30;
    let volumes = |family| -> Vec<(&str, i64)> {
        default_volumes(family)
            .iter()
            .map(|volume| (volume.device, volume.bytes / GIB))
            .collect()
    };
    assert_eq!(volumes(AmiFamily::Al2), [("/dev/xvda", 20)]);
    assert_eq!(volumes(AmiFamily::Al2023), [("/dev/xvda", 20)]);
    assert_eq!(volumes(AmiFamily::Bottlerocket), [("/dev/xvda", 4), ("/dev/xvdb", 20)]);
    assert_eq!(volumes(AmiFamily::Windows2019), [("/dev/sda1", 50)]);
    assert_eq!(volumes(AmiFamily::Custom), []);
    assert_eq!(pod_device(AmiFamily::Custom), None);
}
