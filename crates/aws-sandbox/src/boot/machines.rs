//! Keeps the Nodes of a cluster like the instances of an account: kubelets register, stop and start again, and the cloud's controller
//! removes Nodes whose instance has ended.

use super::bootstrap::{BootError, read_user_data};
use super::node::node;
use crate::account::{Account, Instance, InstanceState, Refusal};
use crate::sandbox::AwsSandbox;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kerf_api::ec2_node_class::AmiFamily;
use kerf_aws::provider_id::instance_id;
use kerf_runtime::CancellationToken;
use kerf_runtime::client::{describe, found};
use kerf_sandbox::KUBELET;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// From the moment an instance runs until its kubelet registers.
const REGISTRATION_TAKES: SignedDuration = SignedDuration::from_secs(20);
/// How long to wait after an error of the API server.
const AGAIN: Duration = Duration::from_secs(1);
/// How long to wait at most before looking at all instances again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// What became of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MachineOutcome {
    /// Its Node was created, and its kubelet runs or not.
    Registered { runs: bool },
    /// It never registers.
    Failed,
    /// Its Node was taken away.
    Gone,
}

/// What to do about a machine.
enum Step {
    Register(Box<Node>),
    Fail(BootError),
    Kubelet { node: String, runs: bool },
    Remove { node: String },
}

/// The machines of a cluster.
pub struct Machines {
    sandbox: AwsSandbox,
    nodes: Api<Node>,
    known: BTreeMap<String, MachineOutcome>,
}

impl Machines {
    /// The machines of an account, whose kubelets register at this API server.
    pub fn new(sandbox: AwsSandbox, client: Client) -> Self {
        Self {
            sandbox,
            nodes: Api::all(client),
            known: BTreeMap::new(),
        }
    }

    /// Follows the account until shutdown.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut strangers_left = true;
        loop {
            if strangers_left {
                strangers_left = self.remove_strangers().await.is_err();
            }
            let ((steps, next), seen) = self.sandbox.serve(|account, now| self.steps(account, now));
            let mut wait = next.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN);
            for (id, step) in steps {
                match self.act(&step).await {
                    Ok(known) => {
                        self.known.insert(id, known);
                    }
                    Err(error) => {
                        tracing::debug!(instance = id, error = describe(&error), "the machine tries again");
                        wait = AGAIN;
                    }
                }
            }
            tokio::select! {
                () = self.sandbox.changed(seen, wait) => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// Removes Nodes whose instance is not of this account: they are left from an earlier run.
    async fn remove_strangers(&self) -> Result<(), kube::Error> {
        for node in self.nodes.list(&ListParams::default()).await? {
            let id = node
                .spec
                .as_ref()
                .and_then(|spec| instance_id(spec.provider_id.as_deref()?).ok());
            let Some(id) = id else { continue };
            let exists = self.sandbox.serve(|account, _| account.instances.contains_key(id)).0;
            if !exists {
                found(self.nodes.delete(&node.name_any(), &DeleteParams::default()).await)?;
            }
        }
        Ok(())
    }

    /// What is to be done now, by instance, and how long until the next machine registers.
    fn steps(&self, account: &Account, now: Timestamp) -> (Vec<(String, Step)>, Option<Duration>) {
        let mut steps = Vec::new();
        let mut next: Option<Duration> = None;
        for one in account.instances.values() {
            let known = self.known.get(&one.id);
            let node = one.private_name();
            let step = match (one.state(now), known) {
                (_, Some(MachineOutcome::Failed | MachineOutcome::Gone)) => None,
                (InstanceState::Terminated, Some(MachineOutcome::Registered { .. })) => Some(Step::Remove { node }),
                (InstanceState::Running, None) => {
                    let left = (one.runs_from + REGISTRATION_TAKES).duration_since(now);
                    if left > SignedDuration::ZERO {
                        let left = left.unsigned_abs();
                        next = Some(next.map_or(left, |next| next.min(left)));
                        None
                    } else {
                        Some(match boot(account, one) {
                            Ok(node) => Step::Register(Box::new(node)),
                            Err(error) => Step::Fail(error),
                        })
                    }
                }
                (state, Some(MachineOutcome::Registered { runs })) => {
                    let health = &one.health;
                    let is_impaired =
                        health.instance_impaired_since.is_some() || health.system_impaired_since.is_some();
                    let should_run = state == InstanceState::Running && !is_impaired;
                    (should_run != *runs).then_some(Step::Kubelet { node, runs: should_run })
                }
                (_, None) => None,
            };
            steps.extend(step.map(|step| (one.id.clone(), step)));
        }
        (steps, next)
    }

    async fn act(&self, step: &Step) -> Result<MachineOutcome, kube::Error> {
        match step {
            Step::Register(node) => match self.nodes.create(&PostParams::default(), node).await {
                Err(error) if !is_conflict(&error) => Err(error),
                _ => Ok(MachineOutcome::Registered { runs: true }),
            },
            Step::Fail(reason) => {
                tracing::warn!(%reason, "a machine does not join the cluster");
                Ok(MachineOutcome::Failed)
            }
            Step::Kubelet { node, runs } => {
                let mode = (!runs).then_some("stopped");
                let patch = Patch::Merge(json!({"metadata": {"annotations": {KUBELET: mode}}}));
                found(self.nodes.patch(node, &PatchParams::default(), &patch).await)?;
                Ok(MachineOutcome::Registered { runs: *runs })
            }
            Step::Remove { node } => {
                found(self.nodes.delete(node, &DeleteParams::default()).await)?;
                Ok(MachineOutcome::Gone)
            }
        }
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Boots an instance: the Node it registers, or why it does not.
fn boot(account: &Account, instance: &Instance) -> Result<Node, BootError> {
    let text = STANDARD
        .decode(&instance.user_data)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.ok_or(BootError::Unreadable("it is no text"))?;
    let image = account.images.iter().find(|image| image.id == instance.image_id);
    let family = image.map_or(AmiFamily::Custom, |image| image.family);
    let bootstrap = read_user_data(family, &text)?;
    let cluster = account.cluster(&bootstrap.cluster_name);
    let cluster = cluster.map_err(|_: Refusal| BootError::WrongCluster(bootstrap.cluster_name.clone()))?;
    bootstrap.check(cluster)?;
    let profile = instance.profile.as_ref().and_then(|name| account.profiles.get(name));
    if profile.is_none_or(|profile| profile.role.is_none()) {
        return Err(BootError::NoRole);
    }
    node(account, instance, family, &bootstrap).ok_or(BootError::NoBootstrap)
}
