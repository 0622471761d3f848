//! The ways to pack, and annotations of pools about them.

use kerf_model::plan::Plan;
use kerf_scheduler::Options;
use kerf_testkit::fixture::Fixture;
use kerf_units::policy::{NodeOverheadCost, Packing};

/// Two small types cost less per core than a large one.
const TYPES: &str = "
    type small cpu=2 mem=8Gi price=0.10
    type large cpu=64 mem=256Gi price=3.5
";

fn plan(pool: &str, options: &Options) -> Plan {
    let text = format!("{TYPES}\npool default {pool}\npod p*60 cpu=1 mem=4Gi");
    Fixture::read(&text).solve(options)
}

fn nodes(pool: &str, packing: Packing) -> usize {
    let options = Options {
        packing,
        ..Options::default()
    };
    plan(pool, &options).launches.len()
}

#[test]
fn balanced_packing_takes_few_nodes_where_many_save_little() {
    assert_eq!(nodes("", Packing::Upstream), 1);
    assert_eq!(nodes("", Packing::Cheapest), 30);
    assert!(nodes("", Packing::Balanced) <= 4);
}

#[test]
fn annotations_of_a_pool_take_the_place_of_the_options() {
    assert_eq!(nodes("packing=upstream", Packing::Cheapest), 1);
    assert_eq!(nodes("packing=cheapest", Packing::Balanced), 30);
    assert_eq!(nodes("packing=cheapest", Packing::Upstream), 30);
    assert!(nodes("packing=balanced", Packing::Upstream) <= 4);
}

#[test]
fn an_annotation_that_cannot_be_read_means_the_greedy() {
    for pool in ["packing=tight", "overhead=-1", "overhead=1e12", "overhead=nan"] {
        assert_eq!(nodes(pool, Packing::Cheapest), 1, "{pool}");
    }
}

#[test]
fn a_high_node_overhead_cost_leaves_no_more_nodes_than_the_greedy_has() {
    let options = |dollars| Options {
        node_overhead: NodeOverheadCost::from_per_hour(dollars).unwrap(),
        ..Options::default()
    };
    assert_eq!(plan("", &options(100.0)).launches.len(), 1);
    assert_eq!(plan("overhead=100", &options(0.0)).launches.len(), 1);
}
