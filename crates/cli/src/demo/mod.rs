//! `kerf demo`: four hours of a cluster's life, embedded, with the real controllers, in virtual time.

mod decision;
mod life;
mod observer;
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
    runtime.block_on(life::live(args))
}
