//! The kubelet settings of a class for each instance type: expressions replaced by what they give.

use super::expression::{CompileError, EvaluationError, Expression, Variables};
use crate::instance_type::{InstanceTypeDescription, NetworkDescription, pods};
use kerf_api::EC2NodeClassSpec;
use kerf_api::ec2_node_class::{KubeletConfiguration, MaxPods, is_expression};
use std::collections::BTreeMap;

/// Results for CPU and memory are rounded up to multiples of these, so that more types share a launch template.
const CPU_STEP_MILLI: i64 = 10;
const MEMORY_STEP_MIB: i64 = 16;

/// Why an expression of a class cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionProblem {
    /// It is none.
    #[error("spec.kubelet.{field}: the expression {error}")]
    Invalid {
        /// The field below `spec.kubelet`.
        field: String,
        /// What is wrong with it.
        error: CompileError,
    },
    /// It gives nothing for an instance type.
    #[error("spec.kubelet.{field}: for {instance_type} {error}")]
    Evaluation {
        /// The field below `spec.kubelet`.
        field: String,
        /// The type.
        instance_type: String,
        /// What is wrong.
        error: EvaluationError,
    },
    /// It gives what the field cannot have.
    #[error("spec.kubelet.{field}: for {instance_type} the result is {result}, which is {problem}")]
    Result {
        /// The field below `spec.kubelet`.
        field: String,
        /// The type.
        instance_type: String,
        /// The result.
        result: i64,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// The reserved resources of one instance type as texts: part of what distinguishes launch templates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReservedText {
    /// For Kubernetes' own processes.
    pub kube: BTreeMap<String, String>,
    /// For other processes.
    pub system: BTreeMap<String, String>,
}

/// Expressions of a map of reserved resources.
type Reserved = BTreeMap<String, Expression>;

/// The kubelet settings of a class.
#[derive(Clone, Debug)]
pub struct ClassKubelet {
    fixed: KubeletConfiguration,
    max_pods: Option<Expression>,
    kube_reserved: Reserved,
    system_reserved: Reserved,
}

fn compile(field: &str, text: &str) -> Result<Expression, ExpressionProblem> {
    Expression::compile(text).map_err(|error| ExpressionProblem::Invalid {
        field: field.to_owned(),
        error,
    })
}

fn compile_map(name: &str, map: Option<&BTreeMap<String, String>>) -> Result<Reserved, ExpressionProblem> {
    let expressions = map.into_iter().flatten().filter(|(_, text)| is_expression(text));
    expressions
        .map(|(key, text)| Ok((key.clone(), compile(&format!("{name}[{key}]"), text)?)))
        .collect()
}

impl ClassKubelet {
    /// The settings without their expressions.
    pub fn fixed(spec: &EC2NodeClassSpec) -> Self {
        Self {
            fixed: spec.kubelet().without_expressions(),
            max_pods: None,
            kube_reserved: Reserved::new(),
            system_reserved: Reserved::new(),
        }
    }

    /// The settings; expressions count only where they are on.
    pub fn new(spec: &EC2NodeClassSpec, expressions: bool) -> Result<Self, ExpressionProblem> {
        let fixed = Self::fixed(spec);
        let Some(kubelet) = spec.kubelet.as_ref().filter(|_| expressions) else {
            return Ok(fixed);
        };
        let max_pods = match &kubelet.max_pods {
            Some(MaxPods::Expression(text)) => Some(compile("maxPods", text)?),
            Some(MaxPods::Count(_)) | None => None,
        };
        Ok(Self {
            max_pods,
            kube_reserved: compile_map("kubeReserved", kubelet.kube_reserved.as_ref())?,
            system_reserved: compile_map("systemReserved", kubelet.system_reserved.as_ref())?,
            ..fixed
        })
    }

    /// The settings that can be used: those without expressions if one of them is wrong. The class is not ready then.
    pub fn usable(spec: &EC2NodeClassSpec, expressions: bool) -> Self {
        Self::new(spec, expressions).unwrap_or_else(|_| Self::fixed(spec))
    }

    /// Whether the settings differ between instance types.
    pub fn has_expressions(&self) -> bool {
        self.max_pods.is_some() || !self.kube_reserved.is_empty() || !self.system_reserved.is_empty()
    }

