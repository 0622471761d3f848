//! Manifests drawn at random: pools, nodes with pods on them, workloads with every kind of constraint, volumes, DaemonSets, overlays. What is
//! drawn is valid; that much of it cannot be placed is part of it. The same seed gives the same text on every machine.

use serde_json::{Map, Value, json};

/// A small generator of numbers (SplitMix64).
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }

    fn some<'a>(&mut self, from: &[&'a str]) -> Vec<&'a str> {
        let mut some: Vec<&str> = from.iter().copied().filter(|_| self.one_in(2)).collect();
        if some.is_empty() {
            some.push(self.pick(from));
        }
        some
    }
}

const ZONES: [&str; 4] = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"];
const APPS: [&str; 4] = ["web", "db", "cache", "batch"];
const NAMESPACES: [&str; 2] = ["shop", "bank"];
const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const ARCH: &str = "kubernetes.io/arch";
const CAPACITY: &str = "karpenter.sh/capacity-type";
const CPUS: &str = "karpenter.kwok.sh/instance-cpu";
const FAMILY: &str = "karpenter.kwok.sh/instance-family";

/// A `List` of objects as JSON.
pub(crate) fn cluster(seed: u64) -> String {
    let mut draw = Draw::new(seed);
    let mut items = vec![
        json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
            "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "zonal"},
            "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["test-zone-b", "test-zone-c"]}]}]}),
    ];
    for name in NAMESPACES {
        items.push(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}}),
        );
    }
    let pools = 1 + draw.below(3);
    items.extend((0..pools).map(|number| pool(&mut draw, number)).collect::<Vec<_>>());
    if draw.one_in(4) {
        items.push(overlay(&mut draw));
    }
    for number in 0..draw.below(3) {
        items.push(daemon_set(&mut draw, number));
    }
    for number in 0..draw.below(4) {
        node(&mut draw, number, &mut items);
    }
    for number in 0..1 + draw.below(5) {
        items.push(workload(&mut draw, number));
    }
    if draw.one_in(3) {
        items.push(bound_volume());
        items.push(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "archive", "namespace": "shop",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "archive", "storageClassName": "late", "resources": {"requests": {"storage": "1Gi"}}}}));
        let mut pod = spec(&mut draw, "web");
        pod.insert(
            "volumes".into(),
            json!([{"name": "a", "persistentVolumeClaim": {"claimName": "archive"}}]),
        );
        items.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "archivist", "namespace": "shop", "labels": {"app": "web"}}, "spec": pod}));
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

fn bound_volume() -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "archive"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "late",
            "claimRef": {"namespace": "shop", "name": "archive"},
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "v"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["test-zone-c"]}]}]}}}})
}

fn requirement(draw: &mut Draw) -> Value {
    match draw.below(8) {
        0 => json!({"key": ZONE, "operator": "In", "values": draw.some(&ZONES)}),
        1 => json!({"key": ZONE, "operator": "NotIn", "values": [draw.pick(&ZONES)]}),
        2 => json!({"key": ARCH, "operator": "In", "values": draw.some(&["amd64", "arm64"])}),
        3 => json!({"key": CAPACITY, "operator": "In", "values": draw.some(&["spot", "on-demand"])}),
        4 => json!({"key": CPUS, "operator": "Gt", "values": [draw.pick(&["1", "2", "4", "15"])]}),
        5 => json!({"key": CPUS, "operator": "Lt", "values": [draw.pick(&["3", "9", "33"])]}),
        6 => json!({"key": FAMILY, "operator": "In", "values": draw.some(&["c", "s", "m", "x"])}),
        _ => json!({"key": "team", "operator": draw.pick(&["Exists", "DoesNotExist"])}),
    }
}

