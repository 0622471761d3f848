//! Why a node stays.

use crate::fixture::{Asked, Cluster, ago, budget, now, set_label, sized};
use jiff::SignedDuration;
use kerf_disruption::{Allowance, Class, Explainer, Obstacle};
use kerf_model::budget::{ConsolidationPolicy, DisruptionReason};
use kerf_model::intern::sym;
use kerf_model::node::Node;
use kerf_model::nodepool::NodePool;
use kerf_model::pod::DoNotDisrupt;
use kerf_units::duration::GoDuration;

/// What is in the way of the first node.
fn explain(cluster: &Cluster) -> Vec<Obstacle> {
    explain_holding(cluster, &|_| false)
}

/// The same where other commands hold nodes.
fn explain_holding(cluster: &Cluster, queued: &dyn Fn(&Node) -> bool) -> Vec<Obstacle> {
    let allowance = |reason| Allowance::new(&cluster.snapshot, reason, now());
    let (empty, underutilized) = (
        allowance(DisruptionReason::Empty),
        allowance(DisruptionReason::Underutilized),
    );
    Asked::default().with(cluster, |consolidation, _| {
        let explainer = Explainer {
            now: now(),
            queued,
            empty: &empty,
            underutilized: &underutilized,
            consolidation: Some(consolidation),
        };
        explainer.why_not(&cluster.snapshot, 0)
    })
}

fn told(cluster: &Cluster) -> Vec<String> {
    let line = |obstacle: Obstacle| {
        let objects: Vec<String> = obstacle.objects.iter().map(ToString::to_string).collect();
        assert!(!obstacle.remedy.is_empty() && !obstacle.message.is_empty());
        format!("{} {}", obstacle.code, objects.join(" "))
    };
    explain(cluster).into_iter().map(line).collect()
}

#[test]
fn every_reason_names_its_object_and_a_remedy() {
    let table: [(&str, fn(&mut NodePool), fn(&mut Node), fn(&mut Cluster)); 9] = [
        ("Unmanaged node/a-1", |_| {}, |node| node.managed = false, |_| {}),
        (
            "Uninitialized node/a-1",
            |_| {},
            |node| node.initialized = false,
            |_| {},
        ),
        (
            "PodAnnotation pod/ns/p",
            |_| {},
            |_| {},
            |cluster| cluster.bound("a-1", "p", |pod| pod.do_not_disrupt = DoNotDisrupt::Always),
        ),
        (
            "Pdb poddisruptionbudget/ns/one pod/ns/p",
            |_| {},
            |_| {},
            |cluster| {
                cluster.bound("a-1", "p", |_| {});
                cluster.pdb("one", |_| {});
            },
        ),
        (
            "MultiplePdbs poddisruptionbudget/ns/one poddisruptionbudget/ns/two pod/ns/p",
            |_| {},
            |_| {},
            |cluster| {
                cluster.bound("a-1", "p", |_| {});
                cluster.pdb("one", |_| {});
                cluster.pdb("two", |_| {});
            },
        ),
        (
            "ConsolidationDisabled nodepool/a",
            |pool| pool.disruption.consolidate_after = None,
            // As the controller leaves the condition then.
            |node| node.lifecycle.consolidatable = false,
            |_| {},
        ),
        (
            "NotEmpty nodepool/a",
            |pool| pool.disruption.consolidation = ConsolidationPolicy::WhenEmpty,
            |_| {},
            |cluster| cluster.bound("a-1", "p", |_| {}),
        ),
        (
            "Budget nodepool/a",
            |pool| pool.disruption.budgets = vec![budget("0")],
            |_| {},
            |_| {},
        ),
        (
            "NeedsSeveral node/a-1",
            |_| {},
            |_| {},
            |cluster| {
                cluster.bound("a-1", "p", sized(1500));
                cluster.bound("a-1", "q", sized(1500));
            },
        ),
    ];
    for (expected, pool, node, pods) in table {
        let mut cluster = Cluster::new();
        cluster.pool("a", pool);
        cluster.node("a-1", node);
        pods(&mut cluster);
        assert_eq!(told(&cluster), [expected]);
    }
}

