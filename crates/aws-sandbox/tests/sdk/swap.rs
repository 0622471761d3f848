//! The day of the swap: a cluster that Karpenter's AWS provider v1.14 made is taken over.

use crate::cluster_fixture::{CERTIFICATE, Cluster, Prepared, prepared};
use crate::cluster_objects::{ClusterObjects as _, apply};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_api::{EC2NodeClass, NodeClaim, NodePool};
use kerf_aws::launch::TargetCapacity;
use kerf_aws::provider_id::provider_id;
use kerf_aws::tags::Tags;
use kerf_aws::user_data::encode;
use kerf_aws_sandbox::account::{
    FleetRequest, Instance, InterfaceSpec, LaunchData, Override, Purchase, Strategy, TemplateReference,
};
use kerf_chaos::ClusterObject;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The class as its author wrote it.
const CLASS: &str = r#"
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: default
  finalizers: [karpenter.k8s.aws/termination]
  annotations:
    karpenter.k8s.aws/ec2nodeclass-hash: "1678757561875239804"
    karpenter.k8s.aws/ec2nodeclass-hash-version: v5
spec:
  role: KarpenterNodeRole-kerf
  amiSelectorTerms:
    - alias: al2023@latest
  subnetSelectorTerms:
    - tags: {karpenter.sh/discovery: kerf}
  securityGroupSelectorTerms:
    - tags: {karpenter.sh/discovery: kerf}
  tags: {team: payments}
  detailedMonitoring: true
  kubelet:
    maxPods: 58
    kubeReserved: {cpu: 100m}
    evictionHard: {memory.available: 5%}
  blockDeviceMappings:
    - deviceName: /dev/xvda
      ebs: {volumeSize: 50Gi, volumeType: gp3, encrypted: true, deleteOnTermination: true}
  userData: |
    #!/bin/bash
    echo prepared by the platform team
"#;

/// The hash of the class, computed apart from Kerf by the algorithm of AWS-039 to AWS-047. The API server's defaults are part of it.
const CLASS_HASH: &str = "1678757561875239804";

const POOL: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
spec:
  template:
    metadata:
      labels: {team: payments}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: kubernetes.io/os, operator: In, values: [linux]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
      expireAfter: 720h
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m}
";

