//! Image aliases as SSM parameters (AWS-109 to AWS-115).

use kerf_api::ec2_node_class::{AmiAlias, AmiFamily};
use kerf_api::labels::{ARCH, OS, WINDOWS_BUILD};
use kerf_api::{Operator, Requirement};

use crate::labels::{ACCELERATOR_COUNT, GPU_COUNT};

/// Which machines an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// Machines without GPUs and accelerators.
    Standard,
    /// Machines with GPUs.
    Nvidia,
    /// Machines with Neuron accelerators.
    Neuron,
}

impl Variant {
    /// The requirements of a variant's images (AWS-119).
    pub fn requirements(self) -> Vec<Requirement> {
        let none: [&str; 0] = [];
        match self {
            Self::Standard => vec![
                Requirement::new(ACCELERATOR_COUNT, Operator::DoesNotExist, none),
                Requirement::new(GPU_COUNT, Operator::DoesNotExist, none),
            ],
            Self::Nvidia => vec![Requirement::new(GPU_COUNT, Operator::Exists, none)],
            Self::Neuron => vec![Requirement::new(ACCELERATOR_COUNT, Operator::Exists, none)],
        }
    }
}

/// An SSM parameter that holds an image id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasParameter {
    /// Name of the parameter.
    pub name: String,
    /// Whether its value changes with new images.
    pub is_mutable: bool,
    /// What instance types the image is for. One image may be listed for several variants.
    pub variants: Vec<Vec<Requirement>>,
}

/// An alias that has no images for the cluster's version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("alias {family} is not available for Kubernetes 1.{minor}")]
pub struct AliasError {
    /// The family.
    pub family: AmiFamily,
    /// Minor version of the cluster.
    pub minor: u32,
}

/// First minor version without Amazon Linux 2.
const AL2_ENDS: u32 = 33;
/// First minor version with Windows Server 2025.
const WINDOWS_2025_BEGINS: u32 = 35;

/// Whether a family has images for a cluster of this version, such as `1.33` or `1.33.0` (AWS-115). A version that cannot be read passes.
pub fn check_alias_support(family: AmiFamily, version: &str) -> Result<(), AliasError> {
    let Some(minor) = version.split('.').nth(1).and_then(|minor| minor.parse().ok()) else {
        return Ok(());
    };
    let supported = match family {
        AmiFamily::Al2 => minor < AL2_ENDS,
        AmiFamily::Windows2025 => minor >= WINDOWS_2025_BEGINS,
        AmiFamily::Al2023
        | AmiFamily::Bottlerocket
        | AmiFamily::Custom
        | AmiFamily::Windows2019
        | AmiFamily::Windows2022 => true,
    };
    if supported {
        Ok(())
    } else {
        Err(AliasError { family, minor })
    }
}

/// The parameters of an alias for a cluster of this version (`<major>.<minor>`).
pub fn alias_parameters(alias: &AmiAlias, version: &str) -> Vec<AliasParameter> {
    match alias.family {
        AmiFamily::Al2 => al2(alias, version),
        AmiFamily::Al2023 => al2023(alias, version),
        AmiFamily::Bottlerocket => bottlerocket(alias, version),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => windows(alias, version),
        // A custom image has no alias.
        AmiFamily::Custom => Vec::new(),
    }
}

/// The requirement on the architecture, in Kubernetes' names.
fn arch(name: &str) -> Requirement {
    Requirement::new(ARCH, Operator::In, [name])
}

fn parameter(alias: &AmiAlias, name: String, arch_name: &str, variants: &[Variant]) -> AliasParameter {
    let requirements = variants.iter().map(|variant| {
        let mut requirements = vec![arch(arch_name)];
        requirements.extend(variant.requirements());
        requirements
    });
    AliasParameter {
        name,
        is_mutable: alias.is_latest(),
        variants: requirements.collect(),
    }
}

fn al2(alias: &AmiAlias, version: &str) -> Vec<AliasParameter> {
    let table = [
        ("", "amazon-eks-node", "amd64", &[Variant::Standard][..]),
        ("-arm64", "amazon-eks-arm64-node", "arm64", &[Variant::Standard]),
        (
            "-gpu",
            "amazon-eks-gpu-node",
            "amd64",
            &[Variant::Neuron, Variant::Nvidia],
        ),
    ];
    let each = table.into_iter().map(|(suffix, prefix, arch, variants)| {
        let release = if alias.is_latest() {
            "recommended".to_owned()
        } else {
            format!("{prefix}-{version}-{}", alias.version)
        };
        let name = format!("/aws/service/eks/optimized-ami/{version}/amazon-linux-2{suffix}/{release}/image_id");
        parameter(alias, name, arch, variants)
    });
    each.collect()
}

fn al2023(alias: &AmiAlias, version: &str) -> Vec<AliasParameter> {
    let table = [
        ("x86_64", "amd64", "standard", Variant::Standard),
        ("x86_64", "amd64", "nvidia", Variant::Nvidia),
        ("x86_64", "amd64", "neuron", Variant::Neuron),
        ("arm64", "arm64", "standard", Variant::Standard),
        ("arm64", "arm64", "nvidia", Variant::Nvidia),
    ];
    let each = table.into_iter().map(|(machine, arch, kind, variant)| {
        let release = if alias.is_latest() {
            "recommended".to_owned()
        } else {
            format!("amazon-eks-node-al2023-{machine}-{kind}-{version}-{}", alias.version)
        };
        let path = format!("/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{machine}/{kind}");
        parameter(alias, format!("{path}/{release}/image_id"), arch, &[variant])
    });
    each.collect()
}

fn bottlerocket(alias: &AmiAlias, version: &str) -> Vec<AliasParameter> {
    let table = [
        ("", "x86_64", "amd64", &[Variant::Standard, Variant::Neuron][..]),
        ("", "arm64", "arm64", &[Variant::Standard]),
        ("-nvidia", "x86_64", "amd64", &[Variant::Nvidia]),
        ("-nvidia", "arm64", "arm64", &[Variant::Nvidia]),
    ];
    let release = alias.version.trim_start_matches('v');
    let each = table.into_iter().map(|(suffix, machine, arch, variants)| {
        let name = format!("/aws/service/bottlerocket/aws-k8s-{version}{suffix}/{machine}/{release}/image_id");
        parameter(alias, name, arch, variants)
    });
    each.collect()
}

fn windows(alias: &AmiAlias, version: &str) -> Vec<AliasParameter> {
    let year = alias.family.as_str().trim_start_matches("Windows");
    let build = alias.family.windows_build().unwrap_or_default();
    vec![AliasParameter {
        name: format!(
            "/aws/service/ami-windows-latest/Windows_Server-{year}-English-Core-EKS_Optimized-{version}/image_id"
        ),
        is_mutable: true,
        variants: vec![vec![
            arch("amd64"),
            Requirement::new(OS, Operator::In, ["windows"]),
            Requirement::new(WINDOWS_BUILD, Operator::In, [build]),
        ]],
    }]
}
