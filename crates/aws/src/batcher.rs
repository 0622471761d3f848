//! Collects equal calls for a moment and sends them as one (section 16 of `docs/behaviour/aws.md`).

use crate::batch::{BatchWindow, CREATE_FLEET, DESCRIBE_INSTANCES, FleetBucket, FleetShare, TERMINATE_INSTANCES};
use crate::batch::{deal_described, deal_fleet, deal_terminated};
use crate::errors::ApiError;
use crate::instance::DescribedInstance;
use crate::launch::FleetRequest;
use crate::selector::Query;
use crate::services::{CallResult, Ec2, InstanceQuery};
use futures::future::{BoxFuture, join_all};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

/// How many batches of one batcher run at the same time (AWS-265).
const WORKERS: usize = 100;

/// Sends the items of one bucket; gives one answer for each, in their order.
type SendBucket<B, Q, A> = dyn Fn(B, Vec<Q>) -> BoxFuture<'static, Vec<A>> + Send + Sync;

/// Hears of each closed window: the batcher's name, how long the window was open, and the number of its items (AWS-367, AWS-368).
pub type WindowObserver = Arc<dyn Fn(&'static str, Duration, usize) + Send + Sync>;

/// Merges calls: items that arrive within one window and have equal buckets are sent together.
pub struct Batcher<B, Q, A> {
    window: BatchWindow,
    send: Arc<SendBucket<B, Q, A>>,
    windows: Mutex<Windows<B, Q, A>>,
    permits: Arc<Semaphore>,
    observer: WindowObserver,
}

/// Items of one bucket, each with where its answer goes.
type Bucket<Q, A> = Vec<(Q, oneshot::Sender<A>)>;

struct Windows<B, Q, A> {
    open: Option<OpenWindow<B, Q, A>>,
    /// Windows opened so far: the number of the open one.
    opened: u64,
}

struct OpenWindow<B, Q, A> {
    opened: Instant,
    last: Instant,
    count: usize,
    buckets: Vec<(B, Bucket<Q, A>)>,
}

impl<B, Q, A> Batcher<B, Q, A>
where
    B: PartialEq + Send + 'static,
    Q: Send + 'static,
    A: Send + 'static,
{
    /// A batcher with a window that sends buckets this way.
    pub fn new(
        window: BatchWindow,
        observer: WindowObserver,
        send: impl Fn(B, Vec<Q>) -> BoxFuture<'static, Vec<A>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            window,
            send: Arc::new(send),
            windows: Mutex::new(Windows { open: None, opened: 0 }),
            permits: Arc::new(Semaphore::new(WORKERS)),
            observer,
        })
    }

    /// Sends an item with others of its bucket. The error is generic: the batch had no answer for the item (AWS-270).
    pub async fn call(self: &Arc<Self>, bucket: B, item: Q) -> Result<A, ApiError> {
        let (answer, answered) = oneshot::channel();
        self.add(bucket, item, answer);
        answered
            .await
            .map_err(|_| ApiError::new("NoAnswer", "the batch gave no answer for this call"))
    }

    fn windows(&self) -> MutexGuard<'_, Windows<B, Q, A>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn due(&self, window: &OpenWindow<B, Q, A>) -> Instant {
        window.opened + self.window.closes_after(window.last - window.opened, window.count)
    }

    /// Puts an item into the open window, or into a new one. A full window closes at once: the next items may come before any other task runs.
    fn add(self: &Arc<Self>, bucket: B, item: Q, answer: oneshot::Sender<A>) {
        let now = Instant::now();
        let mut windows = self.windows();
        let mut window = match windows.open.take() {
            Some(window) => window,
            None => {
                windows.opened += 1;
                let (batcher, number) = (Arc::clone(self), windows.opened);
                tokio::spawn(async move { batcher.close_when_due(number).await });
                OpenWindow {
                    opened: now,
                    last: now,
                    count: 0,
                    buckets: Vec::new(),
                }
            }
        };
        window.last = now;
        window.count += 1;
        match window.buckets.iter_mut().find(|(known, _)| *known == bucket) {
            Some((_, items)) => items.push((item, answer)),
            None => window.buckets.push((bucket, vec![(item, answer)])),
        }
        if self.due(&window) > now {
            windows.open = Some(window);
        } else {
            drop(windows);
            self.send_all(window);
        }
    }

    /// Waits until the window with this number closes, and sends its buckets. Further items only put off when it is due.
    async fn close_when_due(self: Arc<Self>, number: u64) {
        loop {
            let due = {
                let mut windows = self.windows();
                let of_number = windows.open.as_ref().filter(|_| windows.opened == number);
                // It was full.
                let Some(window) = of_number else { return };
                let due = self.due(window);
                if due <= Instant::now() {
                    let closed = windows.open.take();
                    drop(windows);
                    closed.into_iter().for_each(|window| self.send_all(window));
                    return;
                }
                due
            };
            tokio::time::sleep_until(due).await;
        }
    }

    fn send_all(&self, window: OpenWindow<B, Q, A>) {
        (self.observer)(self.window.name, window.opened.elapsed(), window.count);
        for (bucket, items) in window.buckets {
            let (send, permits) = (Arc::clone(&self.send), Arc::clone(&self.permits));
            tokio::spawn(async move {
                // The semaphore is never closed.
                let _permit = permits.acquire_owned().await;
                let (items, answers): (Vec<Q>, Vec<oneshot::Sender<A>>) = items.into_iter().unzip();
                for (answer, to) in (send)(bucket, items).await.into_iter().zip(answers) {
                    // A caller that no longer waits needs no answer.
                    let _: Result<(), A> = to.send(answer);
                }
            });
        }
    }
}

