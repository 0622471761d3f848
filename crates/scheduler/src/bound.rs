//! The pods that run already, as groups see them: alike ones together, by the nodes they are on.

use crate::classes::selector_keys;
use crate::nodes::Unchanged;
use kerf_model::pod::{AffinityTerm, Pod, PodShape};
use kerf_model::snapshot::Snapshot;
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};

/// How many pods of one kind are on which nodes, ascending, by position among the snapshot's nodes.
pub(crate) type OnNodes = Vec<(u32, u32)>;

/// The same for every number of what was [`Found`], end to end.
#[derive(Debug)]
struct ByNumber {
    starts: Vec<u32>,
    entries: OnNodes,
}

impl ByNumber {
    fn new(numbers: usize, of_node: &[Arc<[(u32, u32)]>]) -> Self {
        let mut starts = vec![0u32; numbers + 1];
        for (number, _) in of_node.iter().flat_map(|counts| counts.iter()) {
            starts[*number as usize + 1] += 1;
        }
        for at in 0..numbers {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut entries = vec![(0, 0); starts[numbers] as usize];
        for (node, counts) in of_node.iter().enumerate() {
            for (number, n) in counts.iter() {
                let at = &mut next[*number as usize];
                entries[*at as usize] = (node as u32, *n);
                *at += 1;
            }
        }
        Self { starts, entries }
    }

    fn get(&self, number: usize) -> &[(u32, u32)] {
        &self.entries[self.starts[number] as usize..self.starts[number + 1] as usize]
    }
}

/// What a pod on some node demands of others.
#[derive(Clone, Debug)]
pub(crate) struct Repelling {
    pub(crate) term: AffinityTerm,
    pub(crate) on: OnNodes,
}

/// Things found on nodes, numbered; a node's numbers with how often each is there are kept, so that unchanged nodes need not be read again.
#[derive(Debug)]
struct Found<T> {
    list: Vec<T>,
    ids: FxHashMap<(usize, usize), u32>,
    of_node: Vec<Arc<[(u32, u32)]>>,
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            ids: FxHashMap::default(),
            of_node: Vec::new(),
        }
    }
}

impl<T: Clone> Found<T> {
    /// Reads the pods of a snapshot: `key` says what a pod has by pointers that `keep` keeps alive.
    fn read(
        snapshot: &Snapshot,
        before: Option<(&Self, &Unchanged)>,
        key: impl Fn(&Pod) -> Option<(usize, usize)>,
        keep: impl Fn(&Arc<Pod>) -> T,
    ) -> Self {
        let mut found = before.map_or_else(Self::default, |(before, _)| Self {
            list: before.list.clone(),
            ids: before.ids.clone(),
            of_node: Vec::new(),
        });
        let mut counts: Vec<(u32, u32)> = Vec::new();
        for (index, node) in snapshot.nodes.iter().enumerate() {
            let known = before.and_then(|(before, unchanged)| before.of_node.get(unchanged.before(index)?));
            if let Some(known) = known {
                found.of_node.push(Arc::clone(known));
                continue;
            }
            counts.clear();
            for pod in &node.pods {
                let Some(key) = key(pod) else { continue };
                let id = *found.ids.entry(key).or_insert_with(|| {
                    found.list.push(keep(pod));
                    found.list.len() as u32 - 1
                });
                match counts.iter_mut().find(|entry| entry.0 == id) {
                    Some((_, n)) => *n += 1,
                    None => counts.push((id, 1)),
                }
            }
            found.of_node.push(counts.as_slice().into());
        }
        found
    }

    /// Whether more is numbered than is on all nodes together, so that reading anew is better.
    fn is_stale(&self) -> bool {
        let there: usize = self.of_node.iter().map(|counts| counts.len()).sum();
        self.list.len() > STALE_MIN.max(there)
    }

    /// By number: on which nodes.
    fn by_number(&self) -> ByNumber {
        ByNumber::new(self.list.len(), &self.of_node)
    }
}

/// Fewer things are kept whether they are there still or not.
const STALE_MIN: usize = 4096;

/// Active pods of one namespace that share their labels, with one to stand for all.
#[derive(Debug)]
struct Alike {
    pods: Found<Arc<Pod>>,
    /// Filled when a group has to be counted from nothing.
    on: OnceLock<ByNumber>,
}

