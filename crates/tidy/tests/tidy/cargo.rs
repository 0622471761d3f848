//! The dependency graph as cargo resolves it.

use serde_json::Value;
use std::process::Command;

/// What `cargo metadata` prints for the platform that this runs on.
pub(crate) fn metadata() -> Value {
    metadata_with(&[])
}

/// The same with more arguments, such as features.
pub(crate) fn metadata_with(arguments: &[&str]) -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    // What other platforms need is not downloaded by a build.
    let version = Command::new(&cargo)
        .arg("-vV")
        .output()
        .expect("cargo tells its version");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("a host");
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--offline",
            "--filter-platform",
            host,
        ])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}
