//! Objects as tables (`meta.k8s.io/v1` Table): what `kubectl get` prints.
//!
//! In: the kind, the printer columns of its CRD (built-in kinds have theirs here), the objects and the time that ages
//! refer to. Out: the Table as JSON. Cells follow the real server's printers, because people read and scripts cut them.

mod age;
mod builtin;
mod cluster;
mod json_path;
mod nodes;
mod pods;
mod storage;
mod table;
mod workloads;

pub(crate) use table::{IncludeObject, KindInfo, check_json_path, render};
