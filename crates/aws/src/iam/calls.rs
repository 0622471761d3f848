//! Every call the provider makes, and the permissions it needs.

use super::statements::Statement::{
    self, ClusterReads, CreationWithTags, Deletion, ImageParameters, LaunchFrom, LaunchWithOwnTemplates, NameTags,
    NodeRole, Prices, ProfileChanges, ProfileCreation, ProfileList, ProfileReads, ProfileTags, Queue, RegionalReads,
    TagsAtCreation, ZonalShifts,
};

/// A permission: an action, and the statement of the policy that says on which resources and conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Action, such as `ec2:RunInstances`.
    pub action: &'static str,
    /// Statement that allows it.
    pub statement: Statement,
}

/// A call of one of the traits in [`crate::services`].
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Trait.
    pub service: &'static str,
    /// Method of the trait.
    pub method: &'static str,
    /// Operation of the AWS API.
    pub operation: &'static str,
    /// The permissions. A call that creates or launches needs several.
    pub needs: &'static [Need],
}

const fn need(action: &'static str, statement: Statement) -> Need {
    Need { action, statement }
}

const fn call(service: &'static str, method: &'static str, operation: &'static str, needs: &'static [Need]) -> Call {
    Call {
        service,
        method,
        operation,
        needs,
    }
}

/// RunInstances names the template, what it launches from and what it launches, and passes the role of the instance profile.
const RUN: [Need; 5] = [
    need("ec2:RunInstances", LaunchFrom),
    need("ec2:RunInstances", LaunchWithOwnTemplates),
    need("ec2:RunInstances", CreationWithTags),
    need("ec2:CreateTags", TagsAtCreation),
    need("iam:PassRole", NodeRole),
];

/// CreateFleet checks what RunInstances checks, with its own action and with that of RunInstances.
const FLEET: [Need; 8] = [
    need("ec2:CreateFleet", LaunchFrom),
    need("ec2:CreateFleet", LaunchWithOwnTemplates),
    need("ec2:CreateFleet", CreationWithTags),
    RUN[0],
    RUN[1],
    RUN[2],
    RUN[3],
    RUN[4],
];

/// All calls, in the order of the traits.
pub const CALLS: [Call; 31] = [
    call(
        "Ec2",
        "subnets",
        "DescribeSubnets",
        &[need("ec2:DescribeSubnets", RegionalReads)],
    ),
    call(
        "Ec2",
        "security_groups",
        "DescribeSecurityGroups",
        &[need("ec2:DescribeSecurityGroups", RegionalReads)],
    ),
    call(
        "Ec2",
        "images",
        "DescribeImages",
        &[need("ec2:DescribeImages", RegionalReads)],
    ),
    call(
        "Ec2",
        "capacity_reservations",
        "DescribeCapacityReservations",
        &[need("ec2:DescribeCapacityReservations", RegionalReads)],
    ),
    call(
        "Ec2",
        "placement_groups",
        "DescribePlacementGroups",
        &[need("ec2:DescribePlacementGroups", RegionalReads)],
    ),
    call(
        "Ec2",
        "instance_types",
        "DescribeInstanceTypes",
        &[need("ec2:DescribeInstanceTypes", RegionalReads)],
    ),
    call(
        "Ec2",
        "instance_type_zones",
        "DescribeInstanceTypeOfferings",
        &[need("ec2:DescribeInstanceTypeOfferings", RegionalReads)],
    ),
    call(
        "Ec2",
        "spot_price_history",
        "DescribeSpotPriceHistory",
        &[need("ec2:DescribeSpotPriceHistory", RegionalReads)],
    ),
    call(
        "Ec2",
        "instances",
        "DescribeInstances",
        &[need("ec2:DescribeInstances", RegionalReads)],
    ),
    call(
        "Ec2",
        "instance_status",
        "DescribeInstanceStatus",
        &[need("ec2:DescribeInstanceStatus", RegionalReads)],
    ),
    call(
        "Ec2",
        "launch_templates",
        "DescribeLaunchTemplates",
        &[need("ec2:DescribeLaunchTemplates", RegionalReads)],
    ),
    call(
        "Ec2",
        "create_launch_template",
        "CreateLaunchTemplate",
        &[
            need("ec2:CreateLaunchTemplate", CreationWithTags),
            need("ec2:CreateTags", TagsAtCreation),
        ],
    ),
    call(
        "Ec2",
        "delete_launch_template",
        "DeleteLaunchTemplate",
        &[need("ec2:DeleteLaunchTemplate", Deletion)],
    ),
    call("Ec2", "create_fleet", "CreateFleet", &FLEET),
    call("Ec2", "dry_run_fleet", "CreateFleet", &FLEET),
    call("Ec2", "dry_run_instances", "RunInstances", &RUN),
    call(
        "Ec2",
        "terminate_instances",
        "TerminateInstances",
        &[need("ec2:TerminateInstances", Deletion)],
    ),
    call("Ec2", "create_tags", "CreateTags", &[need("ec2:CreateTags", NameTags)]),
    call(
        "Ssm",
        "parameter",
        "GetParameter",
        &[need("ssm:GetParameter", ImageParameters)],
    ),
    call(
        "Iam",
        "instance_profile",
        "GetInstanceProfile",
        &[need("iam:GetInstanceProfile", ProfileReads)],
    ),
    call(
        "Iam",
        "create_instance_profile",
        "CreateInstanceProfile",
        &[
            need("iam:CreateInstanceProfile", ProfileCreation),
            need("iam:TagInstanceProfile", ProfileTags),
        ],
    ),
    call(
        "Iam",
        "add_role",
        "AddRoleToInstanceProfile",
        &[
            need("iam:AddRoleToInstanceProfile", ProfileChanges),
            need("iam:PassRole", NodeRole),
        ],
    ),
    call(
        "Iam",
        "remove_role",
        "RemoveRoleFromInstanceProfile",
        &[need("iam:RemoveRoleFromInstanceProfile", ProfileChanges)],
    ),
    call(
        "Iam",
        "delete_instance_profile",
        "DeleteInstanceProfile",
        &[need("iam:DeleteInstanceProfile", ProfileChanges)],
    ),
    call(
        "Iam",
        "instance_profiles",
        "ListInstanceProfiles",
        &[need("iam:ListInstanceProfiles", ProfileList)],
    ),
    call("Sqs", "queue_url", "GetQueueUrl", &[need("sqs:GetQueueUrl", Queue)]),
    call("Sqs", "receive", "ReceiveMessage", &[need("sqs:ReceiveMessage", Queue)]),
    call("Sqs", "delete", "DeleteMessage", &[need("sqs:DeleteMessage", Queue)]),
    call(
        "Eks",
        "cluster",
        "DescribeCluster",
        &[need("eks:DescribeCluster", ClusterReads)],
    ),
    call(
        "PriceList",
        "products",
        "GetProducts",
        &[need("pricing:GetProducts", Prices)],
    ),
    call(
        "ZonalShiftService",
        "shifts",
        "GetManagedResource",
        &[need("arc-zonal-shift:GetManagedResource", ZonalShifts)],
    ),
];
