//! Plain hits: requests for a whole stored answer that is fresh, which need none of the other
//! decisions of [`dispatch`](crate::exchange::dispatch). They are most of what a cache answers, and
//! are answered here from the bytes of the request's head with what is stored, without maps of
//! fields in between; from memory without an allocation.
//!
//! It promises what a client gets, and what is counted and logged, to be what dispatch does for the
//! same request. Where that is not certain dispatch decides, with what a lookup has found, so that
//! nothing is looked up, or read, twice: on a plain request at once ([`Decision`]), on others when
//! hyper has read them.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use semantics::cache_key::{UrlParts, UrlPlace, primary_of_parts, variant_of_set};
use semantics::packed::Flag::HeadOnly;
use semantics::{EncodedHead, EncodedSet, RequestFacts, Reuse, reuse};
use store::{Glance, Key, Source};

use crate::client::handle::Client;
use crate::exchange::dispatch::is_for_connection;
use crate::exchange::plain_decision::Decision;
use crate::object::key::locality_at;
use crate::object::lookup::FoundVariant;
use crate::object::store::{Entry, Lookup, Store};
use crate::observe::event::Event;
use crate::observe::outcome::Outcome;
use crate::options::Options;
use crate::origin::target::Target;
use crate::request::plain_request;
use crate::request::plain_request::{PlainRequest, Spare};
use crate::request::target::plain_target;
use crate::response::hit_head::{HitHead, Written};
use crate::response::transaction::Transaction;
use crate::rules::access::{Query, Verdict};
use crate::services::{FoundAhead, LookupStart, Services};

/// What is done with the bytes that a client sent.
pub(crate) enum Step {
    /// They are left to hyper and dispatch.
    Leave,
    /// The head in `head` and `body` answer the request in the first `length` bytes.
    Answer { length: usize, body: Bytes, transaction: Transaction },
    /// They begin with a request for something that is read from the device first.
    Read(Reading),
    /// They begin with a request that dispatch decides on.
    Decide(Decision),
}

/// A lookup that reads from the device.
pub(crate) struct Reading {
    lookup: Pin<Box<dyn Future<Output = (Lookup, Key)>>>,
    /// When it began.
    since: LookupStart,
    /// Bytes of the request.
    length: usize,
    /// The request identifies its client.
    is_identified: bool,
    transaction: Option<Transaction>,
}

/// Longest key that is written without being looked at: requests with longer ones are left.
const KEY_MAX: usize = 4096;

thread_local! {
    /// The key of the request that is looked at.
    static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// The key of the variant that it selects.
    static VARIANT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// The facts of every plain request.
    static FACTS: RequestFacts = RequestFacts::of(&Method::GET, &HeaderMap::new());
}

/// Looks at what a client sent, which begins with a request. An answer's head is written to `head`;
/// `spare` is the connection's.
pub(crate) fn step(
    services: &Rc<Services>,
    client: &Rc<Client>,
    bytes: &[u8],
    (head, spare): (&mut Vec<u8>, &mut Spare),
) -> Step {
    let options = services.options();
    if !may_be_plain(services, client, &options) {
        return Step::Leave;
    }
    let mut room = plain_request::room();
    let Some(request) = PlainRequest::read(bytes, &mut room) else { return Step::Leave };
    let Some(target) = permitted_target(client, &options, &request) else { return Step::Leave };
    let Some(store) = services.usable_store() else { return Step::Leave };
    let since = services.lookup_start();
    KEY.with_borrow_mut(|key| {
        let Some(place) = write_key(key, &target) else { return Step::Leave };
        match store.glance(key, || locality_at(key, place).group) {
            Glance::Nothing => {
                let key = Key::new(Bytes::copy_from_slice(key), locality_at(key, place));
                decide(services, client, &request, key, spare)
            }
            Glance::Elsewhere => {
                let key = Key::new(Bytes::copy_from_slice(key), locality_at(key, place));
                let Some(key) = key else { return Step::Leave };
                Step::Read(Reading::begin(services, client, &request, store, key))
            }
            Glance::Found(entry) => {
                let asked =
                    Asked { services, client, options: &options, store: &store, request: &request };
                asked.answer_resident(key, place, &entry, head).unwrap_or_else(|variant| {
                    let (key, found) = (Bytes::copy_from_slice(key), Lookup::Hit(entry));
                    services.leave_found(FoundAhead { key, found, since, variant });
                    decide(services, client, &request, None, spare)
                })
            }
        }
    })
}