/// One pod fills a node.
const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: inflate, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: inflate}}
  template:
    metadata: {labels: {app: inflate}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
        - name: inflate
          image: registry.k8s.io/pause:3.10
          resources: {requests: {cpu: \"6\", memory: 1Gi}}
";

/// The profile and the template as upstream names them: a number behind the cluster's name, and one behind a prefix.
const PROFILE: &str = "kerf_4067990795380418201";
const TEMPLATE: &str = "karpenter.k8s.aws/11034957202216489917";

/// What upstream puts on everything a launch makes.
fn launch_tags() -> Tags {
    [
        ("team", "payments"),
        ("kubernetes.io/cluster/kerf", "owned"),
        ("eks:eks-cluster-name", "kerf"),
        ("karpenter.sh/nodepool", "default"),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

fn user_data() -> String {
    let config = format!(
        "# Karpenter Generated NodeConfig
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
metadata: {{}}
spec:
  cluster: {{apiServerEndpoint: \"https://embedded\", certificateAuthority: {CERTIFICATE}, cidr: 10.100.0.0/16, name: kerf}}
  instance: {{localStorage: {{}}}}
  kubelet:
    config: {{maxPods: 58, registerWithTaints: [{{effect: NoExecute, key: karpenter.sh/unregistered}}]}}
    flags: ['--node-labels=\"karpenter.sh/capacity-type=on-demand,karpenter.sh/nodepool=default\"']
"
    );
    let text = format!(
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: text/x-shellscript; \
         charset=\"us-ascii\"\n\n#!/bin/bash\necho prepared by the platform team\n\n--//\nContent-Type: \
         application/node.eks.aws\n\n{config}\n--//--\n"
    );
    encode(&text)
}

/// The instances that upstream launched twenty hours ago, one in each of three zones.
fn launch(prepared: &Prepared, class_uid: &str) -> Vec<Instance> {
    prepared.aws.with(|account, now| {
        let then = now - SignedDuration::from_hours(20);
        let image = "/aws/service/eks/optimized-ami/V/amazon-linux-2023/x86_64/standard/recommended/image_id";
        let version = account.every_release_of.clone().unwrap();
        let image = account.parameters[&image.replace('V', &version)].clone();
        let mut tags = launch_tags();
        tags.remove("karpenter.sh/nodepool");
        tags.insert("topology.kubernetes.io/region".to_owned(), "us-east-1".to_owned());
        let path = format!("/karpenter/us-east-1/kerf/{class_uid}/");
        let before = then - SignedDuration::from_hours(1);
        account.create_profile(PROFILE, &path, tags, before).unwrap();
        account.add_role(PROFILE, "KarpenterNodeRole-kerf").unwrap();
        let data = LaunchData {
            image_id: Some(image),
            profile: Some(PROFILE.to_owned()),
            user_data: user_data(),
            interfaces: vec![InterfaceSpec {
                group_ids: vec![account.security_groups[0].id.clone()],
                ..InterfaceSpec::default()
            }],
            volumes: BTreeMap::from([("/dev/xvda".to_owned(), 50)]),
            ..LaunchData::default()
        };
        account.create_template(TEMPLATE, data, launch_tags(), before).unwrap();
        let subnets: Vec<_> = account.subnets[..3].to_vec();
        for subnet in subnets {
            let request = FleetRequest {
                client_token: None,
                configs: vec![(
                    TemplateReference {
                        name: TEMPLATE.to_owned(),
                        version: "$Latest".to_owned(),
                    },
                    vec![Override {
                        instance_type: Some("m5.2xlarge".to_owned()),
                        zone: Some(subnet.zone.name),
                        subnet_id: Some(subnet.id),
                        ..Override::default()
                    }],
                )],
                target: TargetCapacity::OnDemand,
                count: 1,
                strategy: Strategy::LowestPrice,
                tags: launch_tags(),
                dry_run: false,
            };
            account.create_fleet(&request, then).unwrap();
        }
        for (at, one) in account.instances.values_mut().enumerate() {
            let (node, claim) = (one.private_name(), claim_name(at));
            one.tags
                .extend([("Name".to_owned(), node), ("karpenter.sh/nodeclaim".to_owned(), claim)]);
        }
        account.instances.values().cloned().collect()
    })
}

fn claim_name(at: usize) -> String {
    format!("default-{}", ["7xk2m", "bq9zt", "w4l6c"][at])
}

/// Creates an object, and writes its status.
async fn put<K: ClusterObject>(prepared: &Prepared, object: Value) -> K {
    let api = Api::<K>::all(prepared.sandbox.client());
    let typed: K = serde_json::from_value(object.clone()).unwrap();
    let created = api.create(&PostParams::default(), &typed).await.unwrap();
    match object.get("status") {
        None => created,
        Some(status) => {
            let patch = Patch::Merge(json!({ "status": status }));
            let params = PatchParams::default();
            api.patch_status(&created.name_any(), &params, &patch).await.unwrap()
        }
    }
}

fn conditions(types: &[&str]) -> Value {
    let condition = |kind: &&str| {
        json!({"type": kind, "status": "True", "reason": kind, "message": "", "observedGeneration": 1,
               "lastTransitionTime": "2025-12-31T04:00:00Z"})
    };
    types.iter().map(condition).collect()
}

/// The labels that upstream gives to claim and node.
fn labels(instance: &Instance) -> Value {
    json!({
        "team": "payments", "karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default",
        "karpenter.sh/capacity-type": "on-demand", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m5.2xlarge", "topology.kubernetes.io/region": "us-east-1",
        "topology.kubernetes.io/zone": instance.zone.name, "topology.k8s.aws/zone-id": instance.zone.id,
        "karpenter.k8s.aws/instance-category": "m", "karpenter.k8s.aws/instance-family": "m5",
        "karpenter.k8s.aws/instance-generation": "5", "karpenter.k8s.aws/instance-size": "2xlarge",
        "karpenter.k8s.aws/instance-cpu": "8", "karpenter.k8s.aws/instance-memory": "32768",
        "karpenter.k8s.aws/instance-hypervisor": "nitro", "karpenter.k8s.aws/instance-tenancy": "default",
        "karpenter.k8s.aws/instance-capability-flex": "false",
    })
}

/// The cluster that upstream left. Its controller is stopped, its pods run.
async fn upstreams_cluster() -> Prepared {
    let prepared = prepared(|_| {}).await;
    let client = prepared.sandbox.client();
    apply(&client, CLASS).await;
    apply(&client, POOL).await;
    let classes = Api::<EC2NodeClass>::all(client.clone());
    let class = classes.get("default").await.unwrap();
    let instances = launch(&prepared, &class.uid().unwrap());
    let (subnets, groups, amis) = prepared.aws.with(|account, _| {
        let subnets: Vec<Value> = account
            .subnets
            .iter()
            .map(|one| json!({"id": one.id, "zone": one.zone.name, "zoneID": one.zone.id}))
            .collect();
        let groups = json!([{"id": account.security_groups[0].id, "name": account.security_groups[0].name}]);
        let arch = |value: &str| json!({"key": "kubernetes.io/arch", "operator": "In", "values": [value]});
        let lacks = |key: &str| json!({"key": key, "operator": "DoesNotExist"});
        let image = account
            .images
            .iter()
            .find(|one| one.id == instances[0].image_id)
            .unwrap();
        let amis = json!([{"id": image.id, "name": image.name, "requirements": [
            arch("amd64"), lacks("karpenter.k8s.aws/instance-gpu-count"),
            lacks("karpenter.k8s.aws/instance-accelerator-count"),
        ]}]);
        (subnets, groups, amis)
    });
    let all = [
        "AMIsReady",
        "CapacityReservationsReady",
        "InstanceProfileReady",
        "PlacementGroupReady",
        "Ready",
        "SecurityGroupsReady",
        "SubnetsReady",
        "ValidationSucceeded",
    ];
    let status = json!({"status": {
        "subnets": subnets, "securityGroups": groups, "amis": amis, "instanceProfile": PROFILE,
        "conditions": conditions(&all),
    }});
    let params = PatchParams::default();
    classes
        .patch_status("default", &params, &Patch::Merge(status))
        .await
        .unwrap();
    let pools = Api::<NodePool>::all(client.clone());
    let pool_hash = pools.get("default").await.unwrap().drift_hash();
    let hashes = json!({"karpenter.sh/nodepool-hash": pool_hash, "karpenter.sh/nodepool-hash-version": "v3"});
    let patch = Patch::Merge(json!({"metadata": {"annotations": hashes}}));
    let pool = pools.patch("default", &params, &patch).await.unwrap();
    for (at, instance) in instances.iter().enumerate() {
        put_node(&prepared, at, instance, &pool, &pool_hash).await;
    }
    apply(&client, DEPLOYMENT).await;
    let pods = Api::<Pod>::all(client);
    let are_running = async || {
        let pods = pods.list(&ListParams::default()).await.unwrap().items;
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        pods.iter()
            .filter(|pod| phase(pod).as_deref() == Some("Running"))
            .count()
            == 3
    };
    for _ in 0..60 {
        if are_running().await {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(are_running().await, "upstream's pods run");
    prepared
}

async fn put_node(prepared: &Prepared, at: usize, instance: &Instance, pool: &NodePool, pool_hash: &str) {
    let (name, node) = (claim_name(at), instance.private_name());
    let provider_id = provider_id(&instance.zone.name, &instance.id);
    let annotations = json!({
        "karpenter.k8s.aws/ec2nodeclass-hash": CLASS_HASH, "karpenter.k8s.aws/ec2nodeclass-hash-version": "v5",
        "karpenter.sh/nodepool-hash": pool_hash, "karpenter.sh/nodepool-hash-version": "v3",
        "karpenter.k8s.aws/instance-profile-name": PROFILE, "karpenter.k8s.aws/tagged": "true",
        "compatibility.karpenter.k8s.aws/cluster-name-tagged": "true",
    });
    let capacity = json!({"cpu": "8", "memory": "30310Mi", "ephemeral-storage": "50Gi", "pods": "58"});
    let allocatable = json!({"cpu": "7900m", "memory": "28021Mi", "ephemeral-storage": "44Gi", "pods": "58"});
    let claim: NodeClaim = put(
        prepared,
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {
                "name": name, "generateName": "default-", "labels": labels(instance), "annotations": annotations,
                "finalizers": ["karpenter.sh/termination"],
                "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default",
                                     "uid": pool.uid(), "blockOwnerDeletion": true}],
            },
            "spec": {
                "expireAfter": "720h",
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "spot"]},
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                    {"key": "team", "operator": "In", "values": ["payments"]},
                    {"key": "node.kubernetes.io/instance-type", "operator": "In",
                     "values": ["m5.2xlarge", "m6i.2xlarge"]},
                ],
                "resources": {"requests": {"cpu": "6", "memory": "1Gi", "pods": "2"}},
            },
            "status": {
                "providerID": provider_id, "nodeName": node, "imageID": instance.image_id,
                "capacity": capacity, "allocatable": allocatable,
                "conditions": conditions(&["Launched", "Registered", "Initialized", "ConsistentStateFound", "Ready"]),
            },
        }),
    )
    .await;
    let mut of_node = labels(instance);
    for (key, value) in [
        ("karpenter.sh/registered", "true"),
        ("karpenter.sh/initialized", "true"),
        ("karpenter.sh/do-not-sync-taints", "true"),
        ("kubernetes.io/hostname", &*node),
    ] {
        of_node[key] = json!(value);
    }
    let _: Node = put(
        prepared,
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": node, "labels": of_node, "annotations": annotations,
                "finalizers": ["karpenter.sh/termination"],
                "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": name,
                                     "uid": claim.uid(), "blockOwnerDeletion": true}],
            },
            "spec": {"providerID": provider_id},
            "status": {"capacity": capacity, "allocatable": allocatable},
        }),
    )
    .await;
}

