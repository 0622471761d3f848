//! Host ports.

use kerf_model::pod::HostPort;

/// Whether two pods that want these ports cannot share a node: port and protocol are the same, and the addresses are the same or one of
/// them stands for all addresses.
pub(crate) fn conflict(one: &HostPort, other: &HostPort) -> bool {
    let every_address = ["0.0.0.0", "::"];
    let overlap = one.ip == other.ip || every_address.contains(&&*one.ip) || every_address.contains(&&*other.ip);
    one.port == other.port && one.protocol == other.protocol && overlap
}
