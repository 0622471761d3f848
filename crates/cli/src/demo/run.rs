//! Runs the timetable: each entry at its time, an observation every few seconds, and the result at the end.

use super::bill::Bill;
use super::clock::clock;
use super::machine_change::HEADER;
use super::observer::{Observer, Sample};
use super::story::{Action, Entry, Fault, MANIFESTS, NETWORK_TAINT, TIMETABLE};
use super::summary;
use crate::args::DemoArgs;
use crate::assemble::{Parts, default_options};
use crate::exit::Exit;
use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_api::NodePool;
use kerf_controllers::Tuning;
use kerf_kwok::{KwokProvider, ec2_catalogue};
use kerf_model::intern::Interner;
use kerf_runtime::client::name_of;
use kerf_runtime::{CancellationToken, Seed};
use kerf_sandbox::Sandbox;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// How often the cluster is observed.
const TICK: Duration = Duration::from_secs(5);
/// How long after a Node's creation its network agent is ready.
const NETWORK_AFTER: SignedDuration = SignedDuration::from_secs(8);
/// The time between two rows of the table at the end.
const ROW: Duration = Duration::from_secs(600);

/// Runs the timetable.
pub(super) async fn run(args: &DemoArgs) -> anyhow::Result<Exit> {
    let wall = std::time::Instant::now();
    let clock = clock(args, "2026-01-05T08:00:00Z")?;
    let start = clock.now();
    let interner = Arc::new(Interner::default());
    let catalogue = ec2_catalogue(&interner);
    let sandbox = Sandbox::builder().seed(args.seed).clock(clock.clone()).build().await?;
    let (config, provider) = Parts {
        client: sandbox.client(),
        election: None,
        interner: Arc::clone(&interner),
        catalogue: Arc::clone(&catalogue),
        options: default_options()?,
        clock: clock.clone(),
        seed: Seed(args.seed),
        metrics: None,
        listen: false,
        tuning: Tuning {
            compare: true,
            ..Tuning::default()
        },
    }
    .manager();
    let shutdown = CancellationToken::new();
    let manager = tokio::spawn(kerf_controllers::run(config, shutdown.clone()));
    let mut demo = Demo {
        observer: Observer::new(sandbox.client(), &catalogue, &interner),
        sandbox,
        provider,
        start,
        rows: Vec::new(),
        bill: Bill::new(start),
        verbose: args.verbose,
        quiet: args.quiet,
        late: Vec::new(),
    };
    demo.run().await?;
    demo.observer.check_leaks().await?;
    shutdown.cancel();
    manager
        .await
        .context("the controller's task")?
        .context("the controller")?;
    let Demo {
        observer,
        sandbox,
        rows,
        late,
        bill,
        ..
    } = demo;
    sandbox.stop().await;
    summary::print(&rows, &observer, &late, &bill, wall.elapsed())
}

/// Creates the objects of a text.
pub(super) async fn apply(client: &Client, manifests: &str) -> anyhow::Result<()> {
    for document in manifests.split("\n---\n") {
        let object: DynamicObject = serde_saphyr::from_str(document).context("the demo's manifests")?;
        let types = object.types.clone().context("an object without kind")?;
        let name = object.metadata.name.as_deref().context("an object without name")?;
        let kind = GroupVersionKind::try_from(&types).context("an object's kind")?;
        let resource = ApiResource::from_gvk(&kind);
        let api = match object.namespace() {
            Some(namespace) => Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        api.create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("{} {name}", kind.kind))?;
    }
    Ok(())
}

struct Demo {
    sandbox: Sandbox,
    provider: Arc<KwokProvider>,
    observer: Observer,
    start: Timestamp,
    /// Observations and their times.
    rows: Vec<(Timestamp, Sample)>,
    bill: Bill,
    verbose: bool,
    quiet: bool,
    late: Vec<String>,
}

