//! Response bodies that break off.

use super::{BoxError, Faults};
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

/// How a watch ends before its time.
#[derive(Debug)]
pub(super) struct WatchEnd {
    life: Duration,
    gone: bool,
}

impl WatchEnd {
    pub(super) fn new(life: Duration, gone: bool) -> Self {
        Self { life, gone }
    }
}

/// The body of an answer that passed a [`super::FaultLayer`].
pub struct FaultBody {
    inner: UnsyncBoxBody<Bytes, BoxError>,
    end: Option<Pin<Box<Sleep>>>,
    gone: bool,
    ended: bool,
    killed: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Of a watch: what its events suffer.
    events: Option<Events>,
}

/// Events on their way.
struct Events {
    plural: String,
    faults: Faults,
    /// In order, with the time they are told.
    late: VecDeque<(Instant, Frame<Bytes>)>,
    next: Pin<Box<Sleep>>,
    closed: bool,
}

impl Events {
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
                        // Never before the one before it.
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
    pub(super) fn of<B>(body: B) -> Self
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
        Self::of(Full::new(bytes))
    }

    /// A watch that may end early, whose events may be late or lost, and that falls silent when the client is killed.
    pub(super) fn watch(mut self, plural: String, end: Option<WatchEnd>, faults: Faults) -> Self {
        if let Some(end) = end {
            self.end = Some(Box::pin(tokio::time::sleep(end.life)));
            self.gone = end.gone;
        }
        self.killed = Some(Box::pin(faults.killed().cancelled_owned()));
        self.events = Some(Events {
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
            // A dead client hears nothing more, not even the end.
            this.inner = Silence.boxed_unsync();
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

/// A body that never comes.
struct Silence;

impl Body for Silence {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Pending
    }
}
