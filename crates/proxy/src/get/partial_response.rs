//! Responses from an object stored in parts: whole, one or several ranges, or the head alone.
//! Missing parts are requested before the response begins, so that a different response can still
//! be sent if the origin's has changed.

use std::rc::Rc;

use http::header::HeaderMap;
use http::{Response, StatusCode};
use http_body::Body;
use semantics::range::ByteRange;
use semantics::{Portion, Seconds, StoredHead, partial};
use store::{Key, Source};
use upstream::connection::origin_body::OriginBody;

use crate::fill::state::Failed;
use crate::get::cache_request::{CacheRequest, NextAction, only_if_cached};
use crate::get::direct_fetch::FetchedResponse;
use crate::object::store::Store;
use crate::object::stored_response::StoredResponse;
use crate::observe::cache_status::{CacheStatus, Fwd};
use crate::observe::event::Event;
use crate::observe::outcome::{Bypass, Outcome};
use crate::partial::multipart_body::{MultipartBody, Whole};
use crate::partial::partial_body::PartsBody;
use crate::partial::partial_object::{PartialObject, Segment, SegmentOrigin, Unavailable};
use crate::partial::range_fetch::OtherResponse;
use crate::request::context::RequestContext;
use crate::response::builder::{BodyPart, ResponseParts};
use crate::response::response_body::{BodySource, ResponseBody};
use crate::response::transaction::Transaction;
use crate::response::{builder, error_response, pass_through};

/// Windows searched for missing bytes before a response begins. Missing bytes after them are
/// requested while the response is sent.
const AHEAD: u64 = 16;

/// Responds from the parts of `stored`.
pub(crate) struct PartialResponder<'a> {
    pub context: &'a RequestContext,
    pub store: &'a Store,
    pub primary: &'a Key,
    pub stored: &'a Rc<StoredResponse>,
    /// Replaces the object's own head after a validation.
    pub head: Option<&'a StoredHead>,
    pub age: Seconds,
    /// Status of the response; `None` derives it from the source of the bytes.
    pub status: Option<CacheStatus>,
    /// True if the origin's response in place of a part may replace the object. False if the object
    /// is such a response itself: an origin whose parts are shorter than they say would be asked
    /// without end.
    pub may_hand_over: bool,
}

#[expect(clippy::large_enum_variant, reason = "the large one is the usual one")]
pub(crate) enum Served {
    /// A response, or the action to take instead.
    Action(NextAction),
    /// Missing bytes cannot be combined with the stored ones, or must not be requested.
    Incomplete(Transaction),
}

/// The first missing byte, and the requested range that contains it.
#[derive(Clone, Copy)]
struct FirstMissing {
    from: u64,
    range: ByteRange,
}

