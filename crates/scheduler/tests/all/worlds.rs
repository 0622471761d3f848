//! Fixtures of a pool with one instance type, to which tests add lines.

/// A pool whose nodes have two cores and 4 GiB.
pub(crate) fn two_core_world(rest: &str) -> String {
    one_type_world("cpu=2 mem=4Gi", rest)
}

/// A pool whose nodes have eight cores and 16 GiB.
pub(crate) fn eight_core_world(rest: &str) -> String {
    one_type_world("cpu=8 mem=16Gi", rest)
}

fn one_type_world(amounts: &str, rest: &str) -> String {
    format!("\ntype t {amounts} price=0.1\npool default\n{rest}")
}
