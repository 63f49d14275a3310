//! Follows the logs of purges of other nodes.
//!
//! It promises: a log is noted as followed up to a place only when all before it has been carried
//! out durably; where the purges are not known by name any more, everything that is stored is
//! validated with its origin before it is used.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fleet::member::State;
use fleet::{LogPosition, MemberId};
use store::{LoggedPurge, Refusal};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::fleet_control::message::{Misunderstood, PURGES, Purge, Purges, PurgesOf};
use crate::fleet_control::post::post;
use crate::object::store::Store;
use crate::peers::node::Node;
use crate::request::purge_names::with_keys;
use crate::services::Services;

/// How long another node may take to tell its purges.
const PATIENCE: Duration = Duration::from_secs(2);

/// After so long without its answer the others are asked, too.
const SLOW: Duration = Duration::from_millis(300);

/// Maximum number of nodes asked at once.
const AT_ONCE: usize = 8;

/// How long this node waits for purges that no node can name. Until then it uses nothing that it
/// has stored, and afterwards only what an origin has validated since.
const UNKNOWN_AFTER: Duration = Duration::from_secs(5);

/// Why purges are not known.
const SHORT_LOG: &str = "its log does not reach back so far";

/// Purges that the node `member` tells of its own log.
pub(crate) struct Pushed {
    /// The position before the first of them.
    pub since: LogPosition,
    /// `None`: its log does not reach back to `since`.
    pub purges: Option<Vec<LoggedPurge>>,
    /// The position behind them.
    pub end: LogPosition,
}

/// Carries out purges that the node at which they were made tells.
///
/// # Errors
///
/// Earlier ones are missing here, or the device cannot make them durable. Holds the reason.
pub(crate) async fn carry_out(
    services: &Rc<Services>,
    node: &Arc<Node>,
    member: &MemberId,
    pushed: &Pushed,
) -> Result<(), String> {
    let purges = node.purges();
    let turn = purges.turn(member);
    let _turn = turn.lock().await;
    if node.is_without_cache() {
        // There is nothing here that a purge could remove; who is asked must have carried it out.
        purges.reach(member, pushed.end, node.now());
    } else {
        let store = services.store().ok_or("there is no cache here")?;
        Following { services, node, member, store }.take(pushed).await?;
    }
    if node.own().state != State::Joining {
        purges.caught_up();
    }
    Ok(())
}

/// Follows the log of `member` up to `wanted` at least.
///
/// # Errors
///
/// No node can send the log now, or the device cannot make it durable. Holds the reason.
pub(crate) async fn follow(
    services: &Rc<Services>,
    node: &Arc<Node>,
    member: &MemberId,
    wanted: LogPosition,
) -> Result<(), String> {
    let purges = node.purges();
    let turn = purges.turn(member);
    let _turn = turn.lock().await;
    if node.is_without_cache() {
        // There is nothing here that a purge could remove; who is asked must have carried it out.
        purges.reach(member, wanted, node.now());
        return Ok(());
    }
    let store = services.store().ok_or("there is no cache here")?;
    let following = Following { services, node, member, store };
    loop {
        let known = purges.number(member, wanted.log);
        if purges.positions().positions.covers(member, wanted) {
            return Ok(());
        }
        following.step(LogPosition { number: known, ..wanted }, wanted).await?;
        if purges.number(member, wanted.log) <= known {
            return Err("it told nothing new".to_owned());
        }
    }
}

/// A part of a log, as another node sent it.
struct Told {
    /// Its purges, if it can be said which there were.
    purges: Option<Vec<LoggedPurge>>,
    /// The position behind them.
    end: LogPosition,
    /// The digest of the last purge before that, if it is known.
    last: Option<u64>,
}

struct Following<'a> {
    services: &'a Rc<Services>,
    node: &'a Arc<Node>,
    member: &'a MemberId,
    store: Store,
}

