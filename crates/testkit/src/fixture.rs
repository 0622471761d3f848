//! The fixture language of the solver's tests: one line per object, `check` compares the plan as text and runs the checker on it.
//!
//! ```text
//! type  NAME cpu=2 mem=4Gi [pods=N] [gpu=N] price=0.1 [spot=0.05] [zones=a,b] [arch=arm64] [os=linux] [has=key=v1,v2] [over=cpu=100m]
//!            [offer=capacity/zone/price[/off|/res:ID:N]]…
//! known KEY
//! pool  NAME [weight=N] [req=key:op:v1,v2[:min=N]]… [label=k=v]… [taint=k[=v]:Effect]… [startup=…]… [limit=resource:amount]… [static]
//!            [packing=balanced] [overhead=0.02]
//! node  NAME cpu=… mem=… [pool=NAME] [zone=a] [label=k=v]… [taint=…]… [booting] [deleting] [claim-only] [attach=driver:N]… [settling]
//! bound NODE NAME <as a pod> [daemon] [terminating]
//! daemon NAME <as a pod>
//! pod   NAME[*N] cpu=… mem=… [ns=…] [label=k=v]… [select=key:op:v]… [term=key:op:v+key:op:v]… [prefer=W/key:op:v]… [tol=*|key[=v][:Effect]]…
//!            [spread=key/skew/selector[/soft][/min=N][/taints][/anynode]]… [near=key/selector] [near~W=…] [apart=…] [apart~W=…]
//!            [port=8080[/UDP][@ip]]… [vol=claim[/driver][/key:op:v|key:op:v]]… [from=NODE] [faulty=text]
//! ```
//!
//! Key names `zone host type arch os ct pool region` are short for the well-known ones. Selectors: `k=v`, `*` for all, `!` for none.

use jiff::Timestamp;
use kerf_check::{CheckOptions, verify};
use kerf_model::instance_type::{Catalogue, InstanceType, Offering, Reservation};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::node::{Node, NodeLifecycle};
use kerf_model::nodepool::{Eligibility, NodePool, PoolPacking};
use kerf_model::plan::Plan;
use kerf_model::pod::*;
use kerf_model::price::Price;
use kerf_model::requirement::{Operator, Requirement, Requirements};
use kerf_model::resources::Resources;
use kerf_model::selector::{LabelSelector, LabelSet, Match};
use kerf_model::snapshot::{Daemon, Snapshot};
use kerf_model::taint::{Effect, Taint, Toleration, TolerationOperator};
use kerf_scheduler::{Options, Request, solve};
use kerf_units::policy::{MinValuesPolicy, Packing};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A cluster and its pending pods, read from text.
pub struct Fixture {
    /// The cluster; its `pending` are the `pod` lines, in order.
    pub snapshot: Snapshot,
    settling: Vec<usize>,
}

/// Options for tests of the contract's own order of things.
pub fn upstream() -> Options {
    Options {
        packing: Packing::Upstream,
        ..Options::default()
    }
}

/// Solves the fixture under the contract's greedy and compares the plan as text.
#[track_caller]
pub fn check(text: &str, expected: &str) {
    check_with(&upstream(), text, expected);
}

/// The same under other options.
///
/// Under the contract's greedy it also solves with the default packing, which may choose other nodes but obeys the same constraints: the
/// checker has no objection, pods that have places keep them unless more pods have one, and a pod that is alone and has none still has
/// none.
#[track_caller]
pub fn check_with(options: &Options, text: &str, expected: &str) {
    let fixture = Fixture::read(text);
    let plan = fixture.solve(options);
    if options.packing == Packing::Upstream {
        fixture.check_default_packing(options, &plan);
    }
    let expected: Vec<&str> = expected
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(fixture.show(&plan), expected.join("\n"));
}

impl Fixture {
    /// Solves and panics where the checker objects to the plan.
    #[track_caller]
    pub fn solve(&self, options: &Options) -> Plan {
        self.try_solve(options).expect("a plan without violations")
    }

