//! Follows the logs of purges of other nodes.
//!
//! It promises: a log is noted as followed up to a place only when all before it has been carried
//! out durably; where that cannot be had by name any more everything that is stored is purged.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fleet::member::State;
use fleet::{LogPosition, MemberId};
use store::{LoggedPurge, Mode, PurgedTarget};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::fleet_control::message::{Misunderstood, PURGES, Purge, Purges, PurgesOf};
use crate::fleet_control::post::post;
use crate::object::store::Store;
use crate::peers::node::Node;
use crate::services::Services;

/// How long another node may take to tell its purges.
const PATIENCE: Duration = Duration::from_secs(2);

/// After so long without its answer the others are asked, too.
const SLOW: Duration = Duration::from_millis(300);

/// Maximum number of nodes asked at once.
const AT_ONCE: usize = 8;

/// After how long without a way to its log a node that is no member counts as gone.
const GONE: Duration = Duration::from_secs(10);

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
    let _turn = purges.turn.lock().await;
    if node.is_without_cache() {
        // There is nothing here that a purge could remove; who is asked must have carried it out.
        purges.reach(member, wanted, node.now());
        return Ok(());
    }
    let store = services.store().ok_or("there is no cache here")?;
    let following = Following { services, node, member, store };
    loop {
        let known = purges.followed(member);
        if known.is_some_and(|known| known.covers(wanted)) {
            return Ok(());
        }
        let before = known;
        following.step(known, wanted).await?;
        if purges.followed(member) == before {
            return Err("it told nothing new".to_owned());
        }
        // The log has begun anew: what was wanted is of the past.
        let reached = purges.followed(member);
        if reached.is_some_and(|reached| reached.log != wanted.log) {
            return Ok(());
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
    /// Goes on from what is known.
    async fn step(&self, known: Option<LogPosition>, wanted: LogPosition) -> Result<(), String> {
        match self.ask(known, wanted).await {
            Some(told) if known.is_some_and(|known| known > told.end) => {
                Err(format!("it does not know yet of purges that were made there before {wanted}"))
            }
            Some(Told { purges: Some(purges), end, last }) => {
                self.carry_out(&purges, end, last).await
            }
            Some(Told { purges: None, end, last }) => {
                if known.is_some() || self.may_have_missed() {
                    self.node.purges().begin_reaching(self.member, end);
                    self.purge_everything("its log does not reach back so far").await?;
                }
                self.reach(end, last);
                Ok(())
            }
            None if self.may_come() => Err("no node could send them".to_owned()),
            None => {
                self.node.purges().begin_reaching(self.member, wanted);
                self.purge_everything("it is gone, and no node has kept its log").await?;
                self.reach(wanted, None);
                Ok(())
            }
        }
    }

    /// Returns whether it is worth waiting for the node: it lives, or may not be known yet.
    fn may_come(&self) -> bool {
        let lags_for = self.node.purges().lags_for(self.member, self.node.now());
        self.node.members().get(self.member).is_some() || lags_for < GONE
    }

    /// Returns whether this node may have stored what a log that it never followed concerns: one
    /// that serves already did not wait for the other.
    fn may_have_missed(&self) -> bool {
        self.node.purges().is_away() || self.node.own().state != State::Joining
    }

    /// Asks the node itself for the purges after `known`, and the others if it does not answer
    /// soon. Any answer of the node itself counts. Of the others only one that extends `known`
    /// does, and the first that reaches `wanted` is enough. Returns `None` if no node sent any.
    async fn ask(&self, known: Option<LogPosition>, wanted: LogPosition) -> Option<Told> {
        // A node that was just met sends its whole log, from the first purge on.
        let since = known.unwrap_or(LogPosition { log: wanted.log, number: 0 });
        let mut asking = JoinSet::new();
        asking.spawn_local(self.question(self.member, since));
        if let Ok(Some(Ok((_, Some(told))))) = timeout(SLOW, asking.join_next()).await {
            return Some(told);
        }
        let members = self.node.members();
        let others = members.iter().map(|member| &member.id);
        let mut others = others.filter(|other| ![self.node.id(), self.member].contains(other));
        let mut furthest: Option<Told> = None;
        loop {
            while asking.len() < AT_ONCE
                && let Some(other) = others.next()
            {
                asking.spawn_local(self.question(other, since));
            }
            let Some(answer) = asking.join_next().await else { return furthest };
            let Ok((asked, Some(told))) = answer else { continue };
            if asked == *self.member {
                return Some(told);
            }
            if told.purges.is_none() {
                continue;
            }
            let before = furthest.as_ref().map(|before| before.end).or(known);
            if before.is_some_and(|before| before.covers(told.end)) {
                continue;
            }
            if told.end.covers(wanted) {
                return Some(told);
            }
            furthest = Some(told);
        }
    }

    /// Makes a question for the purges since a position, which ends with who was asked.
    fn question(
        &self,
        asked: &MemberId,
        since: LogPosition,
    ) -> impl Future<Output = (MemberId, Option<Told>)> + use<> {
        let (services, node) = (self.services.clone(), self.node.clone());
        let question = PurgesOf { node: self.member.to_string(), since: Some(since.to_string()) };
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
        let done = self.store.apply_purges(purges).await;
        done.map_err(|refusal| format!("purges are not durable here: {refusal}"))?;
        self.node.purges().keep(self.member, end, purges);
        let own = purges.last().map(|last| Purge::of(last).digest());
        self.reach(end, own.or(last));
        Ok(())
    }

    async fn purge_everything(&self, why: &str) -> Result<(), String> {
        log::warn!(
            "everything that is stored here counts as purged: purges of {} are not known ({why})",
            self.member
        );
        let _purging = self.node.offering.begin_purge();
        purge_everything(&self.store).await
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

/// Purges all stored objects here, without telling other nodes.
pub(crate) async fn purge_everything(store: &Store) -> Result<(), String> {
    let all = LoggedPurge { target: PurgedTarget::Everything, mode: Mode::Hard, at: 0 };
    let done = store.apply_purges(&[all]).await;
    done.map_err(|refusal| format!("a purge of everything is not durable: {refusal}"))
}
