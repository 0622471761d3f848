//! All objects of an installation, in the order in which they are applied (OPS-239).

use super::deployment::{deployment, pods_of};
use super::naming::{Names, Release};
use super::rbac::{ADMIN_GRANTS, Grant, GrantScope, rules};
use super::values::{Texts, Values};
use k8s_openapi::Resource;
use k8s_openapi::api::core::v1::{Service, ServiceAccount, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kerf_api::Provider;
use serde::Serialize;
use serde_json::{Value, json};

/// The objects as JSON. The error is a bug in Kerf.
pub(crate) fn objects(release: &Release, values: &Values) -> Result<Vec<Value>, serde_json::Error> {
    let names = Names::new(release, values);
    let mut all = Vec::new();
    if values.service_account.create {
        all.push(json_of(&service_account(&names, values))?);
    }
    let gates = &values.settings.feature_gates;
    let lease = &values.settings.leader_election_name;
    let provider = values.settings.provider().unwrap_or(Provider::Kwok);
    let rules = |scope| rules(scope, provider, gates.capacity_buffer, lease);
    let mut core = rules(GrantScope::Cluster);
    core.extend(values.additional_cluster_role_rules.iter().cloned());
    for (suffix, rules) in [("", rules(GrantScope::Provider)), ("-core", core)] {
        let name = format!("{}{suffix}", names.fullname);
        all.push(json_of(&cluster_role(&names, &name, rules))?);
        all.push(json_of(&cluster_role_binding(&names, &name))?);
    }
    all.push(json_of(&admin_role(&names, provider))?);
    let dns = format!("{}-dns", names.fullname);
    for (name, namespace, scope) in [
        (&names.fullname, &*names.namespace, GrantScope::OwnNamespace),
        (&dns, "kube-system", GrantScope::KubeSystem),
    ] {
        let rules = rules(scope);
        if !rules.is_empty() {
            let metadata = ObjectMeta {
                namespace: Some(namespace.to_owned()),
                ..metadata(&names, name, names.annotations.clone())
            };
            all.push(json_of(&role_binding(&names, name, metadata.clone()))?);
            let rules = Some(rules);
            all.push(json_of(&Role { metadata, rules })?);
        }
    }
    all.push(json_of(&service(&names, values))?);
    all.push(json_of(&disruption_budget(&names, values))?);
    if values.network_policy.enabled {
        all.push(json_of(&network_policy(&names, values))?);
    }
    all.push(json_of(&deployment(&names, values))?);
    if values.service_monitor.enabled {
        all.push(service_monitor(&names, values));
    }
    Ok(all)
}

fn json_of<K: Resource + Serialize>(object: &K) -> Result<Value, serde_json::Error> {
    serde_json::to_value(object)
}

/// Metadata of an object in the release's namespace.
fn metadata(names: &Names, name: &str, annotations: Option<Texts>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(names.namespace.clone()),
        labels: Some(names.labels.clone()),
        annotations,
        ..ObjectMeta::default()
    }
}

/// Metadata of an object of the cluster.
fn cluster_metadata(names: &Names, name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: None,
        ..metadata(names, name, names.annotations.clone())
    }
}