impl PartialResponder<'_> {
    /// Responds, and asks the origin for missing bytes.
    pub async fn answer(&self, transaction: Transaction) -> Served {
        Box::pin(self.run(transaction, true)).await
    }

    /// Responds without asking the origin.
    pub async fn answer_alone(&self, transaction: Transaction) -> Served {
        Box::pin(self.run(transaction, false)).await
    }

    fn stored_head(&self) -> &StoredHead {
        self.head.unwrap_or(self.stored.head.stored())
    }

    async fn run(&self, mut transaction: Transaction, may_ask: bool) -> Served {
        let parts = PartialObject::of(self.context, self.store, self.primary, self.stored);
        let portion =
            self.context.portion(&self.stored_head().selected(), Some(parts.layout.length));
        let wanted = self.wanted(&portion, parts.layout.length);
        let (missing, source) = look(&parts, &wanted).await;
        let mut ahead = None;
        let mut status = CacheStatus::new(match source {
            Source::Ram => Outcome::HitRam,
            Source::Disk => Outcome::HitDisk,
        });
        if let Some(FirstMissing { from, range }) = missing {
            if !may_ask {
                return Served::Incomplete(transaction);
            }
            if let Some(why) = self.forbidden() {
                return Served::Action(why(self.context, transaction));
            }
            match parts.open(from, range.end).await {
                // The part that arrives cannot be combined with others.
                Ok(segment)
                    if !partial::combines(&parts.head)
                        && (segment.until < range.end || wanted.len() > 1) =>
                {
                    return Served::Incomplete(transaction);
                }
                Ok(segment) => {
                    if segment.from == SegmentOrigin::Fetched {
                        transaction.note_upstream(&parts.upstream_request);
                    }
                    status = match segment.from {
                        SegmentOrigin::Fetched => CacheStatus::new(Outcome::Miss).fwd(Fwd::Partial),
                        SegmentOrigin::Joined => CacheStatus::new(Outcome::HitFill),
                        SegmentOrigin::Stored(_) => status,
                    };
                    ahead = Some((from, segment));
                }
                // The stored bytes can serve only ranges within them.
                Err(_) if !partial::combines(&parts.head) => {
                    return Served::Incomplete(transaction);
                }
                Err(Unavailable::Other(other_response))
                    if self.may_hand_over
                        && self.is_an_answer(&other_response.response, &wanted) =>
                {
                    transaction.note_upstream(&parts.upstream_request);
                    return Served::Action(self.hand_over(*other_response, transaction).await);
                }
                Err(unavailable) => {
                    return Served::Action(respond_unavailable(unavailable, transaction));
                }
            }
        }
        self.count(status.outcome);
        let status = self.status.unwrap_or(status);
        Served::Action(self.reply(parts, portion, status, ahead, transaction))
    }

    /// Returns whether the origin's response in place of a part also answers the request itself:
    /// anything but a part, or exactly the part that the client requested.
    fn is_an_answer(&self, response: &Response<OriginBody>, wanted: &[ByteRange]) -> bool {
        match response.status() {
            StatusCode::PARTIAL_CONTENT => {
                let part = partial::read(response.headers(), response.body().size_hint().exact());
                self.context.facts.has_range && part.is_ok_and(|part| *wanted == [part.range])
            }
            StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::NOT_MODIFIED => false,
            status => !status.is_informational(),
        }
    }

    /// Sends the origin's response in place of a part, and stores it in place of the parts if
    /// permitted, so that the origin is asked only once (RFC 9110, 14.2: an origin may ignore
    /// `Range`).
    async fn hand_over(
        &self,
        other_response: OtherResponse,
        transaction: Transaction,
    ) -> NextAction {
        let (context, store, primary) = (self.context, self.store, self.primary);
        let place = (self.stored.key.clone(), self.stored.marker.clone());
        let status = CacheStatus::new(Outcome::Miss).fwd(Fwd::Partial);
        let OtherResponse { response, times, token, .. } = other_response;
        if token.overtaken() {
            // The response is not stored, so no part can be cut from it: a client that requested a
            // part looks up again.
            if context.facts.has_range && response.status() == StatusCode::OK {
                return NextAction::Retry(transaction);
            }
            let response = pass_through::relay_response(context, transaction, response, status);
            return NextAction::Respond(response);
        }
        let fetched = FetchedResponse { response, times, token, asking: None };
        let since = context.services.lookup_start();
        let (is_first, alone, may_hand_over) = (true, true, false);
        let cache_request =
            CacheRequest { context, store, primary, is_first, since, alone, may_hand_over };
        Box::pin(cache_request.keep(place, status, transaction, fetched)).await
    }

    /// Returns the action to take if the origin must not be asked for missing bytes.
    fn forbidden(&self) -> Option<fn(&RequestContext, Transaction) -> NextAction> {
        let directives = &self.context.facts.directives;
        if directives.only_if_cached {
            return Some(|context, transaction| {
                NextAction::Respond(only_if_cached(context, transaction))
            });
        }
        if directives.no_store {
            return Some(|_, transaction| NextAction::Bypass(transaction, Bypass::NoStore));
        }
        None
    }

    /// Returns the ranges of the body to send.
    fn wanted(&self, portion: &Portion, length: u64) -> Vec<ByteRange> {
        match portion {
            _ if self.context.facts.is_head => Vec::new(),
            Portion::Whole => vec![ByteRange { start: 0, end: length }],
            Portion::Part(part) => vec![*part],
            Portion::Parts(parts) => parts.clone(),
            Portion::NotModified | Portion::Unsatisfiable => Vec::new(),
        }
    }

    fn count(&self, outcome: Outcome) {
        let event = match outcome {
            Outcome::HitRam => Event::MemoryHit,
            Outcome::HitDisk => Event::DiskHit,
            Outcome::HitFill => Event::FollowerJoined,
            _ => Event::CacheMiss,
        };
        self.context.services.observer.count(event, 1);
    }

    fn reply(
        &self,
        parts: Rc<PartialObject>,
        portion: Portion,
        status: CacheStatus,
        mut ahead: Option<(u64, Segment)>,
        transaction: Transaction,
    ) -> NextAction {
        let head = self.stored_head();
        let mut fields: HeaderMap = head.reply_headers(self.age);
        self.context.make_own(&mut fields);
        let status = status.ttl(head.packed().ttl(self.context.now()));
        status.append_to(transaction.pseudonym(), &mut fields);
        let length = parts.layout.length;
        let body = move |wanted| {
            let whole = ByteRange { start: 0, end: length };
            let range = match wanted {
                BodyPart::Whole => whole,
                BodyPart::Part(part) => part,
                BodyPart::Parts(frame) => {
                    let body = MultipartBody::new(Whole::Sparse(parts), frame);
                    return BodySource::Multipart(Box::new(body));
                }
            };
            BodySource::Parts(Box::new(PartsBody::new(parts, range, ahead.take())))
        };
        let response = ResponseParts {
            status: StatusCode::OK,
            fields,
            spellings: head.spellings().clone(),
            portion,
            length: Some(length),
            body: Box::new(body),
        };
        let method = &self.context.head.method;
        NextAction::Respond(builder::build(method, transaction, status.outcome, response))
    }
}