fn pool(draw: &mut Draw, number: u64) -> Value {
    let mut requirements: Vec<Value> = (0..draw.below(3)).map(|_| requirement(draw)).collect();
    requirements.retain(|one| one["key"] != "team");
    requirements.sort_by_key(|one| one["key"].to_string());
    requirements.dedup_by_key(|one| one["key"].to_string());
    if draw.one_in(6) {
        requirements.push(
            json!({"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 1 + draw.below(30)}),
        );
    }
    let mut template = json!({"spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": requirements}});
    if draw.one_in(3) {
        template["metadata"] = json!({"labels": {"team": draw.pick(&["red", "blue"])}});
    }
    match draw.below(6) {
        0 => template["spec"]["taints"] = json!([{"key": "team", "value": "red", "effect": "NoSchedule"}]),
        1 => template["spec"]["taints"] = json!([{"key": "soft", "effect": "PreferNoSchedule"}]),
        2 => template["spec"]["startupTaints"] = json!([{"key": "booting", "effect": "NoExecute"}]),
        _ => {}
    }
    let mut spec = json!({"template": template});
    if draw.one_in(2) {
        spec["weight"] = json!(1 + draw.below(3));
    }
    match draw.below(6) {
        0 => spec["limits"] = json!({"cpu": (4 + draw.below(60)).to_string()}),
        1 => spec["limits"] = json!({"nodes": (1 + draw.below(4)).to_string()}),
        2 => spec["limits"] = json!({"memory": format!("{}Gi", 16 + draw.below(200)), "cpu": "40"}),
        _ => {}
    }
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": format!("pool-{number}")}, "spec": spec})
}

fn overlay(draw: &mut Draw) -> Value {
    let mut spec = json!({"weight": 1, "requirements": [{"key": ARCH, "operator": "In", "values": ["amd64"]}]});
    if draw.one_in(2) {
        spec["priceAdjustment"] = json!(draw.pick(&["-20%", "+35%", "+0.01"]));
    } else {
        spec["capacity"] = json!({"example.com/fuse": "2"});
    }
    json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "overlay"}, "spec": spec})
}

fn daemon_set(draw: &mut Draw, number: u64) -> Value {
    let name = format!("daemon-{number}");
    let mut spec = json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": draw.pick(&["50m", "100m"]), "memory": "64Mi"}}}]});
    match draw.below(4) {
        0 => spec["tolerations"] = json!([{"operator": "Exists"}]),
        1 => spec["nodeSelector"] = json!({ARCH: "amd64"}),
        2 => spec["containers"][0]["ports"] = json!([{"containerPort": 9100, "hostPort": 9100}]),
        _ => {}
    }
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"daemon": name}}, "template": {"metadata": {"labels": {"daemon": name}}, "spec": spec}}})
}

/// An unmanaged node with pods on it. Their labels are unique, so that pods that run already break no rule.
fn node(draw: &mut Draw, number: u64, items: &mut Vec<Value>) {
    let name = format!("node-{number}");
    let cpu = draw.pick(&[2u64, 4, 8]);
    let mut node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name, ZONE: draw.pick(&ZONES), ARCH: draw.pick(&["amd64", "arm64"]), "kubernetes.io/os": "linux"}},
        "status": {"allocatable": {"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4), "pods": "30"},
            "capacity": {"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4), "pods": "30"},
            "conditions": [{"type": "Ready", "status": "True"}]}});
    if draw.one_in(4) {
        node["spec"] =
            json!({"taints": [{"key": "team", "value": draw.pick(&["red", "blue"]), "effect": "NoSchedule"}]});
    }
    items.push(node);
    for pod in 0..draw.below(4) {
        let mut spec = json!({"nodeName": name, "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "300m", "memory": "256Mi"}}}]});
        if draw.one_in(4) {
            let app = draw.pick(&APPS);
            let key = draw.pick(&[ZONE, HOST]);
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]}});
        }
        items.push(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("old-{number}-{pod}"), "namespace": draw.pick(&NAMESPACES), "labels": {"old": draw.pick(&APPS)}},
            "spec": spec, "status": {"phase": "Running"}}));
    }
}

