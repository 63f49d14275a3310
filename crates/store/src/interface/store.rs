//! The public store: lookups, insertions and removals over any number of devices.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use device::{Clock, Device, Operation};

use crate::base::digest::Digest;
use crate::base::event::Event;
use crate::base::key::{Key, Locality};
use crate::base::refusal::Refusal;
use crate::config::lookup_options::LookupOptions;
use crate::config::options::Options;
use crate::core::{Counted, Expected, Goal, LookupRequest, Purpose, Stats, Wanted};
use crate::interface::entry::Entry;
use crate::interface::fetch_token::FetchToken;
use crate::interface::writer::{Hint, Unfinished, UnfinishedRead, Writer};
use crate::shell::core_lock::LockFigures;
use crate::shell::lookup::LookupOutcome;
use crate::shell::open::{Share, open_volume};
use crate::shell::operation_times::OperationFigures;
use crate::shell::placements::Placements;
use crate::shell::recovery::Scanning;
use crate::shell::superblocks::{OpenError, last_run};
use crate::shell::volume::{Shared, Volume};
use crate::space::space_audit::{Account, AccountError};

/// One worker's handle on the store: any number of devices, each with its share of the objects.
/// Cheap to clone within the worker; use [`Store::share`] for other workers.
pub struct Store<D: Device, C: Clock> {
    volumes: Rc<[Rc<Volume<D, C>>]>,
    /// The rest of each volume's recovery; empty except in the handle that opened the store.
    unread: Rc<[RefCell<Option<Scanning>>]>,
}

impl<D: Device, C: Clock> Clone for Store<D, C> {
    fn clone(&self) -> Self {
        Store { volumes: Rc::clone(&self.volumes), unread: Rc::clone(&self.unread) }
    }
}

/// The part of a store that other workers need to create their own handles.
#[derive(Clone)]
pub struct StoreShare(Arc<[Arc<Shared>]>);

/// The result of a lookup.
pub enum Lookup<D: Device, C: Clock> {
    /// The object, with its first bytes already verified.
    Hit(Entry<D, C>),
    /// Not stored, or not readable (counted).
    Miss,
}

/// The error of opening a store none of whose devices could be opened: the first device's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("device {device} cannot be opened: {reason}")]
pub struct DeviceError {
    /// Number of the device in the order in which they were given, from 0.
    pub device: usize,
    /// The reason.
    #[source]
    pub reason: OpenError,
}

/// The error of attaching with fewer devices than the store was opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store needs {expected} devices, {found} were given")]
pub struct ReopenError {
    /// Number of devices needed.
    pub expected: usize,
    /// Number of devices given.
    pub found: usize,
}

impl<D: Device, C: Clock> Store<D, C> {
    /// Opens the caches on `devices`, each created by [`crate::format()`] before. Recovery gets
    /// [`Options::recovery_wait`], and then continues in the background. A device that cannot be
    /// opened costs only its share, and is reported as [`Event::Offline`].
    ///
    /// # Errors
    /// No device could be opened.
    pub async fn open(
        devices: Vec<Rc<D>>,
        clock: C,
        options: Options,
    ) -> Result<Store<D, C>, DeviceError> {
        let options = Arc::new(options);
        let total: u64 = devices.iter().map(|device| device.geometry().len).sum();
        let deadline = clock.now() + options.recovery_wait.as_nanos() as device::Nanos;
        let mut newest_run = 0;
        for device in &devices {
            newest_run = newest_run.max(last_run(&**device).await.unwrap_or(0));
        }
        let mut opened = Vec::new();
        let mut failures = Vec::new();
        for (number, device) in devices.into_iter().enumerate() {
            let len = u128::from(device.geometry().len);
            let memory = (u128::from(options.memory) * len / u128::from(total.max(1))) as u64;
            let is_first = opened.is_empty();
            let share = Share { number, memory, newest_run, is_first };
            match open_volume(device, clock.clone(), Arc::clone(&options), share).await {
                Ok((volume, scan)) => opened.push((Rc::new(volume), scan)),
                Err(reason) => failures.push(DeviceError { device: number, reason }),
            }
        }
        if let (true, Some(failure)) = (opened.is_empty(), failures.first()) {
            return Err(failure.clone());
        }
        // Recover only now: a kill between the openings of two devices leaves one of them a run
        // behind the other.
        let (mut volumes, mut unread) = (Vec::new(), Vec::new());
        for (volume, scan) in opened {
            unread.push(RefCell::new(volume.recover(scan, Some(deadline)).await));
            volumes.push(volume);
        }
        for DeviceError { device, reason } in failures {
            (options.on_event)(Event::Offline { device, reason: reason.to_string() });
        }
        Ok(Store { volumes: volumes.into(), unread: unread.into() })
    }

