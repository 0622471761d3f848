//! Exit codes: one meaning each, for every command.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// The answer is no: a pod has no place, or a node would change.
    No = 1,
    /// Bad input or usage; unreadable files are bad input.
    BadInput = 2,
    /// The object to explain does not exist.
    Nothing = 3,
    /// The output, the API, the kubeconfig, a data directory, a port or the network failed.
    Failed = 4,
    /// A bug in Kerf: an invariant does not hold.
    Broken = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The exit codes as every `--help` prints them.
pub(crate) const HELP: &str = "Exit codes:
  0  done
  1  the answer is no: a pod has no place, or a node would change
  2  bad input or usage, including unreadable files
  3  the object to explain does not exist
  4  the output, the API, the kubeconfig, a data directory, a port or the network failed
  5  a bug in Kerf";
