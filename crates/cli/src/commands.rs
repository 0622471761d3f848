//! The commands by name, and what the process answers when one fails.

use crate::args::{Cli, Command, CrdsArgs, ShadowCommand};
use crate::exit::Exit;
use crate::messages::say;
use crate::{args, catalogue, controller, demo, explain, install, preflight, shadow, simulate, up};
use clap::{CommandFactory, Parser};
use std::io::{self, Write};
use std::process::ExitCode;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let printed = error.print();
            return match printed {
                _ if error.use_stderr() => Exit::BadInput.into(),
                Ok(()) => Exit::Done.into(),
                Err(error) => failure(&error.into()),
            };
        }
    };
    // rustls does not choose between two providers in one process, so the choice is made here.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match run(cli.command) {
        Ok(exit) => exit.into(),
        Err(error) => failure(&error),
    }
}

/// Reports an error, unless the reader of the output has closed it (`kerf crds | head`), which is no failure.
fn failure(error: &anyhow::Error) -> ExitCode {
    let closed = |cause: &(dyn std::error::Error + 'static)| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(closed) {
        return Exit::Done.into();
    }
    say!("error: {}", with_causes(error));
    Exit::Failed.into()
}

/// An error and its causes. Causes that the text before them repeats are left out.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Demo(args) => demo::run(&args),
        Command::Up(args) => up::run(&args),
        Command::Controller(args) => controller::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Catalogue(args) => catalogue::run(&args),
        Command::Manifests(args) => install::run(&args),
        Command::Preflight(args) => preflight::run(&args),
        Command::Shadow {
            command: ShadowCommand::Report(args),
        } => shadow::run(&args),
        Command::Crds(args) => crds(&args),
        Command::Completions { shell } => {
            // `generate` panics when it cannot write, so it writes to memory.
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "kerf", &mut text);
            io::stdout().write_all(&text)?;
            Ok(Exit::Done)
        }
        Command::Man { command } => man(command.as_deref()),
        Command::Version => {
            writeln!(io::stdout(), "kerf {}", env!("CARGO_PKG_VERSION"))?;
            Ok(Exit::Done)
        }
    }
}

/// Prints the manual page of one command, or of `kerf`.
fn man(command: Option<&str>) -> anyhow::Result<Exit> {
    let mut kerf = Cli::command();
    // Gives commands their full names.
    kerf.build();
    let page = match command {
        None => kerf,
        Some(name) => match kerf.find_subcommand(name) {
            Some(found) => found.clone(),
            None => {
                say!("error: there is no command {name}; kerf --help lists them");
                return Ok(Exit::BadInput);
            }
        },
    };
    clap_mangen::Man::new(page).render(&mut io::stdout())?;
    Ok(Exit::Done)
}

fn crds(args: &CrdsArgs) -> anyhow::Result<Exit> {
    let provider = match args.provider {
        args::Provider::Kwok => kerf_api::Provider::Kwok,
        args::Provider::Aws => kerf_api::Provider::Aws,
    };
    let mut out = io::stdout().lock();
    for crd in kerf_api::crds(provider) {
        let crd = crate::decision::with_gates(crd, args.aws_feature_gates);
        writeln!(out, "---\n{}", crd.yaml.trim_start_matches("---\n").trim_end())?;
    }
    Ok(Exit::Done)
}
