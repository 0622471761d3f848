//! Tests of the plan checker and of kube-scheduler's filters on one small cluster.

mod filter;
mod fixture;
mod verify;
