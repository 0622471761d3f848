//! The contract's CRDs through compile and admission: what is accepted, what is refused, and in which words.

mod admission;
mod fixture;
mod node_pools;
mod other_kinds;
mod requirements;
