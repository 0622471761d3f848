//! Counts and times calls of AWS (AWS-378).

use crate::metrics::definition;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::{
    BeforeSerializationInterceptorContextRef, BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::{ConfigBag, Storable, StoreReplace};
use kerf_runtime::Metrics;
use kerf_runtime::metrics::{Counter, Histogram, MetricDef, MetricKind, buckets};
use tokio::time::Instant;

/// The service, such as `EC2`, the operation, and the HTTP status of the answer, which is 0 where there was none.
const LABELS: &[&str] = &["service", "action", "code"];
/// Bucket bounds in seconds: 10 ms to 22 s by factors of 1.5 (AWS-378).
const DURATION: [f64; 20] = buckets::exponential(0.01, 1.5);
/// Bucket bounds of retries of one call (AWS-378).
const RETRIES: [f64; 11] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];

static REQUESTS: MetricDef = definition(
    "aws_sdk_go_request_total",
    MetricKind::Counter,
    LABELS,
    "Calls of AWS, each with its retries counted once.",
);
static REQUEST_RETRIES: MetricDef = definition(
    "aws_sdk_go_request_retry_count",
    MetricKind::Histogram(&RETRIES),
    LABELS,
    "Retries of a call of AWS.",
);
static REQUEST_DURATION: MetricDef = definition(
    "aws_sdk_go_request_duration_seconds",
    MetricKind::Histogram(&DURATION),
    LABELS,
    "Duration of a call of AWS, retries and the pauses before them included.",
);
static ATTEMPTS: MetricDef = definition(
    "aws_sdk_go_request_attempt_total",
    MetricKind::Counter,
    LABELS,
    "Requests sent to AWS, retries included.",
);
static ATTEMPT_DURATION: MetricDef = definition(
    "aws_sdk_go_request_attempt_duration_seconds",
    MetricKind::Histogram(&DURATION),
    LABELS,
    "Duration of a request sent to AWS.",
);

/// The part of a client that measures its calls.
#[derive(Clone, Debug)]
pub(super) struct CallMetrics {
    requests: Counter,
    retries: Histogram,
    duration: Histogram,
    attempts: Counter,
    attempt_duration: Histogram,
}

impl CallMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            requests: metrics.counter(&REQUESTS),
            retries: metrics.histogram(&REQUEST_RETRIES),
            duration: metrics.histogram(&REQUEST_DURATION),
            attempts: metrics.counter(&ATTEMPTS),
            attempt_duration: metrics.histogram(&ATTEMPT_DURATION),
        }
    }
}

/// What is known of a call while it lasts.
#[derive(Clone, Copy, Debug)]
struct Call {
    began: Instant,
    attempt_began: Instant,
    attempts: u32,
}

impl Storable for Call {
    type Storer = StoreReplace<Self>;
}

/// Calls `observe` with the values of [`LABELS`] for a call, or an attempt, that has ended.
fn with_labels(context: &FinalizerInterceptorContextRef<'_>, cfg: &ConfigBag, observe: impl FnOnce(&[&str])) {
    let status = context.response().map_or(0, |response| response.status().as_u16());
    let operation = cfg.load::<Metadata>();
    observe(&[
        operation.map_or("", Metadata::service),
        operation.map_or("", Metadata::name),
        &status.to_string(),
    ]);
}

#[dyn_dispatch_hint]
impl Intercept for CallMetrics {
    fn name(&self) -> &'static str {
        "CallMetrics"
    }

    fn read_before_execution(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let now = Instant::now();
        cfg.interceptor_state().store_put(Call {
            began: now,
            attempt_began: now,
            attempts: 0,
        });
        Ok(())
    }

    fn read_before_attempt(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(call) = cfg.load::<Call>().copied() {
            cfg.interceptor_state().store_put(Call {
                attempt_began: Instant::now(),
                attempts: call.attempts + 1,
                ..call
            });
        }
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(call) = cfg.load::<Call>() {
            with_labels(context, cfg, |labels| {
                self.attempts.inc(labels);
                let duration = call.attempt_began.elapsed();
                self.attempt_duration.observe(labels, duration.as_secs_f64());
            });
        }
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(call) = cfg.load::<Call>() {
            with_labels(context, cfg, |labels| {
                self.requests.inc(labels);
                self.retries.observe(labels, f64::from(call.attempts.saturating_sub(1)));
                self.duration.observe(labels, call.began.elapsed().as_secs_f64());
            });
        }
        Ok(())
    }
}
