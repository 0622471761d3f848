//! The command line as typed.

use crate::ec2_args::{Ec2Args, boolean};
use crate::exit;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};
use kerf_api::{SchedulerConfig, StartupTaints};
use kerf_aws::options::AwsFeatureGates;
use kerf_runtime::options::taint_keys;
use kerf_units::launch_price_range::LaunchPriceRange;
use kerf_units::min_savings::MinSavingsPercent;
use kerf_units::nominated_pods::NominatedPodsMax;
use kerf_units::policy::{
    CommandsPerPass, Destinations, ForecastBinding, MinValuesPolicy, NodeOverheadCost, Packing, Policy,
    PreferencePolicy, Replacements, UnknownPolicy,
};
use kerf_units::savings_per_pod::SavingsPerPod;
use std::path::PathBuf;
use std::str::FromStr;

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
    /// Run four hours of an embedded cluster in seconds, with the real controllers.
    Demo(DemoArgs),
    /// Run an embedded cluster with Kerf for kubectl.
    Up(UpArgs),
    /// Run the controller on a cluster (KUBECONFIG or in-cluster).
    #[command(disable_help_flag = true)]
    Controller(ControllerArgs),
    /// Plan nodes for pods read from manifests: one decision, offline.
    Simulate(SimulateArgs),
    /// Explain where a pod goes or why it has no place, or why a node stays.
    Explain(Box<ExplainArgs>),
    /// Print the EC2 instance types of an EC2NodeClass: allocatable, zones and prices.
    Catalogue(CatalogueArgs),
    /// Print the objects that run the controller in a cluster.
    Manifests(ManifestsArgs),
    /// Check whether Kerf can take over a cluster from Karpenter.
    Preflight(PreflightArgs),
    /// Compare what Kerf would have done beside a running Karpenter with what that one did.
    Shadow {
        #[command(subcommand)]
        command: ShadowCommand,
    },
    /// Print the custom resource definitions.
    Crds(CrdsArgs),
    /// Print shell completions.
    Completions {
        /// The shell to complete for.
        shell: clap_complete::Shell,
    },
    /// Print a manual page (roff); `kerf man simulate | man -l -` shows that of `kerf simulate`.
    Man {
        /// The command to describe; all of kerf without it.
        command: Option<String>,
    },
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
    /// Cloud of the machines: kwok (Node objects without machines), or in builds with the feature aws also aws (an embedded EC2).
    #[arg(long, value_enum, default_value_t = Cloud::Kwok)]
    pub(crate) cloud: Cloud,
    /// Seed of all random choices; the same seed gives the same run.
    #[arg(long, default_value_t = 7)]
    pub(crate) seed: u64,
    /// Also print the number of running and pending pods when it changes.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Print only the summary.
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
}

/// The clouds of the embedded cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cloud {
    /// Node objects without machines.
    #[default]
    Kwok,
    /// EC2 instances of an embedded AWS account.
    Aws,
}

/// Options of `kerf up`.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub(crate) struct UpArgs {
    /// Loopback port of the API server; 0 chooses a free one.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// File to write the kubeconfig to.
    #[arg(long, value_name = "FILE", default_value = "kerf.kubeconfig", value_hint = ValueHint::FilePath)]
    pub(crate) write_kubeconfig: PathBuf,
    /// Folder that keeps the cluster's objects from one start to the next.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data_dir: Option<PathBuf>,
    /// Do not run Kerf in this process, so that another process can be the controller.
    #[arg(long)]
    pub(crate) no_controller: bool,
    /// Cloud of the machines: kwok (Node objects without machines), or in builds with the feature aws also aws (an embedded EC2).
    #[arg(long, value_enum, default_value_t = Cloud::Kwok)]
    pub(crate) cloud: Cloud,
    /// Instance types in the KWOK provider's JSON format instead of the EC2 catalogue.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) instance_types: Option<PathBuf>,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 7)]
    pub(crate) seed: u64,
    /// Flags of the controller, after --, such as `-- --feature-gates NodeRepair=true`; `kerf controller --help` lists them.
    #[arg(last = true, value_name = "FLAG", conflicts_with = "no_controller")]
    pub(crate) flags: Vec<String>,
}