fn service_account(names: &Names, values: &Values) -> ServiceAccount {
    let annotations = names.annotations_and(&values.service_account.annotations);
    ServiceAccount {
        metadata: metadata(names, &names.service_account, annotations),
        // The pod asks for the token.
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

fn cluster_role(names: &Names, name: &str, rules: Vec<PolicyRule>) -> ClusterRole {
    ClusterRole {
        metadata: cluster_metadata(names, name),
        rules: Some(rules),
        aggregation_rule: None,
    }
}

/// What people with the ClusterRole admin may do (OPS-238).
fn admin_role(names: &Names, provider: Provider) -> ClusterRole {
    let name = format!("{}-admin", names.fullname);
    let grants = ADMIN_GRANTS.iter().filter(|grant| grant.applies(provider, false));
    let rules = grants.map(|grant: &Grant| grant.rule("")).collect();
    let mut role = cluster_role(names, &name, rules);
    let labels = role.metadata.labels.get_or_insert_default();
    labels.insert(
        "rbac.authorization.k8s.io/aggregate-to-admin".to_owned(),
        "true".to_owned(),
    );
    role
}

const RBAC: &str = "rbac.authorization.k8s.io";

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: Some(RBAC.to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

fn controller(names: &Names) -> Vec<Subject> {
    vec![Subject {
        kind: "ServiceAccount".to_owned(),
        name: names.service_account.clone(),
        namespace: Some(names.namespace.clone()),
        api_group: None,
    }]
}

fn cluster_role_binding(names: &Names, name: &str) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: cluster_metadata(names, name),
        role_ref: role_ref("ClusterRole", name),
        subjects: Some(controller(names)),
    }
}

/// Binds the Role of that name to the controller; the binding has the same metadata.
fn role_binding(names: &Names, name: &str, metadata: ObjectMeta) -> RoleBinding {
    RoleBinding {
        role_ref: role_ref("Role", name),
        metadata,
        subjects: Some(controller(names)),
    }
}

fn service(names: &Names, values: &Values) -> Service {
    let annotations = names.annotations_and(&values.service.annotations);
    Service {
        metadata: metadata(names, &names.fullname, annotations),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            ports: Some(vec![ServicePort {
                name: Some("http-metrics".to_owned()),
                port: values.controller.metrics.port,
                target_port: Some(IntOrString::String("http-metrics".to_owned())),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            selector: Some(names.selector.clone()),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn disruption_budget(names: &Names, values: &Values) -> PodDisruptionBudget {
    let name = match values.pod_disruption_budget.name.as_str() {
        "" => &names.fullname,
        name => name,
    };
    PodDisruptionBudget {
        metadata: metadata(names, name, names.annotations.clone()),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: values.pod_disruption_budget.max_unavailable.clone(),
            selector: Some(pods_of(names)),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}

/// Metrics and probes in; DNS and the API server out.
fn network_policy(names: &Names, values: &Values) -> NetworkPolicy {
    let policy = &values.network_policy;
    let port = |protocol: &str, port: IntOrString| NetworkPolicyPort {
        protocol: Some(protocol.to_owned()),
        port: Some(port),
        end_port: None,
    };
    let named = |name: &str| IntOrString::String(name.to_owned());
    let api_server = policy
        .api_server_ports
        .iter()
        .map(|number| port("TCP", IntOrString::Int(*number)));
    NetworkPolicy {
        metadata: metadata(names, &names.fullname, names.annotations.clone()),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(pods_of(names)),
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
            ingress: Some(vec![
                NetworkPolicyIngressRule {
                    from: (!policy.metrics_from.is_empty()).then(|| policy.metrics_from.clone()),
                    ports: Some(vec![port("TCP", named("http-metrics"))]),
                },
                NetworkPolicyIngressRule {
                    from: None,
                    ports: Some(vec![port("TCP", named("http"))]),
                },
            ]),
            egress: Some(vec![
                NetworkPolicyEgressRule {
                    to: None,
                    ports: Some(vec![
                        port("UDP", IntOrString::Int(53)),
                        port("TCP", IntOrString::Int(53)),
                    ]),
                },
                NetworkPolicyEgressRule {
                    to: None,
                    ports: Some(api_server.collect()),
                },
            ]),
        }),
    }
}

/// A ServiceMonitor of the Prometheus operator, for which there are no types here.
fn service_monitor(names: &Names, values: &Values) -> Value {
    let monitor = &values.service_monitor;
    let mut labels = names.labels.clone();
    labels.extend(monitor.additional_labels.clone());
    let mut endpoint = json!({"port": "http-metrics", "path": "/metrics"});
    if let Value::Object(fields) = &mut endpoint {
        if !monitor.relabelings.is_empty() {
            fields.insert("relabelings".to_owned(), Value::Array(monitor.relabelings.clone()));
        }
        if !monitor.metric_relabelings.is_empty() {
            let relabelings = Value::Array(monitor.metric_relabelings.clone());
            fields.insert("metricRelabelings".to_owned(), relabelings);
        }
        fields.extend(monitor.endpoint_config.clone());
    }
    let mut metadata = json!({"name": names.fullname, "namespace": names.namespace, "labels": labels});
    if let (Some(annotations), Value::Object(fields)) = (&names.annotations, &mut metadata) {
        fields.insert("annotations".to_owned(), json!(annotations));
    }
    let mut spec = json!({
        "namespaceSelector": {"matchNames": [names.namespace]},
        "selector": {"matchLabels": names.selector},
        "endpoints": [endpoint],
    });
    if let (Some(limit), Value::Object(fields)) = (monitor.sample_limit, &mut spec) {
        fields.insert("sampleLimit".to_owned(), json!(limit));
    }
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": metadata,
        "spec": spec,
    })
}
