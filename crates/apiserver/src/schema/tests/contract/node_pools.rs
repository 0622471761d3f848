//! NodePool: fields, defaults and rules (sections 1a and 2 of `docs/behaviour/api.md`), and the NodeClaim fields that are the same.

use serde_json::{Value, json};

use super::fixture::{accepts, create, refuses, sample, update, with};

const POOL: &str = "NodePool";

fn refuses_pattern(kind: &str, path: &str, value: &Value, at: &str, pattern: &str) {
    let found = value
        .pointer(&format!("/{}", at.rsplit_once('@').map_or("", |(_, p)| p)))
        .unwrap_or(value);
    let at = at.split('@').next().unwrap_or(at);
    refuses(
        kind,
        path,
        value.clone(),
        &format!("{at}: Invalid value: {found}: {at} in body should match '{pattern}'"),
    );
}

const DURATION: &str = "^([0-9]+(s|m|h))+$";
const DURATION_OR_NEVER: &str = "^(([0-9]+(s|m|h))+|Never)$";
const COUNT_OR_PERCENT: &str = "^((100|[0-9]{1,2})%|[0-9]+)$";
const CRON: &str = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$";
const BUDGET_DURATION: &str = "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$";
const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
const QUALIFIED_NAME: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

fn budget(budget: Value) -> Value {
    let mut disruption = json!({"consolidateAfter": "0s"});
    disruption["budgets"] = Value::Array(vec![budget]);
    disruption
}

// API-049
#[test]
fn a_pool_without_disruption_reads_back_with_all_defaults() {
    let stored = create(POOL, sample(POOL)).expect("accepted");
    assert_eq!(
        stored["spec"]["disruption"],
        json!({"budgets": [{"nodes": "10%"}], "consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized"})
    );
    assert_eq!(stored["spec"]["template"]["spec"]["expireAfter"], "720h");
    assert_eq!(stored.get("status"), None);
}

// API-050
#[test]
fn a_disruption_without_consolidate_after_is_refused() {
    for value in [json!({}), json!({"consolidationPolicy": "WhenEmpty"})] {
        refuses(
            POOL,
            "spec.disruption",
            value,
            "spec.disruption.consolidateAfter: Required value",
        );
    }
}

// API-051
#[test]
fn no_budgets_stay_none_and_a_bare_budget_gets_its_default() {
    let empty = with(
        sample(POOL),
        "spec.disruption",
        json!({"consolidateAfter": "0s", "budgets": []}),
    );
    assert_eq!(
        create(POOL, empty).expect("accepted")["spec"]["disruption"]["budgets"],
        json!([])
    );
    let bare = with(sample(POOL), "spec.disruption", budget(json!({"reasons": ["Empty"]})));
    assert_eq!(
        create(POOL, bare).expect("accepted")["spec"]["disruption"]["budgets"][0]["nodes"],
        "10%"
    );
}

// API-045, API-232
#[test]
fn the_node_count_defaults_only_inside_a_status() {
    let fresh = create(POOL, sample(POOL)).expect("accepted");
    assert_eq!(fresh.get("status"), None);
    let counted = create(POOL, with(sample(POOL), "status", json!({}))).expect("accepted");
    assert_eq!(counted["status"]["nodes"], 0);
}

// API-052, API-228
#[test]
fn durations_are_stored_as_written() {
    let stored = create(POOL, with(sample(POOL), "spec.template.spec.expireAfter", json!("60m"))).expect("accepted");
    assert_eq!(stored["spec"]["template"]["spec"]["expireAfter"], "60m");
}

