//! Whether the command line decides as the controllers do while the workloads of manifests grow and shrink.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kerf_controllers::Tuning;
use kerf_kwok::builtin_catalogue;
use kerf_sandbox::Sandbox;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::offline_agreement::{Agreement, Tally};
use crate::simulation::harness::Simulation;

/// Long enough to launch, consolidate and come to rest.
const PHASE: Duration = Duration::from_mins(20);

/// Creates all objects of a file, with their status.
async fn create_all(client: &Client, file: &Path) {
    let text = std::fs::read_to_string(file).expect("a file");
    for document in text.split("\n---").filter(|document| document.contains("kind:")) {
        let object: DynamicObject = serde_saphyr::from_str(document).expect("a manifest");
        let types = object.types.clone().expect("a kind");
        let kind = GroupVersionKind::try_from(&types).expect("a version");
        let (resource, capabilities) = pinned_kind(client, &kind).await.expect("it is served");
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(client.clone(), &resource),
            Scope::Namespaced => {
                let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
                Api::namespaced_with(client.clone(), &namespace, &resource)
            }
        };
        let what = format!("{} {}", types.kind, object.name_any());
        if let Err(error) = api.create(&PostParams::default(), &object).await {
            assert!(
                matches!(&error, kube::Error::Api(status) if status.code == 409),
                "{what}: {error}"
            );
        }
        if let Some(status) = object.data.get("status") {
            let patch = Patch::Merge(json!({"status": status}));
            let patched = api
                .patch_status(&object.name_any(), &PatchParams::default(), &patch)
                .await;
            assert!(patched.is_ok(), "status of {what}: {patched:?}");
        }
    }
}

async fn everywhere<K>(client: &Client) -> Vec<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
{
    let listed = Api::<K>::all(client.clone()).list(&ListParams::default()).await;
    listed.expect("listed").items
}

/// Halves every Deployment, and deletes every second pod that nothing would make again.
async fn halve(client: &Client) {
    for deployment in everywhere::<Deployment>(client).await {
        let namespace = deployment.namespace().unwrap_or_default();
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas / 2}}));
        let api: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
        let patched = api.patch(&deployment.name_any(), &PatchParams::default(), &patch).await;
        patched.expect("it is there");
    }
    let bare = everywhere::<Pod>(client)
        .await
        .into_iter()
        .filter(|pod| pod.owner_references().is_empty());
    for pod in bare.step_by(2) {
        let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        let _ = api.delete(&pod.name_any(), &DeleteParams::default()).await;
    }
}

/// Plays one file and returns how often both decided; they must not differ.
async fn play(file: &Path) -> Tally {
    let sandbox = Sandbox::builder().seed(7).build().await.expect("a sandbox");
    let agreement = Agreement::default();
    let tuning = Tuning {
        decision_observer: agreement.observer(sandbox.api(), builtin_catalogue),
        ..Tuning::default()
    };
    let client = sandbox.client();
    let simulation = Simulation::join_tuned(sandbox, client.clone(), |_| {}, |provider| provider, tuning);
    create_all(&client, file).await;
    tokio::time::sleep(PHASE).await;
    halve(&client).await;
    tokio::time::sleep(PHASE).await;
    simulation.stop().await;
    let differences = agreement.differences();
    assert!(differences.is_empty(), "{}: {}", file.display(), differences.join("\n"));
    agreement.tally()
}

async fn play_all(files: impl IntoIterator<Item = PathBuf>) {
    let mut all = Tally::default();
    for file in files {
        let tally = play(&file).await;
        println!("{}: {tally:?}", file.display());
        assert!(tally.compared > 0, "{}", file.display());
        all += tally;
    }
    assert!(all.with_commands > 0 && all.passes > 0, "{all:?}");
    // What the command line could not be asked about says nothing.
    assert!(all.compared > 2 * all.skipped, "{all:?}");
    assert!(all.passes > 2 * all.passes_skipped, "{all:?}");
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").path())
}

#[tokio::test(start_paused = true)]
async fn the_command_line_decides_as_the_controllers_for_every_example() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let yaml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "yaml");
    // The sandbox has KWOK's node classes only.
    let kwok = |path: &PathBuf| {
        !std::fs::read_to_string(path)
            .expect("a file")
            .contains("kind: EC2NodeClass")
    };
    play_all(files(&examples).filter(yaml).filter(kwok)).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "needs KERF_SCENARIOS_DIR"]
async fn the_command_line_decides_as_the_controllers_for_all_scenarios() {
    let folder = std::env::var("KERF_SCENARIOS_DIR").expect("KERF_SCENARIOS_DIR");
    let manifests = files(Path::new(&folder)).map(|folder| folder.join("manifests.yaml"));
    play_all(manifests.filter(|file| file.exists())).await;
}
