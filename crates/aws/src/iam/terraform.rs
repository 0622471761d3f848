//! The setup as a Terraform configuration, for the AWS provider of HashiCorp from version 5.31 on.

use super::setup::{RETENTION_SECONDS, Setup, event_pattern, role_name};
use super::{Identity, PolicyPart};
use crate::interruption::EVENT_TYPES;
use serde_json::Value;
use std::fmt::Write as _;

/// Words in lower case, joined by `_`: `NodeLifecycle` becomes `node_lifecycle`.
fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// A resource with its arguments.
struct Block(String);

impl Block {
    fn new(kind: &str, name: &str) -> Self {
        Self(format!("resource \"{kind}\" \"{name}\" {{\n"))
    }

    /// An argument that is an expression.
    fn expression(mut self, name: &str, expression: &str) -> Self {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "  {name} = {expression}");
        self
    }

    fn text(self, name: &str, text: &str) -> Self {
        self.expression(name, &format!("{text:?}"))
    }

    /// A JSON document as a here-document: its values hold no `${` and no `%{`, which [`super::PolicyScope::check`] makes sure of.
    fn document(self, name: &str, document: &Value) -> Self {
        self.expression(name, &format!("<<-JSON\n{document:#}\n  JSON"))
    }

    fn end(mut self) -> String {
        self.0.push_str("}\n");
        self.0
    }
}

impl Setup<'_> {
    /// The configuration.
    pub fn terraform(&self) -> String {
        let mut blocks = Vec::new();
        let role = Block::new("aws_iam_role", "controller").text("name", &self.role_name());
        blocks.push(role.document("assume_role_policy", &self.trust()).end());
        for part in PolicyPart::ALL {
            let name = snake_case(part.name());
            let policy = Block::new("aws_iam_policy", &name).text("name", &self.policy_name(part));
            blocks.push(policy.document("policy", &self.scope.part(part)).end());
            let attachment = Block::new("aws_iam_role_policy_attachment", &name)
                .expression("role", "aws_iam_role.controller.name")
                .expression("policy_arn", &format!("aws_iam_policy.{name}.arn"));
            blocks.push(attachment.end());
        }
        if self.identity == Identity::PodIdentity {
            let association = Block::new("aws_eks_pod_identity_association", "controller")
                .text("cluster_name", self.scope.cluster)
                .text("namespace", self.namespace)
                .text("service_account", self.service_account)
                .expression("role_arn", "aws_iam_role.controller.arn");
            blocks.push(association.end());
        }
        if self.creates_node_role {
            let role = Block::new("aws_iam_role", "node").text("name", role_name(self.scope.node_role));
            blocks.push(role.document("assume_role_policy", &self.node_trust()).end());
            let list: Vec<String> = self.node_policies().iter().map(|arn| format!("{arn:?}")).collect();
            let attachment = Block::new("aws_iam_role_policy_attachment", "node")
                .expression("for_each", &format!("toset([{}])", list.join(", ")))
                .expression("role", "aws_iam_role.node.name")
                .expression("policy_arn", "each.value");
            blocks.push(attachment.end());
        }
        if let Some(queue) = self.scope.queue {
            blocks.extend(self.terraform_queue(queue));
        }
        let output = "output \"controller_role_arn\" {\n  value = aws_iam_role.controller.arn\n}\n";
        blocks.push(output.to_owned());
        blocks.join("\n")
    }

    fn terraform_queue(&self, queue: &str) -> Vec<String> {
        let resource = Block::new("aws_sqs_queue", "interruption")
            .text("name", queue)
            .expression("message_retention_seconds", &RETENTION_SECONDS.to_string())
            .expression("sqs_managed_sse_enabled", "true");
        let policy = Block::new("aws_sqs_queue_policy", "interruption")
            .expression("queue_url", "aws_sqs_queue.interruption.url")
            .document("policy", &self.queue_policy(queue));
        let mut blocks = vec![resource.end(), policy.end()];
        for event in &EVENT_TYPES {
            let name = snake_case(event.name);
            let rule = Block::new("aws_cloudwatch_event_rule", &name)
                .text("name_prefix", &format!("Kerf{}", event.name))
                .document("event_pattern", &event_pattern(event));
            let target = Block::new("aws_cloudwatch_event_target", &name)
                .expression("rule", &format!("aws_cloudwatch_event_rule.{name}.name"))
                .expression("arn", "aws_sqs_queue.interruption.arn");
            blocks.extend([rule.end(), target.end()]);
        }
        blocks
    }
}
