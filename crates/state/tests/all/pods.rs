//! Pods: what is read of them, which are provisionable, and what validation says.

use crate::fixture::{amounts, converter, mirror, now, pending, pod, texts, yaml};
use kerf_model::intern::sym;
use kerf_model::pod::{DoNotDisrupt, Owner, PodFault};
use kerf_model::requirement::Requirement;
use kerf_model::selector::{LabelSelector, Match};
use kerf_state::Kind;
use kerf_state::lean::LeanPod;
use std::sync::Arc;

const UNSCHEDULABLE: &str = "conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable}]";

/// The status of a pod that is nominated to a node and that Kerf nominated to another, or the same, last.
fn nominated(current: &str, by_kerf: &str) -> String {
    format!(
        "{{conditions: [{{type: PodScheduled, status: 'False', reason: Unschedulable}},
           {{type: kerf.sh/Nominated, status: 'True', message: {by_kerf}}}], nominatedNodeName: {current}}}"
    )
}

#[test]
fn which_pods_are_provisionable() {
    let table = [
        // SCH-008
        ("{}", format!("{{{UNSCHEDULABLE}}}"), true),
        ("{}", "{}".to_owned(), false),
        // SCH-009
        (
            "{}",
            "{conditions: [{type: PodScheduled, status: 'False', reason: SchedulingGated}]}".to_owned(),
            false,
        ),
        (
            "{}",
            "{conditions: [{type: PodScheduled, status: 'True', reason: Unschedulable}]}".to_owned(),
            true,
        ),
        // SCH-008
        ("{nodeName: n}", format!("{{{UNSCHEDULABLE}}}"), false),
        ("{}", format!("{{{UNSCHEDULABLE}, nominatedNodeName: n}}"), false),
        // Kerf nominated it, and another node's room is made by preemption.
        ("{}", nominated("n", "n"), true),
        ("{}", nominated("n", "other"), false),
        // SCH-010
        ("{}", format!("{{{UNSCHEDULABLE}, phase: Failed}}"), true),
        // SCH-012
        ("{schedulerName: mine}", format!("{{{UNSCHEDULABLE}}}"), true),
    ];
    for (spec, status, expected) in table {
        let facts = converter().pod(&pod("a", spec, &status)).unwrap();
        assert_eq!(facts.provisionable, expected, "{spec} {status}");
    }
}

#[test]
fn which_pods_wait_for_their_first_turn() {
    let table = [
        ("{}", "{}", true),
        ("{schedulerName: default-scheduler}", "{phase: Pending}", true),
        ("{schedulerName: mine}", "{}", false),
        ("{nodeName: n}", "{}", false),
        ("{schedulingGates: [{name: quota}]}", "{}", false),
        (
            "{}",
            "{conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable}]}",
            false,
        ),
        ("{}", "{phase: Failed}", false),
        ("{}", "{nominatedNodeName: n}", false),
        (
            "{}",
            "{nominatedNodeName: n, conditions: [{type: kerf.sh/Nominated, status: 'True', message: n}]}",
            true,
        ),
    ];
    for (spec, status, expected) in table {
        let facts = converter().pod(&pod("a", spec, status)).unwrap();
        assert_eq!(facts.untried, expected, "{spec} {status}");
    }
    let owned: LeanPod =
        yaml("{metadata: {name: a, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: o, uid: o}]}}");
    assert!(!converter().pod(&owned).unwrap().untried);
    let deleted: LeanPod = yaml("{metadata: {name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}}");
    assert!(!converter().pod(&deleted).unwrap().untried);
}

// SCH-008, SCH-011, DIS-043
#[test]
fn any_owner_of_the_full_kind_counts() {
    let table = [
        ("apps/v1", "DaemonSet", false, Owner::DaemonSet),
        ("v1", "Node", false, Owner::Node),
        ("apps/v1", "ReplicaSet", true, Owner::ReplicaSet),
        ("apps/v1", "StatefulSet", true, Owner::StatefulSet),
        ("batch/v1", "Job", true, Owner::Job),
        ("example.com/v1", "DaemonSet", true, Owner::Other),
    ];
    for (version, kind, provisionable, owner) in table {
        let lean: LeanPod = yaml(&format!(
            "{{metadata: {{name: a, ownerReferences: [{{apiVersion: x/v1, kind: Thing, name: t, uid: t}},
               {{apiVersion: {version}, kind: {kind}, name: o, uid: o}}]}}, status: {{{UNSCHEDULABLE}}}}}"
        ));
        let facts = converter().pod(&lean).unwrap();
        assert_eq!(
            (facts.provisionable, facts.pod.owner),
            (provisionable, owner),
            "{version} {kind}"
        );
    }
}