#[test]
fn a_node_that_settles_says_until_when() {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| {
        pool.disruption.consolidate_after = Some(GoDuration::from_secs(60));
    });
    cluster.node("a-1", |node| {
        node.lifecycle.consolidatable = false;
        node.lifecycle.last_pod_event = Some(ago(20));
    });
    let why = explain(&cluster);
    assert_eq!(
        (why[0].code, why[0].reason),
        ("Unsettled", Some(DisruptionReason::Empty))
    );
    assert!(why[0].remedy.contains("2026-01-01T12:00:40Z"), "{}", why[0].remedy);
}

#[test]
fn several_reasons_are_all_told_and_a_node_that_goes_has_none() {
    let mut cluster = Cluster::new();
    cluster.typed("a", &[("small", 2000, 0.1)], |pool| {
        pool.disruption.budgets = vec![budget("0")];
    });
    cluster.of_kind("a-1", "small", |_| {});
    cluster.bound("a-1", "p", sized(1900));
    assert_eq!(told(&cluster), ["Budget nodepool/a", "NotCheaper node/a-1"]);
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    assert_eq!(told(&cluster), [""; 0]);
    cluster.node("a-2", |_| {});
    cluster.bound("a-1", "p", |_| {});
    assert_eq!(told(&cluster), [""; 0]);
}

/// A node that everything is in the way of that can be.
fn beset() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| {
        pool.disruption.consolidation = ConsolidationPolicy::WhenEmpty;
        pool.disruption.budgets = vec![budget("0")];
    });
    cluster.node("a-1", |node| {
        node.lifecycle.do_not_disrupt = true;
        node.lifecycle.consolidatable = false;
    });
    for name in ["p", "q"] {
        cluster.bound("a-1", name, |pod| pod.do_not_disrupt = DoNotDisrupt::Always);
    }
    cluster.bound("a-1", "r", |_| {});
    cluster.bound("a-1", "s", |_| {});
    cluster.pdb("one", |_| {});
    cluster.pdb("two", |_| {});
    cluster
}

#[test]
fn everything_in_the_way_is_told() {
    assert_eq!(
        told(&beset()),
        [
            "NodeAnnotation node/a-1",
            "PodAnnotation pod/ns/p",
            "PodAnnotation pod/ns/q",
            "MultiplePdbs poddisruptionbudget/ns/one poddisruptionbudget/ns/two pod/ns/r pod/ns/s",
            "NotEmpty nodepool/a",
            "Unsettled nodeclaim/claim-a-1",
            "Budget nodepool/a",
        ]
    );
}

// DIS-022: events give one reason, which is the first of those listed here.
#[test]
fn the_first_reason_is_that_of_events() {
    let changes: [fn(&mut Node); 6] = [
        |_| {},
        |node| node.lifecycle.do_not_disrupt = false,
        |node| node.nominated_until = Some(now() + SignedDuration::from_secs(1)),
        |node| node.lifecycle.shares_provider_id = true,
        |node| node.pool = None,
        |node| (node.node_name, node.initialized) = (None, false),
    ];
    for change in changes {
        let mut cluster = beset();
        change(std::sync::Arc::make_mut(&mut cluster.snapshot.nodes[0]));
        let blocked = cluster.sorted(Class::Graceful).blocked;
        let first = &explain(&cluster)[0];
        assert_eq!(
            (first.code, &first.message),
            (blocked[0].1.code(), &blocked[0].1.message())
        );
    }
}

#[test]
fn nothing_else_matters_of_a_node_that_goes_or_is_not_ours() {
    let table: [(&str, fn(&mut Node)); 3] = [
        ("Queued node/a-1", |_| {}),
        ("Deleting node/a-1", |node| node.lifecycle.deleting = true),
        ("Unmanaged node/a-1", |node| node.managed = false),
    ];
    for (expected, change) in table {
        let mut cluster = beset();
        change(std::sync::Arc::make_mut(&mut cluster.snapshot.nodes[0]));
        let found = explain_holding(&cluster, &|_| expected.starts_with("Queued"));
        let found: Vec<String> = found
            .iter()
            .map(|one| format!("{} {}", one.code, one.objects[0]))
            .collect();
        assert_eq!(found, [expected]);
    }
}

/// Its labels and conditions are not set yet.
#[test]
fn of_a_node_that_starts_only_that_is_told() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |node| {
        (node.initialized, node.lifecycle.consolidatable) = (false, false);
        node.labels.retain(|(key, _)| *key != sym::INSTANCE_TYPE);
    });
    cluster.bound("a-1", "p", |_| {});
    assert_eq!(told(&cluster), ["Uninitialized node/a-1"]);
}

