//! Immediate memory hits: a GET or HEAD whose stored response is fresh, whole, and in one record.
//! All other requests continue in [`cache_request`].

use std::ops::Range;

use semantics::compressed::BODY_ID;
use semantics::packed::Flag::HeadOnly;
use semantics::packed::Packed;
use semantics::reuse::is_nearly_stale;
use semantics::{Fields as _, Seconds};

use crate::get::cache_request;
use crate::get::plan::{Plan, PlanInput, StoredFacts};
use crate::get::vouching;
use crate::object::key::locality_at;
use crate::object::resident::Resident;
use crate::object::store::{Entry, Store};
use crate::observe::cache_status::CacheStatus;
use crate::observe::event::Event;
use crate::observe::outcome::Outcome;
use crate::request::context::RequestContext;
use crate::response::builder;
use crate::response::builder::StoredBytes;
use crate::response::client_response::ClientResponse;
use crate::response::response_body::BodySource;
use crate::response::stored_fields::StoredPart;
use crate::response::transaction::Transaction;

/// Responds from memory. Returns the transaction if the request cannot be served immediately.
pub(crate) fn answer(
    context: &RequestContext,
    store: &Store,
    transaction: Transaction,
) -> Result<ClientResponse, Transaction> {
    let found = context.with_key(|key, place| {
        let group = || locality_at(key, place).group;
        let resident = Resident::find(store, (key, group), &context.head.fields)?;
        let ready = Ready::of(context, resident, |resident, coding, body| {
            resident.form(store, (key, group), coding, body)
        })?;
        context.services.shared.node.iter().for_each(|node| node.note_request(key));
        let neighbours = &context.services.shared.neighbours;
        if neighbours.take_mark(key) {
            context.services.observer.count(Event::NeighbourUsed, 1);
        }
        Some(ready)
    });
    match found.flatten() {
        Some(ready) => Ok(ready.respond(context, transaction)),
        None => Err(transaction),
    }
}

struct Ready {
    resident: Resident,
    facts: Packed,
    event: Option<Event>,
    age: Seconds,
    part: StoredPart,
}

impl Ready {
    /// Returns the resident response if it can be sent without validation, refresh or further
    /// reads.
    fn of(
        context: &RequestContext,
        resident: Resident,
        form: impl FnOnce(&Resident, &str, &[u8]) -> Option<Entry>,
    ) -> Option<Ready> {
        let head = resident.head()?;
        let vouched = match context.site().voucher() {
            Some(voucher) if vouching::is_known_current(voucher, &context.head, &head) => {
                Some(true)
            }
            Some(_) => return None,
            None => None,
        };
        let facts = StoredFacts {
            packed: &head.facts,
            source: resident.entry.source(),
            in_parts: false,
            selects: |name: &str| resident.is_selected_by(name),
        };
        let (plan, event) = PlanInput::by(context, vouched).plan_stored(&facts);
        let Plan::Serve { age, stale: None } = plan else { return None };
        if is_nearly_stale(&head.facts, age, context.settings()) || head.facts.is(HeadOnly) {
            return None;
        }
        let has_size = || context.options.compress.has_size(resident.entry.len());
        let facts = head.facts;
        let coding = context.negotiated.coding;
        let form = match coding.and_then(|coding| Some((coding, head.line(&BODY_ID)?))) {
            Some((coding, body)) if has_size() => Some(form(&resident, coding.name(), body)?),
            _ => None,
        };
        let resident = match form {
            Some(form) => resident.with_form(form),
            None => resident,
        };
        let entry = &resident.entry;
        let part = builder::stored_part(context, entry.meta(), entry.len())?;
        Some(Ready { resident, facts, event, age, part })
    }

    fn respond(self, context: &RequestContext, transaction: Transaction) -> ClientResponse {
        let Ready { resident, facts, event, age, part } = self;
        let observer = &context.services.observer;
        event.into_iter().for_each(|event| observer.count(event, 1));
        let entry = &resident.entry;
        let body = entry.whole().unwrap_or_default();
        let source = |range: Range<u64>| {
            BodySource::Whole(body.slice(range.start as usize..range.end as usize))
        };
        let status = CacheStatus::new(Outcome::HitRam);
        cache_request::count_conditional(context, part == StoredPart::NotModified);
        let found = StoredBytes { meta: entry.meta(), facts, length: entry.len(), part, source };
        builder::from_bytes(context, transaction, status, age, found)
    }
}
