//! Nodes that several cheaper ones replace (deviation at DIS-131).

use crate::fixture::{Asked, Cluster, now, sized, text};
use kerf_disruption::{Allowance, Invalid, still_candidates, still_fits, underutilized};
use kerf_model::budget::DisruptionReason;
use kerf_model::price::Price;
use kerf_units::policy::NodeOverheadCost;
use std::sync::Arc;

/// A node of 16 cores with pods that need `cpus` in all; 2 and 4 cores cost in proportion, with a little to spare for the system.
fn cluster(cpus: &[i64]) -> Cluster {
    let mut cluster = Cluster::new();
    let types = [("2", 2000, 0.10), ("4", 4000, 0.20), ("16", 16_000, 0.80)];
    cluster.typed("a", &types, |_| {});
    cluster.of_kind("a-1", "16", |_| {});
    for (number, cpu) in cpus.iter().enumerate() {
        cluster.bound("a-1", &format!("p-{number}"), sized(*cpu));
    }
    cluster
}

fn proposed(asked: &Asked, cluster: &Cluster) -> String {
    text(&asked.propose(cluster, &["a-1"]))
}

// DIS-131
#[test]
fn a_node_that_no_single_one_replaces_goes_for_several() {
    let cluster = cluster(&[3500, 1500]);
    let one = proposed(&Asked::default(), &cluster);
    assert_eq!(one, "Can't replace with a cheaper node");
    assert_eq!(
        proposed(&Asked::several_replacements(), &cluster),
        "replace: [a-1] -> [2 replacements]"
    );
    let command = Asked::several_replacements().propose(&cluster, &["a-1"]).unwrap();
    assert_eq!(command.price_before(), Price::from_per_hour(0.8).unwrap());
    assert_eq!(command.price_after(), Price::from_per_hour(0.3).unwrap());
    let moved: usize = command.replacements.iter().map(|launch| launch.pods.len()).sum();
    assert_eq!(moved, 2);
    // Single-node and multi-node consolidation find it, too.
    assert_eq!(
        Asked::several_replacements().single(&cluster).command.unwrap().short(),
        "replace: [a-1] -> [2 replacements]"
    );
}

#[test]
fn whatever_types_the_replacements_become_they_cost_less_together() {
    let cluster = cluster(&[3500, 3500, 1500]);
    let command = Asked::several_replacements().propose(&cluster, &["a-1"]).unwrap();
    assert_eq!(command.replacements.len(), 3);
    let dearest = command.replacements.iter().map(|launch| {
        let kinds = launch
            .types
            .iter()
            .map(|number| &launch.catalogue.types[*number as usize]);
        kinds
            .flat_map(|kind| &kind.offerings)
            .map(|offering| offering.price)
            .max()
            .unwrap()
    });
    assert!(dearest.sum::<Price>() < command.price_before());
}

#[test]
fn what_saves_too_little_for_the_moves_stays() {
    // 4, 4, 4 and 2 cores would be four nodes.
    assert_eq!(
        proposed(&Asked::several_replacements(), &cluster(&[3500, 3500, 3500, 1500])),
        "Can't replace with a cheaper node"
    );
    // Two nodes for 0.3 instead of 0.32 $/h: less than a tenth.
    let mut little = cluster(&[3500, 1500]);
    Arc::make_mut(&mut little.snapshot.nodes[0]).price = Price::from_per_hour(0.32);
    assert_eq!(
        proposed(&Asked::several_replacements(), &little),
        "Can't replace with a cheaper node"
    );
    // A node more costs more besides its price than is saved.
    let mut overhead = cluster(&[3500, 1500]);
    Arc::make_mut(&mut overhead.snapshot.pools[0]).packing.node_overhead = NodeOverheadCost::from_per_hour(0.45);
    assert_eq!(
        proposed(&Asked::several_replacements(), &overhead),
        "Can't replace with a cheaper node"
    );
    // A node whose price is not known saves nothing.
    let mut unknown = cluster(&[3500, 1500]);
    Arc::make_mut(&mut unknown.snapshot.nodes[0]).price = None;
    assert_eq!(
        proposed(&Asked::several_replacements(), &unknown),
        "Can't replace with a cheaper node"
    );
}

// DIS-184, DIS-185
#[test]
fn it_stands_while_the_same_nodes_would_be_launched() {
    let command = Asked::several_replacements()
        .propose(&cluster(&[3500, 1500]), &["a-1"])
        .unwrap();
    let after = |cluster: &Cluster| {
        let (eligible, _) = underutilized(&cluster.snapshot, &cluster.free());
        let mut allowance = Allowance::new(&cluster.snapshot, DisruptionReason::Underutilized, now());
        let current = still_candidates(&command, &eligible, &|_| false, &mut allowance)?;
        Asked::several_replacements().with(cluster, |consolidation, _| {
            still_fits(&command, &current, consolidation.what_if)
        })
    };
    assert_eq!(after(&cluster(&[3500, 1500])), Ok(()));
    assert_eq!(after(&cluster(&[3500, 1600])), Ok(()), "it fits as well");
    assert_eq!(
        after(&cluster(&[3500, 1500, 1500])),
        Err(Invalid::Changed),
        "three are needed"
    );
    assert_eq!(after(&cluster(&[1500])), Err(Invalid::Changed), "one is enough");
    let mut room = cluster(&[3500, 1500]);
    room.of_kind("a-2", "16", |_| {});
    assert_eq!(after(&room), Err(Invalid::Changed), "none is needed");
}
