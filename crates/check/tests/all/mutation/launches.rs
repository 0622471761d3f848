//! Plans that launch nodes, changed where a launch meets the catalogue, its pool and its pods.
//!
//! No pods depend on each other here except through host ports: [`super::worlds`] and [`super::open_launches`] cover topology.

#![expect(clippy::disallowed_methods, reason = "plans are made with the model's own functions")]

use super::{assert_good_and_bad, draws};
use kerf_check::{CheckOptions, verify};
use kerf_model::instance_type::{Catalogue, InstanceType, Offering};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::plan::{Launch, Plan};
use kerf_model::pod::{Pod, PodShape};
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_model::taint::{Effect, Taint};
use kerf_testkit::draw::Draw;
use kerf_testkit::fixture::{Fixture, upstream};
use kerf_testkit::seeds::hold;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Up to four types in some zones, one or two pools, and a few pods. The first line holds the seed of the changes.
fn cluster(draw: &mut Draw) -> String {
    let mut lines = vec![format!("# changes {}", draw.next() % 1_000_000)];
    for number in 0..2 + draw.below(3) {
        let (cpu, zones) = (draw.pick(&[2, 4, 8]), draw.pick(&["a", "a,b", "a,b,c"]));
        let (arch, spot) = (
            draw.pick(&["amd64", "amd64", "arm64"]),
            draw.pick(&["", "spot=0.03", "spot=0.11"]),
        );
        let price = f64::from(cpu) * 0.04 + draw.below(50) as f64 * 0.001;
        lines.push(format!(
            "type t{number} cpu={cpu} mem=16Gi price={price:.3} {spot} zones={zones} arch={arch}"
        ));
    }
    for number in 0..1 + draw.below(2) {
        let extra = draw.pick(&[
            "",
            "taint=team:NoSchedule",
            "req=zone:in:a,b",
            "limit=cpu:30",
            "req=ct:in:on-demand",
        ]);
        lines.push(format!("pool p{number} weight={} {extra}", draw.below(2)));
    }
    if draw.below(2) == 0 {
        let place = draw.pick(&["", "select=arch:in:amd64", "tol=*", "tol=* port=80"]);
        lines.push(format!("daemon d cpu=0.2 mem=1Gi {place}"));
    }
    for number in 0..1 + draw.below(4) {
        let rules = [
            "",
            "tol=team",
            "tol=*",
            "port=8080",
            "select=arch:in:arm64",
            "select=zone:in:a,c",
            "select=zone:notin:b",
            "term=zone:in:c term=ct:in:spot",
        ];
        let (cpu, count) = (draw.pick(&["0.3", "1", "1.5", "3"]), 1 + draw.below(3));
        lines.push(format!(
            "pod w{number}*{count} cpu={cpu} mem=1Gi {} {}",
            draw.pick(&rules),
            draw.pick(&rules)
        ));
    }
    lines.join("\n")
}

/// A cluster, pods and a plan for them; every change is made to all three.
struct Planned {
    snapshot: Snapshot,
    pods: Vec<Arc<Pod>>,
    plan: Plan,
}

impl Planned {
    fn change_catalogue(&mut self, change: impl FnOnce(&mut Catalogue)) {
        let Some(catalogue) = self.snapshot.pools.first().and_then(|pool| pool.catalogue.clone().ok()) else {
            return;
        };
        let mut changed = (*catalogue).clone();
        change(&mut changed);
        let changed = Arc::new(changed);
        for pool in &mut self.snapshot.pools {
            Arc::make_mut(pool).catalogue = Ok(Arc::clone(&changed));
        }
        for launch in &mut self.plan.launches {
            launch.catalogue = Arc::clone(&changed);
        }
    }

    /// Changes the pod and keeps the launch's statement of requests true.
    fn change_pod(&mut self, at: usize, change: impl FnOnce(&mut PodShape)) {
        let mut pod = (*self.pods[at]).clone();
        let before = pod.shape.requests.clone();
        change(Arc::make_mut(&mut pod.shape));
        let pod = Arc::new(pod);
        for launch in &mut self.plan.launches {
            for planned in launch.pods.iter_mut().filter(|planned| planned.uid == pod.uid) {
                *planned = Arc::clone(&pod);
                let requests = launch.requests.iter().map(|(name, amount)| {
                    let more = amount_of(&pod.shape.requests, name) - amount_of(&before, name);
                    (name, amount + more)
                });
                launch.requests = requests.collect::<Vec<_>>().into_iter().collect();
            }
        }
        let left = self
            .plan
            .unschedulable
            .iter_mut()
            .filter(|left| left.pod.uid == pod.uid);
        left.for_each(|left| left.pod = Arc::clone(&pod));
        self.pods[at] = pod;
    }

