//! The `kerf` command: options in, tables and documents out. Everything it does lives in the crates below it; here is reading, rendering and
//! the mapping of results to exit codes. [`offline`] is for callers in the same process.

mod args;
mod assemble;
mod consolidate;
mod controller;
mod decision;
mod demo;
mod exit;
mod explain;
mod manifests;
pub mod offline;
mod simulate;
mod up;

use args::{Cli, Command, CrdsArgs};
use clap::{CommandFactory, Parser};
use exit::Exit;
use std::io::{self, Write};
use std::process::ExitCode;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                Exit::BadInput.into()
            } else {
                Exit::Done.into()
            };
        }
    };
    // Two providers in one process make rustls refuse to choose; there is one, and it is named here.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match run(cli.command) {
        Ok(exit) => exit.into(),
        // A reader that has seen enough (`kerf crds | head`) is no failure.
        Err(error)
            if error
                .downcast_ref::<io::Error>()
                .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) =>
        {
            Exit::Done.into()
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            Exit::Failed.into()
        }
    }
}

fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Demo(args) => demo::run(&args),
        Command::Up(args) => up::run(&args),
        Command::Controller(args) => controller::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Crds(args) => crds(&args),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "kerf", &mut io::stdout());
            Ok(Exit::Done)
        }
        Command::Man => {
            clap_mangen::Man::new(Cli::command()).render(&mut io::stdout())?;
            Ok(Exit::Done)
        }
        Command::Version => {
            writeln!(io::stdout(), "kerf {}", env!("CARGO_PKG_VERSION"))?;
            Ok(Exit::Done)
        }
    }
}

fn crds(args: &CrdsArgs) -> anyhow::Result<Exit> {
    let provider = match args.provider {
        args::Provider::Kwok => kerf_api::Provider::Kwok,
        args::Provider::Aws => kerf_api::Provider::Aws,
    };
    let mut out = io::stdout().lock();
    for crd in kerf_api::crds(provider) {
        writeln!(out, "---\n{}", crd.yaml.trim_start_matches("---\n").trim_end())?;
    }
    Ok(Exit::Done)
}
