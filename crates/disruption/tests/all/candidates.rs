//! Sections 3 and 5: which nodes may be disrupted at all.

use crate::fixture::{Cluster, ago, names, now};
use jiff::SignedDuration;
use kerf_disruption::{Class, candidates, reschedulable, reschedulable_now};
use kerf_model::instance_type::{Catalogue, CatalogueFault};
use kerf_model::node::Node;
use kerf_model::nodepool::Eligibility;
use kerf_model::pod::{DoNotDisrupt, Owner, Phase, Pod, PodShape};
use kerf_model::selector::{LabelSelector, Match};
use kerf_model::snapshot::Pdb;
use kerf_model::taint::{Toleration, TolerationOperator};
use std::sync::Arc;

type Change = (&'static str, fn(&mut Node), &'static str);

#[test]
fn what_keeps_a_node() {
    let table: [Change; 11] = [
        ("as it is", |_| {}, ""),
        // DIS-024
        (
            "unmanaged",
            |node| node.managed = false,
            "node isn't managed by karpenter",
        ),
        // DIS-025
        (
            "no node",
            |node| node.node_name = None,
            "nodeclaim does not have an associated node",
        ),
        // DIS-026
        (
            "not initialised",
            |node| node.initialized = false,
            "node isn't initialized",
        ),
        // DIS-027
        (
            "deleting",
            |node| node.lifecycle.deleting = true,
            "node is deleting or marked for deletion",
        ),
        // DIS-027
        (
            "marked",
            |node| node.marked_for_deletion = true,
            "node is deleting or marked for deletion",
        ),
        // DIS-028
        (
            "nominated",
            |node| node.nominated_until = Some(now() + SignedDuration::from_secs(1)),
            "node is nominated for a pending pod",
        ),
        // DIS-028
        ("was nominated", |node| node.nominated_until = Some(now()), ""),
        // DIS-029
        (
            "annotated",
            |node| node.lifecycle.do_not_disrupt = true,
            "disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation",
        ),
        // DIS-030
        (
            "no pool label",
            |node| node.pool = None,
            "node doesn't have required label (label=karpenter.sh/nodepool)",
        ),
        // DIS-022: the first in the order of the list wins.
        (
            "several",
            |node| (node.initialized, node.marked_for_deletion, node.pool) = (false, true, None),
            "node isn't initialized",
        ),
    ];
    for (what, change, expected) in table {
        let mut cluster = Cluster::new();
        cluster.node("a-1", change);
        assert_eq!(cluster.blocker(Class::Graceful), expected, "{what}");
    }
}

type Removal = Box<dyn FnOnce(&mut Cluster)>;

fn of_the_node(change: impl FnOnce(&mut Node)) -> impl FnOnce(&mut Cluster) {
    move |cluster| change(Arc::make_mut(&mut cluster.snapshot.nodes[0]))
}

// DIS-022
#[test]
fn obstacles_are_named_in_the_order_of_the_list() {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| pool.eligibility = Eligibility::ForeignNodeClass);
    let label = cluster.s("a");
    cluster.node("a-1", |node| {
        (node.managed, node.node_name, node.initialized) = (false, None, false);
        (node.lifecycle.deleting, node.marked_for_deletion) = (true, true);
        node.nominated_until = Some(now() + SignedDuration::from_secs(1));
        node.lifecycle.do_not_disrupt = true;
        node.pool = None;
    });
    cluster.bound("a-1", "p", |pod| pod.do_not_disrupt = DoNotDisrupt::Always);
    cluster.pdb("one", |_| {});
    let said = |cluster: &Cluster, queued: bool| {
        let sorted = candidates(&cluster.snapshot, now(), Class::Graceful, &|_| queued);
        let blocked = sorted.blocked.first();
        blocked.map_or(String::new(), |(_, blocker)| blocker.to_string())
    };
    let steps: [(&str, Removal); 11] = [
        (
            "node isn't managed by karpenter",
            Box::new(of_the_node(|node| node.managed = true)),
        ),
        (
            "nodeclaim does not have an associated node",
            Box::new(of_the_node(|node| node.node_name = Some("a-1".into()))),
        ),
        (
            "node isn't initialized",
            Box::new(of_the_node(|node| node.initialized = true)),
        ),
        (
            "node is deleting or marked for deletion",
            Box::new(of_the_node(|node| node.lifecycle.deleting = false)),
        ),
        (
            "node is deleting or marked for deletion",
            Box::new(of_the_node(|node| node.marked_for_deletion = false)),
        ),
        (
            "node is nominated for a pending pod",
            Box::new(of_the_node(|node| node.nominated_until = None)),
        ),
        (
            "disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation",
            Box::new(of_the_node(|node| node.lifecycle.do_not_disrupt = false)),
        ),
        (
            "node doesn't have required label (label=karpenter.sh/nodepool)",
            Box::new(of_the_node(move |node| node.pool = Some(label))),
        ),
        (
            "nodepool not found (NodePool=a)",
            Box::new(|cluster| cluster.pool("a", |_| {})),
        ),
        (
            "pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=ns/p)",
            Box::new(of_the_node(|node| {
                Arc::make_mut(&mut node.pods[0]).do_not_disrupt = DoNotDisrupt::No;
            })),
        ),
        (
            "pdb prevents pod evictions (PodDisruptionBudget=[ns/one])",
            Box::new(|cluster| cluster.snapshot.pdbs.clear()),
        ),
    ];
    assert_eq!(said(&cluster, true), "candidate is already being disrupted");
    for (text, remove) in steps {
        assert_eq!(said(&cluster, false), text);
        remove(&mut cluster);
    }
    assert_eq!(names(&cluster.free()), ["a-1"]);
}