/// Options of `kerf controller`. They are passed on unparsed, because they have Karpenter's syntax (one dash or two, variables as fallback).
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
    /// Manifests to read: a file, a folder, or - for standard input. May be repeated. JSON is read in a third of the time of YAML.
    #[arg(short = 'f', long = "filename", value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) filenames: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) decision: DecisionArgs,
    /// Check the plan against the Kubernetes rules, with code that shares no logic with the solver.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Print a lower bound of the cost: no plan for the same pods costs less. Topology and limits are left out of it. What the plan costs more is
    /// divided among its causes.
    #[arg(long, conflicts_with = "consolidate")]
    pub(crate) bound: bool,
    /// Print what the plan would cost without each constraint: spread, affinity, requirements, limits, DaemonSets, packing. Plans again
    /// without each.
    #[arg(long, conflicts_with = "consolidate")]
    pub(crate) explain_cost: bool,
    /// Instead print what consolidation would remove or replace now, what that saves, and why every other node stays. Exit code 1 means
    /// that some node would go.
    #[arg(long, conflicts_with = "verify")]
    pub(crate) consolidate: bool,
    /// Instead print the cheapest nodes for the pods that run, and the steps that lead there: each within budgets, with what it saves. Pods that wait
    /// are left out. Exit code 1 means that some step saves something.
    #[arg(long, conflicts_with_all = ["verify", "consolidate", "bound", "explain_cost"])]
    pub(crate) rebalance: bool,
    /// Print to standard error how long reading, planning and checking took.
    #[arg(long)]
    pub(crate) timing: bool,
    /// Format of the report.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
}

