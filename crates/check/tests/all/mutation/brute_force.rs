//! The rules of Kubernetes for pods on existing nodes, stated once more and tried in every order of binding.
//!
//! Two rules are Karpenter's: nothing goes to a node that is being deleted, nor does such a node open a domain of topology spread; and
//! room is left for DaemonSet pods that are not on the node yet.

use kerf_model::intern::{Interner, Sym};
use kerf_model::node::Node;
use kerf_model::plan::Plan;
use kerf_model::pod::{AffinityTerm, HostPort, Pod, SpreadConstraint};
use kerf_model::requirement::Requirement;
use kerf_model::selector::{LabelSelector, LabelSet, Match};
use kerf_model::snapshot::Snapshot;
use kerf_model::taint::{Effect, Taint, Toleration, TolerationOperator};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A pod and the node it is on.
type At<'a> = (&'a Pod, &'a Node);

/// The pods on each node before the plan, and the pods that the plan places.
pub(super) struct Problem<'a> {
    snapshot: &'a Snapshot,
    bound: Vec<At<'a>>,
    placed: Vec<At<'a>>,
}

impl<'a> Problem<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, plan: &'a Plan) -> Self {
        let node = |name: &str| snapshot.nodes.iter().find(|node| *node.name == *name);
        let of = |node: &'a Arc<Node>| node.pods.iter().map(move |pod| (&**pod, &**node));
        let placed = plan
            .existing
            .iter()
            .filter_map(|placed| Some((node(&placed.node)?, &placed.pods)));
        Self {
            snapshot,
            bound: snapshot.nodes.iter().flat_map(of).collect(),
            placed: placed
                .flat_map(|(node, pods)| pods.iter().map(|pod| (&**pod, &**node)))
                .collect(),
        }
    }

    fn interner(&self) -> &Interner {
        &self.snapshot.interner
    }

    fn everybody(&self) -> impl Iterator<Item = At<'a>> {
        self.bound.iter().chain(&self.placed).copied()
    }
}

/// Why the plan cannot be carried out; nothing where it can.
pub(super) fn objection(problem: &Problem<'_>) -> Option<String> {
    for (pod, node) in &problem.placed {
        if let Some(why) = refusal(problem, pod, node) {
            return Some(format!("{} on {}: {why}", pod.name, node.name));
        }
    }
    let mut dead_ends = BTreeSet::new();
    (!some_order_works(problem, 0, &mut dead_ends)).then(|| "no order of binding works".to_owned())
}

/// The reason why a node cannot take a pod in any order of binding.
fn refusal(problem: &Problem<'_>, pod: &Pod, node: &Node) -> Option<String> {
    if node.marked_for_deletion {
        return Some("the node is being deleted".to_owned());
    }
    if node.taints.iter().any(|taint| repels(taint, pod)) {
        return Some("a taint is not tolerated".to_owned());
    }
    if !admits(problem, pod, node) {
        return Some("node selector or affinity".to_owned());
    }
    let reachable = |terms: &[kerf_model::requirement::Requirements]| {
        let holds =
            |wanted: &Requirement| satisfied(wanted, label(node, wanted.key, problem.interner()), problem.interner());
        terms.is_empty() || terms.iter().any(|term| term.iter().all(holds))
    };
    if !pod.volumes.iter().all(|volume| reachable(&volume.topology)) {
        return Some("a volume is elsewhere".to_owned());
    }
    let neighbours: Vec<&Pod> = problem
        .everybody()
        .filter(|(_, at)| at.name == node.name)
        .map(|(pod, _)| pod)
        .collect();
    room(problem, node, &neighbours)
        .or_else(|| attach_limit(node, &neighbours, pod))
        .or_else(|| taken_port(problem, node, &neighbours, pod))
        .or_else(|| repulsion(problem, pod, node))
}

fn repels(taint: &Taint, pod: &Pod) -> bool {
    let tolerates = |toleration: &Toleration| {
        toleration.key.as_deref().is_none_or(|key| key == &*taint.key)
            && toleration.effect.is_none_or(|effect| effect == taint.effect)
            && (toleration.operator == TolerationOperator::Exists || toleration.value == taint.value)
    };
    taint.effect != Effect::PreferNoSchedule && !pod.shape.tolerations.iter().any(tolerates)
}

fn label<'a>(node: &Node, key: Sym, interner: &'a Interner) -> Option<&'a str> {
    let own = node.labels.iter().find(|(known, _)| *known == key);
    own.map(|(_, value)| interner.text(*value))
}

fn satisfied(wanted: &Requirement, label: Option<&str>, interner: &Interner) -> bool {
    let listed = |value: &str| wanted.values.iter().any(|known| interner.text(*known) == value);
    let number = label.and_then(|value| value.parse::<i64>().ok());
    if wanted.gte.is_some() || wanted.lte.is_some() {
        return number.is_some_and(|n| wanted.gte.is_none_or(|gte| gte <= n) && wanted.lte.is_none_or(|lte| n <= lte));
    }
    match (wanted.complement, wanted.values.is_empty()) {
        (true, true) => label.is_some(),
        (true, false) => label.is_none_or(|value| !listed(value)),
        (false, true) => label.is_none(),
        (false, false) => label.is_some_and(listed),
    }
}

