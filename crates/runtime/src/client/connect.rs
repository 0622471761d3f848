//! Connections to a real cluster, from a kubeconfig or from inside.

use kube::Config;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use tower::Layer;

use super::ApiLayers;
use super::layer::Connected;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No kubeconfig and not inside a cluster.
    #[error("no cluster to talk to: set KUBECONFIG, write ~/.kube/config, or run inside a cluster")]
    NoConfig,
    /// Inside a cluster, but the pod's service account cannot be used.
    #[error("the service account of this pod cannot be used: {0}")]
    ServiceAccount(#[source] InClusterError),
    /// The kubeconfig cannot be used.
    #[error("kubeconfig {path} cannot be used: {}", Cause { path, error })]
    Kubeconfig {
        /// The file, or the list of files that `KUBECONFIG` holds.
        path: String,
        /// What is wrong with it. It is no source: its text would repeat the path.
        error: KubeconfigError,
    },
    /// The settings do not make a client.
    #[error("the connection settings do not make a client: {0}")]
    Client(#[source] kube::Error),
}

/// What is wrong with a kubeconfig. The path is repeated only where it is one of several.
struct Cause<'a> {
    path: &'a str,
    error: &'a KubeconfigError,
}

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error {
            KubeconfigError::ReadConfig(cause, file) if file.as_path() == Path::new(self.path) => cause.fmt(f),
            KubeconfigError::ReadConfig(cause, file) => write!(f, "reading {}: {cause}", file.display()),
            other => other.fmt(f),
        }
    }
}

/// The variable that names kubeconfig files.
const KUBECONFIG: &str = "KUBECONFIG";
/// The file that is read without that variable.
const DEFAULT_PATH: &str = "~/.kube/config";

/// Says why neither a kubeconfig nor a service account gives a connection. `named` is the value of `KUBECONFIG`.
fn no_connection(named: Option<String>, kubeconfig: KubeconfigError, service_account: InClusterError) -> ConnectError {
    if let Some(path) = named.filter(|paths| !paths.is_empty()) {
        return ConnectError::Kubeconfig {
            path,
            error: kubeconfig,
        };
    }
    let is_missing = match &kubeconfig {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => error.kind() == ErrorKind::NotFound,
        _ => false,
    };
    match (is_missing, service_account) {
        (true, InClusterError::ReadEnvironmentVariable(_)) => ConnectError::NoConfig,
        (true, service_account) => ConnectError::ServiceAccount(service_account),
        (false, _) => {
            let path = match &kubeconfig {
                KubeconfigError::ReadConfig(_, file) => file.display().to_string(),
                _ => DEFAULT_PATH.to_owned(),
            };
            ConnectError::Kubeconfig {
                path,
                error: kubeconfig,
            }
        }
    }
}

/// The address of the API server and the credentials; several clients with their own limits can be made from it (OPS-049).
#[derive(Clone, Debug)]
pub struct Connection(Config);

impl Connection {
    /// `KUBECONFIG`, then `~/.kube/config`, then the service account of the pod.
    pub async fn infer() -> Result<Self, ConnectError> {
        let mut config = match Config::from_kubeconfig(&KubeConfigOptions::default()).await {
            Ok(config) => config,
            Err(kubeconfig) => Config::incluster().map_err(|service_account| {
                no_connection(std::env::var(KUBECONFIG).ok(), kubeconfig, service_account)
            })?,
        };
        config.apply_debug_overrides();
        Ok(Self::of(config))
    }

    /// `KUBECONFIG` or `~/.kube/config`, with the context named.
    pub async fn with_context(context: &str) -> Result<Self, ConnectError> {
        let options = KubeConfigOptions {
            context: Some(context.to_owned()),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_kubeconfig(&options).await;
        let path = std::env::var(KUBECONFIG).unwrap_or_else(|_| DEFAULT_PATH.to_owned());
        Ok(Self::of(
            config.map_err(|error| ConnectError::Kubeconfig { path, error })?,
        ))
    }

    /// The given kubeconfig file, with its current context or the one named.
    pub async fn from_file(path: &Path, context: Option<&str>) -> Result<Self, ConnectError> {
        let wrap = |error| ConnectError::Kubeconfig {
            path: path.display().to_string(),
            error,
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

    fn unreadable(path: &str, kind: ErrorKind) -> KubeconfigError {
        KubeconfigError::ReadConfig(kind.into(), path.into())
    }

    #[tokio::test]
    async fn a_missing_kubeconfig_is_named_once() {
        let error = Connection::from_file(Path::new("/nowhere/config"), None)
            .await
            .expect_err("no file")
            .to_string();
        assert!(
            error.starts_with("kubeconfig /nowhere/config cannot be used: "),
            "{error}"
        );
        assert_eq!(error.matches("/nowhere").count(), 1, "{error}");
    }

    #[test]
    fn an_error_names_the_source_the_user_chose() {
        let outside = || InClusterError::ReadEnvironmentVariable(std::env::VarError::NotPresent);
        let inside = || InClusterError::ReadDefaultNamespace(ErrorKind::NotFound.into());
        let missing = || unreadable("/home/a/.kube/config", ErrorKind::NotFound);
        let error = |named: Option<&str>, kubeconfig, service_account| {
            no_connection(named.map(str::to_owned), kubeconfig, service_account).to_string()
        };
        let one = error(Some("/a"), unreadable("/a", ErrorKind::NotFound), outside());
        assert_eq!(one, "kubeconfig /a cannot be used: entity not found");
        let several = error(Some("/a:/b"), unreadable("/b", ErrorKind::NotFound), outside());
        assert_eq!(several, "kubeconfig /a:/b cannot be used: reading /b: entity not found");
        let none = "no cluster to talk to: set KUBECONFIG, write ~/.kube/config, or run inside a cluster";
        assert_eq!(error(None, missing(), outside()), none);
        assert_eq!(error(Some(""), missing(), outside()), none);
        let account = error(None, missing(), inside());
        assert!(
            account.starts_with("the service account of this pod cannot be used: "),
            "{account}"
        );
        let refused = error(
            None,
            unreadable("/home/a/.kube/config", ErrorKind::PermissionDenied),
            outside(),
        );
        assert_eq!(
            refused,
            "kubeconfig /home/a/.kube/config cannot be used: permission denied"
        );
        let wrong = error(None, KubeconfigError::MissingClusterUrl, inside());
        assert_eq!(
            wrong,
            "kubeconfig ~/.kube/config cannot be used: cluster url is missing on selected cluster"
        );
    }
}
