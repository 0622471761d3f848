//! The grammar of Kubernetes names: label keys ("qualified names") and label values.

/// Longest name part of a key, and longest label value, in bytes.
const NAME_BYTES_MAX: usize = 63;
/// Longest domain part of a key in bytes.
const DOMAIN_BYTES_MAX: usize = 253;

/// What is wrong with a key or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// More than one slash.
    #[error("a qualified name has at most one '/', between an optional DNS domain and the name")]
    Slashes,
    /// Nothing before the slash.
    #[error("prefix part must be non-empty")]
    EmptyDomain,
    /// The domain is too long.
    #[error("prefix part must be no more than {DOMAIN_BYTES_MAX} bytes")]
    LongDomain,
    /// The domain has other characters than a DNS name.
    #[error(
        "prefix part must consist of lower case letters, digits, '-' and '.', each label beginning and ending with a letter or digit"
    )]
    Domain,
    /// Nothing after the slash, or nothing at all.
    #[error("name part must be non-empty")]
    EmptyName,
    /// The name is too long.
    #[error("name part must be no more than {NAME_BYTES_MAX} bytes")]
    LongName,
    /// The name has other characters than allowed.
    #[error("name part must consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit")]
    Name,
    /// The label value is too long.
    #[error("must be no more than {NAME_BYTES_MAX} bytes")]
    LongValue,
    /// The label value has other characters than allowed.
    #[error("must be empty or consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit")]
    Value,
}

/// Checks a label or taint key: an optional DNS domain with a slash, then a name.
pub fn check_qualified_name(key: &str) -> Result<(), NameError> {
    let name = match key.split_once('/') {
        None => key,
        Some((_, name)) if name.contains('/') => return Err(NameError::Slashes),
        Some(("", _)) => return Err(NameError::EmptyDomain),
        Some((domain, _)) if domain.len() > DOMAIN_BYTES_MAX => return Err(NameError::LongDomain),
        Some((domain, _)) if !is_dns_subdomain(domain) => return Err(NameError::Domain),
        Some((_, name)) => name,
    };
    match name {
        "" => Err(NameError::EmptyName),
        _ if name.len() > NAME_BYTES_MAX => Err(NameError::LongName),
        _ if !is_name(name) => Err(NameError::Name),
        _ => Ok(()),
    }
}

/// Checks a label value: empty, or a name.
pub fn check_label_value(value: &str) -> Result<(), NameError> {
    match value {
        "" => Ok(()),
        _ if value.len() > NAME_BYTES_MAX => Err(NameError::LongValue),
        _ if !is_name(value) => Err(NameError::Value),
        _ => Ok(()),
    }
}

/// The part of a key before its slash; `None` for a key without a domain.
pub fn domain_of(key: &str) -> Option<&str> {
    key.split_once('/').map(|(domain, _)| domain)
}

fn is_name(text: &str) -> bool {
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    outer(bytes.first())
        && outer(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_dns_subdomain(text: &str) -> bool {
    let outer = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    text.split('.').map(str::as_bytes).all(|label| {
        outer(label.first())
            && outer(label.last())
            && label
                .iter()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
    })
}
