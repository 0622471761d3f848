//! The server on a loopback port for `kubectl` and other processes: TLS with certificates made at start, clients known by a
//! certificate of the same authority, HTTP/1.1.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tower::Service;

use super::ApiServer;

/// How long open requests may take to end at shutdown; watches never end by themselves.
const DRAIN: Duration = Duration::from_millis(200);
/// Longest time of a TLS handshake, so that silent connections end.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why the listener did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server cannot listen on the address.
    #[error("cannot listen on {addr}: choose a free port of this machine")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Making the certificates failed.
    #[error("cannot make the TLS certificates of the embedded API server")]
    Certificates(#[from] rcgen::Error),
    /// The TLS library refused the certificates.
    #[error("cannot set up TLS for the embedded API server")]
    Tls(#[from] rustls::Error),
}

/// A running listener. Dropping it leaves the listener running; [`ServingHandle::shutdown`] ends it.
#[derive(Debug)]
pub struct ServingHandle {
    addr: SocketAddr,
    identity: Identity,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// What a client needs to know.
#[derive(Debug)]
struct Identity {
    ca_pem: String,
    client_pem: String,
    client_key_pem: String,
}

impl ServingHandle {
    /// The port of the listener.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.addr.port()
    }

    /// The certificate of the authority that signed the server's.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.identity.ca_pem
    }

    /// A kubeconfig with everything inside; it holds a private key, so write it for its owner only.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        let encode = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: kerf\n\
             clusters:\n- name: kerf\n  cluster:\n    server: https://{}\n    certificate-authority-data: {}\n\
             users:\n- name: kerf\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n\
             contexts:\n- name: kerf\n  context:\n    cluster: kerf\n    user: kerf\n    namespace: default\n",
            self.addr,
            encode(&self.identity.ca_pem),
            encode(&self.identity.client_pem),
            encode(&self.identity.client_key_pem),
        )
    }

    /// Stops listening, waits a short time for open requests, then closes watches.
    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        // The task ends by itself within the drain time; if it panicked there is nothing left to stop.
        drop(self.task.await);
    }
}

/// Serves `api` over HTTPS on `addr` (port 0 picks a free one).
pub async fn serve_https(api: ApiServer, addr: SocketAddr) -> Result<ServingHandle, ServeError> {
    let (identity, config) = make_identity(addr)?;
    let listener = TcpListener::bind(addr)
        .await
        .map_err(|source| ServeError::Listen { addr, source })?;
    let addr = listener
        .local_addr()
        .map_err(|source| ServeError::Listen { addr, source })?;
    let (stop, stopped) = watch::channel(false);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let task = tokio::spawn(accept(listener, acceptor, api, stopped));
    Ok(ServingHandle {
        addr,
        identity,
        stop,
        task,
    })
}

fn make_identity(addr: SocketAddr) -> Result<(Identity, ServerConfig), ServeError> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "kerf-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

    let names = [
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
        addr.ip().to_string(),
    ];
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name.push(DnType::CommonName, "kerf");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let server_key = KeyPair::generate()?;
    let server = params.signed_by(&server_key, &ca)?;

    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "kerf");
    params
        .distinguished_name
        .push(DnType::OrganizationName, "system:masters");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let client_key = KeyPair::generate()?;
    let client = params.signed_by(&client_key, &ca)?;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone())?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|e| rustls::Error::General(e.to_string()))?;
    let key = PrivateKeyDer::try_from(server_key.serialize_der()).map_err(|e| rustls::Error::General(e.to_owned()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![server.der().clone()], key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let identity = Identity {
        ca_pem: ca.pem(),
        client_pem: client.pem(),
        client_key_pem: client_key.serialize_pem(),
    };
    Ok((identity, config))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, api: ApiServer, mut stop: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stop_requested(&mut stop) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, acceptor.clone(), api.clone(), stop.clone()));
                }
                // Out of file descriptors, most likely: wait for connections to end instead of spinning.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(DRAIN).await;
                }
            },
        }
    }
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        connections.shutdown().await;
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, api: ApiServer, mut stop: watch::Receiver<bool>) {
    // Watch events are small; Nagle's algorithm would delay them.
    drop(stream.set_nodelay(true));
    let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake failed");
            return;
        }
        Err(_) => return,
    };
    let service = service_fn(move |request: http::Request<Incoming>| {
        let mut api = api.clone();
        async move { api.call(request).await }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = stop_requested(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// Completes when the handle shuts the listener down. A dropped handle never completes it.
async fn stop_requested(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}
