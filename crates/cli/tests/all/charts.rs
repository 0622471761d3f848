//! The charts: `charts/kerf` renders what `kerf manifests` prints, and `charts/kerf-crd` what `kerf crds` prints.

use crate::kerf::kerf;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn charts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts")
}

/// Objects by kind, namespace and name.
type Objects = BTreeMap<String, Value>;

fn objects(yaml: &str) -> Objects {
    let documents = yaml.split("\n---").map(|document| document.trim_start_matches("---"));
    let mut all = Objects::new();
    for document in documents.filter(|document| !document.trim().is_empty()) {
        let object: Value = serde_saphyr::from_str(document).expect(document);
        if object.is_null() {
            continue;
        }
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let key = [text("/kind"), text("/metadata/namespace"), text("/metadata/name")].join("/");
        assert!(all.insert(key.clone(), object).is_none(), "{key} twice");
    }
    all
}

fn manifests(args: &[&str]) -> Objects {
    let outcome = kerf(&[&["manifests"][..], args].concat());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{args:?}");
    objects(&outcome.stdout)
}

fn deployment(args: &[&str]) -> Value {
    let all = manifests(args);
    let found = all.into_iter().find(|(key, _)| key.starts_with("Deployment/"));
    found.expect("a Deployment").1
}

fn variable(deployment: &Value, name: &str) -> Option<Value> {
    let variables = deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array()?;
    variables.iter().find(|variable| variable["name"] == name).cloned()
}

// OPS-239 (the Role for node leases is not needed) OPS-238 KWK-092 KWK-093 KWK-202
#[test]
fn an_installation_has_the_objects_of_karpenters_chart() {
    let all = manifests(&[
        "--name",
        "karpenter",
        "--namespace",
        "kube-system",
        "--set",
        "nameOverride=karpenter",
    ]);
    let keys: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "ClusterRole//karpenter",
            "ClusterRole//karpenter-admin",
            "ClusterRole//karpenter-core",
            "ClusterRoleBinding//karpenter",
            "ClusterRoleBinding//karpenter-core",
            "Deployment/kube-system/karpenter",
            "PodDisruptionBudget/kube-system/karpenter",
            "Role/kube-system/karpenter",
            "RoleBinding/kube-system/karpenter",
            "Service/kube-system/karpenter",
            "ServiceAccount/kube-system/karpenter",
        ]
    );
    let selector = json!({"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"});
    assert_eq!(
        all["Deployment/kube-system/karpenter"]["spec"]["selector"]["matchLabels"],
        selector
    );
    assert_eq!(
        all["Service/kube-system/karpenter"]["spec"]["ports"][0]["name"],
        "http-metrics"
    );
    assert_eq!(
        all["PodDisruptionBudget/kube-system/karpenter"]["spec"]["maxUnavailable"],
        1
    );
    // What upstream's suites look for: one container, the label of its pods, the lease, the port of metrics, and settings in variables.
    let template = &all["Deployment/kube-system/karpenter"]["spec"]["template"];
    let containers = template["spec"]["containers"].as_array().expect("containers");
    let names: Vec<&Value> = containers.iter().map(|container| &container["name"]).collect();
    assert_eq!(names, ["controller"]);
    assert_eq!(
        template["metadata"]["labels"]["app.kubernetes.io/instance"],
        "karpenter"
    );
    let ports = containers[0]["ports"].as_array().expect("ports");
    assert!(
        ports
            .iter()
            .any(|port| port["name"] == "http-metrics" && port["containerPort"] == 8080)
    );
    let lease = variable(&all["Deployment/kube-system/karpenter"], "LEADER_ELECTION_NAME");
    assert_eq!(lease.expect("a variable")["value"], "karpenter-leader-election");
    assert!(variable(&all["Deployment/kube-system/karpenter"], "FEATURE_GATES").is_some());
    assert!(containers[0].get("args").is_none());
    let admin = &all["ClusterRole//karpenter-admin"];
    assert_eq!(
        admin["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"],
        "true"
    );
}

