//! Purges: of keys, of all that a label, a prefix or everything concerns, and those that another
//! store follows or has made.

use std::rc::Rc;

use device::{Clock, Device};

use crate::base::key::Key;
use crate::base::labels::{Mode, Target};
use crate::base::logged_purge::{LoggedPurge, PurgePosition, PurgedTarget, PurgesSince};
use crate::base::refusal::Refusal;
use crate::core::Goal;
use crate::format::journal::JournalPosition;
use crate::interface::store::Store;

/// Purges in the log of a device.
#[derive(Clone, Copy)]
struct Logged {
    /// Number of the device's volume.
    volume: usize,
    /// So many must be durable.
    purges: u64,
}

impl<D: Device, C: Clock> Store<D, C> {
    /// Removes `key` durably, the device flush included, and overtakes its running fetches.
    ///
    /// # Errors
    /// The device could not make it durable; the object is gone from memory anyway.
    pub async fn purge(&self, key: &Key) -> Result<bool, Refusal> {
        let logged = self.log_keys(std::slice::from_ref(key));
        let (volume, digest) = self.place(key);
        let (removed, up_to) = volume.shared.lock().remove(&digest);
        let durable =
            volume.reach(Goal::Durable(up_to), None).await && self.is_logged(logged).await;
        durable.then_some(removed).ok_or(Refusal::Offline)
    }

    /// Removes several keys as [`Store::purge`] does one, with one flush of each device. Returns
    /// for each whether something was removed.
    ///
    /// # Errors
    /// A device could not make it durable; the objects are gone from memory anyway.
    pub async fn purge_keys(&self, keys: &[Key]) -> Result<Vec<bool>, Refusal> {
        let logged = self.log_keys(keys);
        self.remove_durably(keys, logged).await
    }

    async fn remove_durably(
        &self,
        keys: &[Key],
        logged: Option<Logged>,
    ) -> Result<Vec<bool>, Refusal> {
        let mut removed = Vec::with_capacity(keys.len());
        let mut noted: Vec<Option<JournalPosition>> = vec![None; self.volumes().len()];
        for key in keys {
            let (volume, digest) = self.place(key);
            let (was_there, up_to) = volume.shared.lock().remove(&digest);
            removed.push(was_there);
            let number = self.volumes().iter().position(|other| Rc::ptr_eq(other, volume));
            noted[number.unwrap_or_default()] = Some(up_to);
        }
        let waits = self.volumes().iter().zip(noted).map(|(volume, up_to)| async move {
            match up_to {
                Some(up_to) => volume.reach(Goal::Durable(up_to), None).await,
                None => true,
            }
        });
        let durable =
            crate::base::join::values(waits.collect()).await.into_iter().all(|durable| durable);
        let durable = durable && self.is_logged(logged).await;
        durable.then_some(removed).ok_or(Refusal::Offline)
    }