/// Finds the first requested byte that is missing. Returns it, and the source of the bytes before
/// it.
async fn look(parts: &PartialObject, wanted: &[ByteRange]) -> (Option<FirstMissing>, Source) {
    let mut source = None;
    let mut left = AHEAD;
    for range in wanted {
        let mut at = range.start;
        while at < range.end && left > 0 {
            left -= 1;
            let Some(segment) = parts.stored(at, range.end).await else {
                let missing = FirstMissing { from: at, range: *range };
                return (Some(missing), source.unwrap_or(Source::Ram));
            };
            if let SegmentOrigin::Stored(from) = segment.from {
                // A single device read makes the response a disk hit.
                source = source.filter(|source| *source == Source::Disk).or(Some(from));
            }
            at = segment.until;
        }
    }
    (None, source.unwrap_or(Source::Ram))
}

fn respond_unavailable(unavailable: Unavailable, transaction: Transaction) -> NextAction {
    match unavailable {
        Unavailable::Other(other_response) if !other_response.changed => {
            NextAction::Bypass(transaction, Bypass::Range)
        }
        Unavailable::Changed | Unavailable::Other(_) => NextAction::Retry(transaction),
        Unavailable::Refused => NextAction::Bypass(transaction, Bypass::Range),
        Unavailable::Failed(failed) => NextAction::Respond(failed_answer(&failed, transaction)),
    }
}

/// Returns the response to a request whose fetch failed.
pub(crate) fn failed_answer(failed: &Failed, transaction: Transaction) -> Response<ResponseBody> {
    let (outcome, text) = match failed.denied {
        Some(denied) => (Outcome::Denied(denied), failed.text.clone()),
        None => {
            (Outcome::Error(failed.reason), transaction.failure_text(failed.reason, &failed.text))
        }
    };
    error_response::plain(transaction, failed.status, outcome, text)
}
