//! Provider ids of EC2 instances: `aws:///<zone>/<instance id>` (AWS-264).

/// The provider id of an instance.
pub fn provider_id(zone: &str, instance_id: &str) -> String {
    format!("aws:///{zone}/{instance_id}")
}

/// A text that is no provider id of an instance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parsing instance id from provider id {0:?}")]
pub struct ProviderIdError(pub String);

/// The instance id in a provider id: the part after the last slash of `<scheme>:///<zone>/<id>`.
pub fn instance_id(provider_id: &str) -> Result<&str, ProviderIdError> {
    let parsed = provider_id
        .split_once(":///")
        .and_then(|(_, place)| place.rsplit_once('/'))
        .map(|(_, id)| id)
        .filter(|id| !id.is_empty());
    parsed.ok_or_else(|| ProviderIdError(provider_id.to_owned()))
}
