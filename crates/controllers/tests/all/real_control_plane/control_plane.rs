//! A control plane of real programs on free loopback ports, as envtest starts them.

use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kerf_runtime::client::{ApiLayers, Connection};
use kube::{Api, Client};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;
use tokio::time::Instant;

use crate::real_control_plane::process::{Folder, Process};

/// How long the API server may take to start on a busy machine.
const START: Duration = Duration::from_secs(60);
/// The administrator.
const ADMIN: &str = "admin";
/// The user that is bound to the controller's role.
pub(crate) const CONTROLLER: &str = "kerf-controller";
/// How often is asked whether it has.
const LOOK: Duration = Duration::from_millis(100);

/// Running programs; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    processes: Vec<Process>,
    /// As an administrator.
    connection: Connection,
    /// As [`CONTROLLER`].
    controller: Connection,
    has_scheduler: bool,
    has_controller_manager: bool,
    // The last to go: the others write to it.
    _folder: Folder,
}

impl ControlPlane {
    /// Starts one and waits until it serves.
    pub(crate) async fn start() -> Self {
        // Fails only where another test of this process has done it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let assets = PathBuf::from(std::env::var_os("KUBEBUILDER_ASSETS").expect("KUBEBUILDER_ASSETS names a folder"));
        let folder = Folder::new();
        let [etcd, api] = free_ports();
        let files = Files::write(&folder, api);
        let etcd_url = format!("http://127.0.0.1:{etcd}");
        let mut storage = start_etcd(&assets.join("etcd"), &folder, &etcd_url);
        listening(&mut storage, etcd).await;
        let server = Process::start(
            &assets.join("kube-apiserver"),
            &folder,
            files.api_server(&etcd_url, api),
        );
        let connect = async |user| {
            let connection = Connection::from_file(&files.kubeconfig, Some(user)).await;
            connection.expect("our own kubeconfig")
        };
        let mut plane = Self {
            processes: vec![storage, server],
            connection: connect(ADMIN).await,
            controller: connect(CONTROLLER).await,
            has_scheduler: false,
            has_controller_manager: false,
            _folder: folder,
        };
        plane.served().await;
        plane.has_scheduler = plane.start_if_there(&assets.join("kube-scheduler"), files.scheduler());
        plane.has_controller_manager =
            plane.start_if_there(&assets.join("kube-controller-manager"), files.controller_manager());
        plane
    }

    fn start_if_there(&mut self, program: &Path, arguments: Vec<OsString>) -> bool {
        let there = program.exists();
        if there {
            self.processes.push(Process::start(program, &self._folder, arguments));
        }
        there
    }

    pub(crate) fn has_scheduler(&self) -> bool {
        self.has_scheduler
    }

    pub(crate) fn has_controller_manager(&self) -> bool {
        self.has_controller_manager
    }

    /// A client of an administrator with these layers.
    pub(crate) fn client(&self, layers: &ApiLayers) -> Client {
        self.connection.client(layers).expect("a client")
    }

    /// A client of [`CONTROLLER`] with these layers.
    pub(crate) fn controller_client(&self, layers: &ApiLayers) -> Client {
        self.controller.client(layers).expect("a client")
    }

    /// Fails the test if a program has ended.
    pub(crate) fn assert_running(&mut self) {
        self.processes.iter_mut().for_each(Process::assert_running);
    }

    /// The ends of all logs, for failing tests.
    pub(crate) fn tails(&self) -> String {
        self.processes.iter().map(Process::tail).collect::<Vec<_>>().join("\n")
    }

