//! The Deployment of the controller (OPS-241, OPS-245).

use super::environment::environment;
use super::naming::{Names, VERSION, some_unless_empty};
use super::values::{ImageValues, Values};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy};
use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, Container, ContainerPort, HTTPGetAction, PodAffinityTerm, PodDNSConfig, PodSecurityContext,
    PodSpec, PodTemplateSpec, Probe, ResourceRequirements, SecurityContext, TopologySpreadConstraint, VolumeMount,
    WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// User and group of the process.
const USER: i64 = 65532;

pub(super) fn deployment(names: &Names, values: &Values) -> Deployment {
    let mut labels = names.selector.clone();
    labels.extend(values.pod_labels.clone());
    Deployment {
        metadata: ObjectMeta {
            name: Some(names.fullname.clone()),
            namespace: Some(names.namespace.clone()),
            labels: Some(names.labels.clone()),
            annotations: names.annotations.clone(),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            replicas: values.replicas,
            revision_history_limit: values.revision_history_limit,
            strategy: unless_default(&values.strategy, &DeploymentStrategy::default()),
            selector: pods_of(names),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    annotations: some_unless_empty(&values.pod_annotations),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(names, values)),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

/// Selects the pods of the Deployment.
pub(super) fn pods_of(names: &Names) -> LabelSelector {
    LabelSelector {
        match_labels: Some(names.selector.clone()),
        match_expressions: None,
    }
}

fn pod(names: &Names, values: &Values) -> PodSpec {
    let mut containers = vec![container(names, values)];
    containers.extend(values.controller.sidecar_container.iter().map(|sidecar| {
        let mut sidecar = sidecar.clone();
        let mut mounts = sidecar.volume_mounts.take().unwrap_or_default();
        mounts.extend(values.controller.extra_volume_mounts.iter().cloned());
        mounts.extend(values.controller.sidecar_volume_mounts.iter().cloned());
        sidecar.volume_mounts = unless_empty(&mounts);
        sidecar
    }));
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    PodSpec {
        image_pull_secrets: unless_empty(&values.image_pull_secrets),
        automount_service_account_token: Some(true),
        service_account_name: Some(names.service_account.clone()),
        security_context: unless_default(&values.pod_security_context, &PodSecurityContext::default()),
        priority_class_name: text(&values.priority_class_name),
        termination_grace_period_seconds: values.termination_grace_period_seconds.filter(|seconds| *seconds != 0),
        dns_policy: text(&values.dns_policy),
        dns_config: unless_default(&values.dns_config, &PodDNSConfig::default()),
        host_network: values.host_network.then_some(true),
        scheduler_name: text(&values.scheduler_name),
        containers,
        init_containers: unless_empty(&values.init_containers),
        node_selector: some_unless_empty(&values.node_selector),
        affinity: affinity(names, values),
        topology_spread_constraints: spread(names, values),
        tolerations: unless_empty(&values.tolerations),
        volumes: unless_empty(&values.extra_volumes),
        ..PodSpec::default()
    }
}

fn container(names: &Names, values: &Values) -> Container {
    let controller = &values.controller;
    let mounts: Vec<VolumeMount> = controller.extra_volume_mounts.clone();
    let port = |name: &str, port| ContainerPort {
        name: Some(name.to_owned()),
        container_port: port,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    };
    Container {
        name: controller.container_name.clone(),
        security_context: Some(SecurityContext {
            privileged: Some(false),
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            capabilities: Some(Capabilities {
                add: None,
                drop: Some(vec!["ALL".to_owned()]),
            }),
            app_armor_profile: controller.security_context.app_armor_profile.clone(),
            se_linux_options: controller.security_context.se_linux_options.clone(),
            seccomp_profile: controller.security_context.seccomp_profile.clone(),
            ..SecurityContext::default()
        }),
        image: Some(image(&controller.image)),
        image_pull_policy: Some(values.image_pull_policy.clone()),
        env: Some(environment(values, &names.fullname)),
        env_from: unless_empty(&controller.env_from),
        ports: Some(vec![
            port("http-metrics", controller.metrics.port),
            port("http", controller.health_probe.port),
        ]),
        liveness_probe: Some(probe("/healthz", 30)),
        readiness_probe: Some(probe("/readyz", 5)),
        resources: unless_default(&controller.resources, &ResourceRequirements::default()),
        volume_mounts: unless_empty(&mounts),
        ..Container::default()
    }
}

fn image(image: &ImageValues) -> String {
    let tag = if image.tag.is_empty() { VERSION } else { &image.tag };
    match image.digest.as_str() {
        "" => format!("{}:{tag}", image.repository),
        digest => format!("{}:{tag}@{digest}", image.repository),
    }
}

fn probe(path: &str, delay_seconds: i32) -> Probe {
    Probe {
        initial_delay_seconds: Some(delay_seconds),
        timeout_seconds: Some(30),
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String("http".to_owned()),
            ..HTTPGetAction::default()
        }),
        ..Probe::default()
    }
}

/// The affinity, with the pods' labels in pod affinity terms that have no selector.
fn affinity(names: &Names, values: &Values) -> Option<Affinity> {
    let mut affinity = unless_default(&values.affinity, &Affinity::default())?;
    if let Some(pods) = &mut affinity.pod_affinity {
        let required = pods.required_during_scheduling_ignored_during_execution.iter_mut();
        let preferred = pods.preferred_during_scheduling_ignored_during_execution.iter_mut();
        select_pods(names, required.flatten(), preferred.flatten());
    }
    if let Some(pods) = &mut affinity.pod_anti_affinity {
        let required = pods.required_during_scheduling_ignored_during_execution.iter_mut();
        let preferred = pods.preferred_during_scheduling_ignored_during_execution.iter_mut();
        select_pods(names, required.flatten(), preferred.flatten());
    }
    Some(affinity)
}

fn select_pods<'a>(
    names: &Names,
    required: impl Iterator<Item = &'a mut PodAffinityTerm>,
    preferred: impl Iterator<Item = &'a mut WeightedPodAffinityTerm>,
) {
    let preferred = preferred.map(|weighted| &mut weighted.pod_affinity_term);
    for term in required.chain(preferred) {
        term.label_selector.get_or_insert_with(|| pods_of(names));
    }
}

/// The spread constraints, with the pods' labels where there is no selector.
fn spread(names: &Names, values: &Values) -> Option<Vec<TopologySpreadConstraint>> {
    let mut constraints = unless_empty(&values.topology_spread_constraints)?;
    for constraint in &mut constraints {
        constraint.label_selector.get_or_insert_with(|| pods_of(names));
    }
    Some(constraints)
}

fn unless_empty<T: Clone>(items: &[T]) -> Option<Vec<T>> {
    (!items.is_empty()).then(|| items.to_vec())
}

fn unless_default<T: Clone + PartialEq>(value: &T, default: &T) -> Option<T> {
    (value != default).then(|| value.clone())
}
