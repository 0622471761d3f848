//! Sections 8 and 8.1: which nodes consolidation may choose, and one command for a given set of them.

use crate::fixture::{Asked, Cluster, ago, names, set_label, sized, text, types_of};
use kerf_disruption::{Unconsolidatable, underutilized};
use kerf_model::budget::ConsolidationPolicy;
use kerf_model::instance_type::{Catalogue, InstanceType, Reservation};
use kerf_model::intern::sym;
use kerf_model::node::Node;
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::pod::{AffinityTerm, NamespaceScope, Pod, PodShape, SpreadConstraint};
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::selector::{LabelSelector, Match};
use kerf_units::duration::GoDuration;
use kerf_units::policy::Destinations;
use std::sync::Arc;

const USUAL: [(&str, i64, f64); 3] = [("nano", 500, 0.02), ("small", 2000, 0.1), ("large", 8000, 0.4)];

/// Pool a with the usual types.
fn usual() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.typed("a", &USUAL, |_| {});
    cluster
}

fn price(per_hour: f64) -> Price {
    Price::from_per_hour(per_hour).unwrap()
}

// DIS-113, DIS-114, DIS-115, DIS-116, DIS-117, DIS-118, DIS-119
#[test]
fn who_may_be_chosen_and_what_is_told_of_the_others() {
    let table: [(&str, fn(&mut NodePool), fn(&mut Node), &str, bool); 9] = [
        ("usual", |_| {}, |_| {}, "", false),
        (
            "balanced",
            |pool| pool.disruption.consolidation = ConsolidationPolicy::Balanced,
            |_| {},
            "",
            false,
        ),
        (
            "static",
            |pool| pool.eligibility = Eligibility::Static,
            |node| node.labels.clear(),
            "NodePool \"a\" is static",
            false,
        ),
        (
            "type",
            |pool| pool.disruption.consolidate_after = None,
            |node| set_label(node, sym::INSTANCE_TYPE, sym::SPOT),
            "Instance Type \"spot\" not found",
            true,
        ),
        (
            "no type",
            |_| {},
            |node| node.labels.retain(|(key, _)| *key != sym::INSTANCE_TYPE),
            "Instance Type \"\" not found",
            true,
        ),
        (
            "capacity type",
            |pool| pool.disruption.consolidate_after = None,
            |node| {
                node.labels
                    .retain(|(key, _)| *key != sym::CAPACITY_TYPE && *key != sym::ZONE);
            },
            "Node does not have label \"karpenter.sh/capacity-type\"",
            true,
        ),
        (
            "zone",
            |pool| pool.disruption.consolidate_after = None,
            |node| node.labels.retain(|(key, _)| *key != sym::ZONE),
            "Node does not have label \"topology.kubernetes.io/zone\"",
            true,
        ),
        (
            "never",
            |pool| {
                pool.disruption.consolidate_after = None;
                pool.disruption.consolidation = ConsolidationPolicy::WhenEmpty;
            },
            |_| {},
            "NodePool \"a\" has consolidation disabled",
            true,
        ),
        (
            "when empty",
            |pool| pool.disruption.consolidation = ConsolidationPolicy::WhenEmpty,
            |node| node.lifecycle.consolidatable = false,
            "NodePool \"a\" has consolidation policy WhenEmpty, but node is not empty",
            true,
        ),
    ];
    for (what, pool, node, message, event) in table {
        let mut cluster = Cluster::new();
        cluster.pool("a", pool);
        cluster.node("a-1", node);
        cluster.bound("a-1", "p", |_| {});
        let (eligible, staying) = underutilized(&cluster.snapshot, &cluster.free());
        assert_eq!(eligible.len() + staying.len(), 1, "{what}");
        let told = staying
            .first()
            .map(|staying| (staying.why.message(), staying.why.is_event()));
        let expected = (!message.is_empty()).then(|| (message.to_owned(), event));
        assert_eq!(told, expected, "{what}");
    }
}