    /// Returns what another worker needs to [`Store::attach`] its own handle.
    pub fn share(&self) -> StoreShare {
        StoreShare(self.volumes.iter().map(|volume| Arc::clone(&volume.shared)).collect())
    }

    /// Creates another worker's handle; `devices` are that worker's, in the same order.
    pub fn attach(
        share: &StoreShare,
        devices: Vec<Rc<D>>,
        clock: C,
    ) -> Result<Store<D, C>, ReopenError> {
        let volumes = share.0.iter().map(|shared| {
            let device = Rc::clone(devices.get(shared.number)?);
            Some(Rc::new(Volume::new(Arc::clone(shared), device, clock.clone())))
        });
        let volumes: Option<Vec<_>> = volumes.collect();
        let expected = share.0.iter().map(|shared| shared.number + 1).max().unwrap_or(0);
        let found = devices.len();
        let volumes: Rc<[_]> = volumes.ok_or(ReopenError { expected, found })?.into();
        let unread = volumes.iter().map(|_| RefCell::new(None)).collect();
        Ok(Store { volumes, unread })
    }

    /// Runs recovery and maintenance of all devices until [`Store::shutdown`], or until the last
    /// device is given up. Must run on the worker that opened the store. Without it nothing is
    /// written.
    pub async fn run_background(&self) {
        let tasks =
            self.volumes.iter().zip(self.unread.iter()).map(|(volume, unread)| async move {
                let recovery = async {
                    let left = volume.recover(unread.take(), None).await;
                    unread.replace(left);
                };
                crate::base::join::both(recovery, volume.maintain()).await
            });
        crate::base::join::all(tasks.collect()).await;
    }

    /// Looks up `key` in memory, then on the device. A miss touches no device, except when tags are
    /// equal. Of an object in pieces, a hit reads only the head and the first piece.
    pub async fn lookup(&self, key: &Key) -> Lookup<D, C> {
        self.lookup_with(key, LookupOptions::default()).await
    }

    /// Looks up `key` in the tiers of `options`, which also decide the effect on memory. An entry
    /// found with [`Retention::Exclusive`] reads its other pieces in the same way.
    ///
    /// [`Retention::Exclusive`]: crate::Retention::Exclusive
    pub async fn lookup_with(&self, key: &Key, options: LookupOptions) -> Lookup<D, C> {
        let (volume, digest) = self.place(key);
        let (expected, purpose) = (Expected::Key(key.as_bytes()), Purpose::Request);
        let request = LookupRequest { digest, expected, purpose, options };
        let LookupOutcome { found, counted } = volume.lookup(request).await;
        let found = match found {
            Some((object, source)) => {
                Entry::open(Rc::clone(volume), digest, object, source, options).await
            }
            None => None,
        };
        let settled = counted || (found.is_none() && options.memory_only());
        if !settled {
            let source = found.as_ref().map(Entry::source);
            volume.shared.lock().count(Counted::Lookup(digest, source));
        }
        found.map_or(Lookup::Miss, Lookup::Hit)
    }

    /// Begins a fetch (or a validation) of `key`; call this before the request is sent. From now
    /// on, a removal or purge of `key`, or a purge that concerns the result, makes every insertion
    /// with this token fail with [`Refusal::Overtaken`].
    pub fn begin_fetch(&self, key: &Key) -> FetchToken {
        let (volume, digest) = self.place(key);
        FetchToken::begin(&volume.shared, digest)
    }

    /// Starts to store an object under `key`, which may differ from the token's key (a variant).
    /// The object becomes visible at [`Writer::commit`].
    ///
    /// # Errors
    /// The object cannot be stored; the caller serves it all the same.
    pub async fn insert(
        &self,
        token: &FetchToken,
        key: &Key,
        meta: Bytes,
        hint: Hint,
    ) -> Result<Writer<D, C>, Refusal> {
        let (volume, digest) = self.place(key);
        let leads_here = |group: &u64| Rc::ptr_eq(self.volume_of(*group), volume);
        let hint = Hint { group: hint.group.filter(leads_here), ..hint };
        let result = if token.admitted() {
            Writer::new(Rc::clone(volume), digest, key.clone(), meta, hint, token)
        } else {
            Err(Refusal::NotAdmitted)
        };
        if result.is_err() {
            volume.shared.lock().count(Counted::Refusal);
        }
        result
    }

