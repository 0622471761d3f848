//! The origin of an object, and errors in it.

use std::fmt;
use std::sync::Arc;

/// A document of an input: file name and number of the document (from 1), or the name of an API server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    pub(crate) file: Arc<str>,
    pub(crate) document: Option<usize>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match self.document {
            Some(document) => write!(f, ": document {document}"),
            None => Ok(()),
        }
    }
}

/// Bad input. Prints as `file: document n: Kind namespace/name: field: problem; remedy`, without unknown parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InputError {
    /// Empty if the object alone identifies the place.
    pub(crate) place: String,
    pub(crate) object: Option<String>,
    pub(crate) field: Option<String>,
    pub(crate) problem: String,
    pub(crate) remedy: Option<String>,
}

impl InputError {
    pub(crate) fn new(place: impl fmt::Display, problem: impl Into<String>) -> Self {
        Self {
            place: place.to_string(),
            object: None,
            field: None,
            problem: problem.into(),
            remedy: None,
        }
    }

    pub(crate) fn object(mut self, object: impl Into<String>) -> Self {
        self.object = Some(object.into());
        self
    }

    pub(crate) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = Some(&self.place).filter(|place| !place.is_empty());
        for part in [place, self.object.as_ref(), self.field.as_ref()].into_iter().flatten() {
            write!(f, "{part}: ")?;
        }
        f.write_str(&self.problem)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}
