//! The real controllers on a real control plane: etcd and kube-apiserver, and kube-scheduler and kube-controller-manager
//! where they are there, from the folder `KUBEBUILDER_ASSETS` names. What is missing of the latter two, and every kubelet,
//! comes from the sandbox. Time is real, so delays and batch windows are short, and one test runs at a time; cases that
//! do not get in each other's way share a control plane.

mod cases;
mod clean_up;
mod control_plane;
mod crds;
mod daemons;
mod drain;
mod drift;
mod drift_failures;
mod emptiness;
mod expiration;
mod harness;
mod inheritance;
mod many;
mod node_claims;
mod process;
mod repair;
mod replicas;
mod restart;
mod runaway;
mod scaling;
mod scheduling;
mod static_capacity;
mod termination;
