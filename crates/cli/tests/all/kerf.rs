//! Runs the built binary.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Output and exit code of a run.
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `kerf` from the repository's root.
pub(crate) fn kerf(args: &[&str]) -> Outcome {
    kerf_with_input(args, b"")
}

/// The same with bytes on standard input.
pub(crate) fn kerf_with_input(args: &[&str], input: &[u8]) -> Outcome {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kerf"))
        .args(args)
        .current_dir(root())
        .env_remove("KUBECONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kerf starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A command that reads nothing closes the pipe.
    let _ = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().expect("kerf ends");
    Outcome {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs `kerf` with more environment variables.
pub(crate) fn kerf_with_env(args: &[&str], variables: &[(&str, &str)]) -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_kerf"))
        .args(args)
        .current_dir(root())
        .env_remove("KUBECONFIG")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("kerf runs");
    Outcome {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A standard output that cannot be written to.
pub(crate) enum Stdout {
    /// A pipe whose reader is gone.
    Closed,
    /// A file on a disk without room.
    FullDisk,
}

/// Runs `kerf` with an output that cannot be written to.
pub(crate) fn kerf_into(args: &[&str], stdout: &Stdout) -> Outcome {
    let out = match stdout {
        Stdout::Closed => {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            Stdio::from(writer)
        }
        Stdout::FullDisk => Stdio::from(File::options().write(true).open("/dev/full").expect("/dev/full")),
    };
    let output = Command::new(env!("CARGO_BIN_EXE_kerf"))
        .args(args)
        .current_dir(root())
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(Stdio::piped())
        .output()
        .expect("kerf runs");
    Outcome {
        code: output.status.code().unwrap_or(-1),
        stdout: String::new(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