#[test]
fn patterns_accept_and_refuse() {
    let expire = "spec.template.spec.expireAfter";
    let grace = "spec.template.spec.terminationGracePeriod";
    let after = "spec.disruption.consolidateAfter";
    // API-033, API-017
    for good in ["720h", "1h30m", "0s", "Never"] {
        accepts(POOL, expire, json!(good));
    }
    for bad in ["", "never", "1.5h", "-1h", "10ms", "1d"] {
        refuses_pattern(POOL, expire, &json!(bad), expire, DURATION_OR_NEVER);
    }
    // API-032, API-016
    accepts(POOL, grace, json!("30s"));
    for bad in ["Never", "-30s", "1"] {
        refuses_pattern(POOL, grace, &json!(bad), grace, DURATION);
    }
    // API-035
    accepts(POOL, after, json!("Never"));
    refuses_pattern(POOL, after, &json!("1"), after, DURATION_OR_NEVER);
    // API-038, API-018, API-066
    for good in ["0", "10", "1000", "0%", "99%", "100%"] {
        accepts(POOL, "spec.disruption", budget(json!({"nodes": good})));
    }
    for bad in ["5.5%", "101%", "-1", "10 %", "many"] {
        let value = budget(json!({"nodes": bad}));
        refuses_pattern(
            POOL,
            "spec.disruption",
            &value,
            "spec.disruption.budgets[0].nodes@budgets/0/nodes",
            COUNT_OR_PERCENT,
        );
    }
    // API-042, API-021
    for good in [json!("100"), json!("1.5Gi"), json!(".5"), json!("1e3"), json!(7)] {
        accepts(POOL, "spec.limits", json!({"cpu": good}));
    }
    refuses_pattern(
        POOL,
        "spec.limits",
        &json!({"cpu": "lots"}),
        "spec.limits.cpu@cpu",
        QUANTITY,
    );
    // API-027, API-014
    for good in ["", "a", "A-b_c.d"] {
        accepts(POOL, "spec.template.metadata.labels", json!({"team": good}));
    }
    refuses_pattern(
        POOL,
        "spec.template.metadata.labels",
        &json!({"team": "-a"}),
        "spec.template.metadata.labels.team@team",
        LABEL_VALUE,
    );
}

// API-040, API-019, API-064
#[test]
fn schedules_are_checked_only_roughly() {
    for good in ["@daily", "@annuallyfoo", "a b c d e", "0 9 * * mon-fri"] {
        accepts(
            POOL,
            "spec.disruption",
            budget(json!({"nodes": "1", "schedule": good, "duration": "1h"})),
        );
    }
    for bad in ["@every 1h", "*", "* * * *"] {
        let value = budget(json!({"nodes": "1", "schedule": bad, "duration": "1h"}));
        refuses_pattern(
            POOL,
            "spec.disruption",
            &value,
            "spec.disruption.budgets[0].schedule@budgets/0/schedule",
            CRON,
        );
    }
}

// API-041, API-020, API-065, DIS-078
#[test]
fn budget_durations_have_no_seconds() {
    for good in ["2h20m0s", "20m", "1h", "1h0s"] {
        accepts(
            POOL,
            "spec.disruption",
            budget(json!({"nodes": "1", "schedule": "@daily", "duration": good})),
        );
    }
    for bad in ["30s", "-1h", "1.5h", "10ms"] {
        let value = budget(json!({"nodes": "1", "schedule": "@daily", "duration": bad}));
        refuses_pattern(
            POOL,
            "spec.disruption",
            &value,
            "spec.disruption.budgets[0].duration@budgets/0/duration",
            BUDGET_DURATION,
        );
    }
}

// API-056
#[test]
fn schedule_and_duration_come_together() {
    let text = "spec.disruption.budgets: Invalid value: 'schedule' must be set with 'duration'";
    refuses(
        POOL,
        "spec.disruption",
        budget(json!({"nodes": "1", "schedule": "@daily"})),
        text,
    );
    refuses(
        POOL,
        "spec.disruption",
        budget(json!({"nodes": "1", "duration": "1h"})),
        text,
    );
}

// API-036
#[test]
fn policies_are_case_sensitive() {
    for good in ["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"] {
        accepts(
            POOL,
            "spec.disruption",
            json!({"consolidateAfter": "0s", "consolidationPolicy": good}),
        );
    }
    refuses(
        POOL,
        "spec.disruption",
        json!({"consolidateAfter": "0s", "consolidationPolicy": "whenEmpty"}),
        "spec.disruption.consolidationPolicy: Unsupported value: \"whenEmpty\": supported values: \"WhenEmpty\", \"WhenEmptyOrUnderutilized\", \"Balanced\"",
    );
}

