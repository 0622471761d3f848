//! What an error of the Kubernetes API means for the caller.

/// Kinds of API errors by what a caller can do about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiErrorKind {
    /// The object (or the kind) does not exist. Often this is success (OPS-105).
    NotFound,
    /// The object changed since it was read: read again.
    Conflict,
    /// An object of that name exists.
    AlreadyExists,
    /// The server asks to slow down, or a disruption budget forbids an eviction (OPS-107).
    TooManyRequests,
    /// Validation or admission refused the object: only a change of it helps.
    Invalid,
    /// The request itself is malformed.
    BadRequest,
    /// The credentials do not permit this.
    Forbidden,
    /// The credentials are missing or expired.
    Unauthorized,
    /// The version asked for is no longer kept: list again.
    Gone,
    /// The server or the network failed: the same request may succeed later.
    Retryable,
    /// The answer could not be understood.
    Malformed,
    /// The client is set up wrongly.
    Client,
}

impl ApiErrorKind {
    /// The kind of `error`.
    pub fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => Self::Retryable,
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) | kube::Error::LinesCodecMaxLineLengthExceeded => {
                Self::Malformed
            }
            kube::Error::Auth(_) => Self::Unauthorized,
            // The enum belongs to kube and grows; the rest are mistakes in how a request or the client was built.
            _ => Self::Client,
        }
    }

    /// The kind of a failure the server reported. A known reason says more than the code.
    pub fn of_status(status: &kube::core::Status) -> Self {
        match status.reason.as_str() {
            "NotFound" => return Self::NotFound,
            "AlreadyExists" => return Self::AlreadyExists,
            "Conflict" => return Self::Conflict,
            "TooManyRequests" => return Self::TooManyRequests,
            "Invalid" => return Self::Invalid,
            "Forbidden" => return Self::Forbidden,
            "Unauthorized" => return Self::Unauthorized,
            "Gone" | "Expired" => return Self::Gone,
            _ => {}
        }
        match status.code {
            400 | 405 | 406 | 413 | 415 => Self::BadRequest,
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            409 => Self::Conflict,
            410 => Self::Gone,
            422 => Self::Invalid,
            429 => Self::TooManyRequests,
            _ => Self::Retryable,
        }
    }
}

/// An API error as a person reads it: the server's own message instead of the client library's dump of it.
pub fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("API error {} {}", status.code, status.reason),
        other => other.to_string(),
    }
}

/// Turns "not found" into `None`: getting, patching or deleting what is gone is success (OPS-105).
pub fn found<T>(result: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if ApiErrorKind::of(&error) == ApiErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Turns a conflict into `None`, for a caller that reads the object again by itself. Others return the error (OPS-105).
pub fn unless_conflict<T>(result: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if ApiErrorKind::of(&error) == ApiErrorKind::Conflict => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(code: u16, reason: &str) -> kube::Error {
        kube::Error::Api(kube::core::Status::failure("text", reason).with_code(code).boxed())
    }

    #[test]
    fn reasons_win_over_codes() {
        for (code, reason, kind) in [
            (404, "NotFound", ApiErrorKind::NotFound),
            (409, "Conflict", ApiErrorKind::Conflict),
            (409, "AlreadyExists", ApiErrorKind::AlreadyExists),
            (429, "TooManyRequests", ApiErrorKind::TooManyRequests),
            (422, "Invalid", ApiErrorKind::Invalid),
            (403, "Forbidden", ApiErrorKind::Forbidden),
            (410, "Expired", ApiErrorKind::Gone),
            (500, "InternalError", ApiErrorKind::Retryable),
            (503, "ServiceUnavailable", ApiErrorKind::Retryable),
            (404, "Failed to parse error data", ApiErrorKind::NotFound),
            (429, "", ApiErrorKind::TooManyRequests),
        ] {
            assert_eq!(ApiErrorKind::of(&api(code, reason)), kind, "{code} {reason}");
        }
    }

    #[test]
    fn gone_is_success() {
        // OPS-105
        assert!(matches!(found::<()>(Err(api(404, "NotFound"))), Ok(None)));
        assert!(matches!(found(Ok(1)), Ok(Some(1))));
        assert!(found::<()>(Err(api(403, "Forbidden"))).is_err());
    }

    #[test]
    fn a_conflict_is_told_from_other_errors() {
        // OPS-105
        assert!(matches!(unless_conflict::<()>(Err(api(409, "Conflict"))), Ok(None)));
        assert!(matches!(unless_conflict(Ok(1)), Ok(Some(1))));
        assert!(unless_conflict::<()>(Err(api(409, "AlreadyExists"))).is_err());
        assert!(unless_conflict::<()>(Err(api(404, "NotFound"))).is_err());
    }
}
