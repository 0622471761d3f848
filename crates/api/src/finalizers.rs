//! Finalizer names.

/// Guards cloud instances: on NodeClaims from before launch, on Nodes from registration (API-177).
pub const TERMINATION: &str = "karpenter.sh/termination";
