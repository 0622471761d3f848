//! How these controllers change a NodePool. Its writes follow one another, and each begins with the newest version that this process knows, so
//! that none of them conflicts with another.

use kerf_api::NodePool;
use kerf_runtime::client::{Lock, Part, Written, patch_object, patch_status, uid_of};
use kube::Api;

use crate::context::Context;

/// Writes what `change` does to one part of a pool. `lock` has to be [`Lock::Optimistic`] when a list changes, such as the conditions. A pool that
/// is gone is left alone.
pub(super) async fn write(
    context: &Context,
    pool: &str,
    part: Part,
    lock: Lock,
    change: impl FnOnce(&mut NodePool),
) -> Result<(), kube::Error> {
    let Some(known) = context.cluster.pool(pool) else {
        return Ok(());
    };
    let _lock = context.write_locks.lock(uid_of(&*known)?).await;
    // Another write may have changed it while this one waited.
    let Some(before) = context.cluster.pool(pool) else {
        return Ok(());
    };
    let mut after = NodePool::clone(&before);
    change(&mut after);
    let api: Api<NodePool> = Api::all(context.client.clone());
    let written = match part {
        Part::Object => patch_object(&api, &before, &after, lock).await?,
        Part::Status => patch_status(&api, &before, &after, lock).await?,
    };
    if let Written::Stored(stored) = written {
        context.cluster.wrote_pool(*stored);
    }
    Ok(())
}
