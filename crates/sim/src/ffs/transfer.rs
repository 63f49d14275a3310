//! Transfers between memory and the disk: reads, writes for which a caller waits, and background
//! writes.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::task::{Poll, Waker};

use device::{Clock, Device, IoBuf, Nanos};

use super::buffers::{Buffers, Found, Key, Moving, Room};
use super::inode::Place;
use super::parameters::Parameters;
use super::{Ffs, State};

/// Maximum number of background requests before a caller waits for one of them.
const MOST_LEAVING: u32 = 64;

/// Wakes tasks that wait for any request to end.
#[derive(Default)]
pub(super) struct Progress {
    steps: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Progress {
    pub(super) fn step(&self) {
        self.steps.set(self.steps.get() + 1);
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits until the next request ends.
    pub(super) async fn next(&self) {
        let seen = self.steps.get();
        poll_fn(|context| {
            if self.steps.get() != seen {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// The content of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Metadata,
}

/// Buffers being read. On drop they become valid, or missing again if the read failed. This also
/// holds when the caller gives up; otherwise other callers would wait for them for ever.
struct Arriving<'a> {
    ffs: &'a Ffs,
    row: &'a [Moving],
    succeeded: bool,
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        let end = |moving| self.ffs.state().buffers.end_load(moving, self.succeeded);
        self.row.iter().for_each(end);
        self.ffs.inner.progress.step();
    }
}

/// Buffers being written. The write ends on drop, as for [`Arriving`].
struct Departing<'a> {
    ffs: &'a Ffs,
    row: &'a [Moving],
}

impl Drop for Departing<'_> {
    fn drop(&mut self) {
        self.row.iter().for_each(|moving| self.ffs.state().buffers.end_write(moving));
        self.ffs.inner.progress.step();
    }
}

impl State {
    fn kind(&self, key: Key) -> Kind {
        let is_file =
            |inode: u32| self.inodes.get(&inode).is_none_or(|inode| inode.directory.is_none());
        match key {
            Key::File { inode, .. } if is_file(inode) => Kind::Data,
            _ => Kind::Metadata,
        }
    }
}

impl Ffs {
    /// Lets `nanos` nanoseconds of processor time pass.
    pub(super) async fn compute(&self, nanos: f64) {
        if nanos >= 1.0 {
            let clock = &self.inner.clock;
            clock.sleep_until(clock.now() + nanos as u64).await;
        }
    }

    /// Brings a block into memory unless it is there.
    pub(super) async fn load(&self, key: Key, place: Place) -> io::Result<()> {
        loop {
            let found = self.state().buffers.find(key);
            match found {
                Found::Valid => return Ok(()),
                Found::Loading => self.inner.progress.next().await,
                Found::Missing => {
                    self.room(key, place.count).await;
                    if !self.state().buffers.has(key) {
                        let kind = self.state().kind(key);
                        let moving = vec![self.state().buffers.begin_load(key, place)];
                        return self.read_row(moving, kind).await;
                    }
                }
            }
        }
    }

    /// Reads blocks that are neighbours on the disk with one request.
    pub(super) async fn read_row(&self, row: Vec<Moving>, kind: Kind) -> io::Result<()> {
        let Some(first) = row.first() else { return Ok(()) };
        let fragment = self.inner.units.fragment;
        let fragments: u64 = row.iter().map(|moving| moving.place.count).sum();
        {
            let counts = &mut self.state().counts;
            match kind {
                Kind::Data => {
                    counts.data_reads += 1;
                    counts.data_read_bytes += fragments * fragment;
                }
                Kind::Metadata => counts.metadata_reads += 1,
            }
        }
        let buf = IoBuf::zeroed((fragments * fragment) as usize);
        let mut arriving = Arriving { ffs: self, row: &row, succeeded: false };
        let (_, result) = self.inner.disk.read(first.place.at * fragment, buf).await;
        arriving.succeeded = result.is_ok();
        result
    }

    /// Waits until memory has room for `fragments` more of the kind of `key`.
    pub(super) async fn room(&self, key: Key, fragments: u64) {
        loop {
            let room = self.state().buffers.make_room(key, fragments);
            let leaving = self.state().leaving;
            match room {
                Room::Enough => return,
                Room::Clean(at) if leaving < MOST_LEAVING => self.send(at),
                _ => self.inner.progress.next().await,
            }
        }
    }

    /// Records that a block was changed or created in memory.
    pub(super) fn change(&self, key: Key, place: Place) {
        let now = self.inner.clock.now();
        self.state().buffers.change(key, place, now);
        self.wake_sync();
    }

    /// Marks a block of metadata dirty, after reading it if necessary. Returns when it is on the
    /// disk if metadata is synchronous and `lazy` is false.
    pub(super) async fn change_metadata(&self, at: u64, lazy: bool) -> io::Result<()> {
        let key = Key::Meta(at);
        let place = Place { at, count: self.inner.units.per_block };
        self.load(key, place).await?;
        self.change(key, place);
        match lazy || !self.inner.parameters.synchronous {
            true => Ok(()),
            false => self.write_now(key).await,
        }
    }

    /// Writes a block if it is dirty, and returns when it is on the disk. Dirty blocks behind it in
    /// the same file go with it.
    pub(super) async fn write_now(&self, key: Key) -> io::Result<()> {
        while self.state().buffers.is_writing(key) {
            self.inner.progress.next().await;
        }
        let Some((row, kind)) = self.take_row(|buffers| buffers.dirty_at(key)) else {
            return Ok(());
        };
        {
            let counts = &mut self.state().counts;
            match kind {
                Kind::Data => counts.data_writes += 1,
                Kind::Metadata => counts.metadata_writes += 1,
            }
        }
        self.write_row(&row).await
    }

    /// Starts a background write of the dirty block at this place and those behind it in the same
    /// file. Does nothing if no block is dirty there.
    pub(super) fn send(&self, at: u64) {
        let Some((row, kind)) = self.take_row(|_| Some(at)) else { return };
        let inode = match row[0].key {
            Key::File { inode, .. } => Some(inode),
            Key::Meta(_) => None,
        };
        let fragments: u64 = row.iter().map(|moving| moving.place.count).sum();
        let bytes = fragments * self.inner.units.fragment;
        {
            let mut state = self.state();
            state.leaving += 1;
            match kind {
                Kind::Data => state.counts.data_writes_behind += 1,
                Kind::Metadata => state.counts.metadata_writes_behind += 1,
            }
            if let Some(inode) = inode.and_then(|inode| state.inodes.get_mut(&inode)) {
                inode.leaving += bytes;
            }
        }
        let ffs = self.clone();
        self.inner.clock.spawn(async move {
            let result = ffs.write_row(&row).await;
            {
                let mut state = ffs.state();
                state.leaving -= 1;
                state.counts.lost_writes += u64::from(result.is_err());
                if let Some(inode) = inode.and_then(|inode| state.inodes.get_mut(&inode)) {
                    // The inode number may belong to another file by now.
                    inode.leaving = inode.leaving.saturating_sub(bytes);
                }
            }
            ffs.inner.progress.step();
        });
    }

    fn take_row(&self, at: impl FnOnce(&Buffers) -> Option<u64>) -> Option<(Vec<Moving>, Kind)> {
        let mut state = self.state();
        let at = at(&state.buffers)?;
        let most = u64::from(self.inner.parameters.cluster) / self.inner.units.fragment;
        let row = state.buffers.begin_write(at, most);
        let kind = state.kind(row.first()?.key);
        if kind == Kind::Data {
            let fragments: u64 = row.iter().map(|moving| moving.place.count).sum();
            state.counts.data_written_bytes += fragments * self.inner.units.fragment;
        }
        Some((row, kind))
    }

    async fn write_row(&self, row: &[Moving]) -> io::Result<()> {
        let fragments: u64 = row.iter().map(|moving| moving.place.count).sum();
        let fragment = self.inner.units.fragment;
        let zeros = self.state().zeros(fragments * fragment);
        let _departing = Departing { ffs: self, row };
        self.inner.disk.write(row[0].place.at * fragment, zeros).await
    }

    /// Reads or writes a block of metadata past the buffer cache.
    pub(super) async fn metadata_request(&self, at: u64, write: bool) -> io::Result<()> {
        let bytes = self.inner.units.block();
        let offset = at * self.inner.units.fragment;
        if !write {
            self.state().counts.metadata_reads += 1;
            let buf = IoBuf::zeroed(bytes as usize);
            return self.inner.disk.read(offset, buf).await.1;
        }
        let zeros = {
            let mut state = self.state();
            state.counts.metadata_writes += 1;
            state.zeros(bytes)
        };
        self.inner.disk.write(offset, zeros).await
    }

    /// Waits while too much is dirty, or too much of the file is in flight.
    pub(super) async fn throttle(&self, inode: u32) {
        loop {
            let next = {
                let state = self.state();
                if state.buffers.dirty() <= self.inner.most_dirty {
                    break;
                }
                match state.leaving < MOST_LEAVING {
                    true => state.next_in_sweep(),
                    false => None,
                }
            };
            match next {
                Some(at) => {
                    self.state().sweep = at + 1;
                    self.send(at);
                }
                None => self.inner.progress.next().await,
            }
        }
        let Some((high, low)) = self.inner.parameters.write_throttle else { return };
        let leaving = || self.state().inodes.get(&inode).map_or(0, |inode| inode.leaving);
        if leaving() > high {
            while leaving() > low {
                self.inner.progress.next().await;
            }
        }
    }

    /// Starts writing the blocks that have been dirty since `until` or longer, in the order of
    /// places.
    pub(super) async fn sync_pass(&self, until: Nanos) -> io::Result<()> {
        let stale: Vec<u32> = {
            let mut state = self.state();
            let old = state.stale.extract_if(.., |_, since| *since <= until);
            old.map(|(inode, _)| inode).collect()
        };
        let mut last = None;
        for inode in stale {
            let block = self.state().groups.layout.inode_block(inode);
            if last != Some(block) {
                self.change_metadata(block, true).await?;
                let waiting = self.state().buffers.dirty_at(Key::Meta(block));
                if let Some(at) = waiting {
                    self.send(at);
                }
                last = Some(block);
            }
        }
        let waiting: Vec<u64> = self.state().buffers.dirty_since(until).collect();
        waiting.into_iter().for_each(|at| self.send(at));
        Ok(())
    }

    /// Writes everything dirty; returns when it is on the disk.
    pub(super) async fn sync_everything(&self) -> io::Result<()> {
        self.sync_pass(Nanos::MAX).await?;
        while self.state().leaving > 0 {
            self.inner.progress.next().await;
        }
        Ok(())
    }

    /// Schedules the next sync, because something is dirty.
    pub(super) fn wake_sync(&self) {
        if std::mem::replace(&mut self.state().syncing, true) {
            return;
        }
        let ffs = self.clone();
        let Parameters { sync_interval: interval, sync_step: step, .. } = self.inner.parameters;
        self.inner.clock.spawn(async move {
            loop {
                let clock = &ffs.inner.clock;
                clock.sleep_until(clock.now() + step).await;
                let result = match (clock.now() + step).checked_sub(interval) {
                    Some(until) => ffs.sync_pass(until).await,
                    None => Ok(()),
                };
                let mut state = ffs.state();
                state.counts.lost_writes += u64::from(result.is_err());
                if state.stale.is_empty() && state.buffers.dirty() == 0 {
                    state.syncing = false;
                    return;
                }
            }
        });
    }
}

impl State {
    /// Returns the next place to write in a sweep over the disk.
    fn next_in_sweep(&self) -> Option<u64> {
        self.buffers.next_dirty(self.sweep).or_else(|| self.buffers.next_dirty(0))
    }
}
