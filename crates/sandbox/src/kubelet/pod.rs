//! A pod's life on its node.

use super::{
    EXIT_CODE, KWOK_STOP_AFTER, Kubelets, RUN_FOR, Reconciled, STOP_AFTER, Stage, duration_annotation, status,
};
use crate::object::{annotation, controller, is_deleting, is_finished, is_ready, phase, uid};
use crate::store::key_of;
use crate::world::World;
use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_runtime::Outcome;
use kube::ResourceExt;
use serde_json::Value;
use std::time::Duration;

impl Kubelets {
    pub(super) async fn pod(&self, world: &World, pod: &Pod, node: &Node) -> Reconciled {
        if is_deleting(pod) {
            return self.stop(world, pod).await;
        }
        if is_finished(pod) {
            return Ok(Outcome::Done);
        }
        // KWK-064
        if pod
            .labels()
            .get("kwok.x-k8s.io/stage")
            .is_some_and(|stage| stage == "unhealthy")
        {
            if phase(pod) != "Unknown" {
                write(world, pod, status::unhealthy(pod, world.now())).await?;
            }
            return Ok(Outcome::Done);
        }
        if phase(pod) == "Pending" {
            if !mounted(world, pod) {
                return Ok(Outcome::RequeueAfter(Duration::from_secs(1)));
            }
            let left = self.left(uid(pod), Stage::Start, self.options.pod_ready_after);
            if !left.is_zero() {
                return Ok(Outcome::RequeueAfter(left));
            }
            write(world, pod, status::running(pod, node, world.now())).await?;
        } else if !is_ready(pod) {
            write(world, pod, status::running(pod, node, world.now())).await?;
        }
        self.complete(world, pod).await
    }

    /// Ends pods that run to completion.
    async fn complete(&self, world: &World, pod: &Pod) -> Reconciled {
        let restarts = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()) == Some("Always");
        let annotated = duration_annotation(pod, RUN_FOR);
        let of_job = controller(pod).is_some_and(|owner| owner.kind == "Job");
        if annotated.is_none() && (restarts || !of_job) {
            return Ok(Outcome::Done);
        }
        let left = self.left(
            uid(pod),
            Stage::Complete,
            annotated.unwrap_or(self.options.job_runs_for),
        );
        if !left.is_zero() {
            return Ok(Outcome::RequeueAfter(left));
        }
        let exit_code = annotation(pod, EXIT_CODE)
            .and_then(|code| code.parse().ok())
            .unwrap_or(0);
        write(world, pod, status::finished(pod, exit_code, world.now())).await?;
        Ok(Outcome::Done)
    }

    /// Ends a deleted pod: after its containers' time or its grace period, whichever is shorter.
    async fn stop(&self, world: &World, pod: &Pod) -> Reconciled {
        let grace_s = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        if grace_s <= 0 {
            return Ok(Outcome::Done);
        }
        let grace = Duration::from_secs(grace_s.unsigned_abs());
        let kwok = || duration_annotation(pod, KWOK_STOP_AFTER);
        let wanted = duration_annotation(pod, STOP_AFTER)
            .or_else(kwok)
            .unwrap_or(self.options.pod_stops_after);
        // The grace period may have been shortened since the stage began.
        let end = world.clock.until(
            pod.metadata
                .deletion_timestamp
                .as_ref()
                .map_or(world.now(), |time| time.0),
        );
        let left = self.left(uid(pod), Stage::Stop, wanted.min(grace)).min(end);
        if !left.is_zero() {
            return Ok(Outcome::RequeueAfter(left));
        }
        world.delete(&world.pods, pod, Some(0)).await?;
        Ok(Outcome::Done)
    }
}

/// Whether every claim the pod mounts is bound.
fn mounted(world: &World, pod: &Pod) -> bool {
    let namespace = pod.namespace().unwrap_or_default();
    crate::volumes::claim_names(pod).iter().all(|name| {
        let claim = world.claims.get(&kerf_runtime::ObjectKey::new(&*namespace, &**name));
        claim.is_some_and(|claim| crate::volumes::is_bound(&claim))
    })
}

async fn write(world: &World, pod: &Pod, patch: Value) -> Result<(), kube::Error> {
    match world.patch_pod_status(&key_of(pod), patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other,
    }
}
