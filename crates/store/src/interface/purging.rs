//! Invalidations and purges: of keys, and of all objects with a label, with a prefix, or in the
//! cache; also the purge log that other stores follow, and purges received from them.

use std::rc::Rc;

use bytes::Bytes;
use device::{Clock, Device, Nanos};

use crate::base::key::Key;
use crate::base::labels::{DOUBTED, Mode, Target};
use crate::base::logged_purge::{
    LoggedPurge, MadePurge, PurgeMaker, PurgePosition, PurgeRange, PurgedTarget, PurgesLacking,
    PurgesSince,
};
use crate::base::refusal::Refusal;
use crate::core::{Counted, Goal};
use crate::format::journal::JournalPosition;
use crate::format::purge_log::{
    LackingQuestion, LackingStep, PurgeLog, PurgeQuestion, PurgeStep, fits,
};
use crate::interface::fetch_token::FetchToken;
use crate::interface::store::Store;
use crate::shell::volume::Volume;

/// Logged purges to wait for.
#[derive(Clone, Copy)]
struct Logged {
    /// Number of the volume whose log has them.
    volume: usize,
    /// Number of entries that must be durable.
    entries: u64,
}

/// Runs `run` with the purge log of a volume, under its lock. Begins a log if there is none.
fn with_log<D: Device, C: Clock, T>(
    volume: &Volume<D, C>,
    run: impl FnOnce(&mut PurgeLog) -> T,
) -> T {
    let now = volume.clock.unix_seconds();
    run(volume.shared.lock().purge_log().begin(now))
}

impl<D: Device, C: Clock> Store<D, C> {
    /// Removes `key` durably, including the device flush, and overtakes its running fetches.
    /// Returns whether something was removed.
    ///
    /// # Errors
    /// The same as those of [`Store::purge_keys`].
    pub async fn purge(&self, key: &Key) -> Result<bool, Refusal> {
        let removed = self.purge_keys(std::slice::from_ref(key)).await?;
        Ok(removed.first().is_some_and(|removed| *removed))
    }

    /// Removes `keys` durably like [`Store::purge_keys`], for a request that invalidated them and
    /// waits for its response. Unlike there, the call waits no longer than
    /// [`Options::write_bound`]. It waits for a flush only if the removal is logged, or if an
    /// object stored under one of the keys could reappear after a power loss. `fetch` is the token
    /// of a fetch that is not overtaken, as for [`Store::remove_for_fetch`]. Keys that no block of
    /// the log can hold (some 4,000 bytes) are not logged: any client can make one.
    ///
    /// # Errors
    /// `Busy`: it is not durable yet. The objects are no longer found, and the device makes the
    /// removal durable as soon as it can. `Offline`: a device is given up.
    ///
    /// [`Options::write_bound`]: crate::Options::write_bound
    pub async fn invalidate(
        &self,
        keys: &[Key],
        mut fetch: Option<&mut FetchToken>,
    ) -> Result<(), Refusal> {
        let told: Vec<Key> = keys.iter().filter(|key| fits(key)).cloned().collect();
        let logged = self.log_keys(&told);
        let mut noted = vec![None; self.volumes().len()];
        for key in keys {
            self.remove_on_all(key, fetch.as_deref_mut(), &mut noted);
        }
        let bound = self.volumes().first().map_or(0, |volume| volume.write_deadline());
        let done = self.until_durable(noted, bound).await;
        let result = match self.go_on_without(&done, bound).await {
            Ok(()) => self.until_logged(logged, bound).await,
            failed => failed,
        };
        self.count_durability(&result);
        result
    }

    /// Removes several keys like [`Store::purge`], with one flush of each device. Returns for each
    /// key whether something was removed.
    ///
    /// # Errors
    /// The objects are no longer found, but that is not durable. `Offline`: a device is given up.
    /// `Busy`: a device stalls, or took longer than [`Options::stall_bound`]; the removal becomes
    /// durable when the device has written its pending data.
    ///
    /// [`Options::stall_bound`]: crate::Options::stall_bound
    pub async fn purge_keys(&self, keys: &[Key]) -> Result<Vec<bool>, Refusal> {
        let logged = self.log_keys(keys);
        let result = self.remove_durably(keys, logged).await;
        self.count_durability(&result);
        result
    }

