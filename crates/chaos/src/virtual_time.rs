//! The runtime of a world: its time passes only while nothing runs.

/// Runs something on a runtime of its own, in virtual time.
///
/// # Panics
///
/// If there can be no runtime.
pub fn in_virtual_time<T>(what: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(what)
}
