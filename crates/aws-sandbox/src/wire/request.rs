//! Requests and answers of HTTP, as far as the protocols go.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// A service of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    Ec2,
    Ssm,
    Iam,
    Sqs,
    Eks,
    Pricing,
    ZonalShift,
    Unknown,
}

impl Service {
    /// The service for which a request is signed.
    pub(super) fn of(request: &WireRequest<'_>) -> Self {
        match request.scope().nth(3) {
            Some("ec2") => Self::Ec2,
            Some("ssm") => Self::Ssm,
            Some("iam") => Self::Iam,
            Some("sqs") => Self::Sqs,
            Some("eks") => Self::Eks,
            Some("pricing") => Self::Pricing,
            Some("arc-zonal-shift") => Self::ZonalShift,
            _ => Self::Unknown,
        }
    }

    /// The name in IAM.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Ssm => "ssm",
            Self::Iam => "iam",
            Self::Sqs => "sqs",
            Self::Eks => "eks",
            Self::Pricing => "pricing",
            Self::ZonalShift => "arc-zonal-shift",
            Self::Unknown => "unknown",
        }
    }
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct WireRequest<'a> {
    /// Name of the client, if it has one.
    pub(crate) client: &'a str,
    /// Method.
    pub(crate) method: &'a str,
    /// URI, absolute or from the path on.
    pub(crate) uri: &'a str,
    /// Headers; names in lower case.
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    /// Body.
    pub(crate) body: &'a [u8],
}

impl<'a> WireRequest<'a> {
    /// A header by its name in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&'a str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| *value)
    }

    /// The path without host and query.
    pub(super) fn path(&self) -> &'a str {
        let after_scheme = self.uri.split_once("://").map_or(self.uri, |(_, rest)| rest);
        let from_path = after_scheme
            .find('/')
            .and_then(|at| after_scheme.get(at..))
            .unwrap_or("/");
        from_path.split('?').next().unwrap_or_default()
    }

    /// The parts of the credential scope: key, day, region, service and the end.
    pub(super) fn scope(&self) -> impl Iterator<Item = &'a str> {
        let header = self.header("authorization").unwrap_or_default();
        let credential = header.split_once("Credential=").map_or("", |(_, rest)| rest);
        credential.split([',', ' ']).next().unwrap_or_default().split('/')
    }

    /// The key that signed the request.
    pub(super) fn access_key(&self) -> Option<&'a str> {
        self.scope().next().filter(|key| !key.is_empty())
    }

    /// When the request was signed.
    pub(super) fn signed_at(&self) -> Option<Timestamp> {
        let text = self.header("x-amz-date")?;
        let time = DateTime::strptime("%Y%m%dT%H%M%SZ", text).ok()?;
        Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WireAnswer {
    /// HTTP status.
    pub(crate) status: u16,
    /// Headers.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Body.
    pub(crate) body: String,
}

impl WireAnswer {
    /// An answer in XML.
    pub(super) fn xml(body: String) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type", "text/xml;charset=UTF-8".to_owned())],
            body,
        }
    }

    /// An answer in JSON.
    pub(super) fn json(body: &serde_json::Value) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type", "application/x-amz-json-1.1".to_owned())],
            body: body.to_string(),
        }
    }

    /// The same with a header more.
    pub(super) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The same with another status.
    pub(super) const fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_names_service_and_key() {
        let request = WireRequest {
            client: "",
            method: "POST",
            uri: "https://eks.us-east-1.amazonaws.com/clusters/prod?x=1",
            headers: vec![
                (
                    "authorization",
                    "AWS4-HMAC-SHA256 Credential=KEY/20260101/us-east-1/eks/aws4_request, SignedHeaders=host",
                ),
                ("x-amz-date", "20260101T000005Z"),
            ],
            body: b"",
        };
        assert_eq!(Service::of(&request), Service::Eks);
        assert_eq!((request.access_key(), request.path()), (Some("KEY"), "/clusters/prod"));
        assert_eq!(request.signed_at(), Some("2026-01-01T00:00:05Z".parse().unwrap()));
        let unsigned = WireRequest {
            client: "",
            headers: Vec::new(),
            ..request
        };
        assert_eq!(
            (Service::of(&unsigned), unsigned.access_key()),
            (Service::Unknown, None)
        );
    }
}
