//! The bodies of our answers as hyper takes them. One type for all, so that a connection is one
//! concrete future; around the source of the bytes lies the account of the request, which is
//! closed when hyper drops the body: after its last byte, or when the client is gone.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::body::fill_body::FillBody;
use crate::body::stored_body::{EntryBody, TrailedBody};
use crate::fill::store_lease::{Need, Needs};
use crate::message::cut_short::CutShort;
use crate::observe::outcome::Error;
use crate::partial::multipart_body::MultipartBody;
use crate::partial::partial_body::PartsBody;
use crate::response::transaction::Account;
use crate::response::tunnel::Tunnel;
use crate::upstream::response_body::UpstreamBody;

/// Where an answer's bytes come from.
pub(crate) enum Source {
    /// Nowhere: no body, or one that the head alone describes (HEAD, 304).
    Empty,
    /// One piece in memory; taken when it is sent.
    Whole(Bytes),
    /// Straight from the upstream.
    Upstream(UpstreamBody),
    /// A stored object, or a range of one.
    Entry(Box<EntryBody>),
    /// A stored object with trailers.
    Trailed(Box<TrailedBody>),
    /// Several ranges of a stored object.
    Multipart(Box<MultipartBody>),
    /// A running fill.
    Fill(Box<FillBody>),
    /// An object that is there in parts, or a range of one.
    Parts(Box<PartsBody>),
}

impl Source {
    /// How the store is needed for it.
    fn need(&self, needs: &Rc<Needs>) -> Option<Need> {
        match self {
            Source::Entry(body) if body.has_rescue() => Some(needs.briefly()),
            Source::Entry(_) | Source::Multipart(_) | Source::Parts(_) => Some(needs.firmly()),
            Source::Trailed(body) => body.is_read().then(|| needs.firmly()),
            Source::Fill(body) => body.stored_fill().map(|fill| needs.following(fill)),
            Source::Empty | Source::Whole(_) | Source::Upstream(_) => None,
        }
    }
}

/// The body of an answer.
pub(crate) struct AnswerBody {
    source: Source,
    /// `None` for a tunnel, whose account goes on.
    account: Option<Account>,
    /// Why the body broke off, until hyper is told.
    broken: Option<CutShort>,
    /// Keeps the store, where it is read from.
    _need: Option<Need>,
    /// What opens behind this answer.
    tunnel: Option<Box<Tunnel>>,
}

impl AnswerBody {
    pub fn new(source: Source, account: Account) -> AnswerBody {
        let _need = source.need(account.needs());
        let mut body =
            AnswerBody { source, account: Some(account), broken: None, _need, tunnel: None };
        if body.is_end_stream() {
            body.ended();
        } else if let (Some(account), None) = (&body.account, body.size_hint().exact()) {
            account.length_is_unknown();
        }
        body
    }

    /// What is sent before a tunnel opens: nothing.
    pub fn of_tunnel(tunnel: Tunnel) -> AnswerBody {
        let tunnel = Some(Box::new(tunnel));
        AnswerBody { source: Source::Empty, account: None, broken: None, _need: None, tunnel }
    }

    /// The tunnel that opens behind this answer.
    pub fn take_tunnel(&mut self) -> Option<Tunnel> {
        self.tunnel.take().map(|tunnel| *tunnel)
    }

    fn ended(&mut self) {
        if let Some(account) = &mut self.account {
            account.ended();
        }
    }

    fn poll_source(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        let AnswerBody { source, account, .. } = self;
        let mut broke = |why| {
            if let Some(account) = account {
                account.broke(why);
            }
        };
        let stored = |next: Option<Result<Bytes, CutShort>>| next.map(|b| b.map(Frame::data));
        Poll::Ready(match source {
            Source::Empty => None,
            Source::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *source = Source::Empty;
                Some(Ok(Frame::data(bytes)))
            }
            Source::Entry(body) => stored(ready!(body.poll(cx))).inspect(|next| {
                if next.is_err() {
                    broke(Error::Store);
                }
            }),
            Source::Trailed(body) => ready!(body.poll(cx)).inspect(|next| {
                if next.is_err() {
                    broke(Error::Store);
                }
            }),
            Source::Multipart(body) => stored(ready!(body.poll(cx))).inspect(|next| {
                if next.is_err() {
                    broke(Error::Store);
                }
            }),
            Source::Fill(body) => ready!(body.poll(cx)).map(|frame| {
                frame.map_err(|why| {
                    broke(why);
                    CutShort("the fill broke off")
                })
            }),
            Source::Parts(body) => ready!(body.poll(cx)).map(|bytes| {
                bytes.map(Frame::data).map_err(|why| {
                    broke(why);
                    CutShort("a part could not be had")
                })
            }),
            Source::Upstream(body) => ready!(Pin::new(body).poll_frame(cx)).map(|frame| {
                frame.map_err(|error| {
                    broke(error.reason());
                    CutShort("the upstream's body ended early")
                })
            }),
        })
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = CutShort;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        let this = self.get_mut();
        if let Some(broken) = this.broken.take() {
            return Poll::Ready(Some(Err(broken)));
        }
        let polled = this.poll_source(cx);
        if let Some(account) = &mut this.account {
            account.waits_for_client(polled.is_ready());
        }
        let frame = ready!(polled);
        if let Some(Err(broken)) = frame {
            // An error makes hyper drop what it has not written yet. It writes when there is
            // nothing to take: so the head and what arrived before the break go out first.
            this.broken = Some(broken);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match &frame {
            Some(Ok(frame)) => {
                if let Some(account) = &mut this.account {
                    account.sent(frame.data_ref().map_or(0, |data| data.len() as u64));
                }
                // hyper asks no more when it knows that this was the last.
                if this.is_end_stream() {
                    this.ended();
                }
            }
            Some(Err(_)) => {}
            None => this.ended(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Empty => true,
            Source::Whole(bytes) => bytes.is_empty(),
            Source::Upstream(body) => body.is_end_stream(),
            Source::Entry(body) => body.left() == 0,
            Source::Trailed(body) => body.is_done(),
            Source::Multipart(body) => body.left() == 0,
            Source::Fill(body) => body.left() == Some(0),
            Source::Parts(body) => body.left() == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Empty => SizeHint::with_exact(0),
            Source::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Upstream(body) => body.size_hint(),
            Source::Entry(body) => SizeHint::with_exact(body.left()),
            Source::Multipart(body) => SizeHint::with_exact(body.left()),
            Source::Parts(body) => SizeHint::with_exact(body.left()),
            Source::Fill(body) => body.left().map_or_else(SizeHint::default, SizeHint::with_exact),
            // With a length hyper would send no trailers.
            Source::Trailed(_) => SizeHint::default(),
        }
    }
}