// LIF-101
#[test]
fn only_the_two_system_classes_are_critical() {
    let table = [
        ("system-node-critical", true),
        ("system-cluster-critical", true),
        ("my-critical", false),
        ("", false),
    ];
    for (class, critical) in table {
        let facts = converter()
            .pod(&pod("a", &format!("{{priorityClassName: '{class}'}}"), "{}"))
            .unwrap();
        assert_eq!(facts.pod.critical, critical, "{class}");
    }
}

fn faults(spec: &str) -> Vec<String> {
    texts(&converter().pod(&pending("a", spec)).unwrap().pod.faults)
}

fn required(expressions: &str) -> String {
    format!(
        "{{affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution:
           {{nodeSelectorTerms: [{{matchExpressions: [{expressions}]}}]}}}}}}}}"
    )
}

#[test]
fn hard_constraints_are_validated() {
    let table = [
        // SCH-017
        ("{key: team, operator: In, values: [a]}", ""),
        (
            "{key: team, operator: Near, values: [a]}",
            "key team has an unsupported operator Near not in [Gte Lte In NotIn Exists",
        ),
        (
            "{key: team, operator: In}",
            "key team with operator In must have a value defined",
        ),
        (
            "{key: team, operator: Gt, values: [x]}",
            "key team with operator Gt must have a single positive integer value",
        ),
        (
            "{key: team, operator: Lte, values: ['1', '2']}",
            "key team with operator Lte must have a single positive integer value",
        ),
        ("{key: 'te am', operator: Exists}", "key te am is not a qualified name"),
        (
            "{key: team, operator: In, values: ['?']}",
            "invalid value ? for key team",
        ),
        // SCH-018
        (
            "{key: karpenter.sh/capacity-type, operator: In, values: [gift]}",
            "no valid values found in [gift]",
        ),
        (
            "{key: karpenter.sh/capacity-type, operator: In, values: [gift, spot]}",
            "",
        ),
        // SCH-021
        (
            "{key: kubernetes.io/hostname, operator: In, values: [n]}",
            "using label kubernetes.io/hostname is not allowed",
        ),
        // SCH-022
        (
            "{key: karpenter.sh/odd, operator: Exists}",
            "using label karpenter.sh/odd is not allowed",
        ),
        (
            "{key: sub.karpenter.sh/odd, operator: Exists}",
            "using label sub.karpenter.sh/odd is not allowed",
        ),
        ("{key: example.k8s.io/odd, operator: Exists}", ""),
        // SCH-019
        (
            "{key: team, operator: Exists}], matchFields: [{key: metadata.name, operator: In, values: [n]}",
            "node selector term with matchFields is not supported",
        ),
    ];
    for (expression, expected) in table {
        let found = faults(&required(expression));
        match expected {
            "" => assert!(found.is_empty(), "{expression}: {found:?}"),
            start => assert!(
                found.len() == 1 && found[0].starts_with(start),
                "{expression}: {found:?}"
            ),
        }
    }
}

// SCH-014, SCH-017, SCH-021
#[test]
fn node_selectors_are_validated_and_all_failures_are_reported() {
    let found = faults("{nodeSelector: {kubernetes.io/hostname: n, karpenter.sh/odd: 'true', team: a}}");
    assert_eq!(found.len(), 2, "{found:?}");
}

// SCH-020, SCH-021
#[test]
fn preferences_are_not_validated() {
    let spec = "{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
        {weight: 1, preference: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n]}]}},
        {weight: 2, preference: {matchExpressions: [{key: team, operator: Near}]}}]}},
        topologySpreadConstraints: [{topologyKey: nowhere, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]}";
    let facts = converter().pod(&pending("a", spec)).unwrap();
    assert!(facts.pod.faults.is_empty(), "{:?}", facts.pod.faults);
    assert_eq!(facts.pod.shape.preferred_terms.len(), 1);
}

// SCH-016
#[test]
fn a_pod_may_opt_out_of_pools() {
    let absent = "{key: karpenter.sh/nodepool, operator: DoesNotExist}";
    let preferred = format!(
        "{{affinity: {{nodeAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [
           {{weight: 1, preference: {{matchExpressions: [{{key: team, operator: Exists}}]}}}},
           {{weight: 9, preference: {{matchExpressions: [{absent}]}}}}]}}}}}}"
    );
    for spec in [required(absent), preferred] {
        let facts = converter().pod(&pending("a", &spec)).unwrap();
        assert_eq!(facts.pod.faults, [PodFault::OptedOut], "{spec}");
    }
    assert_eq!(
        PodFault::OptedOut.to_string(),
        "configured to not run on a Karpenter provisioned node (requirement=karpenter.sh/nodepool DoesNotExist)"
    );
}

