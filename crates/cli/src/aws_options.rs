//! The options of the AWS provider, which every build knows: a build without the provider checks manifests for one that has it.

use kerf_aws::options::AwsOptions;
use kerf_runtime::options::{OptionDef, OptionKind, OptionOrigin, Values};
use std::collections::BTreeMap;

const fn option(
    flag: &'static str,
    variable: &'static str,
    kind: OptionKind,
    default: &'static str,
    help: &'static str,
) -> OptionDef {
    OptionDef {
        flag,
        variable,
        kind,
        default,
        help,
        origin: OptionOrigin::Karpenter,
    }
}

/// The same for an option that Karpenter does not have.
const fn own_option(
    flag: &'static str,
    variable: &'static str,
    kind: OptionKind,
    default: &'static str,
    help: &'static str,
) -> OptionDef {
    OptionDef {
        origin: OptionOrigin::Kerf,
        ..option(flag, variable, kind, default, help)
    }
}

/// The options of the provider (section 26 of `docs/behaviour/aws.md`).
pub(crate) const OPTIONS: [OptionDef; 15] = [
    option(
        "cluster-name",
        "CLUSTER_NAME",
        OptionKind::Text,
        "",
        "name of the EKS cluster; required",
    ),
    option(
        "cluster-endpoint",
        "CLUSTER_ENDPOINT",
        OptionKind::Text,
        "",
        "URL of the API server that nodes join; asked of EKS if empty",
    ),
    option(
        "cluster-ca-bundle",
        "CLUSTER_CA_BUNDLE",
        OptionKind::Text,
        "",
        "CA bundle that nodes trust, as base64 text; that of the controller itself if empty",
    ),
    option(
        "isolated-vpc",
        "ISOLATED_VPC",
        OptionKind::Bool,
        "false",
        "the VPC reaches neither the Price List nor IAM",
    ),
    option(
        "eks-control-plane",
        "EKS_CONTROL_PLANE",
        OptionKind::Bool,
        "false",
        "ask EKS for the version of the cluster",
    ),
    option(
        "vm-memory-overhead-percent",
        "VM_MEMORY_OVERHEAD_PERCENT",
        OptionKind::Decimal,
        "0.075",
        "part of the memory that the hypervisor keeps",
    ),
    option(
        "interruption-queue",
        "INTERRUPTION_QUEUE",
        OptionKind::Text,
        "",
        "name of the SQS queue with interruption messages; none if empty",
    ),
    option(
        "reserved-enis",
        "RESERVED_ENIS",
        OptionKind::Int,
        "0",
        "network interfaces of each instance that carry no pods",
    ),
    option(
        "disable-dry-run",
        "DISABLE_DRY_RUN",
        OptionKind::Bool,
        "false",
        "do not validate node classes by dry runs",
    ),
    option(
        "enable-zonal-shift",
        "ENABLE_ZONAL_SHIFT",
        OptionKind::Bool,
        "false",
        "launch nothing in zones that ARC shifts traffic away from",
    ),
    option(
        "ami-refresh-interval",
        "AMI_REFRESH_INTERVAL",
        OptionKind::Duration,
        "1m",
        "how long found images stay valid; at least 1m",
    ),
    option(
        "subnet-refresh-interval",
        "SUBNET_REFRESH_INTERVAL",
        OptionKind::Duration,
        "1m",
        "how long found subnets stay valid; at least 1m",
    ),
    own_option(
        "learn-memory",
        "LEARN_MEMORY",
        OptionKind::Bool,
        "true",
        "learn from registered nodes how much memory instance types have, and keep it in an annotation of the EC2NodeClass",
    ),
    own_option(
        "instance-status-dry-run",
        "INSTANCE_STATUS_DRY_RUN",
        OptionKind::Bool,
        "false",
        "count instances that EC2 reports as unhealthy or to be maintained, but keep them",
    ),
    option(
        "aws-feature-gates",
        "AWS_FEATURE_GATES",
        OptionKind::Text,
        "",
        "features of the AWS provider as Name=true, comma separated: NodeClassCEL, ExtendedKubeletConfiguration",
    ),
];

