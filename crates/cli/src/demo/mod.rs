//! `kerf demo`: four hours of an embedded cluster with the real controllers, in virtual time.

mod bill;
mod machine_change;
mod observer;
mod run;
mod story;
mod summary;

use crate::args::DemoArgs;
use crate::exit::Exit;
use anyhow::Context as _;

/// Runs `kerf demo`.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(!args.real_time)
        .build()
        .context("starting the runtime")?;
    runtime.block_on(run::run(args))
}