// OPS-241 OPS-245
#[test]
fn the_pod_is_restricted_and_keeps_off_its_own_nodes() {
    let deployment = deployment(&[]);
    assert_eq!(deployment["spec"]["replicas"], 2);
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(
        container["securityContext"],
        json!({
            "privileged": false, "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
            "runAsUser": 65532, "runAsGroup": 65532, "capabilities": {"drop": ["ALL"]},
        })
    );
    assert_eq!(
        pod["securityContext"],
        json!({"fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}})
    );
    assert_eq!(pod["priorityClassName"], "system-cluster-critical");
    assert_eq!(
        (&pod["dnsPolicy"], &pod["schedulerName"]),
        (&json!("ClusterFirst"), &json!("default-scheduler"))
    );
    assert_eq!(pod["automountServiceAccountToken"], true);
    assert_eq!(
        manifests(&[])["ServiceAccount/kube-system/kerf"]["automountServiceAccountToken"],
        false
    );
    assert_eq!(
        pod["tolerations"],
        json!([{"key": "CriticalAddonsOnly", "operator": "Exists"}])
    );
    assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    let selector = json!({"matchLabels": {"app.kubernetes.io/name": "kerf", "app.kubernetes.io/instance": "kerf"}});
    assert_eq!(
        pod["affinity"],
        json!({
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]},
            ]}},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector},
            ]},
        })
    );
    let spread = json!([{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
    }]);
    assert_eq!(pod["topologySpreadConstraints"], spread);
    for (name, path, delay) in [("livenessProbe", "/healthz", 30), ("readinessProbe", "/readyz", 5)] {
        let probe =
            json!({"httpGet": {"path": path, "port": "http"}, "initialDelaySeconds": delay, "timeoutSeconds": 30});
        assert_eq!(container[name], probe, "{name}");
    }
    let ports: Vec<&Value> = container["ports"]
        .as_array()
        .expect("ports")
        .iter()
        .map(|port| &port["name"])
        .collect();
    assert_eq!(ports, ["http-metrics", "http"]);
}

// KWK-067 KWK-068
#[test]
fn the_values_for_upstreams_suites_are_taken() {
    // An argument of --set would be a boolean.
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("profiling-{}.yaml", std::process::id()));
    let profiling = "controller: {env: [{name: ENABLE_PROFILING, value: \"true\"}]}\n";
    fs::write(&file, profiling).expect("a file");
    let all = manifests(&[
        "--name",
        "karpenter",
        "--namespace",
        "kube-system",
        "-f",
        &file.display().to_string(),
        "--set",
        "nameOverride=karpenter,logLevel=debug,settings.preferencePolicy=Ignore,\
         controller.resources.requests.cpu=1,controller.resources.requests.memory=1Gi,\
         controller.resources.limits.cpu=2,controller.resources.limits.memory=2Gi,\
         settings.featureGates.nodeRepair=true,settings.featureGates.capacityBuffer=true,settings.featureGates.staticCapacity=true",
    ]);
    let deployment = &all["Deployment/kube-system/karpenter"];
    let value = |name: &str| variable(deployment, name).expect(name)["value"].clone();
    for (name, wanted) in [
        ("LOG_LEVEL", "debug"),
        ("PREFERENCE_POLICY", "Ignore"),
        ("ENABLE_PROFILING", "true"),
        (
            "FEATURE_GATES",
            "ReservedCapacity=true,SpotToSpotConsolidation=false,NodeRepair=true,NodeOverlay=false,StaticCapacity=true,CapacityBuffer=true",
        ),
    ] {
        assert_eq!(value(name), wanted, "{name}");
    }
    let resources = &deployment["spec"]["template"]["spec"]["containers"][0]["resources"];
    let amounts = |kind: &str| ["cpu", "memory"].map(|name| resources[kind][name].to_string().replace('"', ""));
    assert_eq!(amounts("requests"), ["1", "1Gi"]);
    assert_eq!(amounts("limits"), ["2", "2Gi"]);
    // The number of workers follows the CPU request.
    let cpu = &variable(deployment, "CPU_REQUESTS").expect("a variable")["valueFrom"]["resourceFieldRef"];
    assert_eq!(
        (&cpu["resource"], &cpu["divisor"]),
        (&json!("requests.cpu"), &json!("1m"))
    );
}

