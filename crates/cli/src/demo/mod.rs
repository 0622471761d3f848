//! `kerf demo`: four hours of an embedded cluster with the real controllers, in virtual time; or two hours on an embedded AWS account.

#[cfg(feature = "aws")]
mod aws;
mod bill;
mod clock;
mod machine_change;
mod observer;
mod run;
mod story;
mod summary;

use crate::args::{Cloud, DemoArgs};
use crate::exit::Exit;
use crate::messages::say;
use anyhow::Context as _;

/// Runs `kerf demo`.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<Exit> {
    if args.cloud == Cloud::Aws && !cfg!(feature = "aws") {
        say!("error: {}", crate::up::NOT_IN_THIS_BUILD);
        return Ok(Exit::BadInput);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(!args.real_time)
        .build()
        .context("starting the runtime")?;
    #[cfg(feature = "aws")]
    if args.cloud == Cloud::Aws {
        return runtime.block_on(aws::run(args));
    }
    runtime.block_on(run::run(args))
}
