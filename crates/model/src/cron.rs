//! cron.