// OPS-242 OPS-247
#[test]
fn values_become_environment_variables() {
    let plain = deployment(&[]);
    let value = |deployment: &Value, name: &str| variable(deployment, name).map(|found| found["value"].clone());
    for (name, wanted) in [
        ("KARPENTER_SERVICE", "kerf"),
        ("LOG_LEVEL", "info"),
        ("LOG_OUTPUT_PATHS", "stdout"),
        ("LOG_ERROR_OUTPUT_PATHS", "stderr"),
        ("METRICS_PORT", "8080"),
        ("HEALTH_PROBE_PORT", "8081"),
        ("BATCH_MAX_DURATION", "10s"),
        ("BATCH_IDLE_DURATION", "1s"),
        ("PREFERENCE_POLICY", "Respect"),
        ("MIN_VALUES_POLICY", "Strict"),
        ("IGNORE_DRA_REQUESTS", "true"),
        (
            "FEATURE_GATES",
            "ReservedCapacity=true,SpotToSpotConsolidation=false,NodeRepair=false,NodeOverlay=false,StaticCapacity=false,CapacityBuffer=false",
        ),
    ] {
        assert_eq!(value(&plain, name), Some(json!(wanted)), "{name}");
    }
    let resource = |name: &str| variable(&plain, name).expect("a variable")["valueFrom"]["resourceFieldRef"].clone();
    let cpu = json!({"containerName": "controller", "divisor": "1m", "resource": "requests.cpu"});
    assert_eq!(resource("CPU_REQUESTS"), cpu);
    let memory = json!({"containerName": "controller", "divisor": "1", "resource": "limits.memory"});
    assert_eq!(resource("MEMORY_LIMIT"), memory);
    let changed = deployment(&[
        "--set",
        "settings.ignoreDRARequests=false,logOutputPaths={stdout,/tmp/log},settings.featureGates.nodeRepair=true,controller.env[0].name=A,controller.env[0].value=b",
    ]);
    assert_eq!(value(&changed, "IGNORE_DRA_REQUESTS"), Some(json!("false")));
    assert_eq!(value(&changed, "LOG_OUTPUT_PATHS"), Some(json!("stdout,/tmp/log")));
    assert_eq!(value(&changed, "A"), Some(json!("b")));
    let gates = value(&changed, "FEATURE_GATES").expect("gates");
    assert!(
        gates.as_str().is_some_and(|gates| gates.contains("NodeRepair=true")),
        "{gates}"
    );
}

