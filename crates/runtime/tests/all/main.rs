//! The runtime's tests: what sits on top of a client against an API server of canned answers, and what is configured and printed.

mod buffer;
mod catalogue;
mod client;
mod deletion;
mod events;
mod fake;
mod leader;
mod logging;
mod options;
mod patch;
mod watch;
