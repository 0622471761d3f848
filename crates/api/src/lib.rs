//! the custom resources, well-known names and hashes of the Karpenter v1 API.
