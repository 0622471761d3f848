//! The IAM policy of the controller, the list of calls it is made from, and the templates for an account.

use crate::policy::{Keys, allows, tag_keys};
use kerf_aws::iam::{CALLS, CONTROLLER_POLICY_MAX, Identity, PolicyPart, PolicyScope, Setup, Statement};
use kerf_aws::interruption::{EVENT_TYPES, parse};
use kerf_aws::partition::{PARTITIONS, Partition};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const SCOPE: PolicyScope<'static> = PolicyScope {
    partition: "aws",
    region: "us-east-1",
    account: "123456789012",
    cluster: "prod",
    node_role: "nodes",
    queue: Some("queue"),
};

/// The statements that allow an action.
fn allowing(action: &str) -> Vec<Value> {
    let policy = SCOPE.policy();
    let all = policy["Statement"].as_array().unwrap().clone();
    all.into_iter()
        .filter(|statement| statement["Action"].as_array().unwrap().contains(&json!(action)))
        .collect()
}

/// Traits and methods as the source of the services names them.
fn methods_of_the_services() -> BTreeSet<(String, String)> {
    let sources = [
        include_str!("../../src/services/ec2.rs"),
        include_str!("../../src/services/others.rs"),
    ];
    let mut service = String::new();
    let mut found = BTreeSet::new();
    for line in sources.iter().flat_map(|source| source.lines()) {
        if let Some(name) = line.strip_prefix("pub trait ") {
            service = name.split(':').next().unwrap().to_owned();
        }
        if let Some(name) = line.trim().strip_prefix("async fn ") {
            found.insert((service.clone(), name.split('(').next().unwrap().to_owned()));
        }
    }
    found
}

// AWS-415, AWS-416, AWS-418, AWS-419, AWS-420
#[test]
fn every_call_of_the_services_has_its_permissions() {
    let listed: BTreeSet<(String, String)> = CALLS
        .iter()
        .map(|call| (call.service.to_owned(), call.method.to_owned()))
        .collect();
    assert_eq!(listed.len(), CALLS.len(), "a call is listed twice");
    assert_eq!(listed, methods_of_the_services());
    let policy = SCOPE.policy();
    let statements = policy["Statement"].as_array().unwrap();
    let mut granted = BTreeSet::new();
    for statement in statements {
        let actions = statement["Action"].as_array().unwrap();
        assert!(!actions.is_empty(), "{statement} allows nothing");
        granted.extend(actions.iter().map(|action| action.as_str().unwrap()));
    }
    let needed: BTreeSet<&str> = CALLS
        .iter()
        .flat_map(|call| call.needs)
        .map(|need| need.action)
        .collect();
    assert_eq!(granted, needed);
    for call in &CALLS {
        let own = format!(":{}", call.operation);
        assert!(call.needs.iter().any(|need| need.action.ends_with(&own)), "{own}");
    }
}

// AWS-415
#[test]
fn launches_need_the_tags_of_the_cluster() {
    let fleets = allowing("ec2:CreateFleet");
    assert_eq!(fleets.len(), 3);
    assert_eq!(fleets[0]["Condition"], Value::Null);
    let from = fleets[0]["Resource"].as_array().unwrap();
    assert!(from.contains(&json!("arn:aws:ec2:us-east-1::image/*")), "{from:?}");
    assert!(from.contains(&json!("arn:aws:ec2:us-east-1:*:subnet/*")), "{from:?}");
    assert_eq!(
        fleets[1]["Condition"]["StringEquals"],
        json!({"aws:ResourceTag/kubernetes.io/cluster/prod": "owned"})
    );
    assert_eq!(
        fleets[2]["Condition"],
        json!({
            "StringEquals": {"aws:RequestTag/kubernetes.io/cluster/prod": "owned", "aws:RequestTag/eks:eks-cluster-name": "prod"},
            "StringLike": {"aws:RequestTag/karpenter.sh/nodepool": "*"},
        })
    );
    assert_eq!(allowing("ec2:CreateLaunchTemplate").len(), 1);
}