// SCH-031: a bound pod was accepted already.
#[test]
fn bound_pods_are_not_validated() {
    let lean = pod(
        "a",
        "{nodeName: n, nodeSelector: {kubernetes.io/hostname: n}}",
        "{phase: Running}",
    );
    assert!(converter().pod(&lean).unwrap().pod.faults.is_empty());
}

// SCH-120
#[test]
fn effective_requests() {
    let container = |name: &str, requests: &str| format!("{{name: {name}, resources: {{requests: {requests}}}}}");
    let sidecar = |name: &str, requests: &str| {
        format!("{{name: {name}, restartPolicy: Always, resources: {{requests: {requests}}}}}")
    };
    let table = [
        (
            "containers add up",
            format!(
                "{{containers: [{}, {}]}}",
                container("a", "{cpu: 250m, memory: 1Gi}"),
                container("b", "{cpu: '1'}")
            ),
            "cpu=1250 memory=1073741824 pods=1",
        ),
        (
            "the largest init container counts if it is larger",
            format!(
                "{{containers: [{}], initContainers: [{}, {}]}}",
                container("a", "{cpu: '1', memory: 2}"),
                container("i", "{cpu: '3'}"),
                container("j", "{cpu: '2', memory: 1}")
            ),
            "cpu=3000 memory=2 pods=1",
        ),
        (
            "sidecars run beside what comes later",
            format!(
                "{{containers: [{}], initContainers: [{}, {}, {}]}}",
                container("a", "{cpu: '1'}"),
                container("i", "{cpu: '2'}"),
                sidecar("s", "{cpu: 500m}"),
                container("j", "{cpu: '2'}")
            ),
            "cpu=2500 pods=1",
        ),
        (
            "and beside the containers",
            format!(
                "{{containers: [{}], initContainers: [{}]}}",
                container("a", "{cpu: '1'}"),
                sidecar("s", "{cpu: 500m}")
            ),
            "cpu=1500 pods=1",
        ),
        (
            "overhead comes on top",
            format!(
                "{{containers: [{}], overhead: {{cpu: 100m, memory: 7}}}}",
                container("a", "{cpu: '1'}")
            ),
            "cpu=1100 memory=7 pods=1",
        ),
        (
            "pod-level requests replace, for some resources",
            format!(
                "{{containers: [{}], resources: {{requests: {{cpu: '4', hugepages-2Mi: 2Mi, nvidia.com/gpu: '9'}}}}, overhead: {{cpu: 1m}}}}",
                container("a", "{cpu: '1', nvidia.com/gpu: '1'}")
            ),
            "cpu=4001 hugepages-2Mi=2097152 nvidia.com/gpu=1 pods=1",
        ),
        // SCH-123
        (
            "rounding comes last",
            format!(
                "{{containers: [{}, {}]}}",
                container("a", "{cpu: 0.0005, memory: 0.5}"),
                container("b", "{cpu: 0.0005, memory: 0.5}")
            ),
            "cpu=1 memory=1 pods=1",
        ),
    ];
    for (what, spec, expected) in table {
        let mut converter = converter();
        let facts = converter.pod(&pending("a", &spec)).unwrap();
        assert_eq!(
            amounts(&facts.pod.shape.requests, converter.interner()),
            expected,
            "{what}"
        );
    }
}

// SCH-120
#[test]
fn a_resize_counts_with_the_larger_side_until_it_is_done() {
    let spec = "{nodeName: n, containers: [{name: a, resources: {requests: {cpu: '2'}}}]}";
    let status = |conditions: &str| {
        format!(
            "{{phase: Running, conditions: [{conditions}], containerStatuses:
               [{{name: a, resources: {{requests: {{cpu: '1'}}}}, allocatedResources: {{cpu: 1500m}}}}]}}"
        )
    };
    for (conditions, expected) in [
        ("", 2000),
        ("{type: PodResizePending, status: 'True', reason: Infeasible}", 1500),
    ] {
        let facts = converter().pod(&pod("a", spec, &status(conditions))).unwrap();
        assert_eq!(facts.pod.shape.requests.get(sym::CPU), expected);
    }
}

