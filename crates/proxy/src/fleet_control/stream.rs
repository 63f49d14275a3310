//! Follows the stream of purges that several sites share, in a fleet or at a single node.
//!
//! Each node reads the stream from where it is, and writes what it reads into its purge log, where
//! the stream is one more maker; so a restart goes on where the log ends. One message is one entry,
//! whose name is its text: each node knows by itself which of its keys that concerns. A message
//! that is no purge is an entry that concerns nothing.

use std::convert::Infallible;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use fleet::purges::stream::{Freshness, Start};
use fleet::purges::{Maker, Vector};
use membership::warning_limiter::WarningLimiter;
use purge_stream::{Connection, Message};
use store::{LoggedPurge, Mode, PurgedTarget};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::fleet_control::applying::{
    VALIDATED, apply_new, carry_out, doubt, doubt_everything, log_purges,
};
use crate::fleet_control::numbered_purge::{NumberedPurge, logged_after, logged_vector};
use crate::peers::purge_stream::PurgeStream;
use crate::request::purge_order::{MESSAGE_MAX, Purge};
use crate::services::Services;

/// Pause between the end of a connection and the next attempt.
const AGAIN: Duration = Duration::from_secs(1);

/// How often it is looked whether the store is open.
const START_TICK: Duration = Duration::from_millis(20);

/// How often the stream is asked for its end, in each lease.
const ASKED_PER_LEASE: u32 = 8;

/// Follows the stream for as long as the process runs.
pub(crate) async fn follow(services: Rc<Services>, stream: Arc<PurgeStream>) -> Infallible {
    let follower =
        Follower { services, stream, lost: Default::default(), no_purge: Default::default() };
    while !follower.has_begun() {
        sleep(START_TICK).await;
    }
    if follower.services.is_without_store() {
        // There are no copies that a purge could concern.
        follower.stream.set_current(Duration::MAX);
        return pending().await;
    }
    loop {
        let Err(why) = Box::pin(follower.read()).await;
        let Follower { services, stream, lost, .. } = &follower;
        if let Some(more) = lost.due(services.clock.running()) {
            log::warn!(
                "the purge stream {} cannot be read: {why}{more}. Until it can, what is stored is \
                 validated with its origin each {} s",
                stream.settings.address,
                stream.lease.as_secs()
            );
        }
        stream.set_publisher(Err(why));
        sleep(AGAIN).await;
    }
}

struct Follower {
    services: Rc<Services>,
    stream: Arc<PurgeStream>,
    /// Limit the warnings about a lost connection, and about messages that are no purges.
    lost: WarningLimiter,
    no_purge: WarningLimiter,
}

impl Follower {
    /// Returns whether it is known which messages this node has.
    fn has_begun(&self) -> bool {
        let node = self.services.shared.node.as_ref();
        !self.services.awaits_store() && node.is_none_or(|node| node.purges().has_begun())
    }

    /// Returns the purges that are durable here.
    fn durable(&self) -> Vector {
        match &self.services.shared.node {
            Some(node) => node.purge_vector(),
            None => self.services.store().as_ref().map(logged_vector).unwrap_or_default(),
        }
    }

