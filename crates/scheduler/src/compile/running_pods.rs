//! The running pods as groups see them: pods with equal labels or anti-affinity together, with a count per node.

use crate::compile::selector_keys::selector_keys;
use crate::compile::targets::SnapshotDiff;
use kerf_model::pod::{AffinityTerm, Pod, PodShape};
use kerf_model::snapshot::Snapshot;
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};

/// The number of pods of one kind per node: pairs of node position and count, ascending by node.
pub(crate) type CountsByNode = Vec<(u32, u32)>;

/// Counts by node for every kind, in one array.
#[derive(Debug)]
struct ByNumber {
    starts: Vec<u32>,
    entries: CountsByNode,
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

/// A required anti-affinity term of running pods.
#[derive(Clone, Debug)]
pub(crate) struct RunningAntiAffinity {
    pub(crate) term: AffinityTerm,
    pub(crate) on: CountsByNode,
}

/// Kinds of pods, numbered. The counts of each node are kept, so that unchanged nodes are not read again.
#[derive(Debug)]
struct Kinds<T> {
    list: Vec<T>,
    ids: FxHashMap<(usize, usize), u32>,
    of_node: Vec<Arc<[(u32, u32)]>>,
}

impl<T> Default for Kinds<T> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            ids: FxHashMap::default(),
            of_node: Vec::new(),
        }
    }
}

impl<T: Clone> Kinds<T> {
    /// Reads the pods of a snapshot. `key` returns the identity of a pod's kind, or `None` for a pod to skip. A kind holds what `key`
    /// refers to, so that an identity is never reused.
    fn read(
        snapshot: &Snapshot,
        before: Option<(&Self, &SnapshotDiff)>,
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

    /// Returns whether more kinds are kept than nodes have, so that a fresh read is cheaper.
    fn is_stale(&self) -> bool {
        let there: usize = self.of_node.iter().map(|counts| counts.len()).sum();
        self.list.len() > STALE_MIN.max(there)
    }

    /// The counts by node of each kind.
    fn by_number(&self) -> ByNumber {
        ByNumber::new(self.list.len(), &self.of_node)
    }
}

/// Up to this many kinds are kept, whether pods of them still run or not.
const STALE_MIN: usize = 4096;

/// Active pods by namespace and labels, with one pod to represent each kind.
#[derive(Debug)]
struct PodKinds {
    pods: Kinds<Arc<Pod>>,
    /// Computed when a group is first counted from scratch.
    on: OnceLock<ByNumber>,
}

/// The running pods of a snapshot.
#[derive(Debug, Default)]
pub(crate) struct RunningPods {
    /// Pod shapes with required anti-affinity, terminating pods included (SCH-070, SCH-483).
    shapes: Kinds<Arc<PodShape>>,
    /// The distinct required anti-affinity terms.
    pub(crate) anti_affinity: Vec<RunningAntiAffinity>,
    anti_affinity_ids: FxHashMap<AffinityTerm, usize>,
    /// The label keys that the selectors of these terms read, sorted.
    pub(crate) keys: Vec<Box<str>>,
    /// Computed when the first group is counted.
    alike: OnceLock<PodKinds>,
}

impl RunningPods {
    /// Reads a snapshot. Nodes that are unchanged since `before` are not read again.
    pub(crate) fn new(snapshot: &Snapshot, before: Option<(&Self, &SnapshotDiff)>) -> Self {
        let before = before.filter(|(bound, _)| !bound.shapes.is_stale());
        #[expect(
            clippy::disallowed_methods,
            reason = "equal shapes at two addresses are two kinds, whose counts are added up"
        )]
        let shape = |pod: &Pod| {
            let inverse_groups = !pod.shape.anti_affinity.is_empty();
            inverse_groups.then_some((Arc::as_ptr(&pod.shape) as usize, 0))
        };
        let known = before.map(|(bound, unchanged)| (&bound.shapes, unchanged));
        let shapes = Kinds::read(snapshot, known, shape, |pod| Arc::clone(&pod.shape));
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
                merge(&mut bound.anti_affinity[id].on, on);
            }
        }
        let mut keys: Vec<Box<str>> = selector_keys(present.into_iter()).into_iter().map(Box::from).collect();
        keys.sort_unstable();
        bound.keys = keys;
        bound.shapes = shapes;
        if let Some((before, unchanged)) = before
            && let Some(alike) = before.alike.get().filter(|alike| !alike.pods.is_stale())
        {
            bound.alike = OnceLock::from(PodKinds::read(snapshot, Some((&alike.pods, unchanged))));
        }
        bound
    }

    /// The id of a term.
    fn number(&mut self, term: &AffinityTerm) -> usize {
        let next = self.anti_affinity.len();
        let id = *self.anti_affinity_ids.entry(term.clone()).or_insert(next);
        if id == next {
            self.anti_affinity.push(RunningAntiAffinity {
                term: term.clone(),
                on: CountsByNode::new(),
            });
        }
        id
    }

    /// The nodes with running pods that have this required anti-affinity term, with counts.
    pub(crate) fn nodes_with_term(&self, term: &AffinityTerm) -> &[(u32, u32)] {
        self.anti_affinity_ids
            .get(term)
            .map_or(&[], |id| &self.anti_affinity[*id].on)
    }

    /// Reads the kinds of active pods, once. A later snapshot that is read after that reads the changed nodes only.
    fn pod_kinds(&self, snapshot: &Snapshot) -> &PodKinds {
        self.alike.get_or_init(|| PodKinds::read(snapshot, None))
    }

    /// Prepares for several successors of this snapshot that ask for [`alike`](Self::alike): without it each would read all nodes.
    pub(crate) fn prepare_alike(&self, snapshot: &Snapshot) {
        self.pod_kinds(snapshot);
    }

    /// Active pods by namespace and labels, with counts by node. A claim without a Node object counts the pods nominated to it (SCH-201).
    pub(crate) fn alike(&self, snapshot: &Snapshot) -> impl Iterator<Item = (&Arc<Pod>, &[(u32, u32)])> {
        let alike = self.pod_kinds(snapshot);
        let on = alike.on.get_or_init(|| alike.pods.by_number());
        let pods = alike.pods.list.iter().enumerate();
        pods.map(|(number, pod)| (pod, on.get(number)))
    }
}

impl PodKinds {
    fn read(snapshot: &Snapshot, before: Option<(&Kinds<Arc<Pod>>, &SnapshotDiff)>) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "equal labels at two addresses are two kinds, whose counts are added up"
        )]
        let labels = |pod: &Pod| {
            let pointers = (Arc::as_ptr(&pod.labels) as usize, pod.namespace.as_ptr() as usize);
            pod.is_active().then_some(pointers)
        };
        Self {
            pods: Kinds::read(snapshot, before, labels, Arc::clone),
            on: OnceLock::new(),
        }
    }
}

/// Adds counts by node to others. Both are ascending by node.
fn merge(on: &mut CountsByNode, more: &[(u32, u32)]) {
    if on.is_empty() {
        on.extend_from_slice(more);
        return;
    }
    on.extend_from_slice(more);
    on.sort_unstable();
    let mut merged: CountsByNode = Vec::with_capacity(on.len());
    for (node, n) in on.drain(..) {
        match merged.last_mut() {
            Some((last, sum)) if *last == node => *sum += n,
            _ => merged.push((node, n)),
        }
    }
    *on = merged;
}
