//! `etcd` and `kube-apiserver` from the folder that `KUBEBUILDER_ASSETS` names, on free loopback ports.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// The token of the one user, an administrator.
const TOKEN: &str = "recorded";

/// Time for both programs to start on a busy machine.
const START_MAX: Duration = Duration::from_secs(120);

/// A running control plane without controllers; it ends when this is dropped.
pub(super) struct RealServer {
    programs: Vec<Child>,
    folder: PathBuf,
    client: Client,
}

impl Drop for RealServer {
    fn drop(&mut self) {
        for program in &mut self.programs {
            drop(program.kill());
            drop(program.wait());
        }
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

impl RealServer {
    /// Starts both programs and waits until the namespace `default` exists.
    pub(super) async fn start() -> Self {
        let assets = PathBuf::from(std::env::var_os("KUBEBUILDER_ASSETS").expect("KUBEBUILDER_ASSETS names a folder"));
        let folder = std::env::temp_dir().join(format!("kerf-recorded-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let tokens = write("tokens.csv", &format!("{TOKEN},admin,admin,system:masters\n"));
        let key = rcgen::KeyPair::generate().unwrap();
        let (private, public) = (
            write("sa.key", &key.serialize_pem()),
            write("sa.pub", &key.public_key_pem()),
        );
        let (etcd, port) = (free_port(), free_port());
        let start = |program: &str, arguments: &[String]| {
            Command::new(assets.join(program))
                .args(arguments)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| panic!("{program} does not start: {error}"))
        };
        let data = folder.display();
        let storage = start(
            "etcd",
            &[
                format!("--data-dir={data}/etcd"),
                format!("--listen-client-urls=http://127.0.0.1:{etcd}"),
                format!("--advertise-client-urls=http://127.0.0.1:{etcd}"),
                "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
                "--unsafe-no-fsync".to_owned(),
            ],
        );
        let server = start(
            "kube-apiserver",
            &[
                format!("--etcd-servers=http://127.0.0.1:{etcd}"),
                format!("--secure-port={port}"),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--cert-dir={data}/certificates"),
                format!("--token-auth-file={tokens}"),
                "--authorization-mode=RBAC".to_owned(),
                "--service-account-issuer=https://localhost".to_owned(),
                format!("--service-account-signing-key-file={private}"),
                format!("--service-account-key-file={public}"),
                // There is no controller that makes service accounts; the embedded server has none either.
                "--disable-admission-plugins=ServiceAccount".to_owned(),
            ],
        );
        let client = client(port).await;
        let server = Self {
            programs: vec![storage, server],
            folder,
            client,
        };
        server.ready().await;
        server
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    async fn ready(&self) {
        let end = std::time::Instant::now() + START_MAX;
        loop {
            let request = http::Request::get("/api/v1/namespaces/default")
                .body(Vec::new())
                .unwrap();
            if self.client.request_text(request).await.is_ok() {
                return;
            }
            assert!(
                std::time::Instant::now() < end,
                "kube-apiserver is not ready within {START_MAX:?}"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

async fn client(port: u16) -> Client {
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: real\n\
         clusters: [{{name: real, cluster: {{server: 'https://127.0.0.1:{port}', insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: admin, user: {{token: {TOKEN}}}}}]\n\
         contexts: [{{name: real, context: {{cluster: real, user: admin}}}}]\n"
    );
    let kubeconfig = Kubeconfig::from_yaml(&kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}