// SCH-024
#[test]
fn illegible_amounts_are_faults_of_their_pod_alone() {
    let spec =
        |cpu: &str| format!("{{containers: [{{name: web, resources: {{requests: {{cpu: {cpu}, memory: 1Gi}}}}}}]}}");
    let found = faults(&spec("lots"));
    assert!(
        found.len() == 1 && found[0].starts_with("container web: requests.cpu: quantity \"lots\""),
        "{found:?}"
    );
    let negative = faults(&spec("'-1'"));
    assert_eq!(
        negative,
        ["container web: requests.cpu: quantity -1 is negative; ask for zero or more"]
    );
    assert!(faults(&spec("'1'")).is_empty());
}

// SCH-163
#[test]
fn host_ports() {
    let spec = "{containers: [{name: a, ports: [{containerPort: 80}, {containerPort: 80, hostPort: 8080},
        {containerPort: 53, hostPort: 53, hostIP: 10.0.0.1, protocol: UDP}]}],
        initContainers: [{name: i, ports: [{containerPort: 1, hostPort: 1}]}]}";
    let ports = |spec: &str| -> Vec<String> {
        let facts = converter().pod(&pending("a", spec)).unwrap();
        facts
            .pod
            .shape
            .host_ports
            .iter()
            .map(|p| format!("{}:{}/{}", p.ip, p.port, p.protocol))
            .collect()
    };
    assert_eq!(ports(spec), ["0.0.0.0:8080/TCP", "10.0.0.1:53/UDP"]);
    // What the API server writes for pods on the node's network.
    assert_eq!(
        ports("{hostNetwork: true, containers: [{name: a, ports: [{containerPort: 80}]}]}"),
        ["0.0.0.0:80/TCP"]
    );
}

// SCH-099
#[test]
fn deprecated_keys_are_normalised() {
    let mut converter = converter();
    let spec = "{nodeSelector: {failure-domain.beta.kubernetes.io/zone: a, beta.kubernetes.io/arch: arm64},
        affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
        {matchExpressions: [{key: beta.kubernetes.io/instance-type, operator: Exists}]}]}}}}";
    let shape = converter.pod(&pending("a", spec)).unwrap().pod.shape;
    let arm = converter.interner().intern("arm64");
    assert!(shape.node_selector.get(sym::ZONE).is_some());
    assert_eq!(
        shape.node_selector.get(sym::ARCH),
        Some(&Requirement::is(sym::ARCH, arm))
    );
    assert_eq!(shape.required_terms, [[Requirement::exists(sym::INSTANCE_TYPE)]]);
}

// SCH-188, SCH-191, SCH-194
#[test]
fn spread_selectors_take_in_the_pods_own_labels() {
    let lean: LeanPod = yaml(
        "{metadata: {name: a, labels: {app: web, pod-template-hash: x1}}, spec: {topologySpreadConstraints: [
          {topologyKey: z, maxSkew: 2, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}},
           matchLabelKeys: [pod-template-hash, missing], minDomains: 3, nodeTaintsPolicy: Honor, nodeAffinityPolicy: Ignore},
          {topologyKey: z, maxSkew: 1, whenUnsatisfiable: DoNotSchedule},
          {topologyKey: z, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {}},
          {topologyKey: z, maxSkew: 1, whenUnsatisfiable: DoNotSchedule,
           labelSelector: {matchExpressions: [{key: app, operator: Sometimes}]}}]}}",
    );
    let shape = converter().pod(&lean).unwrap().pod.shape;
    let first = &shape.spread[0];
    assert_eq!(
        first.selector,
        LabelSelector::all([
            Match::any_of("app", [Arc::from("web")]),
            Match::any_of("pod-template-hash", [Arc::from("x1")])
        ])
    );
    assert_eq!((first.max_skew, first.required, first.min_domains), (2, false, Some(3)));
    assert_eq!((first.honor_taints, first.honor_node_affinity), (true, false));
    let second = &shape.spread[1];
    assert_eq!(
        (second.required, second.honor_taints, second.honor_node_affinity),
        (true, false, true)
    );
    assert_eq!(second.selector, LabelSelector::Nothing);
    assert_eq!(shape.spread[2].selector, LabelSelector::All(Vec::new()));
    assert_eq!(shape.spread[3].selector, LabelSelector::Nothing);
}

// SCH-193
#[test]
fn affinity_terms_look_at_the_right_namespaces() {
    let lean: LeanPod = yaml(
        "{metadata: {name: a, namespace: shop}, spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
          {topologyKey: z, labelSelector: {}},
          {topologyKey: z, labelSelector: {}, namespaces: [b, a]},
          {topologyKey: z, labelSelector: {}, namespaceSelector: {}}]}}}}",
    );
    let shape = converter().pod(&lean).unwrap().pod.shape;
    let scopes: Vec<_> = shape
        .anti_affinity
        .iter()
        .map(|term| (term.namespaces.names.join(","), term.namespaces.selector.clone()))
        .collect();
    assert_eq!(
        scopes,
        [
            ("shop".to_owned(), None),
            ("a,b".to_owned(), None),
            (String::new(), Some(LabelSelector::All(Vec::new())))
        ]
    );
}

