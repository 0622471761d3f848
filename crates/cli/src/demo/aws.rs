//! `kerf demo --cloud aws`: two hours of a cluster whose machines are instances of an embedded AWS account.

use super::bill::Bill;
use super::clock::clock;
use super::machine_change::HEADER;
use super::observer::{Observer, Sample};
use super::summary::conclude;
use crate::args::DemoArgs;
use crate::columns::columns;
use crate::embedded_aws::{EmbeddedAws, EmbeddedCluster};
use crate::exit::Exit;
use crate::up_flags::UpFlags;
use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use kerf_api::{EC2NodeClass, Provider};
use kerf_aws_sandbox::account::{Instance, InstanceState, PoolRule, Purchase, Signal};
use kerf_controllers::Tuning;
use kerf_kwok::ec2_catalogue;
use kerf_model::intern::Interner;
use kerf_runtime::{CancellationToken, Seed};
use kerf_sandbox::{KubeletOptions, NodeSelection, Sandbox};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::Duration;

/// How often the cluster is observed.
const TICK: Duration = Duration::from_secs(5);
/// Release of images that comes out during the demo.
const NEW_RELEASE: &str = "al2023@v20260115";

const OBJECTS: &str = include_str!("../../../../examples/aws-getting-started.yaml");

/// What happens at a minute.
struct Entry {
    minute: u32,
    title: &'static str,
    action: Action,
}

enum Action {
    /// The objects are created.
    Apply,
    /// Something happens to an instance: the one that runs longest, bought as spot if that matters.
    Signal(Signal),
    /// All pools have capacity, and the Deployment gets another size.
    Scale(u32),
    /// The types that run have no spot capacity any more, and the Deployment gets another size.
    NoSpotOfRunningTypes(u32),
    /// The class names another release of images.
    NewImages,
    /// Nothing more.
    End,
}

const TIMETABLE: [Entry; 8] = [
    Entry {
        minute: 0,
        title: "an EC2NodeClass, a NodePool and a Deployment of 5 pods are created",
        action: Action::Apply,
    },
    Entry {
        minute: 10,
        title: "EC2 takes a spot instance back: the warning comes by the queue, two minutes before the end",
        action: Action::Signal(Signal::SpotReclaim),
    },
    Entry {
        minute: 20,
        title: "the instance types that run are sold out as spot, and the Deployment grows to 20 pods",
        action: Action::NoSpotOfRunningTypes(20),
    },
    Entry {
        minute: 40,
        title: "there is capacity again, and the Deployment shrinks to 8 pods",
        action: Action::Scale(8),
    },
    Entry {
        minute: 60,
        title: "the class names a new release of images: nodes drift and are replaced",
        action: Action::NewImages,
    },
    Entry {
        minute: 90,
        title: "an instance fails its status check",
        action: Action::Signal(Signal::InstanceImpaired),
    },
    Entry {
        minute: 105,
        title: "closing time: the Deployment is scaled to zero",
        action: Action::Scale(0),
    },
    Entry {
        minute: 120,
        title: "end",
        action: Action::End,
    },
];