/// Inputs of a decision besides the cluster.
#[derive(Args, Debug)]
pub(crate) struct DecisionArgs {
    /// Instance types in the KWOK provider's JSON format instead of the built-in ones.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) instance_types: Option<PathBuf>,
    /// Built-in instance types to use without --instance-types. Default: those that match the nodes; ec2 without nodes.
    #[arg(long, value_enum)]
    pub(crate) catalogue: Option<CatalogueName>,
    #[command(flatten)]
    pub(crate) ec2: Ec2Args,
    /// Whether manifests with unknown fields are errors, as for kubectl apply; false ignores such fields.
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    pub(crate) validate: bool,
    /// Time of the decision (RFC 3339); now by default.
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
    /// Number of threads; the plan does not depend on it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: u16,
    /// Whether preferences of pods are respected as far as possible, or ignored.
    #[arg(long, env = "PREFERENCE_POLICY", value_parser = policy::<PreferencePolicy>(), default_value_t)]
    pub(crate) preference_policy: PreferencePolicy,
    /// Whether minValues may be lowered if too few values are available.
    #[arg(long, env = "MIN_VALUES_POLICY", value_parser = policy::<MinValuesPolicy>(), default_value_t)]
    pub(crate) min_values_policy: MinValuesPolicy,
    /// Feature gates as Name=true|false, comma separated. NodeOverlay and CapacityBuffer are on if the files contain such objects.
    #[arg(long, env = "FEATURE_GATES", value_name = "GATES", default_value = "")]
    pub(crate) feature_gates: String,
    /// How nodes are chosen: by lowest price plus node overhead cost, with few more nodes than Karpenter; by lowest price; or only by
    /// Karpenter's greedy.
    #[arg(long, env = "PACKING", value_parser = policy::<Packing>(), default_value_t)]
    pub(crate) packing: Packing,
    /// Dollars per hour that a node costs besides its price, such as licences and agents. Counts for balanced packing.
    #[arg(
        long,
        env = "NODE_OVERHEAD_COST",
        value_name = "DOLLARS",
        allow_negative_numbers = true,
        default_value_t
    )]
    pub(crate) node_overhead_cost: NodeOverheadCost,
    /// On chooses among plans by what they cost after kube-scheduler has bound their pods and machines are launched for pods left over, Off by
    /// what they cost as planned.
    #[arg(long, env = "FORECAST_BINDING", value_parser = policy::<ForecastBinding>(), default_value_t)]
    pub(crate) forecast_binding: ForecastBinding,
    /// Plans for at most so many pods nominate them to the nodes they are planned onto, and forecasts of binding play that. 0 for none.
    #[arg(
        long,
        env = "NOMINATED_PODS_MAX",
        value_name = "PODS",
        allow_negative_numbers = true,
        default_value_t
    )]
    pub(crate) nominated_pods_max: NominatedPodsMax,
    /// Where consolidation may move pods: not onto nodes within their own consolidateAfter, or anywhere.
    #[arg(long, env = "CONSOLIDATION_DESTINATIONS", value_parser = policy::<Destinations>(), default_value_t)]
    pub(crate) consolidation_destinations: Destinations,
    /// Dollars per hour that a consolidation command must save for each pod it moves.
    #[arg(
        long,
        env = "CONSOLIDATION_SAVINGS_PER_POD",
        value_name = "DOLLARS",
        allow_negative_numbers = true,
        default_value_t
    )]
    pub(crate) consolidation_savings_per_pod: SavingsPerPod,
    /// Percent of the price of nodes that their replacements must save. Where several nodes become one, the node overhead cost of the others counts as
    /// saved.
    #[arg(
        long,
        env = "CONSOLIDATION_MIN_SAVINGS_PERCENT",
        value_name = "PERCENT",
        allow_negative_numbers = true,
        default_value_t
    )]
    pub(crate) consolidation_min_savings_percent: MinSavingsPercent,
    /// How many nodes may replace those of a consolidation command: one, or up to three where no single one is cheaper.
    #[arg(long, env = "CONSOLIDATION_REPLACEMENTS", value_parser = policy::<Replacements>(), default_value_t)]
    pub(crate) consolidation_replacements: Replacements,
    /// How many disruption commands a pass may start: one, or up to ten that touch different nodes.
    #[arg(long, env = "DISRUPTION_COMMANDS_PER_PASS", value_parser = policy::<CommandsPerPass>(), default_value_t)]
    pub(crate) disruption_commands_per_pass: CommandsPerPass,
    /// Whether pods with resource claims are left alone; false plans them as if they had none.
    #[arg(long, env = "IGNORE_DRA_REQUESTS", value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set, value_parser = boolean)]
    pub(crate) ignore_dra_requests: bool,
    /// Taint keys nodes lose by themselves while they start, besides the well-known ones, comma separated. One that ends with / stands for all
    /// that begin so.
    #[arg(long, env = "STARTUP_TAINTS", value_name = "KEYS", default_value = "", value_parser = startup_taints)]
    pub(crate) startup_taints: StartupTaints,
    /// How much more than its cheapest instance type the others of a launch may cost, in percent. Empty: every type that fits the pods.
    #[arg(long, env = "LAUNCH_PRICE_RANGE_PERCENT", value_name = "PERCENT", default_value_t)]
    pub(crate) launch_price_range_percent: LaunchPriceRange,
    /// YAML or JSON document with what the cluster's kube-scheduler is configured to do: podTopologySpread.defaultConstraints and
    /// nodeResourcesFit.scoringStrategy.type.
    #[arg(
        long,
        env = "SCHEDULER_CONFIG",
        value_name = "DOCUMENT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) scheduler_config: SchedulerConfig,
}

/// Taint keys as the controller reads them.
fn startup_taints(text: &str) -> Result<StartupTaints, String> {
    let keys = taint_keys(text).ok_or_else(|| "a taint key has neither a value nor an effect".to_owned());
    keys.map(StartupTaints::with)
}

