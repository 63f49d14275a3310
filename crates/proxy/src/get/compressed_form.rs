//! Compressed forms of stored responses (docs/decisions/0028-compression.md).
//!
//! A request is decided on by the response without a coding: whether it is stored, fresh, to be
//! validated. Only then its form is looked up, under a key with the number of the body that it was
//! made from. So a form is never used after its response was removed, purged or replaced. It is
//! made once, by a fill of its own, and stored.

use std::rc::Rc;
use std::sync::Arc;

use http::header::HeaderMap;
use http::{Method, Response, StatusCode};
use semantics::cache_key::write_form;
use semantics::compressed::BODY_ID;
use semantics::{Meta, Portion, Seconds, Spellings, StoredHead};
use store::{Hint, Key, Lookup};
use tokio::task::spawn_local;

use crate::body::encoded_body::{EncodedBody, Flush, PermittedEncoder, PlainBody};
use crate::body::fill_body::FillBody;
use crate::body::resume::Resume;
use crate::body::stored_body::EntryBody;
use crate::fill::pump::{Carried, Incoming, Pump};
use crate::fill::registry::JoinResult;
use crate::fill::sink::Sink;
use crate::fill::state::{AskerFields, End, Fill, FillHead, FillStage, Reader};
use crate::object::head::Head;
use crate::object::metadata::FoundHead;
use crate::object::object_writer::ObjectWriter;
use crate::object::store::Store;
use crate::object::stored_response::StoredResponse;
use crate::observe::cache_status::CacheStatus;
use crate::observe::outcome::{Error, Outcome};
use crate::options::Options;
use crate::request::context::RequestContext;
use crate::response::builder::ResponseParts;
use crate::response::response_body::{BodySource, ResponseBody};
use crate::response::transaction::Transaction;
use crate::response::{builder, compressing};
use crate::services::{LookupStart, Services};

/// The form of a response that a request gets.
pub(crate) struct CompressedForm<'a> {
    context: &'a RequestContext,
    store: &'a Store,
    primary: &'a Key,
    key: Key,
    coding: compression::Coding,
    /// The head of the form, for all clients.
    head: StoredHead,
    /// True if the form is stored.
    is_stored: bool,
}

/// Where the bytes of a form come from.
pub(crate) enum FormBody {
    Stored(Rc<StoredResponse>),
    /// The form is being made.
    Running(Reader),
    /// The request needs no bytes.
    Unneeded,
}

