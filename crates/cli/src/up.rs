//! `kerf up`: an embedded cluster with Kerf that runs until a signal ends it.

use crate::args::{Cloud, UpArgs};
use crate::assemble::Parts;
use crate::controller::{cancel_on_signal, install_logs, log_remarks};
use crate::exit::Exit;
use crate::kubeconfig_file::KubeconfigFile;
use crate::messages::say;
use crate::up_flags::UpFlags;
use anyhow::Context as _;
use kerf_api::Provider;
use kerf_apiserver::{ApiServer, serve_https};
use kerf_aws::options::AwsOptions;
use kerf_controllers::Tuning;
use kerf_kwok::{ReadMode, ec2_catalogue, read_catalogue};
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_runtime::{CancellationToken, Clock, Options, Seed};
use kerf_sandbox::{KubeletOptions, NodeSelection, Sandbox};
use kube::Client;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs `kerf up`.
pub(crate) fn run(args: &UpArgs) -> anyhow::Result<Exit> {
    if let Some(why) = unusable(args) {
        say!("error: {why}");
        return Ok(Exit::BadInput);
    }
    let interner = Arc::new(Interner::default());
    let catalogue = match catalogue(args.instance_types.as_deref(), &interner) {
        Ok(catalogue) => catalogue,
        Err(error) => {
            say!("error: {error:#}");
            return Ok(Exit::BadInput);
        }
    };
    let flags = match UpFlags::parse(&args.flags, args.cloud) {
        Ok(flags) => flags,
        Err(error) => {
            say!("error: {error}; kerf controller --help lists what is allowed");
            return Ok(Exit::BadInput);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(serve(args, flags, interner, catalogue))
}

/// Why the flags of a cloud cannot be used; `None` if they can.
fn unusable(args: &UpArgs) -> Option<&'static str> {
    match args.cloud {
        Cloud::Kwok => None,
        Cloud::Aws if !cfg!(feature = "aws") => Some(NOT_IN_THIS_BUILD),
        Cloud::Aws if args.no_controller => {
            Some("the account of --cloud aws can be used by the controller of this process alone")
        }
        Cloud::Aws if args.instance_types.is_some() => {
            Some("--instance-types has no effect with --cloud aws: EC2 describes its types")
        }
        Cloud::Aws => None,
    }
}

/// The error of a build without the feature.
pub(crate) const NOT_IN_THIS_BUILD: &str =
    "--cloud aws is not in this build: `cargo build --release -p kerf-cli --features aws` makes one that has it";

fn catalogue(path: Option<&Path>, interner: &Interner) -> anyhow::Result<Arc<Catalogue>> {
    let Some(path) = path else {
        return Ok(ec2_catalogue(interner));
    };
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| {
        anyhow::anyhow!("{name}: cannot be read: {error}; check the path given with --instance-types")
    })?;
    let catalogue =
        read_catalogue(&text, &name, interner, ReadMode::Strict).map_err(|faults| anyhow::anyhow!("{faults}"))?;
    Ok(Arc::new(catalogue))
}

/// Runs the cluster until a signal.
async fn serve(
    args: &UpArgs,
    flags: UpFlags,
    interner: Arc<Interner>,
    catalogue: Arc<Catalogue>,
) -> anyhow::Result<Exit> {
    let clock = Clock::system();
    let kubeconfig = Arc::new(KubeconfigFile::take(&args.write_kubeconfig)?);
    let options = flags.options;
    if flags.logs {
        install_logs(&options, &clock)?;
        log_remarks(&flags.remarks);
    }
    let api = {
        let clock = clock.clone();
        ApiServer::builder()
            .clock(Arc::new(move || clock.now()))
            .seed(args.seed)
    };
    let api = match &args.data_dir {
        Some(folder) => api
            .open(folder)
            .with_context(|| format!("opening --data-dir {}", folder.display()))?,
        None => api.build(),
    };
    let builder = Sandbox::builder().seed(args.seed).clock(clock.clone()).api(api.clone());
    let builder = match args.cloud {
        Cloud::Kwok => builder,
        Cloud::Aws => builder.provider(Provider::Aws).kubelets(KubeletOptions {
            nodes: NodeSelection::All,
            ..KubeletOptions::default()
        }),
    };
    let sandbox = builder.build().await?;
    let listener = serve_https(api, SocketAddr::from((Ipv4Addr::LOCALHOST, args.port))).await?;
    kubeconfig.write(&listener.kubeconfig())?;
    let shutdown = CancellationToken::new();
    let own = Arc::clone(&kubeconfig);
    tokio::spawn(cancel_on_signal(shutdown.clone(), move || own.remove()));
    greet(&mut std::io::stdout(), args, listener.port()).context("writing to standard output")?;
    if args.no_controller {
        shutdown.cancelled().await;
    } else if let Some(aws) = flags.aws {
        let cluster = AwsCluster {
            client: sandbox.client(),
            endpoint: format!("https://127.0.0.1:{}", listener.port()),
            kubeconfig: args.write_kubeconfig.clone(),
            clock,
            seed: Seed(args.seed),
        };
        run_aws(cluster, aws, options, flags.listen, shutdown).await?;
    } else {
        let (config, _) = Parts {
            client: sandbox.client(),
            election: None,
            interner,
            catalogue,
            options,
            clock,
            seed: Seed(args.seed),
            metrics: None,
            listen: flags.listen,
            tuning: Tuning {
                blocking: true,
                ..Tuning::default()
            },
        }
        .manager();
        kerf_controllers::run(config, shutdown).await?;
    }
    sandbox.stop().await;
    listener.shutdown().await;
    // Its address is not served any more.
    kubeconfig.remove();
    Ok(Exit::Done)
}