// DIS-023
#[test]
fn a_node_of_another_command_is_no_candidate_and_makes_no_event() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.node("a-2", |_| {});
    let sorted = candidates(&cluster.snapshot, now(), Class::Graceful, &|node| *node.name == *"a-1");
    assert_eq!(names(&sorted.free), ["a-2"]);
    let (_, blocker) = &sorted.blocked[0];
    assert_eq!(blocker.to_string(), "candidate is already being disrupted");
    assert!(!blocker.is_event());
}

// DIS-032, DIS-033
#[test]
fn a_pool_without_instance_types_has_no_candidates_and_others_do() {
    let faults = [
        Err(CatalogueFault::AwaitingOverlays),
        Err(CatalogueFault::Provider("down".into())),
        Ok(Arc::new(Catalogue::default())),
    ];
    for fault in faults {
        let mut cluster = Cluster::new();
        cluster.pool("b", |pool| pool.catalogue = fault);
        cluster.node("a-1", |_| {});
        cluster.node("b-1", |_| {});
        cluster.node("c-1", |_| {});
        let sorted = cluster.sorted(Class::Graceful);
        assert_eq!(names(&sorted.free), ["a-1"]);
        let texts: Vec<(String, String)> = sorted
            .blocked
            .iter()
            .map(|(_, blocker)| (blocker.to_string(), blocker.message()))
            .collect();
        let of = |pool: &str| {
            (
                format!("nodepool not found (NodePool={pool})"),
                format!("NodePool not found (NodePool={pool})"),
            )
        };
        assert_eq!(texts, [of("b"), of("c")]);
    }
}

// DIS-041
#[test]
fn missing_labels_do_not_keep_a_node() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |node| {
        node.labels.clear();
        node.price = None;
    });
    let free = cluster.free();
    assert_eq!((names(&free), free[0].price.pico()), (vec!["a-1"], 0));
}

