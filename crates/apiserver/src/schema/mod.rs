//! Structural schemas of custom resources: prune, default, validate, CEL.
