//! Why a node stays.

use crate::fixture::{Asked, World, ago, budget, now, sized};
use kerf_disruption::{Allowance, Class, Explainer, Obstacle};
use kerf_model::budget::{ConsolidationPolicy, DisruptionReason};
use kerf_model::duration::GoDuration;
use kerf_model::node::Node;
use kerf_model::nodepool::NodePool;
use kerf_model::pod::DoNotDisrupt;

/// What is in the way of the first node.
fn explain(world: &World) -> Vec<Obstacle> {
    let sorted = world.sorted(Class::Graceful);
    let allowance = |reason| Allowance::new(&world.snapshot, reason, now());
    let (empty, underutilized) = (
        allowance(DisruptionReason::Empty),
        allowance(DisruptionReason::Underutilized),
    );
    Asked::default().with(world, |consolidation, _| {
        let explainer = Explainer {
            sorted: &sorted,
            empty: &empty,
            underutilized: &underutilized,
            consolidation: Some(consolidation),
        };
        explainer.why_not(&world.snapshot, 0)
    })
}

fn told(world: &World) -> Vec<String> {
    let line = |obstacle: Obstacle| {
        let objects: Vec<String> = obstacle.objects.iter().map(ToString::to_string).collect();
        assert!(!obstacle.remedy.is_empty() && !obstacle.message.is_empty());
        format!("{} {}", obstacle.code, objects.join(" "))
    };
    explain(world).into_iter().map(line).collect()
}

#[test]
fn every_reason_names_its_object_and_a_remedy() {
    let table: [(&str, fn(&mut NodePool), fn(&mut Node), fn(&mut World)); 9] = [
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
            |world| world.bound("a-1", "p", |pod| pod.do_not_disrupt = DoNotDisrupt::Always),
        ),
        (
            "Pdb poddisruptionbudget/ns/one",
            |_| {},
            |_| {},
            |world| {
                world.bound("a-1", "p", |_| {});
                world.pdb("one", |_| {});
            },
        ),
        (
            "MultiplePdbs poddisruptionbudget/ns/one poddisruptionbudget/ns/two",
            |_| {},
            |_| {},
            |world| {
                world.bound("a-1", "p", |_| {});
                world.pdb("one", |_| {});
                world.pdb("two", |_| {});
            },
        ),
        (
            "ConsolidationDisabled nodepool/a",
            |pool| pool.disruption.consolidate_after = None,
            |_| {},
            |_| {},
        ),
        (
            "NotEmpty nodepool/a",
            |pool| pool.disruption.consolidation = ConsolidationPolicy::WhenEmpty,
            |_| {},
            |world| world.bound("a-1", "p", |_| {}),
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
            |world| {
                world.bound("a-1", "p", sized(1500));
                world.bound("a-1", "q", sized(1500));
            },
        ),
    ];
    for (expected, pool, node, pods) in table {
        let mut world = World::new();
        world.pool("a", pool);
        world.node("a-1", node);
        pods(&mut world);
        assert_eq!(told(&world), [expected]);
    }
}

#[test]
fn a_node_that_settles_says_until_when() {
    let mut world = World::new();
    world.pool("a", |pool| {
        pool.disruption.consolidate_after = Some(GoDuration::from_secs(60));
    });
    world.node("a-1", |node| {
        node.lifecycle.consolidatable = false;
        node.lifecycle.last_pod_event = Some(ago(20));
    });
    let why = explain(&world);
    assert_eq!(
        (why[0].code, why[0].reason),
        ("Unsettled", Some(DisruptionReason::Empty))
    );
    assert!(why[0].remedy.contains("2026-01-01T12:00:40Z"), "{}", why[0].remedy);
}

#[test]
fn several_reasons_are_all_told_and_a_node_that_goes_has_none() {
    let mut world = World::new();
    world.typed("a", &[("small", 2000, 0.1)], |pool| {
        pool.disruption.budgets = vec![budget("0")];
    });
    world.of_kind("a-1", "small", |_| {});
    world.bound("a-1", "p", sized(1900));
    assert_eq!(told(&world), ["Budget nodepool/a", "NotCheaper node/a-1"]);
    let mut world = World::new();
    world.node("a-1", |_| {});
    assert_eq!(told(&world), [""; 0]);
    world.node("a-2", |_| {});
    world.bound("a-1", "p", |_| {});
    assert_eq!(told(&world), [""; 0]);
}
