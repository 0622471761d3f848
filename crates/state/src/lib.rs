//! the mirror: folds watch events into the domain and publishes snapshots.