/// Has dispatch decide on a request.
fn decide(
    services: &Rc<Services>,
    client: &Rc<Client>,
    request: &PlainRequest<'_, '_>,
    key: Option<Key>,
    spare: &mut Spare,
) -> Step {
    Decision::begin(services, client, request, key, spare).map_or(Step::Leave, Step::Decide)
}

/// A plain request, and what is needed to answer it from memory.
struct Asked<'a> {
    services: &'a Rc<Services>,
    client: &'a Rc<Client>,
    options: &'a Options,
    store: &'a Store,
    request: &'a PlainRequest<'a, 'a>,
}

impl Asked<'_> {
    /// Answers with what was found in memory, or with the variant that it leads to. `Err`: it is
    /// not to be answered here; with the variant, if that was found.
    fn answer_resident(
        &self,
        key: &[u8],
        place: UrlPlace,
        entry: &Entry,
        head: &mut Vec<u8>,
    ) -> Result<Step, Option<Box<FoundVariant>>> {
        let Some(set) = EncodedSet::read(entry.meta()) else {
            return self.answer(key, entry, head).ok_or(None);
        };
        if entry.outdated_since().is_some() {
            return Err(None);
        }
        VARIANT.with_borrow_mut(|variant| {
            if !set.names().all(|name| self.request.selecting.line(name).is_some()) {
                return Err(None);
            }
            variant_of_set(variant, key, set, self.request);
            let group = || locality_at(key, place).group;
            if variant.len() > KEY_MAX {
                return Err(None);
            }
            let Glance::Found(entry) = self.store.glance(variant, group) else { return Err(None) };
            self.answer(variant, &entry, head).ok_or_else(|| {
                Some(Box::new(FoundVariant { key: Bytes::copy_from_slice(variant), entry }))
            })
        })
    }

    fn answer(&self, key: &[u8], entry: &Entry, head: &mut Vec<u8>) -> Option<Step> {
        let is_identified = || self.request.is_identified(&self.options.semantics);
        let ready = answer(self.services, self.options, key, (entry, is_identified), head)?;
        let transaction = Transaction::open_plain(self.services, self.client, self.request);
        Some(ready.into_step(self.request.text.len(), transaction))
    }
}

/// Returns whether any request on this connection may be plain, under the options in force.
fn may_be_plain(services: &Services, client: &Client, options: &Options) -> bool {
    services.shared.node.is_none()
        && !client.link.is_peer
        && !client.is_logged_in()
        && options.rules.is_empty()
        && !options.front.vouches()
        // Who is believed about the scheme says it in a field.
        && options.forwarded.trust.is_empty()
}

/// Returns the target of a request that its client may ask for.
fn permitted_target<'a>(
    client: &Client,
    options: &'a Options,
    request: &PlainRequest<'a, '_>,
) -> Option<Target<'a>> {
    let limits = &options.client;
    if request.fields.len() > limits.headers || request.text.len() > limits.head_bytes {
        return None;
    }
    let target = plain_target(request, &options.front, client.link.scheme)?;
    let query = Query {
        client: client.address.ip(),
        method: &Method::GET,
        host: target.host,
        port: target.port,
    };
    let is_permitted = is_for_connection(client, options, &target)
        && matches!(options.access.before(&query), Verdict::Allow);
    is_permitted.then_some(target)
}

