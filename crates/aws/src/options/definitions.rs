//! Every option of the provider once: flag, variable, type, default, help.

use kerf_runtime::options::{OptionDef, OptionKind, option};

/// The options of the provider (section 26 of `docs/behaviour/aws.md`).
pub const DEFINITIONS: [OptionDef; 15] = [
    option(
        "cluster-name",
        "CLUSTER_NAME",
        OptionKind::Text,
        "",
        "name of the EKS cluster; required",
    ),
    option(
        "cluster-endpoint",
        "CLUSTER_ENDPOINT",
        OptionKind::Text,
        "",
        "URL of the API server that nodes join; asked of EKS if empty",
    ),
    option(
        "cluster-ca-bundle",
        "CLUSTER_CA_BUNDLE",
        OptionKind::Text,
        "",
        "CA bundle that nodes trust, as base64 text; that of the controller itself if empty",
    ),
    option(
        "isolated-vpc",
        "ISOLATED_VPC",
        OptionKind::Bool,
        "false",
        "the VPC reaches neither the Price List nor IAM",
    ),
    option(
        "eks-control-plane",
        "EKS_CONTROL_PLANE",
        OptionKind::Bool,
        "false",
        "ask EKS for the version of the cluster",
    ),
    option(
        "vm-memory-overhead-percent",
        "VM_MEMORY_OVERHEAD_PERCENT",
        OptionKind::Decimal,
        "0.075",
        "part of the memory that the hypervisor keeps",
    ),
    option(
        "interruption-queue",
        "INTERRUPTION_QUEUE",
        OptionKind::Text,
        "",
        "name of the SQS queue with interruption messages; none if empty",
    ),
    option(
        "reserved-enis",
        "RESERVED_ENIS",
        OptionKind::Int,
        "0",
        "network interfaces of each instance that carry no pods",
    ),
    option(
        "disable-dry-run",
        "DISABLE_DRY_RUN",
        OptionKind::Bool,
        "false",
        "do not validate node classes by dry runs",
    ),
    option(
        "enable-zonal-shift",
        "ENABLE_ZONAL_SHIFT",
        OptionKind::Bool,
        "false",
        "launch nothing in zones that ARC shifts traffic away from",
    ),
    option(
        "ami-refresh-interval",
        "AMI_REFRESH_INTERVAL",
        OptionKind::Duration,
        "1m",
        "how long found images stay valid; at least 1m",
    ),
    option(
        "subnet-refresh-interval",
        "SUBNET_REFRESH_INTERVAL",
        OptionKind::Duration,
        "1m",
        "how long found subnets stay valid; at least 1m",
    ),
    option(
        "learn-memory",
        "LEARN_MEMORY",
        OptionKind::Bool,
        "true",
        "learn from registered nodes how much memory instance types have, and keep it in an annotation of the EC2NodeClass",
    )
    .of_kerf(),
    option(
        "instance-status-dry-run",
        "INSTANCE_STATUS_DRY_RUN",
        OptionKind::Bool,
        "false",
        "count instances that EC2 reports as unhealthy or to be maintained, but keep them",
    )
    .of_kerf(),
    option(
        "aws-feature-gates",
        "AWS_FEATURE_GATES",
        OptionKind::Text,
        "",
        "features of the AWS provider as Name=true, comma separated: NodeClassCEL, ExtendedKubeletConfiguration",
    ),
];
