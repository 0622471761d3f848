//! Resource names (API-163).

/// CPU.
pub const CPU: &str = "cpu";
/// Memory.
pub const MEMORY: &str = "memory";
/// Local disk.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Number of pods.
pub const PODS: &str = "pods";
/// The pseudo-resource that counts nodes in limits and status.
pub const NODES: &str = "nodes";

/// Resources an overlay may not set, in byte order.
pub const WELL_KNOWN: [&str; 4] = [CPU, EPHEMERAL_STORAGE, MEMORY, PODS];

/// Resources the status of a pool always shows, zero when unused (API-089), in byte order.
pub const STATUS_BASE: [&str; 5] = [CPU, EPHEMERAL_STORAGE, MEMORY, NODES, PODS];
