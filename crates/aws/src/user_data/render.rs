//! User data of each family.

use super::input::BootstrapInput;
use super::mime::MimeError;
use super::{al2, bottlerocket, nodeadm, windows};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kerf_api::AmiFamily;

/// Bytes of user data EC2 takes, before base64.
pub const SIZE_MAX: usize = 16_384;
/// Bytes from which a class is close to the limit: nine tenths of it (AWS-151).
pub const SIZE_WARNING: usize = SIZE_MAX * 9 / 10;

/// Why there is no user data. No text of the class is in the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserDataError {
    /// The class's archive cannot be read.
    #[error("invalid user data, {0}")]
    Mime(#[from] MimeError),
    /// The class's settings are no TOML.
    #[error("invalid user data, no valid TOML at line {line}")]
    Toml {
        /// Line of the first mistake, from one.
        line: usize,
    },
    /// A setting that must be a table is something else.
    #[error("invalid user data, the setting {key:?} is no table")]
    NotATable {
        /// Name of the setting.
        key: &'static str,
    },
    /// The addresses of Services are not known yet: the class is not ready.
    #[error("resolving cluster CIDR")]
    ClusterCidrUnknown,
    /// The CA bundle is no base64 text.
    #[error("decoding the CA bundle: it is no base64 text")]
    CaBundle,
    /// The result could not be written.
    #[error("writing user data: {0}")]
    Render(String),
}

impl UserDataError {
    /// Whether the text of the class is the cause.
    pub const fn is_of_class(&self) -> bool {
        matches!(self, Self::Mime(_) | Self::Toml { .. } | Self::NotATable { .. })
    }
}

/// The user data of an instance as plain text.
pub fn render(input: &BootstrapInput) -> Result<String, UserDataError> {
    match input.family {
        AmiFamily::Al2 => Ok(al2::render(input)?),
        AmiFamily::Al2023 => nodeadm::render(input),
        AmiFamily::Bottlerocket => bottlerocket::render(input),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => Ok(windows::render(input)),
        // A custom image joins by its own means (AWS-149).
        AmiFamily::Custom => Ok(input.custom.clone().unwrap_or_default()),
    }
}

/// User data as EC2 takes it.
pub fn encode(text: &str) -> String {
    STANDARD.encode(text)
}