    /// Removes several keys like [`Store::purge_keys`]. The log gets one entry with the name that
    /// the caller gives to all of them ([`PurgedTarget::Name`]).
    ///
    /// # Errors
    /// The same as those of [`Store::purge_keys`].
    pub async fn purge_named(&self, name: Bytes, keys: &[Key]) -> Result<Vec<bool>, Refusal> {
        let logged = self.log(Mode::Hard, || [PurgedTarget::Name(name)].into_iter());
        let result = self.remove_durably(keys, logged).await;
        self.count_durability(&result);
        result
    }

    fn count_durability<T>(&self, result: &Result<T, Refusal>) {
        if let (Err(_), Some(volume)) = (result, self.volumes().first()) {
            volume.shared.lock().count(Counted::NotDurable);
        }
    }

    /// Removes `key` on every device: where it belongs depends on the devices in use, and one on
    /// which it was stored earlier may still have it. `fetch` is not overtaken. Raises in `noted`
    /// what must be durable on each device. Returns whether something was removed.
    fn remove_on_all(
        &self,
        key: &Key,
        mut fetch: Option<&mut FetchToken>,
        noted: &mut [Option<JournalPosition>],
    ) -> bool {
        let mut removed = false;
        for (volume, noted) in self.volumes().iter().zip(noted) {
            let digest = volume.shared.digester.key(key.as_bytes());
            removed |= match &mut fetch {
                Some(token) if token.is_of(&volume.shared, &digest) => token.remove_own().0,
                _ => volume.shared.lock().remove(&digest).0,
            };
            *noted = (*noted).max(volume.shared.lock().undurable_deletion(&digest));
        }
        removed
    }

    /// Waits until each device is durable up to the position noted for it; returns for each whether
    /// it is.
    async fn until_durable(
        &self,
        noted: Vec<Option<JournalPosition>>,
        deadline: Nanos,
    ) -> Vec<Result<(), Refusal>> {
        let waits = self.volumes().iter().zip(noted).map(|(volume, up_to)| async move {
            match up_to {
                Some(up_to) => volume.reach(Goal::Durable(up_to), deadline).await,
                None => Ok(()),
            }
        });
        crate::base::join::values(waits.collect()).await
    }

    /// Returns the deadline of a purge.
    fn purge_deadline(&self) -> Nanos {
        self.volumes().first().map_or(0, |volume| volume.stall_deadline())
    }

    async fn remove_durably(
        &self,
        keys: &[Key],
        logged: Option<Logged>,
    ) -> Result<Vec<bool>, Refusal> {
        let mut noted = vec![None; self.volumes().len()];
        let removed = keys.iter().map(|key| self.remove_on_all(key, None, &mut noted)).collect();
        let deadline = self.purge_deadline();
        let done = self.until_durable(noted, deadline).await;
        self.go_on_without(&done, deadline).await?;
        self.until_logged(logged, deadline).await?;
        Ok(removed)
    }