    /// Asserts that the default packing places what the contract's greedy has placed.
    #[track_caller]
    fn check_default_packing(&self, options: &Options, upstream: &Plan) {
        let default = Options {
            packing: Packing::default(),
            ..options.clone()
        };
        let plan = self.solve(&default);
        let left = |plan: &Plan| {
            let pods = plan.unschedulable.iter().map(|one| Arc::clone(&one.pod.name));
            pods.collect::<BTreeSet<_>>()
        };
        let (few, many) = (left(&plan), left(upstream));
        let same = if self.snapshot.pending.len() == 1 {
            few == many
        } else {
            few.is_subset(&many) || few.len() < many.len()
        };
        assert!(
            same,
            "the default packing leaves {few:?}, upstream's {many:?}:\n{}",
            self.show(&plan)
        );
        assert_eq!(plan.ignored, upstream.ignored);
    }

    /// Solves, without asking the checker.
    pub fn plan(&self, options: &Options) -> Plan {
        let request = Request {
            settling_nodes: &self.settling,
            ..Request::pending(&self.snapshot)
        };
        solve(&request, options, &|| false)
    }

    /// Solves and runs the checker on the plan. The error is the plan as text with the violations.
    pub fn try_solve(&self, options: &Options) -> Result<Plan, String> {
        let pods = &self.snapshot.pending;
        let plan = self.plan(options);
        let strict = CheckOptions {
            strict_min_values: options.min_values_policy == MinValuesPolicy::Strict,
            ..CheckOptions::default()
        };
        let violations = verify(&self.snapshot, pods, &plan, &strict);
        if violations.is_empty() {
            return Ok(plan);
        }
        let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
        Err(format!(
            "the checker objects to\n{}\n{}",
            self.show(&plan),
            texts.join("\n")
        ))
    }

    /// One line per launch (`pool/cheapest type zones: pods`), per existing node, and per pod left over.
    pub fn show(&self, plan: &Plan) -> String {
        let text = |id: Sym| self.snapshot.interner.text(id);
        let names = |pods: &[Arc<Pod>]| {
            let mut names: Vec<&str> = pods.iter().map(|pod| &*pod.name).collect();
            names.sort_by_key(|name| (name.len(), *name));
            names.join(" ")
        };
        let mut lines = Vec::new();
        for launch in &plan.launches {
            let cheapest = launch
                .cheapest
                .map_or("nothing", |(at, _)| text(launch.catalogue.types[at as usize].name));
            let mut zones = String::new();
            if let Some(zone) = launch.requirements.get(sym::ZONE) {
                let mut values: Vec<&str> = zone.values.iter().map(|value| text(*value)).collect();
                values.sort_unstable();
                zones = format!(" {}{}", if zone.complement { "not " } else { "" }, values.join("|"));
            }
            lines.push(format!("{}/{cheapest}{zones}: {}", launch.pool, names(&launch.pods)));
        }
        lines.extend(
            plan.existing
                .iter()
                .map(|placed| format!("{}: {}", placed.node, names(&placed.pods))),
        );
        for left in &plan.unschedulable {
            let deferred = if left.deferred { " (deferred)" } else { "" };
            lines.push(format!("- {}: {}{deferred}", left.pod.name, left.message()));
        }
        let faults = |faults: &[PodFault]| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        lines.extend(
            plan.ignored
                .iter()
                .map(|(pod, why)| format!("! {}: {}", pod.name, faults(why))),
        );
        lines.join("\n")
    }

    /// Reads one object a line; empty lines and lines that start with `#` are passed over.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut reader = Reader::default();
        for line in text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            reader.line(line);
        }
        reader.finish()
    }
}

#[derive(Default)]
struct Reader {
    interner: Arc<Interner>,
    types: Vec<InstanceType>,
    pools: Vec<NodePool>,
    nodes: Vec<Node>,
    settling: Vec<String>,
    daemons: Vec<Arc<Daemon>>,
    pods: Vec<Pod>,
    known: Vec<Sym>,
}

