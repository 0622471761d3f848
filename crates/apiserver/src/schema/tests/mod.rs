//! Tests of what the schemas of the CRDs accept.

mod contract;