/// Options of `kerf catalogue`.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub(crate) struct CatalogueArgs {
    /// File with an EC2NodeClass, or - for standard input. Default: Amazon Linux 2023 with default settings.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) nodeclass: Option<PathBuf>,
    /// Ask AWS for instance types, zones, prices, subnets and reservations, with region and credentials as the controller finds them. Needs a
    /// build with the feature aws.
    #[arg(long, conflicts_with_all = ["prices", "capacity_reservations"])]
    pub(crate) live: bool,
    #[command(flatten)]
    pub(crate) ec2: Ec2Args,
    /// Format: a table, a document, or the KWOK provider's format for --instance-types.
    #[arg(short, long, value_enum, default_value_t = CatalogueOutput::Table)]
    pub(crate) output: CatalogueOutput,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CatalogueOutput {
    Table,
    Json,
    Kwok,
}

/// The cluster to read, in the words of kubectl.
#[derive(Args, Debug)]
pub(crate) struct ClusterArgs {
    /// Kubeconfig file. Default: $KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "filenames")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. Default: the current one.
    #[arg(long, conflicts_with = "filenames")]
    pub(crate) context: Option<String>,
}

/// Options of `kerf explain`.
#[derive(Args, Debug)]
#[command(after_help = EXPLAIN_HELP, override_usage = "kerf explain [OPTIONS] <KIND/NAME>")]
pub(crate) struct ExplainArgs {
    /// What to explain: pod/NAME or node/NAME (or po/NAME, no/NAME, pod NAME).
    #[arg(required = true, num_args = 1..=2, value_name = "KIND/NAME")]
    pub(crate) subject: Vec<String>,
    /// Manifests to read instead of asking a cluster: a file, a folder, or - for standard input. May be repeated.
    #[arg(short = 'f', long = "filename", value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) filenames: Vec<PathBuf>,
    /// Namespace. Default: that of the kubeconfig's context, or "default" with -f.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) decision: DecisionArgs,
    /// Format of the explanation.
    #[arg(short, long, value_enum, default_value_t = TextOutput::Text)]
    pub(crate) output: TextOutput,
}

const EXPLAIN_HELP: &str = "Examples:
  kerf explain pod/web-0                       read the cluster of the current kubeconfig
  kerf explain pod/web-0 -n shop -o json       print a document
  kerf explain pod/web-0 -f manifests/         read files
  kerf explain node/ip-10-0-1-7                why the node stays, or why it would go

Exit codes:
  0  the pod has a place: it is bound, or would be scheduled; the node would go
  1  the pod has no place, or the node stays; the output says why
  2  bad input or usage, or an object that the answer may depend on could not be read
  3  nothing to explain: there is no such object
  4  the output, the API, the kubeconfig or the network failed
  5  a bug in Kerf";

/// Options of `kerf manifests`.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub(crate) struct ManifestsArgs {
    /// Values as KEY=VALUE, in the syntax of helm. May be repeated; the values are those of the chart charts/kerf.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// File with values (YAML). May be repeated; later files win, and --set wins over files.
    #[arg(short = 'f', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) values: Vec<PathBuf>,
    /// Namespace of the controller.
    #[arg(short, long, default_value = "kube-system")]
    pub(crate) namespace: String,
    /// Name of the installation, as helm's release name.
    #[arg(long, default_value = "kerf")]
    pub(crate) name: String,
    /// Also print the custom resource definitions, first.
    #[arg(long)]
    pub(crate) crds: bool,
    #[command(flatten)]
    pub(crate) iam: IamArgs,
}

/// What `--iam` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IamFormat {
    /// The policy of the controller's role, as one JSON document.
    Json,
    /// Role, policies, queue and rules as a CloudFormation template.
    Cloudformation,
    /// Role, policies, queue and rules as a Terraform configuration.
    Terraform,
}

/// How pods of the controller take their role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Trust {
    /// EKS Pod Identity.
    PodIdentity,
    /// IAM roles for service accounts; needs --oidc-issuer.
    Irsa,
}