impl Demo {
    async fn run(&mut self) -> anyhow::Result<()> {
        if !self.quiet {
            writeln!(io::stdout(), "{HEADER}")?;
        }
        for (at, entry) in TIMETABLE.iter().enumerate() {
            self.print(&format!("== {}", entry.title))?;
            self.perform(entry).await.with_context(|| entry.title.to_owned())?;
            let Some(next) = TIMETABLE.get(at + 1) else { break };
            self.wait_until(next.at()).await?;
            self.check_running(entry).await?;
        }
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.sandbox.clock().now()
    }

    /// Prints a line with the time, unless only the summary is wanted.
    fn print(&self, text: &str) -> io::Result<()> {
        if self.quiet {
            return Ok(());
        }
        writeln!(io::stdout(), "{}  {text}", self.now().strftime("%H:%M:%S"))
    }

    async fn wait_until(&mut self, end: Duration) -> anyhow::Result<()> {
        let end = self.start + SignedDuration::try_from(end)?;
        let mut version = 0;
        let mut last = String::new();
        while self.now() < end {
            tokio::time::sleep(TICK).await;
            let now = self.now();
            if self.row_is_due(now) || self.sandbox.api().resource_version() != version {
                version = self.sandbox.api().resource_version();
                self.observe(now, &mut last).await?;
            }
            self.ready_networks(now).await?;
        }
        Ok(())
    }

    fn row_is_due(&self, now: Timestamp) -> bool {
        let row = SignedDuration::try_from(ROW).unwrap_or_default();
        self.rows.last().is_none_or(|(at, _)| now.duration_since(*at) >= row)
    }

    async fn observe(&mut self, now: Timestamp, last: &mut String) -> anyhow::Result<()> {
        let (sample, decided) = self.observer.observe().await?;
        self.bill.change(now, sample.price);
        for decision in decided {
            self.print(&decision.to_string())?;
        }
        let line = format!(
            "{} pods running, {} waiting, {} nodes, {} $/h",
            sample.running, sample.waiting, sample.nodes, sample.price
        );
        if self.verbose && line != *last {
            self.print(&line)?;
            *last = line;
        }
        if self.row_is_due(now) {
            self.rows.push((now, sample));
        }
        Ok(())
    }

    async fn perform(&mut self, entry: &Entry) -> anyhow::Result<()> {
        match &entry.action {
            Action::Apply => apply(&self.client(), MANIFESTS).await,
            Action::Scale(workloads) => self.scale(workloads).await,
            Action::Fault(app, fault) => self.cause(app, fault).await,
            Action::PatchPool(patch) => {
                let pools = Api::<NodePool>::all(self.client());
                pools
                    .patch("default", &PatchParams::default(), &Patch::Merge(patch()))
                    .await?;
                Ok(())
            }
            Action::End => {
                let now = self.now();
                let (sample, _) = self.observer.observe().await?;
                self.bill.change(now, sample.price);
                self.rows.push((now, sample));
                Ok(())
            }
        }
    }

    fn client(&self) -> Client {
        self.sandbox.client()
    }

    async fn scale(&self, workloads: &[(&str, &str, u32)]) -> anyhow::Result<()> {
        let params = PatchParams::default();
        for (kind, name, replicas) in workloads {
            let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
            if *kind == "StatefulSet" {
                Api::<StatefulSet>::default_namespaced(self.client())
                    .patch(name, &params, &patch)
                    .await?;
            } else {
                Api::<Deployment>::default_namespaced(self.client())
                    .patch(name, &params, &patch)
                    .await?;
            }
        }
        Ok(())
    }

    /// Lets a fault happen to the machine that runs most pods of an app.
    async fn cause(&self, app: &str, fault: &Fault) -> anyhow::Result<()> {
        let nodes = &self.observer.nodes;
        let Some(name) = self.busiest_node(app, fault) else {
            return Ok(());
        };
        let Some(node) = nodes.iter().find(|node| node.metadata.name.as_ref() == Some(&name)) else {
            return Ok(());
        };
        let claim = node.owner_references().iter().find(|owner| owner.kind == "NodeClaim");
        self.print(&format!(
            "it is the machine of {}",
            claim.map_or("no NodeClaim", |owner| owner.name.as_str())
        ))?;
        if fault.stops_kubelet {
            self.sandbox.set_kubelet(&name, Some("stopped")).await?;
        }
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
        if let Some(kind) = fault.interruption {
            self.provider.interrupt(kind, id, self.now());
        }
        Ok(())
    }

