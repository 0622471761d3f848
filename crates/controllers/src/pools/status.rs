//! The loop of the controllers that keep one condition of pools up to date.

use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::NodePool;
use kerf_runtime::client::{Lock, Part};
use kerf_runtime::{Outcome, RateLimit, ReconcileError};

use super::write::write;
use crate::changes::{Change, Diff};
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};
use kerf_state::NodeClass;

/// Writes the status a pool should have now into the copy it is given.
pub(crate) type PoolRule = dyn Fn(&Context, &mut NodePool, Timestamp) + Send + Sync;

/// A controller that applies one rule to the status of pools.
pub(crate) struct PoolStatus {
    context: Context,
    work: WorkLoop<String>,
    follows_classes: bool,
    rule: Box<PoolRule>,
}

impl PoolStatus {
    /// A controller of this name; with `follows_classes` a pool is reconciled again when its node class changes.
    pub(crate) fn new(
        context: &Context,
        name: &'static str,
        workers: usize,
        follows_classes: bool,
        rule: Box<PoolRule>,
    ) -> Arc<Self> {
        Arc::new(Self {
            work: WorkLoop::new(context, name, RateLimit::DEFAULT)
                .for_kind::<NodePool>()
                .workers(workers),
            context: context.clone(),
            follows_classes,
            rule,
        })
    }

    /// Reconciles a pool that has not changed.
    pub(crate) fn look_at(&self, pool: &str) {
        self.work.add(pool.to_owned());
    }
}

/// The names of the pools that use a node class.
pub(crate) fn pools_of_class(context: &Context, class: &Diff<NodeClass>) -> Vec<String> {
    let Some(class) = class.last() else { return Vec::new() };
    let mut pools = context.cluster.pools();
    pools.retain(|pool| class.is(&pool.spec.template.spec.node_class_ref));
    pools.iter().filter_map(|pool| pool.metadata.name.clone()).collect()
}

impl Reconciler for PoolStatus {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    fn keys_of(&self, change: &Change) -> Vec<String> {
        match change {
            Change::Pool(pool) if !pool.is_gone() => vec![pool.name().to_owned()],
            Change::Class(class) if self.follows_classes => pools_of_class(&self.context, class),
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        let rule = |pool: &mut NodePool| (self.rule)(&self.context, pool, self.context.now());
        write(&self.context, name, Part::Status, Lock::Optimistic, rule).await?;
        Ok(Outcome::Done)
    }
}