/// The options, or everything that is wrong with them (AWS-352).
pub(crate) fn options(values: &Values, env: &impl Fn(&str) -> Option<String>) -> Result<AwsOptions, Vec<String>> {
    let given = OPTIONS.iter().filter(|option| values.is_given(option.flag));
    let text = |option: &OptionDef| match option.kind {
        OptionKind::Bool => values.bool(option.flag).to_string(),
        OptionKind::Int => values.int(option.flag).to_string(),
        OptionKind::Decimal => values.decimal(option.flag).to_string(),
        OptionKind::Duration => values.duration(option.flag).to_string(),
        OptionKind::Text => values.string(option.flag).to_owned(),
    };
    let flags: BTreeMap<String, String> = given.map(|option| (option.flag.to_owned(), text(option))).collect();
    AwsOptions::read(&flags, &|name| env(name).filter(|value| !value.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_runtime::options::{Parsed, Remark};

    fn parsed(flags: &[&str], variables: &[(&str, &str)]) -> (Result<AwsOptions, Vec<String>>, Vec<Remark>) {
        let env = |name: &str| {
            let set = variables.iter().find(|(variable, _)| *variable == name);
            set.map(|(_, value)| (*value).to_owned())
        };
        let flags = flags.iter().map(|flag| (*flag).to_owned());
        let Parsed::Run(values) = Values::parse(&OPTIONS, flags, env) else {
            panic!("no help is asked for");
        };
        (options(&values, &env), values.remarks().to_vec())
    }

    // OPS-026, AWS-352
    #[test]
    fn a_variable_that_does_not_parse_counts_as_absent_and_is_named() {
        let (defaults, _) = parsed(&["--cluster-name=prod"], &[]);
        let defaults = defaults.expect("a name is enough");
        for def in OPTIONS.iter().filter(|def| def.kind != OptionKind::Text) {
            let (read, remarks) = parsed(&["--cluster-name=prod"], &[(def.variable, "odd")]);
            assert_eq!(read.as_ref(), Ok(&defaults), "{}", def.variable);
            let said: Vec<String> = remarks.iter().map(ToString::to_string).collect();
            let [said] = said.as_slice() else {
                panic!("{}: {said:?}", def.variable);
            };
            assert!(said.starts_with(&format!("{} is \"odd\"", def.variable)), "{said}");
            assert!(said.contains(def.default), "{said}");
            let (read, remarks) = parsed(&["--cluster-name=prod"], &[(def.variable, "")]);
            assert_eq!((read.as_ref(), remarks.len()), (Ok(&defaults), 0), "{}", def.variable);
        }
    }

    // AWS-345, AWS-347, AWS-350, AWS-351
    #[test]
    fn a_variable_that_parses_and_is_not_allowed_stops_the_start() {
        for (variable, value) in [
            ("VM_MEMORY_OVERHEAD_PERCENT", "-0.1"),
            ("VM_MEMORY_OVERHEAD_PERCENT", "NaN"),
            ("RESERVED_ENIS", "-1"),
            ("AMI_REFRESH_INTERVAL", "59s"),
            ("SUBNET_REFRESH_INTERVAL", "0s"),
            ("AWS_FEATURE_GATES", "odd"),
            ("CLUSTER_ENDPOINT", "odd"),
        ] {
            let (read, remarks) = parsed(&["--cluster-name=prod"], &[(variable, value)]);
            let flag = variable.to_lowercase().replace('_', "-");
            let errors = read.expect_err(variable);
            assert!(errors.len() == 1 && errors.concat().contains(&flag), "{errors:?}");
            assert_eq!(remarks, [], "{variable}");
        }
    }

    #[test]
    fn flags_of_every_kind_reach_the_provider() {
        let flags = [
            "--cluster-name=prod",
            "--reserved-enis=0x2",
            "--vm-memory-overhead-percent=0.1",
            "--ami-refresh-interval=2m30s",
            "--learn-memory=false",
        ];
        let read = parsed(&flags, &[]).0.expect("all are right");
        assert_eq!((read.reserved_enis, read.learn_memory), (2, false));
        assert_eq!(read.vm_memory_overhead_percent.to_string(), "0.1");
        assert_eq!(read.ami_refresh_interval.to_string(), "2m30s");
    }
}
