//! Response bodies with watch outages, delayed events and dropped events.

use super::layer::BoxError;
use super::switch::Faults;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

const GONE: &str = concat!(
    r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
    r#""reason":"Expired","code":410,"message":"injected fault: too old resource version"}}"#,
    "\n"
);

/// The planned outage of one watch.
#[derive(Debug)]
pub(super) struct WatchOutage {
    /// From the start of the watch to its end.
    after: Duration,
    /// Whether the watch ends with 410 Gone; otherwise the connection just breaks.
    gone: bool,
}

impl WatchOutage {
    pub(super) fn new(after: Duration, gone: bool) -> Self {
        Self { after, gone }
    }
}

/// The body of a response that passed a [`super::FaultLayer`].
pub struct FaultBody {
    inner: UnsyncBoxBody<Bytes, BoxError>,
    end: Option<Pin<Box<Sleep>>>,
    gone: bool,
    ended: bool,
    killed: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Of a watch: its delayed events.
    events: Option<DelayedEvents>,
}

/// Watch events that wait for their delayed delivery.
struct DelayedEvents {
    plural: String,
    faults: Faults,
    /// In order, with the time of delivery.
    late: VecDeque<(Instant, Frame<Bytes>)>,
    next: Pin<Box<Sleep>>,
    closed: bool,
}

impl DelayedEvents {
    fn poll(
        &mut self,
        inner: &mut UnsyncBoxBody<Bytes, BoxError>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        while !self.closed {
            match Pin::new(&mut *inner).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match self.faults.watch_event(&self.plural) {
                    Some(lag) if lag.is_zero() && self.late.is_empty() => return Poll::Ready(Some(Ok(frame))),
                    Some(lag) => {
                        // Events keep their order.
                        let last = self.late.back().map_or_else(Instant::now, |(at, _)| *at);
                        self.late.push_back((last.max(Instant::now() + lag), frame));
                    }
                    None => {}
                },
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => self.closed = true,
                Poll::Pending => break,
            }
        }
        match self.late.front() {
            None if self.closed => Poll::Ready(None),
            None => Poll::Pending,
            Some((at, _)) => {
                if self.next.deadline() != *at {
                    self.next.as_mut().reset(*at);
                }
                std::task::ready!(self.next.as_mut().poll(context));
                Poll::Ready(self.late.pop_front().map(|(_, frame)| Ok(frame)))
            }
        }
    }
}

impl std::fmt::Debug for FaultBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultBody")
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl FaultBody {
    pub(super) fn from_body<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self {
            inner: body.map_err(Into::into).boxed_unsync(),
            end: None,
            gone: false,
            ended: false,
            killed: None,
            events: None,
        }
    }

    pub(super) fn whole(bytes: Bytes) -> Self {
        Self::from_body(Full::new(bytes))
    }

    /// A watch that may end early, whose events may be late or lost, and that falls silent when the client is killed.
    pub(super) fn watch(mut self, plural: String, end: Option<WatchOutage>, faults: Faults) -> Self {
        if let Some(end) = end {
            self.end = Some(Box::pin(tokio::time::sleep(end.after)));
            self.gone = end.gone;
        }
        self.killed = Some(Box::pin(faults.killed().cancelled_owned()));
        self.events = Some(DelayedEvents {
            plural,
            faults,
            late: VecDeque::new(),
            next: Box::pin(tokio::time::sleep(Duration::ZERO)),
            closed: false,
        });
        self
    }
}

impl Body for FaultBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        if let Some(killed) = &mut this.killed
            && killed.as_mut().poll(context).is_ready()
        {
            this.killed = None;
            this.end = None;
            // A killed client receives nothing more, not even the end of the stream.
            this.inner = HangingBody.boxed_unsync();
            this.events = None;
        }
        if let Some(end) = &mut this.end
            && end.as_mut().poll(context).is_ready()
        {
            this.ended = true;
            return Poll::Ready(this.gone.then(|| Ok(Frame::data(Bytes::from_static(GONE.as_bytes())))));
        }
        match &mut this.events {
            Some(events) => events.poll(&mut this.inner, context),
            None => Pin::new(&mut this.inner).poll_frame(context),
        }
    }

    fn size_hint(&self) -> SizeHint {
        if self.killed.is_some() {
            SizeHint::default()
        } else {
            self.inner.size_hint()
        }
    }

    fn is_end_stream(&self) -> bool {
        let waiting = self.events.as_ref().is_some_and(|events| !events.late.is_empty());
        self.ended || (!waiting && self.inner.is_end_stream())
    }
}

/// A body that never yields a frame and never ends.
struct HangingBody;

impl Body for HangingBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Pending
    }
}