// DIS-118, DIS-119, DIS-121
#[test]
fn empty_and_unsettled_nodes_are_left_alone_without_a_word() {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| {
        pool.disruption.consolidate_after = Some(GoDuration::from_secs(60));
    });
    cluster.node("a-1", |_| {});
    cluster.node("a-2", |node| {
        node.lifecycle.consolidatable = false;
        node.lifecycle.last_pod_event = Some(ago(10));
    });
    cluster.bound("a-2", "p", |_| {});
    let (eligible, staying) = underutilized(&cluster.snapshot, &cluster.free());
    assert!(eligible.is_empty());
    let why: Vec<&Unconsolidatable> = staying.iter().map(|staying| &staying.why).collect();
    assert_eq!(
        why,
        [
            &Unconsolidatable::LeftToEmptiness,
            &Unconsolidatable::Unsettled(Some(ago(-50)))
        ]
    );
    assert!(why.iter().all(|why| !why.is_event()));
}

// DIS-122, DIS-123
#[test]
fn most_savings_for_least_disruption_come_first() {
    let mut cluster = Cluster::new();
    for (name, price, pods) in [("a-1", 0.1, 1), ("a-2", 0.1, 2), ("a-3", 0.4, 2), ("a-4", 0.1, 1)] {
        cluster.node(name, |node| node.price = Price::from_per_hour(price));
        for pod in 0..pods {
            cluster.bound(name, &format!("{name}-{pod}"), |_| {});
        }
    }
    let (eligible, _) = underutilized(&cluster.snapshot, &cluster.free());
    assert_eq!(names(&eligible), ["a-3", "a-1", "a-4", "a-2"]);
}

// DIS-128, DIS-130
#[test]
fn a_node_whose_pods_fit_elsewhere_is_deleted() {
    let mut cluster = usual();
    cluster.of_kind("a-1", "small", |_| {});
    cluster.of_kind("a-2", "small", |_| {});
    cluster.bound("a-1", "p", |_| {});
    cluster.bound("a-2", "q", |_| {});
    let command = Asked::default().propose(&cluster, &["a-1"]).unwrap();
    assert_eq!(command.short(), "delete: [a-1]");
    assert_eq!(command.savings(), price(0.1));
}

// DIS-104, DIS-128
#[test]
fn the_destination_rule_can_be_that_of_before() {
    let mut cluster = usual();
    cluster.typed("a", &USUAL, |pool| {
        pool.disruption.consolidate_after = Some(GoDuration::from_secs(60));
    });
    cluster.of_kind("a-1", "small", |_| {});
    cluster.of_kind("a-2", "small", |node| node.lifecycle.last_pod_event = Some(ago(5)));
    cluster.bound("a-1", "p", sized(1800));
    let asked = |destinations| {
        let asked = Asked {
            destinations,
            ..Asked::default()
        };
        text(&asked.propose(&cluster, &["a-1"]))
    };
    assert_eq!(asked(Destinations::Settled), "Can't replace with a cheaper node");
    assert_eq!(asked(Destinations::Any), "delete: [a-1]");
}

// DIS-129
#[test]
fn a_node_whose_pods_fit_nowhere_stays() {
    let mut cluster = usual();
    cluster.of_kind("a-1", "small", |_| {});
    cluster.bound("a-1", "p", sized(9000));
    let said = text(&Asked::default().propose(&cluster, &["a-1"]));
    assert!(said.starts_with("Not all pods would schedule, ns/p => "), "{said}");
}

// DIS-131
#[test]
fn one_machine_may_come_and_no_more_even_for_pods_that_wait() {
    let mut cluster = Cluster::new();
    cluster.typed("a", &[("small", 2000, 0.1)], |_| {});
    cluster.of_kind("a-1", "small", |_| {});
    cluster.bound("a-1", "p", sized(1500));
    cluster.pending("w", 1500);
    let said = text(&Asked::default().propose(&cluster, &["a-1"]));
    assert_eq!(said, "Can't remove without creating 2 candidates");
}