// OPS-243 OPS-244 OPS-246
#[test]
fn a_cluster_name_makes_it_the_aws_provider_with_its_settings() {
    let sets = "settings.clusterName=prod,settings.interruptionQueue=prod,settings.isolatedVPC=true,settings.reservedENIs=1,\
                settings.featureGates.staticCapacity=true";
    let all = manifests(&["--set", sets, "--crds"]);
    let deployment = &all["Deployment/kube-system/kerf"];
    let value = |name: &str| variable(deployment, name).map(|found| found["value"].clone());
    for (name, wanted) in [
        ("CLOUD_PROVIDER", "aws"),
        ("CLUSTER_NAME", "prod"),
        ("ISOLATED_VPC", "true"),
        ("EKS_CONTROL_PLANE", "false"),
        ("VM_MEMORY_OVERHEAD_PERCENT", "0.075"),
        ("INTERRUPTION_QUEUE", "prod"),
        ("ENABLE_ZONAL_SHIFT", "false"),
        ("RESERVED_ENIS", "1"),
        ("IGNORE_DRA_REQUESTS", "true"),
        ("DISABLE_CLUSTER_STATE_OBSERVABILITY", "false"),
        ("DISABLE_DRY_RUN", "false"),
        ("AMI_REFRESH_INTERVAL", "1m"),
        ("SUBNET_REFRESH_INTERVAL", "1m"),
        ("LEARN_MEMORY", "true"),
        ("INSTANCE_STATUS_DRY_RUN", "false"),
        (
            "FEATURE_GATES",
            "ReservedCapacity=true,SpotToSpotConsolidation=false,NodeRepair=false,NodeOverlay=false,StaticCapacity=true,CapacityBuffer=false",
        ),
    ] {
        assert_eq!(value(name), Some(json!(wanted)), "{name}");
    }
    let sets = "settings.clusterName=prod,settings.learnMemory=false,settings.instanceStatusDryRun=true";
    let changed = manifests(&["--set", sets]);
    let value_of =
        |name: &str| variable(&changed["Deployment/kube-system/kerf"], name).map(|found| found["value"].clone());
    assert_eq!(value_of("LEARN_MEMORY"), Some(json!("false")));
    assert_eq!(value_of("INSTANCE_STATUS_DRY_RUN"), Some(json!("true")));
    // What is empty keeps the controller's default.
    assert_eq!((value("CLUSTER_ENDPOINT"), value("CLUSTER_CA_BUNDLE")), (None, None));
    // CPU requests and memory limits have defaults: the downward API would answer with the node's otherwise.
    let resources = &deployment["spec"]["template"]["spec"]["containers"][0]["resources"];
    assert!(resources["requests"]["cpu"].is_string() && resources["limits"]["memory"].is_string());
    let group = |role: &str| all[role]["rules"][0]["apiGroups"][0].clone();
    assert_eq!(group("ClusterRole//kerf"), "karpenter.k8s.aws");
    let dns = &all["Role/kube-system/kerf-dns"]["rules"][0];
    assert_eq!(
        (&dns["resources"], &dns["resourceNames"]),
        (&json!(["services"]), &json!(["kube-dns"]))
    );
    assert_eq!(all["RoleBinding/kube-system/kerf-dns"]["roleRef"]["name"], "kerf-dns");
    assert!(all.contains_key("CustomResourceDefinition//ec2nodeclasses.karpenter.k8s.aws"));
    let admin = all["ClusterRole//kerf-admin"]["rules"].to_string();
    assert!(
        admin.contains("ec2nodeclasses") && !admin.contains("kwoknodeclasses"),
        "{admin}"
    );
    // Without a name of the cluster there is no AWS provider.
    let refused = kerf(&["manifests", "--set", "settings.cloudProvider=aws"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("settings.clusterName is missing"),
        "{}",
        refused.stderr
    );
}

// AWS-415 AWS-420
#[test]
fn the_iam_permissions_are_printed_for_a_cluster() {
    let place = ["--region", "us-gov-west-1", "--account", "123456789012"];
    let printed = |args: &[&str]| kerf(&[&["manifests", "--iam"][..], args, &place].concat());
    let policy = printed(&["json", "--cluster-name", "prod", "--node-role", "nodes"]);
    assert_eq!((policy.code, policy.stderr.as_str()), (0, ""));
    let policy: Value = serde_json::from_str(&policy.stdout).expect("JSON");
    let statements = policy["Statement"].as_array().expect("statements").clone();
    let of = |action: &str| {
        let action = json!(action);
        let has = |one: &&Value| one["Action"].as_array().is_some_and(|all| all.contains(&action));
        statements.iter().find(has).expect("a statement")["Resource"].clone()
    };
    assert_eq!(of("iam:PassRole"), "arn:aws-us-gov:iam::123456789012:role/nodes");
    assert_eq!(
        of("sqs:ReceiveMessage"),
        "arn:aws-us-gov:sqs:us-gov-west-1:123456789012:prod"
    );
    // Names may also be set in the values of the chart.
    let template = printed(&[
        "cloudformation",
        "--set",
        "settings.clusterName=dev,settings.interruptionQueue=events,serviceAccount.name=karpenter",
        "--trust",
        "irsa",
        "--oidc-issuer",
        "https://oidc.example/id/1",
    ]);
    let template: Value = serde_json::from_str(&template.stdout).expect("JSON");
    let resources = &template["Resources"];
    assert_eq!(resources["InterruptionQueue"]["Properties"]["QueueName"], "events");
    let trust = &resources["ControllerRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"][0];
    let subject = &trust["Condition"]["StringEquals"]["oidc.example/id/1:sub"];
    assert_eq!(*subject, "system:serviceaccount:kube-system:karpenter");
    let terraform = printed(&["terraform", "--cluster-name", "prod", "--queue", ""]);
    assert!(
        terraform
            .stdout
            .starts_with("resource \"aws_iam_role\" \"controller\" {")
    );
    assert!(!terraform.stdout.contains("aws_sqs_queue"), "{}", terraform.stdout);
    for (args, wanted) in [
        (&["json"][..], "no name of the cluster"),
        (&["json", "--cluster-name", "a*"], "cluster name \"a*\" is not valid"),
        (&["json", "--cluster-name", "a", "--trust", "irsa"], "--oidc-issuer"),
    ] {
        let refused = printed(args);
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{args:?}");
        assert!(refused.stderr.contains(wanted), "{args:?}: {}", refused.stderr);
    }
}

// OPS-236
#[test]
fn the_role_allows_one_lease() {
    let role = &manifests(&["--set", "settings.leaderElectionName=mine"])["Role/kube-system/kerf"];
    let leases = |verbs: Value| json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs});
    let mut named = leases(json!(["get", "update"]));
    named["resourceNames"] = json!(["mine"]);
    assert_eq!(role["rules"], json!([named, leases(json!(["create"]))]));
}

