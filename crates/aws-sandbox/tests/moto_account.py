#!/usr/bin/env python3
"""Runs moto, an AWS server, with an account for the provider: moto_account.py [PORT]

Needs `pip install 'moto[server]' boto3`. The account is in us-east-1 and looks as after Karpenter's getting-started guide for a cluster
called `kerf`: tagged subnets and security group, node role, interruption queue and EKS cluster. What moto has no answer for is filled in:
the images of EKS in SSM, and the security groups of instances that CreateFleet launches.
"""

import json
import sys
import time

import boto3
from moto.core.utils import utcnow
from moto.ec2.models import ec2_backends
from moto.server import ThreadedMotoServer
from moto.ssm.models import Parameter, ssm_backends

ACCOUNT, REGION, CLUSTER = "123456789012", "us-east-1", "kerf"
VERSIONS = [f"1.{minor}" for minor in range(29, 37)]
RELEASES = ("v20260101", "v20260115")
ARCHITECTURES = {"x86_64": "x86_64", "arm64": "arm64"}


def put_image_parameters(image_ids):
    """PutParameter refuses names under /aws/, so the parameters go into the store itself."""
    ssm = ssm_backends[ACCOUNT][REGION]
    for version in VERSIONS:
        for architecture, image_id in image_ids.items():
            name = (
                f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/standard/recommended/image_id"
            )
            parameter = Parameter(
                account_id=ACCOUNT, name=name, value=image_id, parameter_type="String", description="",
                allowed_pattern=None, keyid=None, last_modified_date=time.time(), version=1, data_type="text",
            )
            ssm._parameters[name].append(parameter)


def register_images(ec2, release):
    """RegisterImage forgets the architecture."""
    images = {}
    for architecture in ARCHITECTURES:
        image_id = ec2.register_image(
            Name=f"amazon-eks-node-al2023-{architecture}-standard-{release}", Architecture=architecture,
            RootDeviceName="/dev/xvda",
        )["ImageId"]
        ec2_backends[ACCOUNT][REGION].amis[image_id].architecture = architecture
        images[architecture] = image_id
    return images


def complete_instances_of_fleets():
    """CreateFleet reads only part of a launch template.

    Without security groups an instance has drifted. Without instance profile it has no role, so that its node may not join. Without spot
    request in its description it counts as bought on demand.
    """
    backend = ec2_backends[ACCOUNT][REGION]
    create = type(backend).create_fleet

    def complete(self, *args, **kwargs):
        fleet = create(self, *args, **kwargs)
        groups = [group for group in self.describe_security_groups() if group.name == "default"]
        launched = [(one["instance"], one["launch_spec"]) for one in fleet.on_demand_instances]
        for request in fleet.spot_requests:
            request.instance.spot_instance_request_id = request.id
            launched.append((request.instance, request.launch_spec))
        for instance, launch in launched:
            if not instance.security_groups:
                instance.security_groups = groups
            # The name is where moto keeps the ARN of a profile.
            if launch.iam_instance_profile:
                name = launch.iam_instance_profile["Arn"]["Name"]
                self.associate_iam_instance_profile(instance.id, iam_instance_profile_name=name)
        return fleet

    type(backend).create_fleet = complete


def main():
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 5555
    server = ThreadedMotoServer(port=port)
    server.start()
    connection = {
        "endpoint_url": f"http://127.0.0.1:{port}", "region_name": REGION,
        "aws_access_key_id": "test", "aws_secret_access_key": "test",
    }
    ec2, iam, sqs, eks = (boto3.client(name, **connection) for name in ("ec2", "iam", "sqs", "eks"))
    subnets = [subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"]]
    groups = [group["GroupId"] for group in ec2.describe_security_groups()["SecurityGroups"]]
    ec2.create_tags(Resources=subnets + groups, Tags=[{"Key": "karpenter.sh/discovery", "Value": CLUSTER}])
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    for role in (f"KarpenterNodeRole-{CLUSTER}", "eks"):
        iam.create_role(RoleName=role, AssumeRolePolicyDocument=trust)
    sqs.create_queue(QueueName=CLUSTER)
    eks.create_cluster(
        name=CLUSTER, version="1.33", roleArn=f"arn:aws:iam::{ACCOUNT}:role/eks", resourcesVpcConfig={"subnetIds": subnets}
    )
    put_image_parameters(register_images(ec2, RELEASES[0]))
    register_images(ec2, RELEASES[1])
    complete_instances_of_fleets()
    print(f"ready: KERF_MOTO=http://127.0.0.1:{port}", flush=True)
    while True:
        time.sleep(60)


main()