// AWS-416, AWS-417
#[test]
fn later_tags_are_limited_to_names() {
    let tagging = allowing("ec2:CreateTags");
    assert_eq!(tagging.len(), 2);
    assert_eq!(
        tagging[0]["Condition"]["StringEquals"]["ec2:CreateAction"],
        json!(["CreateFleet", "CreateLaunchTemplate", "RunInstances"])
    );
    assert_eq!(
        tagging[1]["Condition"]["ForAllValues:StringEquals"]["aws:TagKeys"],
        json!(["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"])
    );
    let instance = "arn:aws:ec2:us-east-1:123456789012:instance/i-1";
    let text = |entries: &[(&str, &str)]| -> BTreeMap<String, String> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        entries.iter().map(owned).collect()
    };
    let own = text(&[
        ("kubernetes.io/cluster/prod", "owned"),
        ("karpenter.sh/nodepool", "default"),
    ]);
    let tries = [
        (&own, text(&[("Name", "node-1")]), true),
        (
            &own,
            text(&[("Name", "node-1"), ("eks:eks-cluster-name", "prod")]),
            true,
        ),
        (&own, text(&[("eks:eks-cluster-name", "other")]), false),
        (&own, text(&[("team", "a")]), false),
        (
            &text(&[("karpenter.sh/nodepool", "default")]),
            text(&[("Name", "node-1")]),
            false,
        ),
    ];
    for (present, new, allowed) in tries {
        let mut keys = tag_keys("Resource", present);
        keys.extend(tag_keys("Request", &new));
        assert_eq!(
            allows(&SCOPE.policy(), "ec2:CreateTags", instance, &keys),
            allowed,
            "{new:?}"
        );
    }
    for action in ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"] {
        let owned = &allowing(action)[0]["Condition"]["StringEquals"];
        assert_eq!(owned["aws:ResourceTag/kubernetes.io/cluster/prod"], "owned", "{action}");
    }
    assert!(!allows(
        &SCOPE.policy(),
        "ec2:TerminateInstances",
        instance,
        &Keys::new()
    ));
}

// AWS-418
#[test]
fn reads_are_limited_to_the_region() {
    for action in Statement::RegionalReads.actions() {
        assert!(action.starts_with("ec2:Describe"), "{action}");
        let region = &allowing(action)[0]["Condition"]["StringEquals"]["aws:RequestedRegion"];
        assert_eq!(*region, "us-east-1", "{action}");
    }
    assert_eq!(Statement::RegionalReads.actions().len(), 11);
    let parameters = &allowing("ssm:GetParameter")[0]["Resource"];
    assert_eq!(*parameters, "arn:aws:ssm:us-east-1::parameter/aws/service/*");
    assert_eq!(allowing("pricing:GetProducts")[0]["Resource"], "*");
    assert_eq!(allowing("iam:ListInstanceProfiles")[0]["Resource"], "*");
    assert_eq!(
        allowing("iam:GetInstanceProfile")[0]["Resource"],
        "arn:aws:iam::123456789012:instance-profile/*"
    );
}

