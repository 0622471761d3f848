//! The IAM policy of the controller.

use kerf_aws::iam::PolicyScope;
use serde_json::{Value, json};

fn policy(partition: &str, queue: Option<&str>) -> Vec<Value> {
    let scope = PolicyScope {
        partition,
        region: "us-east-1",
        account: "123456789012",
        cluster: "prod",
        node_role_arn: "arn:aws:iam::123456789012:role/nodes",
        queue_arn: queue,
    };
    scope.policy()["Statement"].as_array().unwrap().clone()
}

/// The statements that allow an action.
fn allowing(action: &str) -> Vec<Value> {
    let allows = |statement: &Value| match &statement["Action"] {
        Value::Array(actions) => actions.contains(&json!(action)),
        one => *one == json!(action),
    };
    policy("aws", Some("arn:aws:sqs:us-east-1:123456789012:queue"))
        .into_iter()
        .filter(allows)
        .collect()
}

// AWS-415
#[test]
fn launches_need_the_tags_of_the_cluster() {
    let fleets = allowing("ec2:CreateFleet");
    assert_eq!(fleets.len(), 3);
    assert_eq!(fleets[0]["Condition"], Value::Null);
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
        json!(["RunInstances", "CreateFleet", "CreateLaunchTemplate"])
    );
    assert_eq!(
        tagging[1]["Condition"]["ForAllValues:StringEquals"]["aws:TagKeys"],
        json!(["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"])
    );
    for action in ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"] {
        let owned = &allowing(action)[0]["Condition"]["StringEquals"];
        assert_eq!(owned["aws:ResourceTag/kubernetes.io/cluster/prod"], "owned", "{action}");
    }
}

// AWS-418
#[test]
fn reads_are_limited_to_the_region() {
    for action in [
        "ec2:DescribeInstances",
        "ec2:DescribePlacementGroups",
        "ec2:DescribeSpotPriceHistory",
    ] {
        let region = &allowing(action)[0]["Condition"]["StringEquals"]["aws:RequestedRegion"];
        assert_eq!(*region, "us-east-1", "{action}");
    }
    let parameters = &allowing("ssm:GetParameter")[0]["Resource"];
    assert_eq!(*parameters, "arn:aws:ssm:us-east-1::parameter/aws/service/*");
    assert_eq!(allowing("pricing:GetProducts").len(), 1);
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
    let passed = |partition: &str| {
        let statements = policy(partition, None);
        let pass = statements.iter().find(|one| one["Action"] == "iam:PassRole").unwrap();
        pass["Condition"]["StringEquals"]["iam:PassedToService"].clone()
    };
    assert_eq!(
        (passed("aws"), passed("aws-cn")),
        (json!("ec2.amazonaws.com"), json!("ec2.amazonaws.com.cn"))
    );
}

// AWS-420
#[test]
fn the_queue_is_readable_where_there_is_one() {
    let queue = &allowing("sqs:ReceiveMessage")[0];
    assert_eq!(
        queue["Action"],
        json!(["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"])
    );
    assert_eq!(policy("aws", None).len() + 1, policy("aws", Some("arn")).len());
    assert_eq!(allowing("eks:DescribeCluster").len(), 1);
}
