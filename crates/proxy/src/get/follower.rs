//! A client at a fill: it waits for the head, sees whether the answer is for it, and streams.
//!
//! It promises: no follower gets a byte of an answer that is not to be shared, is of another
//! variant, or is not what its own request permits. Who came before the head may have what was
//! fresh when it was asked for, also when it became stale on its way: to ask again would bring
//! nothing younger to whoever asks then (RFC 9111, 4). Who came later gets what is fresh now.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use http::header::HeaderMap;
use http::{Method, StatusCode, header};
use message::informational::Informational;
use semantics::reuse::{Cause, Reuse, StalePermit};
use semantics::validators::Selected;
use semantics::{Portion, Seconds, hop_by_hop, reuse};
use store::Key;

use crate::body::fill_body::FillBody;
use crate::body::resume::Resume;
use crate::fill::registry::HitForMiss;
use crate::fill::state::{Failed, Fill, FillHead, Reader, SparseStage, Stage, Validated};
use crate::get::cache_request::{StaleHit, Step};
use crate::get::partial_response;
use crate::get::partial_response::{PartialResponder, Served};
use crate::object::stored_response;
use crate::object::stored_response::{Store, StoredResponse};
use crate::observe::cache_status::CacheStatus;
use crate::observe::outcome::{Bypass, Error, Outcome, Stale};
use crate::request::context::RequestContext;
use crate::response::builder;
use crate::response::builder::{BodyPart, ResponseParts};
use crate::response::pass_through::relay;
use crate::response::response_body::BodySource;
use crate::response::transaction::Transaction;

/// Who began the fill.
pub(crate) enum Role {
    /// This request: it gets whatever comes, 1xx included.
    Leader {
        /// Where the 1xx answers come.
        interim: Option<Arc<Informational>>,
        /// The range of this request is what is fetched.
        ranged: bool,
    },
    /// Another one.
    Follower,
}

/// See the module.
pub(crate) struct Follower<'a> {
    pub visit: &'a RequestContext<'a>,
    pub store: &'a Store,
    pub primary: &'a Key,
    /// The key under which this request looked.
    pub key: Key,
    pub role: Role,
    pub outdated: Option<StaleHit>,
    /// Of a miss.
    pub status: CacheStatus,
    /// The request has waited for no other fetch yet.
    pub is_first: bool,
}

/// What a fill is to a request that did not begin it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It is to be followed, so far. With `Some` there is a head, and it is an answer of that age.
    Follow(Option<(Seconds, Option<StalePermit>)>),
    /// It is not for this request; another fill may be, also for others.
    Another,
    /// Nothing that others wait for is for this request.
    Alone,
}

/// What the running fill of `key` is to a request that has not joined it.
pub(crate) fn fit(visit: &RequestContext<'_>, key: &Key, fill: &Fill) -> Fit {
    match fill.stage() {
        // The origin may have lost what was asked, or answer others.
        Stage::Waiting if visit.services.clock.since(fill.begun()) >= visit.options.fill.wait => {
            Fit::Another
        }
        Stage::Streaming(head) if fill.has_begin() => fit_of_head(visit, key, &head, false),
        Stage::Streaming(_) => Fit::Another,
        _ => Fit::Follow(None),
    }
}

/// What an answer with this head is to a request that looks under `key`. `waited`: the request had
/// joined before the head was there.
fn fit_of_head(visit: &RequestContext<'_>, key: &Key, head: &FillHead, waited: bool) -> Fit {
    if concerns(head.unshareable, visit) {
        return Fit::Alone;
    }
    let Some(shared) = head.shared.as_ref().filter(|_| head.key == *key) else {
        return Fit::Another;
    };
    let (packed, facts, settings) = (shared.packed(), &visit.facts, visit.settings());
    if waited {
        return match reuse::may_follow(packed, facts, visit.came, settings) {
            true => Fit::Follow(Some((packed.age(visit.now()), None))),
            false => Fit::Alone,
        };
    }
    match reuse::decide(packed, facts, visit.now(), settings) {
        Reuse::Fresh { age } => Fit::Follow(Some((age, None))),
        Reuse::Stale { age, permit } => Fit::Follow(Some((age, Some(permit)))),
        Reuse::Validate { cause: Cause::Expired, .. }
        | Reuse::GatewayTimeout { .. }
        | Reuse::Outlived => Fit::Another,
        Reuse::Validate { .. } | Reuse::Unusable => Fit::Alone,
    }
}

