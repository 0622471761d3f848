//! Looking at commands again after their wait.

use crate::case::{Case, open_pool};
use jiff::SignedDuration;
use kerf_decide::{Memory, Method, revalidate_candidates, validate};
use kerf_disruption::{Command, Invalid};
use kerf_model::price::Price;
use kerf_testkit::disruption::{Cluster, now, sized};
use std::sync::Arc;

/// Two nodes whose pods fit on one, and the command that removes one of them.
fn decided(memory: &mut Memory) -> (Case, Command) {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    for node in ["a-1", "a-2"] {
        cluster.of_kind(node, "small", |_| {});
        cluster.bound(node, &format!("web-{node}"), |_| {});
    }
    let case = Case::of(cluster);
    let round = case.round(Method::SingleNodeConsolidation, memory);
    let command = round.evaluations[0].commands[0].clone();
    (case, command)
}

// DIS-127, DIS-187
#[test]
fn a_command_that_still_fits_is_started_as_it_was_decided() {
    let mut memory = Memory::default();
    let (case, command) = decided(&mut memory);
    let method = Method::SingleNodeConsolidation;
    assert_eq!(method.validation_wait().as_secs(), 15);
    for look in [validate, revalidate_candidates] {
        let validation = look(&case.view(), method, &command, &[], &mut memory);
        assert_eq!(validation.result.unwrap().short(), command.short());
        assert_eq!(validation.failed, 0);
    }
}

// DIS-182, DIS-186, DIS-189
#[test]
fn a_pod_that_comes_while_the_simulation_runs_is_seen() {
    let mut memory = Memory::default();
    let (case, command) = decided(&mut memory);
    let method = Method::SingleNodeConsolidation;
    assert!(
        validate(&case.view(), method, &command, &[], &mut memory)
            .result
            .is_ok()
    );
    let index = command.candidates[0].index;
    let nominated = case.changed(|snapshot| {
        Arc::make_mut(&mut snapshot.nodes[index]).nominated_until = Some(now() + SignedDuration::from_secs(20));
    });
    let validation = revalidate_candidates(&nominated.view(), method, &command, &[], &mut memory);
    assert_eq!(
        (validation.result.unwrap_err(), validation.failed),
        (Invalid::Nominated, 1)
    );
}

// DIS-183
#[test]
fn a_command_whose_pods_have_no_place_any_more_is_given_up() {
    let mut memory = Memory::default();
    let (case, command) = decided(&mut memory);
    let other = 1 - command.candidates[0].index;
    let full = case.changed(|snapshot| {
        let mut pod = Cluster::new().pod("late", 0);
        sized(1400)(&mut pod);
        pod.node_name = snapshot.nodes[other].node_name.clone();
        let node = Arc::make_mut(&mut snapshot.nodes[other]);
        node.requested.add(&pod.shape.requests);
        node.pods.push(Arc::new(pod));
    });
    let validation = validate(
        &full.view(),
        Method::SingleNodeConsolidation,
        &command,
        &[],
        &mut memory,
    );
    assert_eq!(
        validation.result.unwrap_err(),
        Invalid::Changed,
        "a new machine would be needed"
    );
}

// DIS-155, DIS-156
#[test]
fn of_an_emptiness_command_the_nodes_that_are_still_empty_go() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    cluster.of_kind("a-1", "small", |_| {});
    cluster.of_kind("a-2", "small", |_| {});
    let (case, mut memory) = (Case::of(cluster), Memory::default());
    let command = case.round(Method::Emptiness, &mut memory).evaluations[0].commands[0].clone();
    assert_eq!(command.candidates.len(), 2);
    let nominated = case.changed(|snapshot| {
        Arc::make_mut(&mut snapshot.nodes[0]).nominated_until = Some(now() + SignedDuration::from_secs(20));
    });
    let validation = validate(&nominated.view(), Method::Emptiness, &command, &[], &mut memory);
    assert_eq!(validation.result.unwrap().short(), "delete: [a-2]");
}

// DIS-181, DIS-182, DIS-189, and the deviation at DIS-181
#[test]
fn of_a_command_for_several_nodes_those_go_that_still_may() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    for node in ["a-1", "a-2", "a-3", "a-4"] {
        cluster.of_kind(node, "small", |_| {});
        cluster.bound(node, &format!("web-{node}"), sized(300));
    }
    let (case, mut memory) = (Case::of(cluster), Memory::default());
    let method = Method::MultiNodeConsolidation;
    let command = case.round(method, &mut memory).evaluations[0].commands[0].clone();
    let names = |command: &Command| -> Vec<Arc<str>> {
        let names = command.candidates.iter();
        names.map(|candidate| Arc::clone(&candidate.node.name)).collect()
    };
    let all = names(&command);
    assert_eq!(all.len(), 3);
    let validated = |nominated: &[Arc<str>]| {
        let case = case.changed(|snapshot| {
            for node in snapshot.nodes.iter_mut().filter(|node| nominated.contains(&node.name)) {
                Arc::make_mut(node).nominated_until = Some(now() + SignedDuration::from_secs(20));
            }
        });
        validate(&case.view(), method, &command, &[], &mut Memory::default())
    };
    let validation = validated(&all[1..2]);
    assert_eq!((validation.planned_anew, validation.failed), (true, 1));
    let left = validation.result.unwrap();
    assert_eq!(names(&left), [Arc::clone(&all[0]), Arc::clone(&all[2])]);
    assert_eq!(left.savings(), Price::from_per_hour(0.2).unwrap());
    // A single node is the next method's.
    let validation = validated(&all[1..]);
    assert_eq!((validation.planned_anew, validation.failed), (false, 3));
    assert_eq!(validation.result.unwrap_err(), Invalid::Nominated);
}
