//! `kerf controller`: the controller on a real cluster.

use crate::args::ControllerArgs;
use crate::assemble::Parts;
use crate::exit::Exit;
use crate::messages::say;
use crate::old_definitions::refuse_old_definitions;
use crate::process::{Process, tuning};
use anyhow::Context as _;
use kerf_cloud::CloudProvider as _;
use kerf_kwok::{KwokProvider, NodeCapacity, load_catalogue_or_none};
use kerf_model::intern::Interner;
use kerf_runtime::client::Connection;
use kerf_runtime::logging::{LogConfig, Sinks};
use kerf_runtime::options::{DEFINITIONS, OptionDef, OptionKind, OptionOrigin, Parsed, Remark, Values, usage};
use kerf_runtime::{CancellationToken, Clock, Options, Seed};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// The provider with Node objects alone, which every build has.
const KWOK: &str = "kwok";
/// The provider whose callers are in builds with the feature `aws` (AWS-333).
const AWS: &str = "aws";
/// The providers of this build, the default first.
#[cfg(feature = "aws")]
const PROVIDERS: &[&str] = &[AWS, KWOK];
#[cfg(not(feature = "aws"))]
const PROVIDERS: &[&str] = &[KWOK];

const CLOUD_PROVIDER: OptionDef = OptionDef {
    flag: "cloud-provider",
    variable: "CLOUD_PROVIDER",
    kind: OptionKind::Text,
    default: if cfg!(feature = "aws") { AWS } else { KWOK },
    help: if cfg!(feature = "aws") {
        "provider that launches machines: aws (EC2 instances) or kwok (Node objects without machines)"
    } else {
        "provider that launches machines; this build has kwok (Node objects without machines)"
    },
    origin: OptionOrigin::Kerf,
};
const KUBECONFIG: OptionDef = OptionDef {
    flag: "kubeconfig",
    variable: "KUBECONFIG",
    kind: OptionKind::Text,
    default: "",
    help: "kubeconfig file; if empty, ~/.kube/config or the pod's service account",
    origin: OptionOrigin::Kerf,
};

static ALL_OPTIONS: LazyLock<Vec<OptionDef>> = LazyLock::new(|| {
    let all = [CLOUD_PROVIDER, KUBECONFIG];
    let all = all.iter().chain(DEFINITIONS).copied();
    #[cfg(feature = "aws")]
    let all = all.chain(crate::aws_controller::OPTIONS);
    all.collect()
});

/// Runs `kerf controller`.
pub(crate) fn run(args: &ControllerArgs) -> anyhow::Result<Exit> {
    let env = |name: &str| std::env::var(name).ok();
    let values = match Values::parse(&ALL_OPTIONS, args.flags.iter().cloned(), env) {
        Parsed::Run(values) => values,
        Parsed::Help => {
            let about = "Run the controller against a cluster.\n\nUsage: kerf controller [FLAGS]\n";
            write!(
                std::io::stdout(),
                "{about}\n{}\n{}\n",
                usage(&ALL_OPTIONS),
                crate::exit::HELP
            )?;
            return Ok(Exit::Done);
        }
    };
    let (options, provider) = match validate(&values, env) {
        Ok(valid) => valid,
        Err(problems) => {
            for problem in problems {
                say!("error: {problem}");
            }
            say!("kerf controller --help lists all options and what they accept");
            return Ok(Exit::BadInput);
        }
    };
    let kubeconfig = values.string(KUBECONFIG.flag).to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(control(options, provider, values.remarks(), &kubeconfig))
}

/// Checks environment variables of the controller. The error says why it would not start, or what it would ignore.
pub(crate) fn check_environment(env: impl Fn(&str) -> Option<String>) -> Result<(), String> {
    // As flags, because a variable that cannot be parsed silently counts as absent.
    let flag = |def: &OptionDef| env(def.variable).map(|value| format!("--{}={value}", def.flag));
    check_options(ALL_OPTIONS.iter().filter_map(flag), |_| None)
}

/// Checks flags and environment variables of the controller. The error says why it would not start.
pub(crate) fn check_options(
    flags: impl IntoIterator<Item = String>,
    env: impl Fn(&str) -> Option<String>,
) -> Result<(), String> {
    match Values::parse(&ALL_OPTIONS, flags, &env) {
        Parsed::Run(values) => validate(&values, env).map(drop).map_err(|problems| problems.join("; ")),
        Parsed::Help => Ok(()),
    }
}

/// The provider that was chosen, with its own options.
enum Chosen {
    Kwok,
    #[cfg(feature = "aws")]
    Aws(Box<kerf_aws::options::AwsOptions>),
}