    /// Exchanges a pod of one launch for a pod of another and keeps their statements of requests true.
    fn exchange_pods(&mut self, draw: &mut Draw) {
        let launches = &mut self.plan.launches;
        let one = draw.below(launches.len().max(1));
        let (before, after) = launches.split_at_mut(one);
        let Some((one, after)) = after.split_first_mut() else {
            return;
        };
        let mut others: Vec<&mut Launch> = before.iter_mut().chain(after).collect();
        if others.is_empty() {
            return;
        }
        let other = others.swap_remove(draw.below(others.len()));
        let at = [&*one, &*other].map(|launch| draw.below(launch.pods.len()));
        let pods = [Arc::clone(&one.pods[at[0]]), Arc::clone(&other.pods[at[1]])];
        for (launch, at, gone, come) in [(one, at[0], &pods[0], &pods[1]), (other, at[1], &pods[1], &pods[0])] {
            launch.pods[at] = Arc::clone(come);
            launch.requests.subtract(&gone.shape.requests);
            launch.requests.add(&come.shape.requests);
        }
    }

    fn change(&mut self, draw: &mut Draw) {
        let interner = Arc::clone(&self.snapshot.interner);
        let offered =
            |pool: &kerf_model::nodepool::NodePool| pool.catalogue.as_ref().is_ok_and(|all| !all.types.is_empty());
        if self.pods.is_empty() || !self.snapshot.pools.iter().any(|pool| offered(pool)) {
            return;
        }
        let at = draw.below(self.pods.len());
        let zone = interner.intern(draw.pick(&["a", "b", "c"]));
        match draw.below(10) {
            0 => self.change_catalogue(|catalogue| {
                let offerings = catalogue.types.iter_mut().flat_map(|kind| &mut kind.offerings);
                let closed = offerings.filter(|offering| only(&offering.requirements, sym::ZONE) == Some(zone));
                closed.for_each(|offering| offering.available = false);
            }),
            1 => self.change_catalogue(|catalogue| any_offering(draw, catalogue).available = false),
            2 => self.change_catalogue(|catalogue| {
                any_offering(draw, catalogue).price =
                    Price::from_per_hour(0.001 + draw.below(500) as f64 * 0.001).expect("a price");
            }),
            3 => self.change_pod(at, |shape| shape.requests.set(sym::CPU, draw.pick(&[100, 2000, 4000]))),
            4 => self.change_pod(at, |shape| {
                shape.node_selector = Requirements::from_all([Requirement::is(sym::ZONE, zone)], &interner);
            }),
            5 => self.change_pod(at, |shape| shape.tolerations.clear()),
            6 => self.exchange_pods(draw),
            7 => self.change_catalogue(|catalogue| {
                let at = draw.below(catalogue.types.len());
                let key = draw.pick(&[sym::ARCH, sym::ARCH, sym::OS, sym::ZONE, sym::CAPACITY_TYPE]);
                catalogue.types[at].requirements.remove(key);
            }),
            8 => {
                let pool = draw.below(self.snapshot.pools.len());
                Arc::make_mut(&mut self.snapshot.pools[pool]).limits =
                    Some(Resources::new().with(sym::CPU, draw.pick(&[3000, 9000, 20_000])));
            }
            _ => {
                let pool = draw.below(self.snapshot.pools.len());
                let taint = Taint {
                    key: "team".into(),
                    value: "".into(),
                    effect: draw.pick(&[Effect::NoExecute, Effect::PreferNoSchedule]),
                };
                Arc::make_mut(&mut self.snapshot.pools[pool]).taints.push(taint);
            }
        }
    }
}

fn any_offering<'c>(draw: &mut Draw, catalogue: &'c mut Catalogue) -> &'c mut Offering {
    let at = draw.below(catalogue.types.len());
    let offerings = &mut catalogue.types[at].offerings;
    let at = draw.below(offerings.len());
    &mut offerings[at]
}

fn amount_of(resources: &Resources, name: Sym) -> i64 {
    resources
        .iter()
        .find(|(known, _)| *known == name)
        .map_or(0, |(_, amount)| amount)
}

/// The values a set lists for a key; `None` where it does not list any.
fn listed(requirements: &Requirements, key: Sym) -> Option<BTreeSet<Sym>> {
    let own = requirements.iter().find(|one| one.key == key && !one.complement);
    own.map(|one| one.values.iter().copied().collect())
}

pub(super) fn only(requirements: &Requirements, key: Sym) -> Option<Sym> {
    listed(requirements, key).and_then(|values| values.first().copied())
}