    /// Purges all objects that any of `targets` concerns, however many there are, and overtakes the
    /// running fetches whose results they would concern. The purge is durable, including the device
    /// flush, when this returns. A device that is given up, and so misses the purge, will not be
    /// trusted any more.
    ///
    /// # Errors
    /// The objects are no longer served even on an error. `Offline`: no device could make the purge
    /// durable. `Busy`: a device stalls, or took longer than [`Options::stall_bound`]; the purge
    /// becomes durable when the device has written its pending data.
    ///
    /// [`Options::stall_bound`]: crate::Options::stall_bound
    pub async fn purge_all(&self, targets: &[Target<'_>], mode: Mode) -> Result<(), Refusal> {
        let logged = self.log(mode, || targets.iter().map(PurgedTarget::of));
        let result = self.purge_targets((targets, mode, None), logged).await;
        self.count_durability(&result);
        result
    }

    /// Outdates every object durably, for a store that may have missed purges. The objects stay,
    /// and [`Entry::outdated_since`] is 0 until each is replaced or validated: they must not be
    /// used without validation, because a missed purge may have concerned them. Running fetches are
    /// overtaken. The call is not logged.
    ///
    /// # Errors
    /// The same as those of [`Store::purge_all`].
    ///
    /// [`Entry::outdated_since`]: crate::Entry::outdated_since
    pub async fn doubt_everything(&self) -> Result<(), Refusal> {
        self.purge_targets((&[Target::Everything], Mode::Soft, Some(DOUBTED)), None).await
    }

    /// `at`: the time since when objects are outdated, in unix seconds; `None`: now.
    async fn purge_targets(
        &self,
        (targets, mode, at): (&[Target<'_>], Mode, Option<u32>),
        logged: Option<Logged>,
    ) -> Result<(), Refusal> {
        let volumes = self.volumes().iter();
        let noted: Vec<_> =
            volumes.map(|volume| Some(volume.begin_purge(targets, mode, at))).collect();
        let deadline = self.purge_deadline();
        let mut done = self.until_durable(noted, deadline).await;
        if let Some(Logged { volume, entries }) = logged
            && done[volume].is_ok()
        {
            done[volume] = self.volumes()[volume].reach(Goal::Logged(entries), deadline).await;
        }
        self.go_on_without(&done, deadline).await
    }

    /// Records durably that the devices that are given up, and so not `done`, missed something:
    /// they are not trusted when they return.
    ///
    /// # Errors
    /// `Offline`: no device can record that. `Busy`: a device stalls. It is not given up: what it
    /// missed becomes durable there when it has written its pending data.
    async fn go_on_without(
        &self,
        done: &[Result<(), Refusal>],
        deadline: Nanos,
    ) -> Result<(), Refusal> {
        if done.contains(&Err(Refusal::Busy)) {
            return Err(Refusal::Busy);
        }
        let away = done.iter().filter(|done| done.is_err()).count() as u64;
        if away == 0 {
            return Ok(());
        }
        let others = self.volumes().iter().zip(done).filter(|(_, done)| done.is_ok());
        let raised = others.map(|(volume, _)| volume.reach(Goal::RunsWithout(away), deadline));
        let raised = crate::base::join::values(raised.collect()).await;
        if raised.is_empty() { Err(Refusal::Offline) } else { raised.into_iter().collect() }
    }

    /// Returns the durable purges made here since `position`, by name, with [`Purge logs`] on:
    /// those of [`Store::purge`], [`Store::purge_keys`], [`Store::purge_named`],
    /// [`Store::purge_all`] and [`Store::invalidate`], but not those received from elsewhere
    /// ([`Store::apply_purges`]). None is missing between two positions, even after a crash; where
    /// the log cannot guarantee that, it reports that the position is too old. `position` is `None`
    /// for a follower without one. Returns `None` when no log is kept, or no device is in use.
    ///
    /// The first device in use keeps the log. When that becomes another device, a new log begins.
    /// Purges that are no longer in memory are read from the device.
    ///
    /// [`Purge logs`]: crate::Options::purge_log
    pub async fn purges_since(&self, position: Option<PurgePosition>) -> Option<PurgesSince> {
        let volume = &self.volumes()[self.log_volume()?];
        let shared = &volume.shared;
        let mut question = PurgeQuestion::new(position);
        loop {
            match with_log(volume, |log| log.since(&mut question)) {
                PurgeStep::Told(told) => return Some(told),
                PurgeStep::Read(extent) => {
                    let bytes = volume.read(extent).await;
                    let area = shared.areas.purge_log;
                    question.reading.take(&shared.secret, area, bytes.as_ref());
                }
            }
        }
    }

    /// Returns the makers whose purges are or were in the log, this store first, and for each the
    /// number of the last one that is durable; none before it is missing. It is never less than it
    /// was, unless a new log begins or too many makers (some 1,000) have purges: then the one whose
    /// last purge is the oldest is forgotten. Returns `None` when no log is kept, or no device is
    /// in use.
    pub fn purge_vector(&self) -> Option<Vec<(PurgeMaker, u64)>> {
        Some(with_log(&self.volumes()[self.log_volume()?], |log| log.vector()))
    }

    /// Returns the durable purges in `ranges`, of different makers, in the order in which they were
    /// logged: each once, some 256 KiB at a time. Returns `None` when no log is kept, or no device
    /// is in use.
    pub async fn purges_lacking(&self, ranges: &[PurgeRange]) -> Option<PurgesLacking> {
        let volume = &self.volumes()[self.log_volume()?];
        let shared = &volume.shared;
        let mut question = LackingQuestion::new(ranges);
        loop {
            match with_log(volume, |log| log.lacking(&mut question)) {
                LackingStep::Told(told) => return Some(told),
                LackingStep::Read(extent) => {
                    let bytes = volume.read(extent).await;
                    let area = shared.areas.purge_log;
                    question.reading.take(&shared.secret, area, bytes.as_ref());
                }
            }
        }
    }

    /// Returns the end of the purge log, with [`Purge logs`] on; `None` when no log is kept, or no
    /// device is in use.
    ///
    /// [`Purge logs`]: crate::Options::purge_log
    pub fn purge_log_end(&self) -> Option<PurgePosition> {
        Some(with_log(&self.volumes()[self.log_volume()?], |log| log.end()))
    }

    /// Returns whether the first device in use kept a purge log, this one or another, before this
    /// store was opened.
    pub fn kept_purge_log(&self) -> bool {
        let Some(volume) = self.log_volume() else { return false };
        let mut core = self.volumes()[volume].shared.lock();
        core.purge_log().get().is_some_and(|log| log.was_kept())
    }

    /// Begins a new log in place of the present one, with the purges of that one. Call this when
    /// other nodes have a log of this store with other purges. The number of the new log is greater
    /// than that of the present one, and greater than `known`.
    pub fn begin_later_purge_log(&self, known: u64) {
        if let Some(volume) = self.log_volume() {
            let mut core = self.volumes()[volume].shared.lock();
            core.purge_log().begin_later(known);
            core.background().wake();
        }
    }

    /// Carries out purges that were made elsewhere, then logs them as `made` if a log is kept. Both
    /// are durable when this returns. A [`PurgedTarget::Name`] in `purges` removes nothing: the
    /// caller replaces it by the keys there, and leaves it in `made`. A purge that is in
    /// the log already is only carried out. Of one before which others are missing in the log, the
    /// caller has carried out those as well, or outdated all that they may concern.
    ///
    /// The log comes second because [`Store::purge_vector`] says that a purge is durable on all
    /// devices: of one flush, a power loss may leave the log and not the journal.
    ///
    /// # Errors
    /// A device could not make them durable; see [`Store::purge_keys`] and [`Store::purge_all`].
    pub async fn apply_purges(
        &self,
        purges: &[LoggedPurge],
        made: Vec<MadePurge>,
    ) -> Result<(), Refusal> {
        for mode in [Mode::Hard, Mode::Soft] {
            let of_mode = purges.iter().filter(|purge| purge.mode == mode);
            let targets: Vec<Target<'_>> =
                of_mode.filter_map(|purge| purge.target.as_target()).collect();
            if !targets.is_empty() {
                self.purge_targets((&targets, mode, None), None).await?;
            }
        }
        let key = |purge: &LoggedPurge| match &purge.target {
            PurgedTarget::Key(key) => Some(key.clone()),
            _ => None,
        };
        let keys: Vec<Key> = purges.iter().filter_map(key).collect();
        if !keys.is_empty() {
            self.remove_durably(&keys, None).await?;
        }
        let logged = self.log_made(made);
        self.until_logged(logged, self.purge_deadline()).await
    }

    fn log_made(&self, made: Vec<MadePurge>) -> Option<Logged> {
        let volume = self.log_volume()?;
        let log_all = |log: &mut PurgeLog| made.into_iter().map(|made| log.log_made(made)).last();
        let entries = with_log(&self.volumes()[volume], log_all)?;
        Some(Logged { volume, entries })
    }

    /// Returns the number of the volume that keeps the log: the first in use.
    fn log_volume(&self) -> Option<usize> {
        let logs = self.volumes().first()?.shared.options.purge_log;
        let online = || self.volumes().iter().position(|v| v.shared.lock().status().online);
        logs.then(online).flatten()
    }

    fn log_keys(&self, keys: &[Key]) -> Option<Logged> {
        self.log(Mode::Hard, || keys.iter().cloned().map(PurgedTarget::Key))
    }

    /// Logs purges if a log is kept. Must be called before they are carried out, so that no
    /// completed purge is missing.
    fn log<T: Iterator<Item = PurgedTarget>>(
        &self,
        mode: Mode,
        targets: impl FnOnce() -> T,
    ) -> Option<Logged> {
        let volume = self.log_volume()?;
        let at = self.volumes()[volume].clock.unix_seconds();
        let entries = with_log(&self.volumes()[volume], |log| {
            targets().map(|target| log.log(LoggedPurge { target, mode, at })).last()
        })?;
        Some(Logged { volume, entries })
    }

    /// Waits until the logged purges are durable. A device that would have kept the log but is not
    /// in use has missed them: it is not trusted any more.
    async fn until_logged(&self, logged: Option<Logged>, deadline: Nanos) -> Result<(), Refusal> {
        let Some(Logged { volume, entries }) = logged else { return Ok(()) };
        let durable = self.volumes()[volume].reach(Goal::Logged(entries), deadline).await;
        let online = |(number, other): (usize, &Rc<Volume<D, C>>)| {
            let online = || other.shared.lock().status().online;
            if number == volume { durable } else { online().then_some(()).ok_or(Refusal::Offline) }
        };
        let done: Vec<_> = self.volumes().iter().enumerate().map(online).collect();
        self.go_on_without(&done, deadline).await
    }
}