/// The facts about the cluster that the embedded AWS needs.
#[cfg_attr(not(feature = "aws"), expect(dead_code, reason = "builds without AWS refuse before"))]
struct AwsCluster {
    client: Client,
    endpoint: String,
    kubeconfig: PathBuf,
    clock: Clock,
    seed: Seed,
}

/// Runs the controller on an embedded AWS account until shutdown.
#[cfg(feature = "aws")]
async fn run_aws(
    cluster: AwsCluster,
    aws: AwsOptions,
    options: Options,
    listen: bool,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    use crate::embedded_aws::{EmbeddedAws, EmbeddedCluster};
    let cluster = EmbeddedCluster {
        client: cluster.client,
        endpoint: cluster.endpoint,
        ca_bundle: kerf_aws::provider::client_ca(Some(&cluster.kubeconfig)),
        clock: cluster.clock,
        seed: cluster.seed,
    };
    let account = EmbeddedAws::start(&cluster, &aws.cluster_name, &shutdown).await?;
    let tuning = Tuning {
        blocking: true,
        ..Tuning::default()
    };
    let manager = account.manager(&cluster, aws, options, listen, tuning).await?;
    Ok(manager.run(shutdown).await?)
}

#[cfg(not(feature = "aws"))]
async fn run_aws(_: AwsCluster, _: AwsOptions, _: Options, _: bool, _: CancellationToken) -> anyhow::Result<()> {
    anyhow::bail!("{NOT_IN_THIS_BUILD}")
}

/// Prints the greeting. A closed pipe is no error: `kerf up | head -1` keeps the cluster running.
fn greet(out: &mut impl Write, args: &UpArgs, port: u16) -> std::io::Result<()> {
    match out.write_all(greeting(args, port).as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn greeting(args: &UpArgs, port: u16) -> String {
    let path = args.write_kubeconfig.display();
    let (who, controller) = if args.no_controller {
        let line = format!("  kerf controller --disable-leader-election --kubeconfig {path}\n");
        ("without a controller", line)
    } else {
        ("with Kerf", String::new())
    };
    let example = match args.cloud {
        Cloud::Kwok => "examples/web.yaml",
        Cloud::Aws => "examples/aws-getting-started.yaml",
    };
    format!(
        "The cluster is up on https://127.0.0.1:{port}, {who}. Ctrl-C ends it.\n\n  export KUBECONFIG={path}\n{controller}  \
         kubectl apply -f {example}\n  kubectl get nodes,nodeclaims,pods -o wide\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use std::io::{self, ErrorKind};

    /// A writer that always fails.
    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn args(line: &[&str]) -> UpArgs {
        match Cli::try_parse_from(line).expect("it parses").command {
            Command::Up(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_closed_pipe_does_not_end_the_cluster() {
        let args = args(&["kerf", "up"]);
        assert!(greet(&mut Failing(ErrorKind::BrokenPipe), &args, 1).is_ok());
        assert!(greet(&mut Failing(ErrorKind::StorageFull), &args, 1).is_err());
    }

    #[test]
    fn the_controller_takes_its_own_flags_after_two_dashes() {
        let line = [
            "kerf",
            "up",
            "--",
            "--feature-gates",
            "NodeRepair=true,StaticCapacity=true",
        ];
        let flags = UpFlags::parse(&args(&line).flags, Cloud::Kwok).expect("known flags");
        let gates = flags.options.feature_gates;
        assert!(gates.node_repair && gates.static_capacity);
        assert!(Cli::try_parse_from(["kerf", "up", "--no-controller", "--", "--batch-idle-duration=2s"]).is_err());
    }

    #[test]
    fn the_embedded_account_needs_the_controller_and_a_build_that_has_it() {
        let why = |line: &[&str]| unusable(&args(line));
        assert_eq!(why(&["kerf", "up", "--no-controller"]), None);
        let alone = why(&["kerf", "up", "--cloud", "aws"]);
        if cfg!(feature = "aws") {
            assert_eq!(alone, None);
            assert!(why(&["kerf", "up", "--cloud", "aws", "--no-controller"]).is_some());
            assert!(why(&["kerf", "up", "--cloud", "aws", "--instance-types", "x"]).is_some());
        } else {
            assert_eq!(alone, Some(NOT_IN_THIS_BUILD));
        }
    }

    #[test]
    fn the_greeting_says_how_to_start_a_controller_when_there_is_none() {
        let mut with = Vec::new();
        let mut without = Vec::new();
        greet(&mut with, &args(&["kerf", "up"]), 6443).expect("a vector takes it");
        greet(&mut without, &args(&["kerf", "up", "--no-controller"]), 6443).expect("a vector takes it");
        let [with, without] = [with, without].map(|bytes| String::from_utf8(bytes).expect("text"));
        assert!(
            with.starts_with("The cluster is up on https://127.0.0.1:6443, with Kerf."),
            "{with}"
        );
        assert!(!with.contains("kerf controller"), "{with}");
        assert!(
            without.contains("  kerf controller --disable-leader-election --kubeconfig kerf.kubeconfig\n"),
            "{without}"
        );
    }
}