/// What a person sees of objects of a kind: metadata, specification and findings, without what other writers change all the time.
async fn seen<K: ClusterObject>(cluster: &Cluster) -> Vec<Value> {
    let list = Api::<K>::all(cluster.client())
        .list(&ListParams::default())
        .await
        .unwrap();
    let strip = |object: &K| {
        let mut object = serde_json::to_value(object).unwrap();
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.retain(|key, _| !["managedFields", "resourceVersion"].contains(&key.as_str()));
        // Written again when pods are first seen (LIF-137, DIS-121).
        if let Some(status) = object["status"]
            .as_object_mut()
            .filter(|status| status.contains_key("providerID"))
        {
            status.remove("lastPodEventTime");
            let conditions = status.get_mut("conditions").and_then(Value::as_array_mut).unwrap();
            conditions.retain(|one| one["type"] != "Consolidatable");
            conditions.sort_by_key(|one| one["type"].to_string());
        }
        object
    };
    list.items.iter().map(strip).collect()
}

/// Nodes without what kubelet writes.
async fn seen_nodes(cluster: &Cluster) -> Vec<Value> {
    let mut nodes = seen::<Node>(cluster).await;
    nodes.iter_mut().for_each(|node| node["status"] = Value::Null);
    nodes
}

async fn taken_over() -> (Cluster, Vec<Value>, Vec<Value>) {
    let cluster = upstreams_cluster().await.start().await;
    let (claims, nodes) = (seen::<NodeClaim>(&cluster).await, seen_nodes(&cluster).await);
    (cluster, claims, nodes)
}

