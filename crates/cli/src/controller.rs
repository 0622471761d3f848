//! `kerf controller`: the controller on a real cluster.

use crate::args::ControllerArgs;
use crate::assemble::Parts;
use crate::exit::Exit;
use crate::messages::say;
use crate::old_definitions::refuse_old_definitions;
use crate::process::{Process, disable_huge_pages, tuning};
use anyhow::Context as _;
use kerf_api::Provider;
use kerf_aws::options::AwsOptions;
use kerf_cloud::CloudProvider as _;
use kerf_kwok::{KwokProvider, load_catalogue_or_none};
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

/// The options of this build.
static ALL_OPTIONS: LazyLock<&[OptionDef]> = LazyLock::new(|| {
    options_of(if cfg!(feature = "aws") {
        Provider::Aws
    } else {
        Provider::Kwok
    })
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
    let (options, provider) = match validate(&values) {
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
    disable_huge_pages();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(control(options, provider, values.remarks(), &kubeconfig))
}

/// The options of a controller with a provider, whether or not this build has it.
fn options_of(provider: Provider) -> &'static [OptionDef] {
    static WITHOUT_AWS: LazyLock<Vec<OptionDef>> = LazyLock::new(|| {
        let own = [CLOUD_PROVIDER, KUBECONFIG];
        own.iter().chain(DEFINITIONS).copied().collect()
    });
    static WITH_AWS: LazyLock<Vec<OptionDef>> = LazyLock::new(|| {
        WITHOUT_AWS
            .iter()
            .copied()
            .chain(kerf_aws::options::DEFINITIONS)
            .collect()
    });
    match provider {
        Provider::Aws => &WITH_AWS,
        Provider::Kwok | Provider::Core => &WITHOUT_AWS,
    }
}

/// Checks environment variables of the controller. The error says why it would not start, or what it would ignore.
pub(crate) fn check_environment(provider: Provider, env: impl Fn(&str) -> Option<String>) -> Result<(), String> {
    // As flags, because a variable that cannot be parsed silently counts as absent.
    let flag = |def: &OptionDef| env(def.variable).map(|value| format!("--{}={value}", def.flag));
    check_options(provider, options_of(provider).iter().filter_map(flag), |_| None)
}

/// What flags and environment variables of the controller with a provider say, unchecked; `None` if they ask for help.
pub(crate) fn option_values(
    provider: Provider,
    flags: impl IntoIterator<Item = String>,
    env: impl Fn(&str) -> Option<String>,
) -> Option<Values> {
    match Values::parse(options_of(provider), flags, env) {
        Parsed::Run(values) => Some(values),
        Parsed::Help => None,
    }
}

/// Checks flags and environment variables of the controller with a provider. The error says why it would not start.
pub(crate) fn check_options(
    provider: Provider,
    flags: impl IntoIterator<Item = String>,
    env: impl Fn(&str) -> Option<String>,
) -> Result<(), String> {
    let Some(values) = option_values(provider, flags, env) else {
        return Ok(());
    };
    let mut problems = Vec::new();
    if let Err(errors) = Options::from_values(&values) {
        problems.extend(errors.iter().map(ToString::to_string));
    }
    let named = values.string(CLOUD_PROVIDER.flag);
    if values.is_given(CLOUD_PROVIDER.flag) && named != AWS && named != KWOK {
        problems.push(no_such_provider(named));
    }
    if provider == Provider::Aws {
        problems.extend(AwsOptions::from_values(&values).err().into_iter().flatten());
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.join("; "))
    }
}

fn no_such_provider(name: &str) -> String {
    format!("--cloud-provider {name:?} does not exist; use {AWS} or {KWOK}")
}

/// The provider that was chosen, with its own options.
enum Chosen {
    Kwok,
    #[cfg(feature = "aws")]
    Aws(Box<AwsOptions>),
}

/// The options, or everything that is wrong with them.
fn validate(values: &Values) -> Result<(Options, Chosen), Vec<String>> {
    let options = Options::from_values(values);
    match (options, choose(values)) {
        (Ok(options), Ok(provider)) => Ok((options, provider)),
        (options, provider) => {
            let problems = options.err().into_iter();
            let problems = problems.flat_map(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>());
            Err(problems.chain(provider.err().unwrap_or_default()).collect())
        }
    }
}

fn choose(values: &Values) -> Result<Chosen, Vec<String>> {
    let provider = values.string(CLOUD_PROVIDER.flag);
    #[cfg(feature = "aws")]
    if provider == AWS {
        let options = AwsOptions::from_values(values)?;
        return Ok(Chosen::Aws(Box::new(options)));
    }
    match provider {
        KWOK => Ok(Chosen::Kwok),
        AWS => Err(vec![format!(
            "--cloud-provider {AWS:?} is not in this build: `cargo build --release --features aws` makes one that has it"
        )]),
        other => Err(vec![no_such_provider(other)]),
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
    let flavour = match &provider {
        Chosen::Kwok => Provider::Kwok,
        #[cfg(feature = "aws")]
        Chosen::Aws(_) => Provider::Aws,
    };
    refuse_old_definitions(&process.bare_client()?, flavour, process.options.feature_gates).await?;
    let shutdown = CancellationToken::new();
    tokio::spawn(cancel_on_signal(shutdown.clone(), || {}));
    match provider {
        Chosen::Kwok => Box::pin(run_kwok(process, shutdown)).await?,
        #[cfg(feature = "aws")]
        Chosen::Aws(aws) => Box::pin(crate::aws_controller::run(process, *aws, kubeconfig, shutdown)).await?,
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