// DIS-132, DIS-134, DIS-138, DIS-141
#[test]
fn only_a_cheaper_machine_replaces_and_one_of_equal_price_does_not() {
    let mut cluster = usual();
    cluster.of_kind("a-1", "small", |_| {});
    cluster.of_kind("a-2", "large", |_| {});
    cluster.bound("a-1", "p", sized(1800));
    cluster.bound("a-2", "q", sized(1700));
    cluster.bound("a-2", "r", sized(6300));
    let asked = Asked::default();
    assert_eq!(
        text(&asked.propose(&cluster, &["a-1"])),
        "Can't replace with a cheaper node",
        "it is on the cheapest type that fits"
    );
    let mut cluster = usual();
    cluster.of_kind("a-2", "large", |_| {});
    cluster.bound("a-2", "q", sized(400));
    let command = asked.propose(&cluster, &["a-2"]).unwrap();
    assert_eq!(command.short(), "replace: [a-2] -> [1 replacement]");
    let replacement = &command.replacements[0];
    assert_eq!(
        types_of(&cluster, replacement),
        ["nano", "small"],
        "cheapest first, and not as dear as large"
    );
    // DIS-200, DIS-296: what is saved is reckoned with the cheapest of them.
    assert_eq!(command.savings(), price(0.38));
    // The plan kept with the command says the same.
    assert_eq!(command.plan.unwrap().launches[0].types, replacement.types);
}

// DIS-132
#[test]
fn several_nodes_are_worth_the_sum_of_their_prices() {
    let mut cluster = usual();
    for name in ["a-1", "a-2", "a-3"] {
        cluster.of_kind(name, "small", |_| {});
        cluster.bound(name, &format!("p-{name}"), sized(1900));
    }
    let said = text(&Asked::default().propose(&cluster, &["a-1", "a-2", "a-3"]));
    assert_eq!(
        said, "Can't replace with a cheaper node",
        "a large one costs more than three small ones"
    );
    for name in ["a-4", "a-5"] {
        cluster.of_kind(name, "small", |_| {});
        cluster.bound(name, &format!("p-{name}"), sized(400));
    }
    let five = ["a-1", "a-2", "a-3", "a-4", "a-5"];
    let command = Asked::default().propose(&cluster, &five).unwrap();
    assert_eq!(types_of(&cluster, &command.replacements[0]), ["large"]);
    assert_eq!(command.savings(), price(0.1));
}

// DIS-044, DIS-138
#[test]
fn a_node_of_unknown_price_can_only_be_deleted() {
    let mut cluster = usual();
    cluster.of_kind("a-1", "large", |_| {});
    cluster.bound("a-1", "p", |_| {});
    let node = Arc::make_mut(&mut cluster.snapshot.nodes[0]);
    node.price = None;
    let asked = Asked::default();
    assert_eq!(
        text(&asked.propose(&cluster, &["a-1"])),
        "Can't replace with a cheaper node"
    );
    cluster.of_kind("a-2", "small", |_| {});
    assert_eq!(text(&asked.propose(&cluster, &["a-1"])), "delete: [a-1]");
}

/// A type with offerings (capacity type, zone, price).
fn offered(
    cluster: &Cluster,
    name: &str,
    cpu: i64,
    offerings: &[(kerf_model::intern::Sym, &str, f64)],
) -> InstanceType {
    let mut kind = cluster.kind(name, cpu, 0.0);
    let zones = offerings.iter().map(|(_, zone, _)| cluster.s(zone));
    kind.requirements.replace(Requirement::any_of(sym::ZONE, zones));
    let capacities = offerings.iter().map(|(capacity, _, _)| *capacity);
    kind.requirements
        .replace(Requirement::any_of(sym::CAPACITY_TYPE, capacities));
    let plain = kind.offerings[0].clone();
    kind.offerings = offerings
        .iter()
        .map(|(capacity, zone, per_hour)| {
            let mut offering = plain.clone();
            let requirements = [
                Requirement::is(sym::CAPACITY_TYPE, *capacity),
                Requirement::is(sym::ZONE, cluster.s(zone)),
            ];
            offering.requirements = Requirements::from_all(requirements, &cluster.snapshot.interner);
            offering.price = price(*per_hour);
            offering
        })
        .collect();
    kind
}

