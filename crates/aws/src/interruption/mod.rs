//! Signals that instances will be stopped or are unhealthy: messages of the interruption queue, and polled instance status.

mod message;
mod status;

pub use message::{EVENT_TYPES, EventType, Message, MessageError, parse};
pub use status::{
    IMPAIRED_TOLERATION, StatusCategory, StatusDetail, StatusFinding, UnhealthyCounts, finding, is_event_due,
    status_queries,
};
