//! Tests of the plan checker and of kube-scheduler's filters: on one small cluster, and on random ones with changed plans.

mod filter;
mod fixture;
mod mutation;
mod verify;
