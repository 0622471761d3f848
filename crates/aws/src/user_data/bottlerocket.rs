//! Bottlerocket: settings as TOML (AWS-140 to AWS-146).

use super::input::BootstrapInput;
use super::render::UserDataError;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Settings of Kubernetes that are known. Others are kept as they are, and reported, because a misspelt setting has no effect (AWS-145).
const KNOWN: [&str; 48] = [
    "api-server",
    "cloud-provider",
    "cluster-certificate",
    "cluster-name",
    "cluster-dns-ip",
    "credential-providers",
    "node-labels",
    "node-taints",
    "max-pods",
    "static-pods",
    "eviction-hard",
    "eviction-soft",
    "eviction-soft-grace-period",
    "eviction-max-pod-grace-period",
    "kube-reserved",
    "system-reserved",
    "allowed-unsafe-sysctls",
    "server-tls-bootstrap",
    "registry-qps",
    "registry-burst",
    "event-qps",
    "event-burst",
    "kube-api-qps",
    "kube-api-burst",
    "container-log-max-size",
    "container-log-max-files",
    "cpu-manager-policy",
    "cpu-manager-policy-options",
    "cpu-manager-reconcile-period",
    "memory-manager-policy",
    "topology-manager-scope",
    "topology-manager-policy",
    "topology-manager-policy-options",
    "image-gc-high-threshold-percent",
    "image-gc-low-threshold-percent",
    "ids-per-pod",
    "cpu-cfs-quota-enforced",
    "shutdown-grace-period",
    "shutdown-grace-period-for-critical-pods",
    "cluster-domain",
    "seccomp-default",
    "pod-pids-limit",
    "device-ownership-from-security-context",
    "single-process-oom-kill",
    "container-log-max-workers",
    "container-log-monitor-interval",
    "hostname-override-source",
    "log-level",
];

/// Command that prepares local disks before anything else starts.
const MOUNT_COMMAND: &str = "000-mount-instance-storage";
/// Folders that images bind by themselves from a certain version on.
const BOUND_FOLDERS: [&str; 4] = ["--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"];

fn parse(custom: Option<&str>) -> Result<Table, UserDataError> {
    let text = custom.unwrap_or_default();
    // The error of the parser quotes the text, which may hold secrets: only its place is taken over.
    text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| {
            text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1
        });
        UserDataError::Toml { line }
    })
}

/// The table under a key, put there if it is missing.
fn table<'a>(parent: &'a mut Table, key: &'static str) -> Result<&'a mut Table, UserDataError> {
    let entry = parent.entry(key).or_insert_with(|| Value::Table(Table::new()));
    entry.as_table_mut().ok_or(UserDataError::NotATable { key })
}

/// Settings under `settings.kubernetes` that are not known, sorted; none for a text that cannot be read.
pub fn unknown_kubernetes_settings(custom: &str) -> Vec<String> {
    let settings: Option<Table> = custom.parse().ok();
    let kubernetes = settings
        .as_ref()
        .and_then(|root| root.get("settings")?.get("kubernetes")?.as_table());
    let keys = kubernetes.into_iter().flat_map(Table::keys);
    let unknown = keys.filter(|key| !KNOWN.contains(&key.as_str()));
    let mut unknown: Vec<String> = unknown.cloned().collect();
    unknown.sort();
    unknown
}

fn strings(map: &BTreeMap<String, String>) -> Value {
    let entries = map
        .iter()
        .map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    Value::Table(entries.collect())
}

/// The class's settings with those that join the node to the cluster.
pub(super) fn render(input: &BootstrapInput) -> Result<String, UserDataError> {
    let mut root = parse(input.custom())?;
    let settings = table(&mut root, "settings")?;
    let kubernetes = table(settings, "kubernetes")?;
    kubernetes.insert("api-server".to_owned(), input.endpoint.as_str().into());
    kubernetes.insert("cluster-name".to_owned(), input.cluster_name.as_str().into());
    if !input.ca_bundle.is_empty() {
        kubernetes.insert("cluster-certificate".to_owned(), input.ca_bundle.as_str().into());
    }
    if let Some(address) = input.dns_server() {
        kubernetes.insert("cluster-dns-ip".to_owned(), address.into());
    }
    kubelet_settings(kubernetes, input);
    let labels = table(kubernetes, "node-labels")?;
    let own = input.labels.iter();
    labels.extend(own.map(|(key, value)| (key.clone(), Value::from(value.as_str()))));
    let mut taints: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for taint in &input.taints {
        let text = format!("{}:{}", taint.value, taint.effect);
        taints.entry(taint.key.clone()).or_default().push(text.into());
    }
    let taints = taints.into_iter().map(|(key, values)| (key, Value::Array(values)));
    kubernetes.insert("node-taints".to_owned(), Value::Table(taints.collect()));
    if input.uses_local_disks() {
        let commands = table(settings, "bootstrap-commands")?;
        commands.insert(MOUNT_COMMAND.to_owned(), mount_command(input.binds_default_paths));
    }
    toml::to_string(&root).map_err(|error| UserDataError::Render(error.to_string()))
}

/// Settings of the class's kubelet replace those in the user data; what the class leaves open stays (AWS-143).
fn kubelet_settings(kubernetes: &mut Table, input: &BootstrapInput) {
    let kubelet = &input.kubelet;
    let number = |value: Option<i32>| value.map(|value| Value::from(i64::from(value)));
    let percent = |value: Option<i32>| value.map(|value| Value::from(value.to_string()));
    let periods = kubelet.eviction_soft_grace_period.as_ref().map(|periods| {
        let periods = periods
            .iter()
            .map(|(signal, period)| (signal.clone(), period.value().to_string()));
        strings(&periods.collect())
    });
    let given = [
        ("max-pods", number(kubelet.max_pods_count())),
        ("system-reserved", kubelet.system_reserved.as_ref().map(strings)),
        ("kube-reserved", kubelet.kube_reserved.as_ref().map(strings)),
        ("eviction-hard", kubelet.eviction_hard.as_ref().map(strings)),
        ("eviction-soft", kubelet.eviction_soft.as_ref().map(strings)),
        ("eviction-soft-grace-period", periods),
        (
            "eviction-max-pod-grace-period",
            number(kubelet.eviction_max_pod_grace_period),
        ),
        (
            "image-gc-high-threshold-percent",
            percent(kubelet.image_gc_high_threshold_percent),
        ),
        (
            "image-gc-low-threshold-percent",
            percent(kubelet.image_gc_low_threshold_percent),
        ),
        ("cpu-cfs-quota-enforced", kubelet.cpu_cfs_quota.map(Value::from)),
    ];
    for (key, value) in given {
        if let Some(value) = value {
            kubernetes.insert(key.to_owned(), value);
        }
    }
}

/// The command that makes one disk of the local ones and binds the folders of pods to it (AWS-146).
fn mount_command(binds_default_paths: bool) -> Value {
    let words = |words: &[&str]| Value::Array(words.iter().map(|&word| word.into()).collect());
    let mut bind = vec!["apiclient", "ephemeral-storage", "bind"];
    if !binds_default_paths {
        bind.extend(BOUND_FOLDERS);
    }
    let commands = vec![words(&["apiclient", "ephemeral-storage", "init"]), words(&bind)];
    let command = [
        ("commands".to_owned(), Value::Array(commands)),
        ("mode".to_owned(), "always".into()),
        ("essential".to_owned(), true.into()),
    ];
    Value::Table(command.into_iter().collect())
}
