//! What `--scheduler-config` accepts (`docs/scheduler-config.md`).

use kerf_api::{DefaultConstraint, SchedulerConfig};
use kerf_units::policy::NodeScoring;

fn refused(text: &str) -> String {
    let read: Result<SchedulerConfig, _> = text.parse();
    read.expect_err(text).to_string()
}

#[test]
fn default_constraints_and_the_scoring_strategy_are_read() {
    let text = "podTopologySpread:
  defaultConstraints:
  - {maxSkew: 3, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: DoNotSchedule
    minDomains: 2
    nodeAffinityPolicy: Ignore
    nodeTaintsPolicy: Honor
    matchLabelKeys: []
nodeResourcesFit: {scoringStrategy: {type: MostAllocated}}
";
    let soft = DefaultConstraint {
        max_skew: 3,
        topology_key: "topology.kubernetes.io/zone".to_owned(),
        required: false,
        min_domains: None,
        honor_node_affinity: true,
        honor_taints: false,
    };
    let hard = DefaultConstraint {
        max_skew: 1,
        required: true,
        min_domains: Some(2),
        honor_node_affinity: false,
        honor_taints: true,
        ..soft.clone()
    };
    let config: SchedulerConfig = text.parse().unwrap();
    assert_eq!(*config.default_constraints, [soft, hard]);
    assert_eq!(config.node_scoring, NodeScoring::MostAllocated);
}

#[test]
fn nothing_configured_is_the_default() {
    for text in [
        "",
        "\n",
        "{}",
        "# nothing",
        "podTopologySpread:",
        "podTopologySpread: {defaultConstraints: []}",
        r#"{"nodeResourcesFit": {"scoringStrategy": {}}}"#,
        "nodeResourcesFit: {scoringStrategy: {type: LeastAllocated}}",
    ] {
        let read: Result<SchedulerConfig, _> = text.parse();
        assert_eq!(read, Ok(SchedulerConfig::default()), "{text:?}");
    }
}

#[test]
fn errors_name_the_field_and_what_is_accepted() {
    let zone = "topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway";
    for (constraint, expected) in [
        (format!("{{{zone}}}"), "maxSkew must be greater than 0"),
        (format!("{{maxSkew: -1, {zone}}}"), "maxSkew must be greater than 0"),
        (
            "{maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}".to_owned(),
            "topologyKey must be set",
        ),
        (
            "{maxSkew: 1, topologyKey: a/b/c, whenUnsatisfiable: ScheduleAnyway}".to_owned(),
            "topologyKey \"a/b/c\" is not a valid label name: a qualified name has at most one '/', between an optional DNS domain and the name",
        ),
        (
            "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Sometimes}".to_owned(),
            "whenUnsatisfiable \"Sometimes\" must be DoNotSchedule or ScheduleAnyway",
        ),
        (
            format!("{{maxSkew: 1, {zone}, labelSelector: {{}}}}"),
            "labelSelector must not be set: it is deduced for each pod",
        ),
        (
            format!("{{maxSkew: 1, {zone}, matchLabelKeys: [app]}}"),
            "matchLabelKeys must not be set: it has no effect on default constraints",
        ),
        (
            format!("{{maxSkew: 1, {zone}, minDomains: 0}}"),
            "minDomains must be greater than 0",
        ),
        (
            format!("{{maxSkew: 1, {zone}, nodeTaintsPolicy: honour}}"),
            "nodeTaintsPolicy \"honour\" must be Honor or Ignore",
        ),
    ] {
        let first = "{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}";
        let text = format!("podTopologySpread: {{defaultConstraints: [{first}, {constraint}]}}");
        let path = "podTopologySpread.defaultConstraints[1].";
        assert_eq!(refused(&text), format!("{path}{expected}"));
    }
    let twice = format!("podTopologySpread: {{defaultConstraints: [{{maxSkew: 1, {zone}}}, {{maxSkew: 2, {zone}}}]}}");
    assert_eq!(
        refused(&twice),
        "podTopologySpread.defaultConstraints[1] is a duplicate of [0]: topologyKey and whenUnsatisfiable are the same"
    );
    assert_eq!(
        refused("nodeResourcesFit: {scoringStrategy: {type: RequestedToCapacityRatio}}"),
        "nodeResourcesFit.scoringStrategy.type \"RequestedToCapacityRatio\" is not one of LeastAllocated, MostAllocated"
    );
    for (text, expected) in [
        (
            "podTopologySpreads: {}",
            "podTopologySpreads: unknown field `podTopologySpreads`, expected `podTopologySpread` or `nodeResourcesFit`",
        ),
        (
            "podTopologySpread: {defaultingType: List}",
            "podTopologySpread.defaultingType: unknown field `defaultingType`, expected `defaultConstraints`",
        ),
        (
            "podTopologySpread: {defaultConstraints: [{maxSkew: two}]}",
            "podTopologySpread.defaultConstraints[0].maxSkew: invalid type: string \"two\", expected i32",
        ),
        (
            "just a text",
            ".: invalid type: string \"just a text\", expected an object",
        ),
    ] {
        assert_eq!(refused(text), expected);
    }
    assert!(refused("[").starts_with("is no YAML: "), "{}", refused("["));
}
