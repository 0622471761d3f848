//! Watch: a stream that reads the history of its table from a cursor.
//!
//! There are no queues per watcher: a watcher that falls behind the bounded history gets 410 and lists again. Each event is
//! serialised once, when it is written; watchers of the full form share those bytes.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream};
use serde_json::json;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use crate::error::ApiError;
use crate::registry::Resource;
use crate::request::Query;
use crate::state::{Shared, State};
use crate::storage::{Change, Event, Filter, Stored, named_event_line};
use crate::view::View;

/// Most events taken from the history under one lock.
const BATCH_MAX: usize = 256;

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchStart {
    /// After this version.
    After(u64),
    /// With the current objects as ADDED events.
    State,
    /// With the current objects and a bookmark after the last one.
    StreamingList,
    /// With the next write.
    Now,
}

/// A parsed watch request.
#[derive(Debug)]
pub(crate) struct WatchRequest {
    pub(crate) filter: Filter,
    pub(crate) start: WatchStart,
    pub(crate) bookmarks: bool,
    pub(crate) timeout: Option<Duration>,
}

impl WatchRequest {
    pub(crate) fn parse(filter: Filter, query: &Query) -> Result<Self, ApiError> {
        let version = query.resource_version()?;
        let bookmarks = query.flag("allowWatchBookmarks")?.unwrap_or(false);
        let version_match = query.get("resourceVersionMatch");
        let start = match (query.flag("sendInitialEvents")?, version) {
            (Some(_), _) if version_match != Some("NotOlderThan") => {
                let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                return Err(ApiError::forbidden_version_match(why));
            }
            (None, _) if version_match.is_some() => {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                return Err(ApiError::forbidden_version_match(why));
            }
            (Some(true), _) => WatchStart::StreamingList,
            (Some(false), None | Some(0)) => WatchStart::Now,
            (_, Some(version)) if version > 0 => WatchStart::After(version),
            (None, _) => WatchStart::State,
            (Some(false), Some(version)) => WatchStart::After(version),
        };
        let timeout = query
            .number("timeoutSeconds")?
            .filter(|s| *s > 0)
            .map(Duration::from_secs);
        Ok(Self {
            filter,
            start,
            bookmarks,
            timeout,
        })
    }
}

/// One running watch.
struct Watch {
    shared: Arc<Shared>,
    resource: Arc<Resource>,
    filter: Filter,
    view: View,
    written: Arc<Notify>,
    /// The epoch in which it began.
    epoch: u64,
    /// Everything up to this version has been sent.
    cursor: u64,
    /// The objects a watch begins with, rendered one by one because many watches may begin at once.
    initial: std::vec::IntoIter<Arc<Stored>>,
    pending: VecDeque<Bytes>,
    deadline: Option<Instant>,
    next_bookmark: Option<Instant>,
    ended: bool,
}

/// The events of `resource` as lines of JSON. The caller holds the lock, so nothing is missed between the list a client
/// made before and this.
pub(crate) fn open(
    shared: Arc<Shared>,
    state: &State,
    resource: Arc<Resource>,
    request: WatchRequest,
    view: View,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let table = state.table(resource.table);
    let now = Instant::now();
    let mut watch = Watch {
        written: table.written(),
        epoch: state.epoch,
        cursor: state.version,
        initial: Vec::new().into_iter(),
        pending: VecDeque::new(),
        deadline: request.timeout.map(|t| now + t),
        next_bookmark: request.bookmarks.then(|| now + shared.bookmark_interval),
        ended: false,
        resource,
        filter: request.filter,
        view,
        shared,
    };
    match request.start {
        WatchStart::After(version) => watch.cursor = version,
        WatchStart::Now => {}
        WatchStart::State | WatchStart::StreamingList => {
            let filter = &watch.filter;
            let objects: Vec<Arc<Stored>> = table
                .range(filter.namespace.as_deref())
                .filter(|o| filter.matches(o))
                .cloned()
                .collect();
            watch.initial = objects.into_iter();
            if request.start == WatchStart::StreamingList {
                watch.pending.push_back(watch.bookmark(true));
            }
        }
    }
    stream::unfold(watch, |mut watch| async move {
        watch.next().await.map(|line| (line, watch))
    })
}

