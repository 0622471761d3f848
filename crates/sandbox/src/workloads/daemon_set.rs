//! The DaemonSet controller: one pod on every node that admits it.

use super::pod_creation::create_pod;
use super::template::{self, PodName, label};
use crate::context::{ActorContext, enqueue_own_and_pods, queue};
use crate::node_match::{admitted, selects};
use crate::object::{is_available, is_deleting, is_finished, is_ready, node_name, scaled_value, short_hash, uid};
use crate::store::key_of;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, Toleration,
};
use kerf_runtime::{Outcome, ReconcileError};
use kube::ResourceExt;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

const REVISION_LABEL: &str = "controller-revision-hash";

pub(super) fn start(context: &Arc<ActorContext>, tasks: &mut JoinSet<()>) {
    let queue = queue();
    enqueue_own_and_pods(&queue, &context.daemon_sets, &context.pods);
    let (keys, own) = (queue.clone(), Arc::downgrade(context));
    context.nodes.listen(move |change| {
        let face =
            |node: Option<&Node>| node.map(|node| (node.labels().clone(), node.spec.clone().and_then(|s| s.taints)));
        let Some(context) = own.upgrade().filter(|_| face(change.old) != face(change.new)) else {
            return;
        };
        for set in context.daemon_sets.all() {
            keys.add(key_of(&*set));
        }
    });
    context.run(tasks, "daemonset", queue, |context, key| async move {
        let Some(set) = context.daemon_sets.get(&key) else {
            return Ok(Outcome::Done);
        };
        let Some(spec) = set.spec.clone() else {
            return Ok(Outcome::Done);
        };
        let plan = Plan::of(&context, &set, &spec);
        let carried_out = if set.metadata.deletion_timestamp.is_none() {
            carry_out(&context, &set, &spec, &plan).await
        } else {
            Ok(())
        };
        // The status counts the pods also where the next one was refused.
        let outcome = write_status(&context, &set, &spec).await?;
        carried_out.map(|()| outcome)
    });
}

