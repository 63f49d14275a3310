//! The bodies of our answers as hyper takes them. One type for all, so that a connection is one
//! concrete future; around the source of the bytes lies the account of the request, which is
//! closed when hyper drops the body: after its last byte, or when the client is gone.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::account::Account;
use crate::upstream::UpstreamBody;

/// Where an answer's bytes come from.
pub(crate) enum Source {
    /// Nowhere: no body, or one that the head alone describes (HEAD, 304).
    Empty,
    /// One piece in memory; taken when it is sent.
    Whole(Bytes),
    /// Straight from the upstream.
    Upstream(UpstreamBody),
}

/// The body of an answer.
pub(crate) struct AnswerBody {
    source: Source,
    account: Account,
}

/// The transfer has to be cut: hyper closes the connection without a clean end.
#[derive(Debug)]
pub(crate) struct CutShort(pub &'static str);

impl std::fmt::Display for CutShort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for CutShort {}

impl AnswerBody {
    pub fn new(source: Source, account: Account) -> AnswerBody {
        AnswerBody { source, account }
    }

    pub fn empty(account: Account) -> AnswerBody {
        AnswerBody { source: Source::Empty, account }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = CutShort;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        let AnswerBody { source, account } = self.get_mut();
        let frame = match source {
            Source::Empty => None,
            Source::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *source = Source::Empty;
                Some(Ok(Frame::data(bytes)))
            }
            Source::Upstream(body) => ready!(Pin::new(body).poll_frame(cx)).map(|frame| {
                frame.map_err(|error| {
                    account.upstream_broke(&error);
                    CutShort("the upstream's body ended early")
                })
            }),
        };
        match &frame {
            Some(Ok(frame)) => account.sent(frame.data_ref().map_or(0, |data| data.len() as u64)),
            Some(Err(_)) => {}
            None => account.ended(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Empty => true,
            Source::Whole(bytes) => bytes.is_empty(),
            Source::Upstream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Empty => SizeHint::with_exact(0),
            Source::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Upstream(body) => body.size_hint(),
        }
    }
}
