//! The wall time of a demo.

use crate::args::DemoArgs;
use anyhow::Context as _;
use kerf_runtime::Clock;

/// The machine's time, or a simulated one from `first` on.
pub(super) fn clock(args: &DemoArgs, first: &str) -> anyhow::Result<Clock> {
    if args.real_time {
        return Ok(Clock::system());
    }
    Ok(Clock::simulated(first.parse().context("the demo's first moment")?))
}