impl<'a> CompressedForm<'a> {
    /// Returns the form in which the request gets a response with this head, as stored for all
    /// clients, and body length. `None`: it gets the response as it is.
    pub fn of(
        context: &'a RequestContext,
        store: &'a Store,
        primary: &'a Key,
        head: &StoredHead,
        length: Option<u64>,
    ) -> Option<CompressedForm<'a>> {
        let coding = context.negotiated.coding?;
        let body = head.headers().get(BODY_ID)?;
        let has_size = |length| context.options.compress.has_size(length);
        // A 304 may have forbidden it.
        let is_permitted = context.options.may_compress(head.status(), head.headers());
        if !length.is_none_or(has_size) || !is_permitted || head.trailers().is_some() {
            return None;
        }
        let mut key = Vec::new();
        write_form(&mut key, primary.as_bytes(), coding.name(), body.as_bytes());
        let key = Key::new(key.into(), primary.locality())?;
        let head = head.compressed(coding.name());
        Some(CompressedForm { context, store, primary, key, coding, head, is_stored: true })
    }

    /// Sets whether the response itself is stored, and with it the form.
    pub fn stored_if(self, is_stored: bool) -> CompressedForm<'a> {
        CompressedForm { is_stored, ..self }
    }

    /// Finds the form, or makes it from the body that `plain` returns. Returns `None` if it can
    /// neither be found nor made now; then `plain` was not called.
    pub async fn find(&self, plain: impl FnOnce() -> PlainBody) -> Option<FormBody> {
        let mut plain = Some(plain);
        // Another worker may end making the form between the lookup and the look at the fills.
        for _ in 0..2 {
            let since = self.context.services.lookup_start();
            if let Some(stored) = self.stored().await {
                return Some(FormBody::Stored(stored));
            }
            let is_head = self.context.head.method == Method::HEAD;
            let portion = self.context.portion(&self.head.selected(), None);
            if is_head || portion == Portion::NotModified {
                return Some(FormBody::Unneeded);
            }
            match self.running(since, &mut plain)? {
                Some(fill) => return fill.join().map(FormBody::Running),
                None => continue,
            }
        }
        None
    }

    /// Returns the stored form. Gives it the head of its response if a 304 has updated that.
    async fn stored(&self) -> Option<Rc<StoredResponse>> {
        let (store, primary) = (self.store, self.primary);
        let Lookup::Hit(entry) = store.lookup(&self.key).await else { return None };
        let Ok(Meta::Head(head)) = Meta::decode(entry.meta()) else { return None };
        let is_current = head == self.head && entry.outdated_since().is_none();
        let head = match Head::read(entry.meta()).filter(|_| is_current) {
            Some(head) => head,
            None => self.head.clone().into(),
        };
        let found = FoundHead { head, sparse: None };
        let stored = StoredResponse::new(self.key.clone(), None, entry, found);
        if !is_current {
            let token = &store.begin_fetch(primary);
            ObjectWriter { store, token, primary }.replace(&stored, &self.head).await;
        }
        Some(stored)
    }

    /// Returns the fill that makes the form, and begins it if necessary. `Some(None)`: it has just
    /// ended. `None`: too many forms are being made.
    fn running(
        &self,
        since: LookupStart,
        plain: &mut Option<impl FnOnce() -> PlainBody>,
    ) -> Option<Option<Arc<Fill>>> {
        let Services { shared, clock, .. } = &*self.context.services;
        let name = self.key.as_bytes();
        if let Some(fill) = shared.fills.running(name) {
            return Some(Some(fill));
        }
        let encoder = PermittedEncoder::new(&shared.encoders, self.coding, &shared.observer)?;
        let new = || {
            let share = shared.fill_budget.share(self.primary.locality().site);
            Fill::new(self.store.begin_fetch(self.primary), clock.instant(), share)
        };
        match shared.fills.join_if(name, since, |_| true, new) {
            JoinResult::Running(fill) => Some(Some(fill)),
            JoinResult::Ended => Some(None),
            JoinResult::New(fill) => {
                let making = Making {
                    services: self.context.services.clone(),
                    options: self.context.options.clone(),
                    store: self.is_stored.then(|| self.store.clone()),
                    key: self.key.clone(),
                    fill: fill.clone(),
                    end: End::Broken(Error::Internal),
                };
                let body = EncodedBody::new(plain.take()?(), encoder, Flush::WhenFull);
                spawn_local(making.run(self.head.clone(), body));
                Some(Some(fill))
            }
        }
    }

    /// Builds the response from the form, which is `age` old. `own` replaces the head for all
    /// clients.
    pub fn respond(
        &self,
        transaction: Transaction,
        status: CacheStatus,
        age: Seconds,
        own: Option<&StoredHead>,
        body: FormBody,
    ) -> Response<ResponseBody> {
        let own = own.map(|own| own.compressed(self.coding.name()));
        if let FormBody::Stored(stored) = &body {
            return builder::from_entry(
                self.context,
                transaction,
                status,
                age,
                stored,
                own.as_ref(),
            );
        }
        let head = own.as_ref().unwrap_or(&self.head);
        let mut fields = head.reply_headers(age);
        self.context.make_own(&mut fields);
        let status = status.ttl(head.packed().ttl(self.context.now()));
        status.append_to(transaction.pseudonym(), &mut fields);
        self.stream(transaction, status.outcome, (fields, head.spellings().clone()), body)
    }

    /// Builds the response with these fields, which are those of the form, from a form that is not
    /// stored yet.
    pub fn stream(
        &self,
        transaction: Transaction,
        outcome: Outcome,
        (fields, spellings): (HeaderMap, Spellings),
        body: FormBody,
    ) -> Response<ResponseBody> {
        let store = self.is_stored.then(|| self.store.clone());
        let response = ResponseParts {
            status: StatusCode::OK,
            fields,
            spellings,
            // Its length is unknown, so that ranges do not count.
            portion: self.context.portion(&self.head.selected(), None),
            length: None,
            body: Box::new(|_| match body {
                FormBody::Running(reader) => {
                    BodySource::Fill(Box::new(FillBody::new(reader, store, None, false)))
                }
                FormBody::Stored(_) | FormBody::Unneeded => BodySource::Empty,
            }),
        };
        builder::build(&self.context.head.method, transaction, outcome, response)
    }

    /// Returns the name of the coding.
    pub fn coding(&self) -> &'static str {
        self.coding.name()
    }
}