// AWS-419
#[test]
fn profiles_are_scoped_by_cluster_and_region() {
    let created = &allowing("iam:CreateInstanceProfile")[0]["Condition"];
    assert_eq!(
        created["StringEquals"]["aws:RequestTag/topology.kubernetes.io/region"],
        "us-east-1"
    );
    assert_eq!(
        created["StringLike"],
        json!({"aws:RequestTag/karpenter.k8s.aws/ec2nodeclass": "*"})
    );
    let passed = |partition: &str, node_role: &str| {
        let scope = PolicyScope {
            partition,
            node_role,
            ..SCOPE
        };
        let policy = scope.policy();
        let statements = policy["Statement"].as_array().unwrap();
        let pass = statements.iter().find(|one| one["Action"] == json!(["iam:PassRole"]));
        let pass = pass.unwrap().clone();
        (
            pass["Resource"].clone(),
            pass["Condition"]["StringEquals"]["iam:PassedToService"].clone(),
        )
    };
    let with = |suffix: &str| json!(["ec2.amazonaws.com", format!("ec2.{suffix}")]);
    let cases = [
        ("us-east-1", "aws", json!("ec2.amazonaws.com")),
        ("ap-southeast-7", "aws", json!("ec2.amazonaws.com")),
        ("eu-south-2", "aws", json!("ec2.amazonaws.com")),
        ("us-gov-west-1", "aws-us-gov", json!("ec2.amazonaws.com")),
        ("cn-north-1", "aws-cn", with("amazonaws.com.cn")),
        ("eusc-de-east-1", "aws-eusc", with("amazonaws.eu")),
        ("us-iso-east-1", "aws-iso", with("c2s.ic.gov")),
        ("us-isob-east-1", "aws-iso-b", with("sc2s.sgov.gov")),
        ("eu-isoe-west-1", "aws-iso-e", with("cloud.adc-e.uk")),
        ("us-isof-south-1", "aws-iso-f", with("csp.hci.ic.gov")),
    ];
    for (region, partition, services) in cases {
        assert_eq!(Partition::of_region(region).name, partition, "{region}");
        let role = format!("arn:{partition}:iam::123456789012:role/eks/nodes");
        assert_eq!(passed(partition, "/eks/nodes"), (json!(role), services), "{region}");
    }
}

// AWS-415 to AWS-420
#[test]
fn every_arn_and_principal_is_of_the_partition() {
    for partition in PARTITIONS {
        let setup = Setup {
            scope: PolicyScope {
                partition: partition.name,
                ..SCOPE
            },
            ..setup(ISSUER)
        };
        assert_eq!(setup.check(), Vec::new(), "{partition:?}");
        for text in [setup.cloudformation().to_string(), setup.terraform()] {
            let arns: Vec<&str> = text.split("arn:").skip(1).collect();
            assert!(arns.len() > 20, "{partition:?}");
            let own = format!("{}:", partition.name);
            let others: Vec<&&str> = arns.iter().filter(|arn| !arn.starts_with(&own)).collect();
            assert!(others.is_empty(), "{partition:?}: {others:?}");
            assert!(
                text.contains(&format!("\"ec2.{}\"", partition.dns_suffix)),
                "{partition:?}"
            );
        }
    }
}

// AWS-420
#[test]
fn the_queue_is_readable_where_there_is_one() {
    let queue = &allowing("sqs:ReceiveMessage")[0];
    assert_eq!(
        queue["Action"],
        json!(["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"])
    );
    assert_eq!(queue["Resource"], "arn:aws:sqs:us-east-1:123456789012:queue");
    let without = PolicyScope { queue: None, ..SCOPE };
    let count = |scope: &PolicyScope<'_>| scope.policy()["Statement"].as_array().unwrap().len();
    assert_eq!(count(&without) + 1, count(&SCOPE));
    let cluster = "arn:aws:eks:us-east-1:123456789012:cluster/prod";
    assert_eq!(allowing("eks:DescribeCluster")[0]["Resource"], cluster);
    assert_eq!(
        allowing("arc-zonal-shift:GetManagedResource")[0]["Condition"],
        json!({"StringEquals": {"arc-zonal-shift:ResourceIdentifier": cluster}})
    );
}

/// Characters that count for IAM's limits: all but white space.
fn counted(document: &Value) -> usize {
    document.to_string().chars().filter(|one| !one.is_whitespace()).count()
}

#[test]
fn the_policies_keep_the_limits_of_iam_with_the_longest_names() {
    let (cluster, role, queue) = ("c".repeat(100), "r".repeat(64), "q".repeat(80));
    for partition in PARTITIONS {
        let scope = PolicyScope {
            partition: partition.name,
            region: "ap-southeast-1",
            cluster: &cluster,
            node_role: &role,
            queue: Some(&queue),
            ..SCOPE
        };
        assert_eq!(scope.check(), Vec::new());
        for part in PolicyPart::ALL {
            let size = counted(&scope.part(part));
            assert!(size <= 6144, "{part:?} has {size} characters in {partition:?}");
        }
        let size = counted(&scope.policy());
        assert!(
            size <= CONTROLLER_POLICY_MAX,
            "the policy has {size} characters in {partition:?}"
        );
    }
}