#[test]
fn pods_that_keep_a_node() {
    let annotated = "pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=ns/p)";
    let pdb = "pdb prevents pod evictions (PodDisruptionBudget=[ns/one])";
    let table: [(&str, fn(&mut Pod), bool, &str); 14] = [
        // DIS-035
        (
            "annotated",
            |pod| pod.do_not_disrupt = DoNotDisrupt::Always,
            false,
            annotated,
        ),
        // DIS-035
        (
            "annotated daemon",
            |pod| (pod.do_not_disrupt, pod.owner) = (DoNotDisrupt::Always, Owner::DaemonSet),
            false,
            annotated,
        ),
        // DIS-035
        (
            "annotated mirror",
            |pod| (pod.do_not_disrupt, pod.owner) = (DoNotDisrupt::Always, Owner::Node),
            false,
            annotated,
        ),
        // DIS-036
        (
            "annotated, terminating",
            |pod| (pod.do_not_disrupt, pod.deletion) = (DoNotDisrupt::Always, Some(now())),
            false,
            "",
        ),
        // DIS-036
        (
            "annotated, done",
            |pod| (pod.do_not_disrupt, pod.phase) = (DoNotDisrupt::Always, Phase::Succeeded),
            false,
            "",
        ),
        // DIS-054
        (
            "annotated for a time, not started",
            |pod| (pod.do_not_disrupt, pod.started) = (DoNotDisrupt::ForNanos(1), None),
            false,
            annotated,
        ),
        // DIS-056
        (
            "time just over",
            |pod| pod.do_not_disrupt = DoNotDisrupt::ForNanos(3600 * 1_000_000_000),
            false,
            "",
        ),
        // DIS-056
        (
            "time not over",
            |pod| pod.do_not_disrupt = DoNotDisrupt::ForNanos(3600 * 1_000_000_000 + 1),
            false,
            annotated,
        ),
        // DIS-053
        (
            "nonsense",
            |pod| pod.do_not_disrupt = DoNotDisrupt::Invalid("yes".into()),
            false,
            "",
        ),
        // DIS-037, DIS-066
        ("pdb", |_| {}, true, pdb),
        // DIS-067
        ("pdb over a daemon", |pod| pod.owner = Owner::DaemonSet, true, pdb),
        // DIS-067
        ("pdb over a mirror pod", |pod| pod.owner = Owner::Node, true, ""),
        // DIS-067
        ("pdb over a terminating pod", |pod| pod.deletion = Some(now()), true, ""),
        // DIS-061: ended protection leaves the budget in force.
        (
            "time over, pdb",
            |pod| pod.do_not_disrupt = DoNotDisrupt::ForNanos(1),
            true,
            pdb,
        ),
    ];
    for (what, change, guarded, expected) in table {
        let mut cluster = Cluster::new();
        cluster.node("a-1", |_| {});
        cluster.bound("a-1", "p", change);
        if guarded {
            cluster.pdb("one", |_| {});
        }
        assert_eq!(cluster.blocker(Class::Graceful), expected, "{what}");
    }
}

// DIS-040, DIS-061
#[test]
fn protection_is_told_before_budgets_and_with_a_capital() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.bound("a-1", "p", |_| {});
    cluster.bound("a-1", "q", |pod| pod.do_not_disrupt = DoNotDisrupt::Always);
    cluster.pdb("one", |_| {});
    let sorted = cluster.sorted(Class::Graceful);
    assert_eq!(
        sorted.blocked[0].1.message(),
        "Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=ns/q)"
    );
    assert!(sorted.blocked[0].1.is_event());
}

// DIS-057
#[test]
fn the_last_protection_counts() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.bound("a-1", "p", |pod| pod.do_not_disrupt = DoNotDisrupt::ForNanos(1));
    cluster.bound("a-1", "q", |pod| {
        pod.do_not_disrupt = DoNotDisrupt::ForNanos(7200 * 1_000_000_000);
    });
    let at = |seconds| {
        candidates(
            &cluster.snapshot,
            now() + SignedDuration::from_secs(seconds),
            Class::Graceful,
            &|_| false,
        )
    };
    assert_eq!(at(3599).free.len(), 0);
    assert_eq!(at(3600).free.len(), 1);
}

#[test]
fn which_budgets_block() {
    let table: [(&str, Vec<fn(&mut Pdb)>, Option<bool>, &str); 8] = [
        // DIS-066
        ("one left", vec![|pdb| pdb.disruptions_allowed = 1], Some(true), ""),
        // DIS-063
        (
            "other namespace",
            vec![|pdb| pdb.namespace = "other".into()],
            Some(true),
            "",
        ),
        // DIS-063
        (
            "selects nothing",
            vec![|pdb| pdb.selector = LabelSelector::Nothing],
            Some(true),
            "",
        ),
        // DIS-063
        (
            "selects others",
            vec![|pdb| pdb.selector = LabelSelector::all([Match::any_of("app", ["other".into()])])],
            Some(true),
            "",
        ),
        // DIS-064
        (
            "two",
            vec![|pdb| pdb.disruptions_allowed = 5, |pdb| pdb.disruptions_allowed = 5],
            Some(true),
            "eviction does not support multiple PDBs (PodDisruptionBudget(s)=[ns/pdb-0 ns/pdb-1])",
        ),
        // DIS-065
        (
            "unhealthy may go",
            vec![|pdb| pdb.always_allow_unhealthy = true],
            Some(false),
            "",
        ),
        // DIS-065
        (
            "unhealthy may not",
            vec![|_| {}],
            Some(false),
            "pdb prevents pod evictions (PodDisruptionBudget=[ns/pdb-0])",
        ),
        // DIS-065
        (
            "healthy may not",
            vec![|pdb| pdb.always_allow_unhealthy = true],
            Some(true),
            "pdb prevents pod evictions (PodDisruptionBudget=[ns/pdb-0])",
        ),
    ];
    for (what, changes, ready, expected) in table {
        let mut cluster = Cluster::new();
        cluster.node("a-1", |_| {});
        cluster.bound("a-1", "p", |pod| pod.ready = ready);
        for (number, change) in changes.into_iter().enumerate() {
            cluster.pdb(&format!("pdb-{number}"), change);
        }
        assert_eq!(cluster.blocker(Class::Graceful), expected, "{what}");
    }
}

