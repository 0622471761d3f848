//! Tests that enforce the Laws of ARCHITECTURE.md on the source tree. No code here ships: see `tests/tidy`.
//!
//! `cargo test -p kerf-tidy` reads every source file of the workspace once and builds nothing else. A failure names each file and line.