fn admits(problem: &Problem<'_>, pod: &Pod, node: &Node) -> bool {
    let interner = problem.interner();
    let holds = |wanted: &Requirement| satisfied(wanted, label(node, wanted.key, interner), interner);
    let terms = &pod.shape.required_terms;
    pod.shape.node_selector.iter().all(holds) && (terms.is_empty() || terms.iter().any(|term| term.iter().all(holds)))
}

/// The DaemonSets that run a pod on the node sooner or later.
fn daemons<'a>(problem: &'a Problem<'_>, node: &'a Node) -> impl Iterator<Item = Pod> + 'a {
    let as_pod = |daemon: &kerf_model::snapshot::Daemon| {
        let (example, _) = problem.everybody().next()?;
        let shape = Arc::clone(&daemon.shape);
        Some(Pod {
            shape,
            name: Arc::clone(&daemon.name),
            ..example.clone()
        })
    };
    let all = problem.snapshot.daemons.iter().filter_map(move |daemon| as_pod(daemon));
    all.filter(|pod| !node.taints.iter().any(|taint| repels(taint, pod)) && admits(problem, pod, node))
}

fn room(problem: &Problem<'_>, node: &Node, neighbours: &[&Pod]) -> Option<String> {
    let mut wanted: BTreeMap<Sym, i64> = BTreeMap::new();
    let awaited: Vec<Pod> = daemons(problem, node).collect();
    for pod in neighbours.iter().copied().chain(&awaited) {
        for (name, amount) in pod.shape.requests.iter() {
            *wanted.entry(name).or_default() += amount;
        }
    }
    let there = |name: Sym| {
        node.allocatable
            .iter()
            .find(|(known, _)| *known == name)
            .map_or(0, |(_, amount)| amount)
    };
    // If the pods that run already use too much of a resource, that is not the plan's fault.
    let placed = problem.placed.iter().filter(|(_, at)| at.name == node.name);
    let asked: BTreeSet<Sym> = placed
        .flat_map(|(pod, _)| pod.shape.requests.iter())
        .filter(|(_, n)| *n > 0)
        .map(|(name, _)| name)
        .collect();
    let short = wanted
        .into_iter()
        .find(|(name, amount)| asked.contains(name) && *amount > there(*name));
    short.map(|(name, amount)| {
        format!(
            "{amount} of {} wanted, {} there",
            problem.interner().text(name),
            there(name)
        )
    })
}

fn attach_limit(node: &Node, neighbours: &[&Pod], pod: &Pod) -> Option<String> {
    node.volume_limits.iter().find_map(|(driver, limit)| {
        let uses = |volume: &&kerf_model::pod::PodVolume| volume.driver.as_ref() == Some(driver);
        let claims: BTreeSet<&str> = neighbours
            .iter()
            .flat_map(|pod| pod.volumes.iter().filter(uses))
            .map(|volume| &*volume.claim)
            .collect();
        (pod.volumes.iter().any(|volume| uses(&volume)) && claims.len() > *limit as usize)
            .then(|| format!("too many volumes of {driver}"))
    })
}

fn taken_port(problem: &Problem<'_>, node: &Node, neighbours: &[&Pod], pod: &Pod) -> Option<String> {
    let clash = |one: &HostPort, other: &HostPort| {
        let overlap = one.ip == other.ip || &*one.ip == "0.0.0.0" || &*other.ip == "0.0.0.0";
        one.port == other.port && one.protocol == other.protocol && overlap
    };
    let awaited: Vec<Pod> = daemons(problem, node).collect();
    let others = neighbours
        .iter()
        .copied()
        .filter(|other| other.uid != pod.uid)
        .chain(&awaited);
    let mut held = others.flat_map(|other| &other.shape.host_ports);
    let taken = held.any(|held| pod.shape.host_ports.iter().any(|port| clash(port, held)));
    taken.then(|| "a host port is taken".to_owned())
}

fn selected(selector: &LabelSelector, labels: &LabelSet) -> bool {
    let value = |wanted: &str| labels.iter().find(|(key, _)| *key == wanted).map(|(_, value)| value);
    match selector {
        LabelSelector::Nothing => false,
        LabelSelector::All(all) => all.iter().all(|one| match one {
            Match::In(key, values) => value(key).is_some_and(|own| values.iter().any(|value| **value == *own)),
            Match::NotIn(key, values) => !value(key).is_some_and(|own| values.iter().any(|value| **value == *own)),
            Match::Exists(key) => value(key).is_some(),
            Match::DoesNotExist(key) => value(key).is_none(),
        }),
    }
}

fn term_covers(term: &AffinityTerm, pod: &Pod) -> bool {
    term.namespaces.names.contains(&pod.namespace) && selected(&term.selector, &pod.labels)
}