/// The attributes of a line, in order.
type Words<'a> = Vec<(&'a str, &'a str)>;

fn all<'a>(words: &Words<'a>, name: &'a str) -> impl Iterator<Item = &'a str> {
    words
        .iter()
        .filter(move |word| word.0 == name)
        .map(|word| word.1)
        .collect::<Vec<_>>()
        .into_iter()
}

fn one<'a>(words: &Words<'a>, name: &str) -> Option<&'a str> {
    words.iter().find(|word| word.0 == name).map(|word| word.1)
}

fn amount(text: &str) -> i64 {
    let units = [("Gi", 1i64 << 30), ("Mi", 1 << 20)];
    for (suffix, unit) in units {
        if let Some(number) = text.strip_suffix(suffix) {
            return (number.parse::<f64>().unwrap() * unit as f64) as i64;
        }
    }
    text.parse().unwrap_or_else(|_| panic!("amount {text}"))
}

fn millis(text: &str) -> i64 {
    text.strip_suffix('m').map_or_else(
        || (text.parse::<f64>().unwrap() * 1000.0) as i64,
        |m| m.parse().unwrap(),
    )
}

impl Reader {
    fn s(&self, text: &str) -> Sym {
        self.interner.intern(text)
    }

    fn key(&self, text: &str) -> Sym {
        match text {
            "zone" => sym::ZONE,
            "host" => sym::HOSTNAME,
            "type" => sym::INSTANCE_TYPE,
            "arch" => sym::ARCH,
            "os" => sym::OS,
            "ct" => sym::CAPACITY_TYPE,
            "pool" => sym::NODEPOOL,
            "region" => sym::REGION,
            other => self.s(other),
        }
    }

    fn line(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let (kind, name) = (words.next().unwrap(), words.next().unwrap_or_default());
        let words: Words<'_> = words.map(|word| word.split_once('=').unwrap_or((word, ""))).collect();
        match kind {
            "type" => self.instance_type(name, &words),
            "known" => self.known.push(self.s(name)),
            "pool" => self.pool(name, &words),
            "node" => self.node(name, &words),
            "bound" => self.bound(name, &words),
            "daemon" => {
                let pod = self.pod(name, &words);
                self.daemons.push(Arc::new(Daemon {
                    namespace: pod.namespace,
                    name: pod.name,
                    shape: pod.shape,
                }));
            }
            "pod" => match name.split_once('*') {
                Some((name, count)) => {
                    for number in 0..count.parse::<usize>().unwrap() {
                        let pod = self.pod(&format!("{name}-{number}"), &words);
                        self.pods.push(pod);
                    }
                }
                None => {
                    let pod = self.pod(name, &words);
                    self.pods.push(pod);
                }
            },
            other => panic!("what is {other}?"),
        }
    }

    fn resources(&self, words: &Words<'_>) -> Resources {
        let mut all = Resources::new();
        for (name, value) in words {
            match *name {
                "cpu" => all.set(sym::CPU, millis(value)),
                "mem" => all.set(sym::MEMORY, amount(value)),
                "pods" => all.set(sym::PODS, amount(value)),
                "gpu" => all.set(self.s("nvidia.com/gpu"), amount(value)),
                "huge" => all.set(self.s("hugepages-2Mi"), amount(value)),
                _ => {}
            }
        }
        all
    }

    fn requirement(&self, text: &str) -> Requirement {
        let mut parts = text.split(':');
        let key = self.key(parts.next().unwrap());
        let operator = parts.next().unwrap_or("exists");
        let values = parts.next().unwrap_or_default();
        let least = parts
            .next()
            .and_then(|least| least.strip_prefix("min="))
            .map(|least| least.parse().unwrap());
        let values = || {
            values
                .split(',')
                .filter(|value| !value.is_empty())
                .map(|value| self.s(value))
        };
        let number = || text.split(':').nth(2).unwrap().parse().unwrap();
        match Operator::parse(operator)
            .or_else(|| short(operator))
            .unwrap_or_else(|| panic!("operator in {text}"))
        {
            Operator::In => Requirement::any_of(key, values()),
            Operator::NotIn => Requirement::none_of(key, values()),
            Operator::Exists => Requirement::exists(key),
            Operator::DoesNotExist => Requirement::does_not_exist(key),
            Operator::Gt => Requirement::greater(key, number()),
            Operator::Lt => Requirement::less(key, number()),
            Operator::Gte => Requirement::between(key, Some(number()), None),
            Operator::Lte => Requirement::between(key, None, Some(number())),
        }
        .with_min_values(least)
    }

