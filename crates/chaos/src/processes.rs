//! Waiting for the processes of a world.

/// Which one ends first, and how; the first one of several that have ended. Waits for ever if there is none.
pub async fn first_end<'a, P, End>(of: &'a mut [P], ended: impl Fn(&'a mut P) -> End) -> (usize, End::Output)
where
    End: Future + Unpin,
{
    if of.is_empty() {
        return std::future::pending().await;
    }
    let (end, index, _) = futures::future::select_all(of.iter_mut().map(ended)).await;
    (index, end)
}
