//! How many objects each controller reconciles at once.

use std::time::Duration;

use crate::simulation::harness::Simulation;

async fn workers(cpu_milli: i64) -> impl Fn(&str) -> usize {
    let simulation = Simulation::start_with(|options| {
        options.cpu_requests = cpu_milli;
        options.feature_gates.static_capacity = true;
        options.feature_gates.node_repair = true;
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let metrics = simulation.context.metrics.encode();
    simulation.stop().await;
    move |controller: &str| {
        let line = format!("controller_runtime_max_concurrent_reconciles{{controller=\"{controller}\"}} ");
        let found = metrics.lines().find_map(|other| other.strip_prefix(&line));
        let found = found.and_then(|value| value.parse().ok());
        found.unwrap_or_default()
    }
}

// LIF-222, LIF-223, LIF-224, DIS-270
#[tokio::test(start_paused = true)]
async fn workers_grow_with_the_cpu_request() {
    let (small, large) = (workers(1000).await, workers(60_000).await);
    let ranges: [(&[&str], usize, usize); 6] = [
        (
            &["nodeclaim.lifecycle", "nodeclaim.hydration", "node.hydration"],
            1000,
            5000,
        ),
        (&["node.termination", "eviction-queue"], 100, 5000),
        (&["disruption.queue"], 100, 1000),
        (
            &[
                "provisioner.trigger.pod",
                "provisioner.trigger.node",
                "nodepool.readiness",
                "nodepool.hash",
                "nodepool.counter",
                "nodepool.registrationhealth",
                "nodeclaim.consistency",
                "nodeclaim.disruption",
                "node.health",
            ],
            10,
            1000,
        ),
        (
            &["static.provisioning", "static.deprovisioning", "nodepool.validation"],
            10,
            10,
        ),
        (
            &[
                "nodeclaim.expiration",
                "nodeclaim.podevents",
                "disruption",
                "nodeclaim.garbagecollection",
            ],
            1,
            1,
        ),
    ];
    for (controllers, least, most) in ranges {
        for controller in controllers {
            assert_eq!((small(controller), large(controller)), (least, most), "{controller}");
        }
    }
}