/// Runs the timetable.
pub(super) async fn run(args: &DemoArgs) -> anyhow::Result<Exit> {
    let wall = std::time::Instant::now();
    let clock = clock(args, "2026-01-20T08:00:00Z")?;
    let start = clock.now();
    let sandbox = Sandbox::builder()
        .seed(args.seed)
        .clock(clock.clone())
        .provider(Provider::Aws)
        .kubelets(KubeletOptions {
            nodes: NodeSelection::All,
            ..KubeletOptions::default()
        })
        .build()
        .await?;
    let flags = UpFlags::parse(&[], args.cloud)?;
    let aws = flags.aws.context("the options of the AWS provider")?;
    let cluster = EmbeddedCluster {
        client: sandbox.client(),
        endpoint: "https://embedded".to_owned(),
        // Nobody connects: the machines only compare it.
        ca_bundle: "ZW1iZWRkZWQ=".to_owned(),
        clock,
        seed: Seed(args.seed),
    };
    let shutdown = CancellationToken::new();
    let account = EmbeddedAws::start(&cluster, &aws.cluster_name, &shutdown).await?;
    account.sandbox.with(|account, _| account.records_calls = true);
    let manager = account
        .manager(&cluster, aws, flags.options, false, Tuning::default())
        .await?;
    let manager = tokio::spawn(manager.run(shutdown.clone()));
    let interner = Interner::default();
    let mut demo = Demo {
        observer: Observer::new(sandbox.client(), &ec2_catalogue(&interner), &interner),
        sandbox,
        account,
        start,
        bill: Bill::new(start),
        last: Sample::default(),
        launched: BTreeMap::new(),
        verbose: args.verbose,
        quiet: args.quiet,
        late: Vec::new(),
    };
    demo.run().await?;
    shutdown.cancel();
    manager
        .await
        .context("the controller's task")?
        .context("the controller")?;
    let exit = demo.summary(wall.elapsed())?;
    demo.sandbox.stop().await;
    Ok(exit)
}

struct Demo {
    sandbox: Sandbox,
    account: EmbeddedAws,
    observer: Observer,
    start: Timestamp,
    bill: Bill,
    last: Sample,
    /// Instances by id: type, zone, how they were bought, and image.
    launched: BTreeMap<String, Instance>,
    verbose: bool,
    quiet: bool,
    late: Vec<String>,
}

impl Demo {
    async fn run(&mut self) -> anyhow::Result<()> {
        if !self.quiet {
            writeln!(io::stdout(), "{HEADER}")?;
        }
        let mut wanted = 0;
        for (at, entry) in TIMETABLE.iter().enumerate() {
            self.print(&format!("== {}", entry.title))?;
            self.perform(&entry.action)
                .await
                .with_context(|| entry.title.to_owned())?;
            match entry.action {
                Action::Apply => wanted = 5,
                Action::Scale(replicas) | Action::NoSpotOfRunningTypes(replicas) => wanted = replicas,
                Action::Signal(_) | Action::NewImages | Action::End => {}
            }
            let Some(next) = TIMETABLE.get(at + 1) else { break };
            self.wait_until(next.minute).await?;
            let running = u32::try_from(self.last.running).unwrap_or(u32::MAX);
            if running != wanted {
                self.late.push(format!(
                    "{running} of {wanted} pods {} minutes after: {}",
                    next.minute - entry.minute,
                    entry.title
                ));
            }
        }
        self.observer.check_leaks().await?;
        let left = self.living();
        self.observer
            .broken
            .extend(left.iter().map(|one| format!("instance {} is left", one.id)));
        Ok(())
    }

    fn print(&self, text: &str) -> io::Result<()> {
        if self.quiet {
            return Ok(());
        }
        writeln!(
            io::stdout(),
            "{}  {text}",
            self.sandbox.clock().now().strftime("%H:%M:%S")
        )
    }

    /// Instances that neither end nor have ended, the one that was launched first coming first.
    fn living(&self) -> Vec<Instance> {
        self.account.sandbox.with(|account, now| {
            let lives = |one: &&Instance| one.state(now) < InstanceState::ShuttingDown;
            let mut living: Vec<Instance> = account.instances.values().filter(lives).cloned().collect();
            living.sort_by_key(|one| one.launched);
            living
        })
    }

    async fn wait_until(&mut self, minute: u32) -> anyhow::Result<()> {
        let end = self.start + SignedDuration::from_mins(i64::from(minute));
        while self.sandbox.clock().now() < end {
            tokio::time::sleep(TICK).await;
            let now = self.sandbox.clock().now();
            let (sample, decided) = self.observer.observe().await?;
            self.bill.change(now, sample.price);
            for decision in decided {
                self.print(&decision.to_string())?;
            }
            for one in self.living() {
                self.launched.entry(one.id.clone()).or_insert(one);
            }
            let changed = (sample.running, sample.nodes) != (self.last.running, self.last.nodes);
            if self.verbose && changed {
                self.print(&format!(
                    "{} pods running, {} nodes, {} $/h",
                    sample.running, sample.nodes, sample.price
                ))?;
            }
            self.last = sample;
        }
        Ok(())
    }

