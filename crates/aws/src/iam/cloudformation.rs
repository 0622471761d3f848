//! The setup as a CloudFormation template, in JSON.

use super::setup::{RETENTION_SECONDS, Setup, event_pattern, role_name};
use super::{Identity, PolicyPart};
use crate::interruption::EVENT_TYPES;
use serde_json::{Map, Value, json};

fn reference(name: &str) -> Value {
    json!({ "Ref": name })
}

fn attribute(name: &str, attribute: &str) -> Value {
    json!({"Fn::GetAtt": [name, attribute]})
}

impl Setup<'_> {
    /// The template. It creates named roles: the stack needs the capability `CAPABILITY_NAMED_IAM`.
    pub fn cloudformation(&self) -> Value {
        let mut resources = Map::new();
        let mut add = |name: &str, kind: &str, properties: Value| {
            let resource = json!({"Type": kind, "Properties": properties});
            resources.insert(name.to_owned(), resource);
        };
        let mut attached = Vec::new();
        for part in PolicyPart::ALL {
            let name = format!("{}Policy", part.name());
            attached.push(reference(&name));
            let properties =
                json!({"ManagedPolicyName": self.policy_name(part), "PolicyDocument": self.scope.part(part)});
            add(&name, "AWS::IAM::ManagedPolicy", properties);
        }
        let role = json!({
            "RoleName": self.role_name(),
            "AssumeRolePolicyDocument": self.trust(),
            "ManagedPolicyArns": attached,
        });
        add("ControllerRole", "AWS::IAM::Role", role);
        if self.identity == Identity::PodIdentity {
            let association = json!({
                "ClusterName": self.scope.cluster,
                "Namespace": self.namespace,
                "ServiceAccount": self.service_account,
                "RoleArn": attribute("ControllerRole", "Arn"),
            });
            add("PodIdentity", "AWS::EKS::PodIdentityAssociation", association);
        }
        if self.creates_node_role {
            let role = json!({
                "RoleName": role_name(self.scope.node_role),
                "AssumeRolePolicyDocument": self.node_trust(),
                "ManagedPolicyArns": self.node_policies(),
            });
            add("NodeRole", "AWS::IAM::Role", role);
        }
        if let Some(queue) = self.scope.queue {
            let properties = json!({
                "QueueName": queue,
                "MessageRetentionPeriod": RETENTION_SECONDS,
                "SqsManagedSseEnabled": true,
            });
            add("InterruptionQueue", "AWS::SQS::Queue", properties);
            let policy =
                json!({"Queues": [reference("InterruptionQueue")], "PolicyDocument": self.queue_policy(queue)});
            add("InterruptionQueuePolicy", "AWS::SQS::QueuePolicy", policy);
            for event in &EVENT_TYPES {
                let target = json!({"Id": "InterruptionQueue", "Arn": attribute("InterruptionQueue", "Arn")});
                let rule = json!({"EventPattern": event_pattern(event), "Targets": [target]});
                add(&format!("{}Rule", event.name), "AWS::Events::Rule", rule);
            }
        }
        json!({
            "AWSTemplateFormatVersion": "2010-09-09",
            "Description": format!("Role, interruption queue and rules of Kerf for the cluster {}", self.scope.cluster),
            "Resources": resources,
            "Outputs": {"ControllerRoleArn": {"Value": attribute("ControllerRole", "Arn")}},
        })
    }
}
