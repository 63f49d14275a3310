//! Client responses from a fill: waits for the head, checks that the response fits the request
//! (`get::fit`), and streams the body.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use http::header::HeaderMap;
use http::{Method, Response, StatusCode, header};
use http_body::Body as _;
use semantics::compressed::{BODY_ID, Form};
use semantics::reuse::StalePermit;
use semantics::validators::Selected;
use semantics::{Portion, Seconds, Spellings, StoredHead, compressed, hop_by_hop};
use store::Key;
use upstream::connection::origin_body::OriginBody;
use upstream::message::informational::Informational;

use crate::body::encoded_body::PlainBody;
use crate::body::fill_body::FillBody;
use crate::body::relayed_body::RelayedBody;
use crate::body::resume::Resume;
use crate::fill::detached::Running;
use crate::fill::state::{Failed, FillHead, FillStage, Reader, SparseStage, Validated};
use crate::get::cache_request::{NextAction, ToValidate};
use crate::get::compressed_form::{CompressedForm, FormBody, StoredAnswer};
use crate::get::fit::{Fit, FitInput, Waited};
use crate::get::partial_response;
use crate::get::partial_response::{PartialResponder, Served};
use crate::get::vouching;
use crate::object::lookup;
use crate::object::store::Store;
use crate::object::stored_response::StoredResponse;
use crate::observe::cache_status::CacheStatus;
use crate::observe::outcome::{Bypass, Error, Outcome, Stale};
use crate::request::context::RequestContext;
use crate::response::builder::{BodyPart, ResponseParts};
use crate::response::pass_through::{relay, relay_of};
use crate::response::response_body::{BodySource, ResponseBody};
use crate::response::transaction::Transaction;
use crate::response::{builder, compressing};

/// The role of a request in a fill.
pub(crate) enum Role {
    /// The request began the fill and gets any response, including 1xx.
    Leader {
        /// Receives the 1xx responses.
        interim: Option<Arc<Informational>>,
        /// True if the fetch is for the range of this request.
        ranged: bool,
    },
    /// The request joined the fill of another request.
    Follower,
}

/// Request that is served from a fill.
pub(crate) struct FillResponder<'a> {
    pub context: &'a RequestContext,
    pub store: &'a Store,
    pub primary: &'a Key,
    pub key: Key,
    pub role: Role,
    pub to_validate: Option<ToValidate>,
    /// The cache status to report for a miss.
    pub status: CacheStatus,
    /// False once the request has waited for another fetch.
    pub is_first: bool,
    /// Of [`PartialResponder::may_hand_over`].
    pub may_hand_over: bool,
}

