//! The stages of a pod on its node: start, completion, termination.

use super::kubelets::{Kubelets, Reconciled, Stage, duration_annotation};
use super::options::{EXIT_CODE, KWOK_STOP_AFTER, RUN_FOR, STOP_AFTER};
use super::status;
use crate::context::ActorContext;
use crate::object::{annotation, controller, is_deleting, is_finished, is_ready, phase, uid};
use crate::store::key_of;
use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_runtime::Outcome;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::time::Duration;

impl Kubelets {
    pub(super) async fn pod(&self, context: &ActorContext, pod: &Pod, node: &Node) -> Reconciled {
        if is_deleting(pod) {
            return self.stop(context, pod).await;
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
                write(context, pod, status::unhealthy(pod, context.now())).await?;
            }
            return Ok(Outcome::Done);
        }
        if phase(pod) == "Pending" {
            if !mounted(context, pod) {
                return Ok(Outcome::RequeueAfter(Duration::from_secs(1)));
            }
            let left = self.left(uid(pod), Stage::Start, self.options.pod_ready_after);
            if !left.is_zero() {
                return Ok(Outcome::RequeueAfter(left));
            }
            write(context, pod, status::running(pod, node, context.now())).await?;
        } else if !is_ready(pod) {
            write(context, pod, status::running(pod, node, context.now())).await?;
        }
        self.complete(context, pod).await
    }

    /// Ends pods that run to completion.
    async fn complete(&self, context: &ActorContext, pod: &Pod) -> Reconciled {
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
        write(context, pod, status::finished(pod, exit_code, context.now())).await?;
        Ok(Outcome::Done)
    }

    /// Ends a deleted pod after the stop time of its containers or its grace period, whichever is shorter.
    async fn stop(&self, context: &ActorContext, pod: &Pod) -> Reconciled {
        let own = duration_annotation(pod, STOP_AFTER);
        if own.is_none()
            && let Some(delay) = duration_annotation(pod, KWOK_STOP_AFTER)
        {
            return self.stop_like_kwok(context, pod, delay).await;
        }
        let grace_s = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        if grace_s <= 0 {
            return Ok(Outcome::Done);
        }
        let grace = Duration::from_secs(grace_s.unsigned_abs());
        let wanted = own.unwrap_or(self.options.pod_stops_after);
        // The grace period may have been shortened since the stage began.
        let end = context.clock.until(
            pod.metadata
                .deletion_timestamp
                .as_ref()
                .map_or(context.now(), |time| time.0),
        );
        let left = self.left(uid(pod), Stage::Stop, wanted.min(grace)).min(end);
        if !left.is_zero() {
            return Ok(Outcome::RequeueAfter(left));
        }
        context.delete(&context.pods, pod, Some(0)).await?;
        Ok(Outcome::Done)
    }

    /// Ends a deleted pod after the delay of its annotation, whatever its grace period is, and removes its finalizers (KWK-063).
    async fn stop_like_kwok(&self, context: &ActorContext, pod: &Pod, delay: Duration) -> Reconciled {
        let left = self.left(uid(pod), Stage::Stop, delay);
        if !left.is_zero() {
            return Ok(Outcome::RequeueAfter(left));
        }
        if !pod.finalizers().is_empty() {
            let none = json!({"metadata": {"finalizers": null}});
            ignore_not_found(context.patch(&context.pods, &key_of(pod), &none).await)?;
        }
        context.delete(&context.pods, pod, Some(0)).await?;
        Ok(Outcome::Done)
    }
}

/// Whether every claim the pod mounts is bound.
fn mounted(context: &ActorContext, pod: &Pod) -> bool {
    let namespace = pod.namespace().unwrap_or_default();
    crate::volumes::claim_names(pod).iter().all(|name| {
        let claim = context.claims.get(&kerf_runtime::ObjectKey::new(&*namespace, &**name));
        claim.is_some_and(|claim| crate::volumes::is_bound(&claim))
    })
}

async fn write(context: &ActorContext, pod: &Pod, patch: Value) -> Result<(), kube::Error> {
    ignore_not_found(context.patch_pod_status(&key_of(pod), patch).await)
}

/// The pod may have gone meanwhile.
fn ignore_not_found(result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other,
    }
}
