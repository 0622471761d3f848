//! The tests of quantities, durations and schedules as texts.

mod bytes;