    /// Reads the stream over one connection until that fails, and returns the reason.
    async fn read(&self) -> Result<Infallible, String> {
        let Follower { services, stream, .. } = self;
        let connection = Box::pin(Connection::open(&stream.settings)).await?;
        stream.set_publisher(Ok(connection.publisher()));
        let (durable, asked) = (self.durable(), services.clock.running());
        let mut extent = connection.extent().await?;
        let mut start = Start::of(stream.settings.address.maker(), &durable, extent);
        if !self.has_same_end(&connection, &start).await? {
            start = start.with_lost_end(extent);
        }
        if start.has_missed {
            self.miss(&start.maker, start.after).await?;
        }
        let mut reader = connection.read_after(start.after).await?;
        log::info!(
            "reading the purge stream {} from message {}",
            stream.settings.address,
            start.after + 1
        );
        let (mut freshness, mut read) = (Freshness::default(), start.after);
        freshness.note_end(asked, extent.last);
        let mut tick = interval(stream.lease / ASKED_PER_LEASE);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let had = self.durable().get(&start.maker);
            if had < read {
                return Err("the log here has lost what was read".to_owned());
            }
            freshness.note_durable(had);
            if let Some(until) = freshness.current_until(stream.lease) {
                stream.set_current(until);
            }
            tokio::select! {
                messages = reader.next() => {
                    let (messages, next) = in_sequence(messages?, read);
                    read += messages.len() as u64;
                    self.carry_out(&start.maker, messages).await?;
                    if let Some(next) = next {
                        // What the reader begins with is the first that is there.
                        if read == start.after {
                            self.miss(&start.maker, extent.last.max(next - 1)).await?;
                        }
                        return Err(format!("no message between {read} and {next} came"));
                    }
                }
                _ = tick.tick() => {
                    let asked = services.clock.running();
                    extent = connection.extent().await?;
                    if !start.is_of(extent, had) {
                        return Err("it was made again, or has lost its end".to_owned());
                    }
                    freshness.note_end(asked, extent.last);
                }
            }
        }
    }

    /// Returns whether the last message that this node has is still that of the stream, as far as
    /// both have it.
    async fn has_same_end(&self, connection: &Connection, start: &Start) -> Result<bool, String> {
        let Some((store, before)) = self.services.store().zip(start.after.checked_sub(1)) else {
            return Ok(true);
        };
        let logged = logged_after(&store, &start.maker, before, start.after).await;
        let logged = logged.and_then(|logged| logged.into_iter().next());
        // A mark that messages were missed has no time.
        let Some(logged) = logged.filter(|logged| logged.purge.at > 0) else { return Ok(true) };
        let message = connection.message(start.after).await?;
        Ok(message.is_none_or(|message| {
            let at = message.at;
            logged.purge == read(message).unwrap_or_else(|_| nothing(at))
        }))
    }

    async fn carry_out(&self, maker: &Maker, messages: Vec<Message>) -> Result<(), String> {
        let numbered = |message: Message| {
            let (maker, number) = (maker.clone(), message.number);
            NumberedPurge { maker, number, purge: self.purge_of(message) }
        };
        let new = messages.into_iter().map(numbered).collect();
        match &self.services.shared.node {
            Some(node) => apply_new(&self.services, node, new).await,
            None => log_purges(&self.services, new).await,
        }
    }

    /// Returns the purge that a message asks for.
    fn purge_of(&self, message: Message) -> LoggedPurge {
        let Message { number, at, .. } = message;
        let read = read(message);
        let count = if read.is_ok() { &self.stream.carried_out } else { &self.stream.invalid };
        count.fetch_add(1, Ordering::Relaxed);
        read.unwrap_or_else(|why| {
            if let Some(more) = self.no_purge.due(self.services.clock.running()) {
                let address = &self.stream.settings.address;
                log::warn!("message {number} of {address} is not a purge: {why}{more}");
            }
            nothing(at)
        })
    }

    /// Has everything validated that is stored here, because messages up to `through` may have been
    /// missed, and goes on behind them.
    async fn miss(&self, maker: &Maker, through: u64) -> Result<(), String> {
        let Follower { services, stream, .. } = self;
        let why = format!("the stream {} does not have them any more", stream.settings.address);
        let mut until = Vector::default();
        until.reach(maker, through);
        // The log then says so, too.
        let mark = NumberedPurge { maker: maker.clone(), number: through, purge: nothing(0) };
        let marks = if through > 0 { vec![mark] } else { Vec::new() };
        match &services.shared.node {
            Some(node) => {
                let _applying = node.purges().applying.lock().await;
                doubt(services, node, &until, &why).await?;
                carry_out(services, node, marks, &until).await
            }
            None => {
                log::warn!("purges are not known ({why}): {VALIDATED}");
                let store = services.store().ok_or("there is no cache here")?;
                doubt_everything(&store).await?;
                log_purges(services, marks).await
            }
        }
    }
}

/// Reads the purge that a message asks for. The error says why it asks for none.
fn read(Message { at, payload, .. }: Message) -> Result<LoggedPurge, String> {
    if payload.len() > MESSAGE_MAX {
        return Err(format!("it is longer than {MESSAGE_MAX} bytes"));
    }
    let mode = if Purge::read_json(&payload)?.soft { Mode::Soft } else { Mode::Hard };
    // The message is part of a larger buffer.
    Ok(LoggedPurge { target: PurgedTarget::Name(Bytes::copy_from_slice(&payload)), mode, at })
}

/// Returns a purge of nothing.
fn nothing(at: u64) -> LoggedPurge {
    LoggedPurge { target: PurgedTarget::Name(Bytes::new()), mode: Mode::Hard, at }
}

/// Returns those of `messages` that follow upon number `read` without a gap, and the number of the
/// first that does not.
fn in_sequence(mut messages: Vec<Message>, read: u64) -> (Vec<Message>, Option<u64>) {
    let follow = (read + 1..).zip(&messages).take_while(|(next, message)| message.number == *next);
    let follow = follow.count();
    let next = messages.get(follow).map(|message| message.number);
    messages.truncate(follow);
    (messages, next)
}

#[test]
fn messages_are_taken_up_to_the_first_gap() {
    let message = |number: &u64| Message { number: *number, at: 0, payload: Bytes::new() };
    for (numbers, read, follow, next) in [
        (&[][..], 3, 0, None),
        (&[4, 5], 3, 2, None),
        (&[4, 6], 3, 1, Some(6)),
        (&[6], 3, 0, Some(6)),
        (&[3], 3, 0, Some(3)),
    ] {
        let (messages, gap) = in_sequence(numbers.iter().map(message).collect(), read);
        assert_eq!((messages.len(), gap), (follow, next), "{numbers:?}");
    }
}
