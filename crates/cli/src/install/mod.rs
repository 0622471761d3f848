//! `kerf manifests`: the Kubernetes objects that run the controller in a cluster, from the values of the chart `charts/kerf`.

mod deployment;
mod environment;
mod merge;
mod naming;
mod objects;
pub(crate) mod rbac;
mod run;
mod set;
mod values;

pub(crate) use run::run;