    /// Purges all objects that any of `targets` concerns, however many there are, and overtakes
    /// the running fetches whose answers it would concern. It is durable, the device flush
    /// included, when this returns. A device that is given up, and so cannot be reached, will not
    /// be believed any more.
    ///
    /// # Errors
    /// No device could make it durable; the objects are not served any more all the same, until
    /// the next start.
    pub async fn purge_all(&self, targets: &[Target<'_>], mode: Mode) -> Result<(), Refusal> {
        let logged = self.log(mode, || targets.iter().map(PurgedTarget::of));
        self.purge_targets(targets, mode, logged).await
    }

    async fn purge_targets(
        &self,
        targets: &[Target<'_>],
        mode: Mode,
        logged: Option<Logged>,
    ) -> Result<(), Refusal> {
        let noted: Vec<_> =
            self.volumes().iter().map(|volume| volume.begin_purge(targets, mode)).collect();
        let waits =
            self.volumes().iter().zip(noted).map(|(volume, up_to)| async move {
                volume.reach(Goal::Durable(up_to), None).await
            });
        let mut done = crate::base::join::values(waits.collect()).await;
        if let Some(Logged { volume, purges }) = logged {
            done[volume] &= self.volumes()[volume].reach(Goal::Logged(purges), None).await;
        }
        self.go_on_without(&done).await.then_some(()).ok_or(Refusal::Offline)
    }

    /// Makes durable that those devices that are not `done` missed something: they are not believed
    /// any more when they return. False when none can say so.
    async fn go_on_without(&self, done: &[bool]) -> bool {
        let away = done.iter().filter(|done| !**done).count() as u64;
        if away == 0 {
            return true;
        }
        let others = self.volumes().iter().zip(done).filter(|(_, done)| **done);
        let raised = others.map(|(volume, _)| volume.reach(Goal::RunsWithout(away), None));
        let raised = crate::base::join::values(raised.collect()).await;
        !raised.is_empty() && raised.into_iter().all(|raised| raised)
    }

    /// Returns the purges that were made here since `position`, with [`Purge logs`] on: those of
    /// [`Store::purge`], [`Store::purge_keys`] and [`Store::purge_all`], by name, as far as they
    /// are durable; those that came from elsewhere ([`Store::apply_purges`]) are not among them.
    /// None is missing between two positions, whatever crashes; where the log cannot promise that,
    /// it says that the position is too old. `position` is `None` for who has none yet. `None` when
    /// no log is kept, or no device is in use.
    ///
    /// Of several devices the first that is in use keeps the log: when another one is, another log
    /// begins.
    ///
    /// [`Purge logs`]: crate::Options::purge_log
    pub fn purges_since(&self, position: Option<PurgePosition>) -> Option<PurgesSince> {
        let volume = self.log_volume()?;
        let at = self.volumes()[volume].clock.unix_seconds();
        let mut core = self.volumes()[volume].shared.lock();
        Some(core.begin_purge_log(at).since(position))
    }

    /// Returns the end of the log of purges, with [`Purge logs`] on; `None` when no log is kept, or
    /// no device is in use.
    ///
    /// [`Purge logs`]: crate::Options::purge_log
    pub fn purge_log_end(&self) -> Option<PurgePosition> {
        match self.purges_since(None)? {
            PurgesSince::TooOld(end) | PurgesSince::Purges(_, end) => Some(end),
        }
    }

    /// Returns whether the first device that is in use kept a log of purges, this one or another,
    /// before this store was opened.
    pub fn kept_purge_log(&self) -> bool {
        let Some(volume) = self.log_volume() else { return false };
        let mut core = self.volumes()[volume].shared.lock();
        core.purge_log().is_some_and(|log| log.was_kept())
    }

    /// Begins another log in place of the present one, for who has learnt that purges are missing
    /// in it: others know of more than it has. Its number is greater than that of the present log,
    /// and greater than `known`.
    pub fn begin_later_purge_log(&self, known: u64) {
        if let Some(volume) = self.log_volume() {
            self.volumes()[volume].shared.lock().begin_later_purge_log(known);
        }
    }

    /// Carries out purges that were made elsewhere. They are durable when this returns, and are not
    /// logged: every store tells of its own.
    ///
    /// # Errors
    /// A device could not make them durable; see [`Store::purge_keys`] and [`Store::purge_all`].
    pub async fn apply_purges(&self, purges: &[LoggedPurge]) -> Result<(), Refusal> {
        for mode in [Mode::Hard, Mode::Soft] {
            let of_mode = purges.iter().filter(|purge| purge.mode == mode);
            let targets: Vec<Target<'_>> =
                of_mode.filter_map(|purge| purge.target.as_target()).collect();
            if !targets.is_empty() {
                self.purge_targets(&targets, mode, None).await?;
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
        Ok(())
    }

    /// Returns the number of the volume that keeps the log: the first that is in use.
    fn log_volume(&self) -> Option<usize> {
        let logs = self.volumes().first()?.shared.options.purge_log;
        let online = || self.volumes().iter().position(|v| v.shared.lock().status().online);
        logs.then(online).flatten()
    }

    fn log_keys(&self, keys: &[Key]) -> Option<Logged> {
        self.log(Mode::Hard, || keys.iter().cloned().map(PurgedTarget::Key))
    }

    /// Logs purges, where a log is kept; before they are carried out, so that none that is done is
    /// missing.
    fn log<T: Iterator<Item = PurgedTarget>>(
        &self,
        mode: Mode,
        targets: impl FnOnce() -> T,
    ) -> Option<Logged> {
        let volume = self.log_volume()?;
        let at = self.volumes()[volume].clock.unix_seconds();
        let mut core = self.volumes()[volume].shared.lock();
        let log = core.begin_purge_log(at);
        let logged = targets().map(|target| log.log(LoggedPurge { target, mode, at }));
        let purges = logged.last()?;
        Some(Logged { volume, purges })
    }

    /// Returns whether what was logged is durable. A device that would have kept the log, and is
    /// not in use, has missed it: it is not believed any more.
    async fn is_logged(&self, logged: Option<Logged>) -> bool {
        let Some(Logged { volume, purges }) = logged else { return true };
        let durable = self.volumes()[volume].reach(Goal::Logged(purges), None).await;
        let online = |(number, other): (usize, &Rc<_>)| {
            let other: &Rc<crate::shell::volume::Volume<D, C>> = other;
            if number == volume { durable } else { other.shared.lock().status().online }
        };
        let done: Vec<bool> = self.volumes().iter().enumerate().map(online).collect();
        self.go_on_without(&done).await
    }
}
