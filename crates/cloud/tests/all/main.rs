//! The tests of what goes around a provider.

mod decorators;
mod delegation;
mod overlays;
