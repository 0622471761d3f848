//! Results of checks, and how they are printed.

use crate::columns::columns;
use serde::Serialize;

/// How a check ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Nothing is wrong.
    Ok,
    /// For information.
    Note,
    /// The check could not be made.
    Skipped,
    /// Something differs after the swap.
    Warning,
    /// The swap would fail or do harm.
    Problem,
}

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) result: Level,
    pub(crate) check: &'static str,
    /// The object concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) object: Option<String>,
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn new(result: Level, check: &'static str, message: impl Into<String>) -> Self {
        Self {
            result,
            check,
            object: None,
            message: message.into(),
        }
    }

    pub(crate) fn on(mut self, object: impl Into<String>) -> Self {
        self.object = Some(object.into());
        self
    }
}

/// All results.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) problems: usize,
    pub(crate) warnings: usize,
    pub(crate) findings: Vec<Finding>,
}

impl Report {
    pub(crate) fn new(findings: Vec<Finding>) -> Self {
        let count = |level| findings.iter().filter(|finding| finding.result == level).count();
        Self {
            problems: count(Level::Problem),
            warnings: count(Level::Warning),
            findings,
        }
    }

    /// The report as a table, with a last line that sums it up.
    pub(crate) fn table(&self) -> String {
        let mut rows = vec![["RESULT", "CHECK", "OBJECT", "MESSAGE"].map(str::to_owned).to_vec()];
        for finding in &self.findings {
            let result = match finding.result {
                Level::Ok => "ok",
                Level::Note => "note",
                Level::Skipped => "skipped",
                Level::Warning => "WARNING",
                Level::Problem => "PROBLEM",
            };
            rows.push(vec![
                result.to_owned(),
                finding.check.to_owned(),
                finding.object.clone().unwrap_or_else(|| "-".to_owned()),
                finding.message.clone(),
            ]);
        }
        let verdict = match (self.problems, self.warnings) {
            (0, 0) => "Kerf can take over.".to_owned(),
            (0, warnings) => format!("Kerf can take over; {warnings} warning(s)."),
            (problems, warnings) => {
                format!("Kerf cannot take over yet: {problems} problem(s), {warnings} warning(s).")
            }
        };
        format!("{}\n{verdict}\n", columns(&rows))
    }
}
