//! Faults strike the client they are meant for, as declared, and the same way for the same seed.

use crate::fixture::{Cluster, seconds};
use k8s_openapi::api::core::v1::ConfigMap;
use kerf_runtime::watch::{Callback, WatchEvent, WatchOptions, watch};
use kerf_runtime::{CancellationToken, Seed};
use kerf_sandbox::faults::{FaultPlan, KillMoment};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

async fn create(client: &Client, name: &str) -> Result<ConfigMap, kube::Error> {
    let object = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a ConfigMap");
    maps(client).create(&PostParams::default(), &object).await
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_hit_only_their_client() {
    let cluster = Cluster::start().await;
    let (client, faults) = cluster.sandbox.client_with_faults("victim");
    let table = [
        (
            FaultPlan {
                conflict: 1.0,
                ..FaultPlan::default()
            },
            409,
        ),
        (
            FaultPlan {
                too_many: 1.0,
                ..FaultPlan::default()
            },
            429,
        ),
        (
            FaultPlan {
                internal: 1.0,
                ..FaultPlan::default()
            },
            500,
        ),
        (
            FaultPlan {
                lost: 1.0,
                ..FaultPlan::default()
            },
            0,
        ),
    ];
    for (plan, expected) in table {
        faults.set(plan);
        let error = create(&client, "a").await.expect_err("a refusal");
        assert_eq!(code(&error), expected, "{error}");
        assert!(
            maps(&cluster.client).get_opt("a").await.expect("an answer").is_none(),
            "nothing was written"
        );
    }
    create(&cluster.client, "b").await.expect("others are not hit");
    faults.clear();
    create(&client, "a").await.expect("nor is it any more");
    assert_eq!(faults.calls(), 5);
    assert_eq!(faults.trace()[0], "POST /api/v1/namespaces/default/configmaps");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_the_write_done() {
    let cluster = Cluster::start().await;
    let (client, faults) = cluster.sandbox.client_with_faults("victim");
    faults.set(FaultPlan {
        answer_lost: 1.0,
        ..FaultPlan::default()
    });
    create(&client, "a").await.expect_err("no answer");
    assert!(maps(&cluster.client).get_opt("a").await.expect("an answer").is_some());
}

#[tokio::test(start_paused = true)]
async fn calls_take_the_latency_declared() {
    let cluster = Cluster::start().await;
    let (client, faults) = cluster.sandbox.client_with_faults("victim");
    let (least, most) = (Duration::from_millis(100), Duration::from_millis(300));
    faults.set(FaultPlan {
        latency: Some((least, most)),
        ..FaultPlan::default()
    });
    for n in 0..20 {
        let began = tokio::time::Instant::now();
        create(&client, &format!("m{n}")).await.expect("a write");
        let took = began.elapsed();
        assert!(took >= least && took <= most + Duration::from_millis(2), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_read_shows_the_past() {
    let cluster = Cluster::start().await;
    let (client, faults) = cluster.sandbox.client_with_faults("victim");
    let count = async |client: &Client| {
        maps(client)
            .list(&ListParams::default())
            .await
            .expect("a list")
            .items
            .len()
    };
    faults.set(FaultPlan {
        stale: 1.0,
        ..FaultPlan::default()
    });
    assert_eq!(count(&client).await, 0);
    create(&cluster.client, "a").await.expect("a write");
    assert_eq!(count(&client).await, 0);
    assert_eq!(count(&cluster.client).await, 1);
    faults.clear();
    assert_eq!(count(&client).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_killed_client_hears_nothing_more() {
    for (moment, written) in [(KillMoment::Before, false), (KillMoment::After, true)] {
        let cluster = Cluster::start().await;
        let (client, faults) = cluster.sandbox.client_with_faults("victim");
        faults.kill_at(2, moment);
        let victim = tokio::spawn(async move {
            create(&client, "a").await.expect("the first call");
            let second = create(&client, "b").await;
            unreachable!("the second call is not answered: {second:?}");
        });
        faults.killed().cancelled().await;
        seconds(60).await;
        assert!(!victim.is_finished());
        victim.abort();
        assert_eq!(
            maps(&cluster.client).get_opt("b").await.expect("an answer").is_some(),
            written
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_survives_cuts_and_410() {
    let cluster = Cluster::start().await;
    for (cut, gone) in [(1.0, 0.0), (0.0, 1.0)] {
        let (client, faults) = cluster.sandbox.client_with_faults("victim");
        faults.set(FaultPlan {
            watch_cut: cut,
            watch_gone: gone,
            watch_life: Duration::from_secs(20),
            ..FaultPlan::default()
        });
        let lists = Arc::new(Mutex::new(0));
        let seen = Arc::new(Mutex::new(std::collections::BTreeSet::new()));
        let (counter, names) = (Arc::clone(&lists), Arc::clone(&seen));
        let sink = Callback(move |event: WatchEvent<ConfigMap>| match event {
            WatchEvent::InitDone => *counter.lock().expect("a lock") += 1,
            WatchEvent::Init(map) | WatchEvent::Apply(map) => names.lock().expect("a lock").extend([map.name_any()]),
            _ => {}
        });
        let stop = CancellationToken::new();
        let task = tokio::spawn(watch(
            client.clone(),
            WatchOptions::default(),
            Seed(1).rng(),
            sink,
            stop.clone(),
        ));
        for n in 0..20 {
            let name = format!("m{n}-{cut}");
            create(&cluster.client, &name).await.expect("a write");
            seconds(10).await;
        }
        seconds(60).await;
        stop.cancel();
        task.await.expect("the watch ends").expect("in order");
        let of_this_run = seen
            .lock()
            .expect("a lock")
            .iter()
            .filter(|name| name.ends_with(&format!("-{cut}")))
            .count();
        assert_eq!(of_this_run, 20, "nothing is missed");
        let lists = *lists.lock().expect("a lock");
        assert!(if gone > 0.0 { lists > 3 } else { lists >= 1 }, "{lists}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_be_late_or_lose_what_happens() {
    let cluster = Cluster::start().await;
    let (client, faults) = cluster.sandbox.client_with_faults("victim");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let names = Arc::clone(&seen);
    let sink = Callback(move |event: WatchEvent<ConfigMap>| {
        if let WatchEvent::Apply(map) = event {
            names.lock().expect("a lock").push(map.name_any());
        }
    });
    let stop = CancellationToken::new();
    let task = tokio::spawn(watch(
        client,
        WatchOptions::default(),
        Seed(1).rng(),
        sink,
        stop.clone(),
    ));
    let told = || seen.lock().expect("a lock").clone();
    seconds(5).await;
    faults.set(FaultPlan {
        watch_lag: Duration::from_secs(20),
        ..FaultPlan::default()
    });
    create(&cluster.client, "late").await.expect("a write");
    seconds(1).await;
    faults.clear();
    create(&cluster.client, "behind").await.expect("a write");
    seconds(15).await;
    assert_eq!(told(), [""; 0], "events keep their order");
    seconds(10).await;
    assert_eq!(told(), ["late", "behind"]);
    faults.set(FaultPlan {
        watch_loss: 1.0,
        ..FaultPlan::default()
    });
    create(&cluster.client, "lost").await.expect("a write");
    seconds(1).await;
    faults.clear();
    create(&cluster.client, "known").await.expect("a write");
    seconds(60).await;
    assert_eq!(told(), ["late", "behind", "known"]);
    stop.cancel();
    task.await.expect("the watch ends").expect("in order");
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_faults() {
    let run = async || {
        let cluster = Cluster::start().await;
        let (client, faults) = cluster.sandbox.client_with_faults("victim");
        faults.set(FaultPlan {
            conflict: 0.3,
            internal: 0.3,
            ..FaultPlan::default()
        });
        let mut codes = Vec::new();
        for n in 0..50 {
            codes.push(
                create(&client, &format!("m{n}"))
                    .await
                    .map_or_else(|error| code(&error), |_| 201),
            );
        }
        codes
    };
    let first = run().await;
    assert_eq!(first, run().await);
    assert!(first.contains(&409) && first.contains(&500) && first.contains(&201));
}

#[tokio::test(start_paused = true)]
async fn actors_recover_from_a_conflict_of_another_writer() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1"]).await;
    let patch = json!({"metadata": {"labels": {"x": "y"}}});
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(cluster.client.clone());
    cluster
        .sandbox
        .set_kubelet("n1", Some("not-ready"))
        .await
        .expect("a patch");
    nodes
        .patch("n1", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .expect("a patch");
    seconds(5).await;
    let taints = crate::fixture::taints(&cluster.read_node("n1").await);
    assert_eq!(
        taints,
        [
            "node.kubernetes.io/not-ready:NoExecute",
            "node.kubernetes.io/not-ready:NoSchedule"
        ]
    );
}
