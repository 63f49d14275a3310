//! Requests with `no-store` that no stored response serves: nothing of the exchange may be kept
//! (RFC 9111, 5.2.1.5). If reloads share fetches, requests that arrive during such a fetch follow
//! it.

use semantics::VaryMarker;
use store::Key;
use tokio::time::sleep;

use crate::fill::registry::{Joining, name_of_unkept};
use crate::fill::state::Fill;
use crate::get::cache_request::{CacheRequest, NextAction};
use crate::get::collapse::is_ranged;
use crate::get::fill_response::{FillResponder, Role};
use crate::get::fit::{Fit, FitInput};
use crate::observe::cache_status::CacheStatus;
use crate::observe::event::Event;
use crate::observe::outcome::{Bypass, Outcome};
use crate::response::transaction::Transaction;

impl CacheRequest<'_> {
    /// Joins the running unkept fetch of `key` or begins one, and responds.
    pub(super) async fn fetch_unkept(
        &self,
        key: Key,
        marker: Option<VaryMarker>,
        transaction: Transaction,
    ) -> NextAction {
        let (context, fit) = (self.context, FitInput::by(self.context));
        let fills = &context.services.shared.fills;
        let status = CacheStatus::new(Outcome::Bypass(Bypass::NoStore));
        let seen = fills.hit_for_miss(key.as_bytes(), context.services.clock.instant());
        let is_alone = self.alone
            || !fit.shares_reloads()
            || is_ranged(&context.facts)
            || context.facts.is_head
            || context.facts.has_credentials()
            || fit.is_concerned(seen);
        if is_alone {
            return NextAction::Bypass(transaction, status);
        }
        let suits = |fill: &Fill| matches!(fit.of(&key, fill), Fit::Follow(_));
        let name = name_of_unkept(&key);
        if let Some(pause) = self.reload_pause(&name) {
            sleep(pause).await;
            return NextAction::Retry(transaction);
        }
        let (fill, began) = match fills.join_if(&name, self.since, suits, || self.new_fill(None)) {
            Joining::Running(fill) => (fill, false),
            Joining::Begun(fill) => (fill, true),
            // An ended fetch left nothing in the store.
            Joining::Ended => return NextAction::FetchAlone(transaction),
        };
        let Some(reader) = fill.join() else { return NextAction::Bypass(transaction, status) };
        let (store, primary, is_first) = (self.store, self.primary, self.is_first);
        let (role, to_validate) = (Role::Follower, None);
        let responder =
            FillResponder { context, store, primary, key, role, to_validate, status, is_first };
        if began {
            return self.lead(responder, marker, None, (reader, true), transaction).await;
        }
        context.services.observer.count(Event::FollowerJoined, 1);
        self.wait(responder, marker, reader, transaction).await
    }
}