#[test]
fn bad_values_end_with_code_two_and_name_the_remedy() {
    for (args, wanted) in [
        (vec!["--set", "replica=3"], "did you mean \"replicas\"?"),
        (vec!["--set", "logLevel=loud"], "LOG_LEVEL"),
        (vec!["-f", "no/such/file.yaml"], "cannot be read"),
        (vec!["--name", "Not A Name"], "no valid name"),
    ] {
        let outcome = kerf(&[vec!["manifests"], args.clone()].concat());
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{args:?}");
        assert!(outcome.stderr.contains(wanted), "{args:?}: {}", outcome.stderr);
    }
}

/// What differs between helm and `kerf manifests` by design.
fn without_packaging(mut all: Objects) -> Objects {
    for object in all.values_mut() {
        let labels = object
            .pointer_mut("/metadata/labels")
            .and_then(Value::as_object_mut)
            .expect("labels");
        labels.remove("helm.sh/chart");
        labels.remove("app.kubernetes.io/managed-by");
        // Quantities are numbers or texts.
        if let Some(containers) = object
            .pointer_mut("/spec/template/spec/containers")
            .and_then(Value::as_array_mut)
        {
            for list in ["requests", "limits"] {
                let quantities = containers[0]["resources"].get_mut(list).and_then(Value::as_object_mut);
                for quantity in quantities.into_iter().flat_map(|quantities| quantities.values_mut()) {
                    if quantity.is_number() {
                        *quantity = json!(quantity.to_string());
                    }
                }
            }
        }
    }
    all
}

/// Sets of values: the name of the release, and a values file.
const VALUES: [(&str, &str); 5] = [
    ("kerf", ""),
    (
        "prod",
        "replicas: 3\nlogLevel: debug\nserviceAccount: {create: false}\n",
    ),
    (
        "karpenter",
        r#"
nameOverride: karpenter
additionalLabels: {team: infra}
additionalAnnotations: {a: b}
imagePullSecrets: [{name: pull}]
service: {annotations: {c: d}}
serviceAccount: {name: other, annotations: {e: "1"}}
additionalClusterRoleRules:
  - apiGroups: [resource.k8s.io]
    resources: [resourceclaims]
    verbs: [get, list, watch]
serviceMonitor:
  enabled: true
  additionalLabels: {release: prometheus}
  relabelings: [{action: drop, regex: x}]
  metricRelabelings: [{action: keep, regex: "karpenter_.*"}]
  endpointConfig: {interval: 30s}
  sampleLimit: 5000
networkPolicy:
  enabled: true
  metricsFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}]
  apiServerPorts: [6443]
podLabels: {x: "y"}
podAnnotations: {g: h}
podDisruptionBudget: {name: karpenter, maxUnavailable: 50%}
terminationGracePeriodSeconds: 20
hostNetwork: true
dnsPolicy: Default
dnsConfig: {options: [{name: ndots, value: "1"}]}
initContainers: [{name: wait, image: busybox, command: [sleep, "1"]}]
topologySpreadConstraints: []
tolerations: []
extraVolumes: [{name: types, configMap: {name: types}}]
settings:
  clusterName: mine
  clusterCABundle: Q0E=
  clusterEndpoint: https://cluster.example
  interruptionQueue: events
  reservedENIs: 2
  enableZonalShift: true
  ignoreDRARequests: false
  disableClusterStateObservability: true
  packing: upstream
  startupTaints: [example.com/one, example.com/]
  schedulerConfig: |
    nodeResourcesFit: {scoringStrategy: {type: MostAllocated}}
  leaderElectionName: other-lease
  featureGates: {nodeRepair: true, capacityBuffer: true}