    fn offering(&self, capacity: &str, zone: &str, price: f64) -> Offering {
        let requirements = [
            Requirement::is(sym::CAPACITY_TYPE, self.s(capacity)),
            Requirement::is(sym::ZONE, self.s(zone)),
        ];
        Offering {
            requirements: Requirements::from_all(requirements, &self.interner),
            price: Price::from_per_hour(price).unwrap(),
            available: true,
            reservation: None,
            capacity_override: None,
            overhead_override: None,
        }
    }

    fn offerings(&self, words: &Words<'_>, zones: &[&str]) -> Vec<Offering> {
        let mut offerings = Vec::new();
        for (capacity, name) in [("on-demand", "price"), ("spot", "spot")] {
            if let Some(price) = one(words, name) {
                offerings.extend(
                    zones
                        .iter()
                        .map(|zone| self.offering(capacity, zone, price.parse().unwrap())),
                );
            }
        }
        for text in all(words, "offer") {
            let parts: Vec<&str> = text.split('/').collect();
            let mut offering = self.offering(parts[0], parts[1], parts[2].parse().unwrap());
            match parts.get(3).map(|flag| flag.split(':').collect::<Vec<_>>()).as_deref() {
                Some(["off"]) => offering.available = false,
                Some(["res", id, capacity]) => {
                    let id = self.s(id);
                    offering.reservation = Some(Reservation {
                        id,
                        capacity: capacity.parse().unwrap(),
                    });
                    offering
                        .requirements
                        .add(Requirement::is(self.s("reservation-id"), id), &self.interner);
                }
                Some(["more", cpu]) => {
                    offering.capacity_override = Some(Box::new(Resources::new().with(sym::CPU, millis(cpu))));
                }
                _ => {}
            }
            offerings.push(offering);
        }
        offerings
    }

    fn instance_type(&mut self, name: &str, words: &Words<'_>) {
        let zones: Vec<&str> = one(words, "zones").unwrap_or("a,b,c").split(',').collect();
        let offerings = self.offerings(words, &zones);
        let offered = all(words, "offer").filter_map(|text| text.split('/').nth(1));
        let zones: Vec<&str> = zones.into_iter().chain(offered).collect();
        let label = |key: &str, default: &str| {
            Requirement::any_of(
                self.key(key),
                one(words, key).unwrap_or(default).split(',').map(|value| self.s(value)),
            )
        };
        let mut capacity_types: Vec<Sym> = offerings.iter().filter_map(Offering::capacity_type).collect();
        capacity_types.dedup();
        let mut requirements = Requirements::from_all(
            [
                Requirement::is(sym::INSTANCE_TYPE, self.s(name)),
                label("arch", "amd64"),
                label("os", "linux"),
                Requirement::any_of(sym::ZONE, zones.iter().map(|zone| self.s(zone))),
                Requirement::any_of(sym::CAPACITY_TYPE, capacity_types),
                Requirement::does_not_exist(sym::REGION),
                Requirement::does_not_exist(sym::WINDOWS_BUILD),
            ],
            &self.interner,
        );
        for text in all(words, "has") {
            let (key, values) = text.split_once('=').unwrap();
            requirements.add(
                Requirement::any_of(self.key(key), values.split(',').map(|v| self.s(v))),
                &self.interner,
            );
        }
        let mut capacity = self.resources(words);
        if !capacity.contains(sym::PODS) {
            capacity.set(sym::PODS, 110);
        }
        let over: Words<'_> = all(words, "over").filter_map(|text| text.split_once('=')).collect();
        self.types.push(InstanceType {
            name: self.s(name),
            requirements,
            capacity,
            overhead: self.resources(&over),
            offerings,
            price_overlaid: false,
            capacity_overlaid: false,
        });
    }