// API-039
#[test]
fn budget_reasons_are_a_set() {
    accepts(
        POOL,
        "spec.disruption",
        budget(json!({"nodes": "1", "reasons": ["Underutilized", "Empty", "Drifted"]})),
    );
    let at = "spec.disruption.budgets[0].reasons";
    refuses(
        POOL,
        "spec.disruption",
        budget(json!({"nodes": "1", "reasons": ["Empty", "Empty"]})),
        &format!("{at}[1]: Duplicate value: \"Empty\""),
    );
    refuses(
        POOL,
        "spec.disruption",
        budget(json!({"nodes": "1", "reasons": ["Expired"]})),
        &format!(
            "{at}[0]: Unsupported value: \"Expired\": supported values: \"Underutilized\", \"Empty\", \"Drifted\""
        ),
    );
}

// API-037
#[test]
fn at_most_fifty_budgets() {
    let budgets = |n: usize| json!({"consolidateAfter": "0s", "budgets": vec![json!({"nodes": "1"}); n]});
    accepts(POOL, "spec.disruption", budgets(50));
    refuses(
        POOL,
        "spec.disruption",
        budgets(51),
        "spec.disruption.budgets: Too many: 51: must have at most 50 items",
    );
}

// API-043, API-044
#[test]
fn weight_and_replicas_have_bounds() {
    accepts(POOL, "spec.weight", json!(1));
    accepts(POOL, "spec.weight", json!(100));
    accepts(POOL, "spec.replicas", json!(0));
    refuses(
        POOL,
        "spec.replicas",
        json!(-1),
        "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0",
    );
}

