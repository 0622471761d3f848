//! Kubelet settings that a later version of Karpenter has: expressions by instance type, and kubelet's other fields. All are off by default
//! (`--aws-feature-gates`).

mod class;
mod expression;
mod fields;

pub use class::{ClassKubelet, ExpressionProblem, ReservedText};
pub use expression::{CompileError, EvaluationError, Expression, TEXT_MAX, Variables};
pub use fields::{KubeletProblem, checked_expressions, evaluation_failed, gate_problem, settings_for_nodes};
