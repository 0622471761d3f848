//! Decisions beside another autoscaler that carries out its own: what Kerf would have decided in its place, on the same cluster.

mod before_answers;
mod scale_up;
mod standing_commands;

pub use before_answers::{Unanswered, before_answers};
pub use scale_up::ScaleUp;
pub use standing_commands::{StandingChange, StandingCommand, StandingCommands};