/// One on-demand node at 0.1 with a small pod, in a pool with these types besides.
fn one_node(types: impl FnOnce(&Cluster) -> Vec<InstanceType>, pool: impl FnOnce(&mut NodePool)) -> Cluster {
    let mut cluster = Cluster::new();
    let mut all = types(&cluster);
    let mut own = cluster.kind("small", 2000, 0.1);
    own.offerings[1].available = false;
    own.offerings[0].available = false;
    all.push(own);
    cluster.pool("a", |a| {
        a.catalogue = Ok(Arc::new(Catalogue { types: all }));
        pool(a);
    });
    cluster.of_kind("a-1", "small", |_| {});
    cluster.bound("a-1", "p", |_| {});
    cluster
}

/// One node whose pool has besides its type one with these offerings: capacity type, zone and price.
fn one_offered(offerings: &[(kerf_model::intern::Sym, &str, f64)], pool: impl FnOnce(&mut NodePool)) -> Cluster {
    one_node(|cluster| vec![offered(cluster, "t", 2000, offerings)], pool)
}

// DIS-135, DIS-136, SCH-134
#[test]
fn a_launch_is_judged_by_the_worst_it_may_cost() {
    let asked = Asked::default();
    let one_dear_zone = one_offered(&[(sym::SPOT, "z", 0.01), (sym::SPOT, "y", 0.11)], |_| {});
    assert_eq!(
        text(&asked.propose(&one_dear_zone, &["a-1"])),
        "Can't replace with a cheaper node"
    );
    let dear_zone_gone = one_node(
        |cluster| {
            let zones = [(sym::SPOT, "z", 0.01), (sym::SPOT, "y", 0.11)];
            let mut kind = offered(cluster, "t", 2000, &zones);
            kind.offerings[1].available = false;
            vec![kind]
        },
        |_| {},
    );
    assert_eq!(
        text(&asked.propose(&dear_zone_gone, &["a-1"])),
        "replace: [a-1] -> [1 replacement]",
        "what cannot be had costs nothing"
    );
    let dear_on_demand = one_offered(&[(sym::SPOT, "z", 0.01), (sym::ON_DEMAND, "z", 0.5)], |_| {});
    assert_eq!(
        text(&asked.propose(&dear_on_demand, &["a-1"])),
        "replace: [a-1] -> [1 replacement]",
        "spot is what it would be"
    );
    let cheap_spot = one_offered(&[(sym::SPOT, "z", 0.01), (sym::ON_DEMAND, "z", 0.5)], |pool| {
        pool.requirements
            .replace(Requirement::is(sym::CAPACITY_TYPE, sym::ON_DEMAND));
    });
    assert_eq!(
        text(&asked.propose(&cheap_spot, &["a-1"])),
        "Can't replace with a cheaper node",
        "a pool of on-demand nodes does not ask what spot costs"
    );
}

// DIS-139
#[test]
fn what_may_be_spot_or_on_demand_becomes_spot() {
    let cluster = one_node(
        |cluster| {
            vec![
                offered(
                    cluster,
                    "both",
                    2000,
                    &[(sym::SPOT, "z", 0.05), (sym::ON_DEMAND, "z", 0.2)],
                ),
                offered(cluster, "plain", 2000, &[(sym::ON_DEMAND, "z", 0.04)]),
            ]
        },
        |_| {},
    );
    let command = Asked::default().propose(&cluster, &["a-1"]).unwrap();
    let replacement = &command.replacements[0];
    let capacity = replacement.requirements.get(sym::CAPACITY_TYPE).unwrap();
    assert_eq!(capacity.single(), Some(sym::SPOT));
    assert_eq!(
        types_of(&cluster, replacement),
        ["both"],
        "what cannot be had as spot is no choice"
    );
    assert_eq!(command.savings(), price(0.05));
}

// DIS-139: as docs/deviations.md has it, what cannot be had as spot is narrowed to what it can be had as.
#[test]
fn what_may_be_spot_but_is_cheaper_only_on_demand_becomes_on_demand() {
    let cluster = one_node(
        |cluster| {
            let dear_spot = [(sym::SPOT, "z", 0.2), (sym::ON_DEMAND, "z", 0.5)];
            vec![
                offered(cluster, "both", 2000, &dear_spot),
                offered(cluster, "plain", 2000, &[(sym::ON_DEMAND, "z", 0.04)]),
            ]
        },
        |_| {},
    );
    let command = Asked::default().propose(&cluster, &["a-1"]).unwrap();
    let replacement = &command.replacements[0];
    let capacity = replacement.requirements.get(sym::CAPACITY_TYPE).unwrap();
    assert_eq!(capacity.single(), Some(sym::ON_DEMAND));
    assert_eq!(types_of(&cluster, replacement), ["plain"]);
    assert_eq!(command.savings(), price(0.06));
}