    /// Replaces the metadata of exactly the version of `entry`; its body on the device is not
    /// touched.
    ///
    /// # Errors
    /// [`Refusal::Overtaken`] when that version is no longer current.
    pub async fn replace_meta(
        &self,
        token: &FetchToken,
        key: &Key,
        entry: &Entry<D, C>,
        meta: Bytes,
    ) -> Result<(), Refusal> {
        let (volume, _) = self.place(key);
        let fetched = token.fetched(&volume.shared);
        let attempt = || {
            let now = volume.now();
            let mut core = volume.shared.lock();
            let replaced = core.try_replace_meta(entry.object(), meta.clone(), &fetched, now);
            match replaced {
                Ok(true) => Some(Ok(())),
                Ok(false) => None,
                Err(refusal) => Some(Err(refusal)),
            }
        };
        let room = Wanted::Space(meta.len());
        volume.until(volume.write_deadline(), room, attempt).await.unwrap_or(Err(Refusal::Busy))
    }

    /// Removes `key`; returns whether something was removed. The removal survives a kill of the
    /// process when this returns, unless the device did not write it within
    /// [`Options::write_bound`].
    pub async fn remove(&self, key: &Key) -> bool {
        let (volume, digest) = self.place(key);
        let (removed, up_to) = volume.shared.lock().remove(&digest);
        // The removal is in force even if the device fails.
        let _ = volume.reach(Goal::Written(up_to), volume.write_deadline()).await;
        removed
    }

    /// Removes `key` like [`Store::remove`], on behalf of the fetch of `token`, whose result
    /// invalidates the stored object. If `key` is the token's own key, the removal overtakes only
    /// the other fetches; a token that was overtaken before stays so. Returns whether something was
    /// removed.
    pub async fn remove_for_fetch(&self, token: &mut FetchToken, key: &Key) -> bool {
        let (volume, digest) = self.place(key);
        let (removed, up_to) = match token.is_of(&volume.shared, &digest) {
            true => token.remove_own(),
            false => volume.shared.lock().remove(&digest),
        };
        let _ = volume.reach(Goal::Written(up_to), volume.write_deadline()).await;
        removed
    }

    /// Evicts the object under `key`, as the policy does for room; returns whether there was one.
    /// Unlike [`Store::remove`] it does not wait and guarantees nothing: after a crash the object
    /// may be there again. For callers that choose the objects to evict themselves.
    pub fn evict(&self, key: &Key) -> bool {
        let (volume, digest) = self.place(key);
        let (removed, _) = volume.shared.lock().remove(&digest);
        removed
    }

    /// Returns whether the index has an entry for `key`. The object may be purged, or belong to
    /// another key with an equal tag.
    pub fn knows(&self, key: &Key) -> bool {
        let (volume, digest) = self.place(key);
        volume.shared.lock().knows(&digest)
    }

    /// Returns the stamp ([`Hint::stamp`]) of the object under `key`, without touching a device; 0
    /// when it is not known (after a crash, until the object is read). Returns `None` when there is
    /// no object, or the index is not exact.
    pub fn stamp(&self, key: &Key) -> Option<u32> {
        let (volume, digest) = self.place(key);
        volume.shared.lock().stamp(&digest)
    }

    /// Reads from an object that is still being written (see [`Writer::unfinished`]).
    pub async fn read_unfinished(&self, partial: &Unfinished, offset: u64) -> UnfinishedRead {
        let ours = self.volumes.iter().find(|volume| partial.is_on(&volume.shared));
        match ours {
            Some(volume) => partial.read(volume, offset).await,
            None => UnfinishedRead::Gone,
        }
    }

    /// Sets whether reads are collected ([`Options::read_batch`]), as they are from the start. With
    /// `false` the waiting ones are sent now, or when the reads under way have ended, together and
    /// by position. For a caller that knows that no other requests will come meanwhile.
    pub fn hold_reads(&self, holds: bool) {
        for volume in self.volumes.iter() {
            let now = volume.clock.now();
            volume.shared.lock().reads().hold(holds, now);
        }
    }

    /// Stops the store in order: writes everything and saves the index, so that the next start is
    /// complete at once. [`Store::run_background`] must be running; it ends then. Returns false
    /// when a device could not be stopped in order: it recovers at the next start.
    pub async fn shutdown(&self) -> bool {
        let mut closed = Vec::new();
        for volume in self.volumes.iter() {
            closed.push(volume.close().await);
        }
        // An old image of a device can be detected only with the help of other devices, and only if
        // all of them record that the run is over. Nothing slow happens between their superblock
        // writes.
        let raises_run = closed.len() > 1 && closed.iter().all(Option::is_some);
        let mut whole = true;
        for (volume, dumped) in self.volumes.iter().zip(closed) {
            whole &= match dumped {
                Some(dumped) => volume.name_end(dumped, raises_run).await,
                None => false,
            };
        }
        whole
    }