impl FillResponder<'_> {
    /// Drives the fetch that this request began until there is a head, and responds.
    pub async fn lead(
        &self,
        fetch: Running,
        reader: Reader,
        transaction: Transaction,
    ) -> NextAction {
        let fill = reader.fill().clone();
        let fetched = self.context.services.detached.drive(&fill, fetch);
        let interim = match &self.role {
            Role::Leader { interim, .. } => interim.as_deref(),
            Role::Follower => None,
        };
        let handed_over = relay(&self.context.client, interim, pin!(fetched)).await;
        match (fill.stage(), handed_over) {
            (FillStage::Streaming(head), Some(body)) => {
                self.context.look_at_clock();
                // Boxed: only the first request in a while for an unstored key comes here.
                Box::pin(self.streaming(&head, (reader, Some(body)), transaction)).await
            }
            (stage, _) => self.answer_at(stage, reader, transaction).await,
        }
    }

    /// Responds according to this stage of the fill.
    pub async fn answer_at(
        &self,
        stage: FillStage,
        reader: Reader,
        transaction: Transaction,
    ) -> NextAction {
        self.context.look_at_clock();
        match stage {
            FillStage::Waiting | FillStage::Part(_) | FillStage::Absent(_) => {
                NextAction::Retry(transaction)
            }
            FillStage::Failed(failed) => Box::pin(self.failed(&failed, transaction)).await,
            FillStage::Validated(validated) => {
                Box::pin(self.validated(&validated, &reader, transaction)).await
            }
            FillStage::Streaming(head) => self.streaming(&head, (reader, None), transaction).await,
            // `reader` stays alive until the response has been built.
            FillStage::Sparse(stage) => Box::pin(self.sparse(&stage, &reader, transaction)).await,
        }
    }

    fn fit_input(&self) -> FitInput<'_> {
        FitInput::by(self.context)
    }

    fn leads(&self) -> bool {
        matches!(self.role, Role::Leader { .. })
    }

    async fn failed(&self, failed: &Failed, mut transaction: Transaction) -> NextAction {
        if let (Some(denied), false) = (failed.denied, self.leads()) {
            log::debug!("the fill was denied ({denied}) to its own client only");
            return NextAction::Retry(transaction);
        }
        if let Some(to_validate) = &self.to_validate
            && to_validate.fallback.covers_failure(failed.status)
            && failed.denied.is_none()
        {
            match self.stale(to_validate, Stale::Unreachable, None, transaction).await {
                Served::Action(action) => return action,
                Served::Incomplete(returned) => transaction = returned,
            }
        }
        // The request that was sent may have caused the failure: another waiting request sends its
        // own.
        let may_be_its_own = matches!(failed.reason, Error::Upstream | Error::BadAnswer);
        if !self.leads() && self.is_first && may_be_its_own {
            return NextAction::Retry(transaction);
        }
        NextAction::Respond(partial_response::failed_answer(failed, transaction))
    }

    /// Responds from an object that is being stored in parts.
    async fn sparse(
        &self,
        stage: &SparseStage,
        reader: &Reader,
        transaction: Transaction,
    ) -> NextAction {
        let SparseStage { key, marker, epoch, hit_for_miss } = stage;
        if !self.leads() && self.fit_input().is_concerned(*hit_for_miss) {
            return NextAction::FetchAlone(transaction);
        }
        // The object is another variant; a new lookup uses the right key.
        if !self.leads() && *key != self.key {
            return NextAction::Retry(transaction);
        }
        let found = lookup::find_sparse(self.store, key, marker.clone(), *epoch).await;
        let Some(stored) = found else {
            return match self.leads() {
                true => NextAction::Bypass(transaction, Bypass::Range),
                false => NextAction::Retry(transaction),
            };
        };
        let (context, packed) = (self.context, stored.head.packed());
        let status = match &self.to_validate {
            _ if !self.leads() => None,
            Some(to_validate) => Some(CacheStatus::new(Outcome::Refreshed).fwd(to_validate.why)),
            None => Some(self.status),
        };
        let names = stored.selected_by();
        if !self.leads() {
            match self.fit_input().after_waiting(packed, names, reader.fill()) {
                Waited::MayHave => {}
                Waited::WaitsForNext => return NextAction::Retry(transaction),
                Waited::AsksAlone => return NextAction::FetchAlone(transaction),
            }
        }
        let age = packed.age(context.now());
        let serving = PartialResponder { status, ..self.serving(&stored, age) };
        match serving.answer(transaction).await {
            Served::Action(action) => action,
            // Others may want the whole body, which cannot be combined from parts: one of them
            // fetches it.
            Served::Incomplete(transaction) if !self.leads() && !context.facts.has_range => {
                NextAction::Retry(transaction)
            }
            Served::Incomplete(transaction) => NextAction::Bypass(transaction, Bypass::Range),
        }
    }

    fn serving<'b>(&'b self, stored: &'b Rc<StoredResponse>, age: Seconds) -> PartialResponder<'b> {
        let FillResponder { context, store, primary, may_hand_over, .. } = *self;
        let (head, status) = (None, None);
        PartialResponder { context, store, primary, stored, head, age, status, may_hand_over }
    }

    async fn validated(
        &self,
        validated: &Validated,
        reader: &Reader,
        transaction: Transaction,
    ) -> NextAction {
        let context = self.context;
        let Some(to_validate) = &self.to_validate else { return NextAction::Retry(transaction) };
        let packed = validated.head.packed();
        if !self.leads() {
            let (names, fit) = (to_validate.stored.selected_by(), self.fit_input());
            match fit.after_waiting(packed, names, reader.fill()) {
                _ if fit.is_concerned(validated.hit_for_miss) => {
                    return NextAction::FetchAlone(transaction);
                }
                Waited::MayHave => {}
                Waited::WaitsForNext => return NextAction::Retry(transaction),
                Waited::AsksAlone => return NextAction::FetchAlone(transaction),
            }
            let same = to_validate.stored.entry.meta() == &validated.meta;
            let purged = reader.is_purged(&self.key, &validated.head);
            if !(same && validated.shareable) || purged {
                return NextAction::Retry(transaction);
            }
            if !self.is_vouched_for(&validated.head).await {
                return NextAction::FetchAlone(transaction);
            }
        }
        let status = CacheStatus::new(Outcome::Revalidated).fwd(to_validate.why);
        let own = (self.leads() && !validated.for_asker.is_empty())
            .then(|| validated.head.clone().with_fields(&validated.for_asker));
        let (age, head) =
            (packed.age(context.now()), Some(own.as_ref().unwrap_or(&validated.head)));
        if to_validate.stored.sparse.is_some() {
            let serving = self.serving(&to_validate.stored, age);
            return match (PartialResponder { head, status: Some(status), ..serving })
                .answer(transaction)
                .await
            {
                Served::Action(action) => action,
                Served::Incomplete(transaction) => NextAction::Bypass(transaction, Bypass::Range),
            };
        }
        let (store, primary, stored) = (self.store, self.primary, &to_validate.stored);
        if !validated.shareable {
            return NextAction::Respond(builder::from_entry(
                context,
                transaction,
                status,
                age,
                stored,
                head,
            ));
        }
        let (shared, own) = (Some(&validated.head), own.as_ref());
        let answer = StoredAnswer { context, store, primary, stored, status, age, shared, own };
        NextAction::Respond(answer.respond(transaction).await)
    }

    async fn streaming(
        &self,
        head: &Arc<FillHead>,
        (reader, handed_over): (Reader, Option<Box<OriginBody>>),
        mut transaction: Transaction,
    ) -> NextAction {
        if let Some(to_validate) = &self.to_validate
            && to_validate.fallback.covers(head.status)
        {
            let theirs = Some(head.status);
            match self.stale(to_validate, Stale::IfError, theirs, transaction).await {
                Served::Action(action) => return action,
                Served::Incomplete(returned) => transaction = returned,
            }
        }
        if self.leads() {
            return self.streaming_to_leader(head, (reader, handed_over), transaction).await;
        }
        let fit = self.fit_input().of_head(&self.key, head, reader.fill(), reader.waited());
        let (Fit::Follow(Some((age, permit))), Some(shared)) = (fit, &head.shared) else {
            return match fit {
                Fit::Alone => NextAction::FetchAlone(transaction),
                Fit::Another | Fit::Follow(_) => NextAction::Retry(transaction),
            };
        };
        if reader.is_purged(&self.key, shared) {
            return NextAction::Retry(transaction);
        }
        if !self.is_vouched_for(shared).await {
            return NextAction::FetchAlone(transaction);
        }
        let status = CacheStatus::new(match permit {
            None => Outcome::HitFill,
            Some(StalePermit::MaxStale) => Outcome::Stale(Stale::MaxStale),
            Some(StalePermit::WhileRevalidate) => Outcome::Stale(Stale::WhileRevalidate),
        });
        let reader = match self.form(head, reader).await {
            Ok((form, body)) => {
                return NextAction::Respond(form.respond(transaction, status, age, None, body));
            }
            Err(reader) => reader,
        };
        let status = status.ttl(shared.packed().ttl(self.context.now()));
        let mut fields = shared.reply_headers(age);
        self.context.make_own(&mut fields);
        status.append_to(transaction.pseudonym(), &mut fields);
        let fields = (fields, shared.spellings().clone());
        self.stream(head, fields, (reader, None), status, transaction)
    }

    /// Responds to the client whose request began the fill.
    async fn streaming_to_leader(
        &self,
        head: &Arc<FillHead>,
        (reader, handed_over): (Reader, Option<Box<OriginBody>>),
        transaction: Transaction,
    ) -> NextAction {
        let status = self.status_of_leader(head);
        let Some((mut fields, spellings)) = head.asker_fields.take() else {
            return NextAction::Retry(transaction);
        };
        let body_id = head.shared.as_ref().and_then(|shared| shared.headers().get(BODY_ID));
        fields.extend(body_id.map(|id| (BODY_ID, id.clone())));
        self.context.make_own(&mut fields);
        let handed_over = match &head.shared {
            Some(_) => handed_over,
            None => compressing::for_client(self.context, head.status, &mut fields, handed_over),
        };
        status.append_to(transaction.pseudonym(), &mut fields);
        let reader = match self.form(head, reader).await {
            Ok((form, body)) => {
                compressed::describe(&mut fields, form.coding(), Form::Stored);
                let fields = (fields, spellings);
                return NextAction::Respond(form.stream(transaction, status.outcome, fields, body));
            }
            Err(reader) => reader,
        };
        if self.context.is_for_all() {
            let body = match handed_over {
                Some(body) => BodySource::of_upstream(*body, || relay_of(self.context, &fields)),
                None => self.all_of(head, reader),
            };
            return self.send_all(head.status, (fields, spellings), body, status, transaction);
        }
        let fields = (fields, spellings);
        self.stream(head, fields, (reader, handed_over), status, transaction)
    }

    /// Returns the compressed form in which the request gets the response, and the form's body.
    /// Returns `reader` if it gets the response as it is.
    async fn form(
        &self,
        head: &FillHead,
        reader: Reader,
    ) -> Result<(CompressedForm<'_>, FormBody), Reader> {
        let (context, store, primary) = (self.context, self.store, self.primary);
        let Some(shared) = head.shared.as_ref().filter(|_| context.negotiated.coding.is_some())
        else {
            return Err(reader);
        };
        let whole = reader.whole();
        let length = head.length.or(whole.as_ref().map(|bytes| bytes.len() as u64));
        let Some(form) = CompressedForm::of(context, store, primary, shared, length) else {
            return Err(reader);
        };
        let (form, mut reader) = (form.stored_if(head.stored), Some(reader));
        let plain = || match (whole, reader.take()) {
            (None, Some(reader)) => {
                let store = head.stored.then(|| self.store.clone());
                let body = FillBody::new(reader, store, head.length, false);
                PlainBody::Fill(Box::new(body.with_rescue(self.rescue(head))))
            }
            (whole, _) => PlainBody::Whole(whole.unwrap_or_default()),
        };
        match (Box::pin(form.find(plain)).await, reader) {
            (Some(body), _) => Ok((form, body)),
            (None, Some(reader)) => Err(reader),
            (None, None) => Ok((form, FormBody::Unneeded)),
        }
    }

    /// Returns the status of the response to the client that began the fill.
    fn status_of_leader(&self, head: &FillHead) -> CacheStatus {
        let mut status = match &self.to_validate {
            Some(to_validate) => CacheStatus::new(Outcome::Refreshed).fwd(to_validate.why),
            None if head.of_peer => CacheStatus { outcome: Outcome::HitPeer, ..self.status },
            None => self.status,
        };
        if let Some(shared) = head.shared.as_ref().filter(|_| head.stored) {
            status = status.ttl(shared.packed().ttl(self.context.now()));
        }
        if head.selected {
            let CacheStatus { fwd, ttl, .. } = status;
            status = CacheStatus { fwd, ttl, ..CacheStatus::new(Outcome::Revalidated) };
        } else if self.asks_for_less() {
            status = status.fwd_status(head.status.as_u16());
        }
        status
    }

    /// Sends a response with its whole body.
    fn send_all(
        &self,
        code: StatusCode,
        (mut fields, spellings): (HeaderMap, Spellings),
        body: BodySource,
        status: CacheStatus,
        mut transaction: Transaction,
    ) -> NextAction {
        if !hop_by_hop::accepts_trailers(&self.context.head.fields) {
            fields.remove(header::TRAILER);
        }
        transaction.note_answer(code, status.outcome, &fields);
        let body = ResponseBody::new(body, transaction).with_spellings(spellings);
        let mut response = Response::new(body);
        *response.status_mut() = code;
        *response.headers_mut() = fields;
        NextAction::Respond(response)
    }

    /// Returns the whole body of a fill: as bytes if it has arrived completely, else as a stream.
    fn all_of(&self, head: &FillHead, reader: Reader) -> BodySource {
        match reader.whole() {
            Some(bytes) if bytes.is_empty() => BodySource::Empty,
            Some(bytes) => BodySource::Whole(bytes),
            None => {
                let trailers = hop_by_hop::accepts_trailers(&self.context.head.fields);
                let store = head.stored.then(|| self.store.clone());
                let body = FillBody::new(reader, store, head.length, trailers);
                BodySource::Fill(Box::new(body.with_rescue(self.rescue(head))))
            }
        }
    }

    /// Returns the means to refetch bytes that both the window and the store may lose. Only a body
    /// larger than the window can lose bytes.
    fn rescue(&self, head: &FillHead) -> Option<Resume> {
        let lossy = head.length.filter(|length| *length > u64::from(store::PIECE_MAX));
        Resume::new(self.context, head.shared.as_ref()?, lossy?)
    }

    /// Streams the body of a fill, or the requested part of it.
    fn stream(
        &self,
        head: &Arc<FillHead>,
        (mut fields, spellings): (HeaderMap, Spellings),
        (reader, handed_over): (Reader, Option<Box<OriginBody>>),
        status: CacheStatus,
        transaction: Transaction,
    ) -> NextAction {
        let selected = match &head.shared {
            Some(shared) => shared.selected(),
            None => Selected::of(head.status, &fields, self.context.now()),
        };
        // A body that is compressed on its way has another length.
        let length = match &handed_over {
            Some(body) => body.size_hint().exact(),
            None => head.length,
        };
        let mut portion = self.context.portion(&selected, length);
        if !self.holds(&portion, head, &reader) {
            return NextAction::Bypass(transaction, Bypass::RangeBeyondFill);
        }
        // Multiple ranges are not cut from a body that is still arriving; the whole body is sent.
        if matches!(portion, Portion::Parts(_)) {
            portion = Portion::Whole;
        }
        let trailers = hop_by_hop::accepts_trailers(&self.context.head.fields);
        if !trailers {
            fields.remove(header::TRAILER);
        }
        let store = head.stored.then(|| self.store.clone());
        let rescue = self.rescue(head);
        let own = handed_over.map(|body| (*body, relay_of(self.context, &fields)));
        let body = move |wanted| match (own, wanted) {
            (Some((body, relay)), BodyPart::Whole) => BodySource::of_upstream(body, || relay),
            (Some((body, relay)), BodyPart::Part(part)) => {
                BodySource::Relayed(Box::new(RelayedBody::part(body, relay, part)))
            }
            (_, wanted) => match fill_body(reader, store, length, wanted, trailers) {
                Some(body) => BodySource::Fill(Box::new(body.with_rescue(rescue))),
                None => BodySource::Empty,
            },
        };
        let (outcome, status, body) = (status.outcome, head.status, Box::new(body));
        let response = ResponseParts { status, fields, spellings, portion, length, body };
        NextAction::Respond(builder::build(
            &self.context.head.method,
            transaction,
            outcome,
            response,
        ))
    }

    /// Returns whether the origin vouches for a response that another request fetched; the fetch
    /// may have begun before a change. True if the origin does not vouch for responses.
    async fn is_vouched_for(&self, head: &StoredHead) -> bool {
        let Some(voucher) = self.context.site().voucher() else { return true };
        vouching::vouches(voucher, &self.context.head, head.headers()).await
    }

    /// Returns whether the request takes its bytes from the fill, possibly after waiting for them.
    /// A few requests whose range is far beyond the received bytes ask the origin instead, if it
    /// supports ranges; many would only duplicate the running fetch.
    fn holds(&self, portion: &Portion, head: &FillHead, reader: &Reader) -> bool {
        let context = self.context;
        let is_own_range = matches!(self.role, Role::Leader { ranged: true, .. });
        if !context.facts.has_range || context.head.method != Method::GET || is_own_range {
            return true;
        }
        // No range is cut from a response for one client alone.
        let Some(shared) = &head.shared else { return false };
        let Portion::Part(part) = portion else { return true };
        let near = reader.produced().saturating_add(context.options.fill.follow_distance);
        let sends_ranges = || {
            let units = shared.headers().get(header::ACCEPT_RANGES);
            units.is_some_and(|units| units.as_bytes().eq_ignore_ascii_case(b"bytes"))
        };
        part.start <= near || !sends_ranges() || !reader.fill().may_be_passed()
    }

    /// Returns whether the client may get a different status than the origin sent.
    fn asks_for_less(&self) -> bool {
        self.context.facts.conditional || self.context.facts.has_range
    }

    /// Serves the stale response in place of the origin's error or of no response.
    async fn stale(
        &self,
        to_validate: &ToValidate,
        why: Stale,
        theirs: Option<StatusCode>,
        transaction: Transaction,
    ) -> Served {
        let mut status = CacheStatus::new(Outcome::Stale(why)).fwd(to_validate.why);
        status.fwd_status = theirs.map(|status| status.as_u16());
        let (stored, age) = (&to_validate.stored, to_validate.age);
        if stored.sparse.is_some() {
            let serving = self.serving(stored, age);
            return PartialResponder { status: Some(status), ..serving }
                .answer_alone(transaction)
                .await;
        }
        let FillResponder { context, store, primary, .. } = *self;
        let (shared, own) = (None, None);
        let answer = StoredAnswer { context, store, primary, stored, status, age, shared, own };
        Served::Action(NextAction::Respond(answer.respond(transaction).await))
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
        // Multiple ranges are not cut from a fill.
        BodyPart::Parts(_) => return None,
    };
    Some(FillBody::new(reader, store, end, trailers))
}
