//! A GET or HEAD that memory answers at once: what is stored is fresh, whole, and in one record.
//! Every other request goes on in [`cache_request`](crate::get::cache_request).

use std::cell::RefCell;

use http::{Method, StatusCode};
use semantics::packed::Flag::HeadOnly;
use semantics::reuse::is_nearly_stale;
use semantics::{EncodedHead, Portion, Seconds};

use crate::get::plan::{Plan, PlanInput, StoredFacts};
use crate::get::vouching;
use crate::object::resident::Resident;
use crate::object::store::Store;
use crate::observe::event::Event;
use crate::observe::outcome::Outcome;
use crate::request::context::RequestContext;
use crate::response::client_response::ClientResponse;
use crate::response::response_body::{BodySource, ResponseBody};
use crate::response::stored_fields::{StoredFields, StoredPart};
use crate::response::transaction::Transaction;

thread_local! {
    /// The key of the request that is looked up.
    static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Answers from memory. The transaction comes back where that is not to be done at once.
pub(crate) fn answer(
    context: &RequestContext,
    store: &Store,
    transaction: Transaction,
) -> Result<ClientResponse, Transaction> {
    let found = KEY.with_borrow_mut(|key| {
        let group = context.write_key(key)?;
        let resident = Resident::find(store, key, group, &context.head.fields)?;
        let ready = Ready::of(context, resident)?;
        let neighbours = &context.services.shared.neighbours;
        if neighbours.asked_for(key) {
            context.services.observer.count(Event::NeighbourUsed, 1);
        }
        Some(ready)
    });
    match found {
        Some(ready) => Ok(ready.respond(context, transaction)),
        None => Err(transaction),
    }
}

/// A stored response that may be sent.
struct Ready {
    resident: Resident,
    event: Option<Event>,
    status: StatusCode,
    age: Seconds,
    ttl: i64,
    part: StoredPart,
}

impl Ready {
    /// Returns what was found, if it may be sent as it is.
    fn of(context: &RequestContext, resident: Resident) -> Option<Ready> {
        let head = resident.head()?;
        let vouched = match context.site().voucher() {
            Some(voucher) => {
                vouching::is_known_current(voucher, &context.head, &head).then_some(true)?;
                Some(true)
            }
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
        let is_due = is_nearly_stale(&head.facts, age, context.settings());
        let needs_more = is_due || head.facts.is(HeadOnly) || unfolds(context);
        if needs_more {
            return None;
        }
        let part = part(context, &head, resident.entry.len())?;
        let (status, ttl) = (head.facts.status(), head.facts.ttl(context.now()));
        Some(Ready { resident, event, status, age, ttl, part })
    }

    /// Makes the response.
    fn respond(self, context: &RequestContext, mut transaction: Transaction) -> ClientResponse {
        let Ready { resident, event, status, age, ttl, part } = self;
        let observer = &context.services.observer;
        event.into_iter().for_each(|event| observer.count(event, 1));
        if context.facts.conditional {
            let is_hit = part == StoredPart::NotModified;
            let event = if is_hit { Event::ConditionalHit } else { Event::ConditionalMiss };
            observer.count(event, 1);
        }
        let status = match part {
            StoredPart::Whole => status,
            StoredPart::NotModified => StatusCode::NOT_MODIFIED,
            StoredPart::Range(_) => StatusCode::PARTIAL_CONTENT,
        };
        let is_own = context.site().vouched().is_some();
        let fields = StoredFields {
            meta: resident.entry.meta().clone(),
            age: (!is_own).then_some(age),
            part,
            length: resident.entry.len(),
            ttl,
            from_memory: true,
        };
        let body = resident.entry.whole().unwrap_or_default();
        let source = match part {
            _ if context.head.method == Method::HEAD => BodySource::Empty,
            StoredPart::Whole => BodySource::Whole(body),
            StoredPart::NotModified => BodySource::Empty,
            StoredPart::Range(range) => {
                let range = range.as_range();
                BodySource::Whole(body.slice(range.start as usize..range.end as usize))
            }
        };
        transaction.note_stored(status, Outcome::HitRam, fields.content_type());
        let body = ResponseBody::new(source, transaction).with_stored_fields(fields);
        let mut response = ClientResponse::new(body);
        *response.status_mut() = status;
        response
    }
}

/// Returns whether the fields in `Vary` are to be replaced by those that they follow from.
fn unfolds(context: &RequestContext) -> bool {
    context.rule.as_ref().is_some_and(|rule| rule.by_device || rule.mark.is_some())
}

/// Returns the part that is sent; `None` where it takes more than one, or none is there.
fn part(context: &RequestContext, head: &EncodedHead<'_>, length: u64) -> Option<StoredPart> {
    if !context.facts.conditional && !context.facts.has_range {
        return Some(StoredPart::Whole);
    }
    match context.portion(&head.selected(), Some(length)) {
        Portion::Whole => Some(StoredPart::Whole),
        Portion::NotModified => Some(StoredPart::NotModified),
        Portion::Part(range) => Some(StoredPart::Range(range)),
        Portion::Parts(_) | Portion::Unsatisfiable => None,
    }
}