/// The making of a form.
struct Making {
    services: Rc<Services>,
    options: Arc<Options>,
    /// `None`: the form is not stored.
    store: Option<Store>,
    key: Key,
    fill: Arc<Fill>,
    end: End,
}

impl Making {
    /// Encodes the body for the readers of the fill, and stores it. Ends early when no reader is
    /// left.
    async fn run(mut self, head: StoredHead, body: EncodedBody<PlainBody>) {
        let _lease = self.services.leases.lease_until_done();
        let fill = self.fill.clone();
        let mut sink = match &self.store {
            Some(store) => {
                let (meta, hint) = (head.encode(), Hint::default());
                let writer = store.insert(fill.token(), &self.key, meta, hint).await;
                writer.map_or(Sink::Nowhere, Sink::Open)
            }
            None => Sink::Nowhere,
        };
        let head = FillHead {
            status: StatusCode::OK,
            asker_fields: AskerFields::new(HeaderMap::new(), Spellings::LOWER_CASE),
            shared: Some(head),
            hit_for_miss: None,
            key: self.key.clone(),
            stored: sink.stores(),
            length: None,
            selected: false,
            of_peer: false,
        };
        fill.publish(FillStage::Streaming(Arc::new(head)), sink.unfinished());
        let Services { leases, clock, .. } = &*self.services;
        let mut pump = Pump::new(leases, *clock, &self.options.fill, &fill, (&mut sink, 0));
        match pump.carry(&mut Incoming::new(body), None, |_| false).await {
            Carried::Complete { last, .. } => {
                pump.commit(fill.token().overtaken(), None).await;
                fill.push_last(last);
                self.end = End::Whole(None);
            }
            Carried::Broken(why) => self.end = End::Broken(why),
            Carried::Abandoned => {}
        }
        drop(pump);
        drop(self);
        sink.drop_when_unneeded(&fill).await;
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.services.shared.fills.remove(self.key.as_bytes(), &self.fill);
        self.fill.end(self.end.clone());
    }
}

/// A response from a stored object, in the form that the request gets.
pub(crate) struct StoredAnswer<'a> {
    pub context: &'a RequestContext,
    pub store: &'a Store,
    pub primary: &'a Key,
    pub stored: &'a Rc<StoredResponse>,
    pub status: CacheStatus,
    pub age: Seconds,
    /// The object's head for all clients, if it was updated.
    pub shared: Option<&'a StoredHead>,
    /// The head for this client, if it differs.
    pub own: Option<&'a StoredHead>,
}

impl StoredAnswer<'_> {
    pub async fn respond(self, transaction: Transaction) -> Response<ResponseBody> {
        let StoredAnswer { context, store, primary, stored, status, age, shared, own } = self;
        if context.negotiated.coding.is_some() && stored.sparse.is_none() {
            let head = shared.unwrap_or_else(|| stored.head.stored());
            let length = match stored.is_of_head() {
                true => compressing::announced_length(head.headers()),
                false => Some(stored.length()),
            };
            if let Some(form) = CompressedForm::of(context, store, primary, head, length) {
                // Boxed: only requests for compressed responses wait here.
                let body = match stored.is_of_head() {
                    true => Some(FormBody::Unneeded),
                    false => Box::pin(form.find(|| plain(context, store, stored, head))).await,
                };
                if let Some(body) = body {
                    return form.respond(transaction, status, age, own, body);
                }
            }
        }
        builder::from_entry(context, transaction, status, age, stored, own.or(shared))
    }
}

/// Returns the body of a stored response.
fn plain(
    context: &RequestContext,
    store: &Store,
    stored: &StoredResponse,
    head: &StoredHead,
) -> PlainBody {
    match stored.entry.whole() {
        Some(bytes) => PlainBody::Whole(bytes),
        None => {
            let length = stored.entry.len();
            let rescue = Resume::new(context, head, length);
            let body = EntryBody::new(Some(store.clone()), stored, 0..length, rescue);
            PlainBody::Entry(Box::new(body))
        }
    }
}