#[test]
fn the_documentation_lists_every_statement_with_its_actions() {
    let page = include_str!("../../../../docs/iam.md");
    for statement in Statement::ALL {
        let actions: Vec<String> = statement
            .actions()
            .into_iter()
            .map(|action| format!("`{action}`"))
            .collect();
        let row = format!("| `{}` | {} |", statement.sid(), actions.join(", "));
        assert!(page.contains(&row), "docs/iam.md lacks\n{row}");
    }
}

#[test]
fn the_parts_are_the_whole() {
    let statements = |document: Value| document["Statement"].as_array().unwrap().clone();
    let parts = PolicyPart::ALL
        .into_iter()
        .flat_map(|part| statements(SCOPE.part(part)));
    assert_eq!(parts.collect::<Vec<_>>(), statements(SCOPE.policy()));
}

#[test]
fn names_that_would_change_the_policy_are_refused() {
    let wrong =
        |scope: PolicyScope<'_>| -> Vec<&'static str> { scope.check().into_iter().map(|one| one.what).collect() };
    assert_eq!(wrong(SCOPE), Vec::<&str>::new());
    assert_eq!(wrong(PolicyScope { account: "*", ..SCOPE }), ["account"]);
    assert_eq!(
        wrong(PolicyScope {
            cluster: "prod*",
            ..SCOPE
        }),
        ["cluster name"]
    );
    assert_eq!(wrong(PolicyScope { cluster: "", ..SCOPE }), ["cluster name"]);
    assert_eq!(
        wrong(PolicyScope {
            region: "${AWS::Region}",
            ..SCOPE
        }),
        ["region"]
    );
    assert_eq!(
        wrong(PolicyScope {
            partition: "gov",
            ..SCOPE
        }),
        ["partition"]
    );
    assert_eq!(
        wrong(PolicyScope {
            queue: Some("a.fifo"),
            ..SCOPE
        }),
        ["queue"]
    );
    assert_eq!(
        wrong(PolicyScope {
            node_role: "no des/",
            ..SCOPE
        }),
        ["node role"]
    );
}

fn setup(identity: Identity<'static>) -> Setup<'static> {
    Setup {
        scope: SCOPE,
        identity,
        namespace: "kube-system",
        service_account: "karpenter",
        creates_node_role: true,
    }
}

const ISSUER: Identity<'_> = Identity::ServiceAccountRole {
    issuer: "https://oidc.eks.us-east-1.amazonaws.com/id/ABC",
};

#[test]
fn only_the_service_account_takes_the_role() {
    let pods = setup(Identity::PodIdentity).trust();
    let pods = &pods["Statement"][0];
    assert_eq!(pods["Principal"]["Service"], "pods.eks.amazonaws.com");
    assert_eq!(pods["Action"], json!(["sts:AssumeRole", "sts:TagSession"]));
    assert_eq!(
        pods["Condition"]["StringEquals"]["aws:RequestTag/kubernetes-service-account"],
        "karpenter"
    );
    let web = setup(ISSUER).trust();
    let web = &web["Statement"][0];
    let provider = "oidc.eks.us-east-1.amazonaws.com/id/ABC";
    assert_eq!(
        web["Principal"]["Federated"],
        format!("arn:aws:iam::123456789012:oidc-provider/{provider}")
    );
    let equal = &web["Condition"]["StringEquals"];
    assert_eq!(
        equal[format!("{provider}:sub")],
        "system:serviceaccount:kube-system:karpenter"
    );
    assert_eq!(equal[format!("{provider}:aud")], "sts.amazonaws.com");
    let wrong = setup(Identity::ServiceAccountRole { issuer: "oidc.eks" }).check();
    assert_eq!(wrong[0].what, "OIDC issuer");
}

