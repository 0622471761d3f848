//! Why a call is refused: what AWS answers instead of doing it.

/// An error of a service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    /// The service's code, such as `InvalidSubnetID.NotFound`.
    pub code: String,
    /// What a person reads.
    pub message: String,
    /// HTTP status of the answer.
    pub status: u16,
}

impl Refusal {
    /// An error that the caller made: HTTP status 400.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            status: 400,
        }
    }

    /// The same with another HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// A parameter with a value that the call does not take.
    pub fn invalid_value(name: &str, value: &str) -> Self {
        let message = format!("Value ({value}) for parameter {name} is invalid.");
        Self::new("InvalidParameterValue", message)
    }

    /// A parameter that the call needs is missing.
    pub fn missing(name: &str) -> Self {
        let message = format!("The request must contain the parameter {name}");
        Self::new("MissingParameter", message)
    }
}

/// The answer of a call.
pub type Answer<T> = Result<T, Refusal>;