/// The obstacles include those that remain once the protection is lifted.
#[test]
fn a_protected_pod_needs_a_place_in_what_is_told_next() {
    let mut cluster = Cluster::new();
    cluster.typed("a", &[("small", 2000, 0.1)], |_| {});
    cluster.of_kind("a-1", "small", |_| {});
    cluster.bound("a-1", "p", |pod| {
        sized(1900)(pod);
        pod.do_not_disrupt = DoNotDisrupt::Always;
    });
    assert_eq!(told(&cluster), ["PodAnnotation pod/ns/p", "NotCheaper node/a-1"]);
}

// DIS-150: emptiness asks for no price.
#[test]
fn an_empty_node_is_not_told_what_only_keeps_others() {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| pool.disruption.budgets = vec![budget("0")]);
    let unknown = cluster.s("unknown");
    cluster.node("a-1", |node| set_label(node, sym::INSTANCE_TYPE, unknown));
    assert_eq!(told(&cluster), ["Budget nodepool/a"]);
    cluster.bound("a-1", "p", |_| {});
    assert_eq!(told(&cluster), ["TypeUnknown node/a-1", "Budget nodepool/a"]);
}

// DIS-079
#[test]
fn an_invalid_budget_is_not_a_used_up_one() {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| {
        pool.disruption.budgets = vec![budget("1"), budget("many"), budget("more")];
    });
    cluster.node("a-1", |_| {});
    assert_eq!(told(&cluster), ["InvalidBudget nodepool/a", "InvalidBudget nodepool/a"]);
    let why = explain(&cluster);
    assert_eq!(
        why[0].message,
        "NodePool \"a\" has an invalid disruption budget, so none of its nodes is disrupted: spec.disruption.budgets[1]: nodes \"many\""
    );
    assert_eq!(why[1].remedy, "correct spec.disruption.budgets[2] of the NodePool");
    // It closes the pool for every reason.
    assert_eq!(why[0].reason, None);
}

#[test]
fn a_budget_that_allows_none_is_not_waited_for() {
    let remedy = |nodes: &str, away: bool| {
        let mut cluster = Cluster::new();
        cluster.pool("a", |pool| pool.disruption.budgets = vec![budget(nodes)]);
        cluster.node("a-1", |_| {});
        cluster.node("a-2", |node| node.lifecycle.ready = !away);
        explain(&cluster)[0].remedy.clone()
    };
    assert_eq!(
        remedy("0", false),
        "raise spec.disruption.budgets for Empty: they allow no node to go"
    );
    assert!(remedy("1", true).starts_with("wait until disrupted nodes are gone and others are ready"));
}

// DIS-055
#[test]
fn a_timed_protection_says_when_it_ends() {
    const TWO_DAYS: i64 = 48 * 3600 * 1_000_000_000;
    let remedy = |annotation: DoNotDisrupt, started: bool| {
        let mut cluster = Cluster::new();
        cluster.node("a-1", |_| {});
        cluster.bound("a-1", "p", |pod| {
            pod.do_not_disrupt = annotation;
            pod.started = started.then(|| ago(3600));
        });
        explain(&cluster)[0].remedy.clone()
    };
    let timed = remedy(DoNotDisrupt::ForNanos(TWO_DAYS), true);
    assert!(
        timed.starts_with("wait until 2026-01-03T11:00:00Z or until the pod has finished"),
        "{timed}"
    );
    let later = remedy(DoNotDisrupt::ForNanos(TWO_DAYS), false);
    assert!(later.ends_with("whose time begins when the pod has started"), "{later}");
    let always = remedy(DoNotDisrupt::Always, true);
    assert!(always.starts_with("wait until the pod has finished"), "{always}");
}

/// The controller marks claims; where none runs the time passes and nothing happens.
#[test]
fn a_node_that_is_overdue_is_not_told_to_wait() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |node| node.lifecycle.consolidatable = false);
    let remedy = &explain(&cluster)[0].remedy;
    assert!(
        remedy.starts_with("none: that time was over at 2026-01-01T11:00:00Z"),
        "{remedy}"
    );
}