/// Options of `kerf manifests --iam`.
#[derive(Args, Debug)]
#[command(next_help_heading = "IAM")]
pub(crate) struct IamArgs {
    /// Print the IAM permissions that the AWS provider needs, instead of Kubernetes objects.
    #[arg(long, value_name = "FORMAT", value_enum, num_args = 0..=1, default_missing_value = "json", requires_all = ["region", "account"])]
    pub(crate) iam: Option<IamFormat>,
    /// Region of the cluster.
    #[arg(long, requires = "iam")]
    pub(crate) region: Option<String>,
    /// Account of the cluster: twelve digits.
    #[arg(long, requires = "iam")]
    pub(crate) account: Option<String>,
    /// Partition, such as aws-us-gov; by default that of the region.
    #[arg(long, requires = "iam", value_name = "NAME")]
    pub(crate) partition: Option<String>,
    /// Name of the cluster; by default the value settings.clusterName.
    #[arg(long, requires = "iam", value_name = "NAME")]
    pub(crate) cluster_name: Option<String>,
    /// Name of the interruption queue, or an empty text for none; by default the value settings.interruptionQueue, else the cluster's name.
    #[arg(long, requires = "iam", value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Name of an existing role of the nodes, with its path. By default templates create KarpenterNodeRole-CLUSTER.
    #[arg(long, requires = "iam", value_name = "NAME")]
    pub(crate) node_role: Option<String>,
    /// How pods of the controller take the role.
    #[arg(long, requires = "iam", value_enum, default_value_t = Trust::PodIdentity)]
    pub(crate) trust: Trust,
    /// URL of the cluster's OIDC issuer, for --trust irsa.
    #[arg(long, requires = "iam", value_name = "URL", required_if_eq("trust", "irsa"))]
    pub(crate) oidc_issuer: Option<String>,
}

/// Options of `kerf preflight`.
#[derive(Args, Debug)]
#[command(after_help = PREFLIGHT_HELP)]
pub(crate) struct PreflightArgs {
    /// Manifests to read instead of asking a cluster: a file, a folder, or - for standard input. May be repeated.
    #[arg(short = 'f', long = "filename", value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) filenames: Vec<PathBuf>,
    /// Namespace that Kerf will run in. Default: that of the Deployment it replaces, or kube-system.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Time at which leases are judged (RFC 3339); now by default.
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
    /// Format of the report.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
}

#[derive(Subcommand, Debug)]
pub(crate) enum ShadowCommand {
    /// Sum up the decisions that `kerf controller --observe --observe-file FILE` wrote.
    Report(ShadowReportArgs),
}

/// Options of `kerf shadow report`.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub(crate) struct ShadowReportArgs {
    /// Files of `--observe-file`, or - for standard input.
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Format of the report.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
}

const PREFLIGHT_HELP: &str = "Examples:
  kerf preflight                     read the cluster of the current kubeconfig
  kerf preflight -n karpenter        Kerf will run in namespace karpenter
  kerf preflight -f dump/ -o json    read files

Exit codes:
  0  Kerf can take over; there may be warnings
  1  there is a problem; the report says what to do
  2  bad input or usage, including unreadable files
  4  the output, the API, the kubeconfig or the network failed";

/// Options of `kerf crds`.
#[derive(Args, Debug)]
#[command(after_help = exit::HELP)]
pub(crate) struct CrdsArgs {
    /// Provider whose definitions to print.
    #[arg(long, value_enum, default_value_t = Provider::Kwok)]
    pub(crate) provider: Provider,
    /// Features of the AWS provider that the EC2NodeClass has fields for: NodeClassCEL=true, ExtendedKubeletConfiguration=true.
    #[arg(long, env = "AWS_FEATURE_GATES", value_name = "GATES", default_value = "", value_parser = AwsFeatureGates::parse)]
    pub(crate) aws_feature_gates: AwsFeatureGates,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CatalogueName {
    /// EC2 instance types with us-east-1 prices; spot prices are modelled.
    Ec2,
    /// The 144 types Karpenter's KWOK provider ships.
    Kwok,
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

/// Parses a policy, and lists its values in the help.
fn policy<P>() -> impl TypedValueParser<Value = P>
where
    P: Policy + FromStr<Err = UnknownPolicy> + Send + Sync,
{
    PossibleValuesParser::new(P::names()).try_map(|text| text.parse::<P>())
}
