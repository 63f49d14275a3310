//! Response bodies. One type serves all sources, so that a connection is one concrete future. A
//! body owns the transaction, which closes when the body is dropped: after the last byte was sent,
//! or when the client is gone.

use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use crate::message::cut_short::Truncated;
use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use semantics::Spellings;
use upstream::connection::origin_body::OriginBody;
use upstream::connection::send_file::Sent;

use crate::body::fill_body::FillBody;
use crate::body::relayed_body::{Relay, RelayedBody};
use crate::body::stored_body::{EntryBody, TrailedBody};
use crate::object::store_lease::{Lease, Leases};
use crate::observe::outcome::{Error, Outcome};
use crate::partial::multipart_body::MultipartBody;
use crate::partial::partial_body::PartsBody;
use crate::request::held::Held;
use crate::response::paced_body::{NextFrame, PacedBody};
use crate::response::stored_fields::StoredFields;
use crate::response::transaction::Transaction;
use crate::response::tunnel::Tunnel;
use crate::rules::client_edits::FilledEdits;

#[derive(Default)]
pub(crate) enum BodySource {
    /// No body, or a body that only the head describes (HEAD, 304).
    #[default]
    Empty,
    /// One piece in memory, taken when it is sent.
    Whole(Bytes),
    /// Directly from the upstream: the body has arrived completely, is empty, or is a local file.
    Upstream(OriginBody),
    /// From the upstream, at the upstream's speed.
    Relayed(Box<RelayedBody>),
    /// A stored object, or a range of one.
    Entry(Box<EntryBody>),
    /// A stored object with trailers.
    Trailed(Box<TrailedBody>),
    /// Several ranges of a stored object.
    Multipart(Box<MultipartBody>),
    Fill(Box<FillBody>),
    /// An object that is stored in parts, or a range of one.
    Parts(Box<PartsBody>),
    /// Another source, at a limited bandwidth.
    Paced(Box<PacedBody<BodySource>>),
}