/// The bound pods of a snapshot.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    /// Shapes with required anti-affinity, terminating pods included (SCH-070, SCH-483).
    shapes: Found<Arc<PodShape>>,
    /// The distinct terms.
    pub(crate) repelling: Vec<Repelling>,
    repelling_ids: FxHashMap<AffinityTerm, usize>,
    /// The label keys selectors of pods with such terms look at, sorted.
    pub(crate) keys: Vec<Box<str>>,
    /// Filled when the first group has to be counted.
    alike: OnceLock<Alike>,
}

impl Bound {
    /// Reads a snapshot; nodes that are as `before` are not read again.
    pub(crate) fn new(snapshot: &Snapshot, before: Option<(&Self, &Unchanged)>) -> Self {
        let before = before.filter(|(bound, _)| !bound.shapes.is_stale());
        let shape = |pod: &Pod| {
            let repels = !pod.shape.anti_affinity.is_empty();
            repels.then_some((Arc::as_ptr(&pod.shape) as usize, 0))
        };
        let known = before.map(|(bound, unchanged)| (&bound.shapes, unchanged));
        let shapes = Found::read(snapshot, known, shape, |pod| Arc::clone(&pod.shape));
        let by_number = shapes.by_number();
        let mut bound = Self::default();
        let mut present: Vec<&PodShape> = Vec::new();
        for (number, shape) in shapes.list.iter().enumerate() {
            let on = by_number.get(number);
            if on.is_empty() {
                continue;
            }
            present.push(shape);
            for term in &shape.anti_affinity {
                let id = bound.number(term);
                merge(&mut bound.repelling[id].on, on);
            }
        }
        let mut keys: Vec<Box<str>> = selector_keys(present.into_iter()).into_iter().map(Box::from).collect();
        keys.sort_unstable();
        bound.keys = keys;
        bound.shapes = shapes;
        if let Some((before, unchanged)) = before
            && let Some(alike) = before.alike.get().filter(|alike| !alike.pods.is_stale())
        {
            bound.alike = OnceLock::from(Alike::read(snapshot, Some((&alike.pods, unchanged))));
        }
        bound
    }

    fn number(&mut self, term: &AffinityTerm) -> usize {
        let next = self.repelling.len();
        let id = *self.repelling_ids.entry(term.clone()).or_insert(next);
        if id == next {
            self.repelling.push(Repelling {
                term: term.clone(),
                on: OnNodes::new(),
            });
        }
        id
    }

    /// Where pods with a term of required anti-affinity are.
    pub(crate) fn with_term(&self, term: &AffinityTerm) -> &[(u32, u32)] {
        self.repelling_ids.get(term).map_or(&[], |id| &self.repelling[*id].on)
    }

    /// Active pods by namespace and labels; on machines that have no Node object yet those promised to them (SCH-201).
    pub(crate) fn alike(&self, snapshot: &Snapshot) -> impl Iterator<Item = (&Arc<Pod>, &[(u32, u32)])> {
        let alike = self.alike.get_or_init(|| Alike::read(snapshot, None));
        let on = alike.on.get_or_init(|| alike.pods.by_number());
        let pods = alike.pods.list.iter().enumerate();
        pods.map(|(number, pod)| (pod, on.get(number)))
    }
}

impl Alike {
    fn read(snapshot: &Snapshot, before: Option<(&Found<Arc<Pod>>, &Unchanged)>) -> Self {
        let labels = |pod: &Pod| {
            let pointers = (Arc::as_ptr(&pod.labels) as usize, pod.namespace.as_ptr() as usize);
            pod.is_active().then_some(pointers)
        };
        Self {
            pods: Found::read(snapshot, before, labels, Arc::clone),
            on: OnceLock::new(),
        }
    }
}

/// Adds counts by node to others; both ascend.
fn merge(on: &mut OnNodes, more: &[(u32, u32)]) {
    if on.is_empty() {
        on.extend_from_slice(more);
        return;
    }
    on.extend_from_slice(more);
    on.sort_unstable();
    let mut merged: OnNodes = Vec::with_capacity(on.len());
    for (node, n) in on.drain(..) {
        match merged.last_mut() {
            Some((last, sum)) if *last == node => *sum += n,
            _ => merged.push((node, n)),
        }
    }
    *on = merged;
}
