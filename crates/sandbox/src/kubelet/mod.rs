//! The kubelets of simulated nodes: nodes become Ready, their pods run, end and are removed.
//!
//! [`NodeSelection`] says which nodes are simulated. The annotation [`KUBELET`] on a Node makes its kubelet misbehave, so that tests, the
//! demo and `kubectl annotate` can all do it.

mod kubelets;
mod node;
mod options;
mod pod;
mod status;

pub(crate) use kubelets::{is_simulated, start};
pub(crate) use node::ready;
pub use options::{EXIT_CODE, FLAP_EVERY, KUBELET, KubeletOptions, NodeSelection, RUN_FOR, SIMULATED_NODE, STOP_AFTER};