impl Watch {
    /// The next line of the stream; `None` at its end. Waits for events, bookmarks and the deadline.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(object) = self.initial.next() {
                return Some(
                    self.view
                        .event(&self.resource, Change::Added, &object, self.shared.now()),
                );
            }
            if let Some(line) = self.pending.pop_front() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            // Registered before the history is read, so that no write is missed in between.
            let written = Arc::clone(&self.written);
            let mut notified = pin!(written.notified());
            notified.as_mut().enable();
            if !self.read_history() {
                self.wait(notified).await;
            }
        }
    }

    /// Reads a batch of events. Returns whether there were any.
    fn read_history(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        let state = shared.lock();
        if state.epoch != self.epoch {
            self.ended = true;
            return true;
        }
        let table = state.table(self.resource.table);
        let Some(events) = table.events_after(self.cursor, BATCH_MAX) else {
            let message = format!("too old resource version: {} ({})", self.cursor, table.compacted());
            self.fail(&ApiError::expired(message));
            return true;
        };
        let mut any = false;
        for event in events {
            any = true;
            self.cursor = event.object.version;
            if let Some((change, object)) = seen_through(&self.filter, event) {
                self.pending
                    .push_back(self.view.event(&self.resource, change, object, shared.now()));
            }
        }
        if !any {
            // A watch from a future version waits for that version.
            self.cursor = self.cursor.max(state.version);
        }
        any
    }

    /// Ends the stream with an `ERROR` event.
    fn fail(&mut self, error: &ApiError) {
        let line = named_event_line("ERROR", |out| {
            out.extend_from_slice(error.status().to_string().as_bytes());
        });
        self.pending.push_back(line);
        self.ended = true;
    }

    async fn wait(&mut self, notified: Pin<&mut Notified<'_>>) {
        let until = match (self.deadline, self.next_bookmark) {
            (Some(deadline), Some(bookmark)) => Some(deadline.min(bookmark)),
            (deadline, bookmark) => deadline.or(bookmark),
        };
        let timer = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = notified => {}
            () = timer => self.on_timer(),
        }
    }

    /// Sends a bookmark that is due, or ends the stream after its deadline.
    fn on_timer(&mut self) {
        let now = Instant::now();
        if self.deadline.is_some_and(|d| d <= now) {
            // A last bookmark lets the client resume without reading old events again.
            if self.next_bookmark.is_some() {
                self.pending.push_back(self.bookmark(false));
            }
            self.ended = true;
        } else if self.next_bookmark.is_some_and(|b| b <= now) {
            self.pending.push_back(self.bookmark(false));
            self.next_bookmark = Some(now + self.shared.bookmark_interval);
        }
    }

    /// A `BOOKMARK` event with the version of the cursor.
    fn bookmark(&self, ends_initial_events: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.cursor.to_string()});
        if ends_initial_events {
            crate::json::set(
                &mut metadata,
                &["annotations"],
                json!({"k8s.io/initial-events-end": "true"}),
            );
        }
        let object = self.view.bookmark(&self.resource, &metadata, self.shared.now());
        named_event_line("BOOKMARK", |out| out.extend_from_slice(object.to_string().as_bytes()))
    }
}

/// The event that a watch with this filter delivers: ADDED or DELETED for an object that starts or stops to match.
fn seen_through<'a>(filter: &Filter, event: &'a Event) -> Option<(Change, &'a Arc<Stored>)> {
    let is = filter.matches(&event.object);
    let was = event.previous.as_deref().is_some_and(|p| filter.matches(p));
    match (event.change, was, is) {
        (Change::Deleted, true, _) => Some((Change::Deleted, &event.object)),
        (Change::Deleted, false, _) | (_, false, false) => None,
        (_, false, true) => Some((Change::Added, &event.object)),
        (_, true, true) => Some((Change::Modified, &event.object)),
        (_, true, false) => Some((Change::Deleted, &event.object)),
    }
}