// DIS-137
#[test]
fn too_few_cheaper_types_for_min_values_leave_the_node() {
    let least = |count| {
        move |pool: &mut NodePool| {
            let types = Requirement::exists(sym::INSTANCE_TYPE).with_min_values(Some(count));
            pool.requirements.replace(types);
            pool.requirements
                .replace(Requirement::is(sym::CAPACITY_TYPE, sym::ON_DEMAND));
        }
    };
    let types = |cluster: &Cluster| {
        vec![
            offered(cluster, "t1", 2000, &[(sym::ON_DEMAND, "z", 0.05)]),
            offered(cluster, "t2", 2000, &[(sym::ON_DEMAND, "z", 0.06)]),
            offered(cluster, "t3", 2000, &[(sym::ON_DEMAND, "z", 0.2)]),
        ]
    };
    let mut asked = Asked::default();
    assert_eq!(
        text(&asked.propose(&one_node(types, least(2)), &["a-1"])),
        "replace: [a-1] -> [1 replacement]"
    );
    let refused = "Filtering by price: minValues requirement is not met for label(s) (label(s)=[node.kubernetes.io/instance-type])";
    assert_eq!(text(&asked.propose(&one_node(types, least(3)), &["a-1"])), refused);
    asked.solver.min_values_policy = kerf_units::policy::MinValuesPolicy::BestEffort;
    assert_eq!(text(&asked.propose(&one_node(types, least(3)), &["a-1"])), refused);
    let none = |cluster: &Cluster| {
        let all = types(cluster).into_iter();
        all.map(|mut kind| {
            kind.offerings[0].price = price(0.3);
            kind
        })
        .collect()
    };
    assert_eq!(
        text(&asked.propose(&one_node(none, least(3)), &["a-1"])),
        "Can't replace with a cheaper node"
    );
}

// DIS-140, SCH-134
#[test]
fn a_reservation_replaces_what_is_dearer() {
    let cluster = one_node(
        |cluster| {
            let mut kind = offered(
                cluster,
                "t",
                2000,
                &[(sym::RESERVED, "z", 0.0001), (sym::ON_DEMAND, "z", 0.5)],
            );
            kind.offerings[0].reservation = Some(Reservation {
                id: cluster.s("r-1"),
                capacity: 1,
            });
            vec![kind]
        },
        |_| {},
    );
    let command = Asked::default().propose(&cluster, &["a-1"]).unwrap();
    let capacity = command.replacements[0].requirements.get(sym::CAPACITY_TYPE).unwrap();
    assert_eq!(capacity.single(), Some(sym::RESERVED));
    assert_eq!(command.savings(), price(0.1) - price(0.0001));
}

// DIS-140
#[test]
fn a_node_becomes_a_reserved_one_of_its_type_or_one_of_a_cheaper_reservation() {
    for (own, other, expected) in [
        (sym::ON_DEMAND, 0.003, Ok(("t", price(0.498)))),
        (sym::SPOT, 0.003, Ok(("t", price(0.098)))),
        (sym::RESERVED, 0.001, Ok(("u", price(0.001)))),
        (sym::RESERVED, 0.003, Err(Unconsolidatable::NotCheaper)),
    ] {
        let mut cluster = Cluster::new();
        let reserved = |name: &str, per_hour: f64| {
            let all = [
                (sym::RESERVED, "z", per_hour),
                (sym::SPOT, "z", 0.1),
                (sym::ON_DEMAND, "z", 0.5),
            ];
            let mut kind = offered(&cluster, name, 2000, &all);
            let id = cluster.s(&format!("r-{name}"));
            kind.offerings[0].reservation = Some(Reservation { id, capacity: 1 });
            kind
        };
        let types = vec![reserved("t", 0.002), reserved("u", other)];
        cluster.pool("a", |a| a.catalogue = Ok(Arc::new(Catalogue { types })));
        cluster.of_kind("a-1", "t", |node| set_label(node, sym::CAPACITY_TYPE, own));
        cluster.bound("a-1", "p", |_| {});
        let outcome = Asked::default().propose(&cluster, &["a-1"]).map(|command| {
            let replacement = &command.replacements[0];
            let capacity = replacement.requirements.get(sym::CAPACITY_TYPE).unwrap();
            assert_eq!(capacity.single(), Some(sym::RESERVED));
            (types_of(&cluster, replacement).remove(0), command.savings())
        });
        let expected = expected.map(|(kind, saved)| (kind.to_owned(), saved));
        assert_eq!(outcome, expected, "from {}", cluster.snapshot.interner.text(own));
    }
}

