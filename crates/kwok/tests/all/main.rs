//! The tests of the KWOK provider and of the catalogues it reads.

mod catalogues;
mod fake_api;
mod provider;
