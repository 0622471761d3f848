//! Instances that boot: their user data is read as their image would, and a machine that would join the cluster becomes a Node. A wrong
//! user data is a machine that never registers.

mod bootstrap;
mod bottlerocket;
mod flags;
mod machines;
mod node;
mod nodeadm;
mod scripts;
mod words;

pub use bootstrap::{BootError, Bootstrap, read_user_data};
pub use machines::Machines;
