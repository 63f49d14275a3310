//! Admission of a request whose rule has limits or asks for a password.
//!
//! Limits come first, so that they bound the guessing of passwords as well. What a request takes
//! of them is in [`Held`], and ends with its response however that ends.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{self, HeaderName, HeaderValue};
use semantics::Fields as _;
use tokio::time::sleep_until;

use crate::client::addresses::network;
use crate::observe::event::Event;
use crate::observe::outcome::Denied;
use crate::request::context::RequestContext;
use crate::request::held::{Held, Pacer};
use crate::rules::basic_auth::{BasicAuth, CREDENTIALS, Credentials};
use crate::rules::limits::{KeyValue, Limit, LimitKey};
use crate::rules::request_rules::Actions;

/// A request that is not admitted.
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub why: Denied,
    pub text: String,
    /// Field of the response that says what the client may do.
    pub field: (HeaderName, HeaderValue),
}

/// Admission of a request, as far as it is known without waiting.
pub(crate) enum Admission {
    Admitted,
    /// Its turn comes later, or its password must be checked ([`admit`]).
    Waits,
    Refused(Refusal),
}

/// Counts a request and decides on it, as far as that takes no time.
pub(crate) fn begin(context: &RequestContext, actions: &Actions) -> Admission {
    let mut held = context.held.take().unwrap_or_default();
    let counted = count(context, &actions.limits, &mut held);
    let waits = held.turn.is_some();
    context.held.set(Some(held));
    if let Err(refusal) = counted {
        return Admission::Refused(refusal);
    }
    let Some(users) = &actions.basic_auth else {
        return if waits { Admission::Waits } else { Admission::Admitted };
    };
    let Some(credentials) = credentials(context) else {
        return Admission::Refused(challenge(context, users));
    };
    let (hash, exists) = users.hash_for(&credentials);
    let is_known = || context.services.shared.passwords.is_known(hash, &credentials.password);
    if exists && is_known() && !waits { Admission::Admitted } else { Admission::Waits }
}

/// Decides on a request, which waits for its turn and for the check of its password.
pub(crate) async fn admit(context: &RequestContext, actions: &Actions) -> Result<(), Refusal> {
    let mut held = context.held.take();
    if !held.as_ref().is_some_and(|held| held.is_counted) {
        context.held.set(held);
        match begin(context, actions) {
            Admission::Refused(refusal) => return Err(refusal),
            Admission::Admitted => return Ok(()),
            Admission::Waits => held = context.held.take(),
        }
    }
    let turn = held.as_ref().and_then(|held| held.turn);
    context.held.set(held);
    if let Some(turn) = turn {
        sleep_until(turn.into()).await;
    }
    let Some(users) = &actions.basic_auth else { return Ok(()) };
    let Some(credentials) = credentials(context) else { return Err(challenge(context, users)) };
    let (hash, exists) = users.hash_for(&credentials);
    let (checks, client) = (&context.services.shared.passwords, client(context));
    match checks.check(client, hash, &credentials.password).await {
        Ok(true) if exists => Ok(()),
        Ok(_) => Err(challenge(context, users)),
        Err(_) => Err(Refusal {
            status: StatusCode::SERVICE_UNAVAILABLE,
            why: Denied::Busy,
            text: "Too many passwords are being checked: ask again later.\n".to_owned(),
            field: (header::RETRY_AFTER, HeaderValue::from_static("1")),
        }),
    }
}

/// Counts a request by all limits. If one refuses it, those before it have not counted it.
fn count(context: &RequestContext, limits: &[Arc<Limit>], held: &mut Held) -> Result<(), Refusal> {
    held.is_counted = true;
    let clock = context.services.clock;
    let now = u64::try_from(clock.running().as_nanos()).unwrap_or(u64::MAX);
    let mut wait = Duration::ZERO;
    let mut taken: Vec<(&Limit, u64)> = Vec::new();
    for limit in limits {
        let key = key_of(context, limit);
        let permitted = match limit.take(key, now) {
            Ok(delay) => {
                taken.push((limit, key));
                if !limit.terms.is_dry_run {
                    wait = wait.max(delay);
                }
                enter(limit, key, held)
            }
            Err(later) => Err((Denied::Rate, later)),
        };
        if let Err((why, later)) = permitted {
            if limit.terms.is_dry_run {
                note_dry_run(context, limit, why, now);
                continue;
            }
            taken.iter().for_each(|(limit, key)| limit.give_back(*key));
            held.open.clear();
            held.pacers.clear();
            return Err(refusal(limit, why, later));
        }
        if limit.terms.bandwidth.is_some() && !limit.terms.is_dry_run {
            let key = (limit.terms.by != LimitKey::Request).then_some(key);
            held.pacers.push(Pacer::new(limit.clone(), key, clock));
        }
    }
    if !wait.is_zero() {
        context.services.observer.count(Event::RequestQueued, 1);
        held.turn = Some(clock.instant() + wait);
    }
    Ok(())
}

/// Counts a request among those at the same time.
fn enter(limit: &Limit, key: u64, held: &mut Held) -> Result<(), (Denied, Duration)> {
    let Some(max) = limit.terms.concurrent else { return Ok(()) };
    match limit.state().open.enter(key, max) {
        Some(permit) => held.open.push(permit),
        None => return Err((Denied::Concurrent, Duration::ZERO)),
    }
    Ok(())
}

fn key_of(context: &RequestContext, limit: &Limit) -> u64 {
    let by_client = || KeyValue::Client(network(client(context)));
    let value = match &limit.terms.by {
        LimitKey::Client => by_client(),
        LimitKey::Site => KeyValue::Site(context.site().name()),
        LimitKey::Rule | LimitKey::Request => KeyValue::Rule,
        LimitKey::Header(name) => {
            let lines: Vec<&[u8]> = context.head.fields.lines(name).collect();
            if lines.is_empty() { by_client() } else { KeyValue::Header(lines) }
        }
    };
    limit.state().number_of(&value)
}

/// Returns the client; behind trusted proxies, the one that they name.
fn client(context: &RequestContext) -> IpAddr {
    context.options.forwarded.client(context.client.address.ip(), &context.head.fields)
}

fn credentials(context: &RequestContext) -> Option<Credentials> {
    Credentials::read(context.head.fields.line(&CREDENTIALS)?)
}

fn note_dry_run(context: &RequestContext, limit: &Limit, why: Denied, now: u64) {
    context.services.observer.count(Event::LimitDryRun, 1);
    if limit.may_log(now) {
        let (rule, client) = (&limit.terms.rule, client(context));
        log::warn!("{rule} would refuse a request of {client} ({why}, limit-dry-run)");
    }
}

fn refusal(limit: &Limit, why: Denied, later: Duration) -> Refusal {
    let seconds = later.as_secs() + u64::from(later.subsec_nanos() > 0);
    let what = match why {
        Denied::Concurrent => "at the same time",
        _ => "in a short time",
    };
    Refusal {
        status: limit.terms.status,
        why,
        text: format!("Too many requests {what}: ask again later.\n"),
        field: (header::RETRY_AFTER, HeaderValue::from(seconds.max(1))),
    }
}

fn challenge(context: &RequestContext, users: &BasicAuth) -> Refusal {
    let text = match context.head.fields.has(&CREDENTIALS) {
        true => "The name or the password is wrong.\n",
        false => "A name and a password are required.\n",
    };
    Refusal {
        status: StatusCode::UNAUTHORIZED,
        why: Denied::Credentials,
        text: text.to_owned(),
        field: (header::WWW_AUTHENTICATE, users.challenge().clone()),
    }
}
