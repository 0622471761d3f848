//! What users do in a world: they deploy, scale, roll out and delete workloads, and change objects by hand.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_chaos::{delete, merge, pick};
use kube::Api;
use serde_json::{Value, json};

use crate::chaos::run::World;
use crate::chaos::scenario::{Kind, Workload};
use crate::objects::create_in;

impl World {
    pub(crate) fn choose(&self, which: u64, of: impl Fn(&Kind) -> bool) -> Option<(String, Kind)> {
        let suitable = self.workloads.iter().filter(|(_, kind)| of(kind)).cloned();
        pick(suitable.collect(), which)
    }

    pub(crate) async fn deploy(&mut self, workload: &Workload) {
        let Workload {
            name,
            kind,
            replicas,
            spec,
            annotations,
            pdb,
        } = workload;
        let labels = json!({"app": name});
        let template = json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec});
        let selector = json!({"matchLabels": labels});
        let meta = json!({"name": name});
        let client = self.sandbox.client();
        self.observation.workload(name, *kind == Kind::DaemonSet);
        match kind {
            Kind::Deployment => {
                let spec = json!({"replicas": replicas, "selector": selector, "template": template});
                create_in::<Deployment>(&client, "default", json!({"metadata": meta, "spec": spec})).await;
            }
            Kind::StatefulSet => {
                let spec = json!({
                    "replicas": replicas, "selector": selector, "template": template, "serviceName": name,
                    "podManagementPolicy": "Parallel",
                });
                create_in::<StatefulSet>(&client, "default", json!({"metadata": meta, "spec": spec})).await;
            }
            Kind::DaemonSet => {
                let spec = json!({"selector": selector, "template": template});
                create_in::<DaemonSet>(&client, "default", json!({"metadata": meta, "spec": spec})).await;
            }
            Kind::Job => {
                let spec = json!({"parallelism": replicas, "completions": replicas, "template": template});
                create_in::<Job>(&client, "default", json!({"metadata": meta, "spec": spec})).await;
            }
        }
        if let Some(pdb) = pdb {
            let mut spec = pdb.clone();
            spec["selector"] = selector;
            create_in::<PodDisruptionBudget>(&client, "default", json!({"metadata": meta, "spec": spec})).await;
        }
        self.workloads.push((name.clone(), *kind));
    }

    pub(crate) async fn retire(&mut self, which: u64) {
        let Some((name, kind)) = self.choose(which, |_| true) else {
            return;
        };
        self.workloads.retain(|(other, _)| *other != name);
        let client = self.sandbox.client();
        match kind {
            Kind::Deployment => delete(&Api::<Deployment>::namespaced(client, "default"), &name).await,
            Kind::StatefulSet => delete(&Api::<StatefulSet>::namespaced(client, "default"), &name).await,
            Kind::DaemonSet => delete(&Api::<DaemonSet>::namespaced(client, "default"), &name).await,
            Kind::Job => delete(&Api::<Job>::namespaced(client, "default"), &name).await,
        }
    }

    pub(crate) async fn patch_workload(&self, name: &str, kind: Kind, patch: Value) {
        let client = self.sandbox.client();
        match kind {
            Kind::Deployment => merge(&Api::<Deployment>::namespaced(client, "default"), name, &patch).await,
            Kind::StatefulSet => merge(&Api::<StatefulSet>::namespaced(client, "default"), name, &patch).await,
            Kind::DaemonSet => merge(&Api::<DaemonSet>::namespaced(client, "default"), name, &patch).await,
            Kind::Job => {}
        }
    }
}
