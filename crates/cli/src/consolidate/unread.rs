//! Pods and PodDisruptionBudgets that are there and cannot be read. What they protect is not known, so what they may protect stays.

use crate::decision::{Cluster, Input, from_sources};
use crate::manifests::{InputError, Source, read_inputs, read_objects};
use jiff::Timestamp;
use kerf_disruption::{Object, Obstacle, evictable};
use kerf_model::node::Node;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Namespace and name.
pub(crate) type Key = (String, String);

/// One such object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unread {
    kind: &'static str,
    key: Key,
    problem: String,
    concerns: Concerns,
}

/// What an object may protect.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Concerns {
    /// It waits for a node, or has ended.
    Nothing,
    Node(String),
    /// Nodes that run pods of its namespace.
    Namespace(String),
    /// Not even its namespace is known: nodes that run pods.
    Pods,
}

/// Objects that could not be read, by what errors say of them, without those whose namesakes were read.
fn left_out(cluster: &Cluster, errors: &[InputError]) -> BTreeMap<(&'static str, Key), String> {
    let mut found: BTreeMap<(&'static str, Key), String> = BTreeMap::new();
    for error in errors {
        let title = error.object.as_deref().unwrap_or_default();
        let (kind, rest) = title.split_once(' ').unwrap_or((title, ""));
        let kind = match kind {
            "Pod" => "Pod",
            "PodDisruptionBudget" => "PodDisruptionBudget",
            _ => continue,
        };
        let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
        let field = error
            .field
            .as_ref()
            .map(|field| format!("{field}: "))
            .unwrap_or_default();
        let problem = format!("{field}{}", error.problem);
        let all = found
            .entry((kind, (namespace.to_owned(), name.to_owned())))
            .or_default();
        if !all.is_empty() {
            all.push_str("; ");
        }
        all.push_str(&problem);
    }
    if found.is_empty() {
        return found;
    }
    let key = |namespace: &Option<String>, name: &Option<String>| {
        let namespace = namespace.as_deref().unwrap_or("default");
        (namespace.to_owned(), name.clone().unwrap_or_default())
    };
    let (pods, pdbs) = (&cluster.world.pods, &cluster.world.pdbs);
    let pods = pods
        .iter()
        .map(|pod| ("Pod", key(&pod.metadata.namespace, &pod.metadata.name)));
    let pdbs = pdbs.iter().map(|pdb| {
        let meta = &pdb.metadata;
        ("PodDisruptionBudget", key(&meta.namespace, &meta.name))
    });
    for read in pods.chain(pdbs) {
        found.remove(&read);
    }
    found
}

/// The pods that could not be read: [`unread`] wants to know what was written of them.
pub(crate) fn unread_pods(cluster: &Cluster, errors: &[InputError]) -> BTreeSet<Key> {
    let all = left_out(cluster, errors).into_keys();
    all.filter(|(kind, _)| *kind == "Pod").map(|(_, key)| key).collect()
}

/// What could not be read. `written` has pods as they were written, for the nodes they name.
pub(crate) fn unread(cluster: &Cluster, errors: &[InputError], written: &BTreeMap<Key, Value>) -> Vec<Unread> {
    let of_namespace = |key: &Key| match key.0.as_str() {
        "" => Concerns::Pods,
        namespace => Concerns::Namespace(namespace.to_owned()),
    };
    let all = left_out(cluster, errors).into_iter();
    all.map(|((kind, key), problem)| Unread {
        concerns: match written.get(&key).filter(|_| kind == "Pod") {
            Some(pod) => of_pod(pod).unwrap_or_else(|| of_namespace(&key)),
            None => of_namespace(&key),
        },
        kind,
        key,
        problem,
    })
    .collect()
}

/// What a pod may protect as it is written; nothing where that is nonsense.
fn of_pod(pod: &Value) -> Option<Concerns> {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return Some(Concerns::Nothing);
    }
    match pod.get("spec")?.as_object()?.get("nodeName") {
        None | Some(Value::Null) => Some(Concerns::Nothing),
        Some(Value::String(name)) if name.is_empty() => Some(Concerns::Nothing),
        Some(Value::String(name)) => Some(Concerns::Node(name.clone())),
        Some(_) => None,
    }
}

/// Reads files as [`crate::decision::from_files`] does, and with them what is written of pods that cannot be decoded.
pub(crate) fn from_files(paths: &[PathBuf]) -> (Input, BTreeMap<Key, Value>) {
    let (sources, mut errors, mut notes) = read_inputs(paths, &mut io::stdin().lock());
    let copy = |source: &Source| Source {
        name: Arc::clone(&source.name),
        text: source.text.clone(),
        from_folder: source.from_folder,
    };
    let texts: Vec<Source> = sources.iter().map(copy).collect();
    let read = from_sources(sources);
    errors.extend(read.errors);
    notes.extend(read.notes);
    let mut written = BTreeMap::new();
    let pods = unread_pods(&read.cluster, &errors);
    if !pods.is_empty() {
        let (objects, _, _) = read_objects(&texts);
        for object in objects.into_iter().filter(|object| object.kind == "Pod") {
            let key = (object.namespace.unwrap_or_default(), object.name);
            if pods.contains(&key) {
                written.insert(key, object.value);
            }
        }
    }
    let input = Input {
        cluster: read.cluster,
        errors,
        notes,
    };
    (input, written)
}

impl Unread {
    /// Whether it may protect a node.
    pub(crate) fn may_protect(&self, node: &Node, now: Timestamp) -> bool {
        let runs = |namespace: Option<&str>| {
            let mut pods = node.pods.iter().filter(|pod| evictable(pod, now));
            pods.any(|pod| namespace.is_none_or(|namespace| *pod.namespace == *namespace))
        };
        match &self.concerns {
            Concerns::Nothing => false,
            Concerns::Node(name) => node.node_name.as_deref() == Some(name),
            Concerns::Namespace(namespace) => runs(Some(namespace)),
            Concerns::Pods => runs(None),
        }
    }

    /// Whether it takes room on a node that nobody can measure.
    pub(crate) fn is_on(&self, node: &Node) -> bool {
        matches!(&self.concerns, Concerns::Node(name) if node.node_name.as_deref() == Some(name))
    }

    /// What it stands in the way of.
    pub(crate) fn obstacle(&self) -> Obstacle {
        let Self { kind, problem, .. } = self;
        let (namespace, name) = &self.key;
        let name = if name.is_empty() { "(without a name)" } else { name };
        let title = match namespace.as_str() {
            "" => name.to_owned(),
            namespace => format!("{namespace}/{name}"),
        };
        Obstacle {
            code: "Unreadable",
            reason: None,
            objects: vec![Object {
                kind,
                namespace: namespace.as_str().into(),
                name: name.into(),
            }],
            message: format!("{kind} {title}, which may protect it, cannot be read: {problem}"),
            remedy: format!("correct the {kind}: what it protects is not known before"),
        }
    }
}
