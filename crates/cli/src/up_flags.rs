//! The controller's flags of `kerf up`. A flag that can have no effect there is an error.

use crate::args::Cloud;
use kerf_aws::options::{self, AwsOptions};
use kerf_runtime::Options;
use kerf_runtime::options::{DEFINITIONS, OptionDef, Parsed, Remark, Values};
use std::sync::LazyLock;

/// Name of the cluster, unless a flag has another one.
const CLUSTER_NAME: &str = "kerf";

/// Flags without an effect, and why.
const WITHOUT_EFFECT: [(&str, &str); 7] = [
    ("instance-types-file-path", "use --instance-types of kerf up"),
    ("kube-client-qps", "requests to the embedded API server are not limited"),
    (
        "kube-client-burst",
        "requests to the embedded API server are not limited",
    ),
    (
        "leader-election-name",
        "the only controller of the cluster needs no lease",
    ),
    (
        "leader-election-namespace",
        "the only controller of the cluster needs no lease",
    ),
    ("cluster-endpoint", "machines join the embedded cluster"),
    ("cluster-ca-bundle", "machines join the embedded cluster"),
];

/// The options of the controller and those of the AWS provider.
static WITH_AWS: LazyLock<Vec<OptionDef>> =
    LazyLock::new(|| DEFINITIONS.iter().chain(&options::DEFINITIONS).copied().collect());

/// What the flags ask for.
#[derive(Debug)]
pub(crate) struct UpFlags {
    /// The controller's options.
    pub(crate) options: Options,
    /// Whether to write logs: without a flag about them there are none.
    pub(crate) logs: bool,
    /// What the user should know about the flags.
    pub(crate) remarks: Vec<Remark>,
    /// The options of the AWS provider, with the cloud `aws`.
    pub(crate) aws: Option<AwsOptions>,
    /// Whether to serve metrics and health probes: without a flag about them they are not served.
    pub(crate) listen: bool,
}

impl UpFlags {
    /// Parses the controller's flags. Environment variables are ignored: they are for a controller of a real cluster.
    pub(crate) fn parse(flags: &[String], cloud: Cloud) -> anyhow::Result<Self> {
        let definitions: &'static [OptionDef] = match cloud {
            Cloud::Kwok => DEFINITIONS,
            Cloud::Aws => &WITH_AWS,
        };
        let values = match Values::parse(definitions, flags.iter().cloned(), |_| None) {
            Parsed::Run(values) => values,
            Parsed::Help => anyhow::bail!("--help is no flag of the controller"),
        };
        let mut options = Options::from_values(&values)?;
        for (flag, why) in WITHOUT_EFFECT {
            let is_known = definitions.iter().any(|definition| definition.flag == flag);
            anyhow::ensure!(
                !is_known || !values.is_given(flag),
                "--{flag} has no effect here: {why}"
            );
        }
        if let Some(mistake) = values.remarks().iter().find(|remark| remark.is_warning()) {
            anyhow::bail!("{mistake}");
        }
        let any_given = |flags: &[&str]| flags.iter().any(|flag| values.is_given(flag));
        // Default ports are for one controller in a pod of its own; here a port that was not asked for is a free one.
        if !values.is_given("metrics-port") {
            options.metrics_port = 0;
        }
        if !values.is_given("health-probe-port") {
            options.health_probe_port = 0;
        }
        let aws = match cloud {
            Cloud::Kwok => None,
            Cloud::Aws => Some(aws_options(values.clone())?),
        };
        Ok(Self {
            options,
            aws,
            remarks: values.remarks().to_vec(),
            logs: any_given(&["log-level", "log-output-paths", "log-error-output-paths"]),
            listen: any_given(&["metrics-port", "health-probe-port", "enable-profiling"]),
        })
    }
}

/// The options of the AWS provider. Options without a flag have values for the embedded account.
fn aws_options(mut values: Values) -> anyhow::Result<AwsOptions> {
    values.fill("cluster-name", CLUSTER_NAME);
    // The account's queue has the name of the cluster.
    let name = values.string("cluster-name").to_owned();
    values.fill("interruption-queue", &name);
    AwsOptions::from_values(&values).map_err(|problems| anyhow::anyhow!("{}", problems.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[&str]) -> Result<UpFlags, String> {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        UpFlags::parse(&flags, Cloud::Kwok).map_err(|error| error.to_string())
    }

    #[test]
    fn the_options_of_aws_fit_the_embedded_account() {
        let aws = |flags: &[&str]| {
            let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            UpFlags::parse(&flags, Cloud::Aws).map(|flags| flags.aws.expect("the options of AWS"))
        };
        let plain = aws(&[]).expect("no flags");
        assert_eq!(
            (plain.cluster_name.as_str(), plain.interruption_queue.as_str()),
            ("kerf", "kerf")
        );
        let named = aws(&["--cluster-name=prod"]).expect("a known flag");
        assert_eq!(
            (named.cluster_name.as_str(), named.interruption_queue.as_str()),
            ("prod", "prod")
        );
        let error = aws(&["--cluster-endpoint=https://x"]).expect_err("refused");
        assert!(
            error.to_string().contains("--cluster-endpoint has no effect here"),
            "{error}"
        );
        assert!(parse(&["--cluster-name=prod"]).is_err());
    }

    #[test]
    fn flags_have_an_effect_or_are_refused() {
        let quiet = parse(&[]).expect("no flags");
        assert!(!quiet.logs && !quiet.listen);
        let flags = parse(&[
            "--metrics-port=9999",
            "--log-level",
            "debug",
            "--feature-gates=NodeRepair=true",
        ]);
        let flags = flags.expect("known flags");
        assert!(flags.logs && flags.listen && flags.options.feature_gates.node_repair);
        assert_eq!((flags.options.metrics_port, flags.options.health_probe_port), (9999, 0));
        for (flag, why) in [
            (
                "--feature-gates=Foo=true",
                "unknown feature gates: Foo; known are NodeRepair, ",
            ),
            (
                "--feature-gates=NodeRepairs=true",
                "unknown feature gates: NodeRepairs (did you mean NodeRepair?)",
            ),
            ("--metric-port=1", "did you mean --metrics-port?"),
            (
                "--log-level=loud",
                "validating cli flags / env vars, invalid LOG_LEVEL \"loud\"",
            ),
            ("--kube-client-qps=1", "--kube-client-qps has no effect here: "),
            ("--feature-gate=NodeRepair=true", "feature-gate"),
        ] {
            let error = parse(&[flag]).expect_err("refused");
            assert!(error.contains(why), "{error}");
        }
    }
}