    /// Waits for readiness and for the namespace that everything lives in, which the server makes some time later.
    async fn served(&mut self) {
        let client = self.client(&ApiLayers::new());
        let end = Instant::now() + START;
        loop {
            self.assert_running();
            let request = http::Request::get("/readyz").body(Vec::new()).expect("a request");
            let ready = client.request_text(request).await.is_ok_and(|text| text == "ok");
            if ready && Api::<Namespace>::all(client.clone()).get("default").await.is_ok() {
                return;
            }
            assert!(Instant::now() < end, "not ready within {START:?}\n{}", self.tails());
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Ports that are free now.
fn free_ports<const N: usize>() -> [u16; N] {
    // All are held until the last is known, so that they differ.
    let held = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"));
    held.map(|listener| listener.local_addr().expect("an address").port())
}

async fn listening(process: &mut Process, port: u16) {
    let end = Instant::now() + START;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        process.assert_running();
        assert!(Instant::now() < end, "nobody listens\n{}", process.tail());
        tokio::time::sleep(LOOK).await;
    }
}

fn start_etcd(program: &Path, folder: &Folder, url: &str) -> Process {
    let data = folder.path("etcd");
    let arguments = [
        flag("data-dir", &data),
        flag("listen-client-urls", url),
        flag("advertise-client-urls", url),
        flag("listen-peer-urls", "http://127.0.0.1:0"),
        // Nothing has to outlive the test.
        "--unsafe-no-fsync".into(),
    ];
    Process::start(program, folder, arguments)
}

fn flag(name: &str, value: impl AsRef<std::ffi::OsStr>) -> OsString {
    let mut text = OsString::from(format!("--{name}="));
    text.push(value);
    text
}

/// Certificates, keys and the kubeconfig that uses them.
#[derive(Debug)]
struct Files {
    authority: PathBuf,
    server: (PathBuf, PathBuf),
    /// Public and private.
    accounts: (PathBuf, PathBuf),
    kubeconfig: PathBuf,
}

impl Files {
    fn write(folder: &Folder, port: u16) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "kerf-real-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = CertifiedIssuer::self_signed(params, key()).expect("an authority");

        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server_key = key();
        let server = params.signed_by(&server_key, &authority).expect("a certificate");

        let user = |name: &str, group: Option<&str>| {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, name);
            if let Some(group) = group {
                params.distinguished_name.push(DnType::OrganizationName, group);
            }
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            let private = key();
            let certificate = params.signed_by(&private, &authority).expect("a certificate");
            json!({"name": name, "user": {
                "client-certificate": folder.write(&format!("{name}.crt"), &certificate.pem()),
                "client-key": folder.write(&format!("{name}.key"), &private.serialize_pem()),
            }})
        };
        let users = [user(ADMIN, Some("system:masters")), user(CONTROLLER, None)];
        let context =
            |user| json!({"name": user, "context": {"cluster": "real", "user": user, "namespace": "default"}});

        let accounts = key();
        let authority = folder.write("ca.crt", &authority.pem());
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": ADMIN,
            "clusters": [{"name": "real", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority": authority,
            }}],
            "users": users,
            "contexts": [context(ADMIN), context(CONTROLLER)],
        });
        Self {
            authority,
            server: (
                folder.write("server.crt", &server.pem()),
                folder.write("server.key", &server_key.serialize_pem()),
            ),
            accounts: (
                folder.write("accounts.pub", &accounts.public_key_pem()),
                folder.write("accounts.key", &accounts.serialize_pem()),
            ),
            kubeconfig: folder.write("kubeconfig", &kubeconfig.to_string()),
        }
    }

    fn api_server(&self, etcd: &str, port: u16) -> Vec<OsString> {
        vec![
            flag("etcd-servers", etcd),
            flag("bind-address", "127.0.0.1"),
            flag("advertise-address", "127.0.0.1"),
            flag("secure-port", port.to_string()),
            // It would publish its own address, which may not be loopback.
            flag("endpoint-reconciler-type", "none"),
            flag("tls-cert-file", &self.server.0),
            flag("tls-private-key-file", &self.server.1),
            flag("client-ca-file", &self.authority),
            flag("service-account-issuer", "https://kubernetes.default.svc"),
            flag("service-account-key-file", &self.accounts.0),
            flag("service-account-signing-key-file", &self.accounts.1),
            flag("service-cluster-ip-range", "10.96.0.0/24"),
            flag("authorization-mode", "RBAC"),
            // Pods would wait for a service account, which only a controller manager creates.
            flag("disable-admission-plugins", "ServiceAccount"),
            flag("allow-privileged", "true"),
        ]
    }

    fn scheduler(&self) -> Vec<OsString> {
        vec![
            flag("kubeconfig", &self.kubeconfig),
            flag("leader-elect", "false"),
            flag("secure-port", "0"),
        ]
    }

    fn controller_manager(&self) -> Vec<OsString> {
        vec![
            flag("kubeconfig", &self.kubeconfig),
            flag("leader-elect", "false"),
            flag("secure-port", "0"),
            flag("service-account-private-key-file", &self.accounts.1),
            // The sandbox's kubelets say once that they are well.
            flag("node-monitor-grace-period", "1h"),
        ]
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}