// DIS-294
#[test]
fn an_event_of_one_node_says_what_it_is_part_of() {
    let mut cluster = usual();
    for name in ["a-1", "a-2", "a-3"] {
        cluster.of_kind(name, "small", |_| {});
    }
    cluster.bound("a-1", "p", |_| {});
    cluster.bound("a-2", "q", |_| {});
    let asked = Asked::default();
    let two = asked.propose(&cluster, &["a-1", "a-2"]).unwrap();
    assert_eq!(two.of_node("a-2"), "delete: [a-2] (part of 2-node consolidation)");
    let one = asked.propose(&cluster, &["a-1"]).unwrap();
    assert_eq!(one.of_node("a-1"), "delete: [a-1]");
    assert_eq!(
        two.full("id"),
        "Underutilized/id: delete: nodepools=[a]: [a-1, a-2] (savings: $0.20)"
    );
}

/// Makes a pod one of application x, with what `change` does to its shape.
fn of_x(cpu: i64, change: impl Fn(&mut PodShape)) -> impl FnOnce(&mut Pod) {
    move |pod| {
        sized(cpu)(pod);
        pod.labels = Arc::new([("app", "x")].into_iter().collect());
        let mut shape = (*pod.shape).clone();
        change(&mut shape);
        pod.shape = shape.into();
    }
}

fn apart() -> AffinityTerm {
    AffinityTerm {
        key: sym::HOSTNAME,
        selector: LabelSelector::all([Match::any_of("app", ["x".into()])]),
        namespaces: NamespaceScope {
            names: vec!["ns".into()],
            selector: None,
        },
    }
}

// DIS-109
#[test]
fn pods_that_must_be_apart_stay_apart() {
    let two = |change: fn(&mut PodShape)| {
        let mut cluster = usual();
        for (name, pod) in [("a-1", "p"), ("a-2", "q")] {
            cluster.of_kind(name, "small", |_| {});
            cluster.bound(name, pod, of_x(600, change));
        }
        text(&Asked::default().propose(&cluster, &["a-1"]))
    };
    assert_eq!(two(|_| {}), "delete: [a-1]");
    assert_eq!(
        two(|shape| shape.anti_affinity = vec![apart()]),
        "Can't replace with a cheaper node"
    );
}

// DIS-109
#[test]
fn a_replacement_lands_where_the_skew_is_kept() {
    let spread = |shape: &mut PodShape| {
        shape.spread = vec![SpreadConstraint {
            key: sym::ZONE,
            max_skew: 1,
            required: true,
            min_domains: None,
            selector: LabelSelector::all([Match::any_of("app", ["x".into()])]),
            honor_node_affinity: true,
            honor_taints: false,
        }];
    };
    let mut cluster = Cluster::new();
    let both = [(sym::ON_DEMAND, "z", 0.05), (sym::ON_DEMAND, "y", 0.06)];
    let types = vec![
        offered(&cluster, "cheap", 2000, &both),
        offered(
            &cluster,
            "dear",
            2000,
            &[(sym::ON_DEMAND, "z", 0.3), (sym::ON_DEMAND, "y", 0.3)],
        ),
    ];
    cluster.pool("a", |pool| pool.catalogue = Ok(Arc::new(Catalogue { types })));
    let y = cluster.s("y");
    cluster.of_kind("a-1", "dear", |node| set_label(node, sym::ZONE, y));
    cluster.of_kind("a-2", "dear", |_| {});
    cluster.bound("a-1", "p", of_x(1500, spread));
    cluster.bound("a-2", "q", of_x(1500, spread));
    let command = Asked::default().propose(&cluster, &["a-1"]).unwrap();
    let zone = command.replacements[0].requirements.get(sym::ZONE).unwrap();
    assert_eq!(zone.single(), Some(y));
    // DIS-201: the price is that of the zone, though another is cheaper.
    assert_eq!(command.savings(), price(0.3) - price(0.06));
}

