//! Work on many items, shared out to all processors.

use std::num::NonZero;
use std::thread;

/// Items that are not worth a thread of their own.
const FEW: usize = 32;
/// As large a stack as the main thread usually has: nested documents are parsed by recursion.
const STACK_BYTES: usize = 8 << 20;

/// The results of `work` for each item, in the order of the items.
pub(super) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    map_on(threads, items, work)
}

fn map_on<T: Sync, R: Send>(threads: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let share = items.len().div_ceil(threads.max(1)).max(FEW);
    if items.len() <= share {
        return items.iter().map(work).collect();
    }
    let all = |part: &[T]| part.iter().map(&work).collect::<Vec<R>>();
    thread::scope(|scope| {
        let start = |part| {
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            builder.spawn_scoped(scope, move || all(part)).map_err(|_| part)
        };
        let parts: Vec<_> = items.chunks(share).map(start).collect();
        let results = parts
            .into_iter()
            .map(|part| match part.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(results)) => results,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                // Where no thread can be started, this one does the work.
                Err(part) => all(part),
            });
        results.flatten().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_items() {
        for count in [0, 1, FEW, FEW + 1, 10 * FEW, 10 * FEW + 7] {
            let items: Vec<usize> = (0..count).collect();
            let expected: Vec<usize> = items.iter().map(|item| item * 2).collect();
            for threads in [0, 1, 2, 7, 1000] {
                assert_eq!(
                    map_on(threads, &items, |item| item * 2),
                    expected,
                    "{count} on {threads}"
                );
            }
        }
    }

    #[test]
    fn many_items_have_several_threads() {
        let items = vec![(); 4 * FEW];
        let workers = map_on(4, &items, |()| thread::current().id());
        let distinct: std::collections::HashSet<_> = workers.iter().collect();
        assert_eq!(distinct.len(), 4);
        let few = map_on(4, &items[..FEW], |()| thread::current().id());
        assert!(few.iter().all(|id| *id == thread::current().id()));
    }
}
