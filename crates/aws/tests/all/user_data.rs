//! User data of each family, read back and compared by structure.

use crate::class::class_with_status;
use kerf_api::AmiFamily;
use kerf_aws::user_data::{
    Archive, BootstrapInput, MimeError, NodeTaint, Part, SIZE_MAX, SIZE_WARNING, UserDataError, binds_default_paths,
    bottlerocket_version, encode, kubelet_flags, node_labels, node_taints, render, unknown_kubernetes_settings,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Base64 of "bundle".
const CA: &str = "YnVuZGxl";

fn input(family: AmiFamily) -> BootstrapInput {
    BootstrapInput {
        family,
        cluster_name: "prod".to_owned(),
        endpoint: "https://prod".to_owned(),
        ca_bundle: CA.to_owned(),
        cluster_cidr: Some("10.100.0.0/16".to_owned()),
        kubelet: serde_json::from_value(json!({"maxPods": 29})).unwrap(),
        taints: vec![
            NodeTaint::new("a", "b", "NoSchedule"),
            NodeTaint::new("karpenter.sh/unregistered", "", "NoExecute"),
        ],
        labels: BTreeMap::from([("team".to_owned(), "x".to_owned()), ("app".to_owned(), "y".to_owned())]),
        instance_store_policy: None,
        custom: None,
        binds_default_paths: true,
    }
}

/// The same with other kubelet settings.
fn with_kubelet(family: AmiFamily, kubelet: Value) -> BootstrapInput {
    BootstrapInput {
        kubelet: serde_json::from_value(kubelet).unwrap(),
        ..input(family)
    }
}

fn with_custom(family: AmiFamily, custom: &str) -> BootstrapInput {
    BootstrapInput {
        custom: Some(custom.to_owned()),
        ..input(family)
    }
}

/// All kubelet settings.
fn everything() -> Value {
    json!({
        "clusterDNS": ["10.100.0.10", "10.100.0.11"],
        "maxPods": 29,
        "podsPerCore": 4,
        "systemReserved": {"memory": "1Gi", "cpu": "100m"},
        "kubeReserved": {"cpu": "200m"},
        "evictionHard": {"memory.available": "5%"},
        "evictionSoft": {"memory.available": "10%"},
        "evictionSoftGracePeriod": {"memory.available": "90s"},
        "evictionMaxPodGracePeriod": 60,
        "imageGCHighThresholdPercent": 80,
        "imageGCLowThresholdPercent": 60,
        "cpuCFSQuota": false,
    })
}

// AWS-127, AWS-128, AWS-497
#[test]
fn pods_and_dns_server_are_always_filled_in() {
    let filled = |kubelet: Value, dns| with_kubelet(AmiFamily::Al2023, kubelet).with_defaults(58, dns).kubelet;
    let plain = filled(json!({}), Some("10.100.0.10"));
    assert_eq!(plain.max_pods_count(), Some(58));
    assert_eq!(plain.cluster_dns, Some(vec!["10.100.0.10".to_owned()]));
    let own = filled(
        json!({"maxPods": 10, "clusterDNS": ["1.1.1.1", "2.2.2.2"]}),
        Some("10.100.0.10"),
    );
    assert_eq!(own.max_pods_count(), Some(10));
    assert_eq!(own.cluster_dns.unwrap().len(), 2);
    assert_eq!(filled(json!({"clusterDNS": []}), None).cluster_dns, None);
    let first = with_kubelet(AmiFamily::Al2, everything());
    assert_eq!(first.dns_server(), Some("10.100.0.10"));
}

// AWS-129
#[test]
fn nodes_start_with_the_unregistered_taint() {
    let (own, startup) = (
        NodeTaint::new("a", "b", "NoSchedule"),
        NodeTaint::new("c", "", "NoExecute"),
    );
    let unregistered = NodeTaint::new("karpenter.sh/unregistered", "", "NoExecute");
    let all = node_taints(std::slice::from_ref(&own), std::slice::from_ref(&startup));
    assert_eq!(all, [own.clone(), startup, unregistered.clone()]);
    assert_eq!(
        node_taints(std::slice::from_ref(&own), std::slice::from_ref(&unregistered)).len(),
        2
    );
    let other_effect = NodeTaint::new("karpenter.sh/unregistered", "", "NoSchedule");
    assert_eq!(node_taints(&[other_effect], &[]).len(), 2);
}

// AWS-130, AWS-498
#[test]
fn labels_kubelet_may_not_set_are_left_out() {
    let claim: BTreeMap<String, String> = [
        "team",
        "example.com/a",
        "karpenter.k8s.aws/instance-family",
        "karpenter.sh/nodepool",
        "kubernetes.io/arch",
        "topology.kubernetes.io/zone",
        "k8s.io/a",
        "x.k8s.io/a",
        "node-restriction.kubernetes.io/a",
        "notkubernetes.io/a",
    ]
    .map(|key| (key.to_owned(), "v".to_owned()))
    .into();
    let keys = |family| node_labels(&claim, "spot", family).into_keys().collect::<Vec<_>>();
    assert_eq!(
        keys(AmiFamily::Al2023),
        [
            "example.com/a",
            "karpenter.k8s.aws/instance-family",
            "karpenter.sh/capacity-type",
            "karpenter.sh/do-not-sync-taints",
            "karpenter.sh/nodepool",
            "notkubernetes.io/a",
            "team",
        ]
    );
    assert!(!keys(AmiFamily::Custom).contains(&"karpenter.sh/do-not-sync-taints".to_owned()));
}

// AWS-131
#[test]
fn kubelet_flags_have_a_fixed_order() {
    assert_eq!(
        kubelet_flags(&with_kubelet(AmiFamily::Al2, everything())),
        [
            r#"--node-labels="app=y,team=x""#,
            r#"--register-with-taints="a=b:NoSchedule,karpenter.sh/unregistered:NoExecute""#,
            "--max-pods=29",
            "--pods-per-core=4",
            r#"--system-reserved="cpu=100m,memory=1Gi""#,
            r#"--kube-reserved="cpu=200m""#,
            r#"--eviction-hard="memory.available<5%""#,
            r#"--eviction-soft="memory.available<10%""#,
            r#"--eviction-soft-grace-period="memory.available=1m30s""#,
            "--eviction-max-pod-grace-period=60",
            "--image-gc-high-threshold=80",
            "--image-gc-low-threshold=60",
            "--cpu-cfs-quota=false",
        ]
    );
    let mut bare = with_kubelet(AmiFamily::Al2, json!({}));
    bare.labels.clear();
    bare.taints.truncate(1);
    assert_eq!(kubelet_flags(&bare), [r#"--register-with-taints="a=b:NoSchedule""#]);
}

fn parts(input: &BootstrapInput) -> Vec<Part> {
    Archive::parse(&render(input).unwrap()).unwrap().parts
}

// AWS-126, AWS-132, AWS-133, AWS-150
#[test]
fn al2_calls_the_bootstrap_script() {
    let mut input = with_kubelet(AmiFamily::Al2, json!({"maxPods": 29, "clusterDNS": ["10.100.0.10"]}));
    input.instance_store_policy = Some(kerf_api::ec2_node_class::InstanceStorePolicy::Raid0);
    let text = render(&input).unwrap();
    assert!(
        text.starts_with("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n"),
        "{text}"
    );
    assert!(text.ends_with("\n--//--\n") && !text.contains('\r'), "{text}");
    let parts = parts(&input);
    assert_eq!(parts.len(), 1);
    assert_eq!(parts[0].content_type(), "text/x-shellscript; charset=\"us-ascii\"");
    let lines: Vec<&str> = parts[0].content.lines().collect();
    assert_eq!(lines[0], "#!/bin/bash -xe");
    assert!(
        lines[1].contains("/var/log/user-data.log")
            && lines[1].contains("-t user-data")
            && lines[1].contains("/dev/console")
    );
    assert_eq!(
        lines[2..],
        [
            "/etc/eks/bootstrap.sh 'prod' --apiserver-endpoint 'https://prod' --b64-cluster-ca 'YnVuZGxl' \\",
            "--dns-cluster-ip '10.100.0.10' \\",
            "--use-max-pods false \\",
            "--kubelet-extra-args '--node-labels=\"app=y,team=x\" --register-with-taints=\"a=b:NoSchedule,karpenter.sh/unregistered:NoExecute\" --max-pods=29' \\",
            "--local-disks raid0",
        ]
    );
    let ipv6 = with_kubelet(AmiFamily::Al2, json!({"clusterDNS": ["fd00::a"]}));
    let script = &self::parts(&ipv6)[0].content;
    let (family, dns) = (
        script.find("--ip-family ipv6").unwrap(),
        script.find("--dns-cluster-ip 'fd00::a'").unwrap(),
    );
    assert!(family < dns && !script.contains("--use-max-pods"));
}

const MIME: &str = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"BOUNDARY\"\n\n--BOUNDARY\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\n\n#!/bin/bash\necho one\n--BOUNDARY\nContent-Type: application/node.eks.aws\n\nkind: NodeConfig\n\n--BOUNDARY--\n";

// AWS-134
#[test]
fn al2_takes_over_the_parts_of_the_class() {
    let reordered = "Content-Type: multipart/mixed; boundary=\"BOUNDARY\"\nMIME-Version: 1.0\n".to_owned()
        + MIME.split_once("BOUNDARY\"\n").unwrap().1;
    for archive in [MIME, &format!("\n\n{MIME}"), &reordered] {
        let parts = parts(&with_custom(AmiFamily::Al2, archive));
        assert_eq!(parts.len(), 3, "{archive}");
        assert_eq!(parts[0].content, "#!/bin/bash\necho one");
        assert_eq!(parts[1].content_type(), "application/node.eks.aws");
        assert!(parts[2].content.contains("/etc/eks/bootstrap.sh"));
    }
    let plain = parts(&with_custom(AmiFamily::Al2, "#!/bin/bash\necho plain"));
    assert_eq!(plain[0].content, "#!/bin/bash\necho plain");
    assert_eq!(plain[0].content_type(), "text/x-shellscript; charset=\"us-ascii\"");
}

// AWS-139
#[test]
fn archives_are_read_and_written_without_loss() {
    let archive = Archive::parse(MIME).unwrap();
    assert_eq!(archive.parts[1].content, "kind: NodeConfig\n");
    assert_eq!(Archive::parse(&archive.render()).unwrap(), archive);
    for (bad, want) in [
        (
            "MIME-Version: 1.0\nthis is no header\n\n",
            MimeError::Header { line: 2 },
        ),
        ("Content-Type: text/plain\n\nx", MimeError::NotMultipart),
        ("MIME-Version: 1.0\n\nx", MimeError::NotMultipart),
        ("Content-Type: multipart/mixed\n\nx", MimeError::Boundary),
        (
            "Content-Type: multipart/mixed; boundary=x\n\n--x\nA: b\n\ntext",
            MimeError::Unclosed,
        ),
    ] {
        assert_eq!(Archive::parse(bad), Err(want), "{bad}");
        let error = render(&with_custom(AmiFamily::Al2, bad)).unwrap_err();
        assert!(error.to_string().starts_with("invalid user data"), "{error}");
    }
}

/// The NodeConfig of the last part.
fn node_config(input: &BootstrapInput) -> Value {
    let parts = parts(input);
    let last = parts.last().unwrap();
    assert_eq!(last.content_type(), "application/node.eks.aws");
    assert!(last.content.starts_with("# "), "{}", last.content);
    serde_saphyr::from_str(&last.content).unwrap()
}

// AWS-135, AWS-136
#[test]
fn al2023_gets_a_node_config() {
    let config = node_config(&input(AmiFamily::Al2023));
    assert_eq!(
        config,
        json!({
            "apiVersion": "node.eks.aws/v1alpha1",
            "kind": "NodeConfig",
            "spec": {
                "cluster": {
                    "name": "prod",
                    "apiServerEndpoint": "https://prod",
                    "certificateAuthority": CA,
                    "cidr": "10.100.0.0/16",
                },
                "kubelet": {
                    "config": {
                        "maxPods": 29,
                        "registerWithTaints": [
                            {"key": "a", "value": "b", "effect": "NoSchedule"},
                            {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
                        ],
                    },
                    "flags": ["--node-labels=\"app=y,team=x\""],
                },
            },
        })
    );
    let mut full = with_kubelet(AmiFamily::Al2023, everything());
    full.instance_store_policy = Some(kerf_api::ec2_node_class::InstanceStorePolicy::Raid0);
    full.labels.clear();
    let config = node_config(&full);
    assert_eq!(
        config["spec"]["instance"],
        json!({"localStorage": {"strategy": "RAID0"}})
    );
    let kubelet = &config["spec"]["kubelet"];
    assert_eq!(kubelet["flags"], Value::Null);
    assert_eq!(kubelet["config"]["clusterDNS"], json!(["10.100.0.10", "10.100.0.11"]));
    assert_eq!(kubelet["config"]["imageGCHighThresholdPercent"], 80);
    assert_eq!(
        kubelet["config"]["evictionSoftGracePeriod"],
        json!({"memory.available": "1m30s"})
    );
    assert_eq!(kubelet["config"]["cpuCFSQuota"], false);
    assert_eq!(kubelet["config"].as_object().unwrap().len(), 13);
}

// AWS-137
#[test]
fn al2023_needs_the_addresses_of_services() {
    let mut input = input(AmiFamily::Al2023);
    input.ca_bundle = "no base64!".to_owned();
    assert_eq!(render(&input), Err(UserDataError::CaBundle));
    input.cluster_cidr = None;
    assert_eq!(render(&input), Err(UserDataError::ClusterCidrUnknown));
}

// AWS-138
#[test]
fn al2023_tells_node_configs_from_scripts() {
    let types = |custom: &str| -> Vec<String> {
        let parts = parts(&with_custom(AmiFamily::Al2023, custom));
        parts.iter().map(|part| part.content_type().to_owned()).collect()
    };
    let (config, script) = ("application/node.eks.aws", "text/x-shellscript; charset=\"us-ascii\"");
    assert_eq!(
        types("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"),
        [config, config]
    );
    assert_eq!(types("#!/bin/bash\necho hello\n"), [script, config]);
    assert_eq!(types(MIME), [script, config, config]);
}

fn toml_of(input: &BootstrapInput) -> Value {
    let table: toml::Table = render(input).unwrap().parse().unwrap();
    serde_json::to_value(table).unwrap()
}

// AWS-140, AWS-141, AWS-142
#[test]
fn bottlerocket_settings_are_merged() {
    let custom = r#"
        [settings.kubernetes]
        api-server = "https://other"
        max-pods = 5
        registry-qps = 10
        unheard-of = "kept"
        [settings.kubernetes.node-labels]
        team = "theirs"
        own = "kept"
        [settings.kubernetes.node-taints]
        gone = ["x:NoSchedule"]
        [settings.motd]
        text = "hello"
        [other]
        a = 1
    "#;
    let mut input = with_custom(AmiFamily::Bottlerocket, custom);
    input.kubelet.cluster_dns = Some(vec!["10.100.0.10".to_owned(), "10.100.0.11".to_owned()]);
    assert_eq!(
        toml_of(&input),
        json!({
            "settings": {
                "kubernetes": {
                    "api-server": "https://prod",
                    "cluster-certificate": CA,
                    "cluster-name": "prod",
                    "cluster-dns-ip": "10.100.0.10",
                    "max-pods": 29,
                    "registry-qps": 10,
                    "unheard-of": "kept",
                    "node-labels": {"team": "x", "own": "kept", "app": "y"},
                    "node-taints": {"a": ["b:NoSchedule"], "karpenter.sh/unregistered": [":NoExecute"]},
                },
                "motd": {"text": "hello"},
            },
            "other": {"a": 1},
        })
    );
    let secret = "[settings\npassword = \"hunter2\"";
    let error = render(&with_custom(AmiFamily::Bottlerocket, secret)).unwrap_err();
    assert!(matches!(error, UserDataError::Toml { line: 1 }), "{error}");
    assert!(!error.to_string().contains("hunter2"));
    let odd = render(&with_custom(AmiFamily::Bottlerocket, "settings = 1")).unwrap_err();
    assert_eq!(odd, UserDataError::NotATable { key: "settings" });
}

// AWS-144, AWS-145
#[test]
fn unknown_bottlerocket_settings_are_reported() {
    let known = "[settings.kubernetes]\nlog-level = 3\nseccomp-default = true\n[settings.kubernetes.static-pods.a]\nenabled = true\n";
    assert_eq!(unknown_kubernetes_settings(known), Vec::<String>::new());
    assert_eq!(
        unknown_kubernetes_settings(&format!("{known}[settings.kubernetes.b]\nx = 1")),
        ["b"]
    );
    assert_eq!(unknown_kubernetes_settings("no toml ["), Vec::<String>::new());
    let kept = toml_of(&with_custom(AmiFamily::Bottlerocket, known));
    assert_eq!(
        kept["settings"]["kubernetes"]["static-pods"],
        json!({"a": {"enabled": true}})
    );
    assert_eq!(kept["settings"]["kubernetes"]["log-level"], 3);
}

// AWS-143
#[test]
fn bottlerocket_takes_kubelet_settings_of_the_class() {
    let custom = "[settings.kubernetes]\nimage-gc-high-threshold-percent = \"90\"\n[settings.kubernetes.kube-reserved]\nmemory = \"2Gi\"\n";
    let kept = toml_of(&with_custom(AmiFamily::Bottlerocket, custom));
    assert_eq!(
        kept["settings"]["kubernetes"]["kube-reserved"],
        json!({"memory": "2Gi"})
    );
    assert_eq!(kept["settings"]["kubernetes"]["image-gc-high-threshold-percent"], "90");
    let mut replaced = with_kubelet(AmiFamily::Bottlerocket, everything());
    replaced.custom = Some(custom.to_owned());
    let settings = toml_of(&replaced)["settings"]["kubernetes"].clone();
    for (key, want) in [
        ("kube-reserved", json!({"cpu": "200m"})),
        ("system-reserved", json!({"cpu": "100m", "memory": "1Gi"})),
        ("eviction-hard", json!({"memory.available": "5%"})),
        ("eviction-soft", json!({"memory.available": "10%"})),
        ("eviction-soft-grace-period", json!({"memory.available": "1m30s"})),
        ("eviction-max-pod-grace-period", json!(60)),
        ("image-gc-high-threshold-percent", json!("80")),
        ("image-gc-low-threshold-percent", json!("60")),
        ("cpu-cfs-quota-enforced", json!(false)),
        ("pods-per-core", Value::Null),
    ] {
        assert_eq!(settings[key], want, "{key}");
    }
}

// AWS-146
#[test]
fn bottlerocket_prepares_local_disks() {
    let custom = "[settings.bootstrap-commands.mine]\ncommands = [[\"apiclient\", \"get\"]]\nmode = \"once\"\nessential = false\n";
    let mut input = with_custom(AmiFamily::Bottlerocket, custom);
    input.instance_store_policy = Some(kerf_api::ec2_node_class::InstanceStorePolicy::Raid0);
    let commands = toml_of(&input)["settings"]["bootstrap-commands"].clone();
    assert_eq!(commands["mine"]["mode"], "once");
    assert_eq!(
        commands["000-mount-instance-storage"],
        json!({
            "commands": [["apiclient", "ephemeral-storage", "init"], ["apiclient", "ephemeral-storage", "bind"]],
            "mode": "always",
            "essential": true,
        })
    );
    input.binds_default_paths = false;
    let commands = toml_of(&input)["settings"]["bootstrap-commands"]["000-mount-instance-storage"]["commands"].clone();
    assert_eq!(
        commands[1],
        json!([
            "apiclient",
            "ephemeral-storage",
            "bind",
            "--dirs",
            "/var/lib/containerd",
            "/var/lib/kubelet",
            "/var/log/pods"
        ])
    );
}

// AWS-147
#[test]
fn the_bottlerocket_version_is_found_in_four_places() {
    let amis = json!([
        {"id": "ami-1", "name": "mine", "requirements": []},
        {"id": "ami-2", "name": "bottlerocket-aws-k8s-1.33-x86_64-v1.46.0-431fe75a", "requirements": []},
        {"id": "ami-3", "name": "bottlerocket-aws-k8s-1.33-x86_64-v1.40.0-431fe75a", "requirements": []},
    ]);
    let version = |terms: Value, amis: &Value| {
        let class = class_with_status(
            json!({"amiFamily": "Bottlerocket", "amiSelectorTerms": terms}),
            json!({ "amis": amis }),
        );
        bottlerocket_version(&class)
    };
    let none = json!([]);
    for (terms, amis, want) in [
        (json!([{"alias": "bottlerocket@v1.20.0"}]), &amis, Some("v1.20.0")),
        (
            json!([{"name": "bottlerocket-aws-k8s-1.33-x86_64-v1.45.0-1"}]),
            &amis,
            Some("v1.45.0"),
        ),
        (json!([{"id": "ami-3"}]), &amis, Some("v1.40.0")),
        (json!([{"tags": {"a": "b"}}]), &amis, Some("v1.46.0")),
        (json!([{"id": "ami-9"}]), &none, None),
    ] {
        assert_eq!(version(terms.clone(), amis).as_deref(), want, "{terms}");
    }
    for (version, binds) in [
        (Some("latest"), true),
        (Some("v1.46.0"), true),
        (Some("1.46.1"), true),
        (Some("2.0.0"), true),
        (Some("1.45.9"), false),
        (Some("1.46"), false),
        (Some("v1.x.0"), false),
        (None, false),
    ] {
        assert_eq!(binds_default_paths(version), binds, "{version:?}");
    }
}

// AWS-148
#[test]
fn windows_runs_powershell() {
    let mut input = with_custom(AmiFamily::Windows2022, "Write-Host 'hello'");
    input.kubelet.cluster_dns = Some(vec!["10.100.0.10".to_owned()]);
    input.instance_store_policy = Some(kerf_api::ec2_node_class::InstanceStorePolicy::Raid0);
    let text = render(&input).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "<powershell>");
    assert_eq!(lines[1], "Write-Host 'hello'");
    assert!(
        lines[2].contains(r"$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"),
        "{}",
        lines[2]
    );
    assert_eq!(
        lines[3],
        "& $EKSBootstrapScriptFile -EKSClusterName 'prod' -APIServerEndpoint 'https://prod' -Base64ClusterCA 'YnVuZGxl' \
         -KubeletExtraArgs '--node-labels=\"app=y,team=x\" --register-with-taints=\"a=b:NoSchedule,karpenter.sh/unregistered:NoExecute\" --max-pods=29' \
         -DNSClusterIP '10.100.0.10'"
    );
    assert_eq!(lines[4..], ["</powershell>"]);
}

// AWS-149
#[test]
fn user_data_of_custom_images_is_passed_on() {
    let text = "anything\r\nat all";
    assert_eq!(render(&with_custom(AmiFamily::Custom, text)).unwrap(), text);
    assert_eq!(render(&input(AmiFamily::Custom)).unwrap(), "");
    assert_eq!(encode("text"), "dGV4dA==");
}

// AWS-151
#[test]
fn user_data_near_the_limit_is_known() {
    assert_eq!((SIZE_MAX, SIZE_WARNING), (16_384, 14_745));
}