controller:
  image: {repository: registry.example/kerf, tag: v1, digest: "sha256:00"}
  env: [{name: INSTANCE_TYPES_FILE_PATH, value: /types/all.json}]
  envFrom: [{configMapRef: {name: more}}]
  securityContext: {seLinuxOptions: {level: s0}, appArmorProfile: {type: RuntimeDefault}, seccompProfile: {type: Unconfined}}
  resources: {requests: {cpu: 2}, limits: {memory: 2Gi, cpu: 2}}
  extraVolumeMounts: [{name: types, mountPath: /types}]
  sidecarContainer: [{name: proxy, image: proxy, volumeMounts: [{name: own, mountPath: /own}]}, {name: other, image: other}]
  sidecarVolumeMounts: [{name: more, mountPath: /more}]
  metrics: {port: 9090}
  healthProbe: {port: 9091}
"#,
    ),
    (
        "a-kerf",
        "fullnameOverride: other\nschedulerName: null\npriorityClassName: \"\"\nnodeSelector: {kubernetes.io/arch: arm64}\ncontroller: {sidecarContainer: [{name: p, image: p}]}\n",
    ),
    (
        "spread",
        "affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a}}]}}\ntopologySpreadConstraints: [{maxSkew: 1, topologyKey: b, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {c: d}}}, {maxSkew: 2, topologyKey: e, whenUnsatisfiable: ScheduleAnyway}]\n",
    ),
];

#[test]
#[ignore = "needs helm: KERF_HELM names it"]
fn helm_renders_what_kerf_manifests_prints() {
    let helm = std::env::var("KERF_HELM").unwrap_or_else(|_| "helm".to_owned());
    let chart = charts().join("kerf");
    for (release, values) in VALUES {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("values-{release}-{}.yaml", std::process::id()));
        fs::write(&file, values).expect("a file");
        let rendered = Command::new(&helm)
            .args(["template", release])
            .arg(&chart)
            .args([
                "--namespace",
                "autoscaling",
                "--api-versions",
                "monitoring.coreos.com/v1",
                "--values",
            ])
            .arg(&file)
            .output()
            .unwrap_or_else(|error| panic!("{helm}: {error}"));
        let problem = String::from_utf8_lossy(&rendered.stderr);
        assert!(rendered.status.success(), "{release}: {problem}");
        let rendered = without_packaging(objects(&String::from_utf8_lossy(&rendered.stdout)));
        let name = file.display().to_string();
        let printed = kerf(&[
            "manifests",
            "--name",
            release,
            "--namespace",
            "autoscaling",
            "-f",
            &name,
        ]);
        assert_eq!(printed.code, 0, "{release}: {}", printed.stderr);
        let printed = without_packaging(objects(&printed.stdout));
        assert_eq!(
            rendered.keys().collect::<Vec<_>>(),
            printed.keys().collect::<Vec<_>>(),
            "{release}"
        );
        for (key, object) in &rendered {
            assert_eq!(object, &printed[key], "{release}: {key} (left helm, right kerf)");
        }
        fs::remove_file(&file).expect("removed");
    }
}

/// The text that helm makes of a template of definitions without annotations.
fn rendered(template: &str, provider: &str) -> String {
    let mut text = String::new();
    // Whether each open block is rendered.
    let mut blocks = Vec::new();
    for line in template.lines() {
        match line.trim() {
            "{{- end }}" => {
                blocks.pop().expect("an open block");
            }
            "{{- with .Values.additionalAnnotations }}" => blocks.push(false),
            action if action.starts_with("{{- if eq .Values.provider ") => {
                blocks.push(action.contains(&format!("\"{provider}\"")));
            }
            _ if blocks.iter().all(|shown| *shown) => {
                assert!(!line.contains("{{"), "{line}");
                text.push_str(line);
                text.push('\n');
            }
            _ => {}
        }
    }
    text
}