    fn taint(text: &str) -> Taint {
        let (what, effect) = text.rsplit_once(':').unwrap_or((text, "NoSchedule"));
        let (key, value) = what.split_once('=').unwrap_or((what, ""));
        Taint {
            key: key.into(),
            value: value.into(),
            effect: Effect::parse(effect).unwrap(),
        }
    }

    fn pool(&mut self, name: &str, words: &Words<'_>) {
        let label = self.s(name);
        let mut labels = vec![(sym::NODEPOOL, label)];
        let own: Vec<(&str, &str)> = all(words, "label").filter_map(|text| text.split_once('=')).collect();
        labels.extend(own.iter().map(|(key, value)| (self.key(key), self.s(value))));
        labels.sort_unstable();
        let mut requirements = Requirements::from_labels(&labels, &self.interner);
        for text in all(words, "req") {
            requirements.add(self.requirement(text), &self.interner);
        }
        let mut limits: Option<Resources> = None;
        for (resource, value) in all(words, "limit").filter_map(|text| text.split_once(':')) {
            let value = if resource == "cpu" {
                millis(value)
            } else {
                amount(value)
            };
            let resource = if resource == "mem" {
                sym::MEMORY
            } else {
                self.s(resource)
            };
            limits.get_or_insert_default().set(resource, value);
        }
        let flag = |name: &str| one(words, name).is_some();
        self.pools.push(NodePool {
            weight: one(words, "weight").map_or(0, |weight| weight.parse().unwrap()),
            eligibility: match () {
                () if flag("static") => Eligibility::Static,
                () if flag("notready") => Eligibility::NotReady("not ready".into()),
                () if flag("deleting") => Eligibility::Deleting,
                () if flag("foreign") => Eligibility::ForeignNodeClass,
                () => Eligibility::Eligible,
            },
            requirements,
            labels,
            template_labels: Arc::new(own.into_iter().collect()),
            taints: all(words, "taint").map(Self::taint).collect(),
            startup_taints: all(words, "startup").map(Self::taint).collect(),
            limits,
            catalogue: Ok(Arc::new(Catalogue::default())),
            packing: PoolPacking::read(one(words, "packing"), one(words, "overhead")),
            ..NodePool::empty(name.into(), label)
        });
    }

    fn node(&mut self, name: &str, words: &Words<'_>) {
        let mut labels = vec![(sym::HOSTNAME, self.s(name))];
        labels.extend(one(words, "pool").map(|pool| (sym::NODEPOOL, self.s(pool))));
        labels.extend(one(words, "zone").map(|zone| (sym::ZONE, self.s(zone))));
        let own = all(words, "label").filter_map(|text| text.split_once('='));
        labels.extend(own.map(|(key, value)| (self.key(key), self.s(value))));
        labels.sort_unstable();
        let mut allocatable = self.resources(words);
        if !allocatable.contains(sym::PODS) {
            allocatable.set(sym::PODS, 110);
        }
        let managed = one(words, "pool").is_some();
        let flag = |name: &str| one(words, name).is_some();
        if flag("settling") {
            self.settling.push(name.to_owned());
        }
        let real = !flag("claim-only");
        self.nodes.push(Node {
            name: name.into(),
            node_name: real.then(|| name.into()),
            claim_name: managed.then(|| name.into()),
            provider_id: Some(name.into()),
            pool: one(words, "pool").map(|pool| self.s(pool)),
            registered: real && !flag("booting"),
            initialized: real && !flag("booting"),
            labels,
            hostname: self.s(name),
            taints: all(words, "taint").map(Self::taint).collect(),
            capacity: allocatable.clone().with(sym::NODES, 1),
            allocatable,
            requested: Resources::new(),
            daemon_requested: Resources::new(),
            pods: Vec::new(),
            volume_limits: all(words, "attach")
                .filter_map(|text| text.split_once(':'))
                .map(|(driver, limit)| (driver.into(), limit.parse().unwrap()))
                .collect(),
            marked_for_deletion: flag("deleting"),
            nominated_until: None,
            created: Timestamp::UNIX_EPOCH,
            price: None,
            managed,
            lifecycle: NodeLifecycle::default(),
        });
    }