/// The tolerations that every daemon pod gets.
fn tolerations(spec: &DaemonSetSpec) -> Vec<Toleration> {
    let pod = spec.template.spec.as_ref();
    let mut all = pod.and_then(|pod| pod.tolerations.clone()).unwrap_or_default();
    let mut own = vec![
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ];
    if pod.and_then(|pod| pod.host_network) == Some(true) {
        own.push(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    }
    for (key, effect) in own {
        let toleration = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        if !all.contains(&toleration) {
            all.push(toleration);
        }
    }
    all
}

/// The nodes without a daemon pod, and the daemon pods to delete.
struct Plan {
    missing: Vec<String>,
    surplus: Vec<Arc<Pod>>,
    outdated: Vec<Arc<Pod>>,
    unavailable: i32,
    wanted: i32,
    scheduled: i32,
    misscheduled: i32,
    revision: String,
}

/// The node of a daemon pod: the one it is bound to, or the one its node affinity names.
fn home(pod: &Pod) -> Option<String> {
    if let Some(name) = node_name(pod) {
        return Some(name.to_owned());
    }
    let terms = crate::node_match::required_terms(pod.spec.as_ref()?)?;
    let mut fields = terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    fields
        .find(|field| field.key == "metadata.name")?
        .values
        .as_ref()?
        .first()
        .cloned()
}

impl Plan {
    fn of(context: &ActorContext, set: &DaemonSet, spec: &DaemonSetSpec) -> Self {
        let tolerations = tolerations(spec);
        let pod_spec = spec.template.spec.clone().unwrap_or_default();
        let mut by_node: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in context.controlled_pods(uid(set)) {
            by_node.entry(home(&pod).unwrap_or_default()).or_default().push(pod);
        }
        let mut plan = Self {
            missing: Vec::new(),
            surplus: Vec::new(),
            outdated: Vec::new(),
            unavailable: 0,
            wanted: 0,
            scheduled: 0,
            misscheduled: 0,
            revision: short_hash(&spec.template),
        };
        for node in context.nodes.all() {
            let pods = by_node.remove(&node.name_any()).unwrap_or_default();
            let selected = selects(&pod_spec, &node);
            let may_start = selected && admitted(&tolerations, &node, &["NoSchedule", "NoExecute"]);
            let may_stay = selected && admitted(&tolerations, &node, &["NoExecute"]);
            plan.judge(&node, &pods, may_start, may_stay);
        }
        // The rest name nodes that do not exist any more. Pod garbage collection deletes the bound ones.
        let strays = by_node
            .into_values()
            .flatten()
            .filter(|pod| node_name(pod).is_none() && !is_deleting(&**pod));
        plan.surplus.extend(strays);
        plan
    }

    fn judge(&mut self, node: &Node, pods: &[Arc<Pod>], may_start: bool, may_stay: bool) {
        self.wanted += i32::from(may_start);
        let live: Vec<_> = pods.iter().filter(|pod| !is_deleting(&***pod)).cloned().collect();
        if !may_stay {
            self.misscheduled += i32::from(!live.is_empty());
            self.surplus.extend(live);
            return;
        }
        let (finished, mut running): (Vec<_>, Vec<_>) = live.into_iter().partition(|pod| is_finished(pod));
        self.surplus.extend(finished);
        running.sort_by_key(|pod| (node_name(pod).is_none(), pod.creation_timestamp(), pod.name_any()));
        self.surplus.extend(running.iter().skip(1).cloned());
        self.scheduled += i32::from(may_start && !running.is_empty());
        match running.first() {
            // A daemon pod of this node that is being deleted is replaced only after it is removed.
            None if pods.is_empty() && may_start => self.missing.push(node.name_any()),
            None => {}
            Some(pod) if pod.labels().get(REVISION_LABEL) != Some(&self.revision) => {
                self.outdated.push(Arc::clone(pod));
            }
            Some(_) => {}
        }
        if may_start && !running.first().is_some_and(|pod| is_ready(pod)) {
            self.unavailable += 1;
        }
    }
}

async fn carry_out(
    context: &ActorContext,
    set: &DaemonSet,
    spec: &DaemonSetSpec,
    plan: &Plan,
) -> Result<(), ReconcileError> {
    for pod in &plan.surplus {
        context.delete(&context.pods, &**pod, None).await?;
    }
    for node in &plan.missing {
        let pod = daemon(set, spec, node, &plan.revision);
        create_pod(context, set, "daemonset-controller", &pod).await?;
    }
    let strategy = spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return Ok(());
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let limit = rolling
        .and_then(|rolling| rolling.max_unavailable.as_ref())
        .map_or(1, |v| scaled_value(v, plan.wanted, true));
    let mut room = limit.max(1) - plan.unavailable;
    for pod in &plan.outdated {
        // A daemon pod that does not run can be replaced without loss of availability.
        if is_ready(pod) {
            if room <= 0 {
                continue;
            }
            room -= 1;
        }
        context.delete(&context.pods, &**pod, None).await?;
    }
    Ok(())
}

/// A daemon pod whose node affinity names one node.
fn daemon(set: &DaemonSet, spec: &DaemonSetSpec, node: &str, revision: &str) -> Pod {
    let mut pod = template::pod(set, &spec.template, PodName::Prefix(format!("{}-", set.name_any())));
    label(&mut pod, REVISION_LABEL, revision);
    label(
        &mut pod,
        "pod-template-generation",
        &set.metadata.generation.unwrap_or(1).to_string(),
    );
    let pin = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let pod_spec = template::spec_mut(&mut pod);
    pod_spec.tolerations = Some(tolerations(spec));
    let affinity = pod_spec.affinity.get_or_insert_with(Affinity::default);
    let node_affinity = affinity.node_affinity.get_or_insert_with(NodeAffinity::default);
    let required = node_affinity
        .required_during_scheduling_ignored_during_execution
        .get_or_insert_with(NodeSelector::default);
    if required.node_selector_terms.is_empty() {
        required.node_selector_terms.push(NodeSelectorTerm::default());
    }
    for term in &mut required.node_selector_terms {
        term.match_fields = Some(vec![pin.clone()]);
    }
    pod
}

async fn write_status(
    context: &ActorContext,
    set: &DaemonSet,
    spec: &DaemonSetSpec,
) -> Result<Outcome, ReconcileError> {
    let plan = Plan::of(context, set, spec);
    let min_ready_s = spec.min_ready_seconds.unwrap_or(0);
    let now = context.now();
    let pods = context.controlled_pods(uid(set));
    let live: Vec<_> = pods
        .iter()
        .filter(|pod| !is_deleting(&***pod) && node_name(pod).is_some())
        .collect();
    let count =
        |holds: &dyn Fn(&Pod) -> bool| i32::try_from(live.iter().filter(|p| holds(p)).count()).unwrap_or(i32::MAX);
    let (ready, available) = (count(&is_ready), count(&|pod| is_available(pod, min_ready_s, now)));
    let updated = count(&|pod| pod.labels().get(REVISION_LABEL) == Some(&plan.revision));
    let positive = |count: i32| (count > 0).then_some(count);
    let status = json!({
        "observedGeneration": set.metadata.generation, "desiredNumberScheduled": plan.wanted,
        "currentNumberScheduled": plan.scheduled, "numberMisscheduled": plan.misscheduled, "numberReady": ready,
        "numberAvailable": positive(available), "numberUnavailable": positive(plan.wanted - available),
        "updatedNumberScheduled": positive(updated),
    });
    context
        .update_status(&context.daemon_sets, set, &set.status, status)
        .await?;
    Ok(template::until_available(ready > available, min_ready_s))
}