// AWS-420
#[test]
fn the_template_has_role_policies_queue_and_rules() {
    let template = setup(Identity::PodIdentity).cloudformation();
    let resources = template["Resources"].as_object().unwrap();
    let of_kind = |kind: &str| resources.values().filter(|one| one["Type"] == kind).count();
    assert_eq!(of_kind("AWS::IAM::ManagedPolicy"), PolicyPart::ALL.len());
    assert_eq!(of_kind("AWS::IAM::Role"), 2);
    assert_eq!(of_kind("AWS::EKS::PodIdentityAssociation"), 1);
    assert_eq!(
        resources["InterruptionQueue"]["Properties"]["MessageRetentionPeriod"],
        300
    );
    // Whatever a template refers to is in it.
    let mut referred = Vec::new();
    references(&template, &mut referred);
    assert!(!referred.is_empty());
    for name in referred {
        assert!(resources.contains_key(&name), "{name} is not in the template");
    }
    let rules = resources.values().filter(|one| one["Type"] == "AWS::Events::Rule");
    let patterns: Vec<&Value> = rules.map(|rule| &rule["Properties"]["EventPattern"]).collect();
    assert_eq!(patterns.len(), EVENT_TYPES.len());
    // The rules send what the controller understands.
    for pattern in patterns {
        let detail = json!({"instance-id": "i-1", "state": "stopping", "service": "EC2", "eventTypeCategory": "scheduledChange"});
        let body = json!({"version": "0", "source": pattern["source"][0], "detail-type": pattern["detail-type"][0], "detail": detail});
        assert!(parse(&body.to_string()).unwrap().kind.is_some(), "{pattern}");
    }
    let small = Setup {
        scope: PolicyScope { queue: None, ..SCOPE },
        creates_node_role: false,
        ..setup(ISSUER)
    };
    let kinds: BTreeSet<String> = small.cloudformation()["Resources"]
        .as_object()
        .unwrap()
        .values()
        .map(|one| one["Type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        kinds,
        BTreeSet::from(["AWS::IAM::ManagedPolicy".to_owned(), "AWS::IAM::Role".to_owned()])
    );
}

/// The names that `Ref` and `Fn::GetAtt` refer to.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let name = fields.get("Ref").or_else(|| fields.get("Fn::GetAtt")?.get(0));
            found.extend(name.and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|one| references(one, found));
        }
        Value::Array(items) => items.iter().for_each(|one| references(one, found)),
        _ => {}
    }
}

// AWS-420
#[test]
fn the_terraform_configuration_has_the_same() {
    let setup = setup(Identity::PodIdentity);
    let text = setup.terraform();
    // Documents are those of the template.
    let documents: Vec<Value> = text
        .split("<<-JSON\n")
        .skip(1)
        .map(|rest| serde_json::from_str(rest.split("\n  JSON\n").next().unwrap()).unwrap())
        .collect();
    for part in PolicyPart::ALL {
        assert!(documents.contains(&SCOPE.part(part)), "{part:?}");
    }
    assert!(documents.contains(&setup.trust()));
    assert!(documents.contains(&setup.queue_policy("queue")));
    for event in &EVENT_TYPES {
        let pattern = json!({"source": [event.source], "detail-type": [event.detail_type]});
        assert!(documents.contains(&pattern), "{}", event.name);
    }
    assert!(
        !text.contains("${") && !text.contains("%{"),
        "Terraform would read it as a template"
    );
    // Whatever a resource refers to is declared.
    let declared: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("resource \"")?.strip_suffix("\" {"))
        .map(|line| line.replace("\" \"", "."))
        .collect();
    let referred = text.lines().filter_map(|line| line.split(" = aws_").nth(1));
    for name in referred {
        let parts: Vec<&str> = name.split('.').collect();
        assert!(declared.contains(&format!("aws_{}.{}", parts[0], parts[1])), "{name}");
    }
    assert_eq!(text.matches('{').count(), text.matches('}').count());
}
