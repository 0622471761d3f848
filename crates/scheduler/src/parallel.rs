//! Work on several threads.

/// The results of `work` on each item, in their order, computed by up to `threads` threads.
pub(crate) fn run_in_parallel<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let mut results = Vec::with_capacity(items.len());
    for together in items.chunks(threads.max(1)) {
        let Some((first, others)) = together.split_first() else {
            continue;
        };
        std::thread::scope(|scope| {
            let work = &work;
            let others: Vec<_> = others.iter().map(|item| scope.spawn(move || work(item))).collect();
            results.push(work(first));
            for other in others {
                match other.join() {
                    Ok(result) => results.push(result),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
    }
    results
}