/// The options, or everything that is wrong with them.
fn validate(values: &Values, env: impl Fn(&str) -> Option<String>) -> Result<(Options, Chosen), Vec<String>> {
    let options = Options::from_values(values);
    match (options, choose(values, &env)) {
        (Ok(options), Ok(provider)) => Ok((options, provider)),
        (options, provider) => {
            let problems = options.err().into_iter();
            let problems = problems.flat_map(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>());
            Err(problems.chain(provider.err().unwrap_or_default()).collect())
        }
    }
}

fn choose(values: &Values, env: &impl Fn(&str) -> Option<String>) -> Result<Chosen, Vec<String>> {
    let provider = values.string(CLOUD_PROVIDER.flag);
    #[cfg(feature = "aws")]
    if provider == AWS {
        let options = crate::aws_controller::options(values, env)?;
        return Ok(Chosen::Aws(Box::new(options)));
    }
    #[cfg(not(feature = "aws"))]
    let _ = env;
    match provider {
        KWOK => Ok(Chosen::Kwok),
        AWS => Err(vec![format!(
            "--cloud-provider {AWS:?} is not in this build: `cargo build --release --features aws` makes one that has it"
        )]),
        other => Err(vec![format!(
            "--cloud-provider {other:?} does not exist; use {}",
            PROVIDERS.join(" or ")
        )]),
    }
}

async fn control(options: Options, provider: Chosen, remarks: &[Remark], kubeconfig: &str) -> anyhow::Result<Exit> {
    let clock = Clock::system();
    let seed = Seed::from_entropy();
    install_logs(&options, &clock)?;
    log_remarks(remarks);
    let connection = if kubeconfig.is_empty() {
        Connection::infer().await?
    } else {
        Connection::from_file(Path::new(kubeconfig), None).await?
    };
    let process = Process {
        connection,
        options,
        clock,
        seed,
    };
    refuse_old_definitions(&process.bare_client()?).await?;
    let shutdown = CancellationToken::new();
    tokio::spawn(cancel_on_signal(shutdown.clone(), || {}));
    match provider {
        Chosen::Kwok => run_kwok(process, shutdown).await?,
        #[cfg(feature = "aws")]
        Chosen::Aws(aws) => crate::aws_controller::run(process, *aws, kubeconfig, shutdown).await?,
    }
    Ok(Exit::Done)
}

/// Runs the controller with the KWOK provider until shutdown.
async fn run_kwok(process: Process, shutdown: CancellationToken) -> anyhow::Result<()> {
    let interner = Arc::new(Interner::default());
    let path = process.options.instance_types_file_path.as_deref();
    let catalogue = load_catalogue_or_none(path.map(Path::new), &interner);
    // Metrics need the provider's label names, and the real client counts into metrics: so a plain client comes first.
    let first = KwokProvider::new(process.bare_client()?, Arc::clone(&interner), Arc::clone(&catalogue));
    let metrics = process.metrics(first.profile())?;
    let (client, election) = process.client(&metrics)?;
    let (config, _) = Parts {
        client,
        election,
        interner,
        catalogue,
        options: process.options,
        clock: process.clock,
        seed: process.seed,
        metrics: Some(metrics),
        listen: true,
        tuning: tuning(),
        // As upstream's provider does, which tests on real clusters rely on.
        node_capacity: NodeCapacity::Requests,
    }
    .manager();
    Ok(kerf_controllers::run(config, shutdown).await?)
}

/// Logs what the user should know about the options, once.
pub(crate) fn log_remarks(remarks: &[Remark]) {
    for remark in remarks {
        if remark.is_warning() {
            tracing::warn!("{remark}");
        } else {
            tracing::info!("{remark}");
        }
    }
}

/// Writes logs where the options say.
pub(crate) fn install_logs(options: &Options, clock: &Clock) -> anyhow::Result<()> {
    let config = LogConfig {
        level: options.log_level,
        sinks: Sinks::open(&options.log_output_paths)?,
        error_sinks: Sinks::open(&options.log_error_output_paths)?,
        commit: option_env!("KERF_COMMIT").map(str::to_owned),
        clock: clock.clone(),
    };
    Ok(config.install()?)
}

/// Cancels the token at the first signal that asks the process to end; at the second one calls `before_exit` and ends the process at once.
pub(crate) async fn cancel_on_signal(shutdown: CancellationToken, before_exit: impl FnOnce() + Send) {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::quit(),
    ];
    let (sender, mut received) = tokio::sync::mpsc::channel(kinds.len());
    for kind in kinds {
        let Ok(mut signals) = signal(kind) else { continue };
        let sender = sender.clone();
        tokio::spawn(async move { while signals.recv().await.is_some() && sender.send(()).await.is_ok() {} });
    }
    drop(sender);
    if received.recv().await.is_some() {
        shutdown.cancel();
    }
    if received.recv().await.is_some() {
        before_exit();
        std::process::exit(130);
    }
}