impl BodySource {
    /// Returns the source of an upstream's body that is for one client alone. A local file is not
    /// relayed, because it holds no origin connection.
    pub fn of_upstream(body: OriginBody, relay: impl FnOnce() -> Relay) -> BodySource {
        match body.is_end_stream() || body.is_file() || body.whole_length().is_some() {
            true => BodySource::Upstream(body),
            false => BodySource::Relayed(Box::new(RelayedBody::new(body, relay()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            BodySource::Empty => true,
            BodySource::Whole(bytes) => bytes.is_empty(),
            BodySource::Upstream(body) => body.is_end_stream(),
            BodySource::Relayed(body) => body.is_end_stream(),
            BodySource::Entry(body) => body.left() == 0,
            BodySource::Trailed(body) => body.is_done(),
            BodySource::Multipart(body) => body.left() == 0,
            BodySource::Fill(body) => body.left() == Some(0),
            BodySource::Parts(body) => body.left() == 0,
            BodySource::Paced(body) => body.bytes.is_empty() && body.source.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            BodySource::Empty => SizeHint::with_exact(0),
            BodySource::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodySource::Upstream(body) => body.size_hint(),
            BodySource::Relayed(body) => {
                body.left().map_or_else(SizeHint::default, SizeHint::with_exact)
            }
            BodySource::Entry(body) => SizeHint::with_exact(body.left()),
            BodySource::Multipart(body) => SizeHint::with_exact(body.left()),
            BodySource::Parts(body) => SizeHint::with_exact(body.left()),
            BodySource::Fill(body) => {
                body.left().map_or_else(SizeHint::default, SizeHint::with_exact)
            }
            BodySource::Paced(body) => {
                let left = body.source.size_hint().exact();
                let left = left.map(|left| left + body.bytes.len() as u64);
                left.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
            // Trailers are sent only without a length.
            BodySource::Trailed(_) => SizeHint::default(),
        }
    }

    /// Takes the store lease that the source needs.
    fn lease(&self, leases: &Rc<Leases>) -> Option<Lease> {
        match self {
            BodySource::Entry(body) if body.has_rescue() => Some(leases.lease_until_grace()),
            BodySource::Entry(_) | BodySource::Multipart(_) | BodySource::Parts(_) => {
                Some(leases.lease_until_done())
            }
            BodySource::Trailed(body) => body.is_read().then(|| leases.lease_until_done()),
            BodySource::Fill(body) => body.stored_fill().map(|fill| leases.following(fill.clone())),
            BodySource::Empty
            | BodySource::Whole(_)
            | BodySource::Upstream(_)
            | BodySource::Relayed(_)
            | BodySource::Paced(_) => None,
        }
    }
}

/// Parts of a body that few responses have.
#[derive(Default)]
struct Extra {
    /// The tunnel that opens after this response.
    tunnel: Option<Box<Tunnel>>,
    /// The permits of the request.
    _held: Option<Box<Held>>,
}

/// Body of a response, with its source and transaction.
#[derive(Default)]
pub(crate) struct ResponseBody {
    source: BodySource,
    /// `None` for a tunnel, which owns the transaction.
    transaction: Option<Transaction>,
    /// Keeps the store open for the source.
    _lease: Option<Lease>,
    /// Parts that few responses have.
    extra: Option<Box<Extra>>,
    /// The response's fields, if they are sent in their stored form.
    stored_fields: Option<StoredFields>,
    /// The spelling of the other field names.
    spellings: Spellings,
}

impl ResponseBody {
    pub fn new(source: BodySource, transaction: Transaction) -> ResponseBody {
        let _lease = source.lease(transaction.leases());
        let mut body = ResponseBody {
            source,
            transaction: Some(transaction),
            _lease,
            extra: None,
            stored_fields: None,
            spellings: Spellings::LOWER_CASE,
        };
        if body.is_end_stream() {
            body.ended();
        } else if let (Some(transaction), None) = (&body.transaction, body.size_hint().exact()) {
            transaction.note_unknown_length();
        }
        body
    }

    /// Makes the empty body of a response that a tunnel follows.
    pub fn of_tunnel(tunnel: Tunnel) -> ResponseBody {
        let extra = Extra { tunnel: Some(Box::new(tunnel)), _held: None };
        ResponseBody { extra: Some(Box::new(extra)), ..ResponseBody::default() }
    }

    /// Sets the spelling of the response's field names, for HTTP/1.
    pub fn with_spellings(self, spellings: Spellings) -> ResponseBody {
        ResponseBody { spellings, ..self }
    }

    /// Returns the spelling of the response's field names.
    pub fn spellings(&self) -> &Spellings {
        &self.spellings
    }

    /// Sets the response's fields to stored ones.
    pub fn with_stored_fields(self, fields: StoredFields) -> ResponseBody {
        ResponseBody { stored_fields: Some(fields), ..self }
    }

    /// Returns whether the response's fields are stored ones and one has any of these names, in
    /// lower case.
    pub fn has_stored_field(&self, names: &[&str]) -> bool {
        self.stored_fields.as_ref().is_some_and(|fields| fields.has_any(names))
    }

    /// Returns whether the response's fields are stored ones.
    pub fn has_stored_fields(&self) -> bool {
        self.stored_fields.is_some()
    }

    /// Returns whether the response's fields are stored ones and an error page may replace it.
    pub fn may_get_page(&self) -> bool {
        let edits = self.stored_fields.as_ref().and_then(|fields| fields.edits.as_ref());
        edits.is_some_and(FilledEdits::has_pages)
    }

    /// Returns the stored `Content-Type`, if the response's fields are stored ones.
    pub fn stored_content_type(&self) -> Option<&[u8]> {
        self.stored_fields.as_ref()?.value(&http::header::CONTENT_TYPE)
    }

    /// Takes the response's fields, if they are stored ones.
    pub fn take_stored_fields(&mut self) -> Option<StoredFields> {
        self.stored_fields.take()
    }

    /// Records that the response begins now, and the size of its head in bytes.
    pub fn note_head(&mut self, bytes: impl FnOnce() -> u64) {
        if let Some(transaction) = &mut self.transaction {
            transaction.note_head(bytes);
        }
    }

    /// Returns the outcome of the request, unless a tunnel opens.
    pub fn outcome(&self) -> Option<Outcome> {
        self.transaction.as_ref().map(Transaction::outcome)
    }

    /// Returns the body from another source, for a response with this head.
    pub fn replaced(
        mut self,
        source: BodySource,
        status: StatusCode,
        fields: &HeaderMap,
    ) -> ResponseBody {
        let Some(mut transaction) = self.transaction.take() else { return self };
        transaction.note_answer(status, transaction.outcome(), fields);
        ResponseBody::new(source, transaction)
    }

    /// Takes the tunnel that opens after this response.
    pub fn take_tunnel(&mut self) -> Option<Box<Tunnel>> {
        self.extra.as_mut()?.tunnel.take()
    }

    /// Keeps the permits of the request until the body is dropped, and sends it at the bandwidth
    /// that they allow.
    pub fn hold(&mut self, mut held: Box<Held>) {
        for pacer in held.pacers.drain(..) {
            if !self.is_end_stream() {
                let source = std::mem::replace(&mut self.source, BodySource::Empty);
                self.source = BodySource::Paced(Box::new(PacedBody::new(source, pacer)));
            }
        }
        self.extra.get_or_insert_default()._held = Some(held);
    }

    /// Returns the body's length in bytes, if it is not empty and has arrived completely.
    pub fn whole_length(&self) -> Option<u64> {
        match &self.source {
            BodySource::Whole(bytes) => Some(bytes.len() as u64),
            BodySource::Upstream(body) => body.whole_length(),
            _ => None,
        }
    }

    /// Takes the body if it has arrived completely. It then counts as sent.
    pub fn take_whole(&mut self) -> Option<Bytes> {
        self.whole_length()?;
        let bytes = match &mut self.source {
            BodySource::Whole(bytes) => std::mem::take(bytes),
            BodySource::Upstream(body) => body.take_whole()?,
            _ => return None,
        };
        if let Some(transaction) = &mut self.transaction {
            transaction.count_sent(bytes.len() as u64);
            transaction.note_whole();
        }
        Some(bytes)
    }

    /// Records that the response ends with its head and is therefore complete.
    pub fn end_with_head(&mut self) {
        self.ended();
    }

    /// Returns whether the kernel can send the body from a file; see
    /// [`OriginBody::prefers_kernel`].
    pub fn prefers_kernel(&mut self) -> bool {
        match &mut self.source {
            BodySource::Upstream(body) => body.prefers_kernel(),
            _ => false,
        }
    }

    /// Has the kernel send the next bytes to `socket`; see [`OriginBody::poll_send`].
    pub fn poll_send(&mut self, cx: &mut Context<'_>, socket: BorrowedFd<'_>) -> Poll<Sent> {
        let BodySource::Upstream(body) = &mut self.source else {
            return Poll::Ready(Sent::Frames);
        };
        let sent = ready!(body.poll_send(cx, socket));
        if let (Sent::Bytes(bytes), Some(transaction)) = (sent, &mut self.transaction) {
            transaction.count_sent(bytes);
        }
        Poll::Ready(sent)
    }

    fn ended(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.note_whole();
        }
    }

    fn poll_source(
        source: &mut BodySource,
        transaction: &mut Option<Transaction>,
        cx: &mut Context<'_>,
    ) -> Poll<NextFrame> {
        if let BodySource::Paced(body) = source {
            return body.poll(cx, |source, cx| Self::poll_source(source, transaction, cx));
        }
        let mut broke = |why| {
            if let Some(transaction) = transaction {
                transaction.note_broken(why);
            }
        };
        let stored = |next: Option<Result<Bytes, Truncated>>| next.map(|b| b.map(Frame::data));
        Poll::Ready(match source {
            BodySource::Empty | BodySource::Paced(_) => None,
            BodySource::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *source = BodySource::Empty;
                Some(Ok(Frame::data(bytes)))
            }
            BodySource::Entry(body) => stored(ready!(body.poll(cx))).inspect(|next| {
                if next.is_err() {
                    broke(Error::Store);
                }
            }),
            BodySource::Trailed(body) => ready!(body.poll(cx)).inspect(|next| {
                if next.is_err() {
                    broke(Error::Store);
                }
            }),
            BodySource::Multipart(body) => stored(ready!(body.poll(cx))).inspect(|next| {
                if next.is_err() {
                    broke(Error::Store);
                }
            }),
            BodySource::Fill(body) => ready!(body.poll(cx)).map(|frame| {
                frame.map_err(|why| {
                    broke(why);
                    Truncated("the fill broke off")
                })
            }),
            BodySource::Parts(body) => ready!(body.poll(cx)).map(|bytes| {
                bytes.map(Frame::data).map_err(|why| {
                    broke(why);
                    Truncated("a part could not be fetched")
                })
            }),
            BodySource::Relayed(body) => ready!(body.poll(cx)).map(|frame| {
                frame.map_err(|why| {
                    broke(why);
                    Truncated("the upstream's body ended early")
                })
            }),
            BodySource::Upstream(body) => ready!(Pin::new(body).poll_frame(cx)).map(|frame| {
                frame.map_err(|error| {
                    broke(error.reason().into());
                    Truncated("the upstream's body ended early")
                })
            }),
        })
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        let this = self.get_mut();
        let polled = Self::poll_source(&mut this.source, &mut this.transaction, cx);
        if let Some(transaction) = &mut this.transaction {
            transaction.note_waiting(polled.is_ready());
        }
        let frame = ready!(polled);
        match &frame {
            Some(Ok(frame)) => {
                if let Some(transaction) = &mut this.transaction {
                    transaction.count_sent(frame.data_ref().map_or(0, |data| data.len() as u64));
                }
                // A sender stops polling after the last frame; trailers are always last.
                if frame.is_trailers() || this.is_end_stream() {
                    this.ended();
                }
            }
            Some(Err(_)) => {}
            None => this.ended(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.source.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.source.size_hint()
    }
}
