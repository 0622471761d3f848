//! Exit codes: one meaning each, for every command.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// The answer is no: something was not scheduled, something would change.
    No = 1,
    /// Bad input or usage; files that cannot be read are bad input.
    BadInput = 2,
    /// There is nothing to explain.
    Nothing = 3,
    /// The output, the API, the kubeconfig, a data directory, a port or the network failed.
    Failed = 4,
    /// An invariant broke: a bug in Kerf.
    Broken = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What every `--help` says about exit codes.
pub(crate) const HELP: &str = "Exit codes:
  0  done
  1  the answer is no: something was not scheduled, something would change
  2  bad input or usage, files that cannot be read included
  3  nothing to explain: there is no such object
  4  the output, the API, the kubeconfig, a data directory, a port or the network failed
  5  an invariant broke";