/// The template of a definition: its text for every provider, which differ by whole lines.
fn template(core: Option<&str>, flavours: [(&str, Option<&str>); 2]) -> String {
    let mut text = String::new();
    let annotations =
        "  {{- with .Values.additionalAnnotations }}\n  annotations:\n    {{- toYaml . | nindent 4 }}\n  {{- end }}\n";
    let block = |text: &mut String, provider: &str, lines: &[&str]| {
        if !lines.is_empty() {
            text.push_str(&format!("{{{{- if eq .Values.provider \"{provider}\" }}}}\n"));
            lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
            text.push_str("{{- end }}\n");
        }
    };
    let annotated = |line: &str| line.starts_with("  name: ");
    match core {
        None => {
            for (provider, yaml) in flavours {
                let Some(yaml) = yaml else { continue };
                let (head, tail) = yaml.split_once("\nspec:").expect("a spec");
                let body = format!("{head}\n{annotations}spec:{tail}");
                block(&mut text, provider, &body.lines().collect::<Vec<_>>());
            }
        }
        Some(core) => {
            let mut rest = flavours.map(|(provider, yaml)| (provider, yaml.expect("a core kind").lines().peekable()));
            for line in core.lines().map(Some).chain([None]) {
                for (provider, lines) in &mut rest {
                    let mut own = Vec::new();
                    while lines.peek().is_some() && lines.peek().copied() != line {
                        own.extend(lines.next());
                    }
                    lines.next();
                    block(&mut text, provider, &own);
                }
                if let Some(line) = line {
                    text.push_str(&format!("{line}\n"));
                    if annotated(line) {
                        text.push_str(annotations);
                    }
                }
            }
        }
    }
    text
}

// OPS-248
#[test]
fn the_chart_of_definitions_contains_those_that_kerf_prints() {
    let folder = charts().join("kerf-crd/templates");
    let of = |provider| {
        let crds = kerf_api::crds(provider).into_iter();
        crds.map(|crd| (crd.name, crd.yaml)).collect::<BTreeMap<_, _>>()
    };
    let core = of(kerf_api::Provider::Core);
    let flavours = [
        ("kwok", of(kerf_api::Provider::Kwok)),
        ("aws", of(kerf_api::Provider::Aws)),
    ];
    let mut names: Vec<&str> = flavours.iter().flat_map(|(_, crds)| crds.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let mut files: Vec<String> = Vec::new();
    for name in names {
        let (plural, group) = name.split_once('.').expect("a group");
        let file = format!("{group}_{plural}.yaml");
        let texts = flavours
            .each_ref()
            .map(|(provider, crds)| (*provider, crds.get(name).map(String::as_str)));
        let path = folder.join(&file);
        let wanted = template(core.get(name).map(String::as_str), texts);
        if std::env::var_os("KERF_WRITE_CHARTS").is_some() {
            fs::write(&path, &wanted).expect("written");
        }
        let written = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(
            written == wanted,
            "{file} is out of date; KERF_WRITE_CHARTS=1 cargo test -p kerf-cli the_chart_of_definitions writes it anew"
        );
        assert!(written.contains(".Values.additionalAnnotations"), "{file}");
        for (provider, text) in texts {
            assert_eq!(
                rendered(&written, provider),
                text.unwrap_or_default(),
                "{file} for {provider}"
            );
        }
        files.push(file);
    }
    let mut there: Vec<String> = fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    there.sort_unstable();
    files.sort_unstable();
    assert_eq!(there, files);
}

#[test]
fn charts_have_the_version_of_the_program() {
    for chart in ["kerf", "kerf-crd"] {
        let text = fs::read_to_string(charts().join(chart).join("Chart.yaml")).expect("a chart");
        let chart: Value = serde_saphyr::from_str(&text).expect("YAML");
        assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    }
}

#[test]
#[ignore = "needs helm: KERF_HELM names it"]
fn helm_renders_the_definitions_that_kerf_prints() {
    let helm = std::env::var("KERF_HELM").unwrap_or_else(|_| "helm".to_owned());
    for provider in ["kwok", "aws"] {
        let set = format!("provider={provider},additionalAnnotations.a=b");
        let output = Command::new(&helm)
            .args(["template", "crds"])
            .arg(charts().join("kerf-crd"))
            .args(["--set", &set])
            .output()
            .unwrap_or_else(|error| panic!("{helm}: {error}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut rendered = objects(&String::from_utf8_lossy(&output.stdout));
        for crd in rendered.values_mut() {
            let metadata = crd["metadata"].as_object_mut().expect("metadata");
            assert_eq!(metadata.remove("annotations"), Some(json!({"a": "b"})));
        }
        let printed = objects(&kerf(&["crds", "--provider", provider]).stdout);
        assert_eq!(rendered, printed);
    }
}