// API-029
#[test]
fn taints_have_keys_values_and_effects() {
    for field in ["taints", "startupTaints"] {
        let path = format!("spec.template.spec.{field}");
        accepts(
            POOL,
            &path,
            json!([{"key": "example.com/a", "value": "b", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]),
        );
        // API-072: the schema does not mind duplicates.
        accepts(
            POOL,
            &path,
            json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]),
        );
        accepts(
            POOL,
            &path,
            json!([{"key": "a", "effect": "PreferNoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]),
        );
        let at = format!("{path}[0]");
        refuses(
            POOL,
            &path,
            json!([{"effect": "NoSchedule"}]),
            &format!("{at}.key: Required value"),
        );
        refuses(
            POOL,
            &path,
            json!([{"key": "a"}]),
            &format!("{at}.effect: Required value"),
        );
        refuses(
            POOL,
            &path,
            json!([{"key": "", "effect": "NoSchedule"}]),
            &format!("{at}.key: Invalid value: \"\": {at}.key in body should be at least 1 chars long"),
        );
        refuses(
            POOL,
            &path,
            json!([{"key": "a", "effect": "Never"}]),
            &format!(
                "{at}.effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\""
            ),
        );
        let empty = json!([{"key": "a", "value": "", "effect": "NoSchedule"}]);
        refuses(
            POOL,
            &path,
            empty,
            &format!("{at}.value: Invalid value: \"\": {at}.value in body should match '{QUALIFIED_NAME}'"),
        );
        let late = json!([{"key": "a", "effect": "NoSchedule", "timeAdded": "today"}]);
        refuses(
            POOL,
            &path,
            late,
            &format!(
                "{at}.timeAdded: Invalid value: \"today\": {at}.timeAdded in body must be of type date-time: \"today\""
            ),
        );
    }
}

// API-026, API-030, API-031
#[test]
fn template_requirements_and_class_are_required() {
    refuses(POOL, "spec", json!({}), "spec.template: Required value");
    refuses(POOL, "spec.template", json!({}), "spec.template.spec: Required value");
    let at = "spec.template.spec";
    refuses(POOL, at, json!({}), "spec.template.spec.requirements: Required value");
    refuses(POOL, at, json!({}), "spec.template.spec.nodeClassRef: Required value");
    for field in ["group", "kind", "name"] {
        let mut class = json!({"group": "g", "kind": "k", "name": "n"});
        class.as_object_mut().expect("an object").remove(field);
        refuses(
            POOL,
            "spec.template.spec.nodeClassRef",
            class,
            &format!("{at}.nodeClassRef.{field}: Required value"),
        );
    }
    refuses_pattern(
        POOL,
        "spec.template.spec.nodeClassRef.group",
        &json!("a/b"),
        "spec.template.spec.nodeClassRef.group",
        "^[^/]*$",
    );
}

// API-059, API-095
#[test]
fn class_fields_may_not_be_empty() {
    for (kind, path) in [
        (POOL, "spec.template.spec.nodeClassRef"),
        ("NodeClaim", "spec.nodeClassRef"),
    ] {
        for field in ["group", "kind", "name"] {
            let at = format!("{path}.{field}");
            refuses(
                kind,
                &at,
                json!(""),
                &format!("{at}: Invalid value: \"\": {field} may not be empty"),
            );
        }
    }
}

// API-027, API-028
#[test]
fn labels_are_bounded_and_annotations_free() {
    let labels = |n: usize| Value::Object((0..n).map(|i| (format!("l{i}"), json!("v"))).collect());
    accepts(POOL, "spec.template.metadata.labels", labels(100));
    let text = "spec.template.metadata.labels: Too many: 101: must have at most 100 items";
    refuses(POOL, "spec.template.metadata.labels", labels(101), text);
    accepts(
        POOL,
        "spec.template.metadata.annotations",
        json!({"any key": "x".repeat(1000)}),
    );
}

// API-054
#[test]
fn static_pools_limit_nodes_only() {
    let text = "spec: Invalid value: only 'limits.nodes' is supported on static NodePools";
    let pool = |limits: Value| with(with(sample(POOL), "spec.replicas", json!(3)), "spec.limits", limits);
    for good in [json!({}), json!({"nodes": "5"})] {
        create(POOL, pool(good)).expect("accepted");
    }
    for bad in [json!({"cpu": "5"}), json!({"nodes": "5", "cpu": "1"})] {
        assert_eq!(create(POOL, pool(bad)).expect_err("refused"), [text]);
    }
}

// API-055
#[test]
fn static_pools_have_no_weight() {
    let pool = with(with(sample(POOL), "spec.replicas", json!(3)), "spec.weight", json!(1));
    assert_eq!(
        create(POOL, pool).expect_err("refused"),
        ["spec: Invalid value: 'weight' is not supported on static NodePools"]
    );
}

// API-062
#[test]
fn static_pools_take_everything_else() {
    let mut pool = with(sample(POOL), "spec.replicas", json!(1000));
    for (path, value) in [
        (
            "spec.disruption",
            json!({"consolidateAfter": "1m", "consolidationPolicy": "WhenEmpty", "budgets": [{"nodes": "1"}]}),
        ),
        ("spec.template.metadata.labels", json!({"a": "b"})),
        ("spec.template.metadata.annotations", json!({"a": "b"})),
        (
            "spec.template.spec.taints",
            json!([{"key": "a", "effect": "NoSchedule"}]),
        ),
        ("spec.template.spec.expireAfter", json!("Never")),
        ("spec.template.spec.terminationGracePeriod", json!("1h")),
        (
            "spec.template.spec.requirements",
            json!([{"key": "a", "operator": "In", "values": ["x", "y"], "minValues": 2}]),
        ),
    ] {
        pool = with(pool, path, value);
    }
    create(POOL, pool).expect("accepted");
}

// API-053, API-061, API-063
#[test]
fn a_pool_stays_static_or_dynamic() {
    let text = "spec: Invalid value: Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes";
    let fixed = |n: i64| with(sample(POOL), "spec.replicas", json!(n));
    assert_eq!(update(POOL, sample(POOL), fixed(1)), [text]);
    assert_eq!(update(POOL, fixed(1), sample(POOL)), [text]);
    assert!(update(POOL, fixed(1), fixed(0)).is_empty());
    assert!(update(POOL, fixed(1), with(fixed(2), "spec.limits", json!({"nodes": "3"}))).is_empty());
}

// API-057, API-058, API-060
#[test]
fn the_class_kind_is_fixed_and_its_name_is_not() {
    let at = "spec.template.spec.nodeClassRef";
    let change = |field: &str| with(sample(POOL), &format!("{at}.{field}"), json!("other"));
    assert_eq!(
        update(POOL, sample(POOL), change("group")),
        [format!("{at}: Invalid value: nodeClassRef.group is immutable")]
    );
    assert_eq!(
        update(POOL, sample(POOL), change("kind")),
        [format!("{at}: Invalid value: nodeClassRef.kind is immutable")]
    );
    assert!(update(POOL, sample(POOL), change("name")).is_empty());
}

// API-145, API-146, API-147, API-148
#[test]
fn template_labels_in_closed_domains_are_refused() {
    let at = "spec.template.metadata.labels";
    for (key, text) in [
        ("karpenter.sh/custom", "label domain \"karpenter.sh\" is restricted"),
        ("sub.karpenter.sh/x", "label domain \"karpenter.sh\" is restricted"),
        ("notkarpenter.sh/x", "label domain \"karpenter.sh\" is restricted"),
        ("karpenter.sh", "label domain \"karpenter.sh\" is restricted"),
        ("karpenter.sh/nodepool", "label \"karpenter.sh/nodepool\" is restricted"),
        (
            "kubernetes.io/hostname",
            "label \"kubernetes.io/hostname\" is restricted",
        ),
    ] {
        refuses(POOL, at, json!({key: "x"}), &format!("{at}: Invalid value: {text}"));
    }
}

// API-149, API-152, API-150, API-069
#[test]
fn other_template_labels_are_accepted() {
    for key in [
        "karpenter.sh/capacity-type",
        "kubernetes.io/custom",
        "node-restriction.kubernetes.io/x",
        "kops.k8s.io/instancegroup",
        "karpenter.kwok.sh/foo",
        "spaces are not checked here",
    ] {
        accepts(POOL, "spec.template.metadata.labels", json!({key: "x"}));
    }
}

// API-048
#[test]
fn conditions_are_complete_and_unique() {
    let good = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let pool = |conditions: Value| with(sample(POOL), "status", json!({"conditions": conditions}));
    create(POOL, pool(json!([good]))).expect("accepted");
    let doubled = create(POOL, pool(json!([good, good]))).expect_err("refused");
    assert_eq!(doubled, ["status.conditions[1]: Duplicate value: {\"type\":\"Ready\"}"]);
    for field in ["type", "status", "reason", "message", "lastTransitionTime"] {
        let mut partial = good.clone();
        partial.as_object_mut().expect("an object").remove(field);
        let errors = create(POOL, pool(json!([partial]))).expect_err("refused");
        assert!(
            errors.contains(&format!("status.conditions[0].{field}: Required value")),
            "{errors:?}"
        );
    }
    for (field, value, text) in [
        ("reason", json!(""), "in body should be at least 1 chars long"),
        (
            "reason",
            json!("no spaces"),
            "in body should match '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$'",
        ),
        (
            "status",
            json!("true"),
            "Unsupported value: \"true\": supported values: \"True\", \"False\", \"Unknown\"",
        ),
        (
            "message",
            json!("x".repeat(32_769)),
            "Too long: may not be more than 32768 bytes",
        ),
        (
            "type",
            json!("x".repeat(317)),
            "Too long: may not be more than 316 bytes",
        ),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        let errors = create(POOL, pool(json!([bad]))).expect_err("refused");
        assert!(errors.iter().any(|e| e.ends_with(text)), "{errors:?}");
    }
}