fn share(problem: &Problem<'_>, key: Sym, one: &Node, other: &Node) -> bool {
    let domain = label(one, key, problem.interner());
    domain.is_some() && domain == label(other, key, problem.interner())
}

/// Anti-affinity, the pod's own and that of all others.
fn repulsion(problem: &Problem<'_>, pod: &Pod, node: &Node) -> Option<String> {
    let mut others = problem.everybody().filter(|(other, _)| other.uid != pod.uid);
    let found = others.find(|(other, there)| {
        let own = pod.shape.anti_affinity.iter().filter(|term| term_covers(term, other));
        let theirs = other.shape.anti_affinity.iter().filter(|term| term_covers(term, pod));
        own.chain(theirs).any(|term| share(problem, term.key, node, there))
    });
    found.map(|(other, _)| format!("anti-affinity with {}", other.name))
}

/// Whether the remaining pods can be bound in some order; the bits of `arrived` are the pods that are bound.
fn some_order_works(problem: &Problem<'_>, arrived: u32, dead_ends: &mut BTreeSet<u32>) -> bool {
    let waiting: Vec<usize> = (0..problem.placed.len())
        .filter(|at| arrived & (1 << at) == 0)
        .collect();
    if waiting.is_empty() {
        return true;
    }
    if dead_ends.contains(&arrived) {
        return false;
    }
    let there = problem
        .placed
        .iter()
        .enumerate()
        .filter(|(at, _)| arrived & (1 << at) != 0)
        .map(|(_, at)| *at);
    let present: Vec<At<'_>> = problem.bound.iter().copied().chain(there).collect();
    for at in waiting {
        let (pod, node) = problem.placed[at];
        if attracted(problem, &present, pod, node)
            && pod
                .shape
                .spread
                .iter()
                .filter(|one| one.required)
                .all(|one| even(problem, &present, pod, node, one))
            && some_order_works(problem, arrived | (1 << at), dead_ends)
        {
            return true;
        }
    }
    dead_ends.insert(arrived);
    false
}

/// Pod affinity: a pod that all terms cover is in the domain of each, or there is none anywhere and the pod is one itself.
fn attracted(problem: &Problem<'_>, present: &[At<'_>], pod: &Pod, node: &Node) -> bool {
    let terms = &pod.shape.affinity;
    if terms
        .iter()
        .any(|term| label(node, term.key, problem.interner()).is_none())
    {
        return false;
    }
    let covered = |other: &Pod| terms.iter().all(|term| term_covers(term, other));
    let attracting: Vec<&At<'_>> = present.iter().filter(|(other, _)| covered(other)).collect();
    let near = |term: &AffinityTerm| {
        attracting
            .iter()
            .any(|(_, there)| share(problem, term.key, node, there))
    };
    // A pod on a node without the label of any term is in no domain, so it does not count as being anywhere.
    let placed_somewhere = |(_, there): &&&At<'_>| {
        terms
            .iter()
            .any(|term| label(there, term.key, problem.interner()).is_some())
    };
    terms.iter().all(near) || (!attracting.iter().any(|at| placed_somewhere(&at)) && covered(pod))
}

/// Topology spread: with the pod, its domain has at most `maxSkew` more than the domain with the fewest.
fn even(problem: &Problem<'_>, present: &[At<'_>], pod: &Pod, node: &Node, constraint: &SpreadConstraint) -> bool {
    let interner = problem.interner();
    let Some(own) = label(node, constraint.key, interner) else {
        return false;
    };
    let required = pod.shape.spread.iter().filter(|one| one.required);
    let keys: Vec<Sym> = required.map(|one| one.key).collect();
    let counts_here = |node: &Node| {
        keys.iter().all(|key| label(node, *key, interner).is_some())
            && (!constraint.honor_node_affinity || admits(problem, pod, node))
            && (!constraint.honor_taints || !node.taints.iter().any(|taint| repels(taint, pod)))
    };
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for node in problem
        .snapshot
        .nodes
        .iter()
        .filter(|node| counts_here(node) && !node.marked_for_deletion)
    {
        counts.extend(label(node, constraint.key, interner).map(|domain| (domain, 0)));
    }
    let empty = matches!(&constraint.selector, LabelSelector::All(all) if all.is_empty());
    for (other, there) in present.iter().filter(|(_, there)| counts_here(there)) {
        let counted = !empty && other.namespace == pod.namespace && selected(&constraint.selector, &other.labels);
        if let Some(count) = label(there, constraint.key, interner)
            .and_then(|domain| counts.get_mut(domain))
            .filter(|_| counted)
        {
            *count += 1;
        }
    }
    let fewest = counts.values().min().copied().unwrap_or(0);
    let domains = constraint
        .min_domains
        .is_some_and(|least| counts.len() < least as usize);
    let fewest = if domains { 0 } else { fewest };
    let itself = i64::from(selected(&constraint.selector, &pod.labels));
    counts.get(own).copied().unwrap_or(0) + itself - fewest <= i64::from(constraint.max_skew)
}
