//! The connection to AWS: region, credentials, HTTP client, and the clients of the services.

use super::call_metrics::CallMetrics;
use super::ec2::SdkEc2;
use super::{eks, errors, iam, prices, sqs, ssm, zonal_shift};
use crate::error_advice::explain;
use crate::errors::ApiError;
use crate::pricing::pricing_endpoint_region;
use crate::services::Services;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, ConfigLoader, Region, SdkConfig};
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_async::time::TimeSource;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use kerf_runtime::Metrics;
use std::sync::Arc;
use std::time::Duration;

/// How long an attempt of a call may take (AWS-337).
const ATTEMPT_MAX: Duration = Duration::from_secs(240);

/// Why AWS cannot be used. The process cannot start without.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Nothing says in which region the cluster is.
    #[error(
        "no AWS region: set AWS_REGION, a region in the AWS profile, or allow access to the instance metadata service"
    )]
    NoRegion,
    /// There are no credentials, or they cannot be read.
    #[error(
        "no AWS credentials: {0}; use EKS Pod Identity, IAM roles for service accounts, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )]
    NoCredentials(String),
    /// EC2 did not answer, or refused a call that the provider cannot do without.
    #[error("EC2 of region {region} cannot be used, {}", explain(.error))]
    Unusable {
        /// Region.
        region: String,
        /// What EC2 said.
        error: ApiError,
    },
}

/// The services of an account, and their region.
pub struct Connection {
    /// The services.
    pub services: Services,
    /// The region.
    pub region: String,
    ec2: Arc<SdkEc2>,
}

/// The HTTP client of the SDK: one TLS stack for the whole process.
fn http_client() -> SharedHttpClient {
    let builder = aws_smithy_http_client::Builder::new();
    builder.tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https()
}

fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT_MAX).build()
}

/// The suffix of the user agent.
fn app_name() -> Option<AppName> {
    AppName::new(concat!("karpenter.sh-", env!("CARGO_PKG_VERSION"))).ok()
}

/// What all calls have in common (AWS-337).
pub fn loader() -> ConfigLoader {
    let loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http_client())
        .timeout_config(timeouts());
    match app_name() {
        Some(name) => loader.app_name(name),
        None => loader,
    }
}

/// A configuration that takes nothing from the machine: no environment variables, no profile and no clock. Timeouts and user agent are those
/// of [`loader`].
pub fn isolated_config(
    client: SharedHttpClient,
    region: &str,
    credentials: impl ProvideCredentials + 'static,
    time: impl TimeSource + 'static,
) -> SdkConfig {
    let mut config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(client)
        .region(Region::new(region.to_owned()))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .time_source(time)
        .sleep_impl(TokioSleep::new())
        .retry_config(RetryConfig::standard())
        .timeout_config(timeouts());
    config.set_app_name(app_name());
    config.build()
}

/// Finds region and credentials as the SDK does, and makes sure that EC2 can be used (AWS-333).
pub async fn connect(metrics: &Metrics) -> Result<Connection, ConnectError> {
    connect_in(None, metrics).await
}

/// The same in a region that is named.
pub async fn connect_in(region: Option<&str>, metrics: &Metrics) -> Result<Connection, ConnectError> {
    let loader = match region {
        Some(region) => loader().region(Region::new(region.to_owned())),
        None => loader(),
    };
    let connection = Connection::new(&loader.load().await, metrics)?;
    connection.check().await?;
    Ok(connection)
}

/// The client of a service. It counts its retries itself: by default all clients of a service in a process have one count, so that what one
/// connection repeats leaves fewer tries to another.
macro_rules! client {
    ($sdk:ident, $config:expr, $metrics:expr) => {{
        let own = $sdk::config::retry::RetryPartition::custom(stringify!($sdk)).build();
        let builder = $sdk::config::Builder::from($config).retry_partition(own);
        $sdk::Client::from_conf(builder.interceptor($metrics.clone()).build())
    }};
}

impl Connection {
    /// The services of a configuration, with their calls measured (AWS-378). No call is made.
    pub fn new(config: &SdkConfig, metrics: &Metrics) -> Result<Self, ConnectError> {
        let region = config.region().ok_or(ConnectError::NoRegion)?.to_string();
        // The Price List is served by few regions.
        let price_region = Region::new(pricing_endpoint_region(&region));
        let price_config = config.to_builder().region(price_region).build();
        let metrics = CallMetrics::new(metrics);
        let ec2 = Arc::new(SdkEc2::new(client!(aws_sdk_ec2, config, metrics)));
        let services = Services {
            ec2: Arc::clone(&ec2) as _,
            ssm: Arc::new(ssm::SdkSsm(client!(aws_sdk_ssm, config, metrics))),
            iam: Arc::new(iam::SdkIam(client!(aws_sdk_iam, config, metrics))),
            sqs: Arc::new(sqs::SdkSqs(client!(aws_sdk_sqs, config, metrics))),
            eks: Arc::new(eks::SdkEks(client!(aws_sdk_eks, config, metrics))),
            price_list: Arc::new(prices::SdkPriceList(client!(aws_sdk_pricing, &price_config, metrics))),
            zonal_shift: Arc::new(zonal_shift::SdkZonalShift(client!(
                aws_sdk_arczonalshift,
                config,
                metrics
            ))),
        };
        Ok(Self { services, region, ec2 })
    }

    /// Tries a call that the provider cannot do without.
    pub async fn check(&self) -> Result<(), ConnectError> {
        let Err(error) = self.ec2.check().await else {
            return Ok(());
        };
        if error.code == errors::NO_ANSWER && error.message.contains("credential") {
            return Err(ConnectError::NoCredentials(error.message));
        }
        Err(ConnectError::Unusable {
            region: self.region.clone(),
            error,
        })
    }
}