    /// The node that runs most pods of an app, among those without pods that a fault would leave without a place for long. Nodes with pods of a
    /// StatefulSet come last, and not at all where the cloud does not report the fault: such a pod waits until its dead node is gone, as on any
    /// cluster.
    fn busiest_node(&self, app: &str, fault: &Fault) -> Option<String> {
        let pods = &self.observer.pods;
        let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let nodes_of = |is_meant: &dyn Fn(&Pod) -> bool| -> BTreeSet<String> {
            pods.iter().filter(|pod| is_meant(pod)).filter_map(node).collect()
        };
        let protected = nodes_of(&|pod| pod.annotations().contains_key(kerf_api::annotations::DO_NOT_DISRUPT));
        let stateful = nodes_of(&|pod| pod.owner_references().iter().any(|owner| owner.kind == "StatefulSet"));
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for pod in pods
            .iter()
            .filter(|pod| pod.labels().get("app").is_some_and(|value| value == app))
        {
            let is_candidate =
                |node: &String| !protected.contains(node) && (fault.interruption.is_some() || !stateful.contains(node));
            if let Some(node) = node(pod).filter(is_candidate) {
                *counts.entry(node).or_default() += 1;
            }
        }
        let rank = |(node, count): &(String, usize)| (!stateful.contains(node), *count);
        counts.into_iter().max_by_key(rank).map(|(node, _)| node)
    }

    /// Plays the network agent: removes the startup taint a few seconds after a Node's creation.
    async fn ready_networks(&self, now: Timestamp) -> anyhow::Result<()> {
        let nodes = Api::<Node>::all(self.client());
        for node in &self.observer.nodes {
            let taints = node
                .spec
                .as_ref()
                .and_then(|spec| spec.taints.clone())
                .unwrap_or_default();
            let old_enough = node
                .creation_timestamp()
                .is_some_and(|at| now.duration_since(at.0) >= NETWORK_AFTER);
            if !old_enough || !taints.iter().any(|taint| taint.key == NETWORK_TAINT) {
                continue;
            }
            let name = name_of(node)?;
            let fresh = nodes.get(name).await?;
            let taints: Vec<Value> = fresh
                .spec
                .iter()
                .flat_map(|spec| spec.taints.iter().flatten())
                .filter(|taint| taint.key != NETWORK_TAINT)
                .map(|taint| json!(taint))
                .collect();
            let patch = json!({"metadata": {"resourceVersion": fresh.resource_version()}, "spec": {"taints": taints}});
            match nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
                // Somebody else wrote the node, or it is gone: next time.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// By the end of an act every workload has the replicas it asks for.
    async fn check_running(&mut self, entry: &Entry) -> anyhow::Result<()> {
        let all = ListParams::default();
        let mut late = Vec::new();
        for deployment in Api::<Deployment>::default_namespaced(self.client()).list(&all).await? {
            let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            let ready = deployment
                .status
                .as_ref()
                .and_then(|status| status.ready_replicas)
                .unwrap_or(0);
            let name = name_of(&deployment)?;
            late.extend((wanted != ready).then(|| format!("Deployment {name}: {ready} of {wanted} pods ready")));
        }
        for set in Api::<StatefulSet>::default_namespaced(self.client()).list(&all).await? {
            let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            let ready = set
                .status
                .as_ref()
                .and_then(|status| status.ready_replicas)
                .unwrap_or(0);
            let name = name_of(&set)?;
            late.extend((wanted != ready).then(|| format!("StatefulSet {name}: {ready} of {wanted} pods ready")));
        }
        for line in late {
            self.print(&format!("LATE {line}"))?;
            self.late.push(format!("at the end of \"{}\": {line}", entry.title));
        }
        Ok(())
    }
}
