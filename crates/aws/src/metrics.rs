//! The provider's metrics (section 28 of `docs/behaviour/aws.md`).

use crate::batcher::WindowObserver;
use crate::instance_type_report::InstanceTypeReport;
use kerf_model::intern::Interner;
use kerf_runtime::Metrics;
use kerf_runtime::metrics::{Counter, ExtraLabels, Gauge, Histogram, MetricDef, MetricKind, buckets};
use std::borrow::Cow;
use std::sync::Arc;

/// Buckets of batch sizes (AWS-374).
pub const BATCH_SIZES: [f64; 34] = [
    1.0, 2.0, 4.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 125.0, 150.0, 175.0,
    200.0, 225.0, 250.0, 275.0, 300.0, 350.0, 400.0, 450.0, 500.0, 550.0, 600.0, 700.0, 800.0, 900.0, 1000.0,
];

const MIB: f64 = 1_048_576.0;

pub(crate) const fn definition(
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    help: &'static str,
) -> MetricDef {
    MetricDef {
        name: Cow::Borrowed(name),
        kind,
        labels,
        extra: ExtraLabels::None,
        help,
    }
}

static CPU_CORES: MetricDef = definition(
    "karpenter_cloudprovider_instance_type_cpu_cores",
    MetricKind::Gauge,
    &["instance_type"],
    "vCPUs of an instance type.",
);
static MEMORY_BYTES: MetricDef = definition(
    "karpenter_cloudprovider_instance_type_memory_bytes",
    MetricKind::Gauge,
    &["instance_type"],
    "Advertised memory of an instance type.",
);
static OFFERING_AVAILABLE: MetricDef = definition(
    "karpenter_cloudprovider_instance_type_offering_available",
    MetricKind::Gauge,
    &["instance_type", "capacity_type", "zone"],
    "Whether any NodePool sees the offering available.",
);
static OFFERING_PRICE: MetricDef = definition(
    "karpenter_cloudprovider_instance_type_offering_price_estimate",
    MetricKind::Gauge,
    &["instance_type", "capacity_type", "zone"],
    "Price of the offering per hour.",
);
static LAUNCH_FAILURES: MetricDef = definition(
    "karpenter_cloudprovider_instance_launch_failures_total",
    MetricKind::Counter,
    &["zone", "zone_id", "capacity_type", "reason"],
    "Errors of offerings in answers of CreateFleet.",
);
static TERMINATION_FAILURES: MetricDef = definition(
    "karpenter_cloudprovider_instance_termination_failures_total",
    MetricKind::Counter,
    &["zone", "zone_id"],
    "Terminations of instances that failed.",
);
static BATCH_TIME: MetricDef = definition(
    "karpenter_cloudprovider_batcher_batch_time_seconds",
    MetricKind::Histogram(&buckets::DURATION),
    &["batcher"],
    "How long windows of a batcher were open.",
);
static BATCH_SIZE: MetricDef = definition(
    "karpenter_cloudprovider_batcher_batch_size",
    MetricKind::Histogram(&BATCH_SIZES),
    &["batcher"],
    "Calls in windows of a batcher.",
);
static USER_DATA_BYTES: MetricDef = definition(
    "karpenter_ec2nodeclasses_userdata_bytes",
    MetricKind::Gauge,
    &["nodeclass"],
    "Size of the user data of a class when its last launch template was made.",
);
static RECEIVED_MESSAGES: MetricDef = definition(
    "karpenter_interruption_received_messages_total",
    MetricKind::Counter,
    &["message_type"],
    "Messages of the interruption queue, by kind.",
);
static DELETED_MESSAGES: MetricDef = definition(
    "karpenter_interruption_deleted_messages_total",
    MetricKind::Counter,
    &[],
    "Messages deleted from the interruption queue.",
);
static MESSAGE_DURATION: MetricDef = definition(
    "karpenter_interruption_message_queue_duration_seconds",
    MetricKind::Histogram(&buckets::DURATION),
    &[],
    "Time from an event until its message was handled.",
);
static UNHEALTHY: MetricDef = definition(
    "karpenter_interruption_instance_status_unhealthy_total",
    MetricKind::Counter,
    &["category"],
    "Instances of the cluster whose status became unhealthy, by category.",
);

/// Handles of all metrics of the provider.
#[derive(Clone)]
pub struct AwsMetrics {
    /// Size of instance types, and availability and price of their offerings (AWS-361 to AWS-364).
    pub instance_types: InstanceTypeReport,
    /// Errors in answers of CreateFleet (AWS-365).
    pub launch_failures: Counter,
    /// Failed terminations (AWS-366).
    pub termination_failures: Counter,
    /// Time that windows of batchers were open (AWS-367).
    pub batch_time: Histogram,
    /// Sizes of batches (AWS-368).
    pub batch_size: Histogram,
    /// Size of user data (AWS-369).
    pub user_data_bytes: Gauge,
    /// Messages of the queue (AWS-370).
    pub received_messages: Counter,
    /// Messages deleted (AWS-371).
    pub deleted_messages: Counter,
    /// Age of messages when they were handled (AWS-372).
    pub message_duration: Histogram,
    /// Instances that became unhealthy (AWS-373).
    pub unhealthy: Counter,
}

impl AwsMetrics {
    /// Registers the metrics.
    pub fn new(metrics: &Metrics, interner: &Arc<Interner>) -> Self {
        let instance_types = InstanceTypeReport::new(Arc::clone(interner));
        instance_types.report_types(metrics, &CPU_CORES, |vcpus, _| vcpus as f64);
        instance_types.report_types(metrics, &MEMORY_BYTES, |_, memory_mib| memory_mib as f64 * MIB);
        instance_types.report_offerings(metrics, &OFFERING_AVAILABLE, |one| f64::from(u8::from(one.available)));
        instance_types.report_offerings(metrics, &OFFERING_PRICE, |one| one.price.per_hour());
        Self {
            instance_types,
            launch_failures: metrics.counter(&LAUNCH_FAILURES),
            termination_failures: metrics.counter(&TERMINATION_FAILURES),
            batch_time: metrics.histogram(&BATCH_TIME),
            batch_size: metrics.histogram(&BATCH_SIZE),
            user_data_bytes: metrics.gauge(&USER_DATA_BYTES),
            received_messages: metrics.counter(&RECEIVED_MESSAGES),
            deleted_messages: metrics.counter(&DELETED_MESSAGES),
            message_duration: metrics.histogram(&MESSAGE_DURATION),
            unhealthy: metrics.counter(&UNHEALTHY),
        }
    }

    /// What batchers report closed windows to.
    pub fn window_observer(&self) -> WindowObserver {
        let (time, size) = (self.batch_time.clone(), self.batch_size.clone());
        Arc::new(move |name, open, items| {
            time.observe(&[name], open.as_secs_f64());
            size.observe(&[name], items as f64);
        })
    }
}
