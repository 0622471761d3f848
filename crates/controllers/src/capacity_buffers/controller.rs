//! Finds out how much room each CapacityBuffer asks for.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::PodTemplate;
use kerf_api::CapacityBuffer;
use kerf_api::capacity_buffer::PodTemplateRef;
use kerf_api::conditions::capacity_buffer as conditions;
use kerf_runtime::client::{Written, uid_of, unless_conflict};
use kerf_runtime::{CancellationToken, ObjectKey, Outcome, RateLimit, ReconcileError};
use kube::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};

use super::referent::{self, Unresolved};
use crate::buffer_status;
use crate::changes::Change;
use crate::cluster::buffer_key;
use crate::context::Context;
use crate::provisioning::Batcher;
use crate::reconciler::{Reconciler, WorkLoop};

/// How often a buffer is resolved again: the workload it refers to is not watched (SCH-384).
const RESOLVE_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// The pause after a write that met a newer version of the buffer (SCH-384).
const AFTER_CONFLICT: Duration = Duration::from_secs(1);

/// `capacitybuffer`.
pub(crate) struct CapacityBuffers {
    context: Context,
    work: WorkLoop<ObjectKey>,
    batcher: Batcher,
}

impl CapacityBuffers {
    /// The controller; buffers whose room is known trigger a pass of provisioning.
    pub(crate) fn new(context: &Context, batcher: &Batcher) -> Arc<Self> {
        Arc::new(Self {
            work: WorkLoop::new(context, "capacitybuffer", RateLimit::SHARED)
                .for_kind::<CapacityBuffer>()
                .workers(10),
            context: context.clone(),
            batcher: batcher.clone(),
        })
    }

    /// Reconciles the buffers that refer to a PodTemplate (SCH-384).
    fn template_changed(&self, namespace: &str, name: &str) {
        for buffer in self.context.cluster.capacity_buffers() {
            let reference = buffer.spec.pod_template_ref.as_ref();
            let Some(key) = buffer_key(&buffer) else { continue };
            if key.namespace == namespace && reference.is_some_and(|reference| reference.name == name) {
                self.work.add(key);
            }
        }
    }

    /// Releases the room that is kept for a buffer. The pass that follows records that no node keeps its room any more.
    fn drop_buffer(&self, ObjectKey { namespace, name }: &ObjectKey) {
        self.context.cluster.drop_buffer(namespace, name);
        self.batcher.trigger(format!("{namespace}/{name}").into());
    }
}

impl Reconciler for CapacityBuffers {
    type Key = ObjectKey;

    fn work(&self) -> &WorkLoop<Self::Key> {
        &self.work
    }

    fn keys_of(&self, change: &Change) -> Vec<Self::Key> {
        match change {
            Change::Buffer(buffer) => buffer.buffer_key().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Self::Key) -> Result<Outcome, ReconcileError> {
        let Context { cluster, client, .. } = &self.context;
        let buffer = cluster.capacity_buffer(&key.namespace, &key.name);
        // SCH-379: buffers of other strategies belong to another controller.
        let Some(before) = buffer.filter(|buffer| buffer.metadata.deletion_timestamp.is_none() && buffer.is_active())
        else {
            self.drop_buffer(key);
            return Ok(Outcome::Done);
        };
        let found = referent::find(client, &before).await.and_then(|found| {
            let replicas = cluster.buffer_replicas(&before, &found.referent);
            Ok((replicas.map_err(Unresolved::too_many)?, found))
        });
        let (mut after, now) = (CapacityBuffer::clone(&before), self.context.now());
        let status = after.status.get_or_insert_default();
        status
            .provisioning_strategy
            .clone_from(&before.spec.provisioning_strategy);
        match &found {
            Ok((replicas, found)) => {
                status.replicas = Some(*replicas);
                let template = found.template.clone();
                status.pod_template_generation = template.as_ref().and_then(|(_, generation)| *generation);
                status.pod_template_ref = template.map(|(name, _)| PodTemplateRef { name });
                let (reason, message) = (conditions::RESOLVED, conditions::RESOLVED_MESSAGE);
                after.set_condition(conditions::READY_FOR_PROVISIONING, true, reason, message, now);
            }
            Err(why) => {
                after.set_condition(conditions::READY_FOR_PROVISIONING, false, why.reason, &why.message, now);
            }
        }
        match unless_conflict(buffer_status::write(&self.context, &before, &after).await)? {
            Some(Written::Stored(_) | Written::Unchanged) => {}
            Some(Written::Gone) | None => return Ok(Outcome::RequeueAfter(AFTER_CONFLICT)),
        }
        match found {
            Ok((replicas, found)) => {
                cluster.keep_buffer(&before, &found.referent, replicas, now);
                // SCH-385
                self.batcher.trigger(uid_of(&*before)?.into());
            }
            // SCH-390: the room that is kept stays until the retry.
            Err(why) if why.retry => return Err(ReconcileError::message(why.message)),
            Err(_) => self.context.cluster.drop_buffer(&key.namespace, &key.name),
        }
        Ok(Outcome::RequeueAfter(RESOLVE_AGAIN_AFTER))
    }

    async fn beside(&self, shutdown: CancellationToken) {
        let api: Api<PartialObjectMeta<PodTemplate>> = Api::all(self.context.client.clone());
        let mut templates = watcher(api, watcher::Config::default())
            .default_backoff()
            .touched_objects()
            .boxed();
        loop {
            let template = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                template = templates.next() => template,
            };
            match template {
                Some(Ok(template)) => {
                    let meta = &template.metadata;
                    if let (Some(namespace), Some(name)) = (&meta.namespace, &meta.name) {
                        self.template_changed(namespace, name);
                    }
                }
                Some(Err(error)) => tracing::warn!(kind = "PodTemplate", error = %error, "watch failed"),
                None => return,
            }
        }
    }
}