// DIS-068
#[test]
fn each_pod_is_asked_for_alone() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.bound("a-1", "p", |_| {});
    cluster.bound("a-1", "q", |_| {});
    cluster.pdb("one", |pdb| pdb.disruptions_allowed = 1);
    assert_eq!(cluster.blocker(Class::Graceful), "");
}

// DIS-001, DIS-039
#[test]
fn a_grace_period_overrules_pods_for_eventual_methods_only() {
    for guarded in [false, true] {
        for (grace, class, free) in [
            (None, Class::Graceful, false),
            (None, Class::Eventual, false),
            (Some(30), Class::Graceful, false),
            (Some(30), Class::Eventual, true),
        ] {
            let mut cluster = Cluster::new();
            cluster.node("a-1", |node| node.lifecycle.termination_grace_seconds = grace);
            cluster.bound("a-1", "p", |pod| {
                if !guarded {
                    pod.do_not_disrupt = DoNotDisrupt::Always;
                }
            });
            if guarded {
                cluster.pdb("one", |_| {});
            }
            assert_eq!(!cluster.sorted(class).free.is_empty(), free, "{grace:?} {class:?}");
        }
    }
}

// DIS-038
#[test]
fn a_grace_period_overrules_nothing_but_pods() {
    let others: [fn(&mut Node); 7] = [
        |node| node.managed = false,
        |node| node.node_name = None,
        |node| node.initialized = false,
        |node| node.lifecycle.deleting = true,
        |node| node.nominated_until = Some(now() + SignedDuration::from_secs(1)),
        |node| node.lifecycle.do_not_disrupt = true,
        |node| node.pool = None,
    ];
    for change in others {
        let mut cluster = Cluster::new();
        cluster.node("a-1", |node| {
            node.lifecycle.termination_grace_seconds = Some(30);
            change(node);
        });
        let sorted = cluster.sorted(Class::Eventual);
        let (_, blocker) = sorted.blocked.first().expect("it is blocked");
        assert!(!blocker.is_pod(), "{blocker}");
    }
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.bound("a-1", "p", |pod| pod.do_not_disrupt = DoNotDisrupt::Always);
    cluster.node("a-2", |_| {});
    cluster.bound("a-2", "q", |_| {});
    cluster.pdb("one", |_| {});
    let sorted = cluster.sorted(Class::Graceful);
    assert!(sorted.blocked.len() == 2 && sorted.blocked.iter().all(|(_, blocker)| blocker.is_pod()));
}

// DIS-246
#[test]
fn a_grace_period_does_not_overrule_the_nodes_annotation() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |node| {
        node.lifecycle.termination_grace_seconds = Some(30);
        node.lifecycle.do_not_disrupt = true;
    });
    assert!(cluster.sorted(Class::Eventual).free.is_empty());
}

fn tolerant() -> Arc<PodShape> {
    Arc::new(PodShape {
        tolerations: vec![Toleration {
            key: Some("karpenter.sh/disrupted".into()),
            operator: TolerationOperator::Exists,
            value: "".into(),
            effect: None,
        }],
        ..PodShape::default()
    })
}

