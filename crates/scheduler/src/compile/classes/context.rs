//! The tables that the compilation of classes reads and extends.

use crate::compile::requirements::ReqSets;
use crate::compile::topology::{Groups, TopologyKeys};
use crate::dense::amounts::ResourceIndex;
use kerf_model::taint::Taint;

/// The tables that the compilation of classes reads and extends.
pub(crate) struct CompileContext<'a> {
    pub(crate) resources: &'a ResourceIndex,
    pub(crate) req_sets: &'a mut ReqSets,
    pub(crate) groups: &'a mut Groups,
    pub(crate) keys: &'a mut TopologyKeys,
    pub(crate) taint_sets: &'a [Vec<Taint>],
    pub(crate) soft_taints: bool,
}