    /// The settings for an instance type. `maxPods` sees the pods of a class without it, the reserved resources those it gives.
    pub fn of_type(
        &self,
        description: &InstanceTypeDescription,
        spec: &EC2NodeClassSpec,
        reserved_enis: i64,
    ) -> Result<KubeletConfiguration, ExpressionProblem> {
        let mut kubelet = self.fixed.clone();
        if !self.has_expressions() {
            return Ok(kubelet);
        }
        let family = spec.effective_family();
        let pods_of =
            |kubelet: &KubeletConfiguration| pods(description, family, kubelet, reserved_enis, spec.interfaces());
        let network = description.network.as_ref();
        let mut variables = Variables {
            instance_type: description.name.clone(),
            vcpus: description.vcpus,
            memory_mib: description.memory_mib,
            default_enis: network.map_or(0, NetworkDescription::default_card_interfaces),
            ips_per_eni: network.map_or(0, |network| network.ipv4_per_interface),
            max_pods: pods_of(&kubelet),
        };
        if let Some(expression) = &self.max_pods {
            let result = evaluate("maxPods", expression, &variables)?;
            let count = i32::try_from(result).map_err(|_| ExpressionProblem::Result {
                field: "maxPods".to_owned(),
                instance_type: description.name.clone(),
                result,
                problem: "more than a node can have",
            })?;
            kubelet.max_pods = Some(MaxPods::Count(count));
            variables.max_pods = pods_of(&kubelet);
        }
        let maps = [
            ("kubeReserved", &self.kube_reserved, &mut kubelet.kube_reserved),
            ("systemReserved", &self.system_reserved, &mut kubelet.system_reserved),
        ];
        for (name, expressions, into) in maps {
            for (key, expression) in expressions {
                let result = evaluate(&format!("{name}[{key}]"), expression, &variables)?;
                into.get_or_insert_default().insert(key.clone(), quantity(key, result));
            }
        }
        Ok(kubelet)
    }

    /// The first problem with one of these types.
    pub fn problem<'d>(
        &self,
        descriptions: impl IntoIterator<Item = &'d InstanceTypeDescription>,
        spec: &EC2NodeClassSpec,
        reserved_enis: i64,
    ) -> Option<ExpressionProblem> {
        if !self.has_expressions() {
            return None;
        }
        let mut each = descriptions.into_iter();
        each.find_map(|description| self.of_type(description, spec, reserved_enis).err())
    }

    /// The reserved resources of an instance type, if they differ between types; an error if any expression gives nothing for it.
    pub fn reserved_of_type(
        &self,
        description: &InstanceTypeDescription,
        spec: &EC2NodeClassSpec,
        reserved_enis: i64,
    ) -> Result<Option<ReservedText>, ExpressionProblem> {
        let kubelet = self.of_type(description, spec, reserved_enis)?;
        if self.kube_reserved.is_empty() && self.system_reserved.is_empty() {
            return Ok(None);
        }
        Ok(Some(ReservedText {
            kube: kubelet.kube_reserved.unwrap_or_default(),
            system: kubelet.system_reserved.unwrap_or_default(),
        }))
    }
}

/// The result, which must not be negative.
fn evaluate(field: &str, expression: &Expression, variables: &Variables) -> Result<i64, ExpressionProblem> {
    let result = expression
        .evaluate(variables)
        .map_err(|error| ExpressionProblem::Evaluation {
            field: field.to_owned(),
            instance_type: variables.instance_type.clone(),
            error,
        })?;
    if result < 0 {
        return Err(ExpressionProblem::Result {
            field: field.to_owned(),
            instance_type: variables.instance_type.clone(),
            result,
            problem: "negative",
        });
    }
    Ok(result)
}

/// A result as a quantity: thousandths of a core, MiB, GiB, or pieces.
fn quantity(key: &str, result: i64) -> String {
    match key {
        "cpu" => format!("{}m", rounded_up(result, CPU_STEP_MILLI)),
        "memory" => format!("{}Mi", rounded_up(result, MEMORY_STEP_MIB)),
        "ephemeral-storage" => format!("{result}Gi"),
        _ => result.to_string(),
    }
}

/// The next multiple of a step; a number without one stays.
fn rounded_up(number: i64, step: i64) -> i64 {
    let rest = number % step;
    if rest == 0 {
        return number;
    }
    number.checked_add(step - rest).unwrap_or(number)
}