// SCH-027, DIS-052, DIS-053
#[test]
fn the_do_not_disrupt_annotation() {
    let table = [
        ("'true'", DoNotDisrupt::Always),
        ("1h30m", DoNotDisrupt::ForNanos(5_400_000_000_000)),
        ("'0s'", DoNotDisrupt::Invalid("0s".into())),
        ("'-5m'", DoNotDisrupt::Invalid("-5m".into())),
        ("'false'", DoNotDisrupt::Invalid("false".into())),
    ];
    for (text, expected) in table {
        let lean: LeanPod = yaml(&format!(
            "{{metadata: {{name: a, annotations: {{karpenter.sh/do-not-disrupt: {text}}}}}}}"
        ));
        assert_eq!(converter().pod(&lean).unwrap().pod.do_not_disrupt, expected);
    }
}

// DIS-046
#[test]
fn a_deletion_cost_that_is_no_number_counts_nothing() {
    for (text, expected) in [("'-7'", -7), ("'1e3'", 1000), ("cheap", 0)] {
        let lean: LeanPod = yaml(&format!(
            "{{metadata: {{name: a, annotations: {{controller.kubernetes.io/pod-deletion-cost: {text}}}}}}}"
        ));
        assert_eq!(converter().pod(&lean).unwrap().pod.deletion_cost, expected);
    }
}

// SCH-338
#[test]
fn pods_with_resource_claims_are_refused() {
    assert_eq!(
        faults("{resourceClaims: [{name: gpu}]}"),
        ["pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter"]
    );
}

#[test]
fn equal_pods_share_their_shape_and_labels() {
    let mut converter = converter();
    let spec = "{tolerations: [{operator: Exists}], containers: [{name: a, resources: {requests: {cpu: '1'}}}]}";
    let (a, b) = (
        converter.pod(&pending("a", spec)).unwrap().pod,
        converter.pod(&pending("b", spec)).unwrap().pod,
    );
    assert!(Arc::ptr_eq(&a.shape, &b.shape));
    assert!(Arc::ptr_eq(&a.labels, &b.labels));
}

#[test]
fn null_means_left_out() {
    let lean = pending(
        "a",
        "{nodeSelector: null, tolerations: null, affinity: null, containers: [{name: a, resources: null, ports: null}]}",
    );
    assert!(converter().pod(&lean).unwrap().pod.faults.is_empty());
}

/// Label values change with every rollout and every job. They are compared as texts and not interned, so that none stays for ever.
#[test]
fn label_values_of_pods_that_are_gone_are_forgotten() {
    let mut mirror = mirror();
    let interner = Arc::clone(mirror.interner());
    let mut live = |job: &str| {
        let spec = format!(
            "{{nodeSelector: {{kubernetes.io/arch: amd64}}, containers: [],
               topologySpreadConstraints: [{{maxSkew: 1, topologyKey: topology.kubernetes.io/zone,
                 whenUnsatisfiable: DoNotSchedule, labelSelector: {{matchLabels: {{job: {job}}}}}}}],
               affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [
                 {{topologyKey: kubernetes.io/hostname,
                   labelSelector: {{matchExpressions: [{{key: job, operator: In, values: [{job}]}}]}}}}]}}}}}}"
        );
        let mut pod = pending(job, &spec);
        pod.metadata = yaml(&format!(
            "{{name: {job}, namespace: default, uid: {job}, labels: {{job: {job}}}, annotations: {{run: {job}}}}}"
        ));
        mirror.apply(pod.clone());
        assert_eq!(mirror.snapshot(now()).pending.len(), 1);
        mirror.delete(&pod);
    };
    live("job");
    let known = interner.len();
    for number in 0..1000 {
        live(&format!("job-{number}"));
    }
    assert_eq!(interner.len(), known);
}

#[test]
fn a_version_without_news_is_known() {
    let mut mirror = mirror();
    let version = |version: &str| -> LeanPod {
        yaml(&format!(
            "{{metadata: {{name: a, namespace: default, uid: a, resourceVersion: '{version}'}}, spec: {{nodeName: n}}}}"
        ))
    };
    mirror.apply(version("5"));
    mirror.apply(version("6"));
    assert_eq!(mirror.versions(Kind::Pod)[0].version, 6);
}
