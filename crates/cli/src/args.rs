//! The command line as typed.

use crate::exit;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

const ABOUT: &str = "Node autoscaling for Kubernetes, compatible with Karpenter v1";

/// The command line.
#[derive(Parser, Debug)]
#[command(name = "kerf", bin_name = "kerf", version, about = ABOUT, after_help = exit::HELP, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Watch a whole cluster live through four hours: embedded, in seconds, with the real controllers.
    Demo(DemoArgs),
    /// Keep an embedded cluster and Kerf running for kubectl.
    Up(UpArgs),
    /// Run the controller against a cluster (KUBECONFIG or in-cluster).
    #[command(disable_help_flag = true)]
    Controller(ControllerArgs),
    /// Plan nodes for pods read from manifests: one decision, offline.
    Simulate(SimulateArgs),
    /// Say where a pod goes or why nothing takes it, or why a node stays.
    Explain(Box<ExplainArgs>),
    /// Print the custom resource definitions.
    Crds(CrdsArgs),
    /// Print shell completions.
    Completions {
        /// The shell to complete for.
        shell: clap_complete::Shell,
    },
    /// Print the manual page (roff); `kerf man | man -l -` shows it.
    Man,
    /// Print the version.
    Version,
}

/// Options of `kerf demo`.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub(crate) struct DemoArgs {
    /// Run in real time (four hours) instead of virtual time.
    #[arg(long)]
    pub(crate) real_time: bool,
    /// Where every random choice of the run comes from; the same seed gives the same run.
    #[arg(long, default_value_t = 7)]
    pub(crate) seed: u64,
    /// Say also how many pods run and wait, whenever that changes.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Show the summary alone.
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
}

/// Options of `kerf up`.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub(crate) struct UpArgs {
    /// Loopback port of the API server; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Where to write the kubeconfig.
    #[arg(long, value_name = "FILE", default_value = "kerf.kubeconfig", value_hint = ValueHint::FilePath)]
    pub(crate) write_kubeconfig: PathBuf,
    /// Keep the cluster's objects in this folder and find them again at the next start.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data_dir: Option<PathBuf>,
    /// Leave the cluster alone: no Kerf in this process, so that another can be the controller.
    #[arg(long)]
    pub(crate) no_controller: bool,
    /// Instance types in the KWOK provider's JSON format instead of the EC2 catalogue.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) instance_types: Option<PathBuf>,
    /// Where random choices come from.
    #[arg(long, default_value_t = 7)]
    pub(crate) seed: u64,
    /// Flags of the controller, after --, such as `-- --feature-gates NodeRepair=true`; `kerf controller --help` lists them.
    #[arg(last = true, value_name = "FLAG", conflicts_with = "no_controller")]
    pub(crate) flags: Vec<String>,
}

/// Options of `kerf controller`: handed on as they are, since they keep Karpenter's own syntax (one dash or two, variables as fallback).
#[derive(Args, Debug)]
pub(crate) struct ControllerArgs {
    /// Flags of the controller; `kerf controller --help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, num_args = 0..)]
    pub(crate) flags: Vec<String>,
}

/// Options of `kerf simulate`.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub(crate) struct SimulateArgs {
    /// Manifests to read: a file, a folder, or - for standard input. May be repeated. JSON reads about thirty times faster than YAML.
    #[arg(short = 'f', long = "filename", value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) filenames: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) decision: DecisionArgs,
    /// Check the plan against the Kubernetes rules with code that shares nothing with the solver.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Say instead what consolidation would remove or replace now, what that saves, and for every node that stays why. Exit code 1 says
    /// that something would go.
    #[arg(long, conflicts_with = "verify")]
    pub(crate) consolidate: bool,
    /// Print to standard error how long reading, planning and checking took.
    #[arg(long)]
    pub(crate) timing: bool,
    /// How to print the report.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
}

