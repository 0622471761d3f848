//! Response bodies: whole answers, lists as shared pieces, watch streams.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::Stream;
use http_body::{Body, Frame, SizeHint};

/// The body of every answer of the server.
pub struct ResponseBody(Inner);

enum Inner {
    /// A complete body in pieces. A list shares the stored bytes of its objects, so a large list is not copied.
    Pieces(VecDeque<Bytes>),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl ResponseBody {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Pieces(VecDeque::from([bytes.into()])))
    }

    pub(crate) fn pieces(pieces: VecDeque<Bytes>) -> Self {
        Self(Inner::Pieces(pieces))
    }

    pub(crate) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Inner::Stream(Box::pin(stream)))
    }
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Inner::Pieces(pieces) => f.debug_tuple("Pieces").field(&pieces.len()).finish(),
            Inner::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Inner::Pieces(pieces) => Poll::Ready(pieces.pop_front().map(|b| Ok(Frame::data(b)))),
            Inner::Stream(stream) => stream
                .as_mut()
                .poll_next(cx)
                .map(|item| item.map(|b| Ok(Frame::data(b)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Inner::Pieces(pieces) if pieces.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Pieces(pieces) => SizeHint::with_exact(pieces.iter().map(|b| b.len() as u64).sum()),
            Inner::Stream(_) => SizeHint::new(),
        }
    }
}
