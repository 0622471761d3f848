//! How long a client waits for an answer. A request that a load balancer or a dying server swallows gets none, and its caller may hold a lock
//! or be the only worker of a controller.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;
use tower::BoxError;

/// The longest wait for the head of an answer, and for the next part of its body.
///
/// Admission webhooks may take 10 s each by default and 30 s at most, and an answer comes after all of them. A list sends its head before its
/// items: API servers need seconds to encode 60,000 pods at once, and Kerf reads pods in pages of 500.
pub(super) const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);

/// No answer came, or it stopped before its end. Whether the server did what it was asked is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerTimeout {
    /// The head did not come.
    #[error("no answer from the API server within {} s", ANSWER_WAIT_MAX.as_secs())]
    Head,
    /// A part of the body did not come.
    #[error("the API server stopped in the middle of an answer, no more came within {} s", ANSWER_WAIT_MAX.as_secs())]
    Body,
}

/// The body of an answer. Unless it belongs to a watch, it fails if nothing comes for [`ANSWER_WAIT_MAX`].
#[derive(Debug)]
pub struct AnswerBody<B> {
    inner: Pin<Box<B>>,
    is_limited: bool,
    /// Runs while the reader waits for the next part.
    wait: Option<Pin<Box<Sleep>>>,
}

impl<B> AnswerBody<B> {
    pub(super) fn new(inner: B, is_limited: bool) -> Self {
        Self {
            inner: Box::pin(inner),
            is_limited,
            wait: None,
        }
    }
}

impl<B> Body for AnswerBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = self.inner.as_mut().poll_frame(context) {
            self.wait = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        if !self.is_limited {
            return Poll::Pending;
        }
        let wait = self
            .wait
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(ANSWER_WAIT_MAX)));
        ready!(wait.as_mut().poll(context));
        Poll::Ready(Some(Err(AnswerTimeout::Body.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
