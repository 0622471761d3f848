//! Connections to a real cluster, from a kubeconfig or from inside.

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tower::Layer;

use super::ApiLayers;
use super::layer::Connected;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No kubeconfig and not inside a cluster.
    #[error("no cluster to talk to: set KUBECONFIG, write ~/.kube/config, or run inside a cluster: {0}")]
    NoConfig(#[source] kube::config::InferConfigError),
    /// The kubeconfig cannot be used.
    #[error("kubeconfig {path} cannot be used: {source}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// What is wrong with it.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// The settings do not make a client.
    #[error("the connection settings do not make a client: {0}")]
    Client(#[source] kube::Error),
}

/// Where and as whom to connect; several clients with their own limits can be made from it (OPS-049).
#[derive(Clone, Debug)]
pub struct Connection(Config);

impl Connection {
    /// `KUBECONFIG`, then `~/.kube/config`, then the service account of the pod.
    pub async fn infer() -> Result<Self, ConnectError> {
        Ok(Self::of(Config::infer().await.map_err(ConnectError::NoConfig)?))
    }

    /// `KUBECONFIG` or `~/.kube/config`, with the context named.
    pub async fn with_context(context: &str) -> Result<Self, ConnectError> {
        let options = KubeConfigOptions {
            context: Some(context.to_owned()),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_kubeconfig(&options).await;
        let path = std::env::var("KUBECONFIG").unwrap_or_else(|_| "~/.kube/config".to_owned());
        Ok(Self::of(
            config.map_err(|source| ConnectError::Kubeconfig { path, source })?,
        ))
    }

    /// The given kubeconfig file, with its current context or the one named.
    pub async fn from_file(path: &std::path::Path, context: Option<&str>) -> Result<Self, ConnectError> {
        let wrap = |source| ConnectError::Kubeconfig {
            path: path.display().to_string(),
            source,
        };
        let kubeconfig = Kubeconfig::read_from(path).map_err(wrap)?;
        let options = KubeConfigOptions {
            context: context.map(str::to_owned),
            ..KubeConfigOptions::default()
        };
        Ok(Self::of(
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .map_err(wrap)?,
        ))
    }

    fn of(mut config: Config) -> Self {
        // kube would repeat every request, evictions included, for minutes; our layer knows which ones may be.
        config.default_retry = false;
        Self(config)
    }

    /// The API server's address.
    pub fn server(&self) -> String {
        self.0.cluster_url.to_string()
    }

    /// The namespace of the kubeconfig's context or of the pod.
    pub fn namespace(&self) -> &str {
        &self.0.default_namespace
    }

    /// A client with these layers. The process must have installed its TLS provider.
    pub fn client(&self, layers: &ApiLayers) -> Result<kube::Client, ConnectError> {
        let client = kube::Client::try_from(self.0.clone()).map_err(ConnectError::Client)?;
        Ok(kube::Client::new(
            layers.layer(Connected(client)),
            self.0.default_namespace.clone(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_librarys_own_retries_are_off() {
        let config = Config::new("https://example.invalid".parse().expect("a URL"));
        assert!(config.default_retry, "the default this guards against");
        assert!(!Connection::of(config).0.default_retry);
    }

    #[tokio::test]
    async fn a_missing_kubeconfig_is_named() {
        let error = Connection::from_file(std::path::Path::new("/nowhere/config"), None)
            .await
            .expect_err("no file");
        assert!(error.to_string().contains("/nowhere/config"), "{error}");
    }
}