fn workload(draw: &mut Draw, number: u64) -> Value {
    let app = draw.pick(&APPS);
    let name = format!("{app}-{number}");
    let namespace = draw.pick(&NAMESPACES);
    let template = json!({"metadata": {"labels": {"app": app, "name": name}}, "spec": spec(draw, app)});
    let selector = json!({"matchLabels": {"name": name}});
    let replicas = 1 + draw.below(9);
    let metadata = json!({"name": name, "namespace": namespace});
    match draw.below(5) {
        0 => {
            let class = draw.pick(&["late", "zonal"]);
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": {"replicas": replicas, "serviceName": name,
                "selector": selector, "template": template, "volumeClaimTemplates": [{"metadata": {"name": "data"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}}}]}})
        }
        1 => {
            let mut template = template;
            template["spec"]["restartPolicy"] = json!("Never");
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"parallelism": replicas, "template": template}})
        }
        _ => json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"replicas": replicas, "selector": selector, "template": template}}),
    }
}

fn spec(draw: &mut Draw, app: &str) -> Map<String, Value> {
    let cpu = draw.pick(&["100m", "500m", "1", "1500m", "3", "7", "300"]);
    let memory = draw.pick(&["128Mi", "1Gi", "3Gi", "12Gi"]);
    let mut spec =
        json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]});
    for _ in 0..draw.below(4) {
        constrain(draw, app, &mut spec);
    }
    match spec {
        Value::Object(spec) => spec,
        _ => Map::new(),
    }
}

fn constrain(draw: &mut Draw, app: &str, spec: &mut Value) {
    let other = draw.pick(&APPS);
    let app = if draw.one_in(2) { app } else { other };
    let key = draw.pick(&[ZONE, HOST]);
    let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
    match draw.below(13) {
        0 => spec["nodeSelector"] = json!({ARCH: draw.pick(&["amd64", "arm64"])}),
        1 => spec["nodeSelector"] = json!({"team": draw.pick(&["red", "blue"])}),
        2 => {
            let terms: Vec<Value> = (0..1 + draw.below(2))
                .map(|_| json!({"matchExpressions": [requirement(draw), requirement(draw)]}))
                .collect();
            spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({"nodeSelectorTerms": terms});
        }
        3 => {
            spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
                json!([{"weight": 1 + draw.below(100), "preference": {"matchExpressions": [requirement(draw)]}}]);
        }
        4 => spec["tolerations"] = json!([{"key": "team", "operator": "Exists"}]),
        5 => {
            let mut spread = json!({"topologyKey": key, "maxSkew": 1 + draw.below(2), "whenUnsatisfiable": draw.pick(&["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
                "labelSelector": {"matchLabels": {"app": app}}});
            if spread["whenUnsatisfiable"] == "DoNotSchedule" && draw.one_in(4) {
                spread["minDomains"] = json!(1 + draw.below(4));
            }
            if draw.one_in(4) {
                spread["nodeTaintsPolicy"] = json!("Honor");
            }
            if draw.one_in(4) {
                spread["nodeAffinityPolicy"] = json!("Ignore");
            }
            spec["topologySpreadConstraints"] = json!([spread]);
        }
        6 => spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([term]),
        7 => spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([term]),
        8 => {
            spec["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
                json!([{"weight": 10, "podAffinityTerm": term}]);
        }
        9 => {
            let mut term = term;
            term["namespaceSelector"] = json!({"matchLabels": {"team": draw.pick(&NAMESPACES)}});
            spec["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
                json!([{"weight": 10, "podAffinityTerm": term}]);
        }
        10 => spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": draw.pick(&[8080, 9100])}]),
        11 => spec["containers"][0]["resources"]["requests"]["example.com/fuse"] = json!("1"),
        _ => {
            spec["initContainers"] =
                json!([{"name": "init", "image": "i", "resources": {"requests": {"cpu": draw.pick(&["2", "50m"])}}}]);
        }
    }
}
