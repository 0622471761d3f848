//! Server-side apply and field ownership.
