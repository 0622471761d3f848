//! A pod's effective request (SCH-120): what must be free on a node for kube-scheduler to put it there.

use super::ceil;
use crate::lean::{Amounts, LeanContainer, LeanContainerStatus, LeanPodSpec, LeanPodStatus};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::resources::Resources;
use kerf_units::quantity::Quantity;
use smallvec::SmallVec;

/// The effective request of a pod, with `pods: 1`. Amounts that cannot be read are named in `faults` and left out.
pub(super) fn effective(
    spec: &LeanPodSpec,
    status: &LeanPodStatus,
    interner: &Interner,
    faults: &mut Vec<String>,
) -> Resources {
    let mut reader = Reader { interner, faults };
    let resize = Resize {
        infeasible: status
            .conditions
            .iter()
            .any(|condition| condition.kind == "PodResizePending" && condition.reason == "Infeasible"),
    };
    let mut total = Amount::default();
    for container in &spec.containers {
        total.add(&resize.container(container, &status.container_statuses, &mut reader));
    }
    let mut sidecars = Amount::default();
    let mut starting = Amount::default();
    for container in &spec.init_containers {
        if container.restart_policy.as_deref() == Some("Always") {
            let own = resize.container(container, &status.init_container_statuses, &mut reader);
            total.add(&own);
            sidecars.add(&own);
            starting.max(&sidecars);
        } else {
            let mut own = reader.read(&container.resources.requests, || {
                format!("init container {}: requests", container.name)
            });
            own.add(&sidecars);
            starting.max(&own);
        }
    }
    total.max(&starting);
    let pod_level = reader.read(&spec.resources.requests, || "pod-level requests".to_owned());
    for (name, quantity) in pod_level.0 {
        if matches!(name, sym::CPU | sym::MEMORY) || interner.text(name).starts_with("hugepages-") {
            total.set(name, quantity);
        }
    }
    total.add(&reader.read(&spec.overhead, || "overhead".to_owned()));
    let requests: Resources = total
        .0
        .iter()
        .map(|(name, quantity)| (*name, ceil(*name, quantity)))
        .collect();
    requests.with(sym::PODS, 1)
}

/// The effective limits of a pod, as Kubernetes adds them up. Amounts that cannot be read are left out.
pub(super) fn limits(spec: &LeanPodSpec, interner: &Interner) -> Resources {
    let mut faults = Vec::new();
    let mut reader = Reader {
        interner,
        faults: &mut faults,
    };
    let mut read = |amounts: &Amounts| reader.read(amounts, String::new);
    let mut total = Amount::default();
    for container in &spec.containers {
        total.add(&read(&container.resources.limits));
    }
    let mut sidecars = Amount::default();
    let mut starting = Amount::default();
    for container in &spec.init_containers {
        let mut own = read(&container.resources.limits);
        if container.restart_policy.as_deref() == Some("Always") {
            total.add(&own);
            sidecars.add(&own);
            starting.max(&sidecars);
        } else {
            own.add(&sidecars);
            starting.max(&own);
        }
    }
    total.max(&starting);
    for (name, quantity) in read(&spec.resources.limits).0 {
        total.set(name, quantity);
    }
    // Overhead counts for what is limited.
    let mut overhead = read(&spec.overhead);
    overhead.0.retain(|(name, _)| total.find(*name).is_some());
    total.add(&overhead);
    let whole = |(name, quantity): &(Sym, Quantity)| (*name, ceil(*name, quantity));
    total.0.iter().map(whole).collect()
}

/// Gives containers without a request their limit (SCH-121). The API server does this for pods, but not for templates.
pub(crate) fn default_from_limits(spec: &mut LeanPodSpec) {
    for container in spec.containers.iter_mut().chain(&mut spec.init_containers) {
        let resources = &mut container.resources;
        for (name, amount) in &resources.limits.0 {
            if resources.requests.get(name).is_none() {
                resources.requests.0.push((name.clone(), amount.clone()));
            }
        }
    }
}

struct Reader<'a> {
    interner: &'a Interner,
    faults: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn read(&mut self, amounts: &Amounts, owner: impl Fn() -> String) -> Amount {
        let mut read = Amount::default();
        for (name, amount) in amounts.iter() {
            match &amount.0 {
                Ok(quantity) if quantity.is_negative() => {
                    self.faults.push(format!(
                        "{}.{name}: quantity {quantity} is negative; ask for zero or more",
                        owner()
                    ));
                }
                Ok(quantity) => read.set(self.interner.intern(name), quantity.clone()),
                Err(why) => self.faults.push(format!("{}.{name}: {why}", owner())),
            }
        }
        read
    }
}

/// How a resize in place changes what a container counts with.
struct Resize {
    infeasible: bool,
}

impl Resize {
    /// The larger of spec, actuated and allocated requests; of the last two alone where the resize cannot be done.
    fn container(
        &self,
        container: &LeanContainer,
        statuses: &[LeanContainerStatus],
        reader: &mut Reader<'_>,
    ) -> Amount {
        let owner = || format!("container {}: requests", container.name);
        let spec = reader.read(&container.resources.requests, owner);
        let status = statuses.iter().find(|status| status.name == container.name);
        let Some((status, actuated)) = status.and_then(|status| Some((status, status.resources.as_ref()?))) else {
            return spec;
        };
        let mut own = if self.infeasible { Amount::default() } else { spec };
        own.max(&reader.read(&actuated.requests, owner));
        own.max(&reader.read(&status.allocated_resources, owner));
        own
    }
}

/// Exact amounts while they are summed: rounding comes once, at the end.
#[derive(Default)]
struct Amount(SmallVec<[(Sym, Quantity); 4]>);

impl Amount {
    fn find(&mut self, name: Sym) -> Option<&mut Quantity> {
        self.0
            .iter_mut()
            .find(|(known, _)| *known == name)
            .map(|(_, quantity)| quantity)
    }

    fn set(&mut self, name: Sym, quantity: Quantity) {
        match self.find(name) {
            Some(known) => *known = quantity,
            None => self.0.push((name, quantity)),
        }
    }

    fn add(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            match self.find(*name) {
                Some(known) => *known = known.saturating_add(quantity),
                None => self.0.push((*name, quantity.clone())),
            }
        }
    }

    fn max(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            match self.find(*name) {
                Some(known) if *known < *quantity => *known = quantity.clone(),
                Some(_) => {}
                None => self.0.push((*name, quantity.clone())),
            }
        }
    }
}