/// What a decision is made with, besides the cluster.
#[derive(Args, Debug)]
pub(crate) struct DecisionArgs {
    /// Instance types in the KWOK provider's JSON format instead of the built-in ones.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) instance_types: Option<PathBuf>,
    /// The built-in instance types to use without --instance-types: ec2, or for a cluster those that its nodes are of.
    #[arg(long, value_enum)]
    pub(crate) catalogue: Option<CatalogueName>,
    /// The moment the decision is made at (RFC 3339); now by default.
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
    /// Threads to use; the plan does not depend on it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: u16,
    /// Honour preferences until they stand in the way, or not at all.
    #[arg(long, env = "PREFERENCE_POLICY", value_enum, ignore_case = false, default_value_t = PreferencePolicy::Respect)]
    pub(crate) preference_policy: PreferencePolicy,
    /// Whether minValues may be lowered to what there is.
    #[arg(long, env = "MIN_VALUES_POLICY", value_enum, ignore_case = false, default_value_t = MinValuesPolicy::Strict)]
    pub(crate) min_values_policy: MinValuesPolicy,
    /// Feature gates as Name=true|false, comma separated. NodeOverlay is on where overlays are read from files.
    #[arg(long, env = "FEATURE_GATES", value_name = "GATES", default_value = "")]
    pub(crate) feature_gates: String,
    /// How nodes are chosen: the cheapest of several strategies, or upstream's greedy alone.
    #[arg(long, value_enum, default_value_t = Packing::Cheapest)]
    pub(crate) packing: Packing,
}

/// Options of `kerf explain`.
#[derive(Args, Debug)]
#[command(after_help = EXPLAIN_HELP)]
pub(crate) struct ExplainArgs {
    /// What to explain: pod/NAME or node/NAME (or po/NAME, no/NAME, pod NAME).
    #[arg(required = true, num_args = 1..=2, value_name = "KIND/NAME")]
    pub(crate) subject: Vec<String>,
    /// Manifests to read instead of asking a cluster: a file, a folder, or - for standard input. May be repeated.
    #[arg(short = 'f', long = "filename", value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) filenames: Vec<PathBuf>,
    /// The namespace; without it that of the kubeconfig's context, or "default" with -f.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    /// The kubeconfig to use; $KUBECONFIG or ~/.kube/config without it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "filenames")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use; the current one without it.
    #[arg(long, conflicts_with = "filenames")]
    pub(crate) context: Option<String>,
    #[command(flatten)]
    pub(crate) decision: DecisionArgs,
    /// How to print the explanation.
    #[arg(short, long, value_enum, default_value_t = TextOutput::Text)]
    pub(crate) output: TextOutput,
}

const EXPLAIN_HELP: &str = "Examples:
  kerf explain pod/web-0                       ask the cluster of the current kubeconfig
  kerf explain pod/web-0 -n shop -o json       the same as a document
  kerf explain pod/web-0 -f manifests/         offline, from files
  kerf explain node/ip-10-0-1-7                why consolidation leaves it alone

Exit codes:
  0  the pod has a place: it is bound, or would be scheduled; the node would go
  1  the pod has none, or the node stays, and the output says why
  2  bad input or usage, or something could not be read that the answer may depend on
  3  nothing to explain: there is no such object
  4  the output, the API, the kubeconfig or the network failed
  5  an invariant broke";

/// Options of `kerf crds`.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub(crate) struct CrdsArgs {
    /// Whose flavour to print: providers add labels their node classes understand.
    #[arg(long, value_enum, default_value_t = Provider::Kwok)]
    pub(crate) provider: Provider,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CatalogueName {
    /// EC2 instance types with us-east-1 prices; spot prices are modelled.
    Ec2,
    /// The 144 types Karpenter's KWOK provider ships.
    Kwok,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PreferencePolicy {
    #[value(name = "Respect")]
    Respect,
    #[value(name = "Ignore")]
    Ignore,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MinValuesPolicy {
    #[value(name = "Strict")]
    Strict,
    #[value(name = "BestEffort")]
    BestEffort,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packing {
    Cheapest,
    Upstream,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Output {
    Table,
    Json,
    Yaml,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TextOutput {
    Text,
    Json,
    Yaml,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Provider {
    Kwok,
    Aws,
}