impl Following<'_> {
    /// Carries out what was pushed, as far as it is new.
    async fn take(&self, pushed: &Pushed) -> Result<(), String> {
        let (purges, end) = (self.node.purges(), pushed.end);
        let Some(told) = &pushed.purges else {
            if self.may_have_missed() {
                self.doubt(SHORT_LOG, end).await?;
            }
            self.reach(end, None);
            return Ok(());
        };
        let known = purges.number(self.member, end.log);
        if pushed.since.number > known {
            return Err("it lacks earlier purges".to_owned());
        }
        let begin = end.number.saturating_sub(told.len() as u64);
        let known = told.len().min(known.saturating_sub(begin) as usize);
        // The numbers alone do not tell the purges of an old disk from those that were on it since.
        let is_known = told[..known].last().is_some_and(|last| {
            let position = LogPosition { number: begin + known as u64, ..end };
            purges.has_carried_out(self.member, position, (last, Purge::of(last).digest()))
        });
        match &told[if is_known { known } else { 0 }..] {
            [] if known == told.len() => Ok(()),
            new => self.carry_out(new, end, None).await,
        }
    }

    /// Goes on from what is known.
    async fn step(&self, known: LogPosition, wanted: LogPosition) -> Result<(), String> {
        match self.ask(known, wanted).await {
            Some(Told { purges: Some(purges), end, last }) => {
                self.carry_out(&purges, end, last).await
            }
            Some(Told { purges: None, end, last }) => {
                if self.may_have_missed() {
                    self.doubt(SHORT_LOG, end).await?;
                }
                self.reach(end, last);
                Ok(())
            }
            None if !self.may_have_missed() => {
                self.reach(wanted, None);
                Ok(())
            }
            None if self.node.purges().lags_for(self.member, self.node.now()) < UNKNOWN_AFTER => {
                Err("no node could send them".to_owned())
            }
            None => {
                self.doubt("no node that answers has them", wanted).await?;
                self.reach(wanted, None);
                Ok(())
            }
        }
    }

    /// Returns whether this node may have stored what a log concerns that it has not followed: one
    /// that serves already did not wait for the other.
    fn may_have_missed(&self) -> bool {
        self.node.purges().is_away() || self.node.own().state != State::Joining
    }

    /// Asks the node itself for the purges after `known`, and the others if it does not answer
    /// soon. Of the answers the one that goes furthest counts, and the first that reaches `wanted`
    /// is enough. Returns `None` if no node knows more than this one.
    async fn ask(&self, known: LogPosition, wanted: LogPosition) -> Option<Told> {
        let mut asking = JoinSet::new();
        asking.spawn_local(self.question(self.member, known));
        let is_news = |told: &Told| told.end.log == known.log && told.end.number > known.number;
        let mut furthest: Option<Told> = None;
        let first = timeout(SLOW, asking.join_next()).await;
        if let Ok(Some(Ok((_, Some(told))))) = first
            && is_news(&told)
        {
            if told.purges.is_some() {
                return Some(told);
            }
            // Others may have kept them.
            furthest = Some(told);
        }
        let members = self.node.members();
        let others = members.iter().map(|member| &member.id);
        let mut others = others.filter(|other| ![self.node.id(), self.member].contains(other));
        loop {
            while asking.len() < AT_ONCE
                && let Some(other) = others.next()
            {
                asking.spawn_local(self.question(other, known));
            }
            let Some(answer) = asking.join_next().await else { return furthest };
            let Ok((asked, Some(told))) = answer else { continue };
            // Of a log that does not reach back that far only its own node can be sure.
            if !is_news(&told) || told.purges.is_none() && asked != *self.member {
                continue;
            }
            if told.purges.is_some() && told.end.number >= wanted.number {
                return Some(told);
            }
            if furthest.as_ref().is_none_or(|before| before.end.number < told.end.number) {
                furthest = Some(told);
            }
        }
    }

    /// Makes a question for the purges since a position, which ends with who was asked.
    fn question(
        &self,
        asked: &MemberId,
        since: LogPosition,
    ) -> impl Future<Output = (MemberId, Option<Told>)> + use<> {
        let (services, node) = (self.services.clone(), self.node.clone());
        let question = PurgesOf { node: self.member.to_string(), since: since.to_string() };
        let asked = asked.clone();
        async move {
            let asking = post::<Purges>(&services, &node, &asked, (PURGES, &question), PATIENCE);
            let told = asking.await.and_then(|told| read(&told).map_err(|why| why.to_string()));
            let told = told.inspect_err(|why| log::debug!("{asked}: {why}")).ok();
            (asked, told)
        }
    }

    async fn carry_out(
        &self,
        purges: &[LoggedPurge],
        end: LogPosition,
        last: Option<u64>,
    ) -> Result<(), String> {
        let _purging = self.node.offering.begin_purge();
        self.node.purges().begin_reaching(self.member, end);
        let done = self.store.apply_purges(&with_keys(&self.services.options(), purges)).await;
        if let Err(refusal) = done
            && refusal != Refusal::Offline
        {
            return Err(not_durable(refusal));
        }
        self.node.purges().keep(self.member, end, purges);
        let own = purges.last().map(|last| Purge::of(last).digest());
        self.reach(end, own.or(last));
        // Without a disk they are in effect for as long as the process runs, and what a later one
        // finds on the disk says that they are missing there.
        done.map_err(not_durable)
    }

    async fn doubt(&self, why: &str, until: LogPosition) -> Result<(), String> {
        log::warn!(
            "purges of {} are not known ({why}): everything that is stored here is validated with \
             its origin before it is used",
            self.member
        );
        let _purging = self.node.offering.begin_purge();
        self.node.purges().begin_reaching(self.member, until);
        doubt_everything(&self.store).await
    }

    fn reach(&self, end: LogPosition, last: Option<u64>) {
        if let Some(last) = last {
            self.node.purges().note_last(self.member, end, last);
        }
        self.node.purges().reach(self.member, end, self.node.now());
    }
}

fn read(told: &Purges) -> Result<Told, Misunderstood> {
    let purges = told.purges.as_ref();
    let purges = purges.map(|purges| purges.iter().map(Purge::logged).collect()).transpose()?;
    Ok(Told { purges, end: told.end.parse()?, last: told.last })
}

fn not_durable(refusal: Refusal) -> String {
    format!("purges are not durable here: {refusal}")
}

/// Has everything that is stored here validated before it is used, because purges may have been
/// missed.
///
/// # Errors
///
/// The device cannot make it durable. A device that is given up needs nothing: no lookup finds what
/// is on it, and a later process reads there how far this node had come before.
pub(crate) async fn doubt_everything(store: &Store) -> Result<(), String> {
    match store.doubt_everything().await {
        Ok(()) | Err(Refusal::Offline) => Ok(()),
        Err(refusal) => Err(format!("marking stored objects for validation: {refusal}")),
    }
}