// AWS-034, AWS-039, AWS-294
#[tokio::test(start_paused = true)]
async fn nothing_changes_on_the_day_of_the_swap() {
    let (cluster, claims, nodes) = taken_over().await;
    let instances = cluster.aws.with(|account, _| account.instances.clone());
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    for (before, after) in [
        (claims, seen::<NodeClaim>(&cluster).await),
        (nodes, seen_nodes(&cluster).await),
    ] {
        assert_eq!(before.len(), after.len());
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(
                serde_json::to_string_pretty(before).unwrap(),
                serde_json::to_string_pretty(after).unwrap()
            );
        }
    }
    let class = cluster.class().await;
    assert_eq!(class.annotations()["karpenter.k8s.aws/ec2nodeclass-hash"], CLASS_HASH);
    assert_eq!(class.status.instance_profile.as_deref(), Some(PROFILE));
    assert!(class.status.conditions.iter().all(kerf_api::Condition::is_true));
    let after = cluster.aws.with(|account, _| account.instances.clone());
    assert_eq!(instances, after, "no instance is launched, ended or tagged");
    let calls = cluster.aws.with(|account, _| account.take_calls());
    let is_read = |action: &str| {
        ["Describe", "Get", "List", "Receive"]
            .iter()
            .any(|verb| action.starts_with(verb))
    };
    let wrote: BTreeSet<(&str, bool)> = calls
        .iter()
        .filter(|call| !is_read(&call.action))
        .map(|call| (call.action.as_str(), call.parameters.contains_key("DryRun")))
        .collect();
    // The templates are those of dry runs, and upstream's, which no launch needs (AWS-158).
    let allowed = BTreeSet::from([
        ("CreateFleet", true),
        ("RunInstances", true),
        ("CreateLaunchTemplate", false),
        ("DeleteLaunchTemplate", false),
        ("DeleteMessage", false),
    ]);
    assert!(wrote.is_subset(&allowed), "{wrote:?}");
    let profiles = cluster
        .aws
        .with(|account, _| account.profiles.keys().cloned().collect::<Vec<_>>());
    assert_eq!(profiles, [PROFILE]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_cluster_that_was_taken_over_grows_shrinks_and_ends() {
    let (cluster, claims, _) = taken_over().await;
    let old: BTreeSet<String> = cluster.instances().into_iter().map(|one| one.id).collect();
    cluster.scale(6).await;
    cluster
        .until("more pods run", 10, async |cluster| cluster.running_pods().await == 6)
        .await;
    let instances = cluster.instances();
    let new: Vec<&Instance> = instances.iter().filter(|one| !old.contains(&one.id)).collect();
    assert!(
        !new.is_empty() && instances.len() == old.len() + new.len(),
        "old nodes stay"
    );
    for one in &new {
        assert_eq!(one.profile.as_deref(), Some(PROFILE));
        for (key, value) in launch_tags() {
            assert_eq!(one.tags.get(&key), Some(&value), "{key}");
        }
        assert!(one.purchase == Purchase::Spot || one.purchase == Purchase::OnDemand);
    }
    let hash = |claim: &NodeClaim| claim.annotations()["karpenter.k8s.aws/ec2nodeclass-hash"].clone();
    assert!(cluster.claims().await.iter().all(|claim| hash(claim) == CLASS_HASH));
    cluster.scale(0).await;
    cluster
        .until("empty nodes go, those of upstream, too", 20, async |cluster| {
            cluster.instances().is_empty() && cluster.nodes().await.is_empty() && cluster.claims().await.is_empty()
        })
        .await;
    assert_eq!(claims.len(), 3);
    // Upstream's template is deleted by its name, and so is that of the new nodes.
    cluster
        .until("templates go", 5, async |cluster| {
            cluster.aws.with(|account, _| account.templates.is_empty())
        })
        .await;
    let classes = Api::<EC2NodeClass>::all(cluster.client());
    classes.delete("default", &Default::default()).await.unwrap();
    cluster
        .until(
            "the class goes with the profile that upstream made",
            10,
            async |cluster| {
                let class = Api::<EC2NodeClass>::all(cluster.client())
                    .get_opt("default")
                    .await
                    .unwrap();
                class.is_none() && cluster.aws.with(|account, _| account.profiles.is_empty())
            },
        )
        .await;
    cluster.stop().await;
}
