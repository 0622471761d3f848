//! Kubelet's own fields that the provider does not know, and the gates.

use super::class::{ClassKubelet, ExpressionProblem};
use crate::options::AwsFeatureGates;
use kerf_api::EC2NodeClassSpec;
use kerf_api::ec2_node_class::{AmiFamily, KubeletConfiguration};

/// The field that the taints of the claim go into.
const TAINTS: &str = "registerWithTaints";

/// Reason and message of a condition.
pub type KubeletProblem = (&'static str, String);

/// Why a class cannot be used as it is, before any expression is read.
pub fn gate_problem(spec: &EC2NodeClassSpec, gates: AwsFeatureGates) -> Option<KubeletProblem> {
    let kubelet = spec.kubelet.as_ref()?;
    let names: Vec<&str> = kubelet.other.keys().map(String::as_str).collect();
    let family = spec.effective_family();
    if !names.is_empty() {
        let names = names.join(", ");
        if !gates.extended_kubelet {
            let message = format!(
                "spec.kubelet has the fields {names}, but the feature gate ExtendedKubeletConfiguration is off; set it with \
                 --aws-feature-gates, or remove the fields"
            );
            return Some(("KubeletFieldsDisabled", message));
        }
        if kubelet.other.contains_key(TAINTS) {
            let message = format!("spec.kubelet.{TAINTS} cannot be set: the taints of the NodePool are used");
            return Some(("InvalidKubeletConfiguration", message));
        }
        if !takes_all_fields(family) {
            let message =
                format!("spec.kubelet has fields that images of the family {family} cannot be given: {names}");
            return Some(("UnsupportedKubeletConfiguration", message));
        }
    }
    let expressions = kubelet.expression_fields();
    if !expressions.is_empty() && !gates.node_class_cel {
        let fields = expressions.join(", ");
        let message = format!(
            "spec.kubelet has CEL expressions in {fields}, but the feature gate NodeClassCEL is off; set it with --aws-feature-gates, or \
             write numbers and quantities"
        );
        return Some(("KubeletExpressionsDisabled", message));
    }
    None
}

/// The settings of a class whose expressions were parsed.
pub fn checked_expressions(spec: &EC2NodeClassSpec, gates: AwsFeatureGates) -> Result<ClassKubelet, KubeletProblem> {
    let kubelet = ClassKubelet::new(spec, gates.node_class_cel);
    kubelet.map_err(|problem| ("KubeletExpressionInvalid", problem.to_string()))
}

/// The problem of a class with an expression that has no value for a type.
pub fn evaluation_failed(problem: &ExpressionProblem) -> KubeletProblem {
    ("KubeletExpressionEvaluationFailed", problem.to_string())
}

/// Whether a family's user data can carry every field of kubelet's configuration. A custom image joins by its own means.
fn takes_all_fields(family: AmiFamily) -> bool {
    matches!(family, AmiFamily::Al2023 | AmiFamily::Custom)
}

/// The settings that nodes are given: without the fields that are off.
#[must_use]
pub fn settings_for_nodes(mut kubelet: KubeletConfiguration, gates: AwsFeatureGates) -> KubeletConfiguration {
    if !gates.extended_kubelet {
        kubelet.other.clear();
    }
    kubelet.other.remove(TAINTS);
    kubelet
}
