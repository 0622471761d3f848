//! The real controllers on a real control plane: etcd and kube-apiserver, and kube-scheduler and kube-controller-manager
//! where they are there, from the folder `KUBEBUILDER_ASSETS` names. What is missing of the latter two, and every kubelet,
//! comes from the sandbox. Time is real, so delays and batch windows are short, and one test runs at a time.

mod control_plane;
mod crds;
mod drain;
mod harness;
mod process;
mod restart;
mod scaling;
mod scheduling;