    /// Returns the maximum length of a body that any device accepts, in bytes.
    pub fn object_max(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.shared.object_max).max().unwrap_or(0)
    }

    /// Returns the figures of every device, in the order in which they were given.
    pub fn stats(&self) -> Vec<Stats> {
        self.share().stats()
    }

    /// Counts the space of every device, in the order in which they were given. Takes as long as
    /// reading the tables and the index once: for tests and inspection.
    ///
    /// # Errors
    /// Two of the store's own tables disagree.
    pub fn account(&self) -> Vec<Result<Account, AccountError>> {
        self.share().account()
    }

    /// Returns the placements of the records of every device, in the order in which the devices
    /// were given; those of `keys` are named. It reads as much as it must: for drawings and
    /// measurements, not for service.
    pub async fn placements(&self, keys: &[Key]) -> Vec<Placements> {
        let mut all = Vec::new();
        for volume in self.volumes.iter() {
            all.push(volume.placements(keys).await);
        }
        all
    }

    /// Returns all volumes, in the order in which their devices were given.
    pub(crate) fn volumes(&self) -> &[Rc<Volume<D, C>>] {
        &self.volumes
    }

    /// Returns the volume that `key` belongs to, and its digest there.
    pub(crate) fn place(&self, key: &Key) -> (&Rc<Volume<D, C>>, Digest) {
        let volume = self.volume_of(key.locality().group);
        (volume, volume.shared.digester.key(key.as_bytes()))
    }

    /// Returns the volume that the keys of a group belong to, by rendezvous hashing weighted by
    /// size: neighbours stay together, and losing a device costs only its share.
    pub(crate) fn volume_of(&self, group: u64) -> &Rc<Volume<D, C>> {
        match &*self.volumes {
            [only] => only,
            volumes => volumes
                .iter()
                .max_by(|a, b| affinity(a, group).total_cmp(&affinity(b, group)))
                .expect("a store has a device"),
        }
    }

    /// Returns the key of an object that was stored with this locality on `volume`. Returns `None`
    /// when a lookup would go to another volume, because the set of devices has changed.
    pub(crate) fn key_on(
        &self,
        volume: &Rc<Volume<D, C>>,
        bytes: &Bytes,
        locality: Locality,
    ) -> Option<Key> {
        let is_there = Rc::ptr_eq(self.volume_of(locality.group), volume);
        Key::new(bytes.clone(), locality).filter(|_| is_there)
    }
}

/// Returns the weighted rendezvous score of a volume for a group.
fn affinity<D: Device, C: Clock>(volume: &Volume<D, C>, group: u64) -> f64 {
    // Hash the cache's identity, not its number: devices may be given in another order, or without
    // a lost one, and the others keep their shares.
    let hash = xxhash_rust::xxh3::xxh3_64_with_seed(&volume.shared.uuid, group);
    let uniform = (hash >> 11) as f64 / (1_u64 << 53) as f64;
    -(volume.shared.weight as f64) / uniform.max(f64::MIN_POSITIVE).ln()
}

impl StoreShare {
    /// Returns the figures of every device, in the order in which they were given.
    pub fn stats(&self) -> Vec<Stats> {
        self.0.iter().map(|shared| shared.lock().stats(shared.buffers.counts())).collect()
    }

    /// Returns figures of the lock of each device's core, in the order in which the devices were
    /// given.
    pub fn locks(&self) -> Vec<LockFigures> {
        self.0.iter().map(|shared| shared.lock_figures()).collect()
    }

    /// Returns the durations of an operation on each device, in the order in which the devices were
    /// given.
    pub fn operation_times(&self, operation: Operation) -> Vec<OperationFigures> {
        self.0.iter().map(|shared| shared.times.figures(operation)).collect()
    }

    /// Counts the space, see [`Store::account`].
    pub(crate) fn account(&self) -> Vec<Result<Account, AccountError>> {
        self.0.iter().map(|shared| shared.lock().account()).collect()
    }

    /// Returns how many devices are not in use, and the total number of devices.
    pub fn offline(&self) -> (usize, usize) {
        let offline = self.0.iter().filter(|shared| !shared.lock().status().online).count();
        (offline, self.0.len())
    }

    /// Returns how many of the devices in use stall on reads or writes.
    pub fn stalled(&self) -> usize {
        let stalls = |shared: &&Arc<Shared>| {
            (shared.stalls() || shared.write_breaker.is_open()) && shared.lock().status().online
        };
        self.0.iter().filter(stalls).count()
    }

    /// Returns whether the index of every device in use is complete.
    pub fn recovered(&self) -> bool {
        self.0.iter().all(|shared| {
            let status = shared.lock().status();
            !status.online || !status.recovering
        })
    }
}

#[cfg(test)]
mod tests;
