//! The controller's flags of `kerf up`. A flag that can have no effect there is an error.

use kerf_runtime::Options;
use kerf_runtime::options::{DEFINITIONS, Parsed, Remark, Values};

/// Flags without an effect, and why.
const WITHOUT_EFFECT: [(&str, &str); 5] = [
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
];

/// What the flags ask for.
#[derive(Debug)]
pub(crate) struct UpFlags {
    /// The controller's options.
    pub(crate) options: Options,
    /// Whether to write logs: without a flag about them there are none.
    pub(crate) logs: bool,
    /// What the user should know about the flags.
    pub(crate) remarks: Vec<Remark>,
    /// Whether to serve metrics and health probes: without a flag about them they are not served.
    pub(crate) listen: bool,
}

impl UpFlags {
    /// Parses the controller's flags. Environment variables are ignored: they are for a controller of a real cluster.
    pub(crate) fn parse(flags: &[String]) -> anyhow::Result<Self> {
        let values = match Values::parse(DEFINITIONS, flags.iter().cloned(), |_| None) {
            Parsed::Run(values) => values,
            Parsed::Help => anyhow::bail!("--help is no flag of the controller"),
        };
        let mut options = Options::from_values(&values)?;
        for (flag, why) in WITHOUT_EFFECT {
            anyhow::ensure!(!values.is_given(flag), "--{flag} has no effect here: {why}");
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
        Ok(Self {
            options,
            remarks: values.remarks().to_vec(),
            logs: any_given(&["log-level", "log-output-paths", "log-error-output-paths"]),
            listen: any_given(&["metrics-port", "health-probe-port", "enable-profiling"]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[&str]) -> Result<UpFlags, String> {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        UpFlags::parse(&flags).map_err(|error| error.to_string())
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
