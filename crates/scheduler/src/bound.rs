//! The pods that run already, as groups see them: alike ones together, by the nodes they are on.

use crate::classes::selector_keys;
use kerf_model::pod::{AffinityTerm, Pod};
use kerf_model::snapshot::Snapshot;
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};

/// How many pods of one kind are on which nodes, ascending, by position among the snapshot's nodes.
pub(crate) type OnNodes = Vec<(u32, u32)>;

/// What a pod on some node demands of others.
#[derive(Clone, Debug)]
pub(crate) struct Repelling {
    pub(crate) term: AffinityTerm,
    pub(crate) on: OnNodes,
}

/// The bound pods of a snapshot.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    /// The distinct terms of required anti-affinity, terminating pods included (SCH-070, SCH-483), in the order of the first that has them.
    pub(crate) repelling: Vec<Repelling>,
    repelling_ids: FxHashMap<AffinityTerm, usize>,
    /// The label keys selectors of pods with such terms look at, sorted.
    pub(crate) keys: Vec<Box<str>>,
    /// Active pods of one namespace that share their labels, with one to stand for all; filled when the first group has to be counted.
    alike: OnceLock<Vec<(Arc<Pod>, OnNodes)>>,
}

fn add(on: &mut OnNodes, node: u32) {
    match on.last_mut() {
        Some((last, n)) if *last == node => *n += 1,
        _ => on.push((node, 1)),
    }
}

impl Bound {
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        let mut bound = Self::default();
        let mut known: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        let mut shapes = Vec::new();
        for (at, node) in snapshot.nodes.iter().enumerate() {
            for pod in node.pods.iter().filter(|pod| !pod.shape.anti_affinity.is_empty()) {
                let ids = known.entry(Arc::as_ptr(&pod.shape) as usize).or_insert_with(|| {
                    shapes.push(&*pod.shape);
                    pod.shape.anti_affinity.iter().map(|term| bound.number(term)).collect()
                });
                for id in ids {
                    add(&mut bound.repelling[*id].on, at as u32);
                }
            }
        }
        let mut keys: Vec<Box<str>> = selector_keys(shapes.into_iter()).into_iter().map(Box::from).collect();
        keys.sort_unstable();
        bound.keys = keys;
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
    pub(crate) fn alike(&self, snapshot: &Snapshot) -> &[(Arc<Pod>, OnNodes)] {
        self.alike.get_or_init(|| {
            let mut ids: FxHashMap<(usize, usize), usize> = FxHashMap::default();
            let mut all: Vec<(Arc<Pod>, OnNodes)> = Vec::new();
            for (at, node) in snapshot.nodes.iter().enumerate() {
                for pod in node.pods.iter().filter(|pod| pod.is_active()) {
                    let key = (Arc::as_ptr(&pod.labels) as usize, pod.namespace.as_ptr() as usize);
                    let id = *ids.entry(key).or_insert_with(|| {
                        all.push((Arc::clone(pod), OnNodes::new()));
                        all.len() - 1
                    });
                    add(&mut all[id].1, at as u32);
                }
            }
            all
        })
    }
}