/// Writes the key of what a request is for.
fn write_key(key: &mut Vec<u8>, target: &Target<'_>) -> Option<UrlPlace> {
    let (host, port) = target.place();
    let port = (port != target.scheme.default_port()).then_some(port);
    let parts = UrlParts { scheme: target.scheme.name(), host, port, path: target.path };
    let place = primary_of_parts(key, target.site.key_prefix(), parts)?;
    (key.len() <= KEY_MAX).then_some(place)
}

/// An answer whose head has been written.
struct Ready<'a> {
    status: StatusCode,
    outcome: Outcome,
    head: Written<'a>,
    body: Bytes,
}

impl Ready<'_> {
    /// Returns the step that answers a request of so many bytes.
    fn into_step(self, length: usize, mut transaction: Transaction) -> Step {
        let Ready { status, outcome, head, body } = self;
        transaction.note_hit(status, outcome, head, body.len() as u64);
        Step::Answer { length, body, transaction }
    }
}

/// Writes the head of the answer that is stored, and counts it; `None` when the request is not to
/// be answered here. `is_identified` returns whether the request identifies its client.
fn answer<'a>(
    services: &Services,
    options: &Options,
    key: &[u8],
    (entry, is_identified): (&'a Entry, impl FnOnce() -> bool),
    out: &mut Vec<u8>,
) -> Option<Ready<'a>> {
    if entry.outdated_since().is_some() {
        return None;
    }
    let (body, stored) = (entry.whole()?, EncodedHead::read(entry.meta())?);
    let (now, settings) = (services.clock.time(), &options.semantics);
    let facts = &stored.facts;
    let decision = FACTS.with(|request| reuse::decide(facts, &[], request, now, settings));
    let Reuse::Fresh { age } = decision else { return None };
    if !facts.is_stated() && is_identified() {
        return None;
    }
    if facts.is(HeadOnly) || reuse::is_nearly_stale(facts, age, settings) {
        return None;
    }
    let from_memory = entry.source() == Source::Ram;
    let head = HitHead {
        stored,
        length: body.len() as u64,
        age,
        ttl: facts.ttl(now),
        from_memory,
        status: &services.shared.hit_status,
        hidden: (!options.purging.pass_tags).then_some(&options.purging.tags),
    };
    let head = head.write(out)?;
    let (outcome, event) = match from_memory {
        true => (Outcome::HitRam, Event::MemoryHit),
        false => (Outcome::HitDisk, Event::DiskHit),
    };
    services.observer.count(event, 1);
    if services.shared.neighbours.asked_for(key) {
        services.observer.count(Event::NeighbourUsed, 1);
    }
    Some(Ready { status: facts.status(), outcome, head, body })
}

impl Reading {
    fn begin(
        services: &Rc<Services>,
        client: &Rc<Client>,
        request: &PlainRequest<'_, '_>,
        store: Store,
        key: Key,
    ) -> Reading {
        let transaction = Some(Transaction::open_plain(services, client, request));
        let since = services.lookup_start();
        let is_identified = request.is_identified(&services.options().semantics);
        let lookup = Box::pin(async move { (store.lookup(&key).await, key) });
        Reading { lookup, since, length: request.text.len(), is_identified, transaction }
    }

    /// Waits for the lookup, and goes on as [`step`] does. With `leave` nothing is answered here.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        services: &Rc<Services>,
        leave: bool,
        head: &mut Vec<u8>,
    ) -> Poll<Step> {
        let (found, key) = ready!(self.lookup.as_mut().poll(cx));
        let Some(transaction) = self.transaction.take() else { return Poll::Ready(Step::Leave) };
        let options = services.options();
        if let (Lookup::Hit(entry), false) = (&found, leave)
            && let Some(ready) =
                answer(services, &options, key.as_bytes(), (entry, || self.is_identified), head)
        {
            return Poll::Ready(ready.into_step(self.length, transaction));
        }
        transaction.withdraw();
        let (key, since, variant) = (key.as_bytes().clone(), self.since, None);
        services.leave_found(FoundAhead { key, found, since, variant });
        Poll::Ready(Step::Leave)
    }
}