    async fn perform(&self, action: &Action) -> anyhow::Result<()> {
        let account = &self.account.sandbox;
        match action {
            Action::Apply => super::run::apply(&self.sandbox.client(), OBJECTS).await,
            Action::Signal(signal) => {
                let is_meant = |one: &&Instance| *signal != Signal::SpotReclaim || one.purchase == Purchase::Spot;
                if let Some(one) = self.living().iter().find(is_meant) {
                    self.print(&format!("it is {}, {} in {}", one.id, one.instance_type, one.zone.name))?;
                    account.signal(&one.id, *signal)?;
                }
                Ok(())
            }
            Action::Scale(replicas) => {
                account.with(|account, _| account.pools.rules.clear());
                self.scale(*replicas).await
            }
            Action::NoSpotOfRunningTypes(replicas) => {
                let kinds: BTreeSet<String> = self.living().into_iter().map(|one| one.instance_type).collect();
                self.print(&format!(
                    "sold out: {}",
                    kinds.iter().cloned().collect::<Vec<_>>().join(", ")
                ))?;
                let rule = |kind: &String| PoolRule::empty().of_type(kind).bought(Purchase::Spot);
                account.with(|account, _| account.pools.rules = kinds.iter().map(rule).collect());
                self.scale(*replicas).await
            }
            Action::End => Ok(()),
            Action::NewImages => {
                let classes = Api::<EC2NodeClass>::all(self.sandbox.client());
                let patch = Patch::Merge(json!({"spec": {"amiSelectorTerms": [{"alias": NEW_RELEASE}]}}));
                classes.patch("default", &PatchParams::default(), &patch).await?;
                Ok(())
            }
        }
    }

    async fn scale(&self, replicas: u32) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let deployments = Api::<Deployment>::default_namespaced(self.sandbox.client());
        deployments.patch("inflate", &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Prints the instances by type, the calls by action, and whether everything ran.
    fn summary(&self, wall: Duration) -> anyhow::Result<Exit> {
        let mut out = io::stdout().lock();
        let mut kinds: BTreeMap<[String; 3], usize> = BTreeMap::new();
        for one in self.launched.values() {
            let bought = if one.purchase == Purchase::Spot {
                "spot"
            } else {
                "on-demand"
            };
            let key = [one.instance_type.clone(), bought.to_owned(), one.image_id.clone()];
            *kinds.entry(key).or_default() += 1;
        }
        let mut table = vec![["TYPE", "BOUGHT", "IMAGE", "INSTANCES"].map(str::to_owned).to_vec()];
        table.extend(kinds.into_iter().map(|(key, count)| {
            let mut row = key.to_vec();
            row.push(count.to_string());
            row
        }));
        writeln!(out, "\n{}", columns(&table))?;
        let calls = self.account.sandbox.with(|account, _| account.take_calls());
        let mut by_action: BTreeMap<(String, String), (usize, usize)> = BTreeMap::new();
        for call in calls {
            let counts = by_action.entry((call.service.to_owned(), call.action)).or_default();
            counts.0 += 1;
            // What a dry run answers is no failure.
            counts.1 += usize::from(call.error.is_some_and(|code| code != "DryRunOperation"));
        }
        let mut table = vec![["SERVICE", "CALL", "TIMES", "REFUSED"].map(str::to_owned).to_vec()];
        table.extend(by_action.into_iter().map(|((service, action), (times, refused))| {
            vec![service, action, times.to_string(), refused.to_string()]
        }));
        writeln!(out, "{}", columns(&table))?;
        writeln!(
            out,
            "{:.1} hours of cluster time in {:.1} s; the instances cost {:.2} $",
            self.bill.hours(),
            wall.as_secs_f64(),
            self.bill.dollars()
        )?;
        let well = "every pod that should run ran; no instance is left";
        Ok(conclude(&mut out, &self.observer, &self.late, well)?)
    }
}
