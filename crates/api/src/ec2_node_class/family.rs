//! Operating system families and image aliases.

use std::fmt;

use super::spec::EC2NodeClassSpec;

/// What an image runs, which decides user data, default disks and reservations (AWS-011).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AmiFamily {
    /// Amazon Linux 2.
    Al2,
    /// Amazon Linux 2023.
    Al2023,
    /// Bottlerocket.
    Bottlerocket,
    /// An image that joins the cluster by its own means.
    Custom,
    /// Windows Server 2019.
    Windows2019,
    /// Windows Server 2022.
    Windows2022,
    /// Windows Server 2025.
    Windows2025,
}

impl AmiFamily {
    /// Every family.
    pub const ALL: [Self; 7] = [
        Self::Al2,
        Self::Al2023,
        Self::Bottlerocket,
        Self::Custom,
        Self::Windows2019,
        Self::Windows2022,
        Self::Windows2025,
    ];

    /// As written in `amiFamily`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Al2 => "AL2",
            Self::Al2023 => "AL2023",
            Self::Bottlerocket => "Bottlerocket",
            Self::Custom => "Custom",
            Self::Windows2019 => "Windows2019",
            Self::Windows2022 => "Windows2022",
            Self::Windows2025 => "Windows2025",
        }
    }

    /// From the text of `amiFamily`.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.as_str() == text)
    }

    /// From the family part of an alias; `Custom` has no alias.
    pub fn of_alias(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .filter(|family| *family != Self::Custom)
            .find(|family| family.as_str().to_lowercase() == text)
    }

    /// Whether nodes run Windows.
    pub const fn is_windows(self) -> bool {
        match self {
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => true,
            Self::Al2 | Self::Al2023 | Self::Bottlerocket | Self::Custom => false,
        }
    }

    /// The Windows build of the family's images (AWS-113).
    pub const fn windows_build(self) -> Option<&'static str> {
        match self {
            Self::Windows2019 => Some("10.0.17763"),
            Self::Windows2022 => Some("10.0.20348"),
            Self::Windows2025 => Some("10.0.26100"),
            Self::Al2 | Self::Al2023 | Self::Bottlerocket | Self::Custom => None,
        }
    }
}

impl fmt::Display for AmiFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An image alias, such as `al2023@latest` (AWS-010).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AmiAlias {
    /// The family.
    pub family: AmiFamily,
    /// The version; `latest` follows new images.
    pub version: String,
}

impl AmiAlias {
    /// From the text of a selector term. `None` for an unknown family, an empty version, or a Windows version other than `latest`.
    pub fn parse(text: &str) -> Option<Self> {
        let (family, version) = text.split_once('@')?;
        let family = AmiFamily::of_alias(family)?;
        let allowed = !version.is_empty() && (!family.is_windows() || version == "latest");
        allowed.then(|| Self {
            family,
            version: version.to_owned(),
        })
    }

    /// Whether new images of the family are taken up as they appear.
    pub fn is_latest(&self) -> bool {
        self.version == "latest"
    }
}

impl EC2NodeClassSpec {
    /// The alias of the class, if its images come from one.
    pub fn alias(&self) -> Option<AmiAlias> {
        self.ami_selector_terms
            .iter()
            .find_map(|term| AmiAlias::parse(term.alias.as_deref()?))
    }

    /// The family that holds: the one written, else that of the alias, else `Custom` (AWS-012).
    pub fn effective_family(&self) -> AmiFamily {
        let written = self.ami_family.as_deref().and_then(AmiFamily::parse);
        written
            .or_else(|| self.alias().map(|alias| alias.family))
            .unwrap_or(AmiFamily::Custom)
    }
}
