//! The rules of Kubernetes, stated over plain texts and amounts, each as its documentation words it.
//!
//! The solver works on interned ids, bit sets and merged requirements. Nothing here uses its algebra: expressions are tried value by
//! value, amounts are added one by one, lists are searched from the front. The tests compare the two on random inputs.

pub(crate) mod amounts;
pub(crate) mod expression;
pub(crate) mod host_port;
pub(crate) mod open_label;
pub(crate) mod selector;
pub(crate) mod taint;

#[cfg(test)]
mod tests;
