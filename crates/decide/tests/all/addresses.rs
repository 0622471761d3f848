//! No decision depends on where a value lies in memory, or on which values share memory.

use crate::case::Case;
use kerf_decide::{Memory, Method, provision};
use kerf_model::node::Node;
use kerf_model::nodepool::NodePool;
use kerf_model::pod::{Pod, PodShape};
use kerf_model::selector::LabelSet;
use kerf_model::snapshot::{Daemon, Pdb, Snapshot};
use kerf_testkit::draw::Draw;
use kerf_testkit::fixture::Fixture;
use kerf_testkit::generate::common;
use kerf_testkit::random_clusters::cluster;
use std::sync::Arc;

fn text(text: &Arc<str>) -> Arc<str> {
    Arc::from(&**text)
}

fn apart<T: Clone>(shared: &Arc<T>) -> Arc<T> {
    Arc::new(T::clone(shared))
}

fn copied_pod(pod: &Arc<Pod>) -> Arc<Pod> {
    Arc::new(Pod {
        uid: text(&pod.uid),
        namespace: text(&pod.namespace),
        name: text(&pod.name),
        labels: apart::<LabelSet>(&pod.labels),
        shape: apart::<PodShape>(&pod.shape),
        node_name: pod.node_name.as_ref().map(text),
        capacity_buffer: pod.capacity_buffer.as_ref().map(text),
        ..Pod::clone(pod)
    })
}

fn copied_node(node: &Arc<Node>) -> Arc<Node> {
    let mut copy = Node {
        name: text(&node.name),
        node_name: node.node_name.as_ref().map(text),
        claim_name: node.claim_name.as_ref().map(text),
        provider_id: node.provider_id.as_ref().map(text),
        pods: node.pods.iter().map(copied_pod).collect(),
        ..Node::clone(node)
    };
    copy.lifecycle.claim_uid = node.lifecycle.claim_uid.as_ref().map(text);
    Arc::new(copy)
}

fn pool(pool: &Arc<NodePool>) -> Arc<NodePool> {
    Arc::new(NodePool {
        name: text(&pool.name),
        uid: text(&pool.uid),
        template_labels: apart(&pool.template_labels),
        catalogue: pool.catalogue.as_ref().map(apart).map_err(Clone::clone),
        ..NodePool::clone(pool)
    })
}

fn daemon(daemon: &Arc<Daemon>) -> Arc<Daemon> {
    Arc::new(Daemon {
        namespace: text(&daemon.namespace),
        name: text(&daemon.name),
        shape: apart(&daemon.shape),
    })
}

fn pdb(pdb: &Arc<Pdb>) -> Arc<Pdb> {
    Arc::new(Pdb {
        namespace: text(&pdb.namespace),
        name: text(&pdb.name),
        ..Pdb::clone(pdb)
    })
}

/// The same cluster, in which no two values share memory. The interner stays: it gives the ids their meaning.
fn deep_copy(snapshot: &Snapshot) -> Snapshot {
    let labels = |(name, labels): &(Arc<str>, Arc<LabelSet>)| (text(name), apart(labels));
    Snapshot {
        interner: Arc::clone(&snapshot.interner),
        nodes: snapshot.nodes.iter().map(copied_node).collect(),
        pools: snapshot.pools.iter().map(pool).collect(),
        pending: snapshot.pending.iter().map(copied_pod).collect(),
        untried: snapshot.untried.iter().map(copied_pod).collect(),
        daemons: snapshot.daemons.iter().map(daemon).collect(),
        namespaces: snapshot.namespaces.iter().map(labels).collect(),
        well_known: Arc::from(&*snapshot.well_known),
        reservation_key: snapshot.reservation_key,
        pdbs: snapshot.pdbs.iter().map(pdb).collect(),
    }
}

fn copied(case: &Case) -> Case {
    case.changed(|snapshot| *snapshot = deep_copy(snapshot))
}

/// The cluster a moment later: a pod that waited is gone, and so is a pod of every other node. Everything else is shared with before.
fn later(case: &Case) -> Case {
    case.changed(|snapshot| {
        snapshot.pending.pop();
        for node in snapshot.nodes.iter_mut().step_by(2) {
            let node = Arc::make_mut(node);
            if let Some(gone) = node.pods.pop() {
                node.requested.subtract(&gone.shape.requests);
            }
        }
    })
}

#[test]
fn plans_of_equal_clusters_are_equal_whatever_they_share() {
    for seed in 0..60 {
        let snapshot = Fixture::read(&common(&mut Draw::new(seed))).snapshot;
        let mut case = Case::of(cluster(seed));
        case.snapshot = Arc::new(snapshot);
        let copy = copied(&case);
        let planned = |case: &Case| provision(&case.view(), &mut Memory::default(), &|| false);
        let (one, other) = (planned(&case), planned(&copy));
        assert_eq!(one.plan, other.plan, "seed {seed}");
        assert_eq!(one.violations, other.violations, "seed {seed}");
    }
}

/// The commands of a round and the nodes that stay, as text.
fn decided(case: &Case, memory: &mut Memory) -> (Vec<String>, Vec<String>) {
    let round = case.round(Method::ORDER[0], memory);
    let commands = round.commands().map(|command| format!("{command:?}")).collect();
    let held = round
        .evaluations
        .iter()
        .map(|evaluation| format!("{:?}", evaluation.staying));
    (commands, held.collect())
}

#[test]
fn rounds_of_equal_clusters_are_equal_whatever_they_share() {
    for seed in 0..60 {
        let case = Case::of(cluster(seed));
        let decided = |case: &Case| decided(case, &mut Memory::default());
        assert_eq!(decided(&case), decided(&copied(&case)), "seed {seed}");
    }
}

/// A memory recognises what is unchanged by its address. What it recognises may only spare work.
#[test]
fn decisions_with_a_memory_are_equal_whatever_two_snapshots_share() {
    for seed in 0..60 {
        let mut case = Case::of(cluster(seed));
        let rounds = |cases: [&Case; 2]| {
            let mut memory = Memory::default();
            cases.map(|case| decided(case, &mut memory))
        };
        let second = later(&case);
        let (shared, apart) = ([&case, &second], [&copied(&case), &copied(&second)]);
        assert_eq!(rounds(shared), rounds(apart), "rounds of seed {seed}");
        case.snapshot = Arc::new(Fixture::read(&common(&mut Draw::new(seed))).snapshot);
        let second = later(&case);
        let plans = |cases: [&Case; 2]| {
            let mut memory = Memory::default();
            cases.map(|case| provision(&case.view(), &mut memory, &|| false).plan)
        };
        let (shared, apart) = ([&case, &second], [&copied(&case), &copied(&second)]);
        assert_eq!(plans(shared), plans(apart), "plans of seed {seed}");
    }
}