    fn bound(&mut self, node: &str, words: &Words<'_>) {
        let name = words[0].0;
        let mut pod = self.pod(name, words);
        pod.node_name = Some(node.into());
        pod.phase = Phase::Running;
        if one(words, "terminating").is_some() {
            pod.deletion = Some(Timestamp::UNIX_EPOCH);
        }
        let daemon = one(words, "daemon").is_some();
        if daemon {
            pod.owner = Owner::DaemonSet;
        }
        let node = self
            .nodes
            .iter_mut()
            .find(|known| *known.name == *node)
            .expect("a node of that name");
        node.requested.add(&pod.shape.requests);
        if daemon {
            node.daemon_requested.add(&pod.shape.requests);
        }
        let moves = one(words, "moving").is_some();
        node.pods.push(Arc::new(pod.clone()));
        if moves {
            self.pods.push(pod);
        }
    }

    fn pod(&self, name: &str, words: &Words<'_>) -> Pod {
        let namespace: Arc<str> = one(words, "ns").unwrap_or("default").into();
        let labels: LabelSet = all(words, "label").filter_map(|text| text.split_once('=')).collect();
        let number = self.pods.len();
        let mut requests = self.resources(words);
        requests.set(sym::PODS, 1);
        let selector = all(words, "select").map(|text| self.requirement(text));
        let terms = |text: &str| text.split('+').map(|part| self.requirement(part)).collect::<Vec<_>>();
        let mut shape = PodShape {
            requests,
            node_selector: Requirements::from_all(selector, &self.interner),
            required_terms: all(words, "term").map(terms).collect(),
            preferred_terms: all(words, "prefer")
                .filter_map(|text| text.split_once('/'))
                .map(|(weight, text)| (weight.parse().unwrap(), terms(text)))
                .collect(),
            tolerations: all(words, "tol").map(toleration).collect(),
            spread: all(words, "spread").map(|text| self.spread(text)).collect(),
            host_ports: all(words, "port").map(host_port).collect(),
            ..PodShape::default()
        };
        for (word, value) in words {
            let (kind, weight) = word
                .split_once('~')
                .map_or((*word, None), |(kind, weight)| (kind, Some(weight)));
            let (hard, soft) = match kind {
                "near" => (&mut shape.affinity, &mut shape.preferred_affinity),
                "apart" => (&mut shape.anti_affinity, &mut shape.preferred_anti_affinity),
                _ => continue,
            };
            let (key, selected) = value.split_once('/').unwrap();
            let (selected, names) = selected.split_once('@').unwrap_or((selected, &namespace));
            let names = names.split(',').map(Arc::from).collect();
            let namespaces = NamespaceScope { names, selector: None };
            let term = AffinityTerm {
                key: self.key(key),
                selector: selector_of(selected),
                namespaces,
            };
            match weight {
                Some(weight) => soft.push((weight.parse().unwrap(), term)),
                None => hard.push(term),
            }
        }
        Pod {
            labels: Arc::new(labels),
            shape: Arc::new(shape),
            volumes: all(words, "vol").map(|text| self.volume(text)).collect(),
            faults: all(words, "faulty")
                .map(|text| PodFault::Malformed(text.into()))
                .collect(),
            created: Timestamp::from_second(number as i64).unwrap(),
            owner: Owner::ReplicaSet,
            grace_seconds: Some(30),
            ..Pod::new(&namespace, name)
        }
    }