// DIS-042, SCH-026
#[test]
fn which_pods_move() {
    let cluster = Cluster::new();
    let table: [(&str, fn(&mut Pod), bool); 8] = [
        ("running", |_| {}, true),
        ("bare", |pod| pod.owner = Owner::None, true),
        ("daemon", |pod| pod.owner = Owner::DaemonSet, false),
        ("mirror", |pod| pod.owner = Owner::Node, false),
        ("terminating", |pod| pod.deletion = Some(ago(1)), false),
        (
            "terminating of a stateful set",
            |pod| (pod.deletion, pod.owner) = (Some(ago(1)), Owner::StatefulSet),
            true,
        ),
        ("done", |pod| pod.phase = Phase::Succeeded, false),
        (
            "done, of a stateful set",
            |pod| (pod.phase, pod.owner) = (Phase::Failed, Owner::StatefulSet),
            false,
        ),
    ];
    for (what, change, moves) in table {
        let mut pod = cluster.pod("p", 1);
        change(&mut pod);
        assert_eq!(reschedulable(&pod), moves, "{what}");
    }
}

// DIS-069, DIS-070, DIS-096
#[test]
fn which_pods_get_capacity() {
    let table: [(&str, fn(&mut Pod), Vec<fn(&mut Pdb)>, bool); 8] = [
        ("plain", |_| {}, vec![], true),
        (
            "protected",
            |pod| pod.do_not_disrupt = DoNotDisrupt::Always,
            vec![],
            false,
        ),
        ("no disruption allowed just now", |_| {}, vec![|_| {}], true),
        ("none ever", |_| {}, vec![|pdb| pdb.blocks_always = true], false),
        ("two budgets", |_| {}, vec![|_| {}, |_| {}], false),
        (
            "none ever, but for the unhealthy",
            |pod| pod.ready = Some(false),
            vec![|pdb| (pdb.blocks_always, pdb.always_allow_unhealthy) = (true, true)],
            true,
        ),
        // DIS-311
        (
            "tolerates",
            |pod| pod.shape = tolerant(),
            vec![|pdb| pdb.blocks_always = true],
            true,
        ),
        ("daemon", |pod| pod.owner = Owner::DaemonSet, vec![], false),
    ];
    for (what, change, budgets, expected) in table {
        let mut cluster = Cluster::new();
        for (number, budget) in budgets.into_iter().enumerate() {
            cluster.pdb(&format!("pdb-{number}"), budget);
        }
        let mut pod = cluster.pod("p", 1);
        change(&mut pod);
        assert_eq!(reschedulable_now(&pod, &cluster.snapshot, now()), expected, "{what}");
    }
}

// DIS-062, DIS-311
#[test]
fn a_pod_that_tolerates_disruption_is_not_asked_for_and_still_costs() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.bound("a-1", "p", |pod| pod.shape = tolerant());
    cluster.pdb("one", |_| {});
    let free = cluster.free();
    assert_eq!(names(&free), ["a-1"]);
    assert!(!free[0].is_empty());
}

// DIS-032
#[test]
fn pools_of_other_providers_are_unknown() {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| pool.eligibility = Eligibility::ForeignNodeClass);
    cluster.node("a-1", |_| {});
    assert_eq!(cluster.blocker(Class::Graceful), "nodepool not found (NodePool=a)");
}

/// `until` is the time at which sorting again gives another result.
#[test]
fn what_only_time_changes_is_sorted_anew_in_time() {
    const HOUR: i64 = 3600 * 1_000_000_000;
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    assert_eq!(cluster.sorted(Class::Graceful).until, None);
    cluster.node("a-2", |_| {});
    cluster.bound("a-2", "p", |pod| {
        (pod.do_not_disrupt, pod.started) = (DoNotDisrupt::ForNanos(HOUR), Some(ago(60)));
    });
    cluster.bound("a-2", "q", |pod| {
        (pod.do_not_disrupt, pod.started) = (DoNotDisrupt::ForNanos(HOUR), Some(ago(600)));
    });
    let sorted = cluster.sorted(Class::Graceful);
    assert_eq!((sorted.free.len(), sorted.until), (1, Some(ago(600 - 3600))));
    cluster.node("a-3", |node| node.nominated_until = Some(ago(-20)));
    assert_eq!(cluster.sorted(Class::Graceful).until, Some(ago(-20)));
    cluster.node("a-4", |node| node.lifecycle.do_not_disrupt = true);
    cluster.node("a-5", |node| node.nominated_until = Some(ago(20)));
    let sorted = cluster.sorted(Class::Graceful);
    assert_eq!((sorted.free.len(), sorted.until), (2, Some(ago(-20))));
}
