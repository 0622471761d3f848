//! `kerf manifests`: the Kubernetes objects that run the controller in a cluster, from the values of the chart `charts/kerf`, and the IAM
//! permissions it needs on AWS.

mod deployment;
mod environment;
mod iam;
mod merge;
mod naming;
mod objects;
pub(crate) mod rbac;
mod run;
mod set;
mod values;

pub(crate) use run::run;