    fn spread(&self, text: &str) -> SpreadConstraint {
        let parts: Vec<&str> = text.split('/').collect();
        let min = parts.iter().find_map(|part| part.strip_prefix("min="));
        SpreadConstraint {
            key: self.key(parts[0]),
            max_skew: parts[1].parse().unwrap(),
            required: !parts.contains(&"soft"),
            min_domains: min.map(|min| min.parse().unwrap()),
            selector: selector_of(parts[2]),
            honor_node_affinity: !parts.contains(&"anynode"),
            honor_taints: parts.contains(&"taints"),
        }
    }

    fn volume(&self, text: &str) -> PodVolume {
        let parts: Vec<&str> = text.split('/').collect();
        let topology = parts.get(2).map_or_else(Vec::new, |alternatives| {
            let one = |text: &str| Requirements::from_all([self.requirement(text)], &self.interner);
            alternatives.split('|').map(one).collect()
        });
        let driver = parts
            .get(1)
            .filter(|driver| !driver.is_empty())
            .map(|driver| Arc::from(*driver));
        PodVolume {
            claim: format!("default/{}", parts[0]).into(),
            driver,
            topology,
        }
    }

    fn finish(self) -> Fixture {
        let catalogue = Arc::new(Catalogue { types: self.types });
        let mut snapshot = Snapshot::new(Arc::clone(&self.interner));
        let known = snapshot.well_known.iter().chain(&self.known).copied();
        let mut known: Vec<Sym> = known.collect();
        known.sort_unstable();
        snapshot.well_known = known.into();
        snapshot.reservation_key = Some(self.interner.intern("reservation-id"));
        for mut pool in self.pools {
            for node in self
                .nodes
                .iter()
                .filter(|node| node.pool == Some(pool.label) && !node.marked_for_deletion)
            {
                pool.usage.add(&node.capacity);
            }
            pool.catalogue = Ok(Arc::clone(&catalogue));
            snapshot.pools.push(Arc::new(pool));
        }
        snapshot.pools.sort_by(|a, b| a.name.cmp(&b.name));
        snapshot.nodes = self.nodes.into_iter().map(Arc::new).collect();
        snapshot.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        snapshot.daemons = self.daemons;
        snapshot.pending = self.pods.into_iter().map(Arc::new).collect();
        let settling = |name: &String| snapshot.nodes.iter().position(|node| *node.name == **name);
        let settling = self.settling.iter().filter_map(settling).collect();
        Fixture { snapshot, settling }
    }
}

fn short(operator: &str) -> Option<Operator> {
    Some(match operator {
        "in" => Operator::In,
        "notin" => Operator::NotIn,
        "exists" => Operator::Exists,
        "absent" => Operator::DoesNotExist,
        "gt" => Operator::Gt,
        "lt" => Operator::Lt,
        _ => return None,
    })
}

fn selector_of(text: &str) -> LabelSelector {
    match text {
        "!" => LabelSelector::Nothing,
        "*" => LabelSelector::all([]),
        other => LabelSelector::all(other.split(',').map(|part| match part.split_once('=') {
            Some((key, value)) => Match::any_of(key, [Arc::from(value)]),
            None => Match::Exists(part.into()),
        })),
    }
}

fn toleration(text: &str) -> Toleration {
    if text == "*" {
        return Toleration {
            key: None,
            operator: TolerationOperator::Exists,
            value: "".into(),
            effect: None,
        };
    }
    let (what, effect) = text
        .split_once(':')
        .map_or((text, None), |(what, effect)| (what, Effect::parse(effect)));
    let (key, operator, value) = match what.split_once('=') {
        Some((key, value)) => (key, TolerationOperator::Equal, value),
        None => (what, TolerationOperator::Exists, ""),
    };
    Toleration {
        key: Some(key.into()),
        operator,
        value: value.into(),
        effect,
    }
}

fn host_port(text: &str) -> HostPort {
    let (text, ip) = text.split_once('@').unwrap_or((text, "0.0.0.0"));
    let (port, protocol) = text.split_once('/').unwrap_or((text, "TCP"));
    HostPort {
        ip: ip.into(),
        port: port.parse().unwrap(),
        protocol: protocol.into(),
    }
}
