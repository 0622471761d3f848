//! The tables that the compilation of classes reads and extends.

use crate::compile::requirements::ReqSets;
use crate::compile::taints::TaintSet;
use crate::compile::topology::{Groups, TopologyKeys};
use crate::dense::amounts::ResourceIndex;
use crate::dense::ids::IdVec;

/// The tables that the compilation of classes reads and extends.
pub(crate) struct CompileContext<'a> {
    pub(crate) resources: &'a ResourceIndex,
    pub(crate) req_sets: &'a mut ReqSets,
    pub(crate) groups: &'a mut Groups,
    pub(crate) keys: &'a mut TopologyKeys,
    pub(crate) taint_sets: &'a IdVec<TaintSet, TaintSet>,
    pub(crate) soft_taints: bool,
}
