//! The contract's CRDs through compile and admission.