/// Whether zone and capacity type of an offering are among those a launch requires, and the offering can be had.
pub(super) fn usable(launch: &Launch, offering: &Offering) -> bool {
    let allowed = |key| {
        listed(&launch.requirements, key)
            .is_none_or(|values| values.contains(&only(&offering.requirements, key).expect("a value")))
    };
    let excluded = |key| {
        launch.requirements.iter().any(|one| {
            one.key == key
                && one.complement
                && one
                    .values
                    .contains(&only(&offering.requirements, key).expect("a value"))
        })
    };
    offering.available
        && [sym::ZONE, sym::CAPACITY_TYPE]
            .into_iter()
            .all(|key| allowed(key) && !excluded(key))
}

/// The value of one of the labels pods select by here: that of the offering, of its type or, where neither has one, of the launch.
fn label(launch: &Launch, kind: &InstanceType, offering: &Offering, key: Sym) -> Option<Sym> {
    let of_launch = || listed(&launch.requirements, key).filter(|values| values.len() == 1);
    only(&offering.requirements, key)
        .or_else(|| only(&kind.requirements, key))
        .or_else(|| of_launch()?.first().copied())
}

/// Whether labels are those the shape selects, where `missing` says whether a missing one is.
fn selects(shape: &PodShape, value: impl Fn(Sym) -> Option<Sym>, missing: impl Fn(&Requirement) -> bool) -> bool {
    let holds = |one: &Requirement| match value(one.key) {
        Some(value) => one.values.contains(&value) != one.complement,
        None => missing(one),
    };
    let terms = &shape.required_terms;
    shape.node_selector.iter().all(holds) && (terms.is_empty() || terms.iter().any(|term| term.iter().all(holds)))
}

/// Kubernetes' rule: only `NotIn` selects nodes without the label.
fn selected(shape: &PodShape, value: impl Fn(Sym) -> Option<Sym>) -> bool {
    selects(shape, value, |one| one.complement)
}

fn tolerated(shape: &PodShape, taints: &[Taint]) -> bool {
    let matching = |taint: &Taint| {
        shape
            .tolerations
            .iter()
            .any(|own| own.key.as_deref().is_none_or(|key| key == &*taint.key))
    };
    taints
        .iter()
        .all(|taint| taint.effect == Effect::PreferNoSchedule || matching(taint))
}

/// What is wrong with a launch, if anything.
fn objection(planned: &Planned, launch: &Launch) -> Option<&'static str> {
    let pool = planned.snapshot.pools.iter().find(|pool| pool.name == launch.pool)?;
    if !launch.pods.iter().all(|pod| tolerated(&pod.shape, &pool.taints)) {
        return Some("a taint is not tolerated");
    }
    let tolerating = || {
        let daemons = planned.snapshot.daemons.iter().map(|daemon| &*daemon.shape);
        daemons.filter(|shape| tolerated(shape, &pool.taints))
    };
    // SCH-154: a label the type lacks does not keep a daemon from counting.
    let counted = |kind: &InstanceType| {
        let selected = |shape: &&PodShape| selects(shape, |key| only(&kind.requirements, key), |_| true);
        tolerating().filter(selected).collect::<Vec<_>>()
    };
    let running = |kind: &InstanceType, offering: &Offering| {
        let selected = |shape: &&PodShape| selected(shape, |key| label(launch, kind, offering, key));
        tolerating().filter(selected).collect::<Vec<_>>()
    };
    let sum = |shapes: &[&PodShape], name| -> i64 { shapes.iter().map(|shape| amount_of(&shape.requests, name)).sum() };
    let pods: Vec<&PodShape> = launch.pods.iter().map(|pod| &*pod.shape).collect();
    let mut prices = Vec::new();
    let mut capacity_types = BTreeSet::new();
    for at in &launch.types {
        let kind = &launch.catalogue.types[*at as usize];
        let offerings: Vec<&Offering> = kind
            .offerings
            .iter()
            .filter(|offering| usable(launch, offering))
            .collect();
        prices.push(offerings.iter().map(|offering| offering.price).min());
        capacity_types.extend(
            offerings
                .iter()
                .filter_map(|offering| only(&offering.requirements, sym::CAPACITY_TYPE)),
        );
        if pods.iter().any(|shape| {
            offerings
                .iter()
                .any(|offering| !selected(shape, |key| label(launch, kind, offering, key)))
        }) {
            return Some("a pod does not select what the launch may become");
        }
        // Daemons select by nothing here in which the offerings of a type differ.
        let daemons = offerings.first().map(|offering| running(kind, offering));
        let all: Vec<&PodShape> = pods.iter().copied().chain(daemons.unwrap_or_default()).collect();
        if [sym::CPU, sym::MEMORY, sym::PODS]
            .into_iter()
            .any(|name| sum(&all, name) > amount_of(&kind.capacity, name))
        {
            return Some("a type does not hold the pods");
        }
        let ports = |shape: &PodShape| shape.host_ports.iter().map(|port| port.port).collect::<BTreeSet<u16>>();
        let ports: Vec<u16> = all.iter().flat_map(|shape| ports(shape)).collect();
        if ports.iter().collect::<BTreeSet<_>>().len() < ports.len() {
            return Some("two pods want one port");
        }
    }
    if prices.iter().any(Option::is_none) || !prices.is_sorted() {
        return Some("a type cannot be had, or the types are not in order of price");
    }
    let stated = launch
        .cheapest
        .map(|(kind, offering)| &launch.catalogue.types[kind as usize].offerings[offering as usize]);
    let stated = stated
        .filter(|offering| usable(launch, offering))
        .map(|offering| offering.price);
    if stated != prices.into_iter().flatten().min() {
        return Some("the cheapest offering is another");
    }
    if listed(&launch.requirements, sym::CAPACITY_TYPE).is_some_and(|all| !all.is_subset(&capacity_types)) {
        return Some("no type has an offering of a required capacity type");
    }
    let overhead = launch
        .types
        .iter()
        .map(|at| counted(&launch.catalogue.types[*at as usize]));
    let least = |name| overhead.clone().map(|shapes| sum(&shapes, name)).min().unwrap_or(0);
    let misstated = |name| amount_of(&launch.requests, name) != least(name) + sum(&pods, name);
    [sym::CPU, sym::MEMORY, sym::PODS]
        .into_iter()
        .any(misstated)
        .then_some("the requests are not the sum")
}