// DIS-098, DIS-110
#[test]
fn preferences_keep_nodes_only_where_they_count() {
    let mut cluster = usual();
    for (name, pod) in [("a-1", "p"), ("a-2", "q")] {
        cluster.of_kind(name, "small", |_| {});
        let prefer = |shape: &mut PodShape| shape.preferred_anti_affinity = vec![(100, apart())];
        cluster.bound(name, pod, of_x(600, prefer));
    }
    let mut asked = Asked::default();
    assert_eq!(
        text(&asked.propose(&cluster, &["a-1"])),
        "Can't replace with a cheaper node",
        "a new node would honour it"
    );
    asked.solver.preference_policy = kerf_units::policy::PreferencePolicy::Ignore;
    assert_eq!(text(&asked.propose(&cluster, &["a-1"])), "delete: [a-1]");
}

// DIS-098
#[test]
fn what_ifs_are_asked_as_provisioning_is_but_never_wait_for_a_reservation() {
    use kerf_scheduler::{Options, ReservedMode};
    use kerf_units::policy::MinValuesPolicy;
    let provisioning = Options {
        min_values_policy: MinValuesPolicy::BestEffort,
        reserved: ReservedMode::Strict,
        ..Options::default()
    };
    for asked in [
        kerf_disruption::what_if_options(&provisioning),
        kerf_disruption::consolidation_options(&provisioning),
    ] {
        assert_eq!(asked.reserved, ReservedMode::Fallback);
        assert_eq!(asked.min_values_policy, MinValuesPolicy::BestEffort);
    }
    let off = Options {
        reserved: ReservedMode::Off,
        ..Options::default()
    };
    assert_eq!(kerf_disruption::what_if_options(&off).reserved, ReservedMode::Off);
}

#[test]
fn the_price_range_of_launches_limits_no_replacement_in_consolidation() {
    use kerf_scheduler::Options;
    use kerf_units::launch_price_range::LaunchPriceRange;
    let provisioning = Options {
        launch_price_range: "5".parse().unwrap(),
        ..Options::default()
    };
    let of_consolidation = kerf_disruption::consolidation_options(&provisioning);
    assert_eq!(of_consolidation.launch_price_range, LaunchPriceRange::default());
    let of_drift = kerf_disruption::what_if_options(&provisioning);
    assert_eq!(of_drift.launch_price_range, provisioning.launch_price_range);
}

// DIS-099
#[test]
fn a_replacement_offers_the_six_hundred_cheapest_types() {
    let cluster = |least: Option<u32>| {
        one_node(
            |cluster| {
                let kind = |number: usize| {
                    let price = 0.01 + number as f64 / 100_000.0;
                    offered(cluster, &format!("t{number:03}"), 2000, &[(sym::ON_DEMAND, "z", price)])
                };
                (0..650).rev().map(kind).collect()
            },
            |pool| {
                let types = Requirement::exists(sym::INSTANCE_TYPE).with_min_values(least);
                pool.requirements.replace(types);
            },
        )
    };
    let any = cluster(None);
    let command = Asked::default().propose(&any, &["a-1"]).unwrap();
    let types = types_of(&any, &command.replacements[0]);
    assert_eq!(
        (types.len(), types[0].as_str(), types[599].as_str()),
        (600, "t000", "t599")
    );
    let said = text(&Asked::default().propose(&cluster(Some(610)), &["a-1"]));
    assert!(
        said.starts_with("Not all pods would schedule, ns/p => ") && said.contains("minValues"),
        "{said}"
    );
}