/// The three batchers of the provider.
pub struct Batchers {
    fleets: Arc<Batcher<FleetBucket, (), CallResult<FleetShare>>>,
    descriptions: Arc<Batcher<Query, String, CallResult<Option<DescribedInstance>>>>,
    terminations: Arc<Batcher<(), String, CallResult<()>>>,
}

impl Batchers {
    /// Batchers that call EC2.
    pub fn new(ec2: &Arc<dyn Ec2>, observer: &WindowObserver) -> Self {
        let (for_fleets, for_descriptions, for_terminations) = (Arc::clone(ec2), Arc::clone(ec2), Arc::clone(ec2));
        Self {
            fleets: Batcher::new(CREATE_FLEET, Arc::clone(observer), move |bucket, callers: Vec<()>| {
                Box::pin(create_fleets(Arc::clone(&for_fleets), bucket, callers.len()))
            }),
            descriptions: Batcher::new(DESCRIBE_INSTANCES, Arc::clone(observer), move |filters, ids| {
                Box::pin(describe(Arc::clone(&for_descriptions), filters, ids))
            }),
            terminations: Batcher::new(TERMINATE_INSTANCES, Arc::clone(observer), move |(), ids| {
                Box::pin(terminate(Arc::clone(&for_terminations), ids))
            }),
        }
    }

    /// Asks for one instance (AWS-266).
    pub async fn create_fleet(&self, request: &FleetRequest) -> CallResult<FleetShare> {
        self.fleets.call(FleetBucket::new(request), ()).await?
    }

    /// Describes one instance; `None` if the filters leave it out (AWS-268).
    pub async fn describe(&self, id: &str, filters: Query) -> CallResult<Option<DescribedInstance>> {
        self.descriptions.call(filters, id.to_owned()).await?
    }

    /// Terminates one instance (AWS-269).
    pub async fn terminate(&self, id: &str) -> CallResult<()> {
        self.terminations.call((), id.to_owned()).await?
    }
}

async fn create_fleets(ec2: Arc<dyn Ec2>, bucket: FleetBucket, callers: usize) -> Vec<CallResult<FleetShare>> {
    let count = u32::try_from(callers).unwrap_or(u32::MAX);
    match ec2.create_fleet(bucket.request(), count).await {
        Ok(answer) => {
            let (shares, surplus) = deal_fleet(callers, answer.instances, &answer.errors);
            if !surplus.is_empty() {
                tracing::error!(instances = ?surplus, "a fleet has more instances than asked for; they will be removed");
            }
            shares.into_iter().map(Ok).collect()
        }
        Err(error) => vec![Err(error); callers],
    }
}

async fn describe(ec2: Arc<dyn Ec2>, filters: Query, ids: Vec<String>) -> Vec<CallResult<Option<DescribedInstance>>> {
    let query = |ids: Vec<String>| InstanceQuery {
        ids,
        filters: filters.clone(),
    };
    let each = distinct(&ids);
    let merged = match ec2.instances(&query(each.clone())).await {
        // With one id, the answer of the call is that of the id.
        Ok(found) if each.len() == 1 => return vec![Ok(found.into_iter().next()); ids.len()],
        // The permission to describe instances cannot depend on the instance.
        Err(error) if each.len() == 1 || error.is_about_no_id() || error.is_unauthorized() => {
            return vec![Err(error); ids.len()];
        }
        merged => merged.unwrap_or_default(),
    };
    let dealt = deal_described(&ids, merged.into_iter().map(|instance| (instance.id.clone(), instance)));
    let alone = dealt.alone.iter().map(|id| {
        let (ec2, query) = (&ec2, query(vec![id.clone()]));
        async move { ec2.instances(&query).await.map(|found| found.into_iter().next()) }
    });
    let alone: Vec<_> = dealt.alone.iter().zip(join_all(alone).await).collect();
    let answer = |id: &String| match dealt.answered.get(id) {
        Some(instance) => Ok(Some(instance.clone())),
        None => answer_of(&alone, id),
    };
    ids.iter().map(answer).collect()
}

async fn terminate(ec2: Arc<dyn Ec2>, ids: Vec<String>) -> Vec<CallResult<()>> {
    let each = distinct(&ids);
    let merged = match ec2.terminate_instances(&each).await {
        Err(error) if each.len() == 1 || error.is_about_no_id() => return vec![Err(error); ids.len()],
        merged => merged.unwrap_or_default(),
    };
    let dealt = deal_terminated(&ids, merged);
    let alone = dealt.alone.iter().map(|id| {
        let (ec2, ids) = (&ec2, vec![id.clone()]);
        async move { ec2.terminate_instances(&ids).await.map(drop) }
    });
    let alone: Vec<_> = dealt.alone.iter().zip(join_all(alone).await).collect();
    let answer = |id: &String| match dealt.answered.get(id) {
        Some(_) => Ok(()),
        None => answer_of(&alone, id),
    };
    ids.iter().map(answer).collect()
}

/// The answer of the call that was made for this id alone.
fn answer_of<T: Clone>(alone: &[(&String, CallResult<T>)], id: &str) -> CallResult<T> {
    let found = alone.iter().find(|(known, _)| *known == id);
    found.map_or_else(
        || Err(ApiError::new("NoAnswer", "the batch gave no answer for this call")),
        |(_, answer)| answer.clone(),
    )
}

/// Each id once.
fn distinct(ids: &[String]) -> Vec<String> {
    let each: std::collections::BTreeSet<&String> = ids.iter().collect();
    each.into_iter().cloned().collect()
}