/// The largest machines the launches of a pool may become stay within its limit of processors.
fn over_limit(planned: &Planned) -> bool {
    planned.snapshot.pools.iter().any(|pool| {
        let own = planned.plan.launches.iter().filter(|launch| launch.pool == pool.name);
        let largest = own.map(|launch| {
            let types = launch.types.iter().map(|at| &launch.catalogue.types[*at as usize]);
            types.map(|kind| amount_of(&kind.capacity, sym::CPU)).max().unwrap_or(0)
        });
        pool.limits
            .as_ref()
            .is_some_and(|limits| largest.sum::<i64>() > amount_of(limits, sym::CPU))
    })
}

fn agree(planned: &Planned) -> Result<bool, String> {
    let found = verify(
        &planned.snapshot,
        &planned.pods,
        &planned.plan,
        &CheckOptions::default(),
    );
    let mut objections = planned
        .plan
        .launches
        .iter()
        .filter_map(|launch| objection(planned, launch));
    let objection = objections
        .next()
        .or_else(|| over_limit(planned).then_some("a pool's limit"));
    match (objection, found.is_empty()) {
        (None, true) => Ok(true),
        (Some(_), false) => Ok(false),
        (Some(why), true) => Err(format!("the checker accepts, but {why}: {}", shown(planned))),
        (None, false) => {
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            Err(format!(
                "only the checker objects: {}\n{}",
                found.join("; "),
                shown(planned)
            ))
        }
    }
}

fn shown(planned: &Planned) -> String {
    let interner: &Interner = &planned.snapshot.interner;
    let launches = planned.plan.launches.iter().map(|launch| {
        let pods: Vec<&str> = launch.pods.iter().map(|pod| &*pod.name).collect();
        let types: Vec<&str> = launch
            .types
            .iter()
            .map(|at| interner.text(launch.catalogue.types[*at as usize].name))
            .collect();
        format!(
            "{} {types:?} {} for {pods:?}",
            launch.pool,
            launch.requirements.print(interner)
        )
    });
    launches.collect::<Vec<_>>().join("\n")
}

fn solved(text: &str) -> Result<Planned, String> {
    let fixture = Fixture::read(text);
    let plan = fixture.try_solve(&upstream())?;
    let pods = fixture.snapshot.pending.clone();
    Ok(Planned {
        snapshot: fixture.snapshot,
        pods,
        plan,
    })
}

fn changed_launches_are_judged_alike(text: &str) -> Result<(), String> {
    let mut draw = draws(text, "# changes ");
    if !agree(&solved(text)?)? {
        return Err("both object to the solver's plan".to_owned());
    }
    for _ in 0..6 {
        let mut planned = solved(text)?;
        if planned.pods.is_empty() {
            return Ok(());
        }
        for _ in 0..1 + draw.below(2) {
            planned.change(&mut draw);
        }
        agree(&planned)?;
    }
    Ok(())
}

#[test]
fn the_checker_objects_to_launches_exactly_where_brute_force_does() {
    hold(20, cluster, changed_launches_are_judged_alike);
}

#[test]
fn changes_make_launches_good_and_bad() {
    assert_good_and_bad(0..200, |seed| {
        let mut draw = Draw::new(seed);
        let mut planned = solved(&cluster(&mut draw)).expect("a sound plan");
        planned.change(&mut draw);
        Some(agree(&planned))
    });
}