fn concerns(why: Option<HitForMiss>, visit: &RequestContext<'_>) -> bool {
    why.is_some_and(|why| why.concerns(&visit.facts))
}

impl Follower<'_> {
    /// Waits for the head, however long that takes, and answers.
    pub async fn answer(&self, mut reader: Reader, account: Transaction) -> Step {
        let stage = match &self.role {
            Role::Leader { interim, .. } => {
                relay(self.visit.client, interim.as_deref(), pin!(reader.head())).await
            }
            Role::Follower => reader.head().await,
        };
        self.answer_at(stage, reader, account).await
    }

    /// Answers, now that the fill has come so far.
    pub async fn answer_at(&self, stage: Stage, reader: Reader, account: Transaction) -> Step {
        self.visit.look_at_clock();
        match stage {
            Stage::Waiting | Stage::Part(_) | Stage::Absent(_) => Step::Retry(account),
            Stage::Failed(failed) => self.failed(&failed, account).await,
            Stage::Validated(validated) => self.validated(&validated, &reader, account).await,
            Stage::Streaming(head) => self.streaming(&head, reader, account).await,
            // The reader stays until the answer has taken its place.
            Stage::Sparse(stage) => self.sparse(&stage, account).await,
        }
    }

    fn leads(&self) -> bool {
        matches!(self.role, Role::Leader { .. })
    }

    async fn failed(&self, failed: &Failed, mut account: Transaction) -> Step {
        if let (Some(denied), false) = (failed.denied, self.leads()) {
            log::debug!("the fill was denied ({denied}) to its own client only");
            return Step::Retry(account);
        }
        if let Some(outdated) = &self.outdated
            && outdated.fallback.on_unreachable
            && failed.denied.is_none()
        {
            match self.stale(outdated, Stale::Unreachable, None, account).await {
                Served::Step(turn) => return turn,
                Served::Lacking(returned) => account = returned,
            }
        }
        // What is wrong may be the request that was sent: one of the others tries his own.
        let may_be_its_own = matches!(failed.reason, Error::Upstream | Error::BadAnswer);
        if !self.leads() && self.is_first && may_be_its_own {
            return Step::Retry(account);
        }
        Step::Respond(partial_response::failed_answer(failed, account))
    }

    /// An answer that is being stored in parts.
    async fn sparse(&self, stage: &SparseStage, account: Transaction) -> Step {
        let SparseStage { key, marker, epoch, unshareable } = stage;
        if !self.leads() && concerns(*unshareable, self.visit) {
            return Step::FetchAlone(account);
        }
        // Of another variant: it will be found where it belongs.
        if !self.leads() && *key != self.key {
            return Step::Retry(account);
        }
        let found = stored_response::find_sparse(self.store, key, marker.clone(), *epoch).await;
        let Some(answer) = found else {
            return match self.leads() {
                true => past(account, Bypass::Range),
                false => Step::Retry(account),
            };
        };
        let (visit, packed) = (self.visit, answer.head.packed());
        let status = match &self.outdated {
            _ if !self.leads() => None,
            Some(outdated) => Some(CacheStatus::new(Outcome::Refreshed).fwd(outdated.why)),
            None => Some(self.status),
        };
        if !self.leads() && !reuse::may_follow(packed, &visit.facts, visit.came, visit.settings()) {
            return Step::FetchAlone(account);
        }
        let age = packed.age(visit.now());
        let serving = PartialResponder { status, ..self.serving(&answer, age) };
        match serving.answer(account).await {
            Served::Step(turn) => turn,
            // Of what cannot be combined others may want all: that one of them asks for.
            Served::Lacking(account) if !self.leads() && !visit.facts.has_range => {
                Step::Retry(account)
            }
            Served::Lacking(account) => past(account, Bypass::Range),
        }
    }

    fn serving<'b>(&'b self, answer: &'b Rc<StoredResponse>, age: Seconds) -> PartialResponder<'b> {
        let (visit, store, primary) = (self.visit, self.store, self.primary);
        PartialResponder { visit, store, primary, answer, head: None, age, status: None }
    }

    async fn validated(
        &self,
        validated: &Validated,
        reader: &Reader,
        account: Transaction,
    ) -> Step {
        let visit = self.visit;
        let Some(outdated) = &self.outdated else { return Step::Retry(account) };
        let packed = validated.head.packed();
        if !self.leads() {
            let permitted = reuse::may_follow(packed, &visit.facts, visit.came, visit.settings());
            if concerns(validated.unshareable, visit) || !permitted {
                return Step::FetchAlone(account);
            }
            let same = outdated.answer.entry.meta() == &validated.meta;
            let purged = reader.is_purged(&self.key, &validated.head);
            if !(same && validated.shareable) || purged {
                return Step::Retry(account);
            }
        }
        let status = CacheStatus::new(Outcome::Revalidated).fwd(outdated.why);
        let own = (self.leads() && !validated.for_asker.is_empty())
            .then(|| validated.head.clone().with_fields(&validated.for_asker));
        let (age, head) = (packed.age(visit.now()), Some(own.as_ref().unwrap_or(&validated.head)));
        if outdated.answer.sparse.is_some() {
            let serving = self.serving(&outdated.answer, age);
            return match (PartialResponder { head, status: Some(status), ..serving })
                .answer(account)
                .await
            {
                Served::Step(turn) => turn,
                Served::Lacking(account) => past(account, Bypass::Range),
            };
        }
        Step::Respond(builder::from_entry(visit, account, status, age, &outdated.answer, head))
    }

    async fn streaming(
        &self,
        head: &Arc<FillHead>,
        reader: Reader,
        mut account: Transaction,
    ) -> Step {
        if let Some(outdated) = &self.outdated
            && outdated.fallback.covers(head.status)
        {
            let theirs = Some(head.status);
            match self.stale(outdated, Stale::IfError, theirs, account).await {
                Served::Step(turn) => return turn,
                Served::Lacking(returned) => account = returned,
            }
        }
        if self.leads() {
            let mut status = match &self.outdated {
                Some(outdated) => CacheStatus::new(Outcome::Refreshed).fwd(outdated.why),
                None => self.status,
            };
            if let Some(shared) = head.shared.as_ref().filter(|_| head.stored) {
                status = status.ttl(shared.packed().ttl(self.visit.now()));
            }
            if head.selected {
                let CacheStatus { fwd, ttl, .. } = status;
                status = CacheStatus { fwd, ttl, ..CacheStatus::new(Outcome::Revalidated) };
            } else if self.asks_for_less() {
                status = status.fwd_status(head.status.as_u16());
            }
            let mut fields = head.headers.clone();
            status.append_to(account.pseudonym(), &mut fields);
            return self.stream(head, fields, reader, status, account);
        }
        let fit = fit_of_head(self.visit, &self.key, head, reader.waited());
        let (Fit::Follow(Some((age, permit))), Some(shared)) = (fit, &head.shared) else {
            return match fit {
                Fit::Alone => Step::FetchAlone(account),
                Fit::Another | Fit::Follow(_) => Step::Retry(account),
            };
        };
        if reader.is_purged(&self.key, shared) {
            return Step::Retry(account);
        }
        let status = CacheStatus::new(match permit {
            None => Outcome::HitFill,
            Some(StalePermit::MaxStale) => Outcome::Stale(Stale::MaxStale),
            Some(StalePermit::WhileRevalidate) => Outcome::Stale(Stale::WhileRevalidate),
        });
        let status = status.ttl(shared.packed().ttl(self.visit.now()));
        let mut fields = shared.reply_headers(age);
        status.append_to(account.pseudonym(), &mut fields);
        self.stream(head, fields, reader, status, account)
    }

    /// Streams the body of a fill, or the part of it that was asked for.
    fn stream(
        &self,
        head: &Arc<FillHead>,
        mut fields: HeaderMap,
        reader: Reader,
        status: CacheStatus,
        account: Transaction,
    ) -> Step {
        let parts = self.visit.parts;
        let selected = match &head.shared {
            Some(shared) => shared.selected(),
            None => Selected::of(head.status, &head.headers, self.visit.now()),
        };
        let mut portion = self.visit.portion(&selected, head.length);
        if !self.holds(&portion, head, reader.produced()) {
            return past(account, Bypass::RangeBeyondFill);
        }
        // Several ranges are not cut from what is still coming: then all of it is sent.
        if matches!(portion, Portion::Parts(_)) {
            portion = Portion::Whole;
        }
        let trailers = hop_by_hop::accepts_trailers(&parts.headers);
        if !trailers {
            fields.remove(header::TRAILER);
        }
        let store = head.stored.then(|| self.store.clone());
        // Only what is larger than the window can be lost on the way.
        let lossy = head.length.filter(|length| *length > u64::from(store::PIECE_MAX));
        let rescue = match (lossy, &head.shared) {
            (Some(length), Some(shared)) => Resume::new(self.visit, shared, length),
            _ => None,
        };
        let length = head.length;
        let body = move |wanted| match fill_body(reader, store, length, wanted, trailers) {
            Some(body) => BodySource::Fill(Box::new(body.with_rescue(rescue))),
            None => BodySource::Empty,
        };
        let (outcome, status, body) = (status.outcome, head.status, Box::new(body));
        let response = ResponseParts { status, fields, portion, length, body };
        Step::Respond(builder::build(&parts.method, account, outcome, response))
    }

    /// Whether what is sent to this request is there already or soon: for another range the origin
    /// is quicker, unless it is what the origin was asked for.
    fn holds(&self, portion: &Portion, head: &FillHead, produced: u64) -> bool {
        let visit = self.visit;
        let asked_for = matches!(self.role, Role::Leader { ranged: true, .. });
        if !visit.facts.has_range || visit.parts.method != Method::GET || asked_for {
            return true;
        }
        // Without a length, or for one client alone, no range can be cut from it.
        if head.length.is_none() || head.shared.is_none() {
            return false;
        }
        match portion {
            Portion::Part(part) => {
                part.start <= produced.saturating_add(visit.options.fill.follow_distance)
            }
            // Who began it gets all of it then.
            Portion::Parts(_) => self.leads(),
            Portion::Whole | Portion::Unsatisfiable | Portion::NotModified => true,
        }
    }

    /// Whether the client may get another status than the origin sent.
    fn asks_for_less(&self) -> bool {
        self.visit.facts.conditional || self.visit.facts.has_range
    }

    /// Serves what is stored in place of what the origin answered, if it did.
    async fn stale(
        &self,
        outdated: &StaleHit,
        why: Stale,
        theirs: Option<StatusCode>,
        account: Transaction,
    ) -> Served {
        let mut status = CacheStatus::new(Outcome::Stale(why)).fwd(outdated.why);
        status.fwd_status = theirs.map(|status| status.as_u16());
        let (answer, age) = (&outdated.answer, outdated.age);
        if answer.sparse.is_some() {
            let serving = self.serving(answer, age);
            return PartialResponder { status: Some(status), ..serving }
                .answer_alone(account)
                .await;
        }
        let answer = builder::from_entry(self.visit, account, status, age, answer, None);
        Served::Step(Step::Respond(answer))
    }
}

fn fill_body(
    mut reader: Reader,
    store: Option<Store>,
    length: Option<u64>,
    wanted: BodyPart,
    trailers: bool,
) -> Option<FillBody> {
    let end = match wanted {
        BodyPart::Whole => length,
        BodyPart::Part(part) => {
            reader.seek(part.as_range());
            Some(part.end)
        }
        // Not asked of a fill.
        BodyPart::Parts(_) => return None,
    };
    Some(FillBody::new(reader, store, end, trailers))
}

fn past(account: Transaction, why: Bypass) -> Step {
    Step::Bypass(account, CacheStatus::new(Outcome::Bypass(why)))
}
