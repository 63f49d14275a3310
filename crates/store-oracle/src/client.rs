//! A client of a store under test: performs random operations of the interface and checks every
//! result against the history.
//!
//! Guarantees: a client changes only its own keys, one change at a time; it reads the keys of all
//! clients.

use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use device::{Clock, Device, Nanos};
use fastrand::Rng;
use sim::Handle;
use store::{Entry, FetchToken, Hint, Kind, Lookup, Mode, Refusal, Store, UnfinishedRead};

use super::content::{State, Sweep, any_len, key};
use super::oracle::History;
use super::recording_device::RecordingDevice;

/// The store under test, on a simulated device.
pub type TestedStore = Store<RecordingDevice, Handle>;

/// Bytes of a chunk of a body that a client writes without random choices.
const CHUNK: usize = 10_000;

/// The result of a lookup, verified byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// No object was found.
    Nothing,
    /// The whole object was read.
    Whole(State),
    /// The head and a part of the body were read, then an error followed.
    Cut(State),
}

impl LookupResult {
    /// Returns the state that was seen, in whole or in part.
    pub fn state(self) -> Option<State> {
        match self {
            LookupResult::Nothing => None,
            LookupResult::Whole(state) | LookupResult::Cut(state) => Some(state),
        }
    }
}

/// A client of the store under test.
pub struct Client<D: Device = RecordingDevice, C: Clock = Handle> {
    /// The store under test.
    pub store: Store<D, C>,
    /// The operations on the store, shared by all clients.
    pub history: Rc<RefCell<History>>,
    /// The clock of the store.
    pub clock: C,
    /// The source of the client's random choices.
    pub random: Rng,
    /// Keys that only this client changes.
    pub own: Vec<u32>,
    /// Number of keys in use, over all clients.
    pub all: u32,
    /// Insertions make no random choices and no pauses.
    pub steady: bool,
}

impl<D: Device, C: Clock> Client<D, C> {
    /// Runs `steps` random operations and checks the store's accounts after every fourth.
    ///
    /// # Errors
    /// A description of the store's error.
    pub async fn work(mut self, steps: u32) -> Result<(), String> {
        for step in 0..steps {
            self.step().await?;
            // The check reads all tables of the store and takes longer than the step.
            if step % 4 == 0 {
                let account = self.store.account().into_iter().collect::<Result<Vec<_>, _>>();
                account.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    async fn step(&mut self) -> Result<(), String> {
        let number = self.own[self.random.usize(..self.own.len())];
        match self.random.u8(..36) {
            0..11 => {
                // Draws from a copy of the generator, so that the other choices of a seed stay the
                // same.
                if self.random.clone().u8(..4) == 0 {
                    self.give_up(number);
                }
                let len = any_len(&mut self.random);
                _ = self.insert(number, len).await;
            }
            11 => self.insert_overtaken(number).await?,
            12 | 13 => {
                let sweeps = self.random.clone().u8(..4) == 0;
                if let (true, Some(state)) = (sweeps, self.refresh(number).await?) {
                    // Sweeps before the new metadata are on the device.
                    _ = self.sweep_by(Sweep::Meta(state.meta % 3), Mode::Hard).await;
                }
            }
            14 => self.refresh_superseded(number).await?,
            15 | 16 => _ = self.remove(number).await,
            17 => _ = self.purge(number).await,
            18 => {
                let len = any_len(&mut self.random);
                self.abort(number, len).await;
            }
            19 => self.read_beside(number).await?,
            20 => self.drop_lookup().await,
            21 => self.sleep(1_500_000_000).await,
            22 | 23 => self.sleep(20_000_000).await,
            24 => self.read_range(number).await?,
            32..34 => _ = self.sweep(Mode::Hard).await,
            34 => _ = self.sweep(Mode::Soft).await,
            35 if self.random.clone().bool() => self.refresh_swept(number).await?,
            35 => self.insert_swept(number).await?,
            25..29 => {
                let any = self.random.u32(..self.all);
                self.look(any).await?;
            }
            _ => _ = self.look(number).await?,
        }
        Ok(())
    }

    /// Waits longer than any write takes to reach the device and to become durable.
    pub async fn rest(&mut self) {
        let deadline = self.clock.now() + 20_000_000_000;
        self.clock.sleep_until(deadline).await;
    }

    async fn sleep(&mut self, most: Nanos) {
        let deadline = self.clock.now() + self.random.u64(..most);
        self.clock.sleep_until(deadline).await;
    }

    /// Stores a new body of `len` bytes.
    ///
    /// # Errors
    /// The store refused it.
    pub async fn insert(&mut self, number: u32, len: u64) -> Result<State, Refusal> {
        let state = self.history.borrow_mut().next_state(number, len);
        let token = self.store.begin_fetch(&key(number));
        self.insert_with(&token, state).await.map(|()| state)
    }

    /// Stores `state` with a token that may be older than the state.
    pub async fn insert_with(&mut self, token: &FetchToken, state: State) -> Result<(), Refusal> {
        let begun = self.history.borrow_mut().store(state);
        let result = self.try_insert(token, state).await;
        match result {
            Ok(()) => self.history.borrow_mut().returned(begun),
            Err(_) => self.history.borrow_mut().refused(begun),
        }
        result
    }

    async fn try_insert(&mut self, token: &FetchToken, state: State) -> Result<(), Refusal> {
        let has_size =
            if self.steady { state.version.is_multiple_of(2) } else { self.random.bool() };
        let size = has_size.then_some(state.len);
        let is_page = !self.steady && self.random.u8(..8) == 0;
        let kind = if is_page { Kind::Html } else { Kind::Other };
        let hint = Hint { size, kind, ..Hint::default() };
        let (key, meta) = (key(state.key), state.meta_bytes());
        let mut writer = self.store.insert(token, &key, meta, hint).await?;
        let mut body = state.body();
        let chunk = if self.steady { CHUNK } else { self.random.usize(1_000..50_000) };
        while !body.is_empty() {
            writer.write(body.split_to(chunk.min(body.len()))).await?;
            if !self.steady && self.random.u8(..20) == 0 {
                self.sleep(50_000_000).await;
            }
        }
        writer.commit().await
    }

    /// Checks that a fetch is not stored if it began before a removal or purge. This holds whether
    /// the fetch itself removes the key before that, during it, after it, or not at all.
    async fn insert_overtaken(&mut self, number: u32) -> Result<(), String> {
        let mut token = self.store.begin_fetch(&key(number));
        // Draws from a copy of the generator, so that the other choices of a seed stay the same.
        let own = self.random.clone().u8(..4);
        if own == 1 {
            self.remove_for_fetch(&mut token, number).await;
        }
        let (store, wanted) = (self.store.clone(), key(number));
        if own == 2 {
            let begun = self.history.borrow_mut().remove(number);
            let removal = store.remove_for_fetch(&mut token, &wanted);
            beside(removal, self.overtake(number)).await;
            self.history.borrow_mut().returned(begun);
        } else {
            self.overtake(number).await;
        }
        if own == 3 {
            self.remove_for_fetch(&mut token, number).await;
        }
        let len = any_len(&mut self.random);
        let state = self.history.borrow_mut().next_state(number, len);
        match self.insert_with(&token, state).await {
            Err(_) => Ok(()),
            Ok(()) => Err(format!("{state:?} was stored though its fetch had been overtaken")),
        }
    }

    async fn overtake(&mut self, number: u32) {
        if self.random.bool() {
            self.remove(number).await;
        } else {
            _ = self.purge(number).await;
        }
    }

    /// Removes the key on behalf of a fetch of it.
    async fn remove_for_fetch(&mut self, token: &mut FetchToken, number: u32) {
        let begun = self.history.borrow_mut().remove(number);
        self.store.remove_for_fetch(token, &key(number)).await;
        self.history.borrow_mut().returned(begun);
    }

    /// Begins to store a body of `len` bytes and gives up half-way.
    pub async fn abort(&mut self, number: u32, len: u64) {
        let state = self.history.borrow_mut().next_state(number, len);
        let key = key(number);
        let token = self.store.begin_fetch(&key);
        let insertion = self.store.insert(&token, &key, state.meta_bytes(), Hint::default());
        if let Ok(mut writer) = insertion.await {
            _ = writer.write(state.body().slice(..len as usize / 2)).await;
        }
    }

    /// Stores a body and reads it at the same time.
    async fn read_beside(&mut self, number: u32) -> Result<(), String> {
        let len = self.random.u64(50_000..300_000);
        let state = self.history.borrow_mut().next_state(number, len);
        let begun = self.history.borrow_mut().store(state);
        let (key, body) = (key(number), state.body());
        let token = self.store.begin_fetch(&key);
        let insertion = self.store.insert(&token, &key, state.meta_bytes(), Hint::default());
        let mut stored = false;
        if let Ok(mut writer) = insertion.await {
            let partial = writer.unfinished();
            let mut read = 0_usize;
            let mut whole = true;
            for chunk in body.chunks(40_000) {
                if writer.write(body.slice_ref(chunk)).await.is_err() {
                    whole = false;
                    break;
                }
                let answer = self.store.read_unfinished(&partial, read as u64).await;
                if let UnfinishedRead::Bytes(bytes) = answer {
                    if body.get(read..read + bytes.len()) != Some(&*bytes) {
                        return Err(format!("a wrong byte of the unfinished {state:?}"));
                    }
                    read += bytes.len();
                }
            }
            stored = whole && writer.commit().await.is_ok();
        }
        match stored {
            true => self.history.borrow_mut().returned(begun),
            false => self.history.borrow_mut().refused(begun),
        }
        Ok(())
    }

    /// Replaces the metadata of the object under the key, if there is one.
    ///
    /// # Errors
    /// The object that was found is wrong.
    pub async fn refresh(&mut self, number: u32) -> Result<Option<State>, String> {
        let token = self.store.begin_fetch(&key(number));
        let Some((entry, old)) = self.find(number).await? else { return Ok(None) };
        Ok(self.refresh_entry(&token, &entry, old).await.ok())
    }

    /// Replaces the metadata of `entry`, which has those of `old`; returns the new state.
    ///
    /// # Errors
    /// The store refused it.
    pub async fn refresh_entry(
        &mut self,
        token: &FetchToken,
        entry: &Entry<D, C>,
        old: State,
    ) -> Result<State, Refusal> {
        let state = State { meta: old.meta + 1, ..old };
        let begun = self.history.borrow_mut().refresh(state);
        let result = self.store.replace_meta(token, &key(old.key), entry, state.meta_bytes()).await;
        match result {
            Ok(()) => self.history.borrow_mut().returned(begun),
            Err(_) => self.history.borrow_mut().refused(begun),
        }
        result.map(|()| state)
    }

    /// Checks that metadata made before a purge are not accepted after it, whether the purge
    /// concerns the new metadata or the old.
    async fn refresh_swept(&mut self, number: u32) -> Result<(), String> {
        let token = self.store.begin_fetch(&key(number));
        let Some((entry, old)) = self.find(number).await? else { return Ok(()) };
        let state = State { meta: old.meta + 1, ..old };
        let mode = if self.random.bool() { Mode::Hard } else { Mode::Soft };
        let like = if self.random.bool() { old } else { state };
        let sweep = Sweep::of(like, &mut self.random);
        _ = self.sweep_by(sweep, mode).await;
        match self.store.replace_meta(&token, &key(number), &entry, state.meta_bytes()).await {
            Err(_) => Ok(()),
            Ok(()) => Err(format!("{state:?} was taken though {sweep:?} had overtaken it")),
        }
    }

    /// Checks that metadata of a superseded, removed or purged version cannot be replaced.
    ///
    /// # Errors
    /// They were replaced, or the object that was found is wrong.
    pub async fn refresh_superseded(&mut self, number: u32) -> Result<(), String> {
        let Some((entry, old)) = self.find(number).await? else { return Ok(()) };
        if self.random.clone().u8(..3) == 0 {
            let sweep = Sweep::of(old, &mut self.random);
            if self.sweep_by(sweep, Mode::Hard).await.is_err() {
                return Ok(());
            }
        } else if self.random.bool() {
            let len = any_len(&mut self.random);
            if self.insert(number, len).await.is_err() {
                return Ok(());
            }
        } else {
            self.remove(number).await;
        }
        let token = self.store.begin_fetch(&key(number));
        let meta = State { meta: old.meta + 1, ..old }.meta_bytes();
        match self.store.replace_meta(&token, &key(number), &entry, meta).await {
            Err(_) => Ok(()),
            Ok(()) => Err(format!("the metadata of {old:?} were replaced, which was gone")),
        }
    }

    /// Removes the key; returns the store's result.
    pub async fn remove(&mut self, number: u32) -> bool {
        let begun = self.history.borrow_mut().remove(number);
        let removed = self.store.remove(&key(number)).await;
        self.history.borrow_mut().returned(begun);
        removed
    }

    /// Evicts the key. It may or may not be found afterwards, until it is stored again.
    pub fn give_up(&self, number: u32) {
        _ = self.history.borrow_mut().purge(number);
        self.store.evict(&key(number));
    }

    /// Purges the key.
    ///
    /// # Errors
    /// The store could not make it durable.
    pub async fn purge(&mut self, number: u32) -> Result<bool, Refusal> {
        let begun = self.history.borrow_mut().purge(number);
        let result = self.store.purge(&key(number)).await;
        // A purge that failed has removed the object from memory; it may or may not come back.
        if result.is_ok() {
            self.history.borrow_mut().returned(begun);
        }
        result
    }

    /// Removes the key as the response to an unsafe request does.
    ///
    /// # Errors
    /// The store could not make it durable.
    pub async fn invalidate(&mut self, number: u32) -> Result<(), Refusal> {
        let begun = self.history.borrow_mut().purge(number);
        let result = self.store.invalidate(&[key(number)], None).await;
        if result.is_ok() {
            self.history.borrow_mut().returned(begun);
        }
        result
    }

    /// Purges a random set of objects, for good or softly.
    async fn sweep(&mut self, mode: Mode) -> Result<(), Refusal> {
        let (key, version) = (self.random.u32(..self.all), self.random.u32(..5));
        let like = State { key, version, meta: self.random.u32(..3), len: 0 };
        let sweep = Sweep::of(like, &mut self.random);
        self.sweep_by(sweep, mode).await
    }

    /// Purges the objects that `sweep` concerns.
    ///
    /// # Errors
    /// The store could not make it durable.
    pub async fn sweep_by(&mut self, sweep: Sweep, mode: Mode) -> Result<(), Refusal> {
        let begun = self.history.borrow_mut().sweep(sweep, mode);
        let name = sweep.name();
        let result = self.store.purge_all(&[sweep.target(&name)], mode).await;
        // A purge that failed is in force until the end of this session, and perhaps after it.
        if result.is_ok() {
            self.history.borrow_mut().all_returned(begun);
        }
        result
    }

    /// Checks that a fetch is not stored if a purge that concerns its response began after it.
    async fn insert_swept(&mut self, number: u32) -> Result<(), String> {
        let token = self.store.begin_fetch(&key(number));
        let len = any_len(&mut self.random);
        let state = self.history.borrow_mut().next_state(number, len);
        let mode = if self.random.bool() { Mode::Hard } else { Mode::Soft };
        let sweep = Sweep::of(state, &mut self.random);
        _ = self.sweep_by(sweep, mode).await;
        match self.insert_with(&token, state).await {
            Err(_) => Ok(()),
            Ok(()) => Err(format!("{state:?} was stored though {sweep:?} had overtaken it")),
        }
    }

    /// Begins a lookup and drops it before it ends.
    async fn drop_lookup(&mut self) {
        let wanted = key(self.random.u32(..self.all));
        let store = self.store.clone();
        let deadline = self.clock.now() + self.random.u64(..200_000);
        let lookup = async {
            if let Lookup::Hit(entry) = store.lookup(&wanted).await {
                let mut body = entry.body(0..entry.len());
                while let Some(Ok(_)) = body.next().await {}
            }
        };
        sim::until(&self.clock, deadline, lookup).await;
    }

    /// Looks the key up and verifies the metadata.
    async fn find(&mut self, number: u32) -> Result<Option<(Entry<D, C>, State)>, String> {
        let from = self.history.borrow_mut().stamp();
        let Lookup::Hit(entry) = self.store.lookup(&key(number)).await else { return Ok(None) };
        let state = state_of(&entry, number)?;
        let history = self.history.borrow();
        let permitted = history.during(number, from);
        if !history.tolerates(&permitted, state) {
            return Err(format!("{state:?} was found, permitted are {permitted:?}"));
        }
        let (must, may) = history.outdated(state, from);
        let outdated = entry.outdated_since().is_some();
        if permitted.contains(&state) && (must && !outdated || outdated && !may) {
            let events = history.explain(number);
            return Err(format!("{state:?} is outdated: {outdated}, not {must} or {may}{events}"));
        }
        drop(history);
        Ok(Some((entry, state)))
    }

    /// Looks the key up and verifies every byte.
    ///
    /// # Errors
    /// The object is not one that may be there now.
    pub async fn look(&mut self, number: u32) -> Result<LookupResult, String> {
        let Some((entry, state)) = self.find(number).await? else {
            return Ok(LookupResult::Nothing);
        };
        read_whole(&entry, state).await
    }

    async fn read_range(&mut self, number: u32) -> Result<(), String> {
        let Some((entry, state)) = self.find(number).await? else { return Ok(()) };
        let start = self.random.u64(..=state.len);
        let end = self.random.u64(start..=state.len);
        read(&entry, state, start..end).await.map(|_| ())
    }
}

/// Runs `first` until it first waits, then both until they have ended.
async fn beside<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut first_ended, mut second_ended) = (false, false);
    poll_fn(|cx| {
        first_ended = first_ended || first.as_mut().poll(cx).is_ready();
        second_ended = second_ended || second.as_mut().poll(cx).is_ready();
        if first_ended && second_ended { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Returns the state that the metadata of `entry` name.
///
/// # Errors
/// No state has these metadata, or it is one of another key or of another length.
pub fn state_of<D: Device, C: Clock>(entry: &Entry<D, C>, number: u32) -> Result<State, String> {
    let Some(state) = State::from_meta(entry.meta()) else {
        return Err(format!("key {number} has metadata that never were: {:?}", entry.meta()));
    };
    if (state.key, state.len) != (number, entry.len()) {
        let len = entry.len();
        return Err(format!("key {number} answers with {state:?} and {len} bytes"));
    }
    Ok(state)
}

/// Reads all of an entry in this state and verifies every byte.
///
/// # Errors
/// A byte is wrong, or the end of the body is missing without an error.
pub async fn read_whole<D: Device, C: Clock>(
    entry: &Entry<D, C>,
    state: State,
) -> Result<LookupResult, String> {
    let whole = read(entry, state, 0..state.len).await?;
    Ok(if whole { LookupResult::Whole(state) } else { LookupResult::Cut(state) })
}

/// Reads a range of an entry in this state and verifies it. Returns false if the body was cut
/// short.
///
/// # Errors
/// A byte is wrong, or the end of the range is missing without an error.
pub async fn read<D: Device, C: Clock>(
    entry: &Entry<D, C>,
    state: State,
    range: Range<u64>,
) -> Result<bool, String> {
    let expected = state.body().slice(range.start as usize..range.end as usize);
    let mut body = entry.body(range);
    let mut bytes = BytesMut::new();
    let mut error = None;
    while let Some(chunk) = body.next().await {
        match chunk {
            Ok(chunk) => bytes.extend_from_slice(&chunk),
            Err(reason) => error = Some(reason),
        }
    }
    let bytes: Bytes = bytes.freeze();
    if expected.get(..bytes.len()) != Some(&*bytes) {
        return Err(format!("a wrong byte of {state:?}"));
    }
    if error.is_none() != (bytes.len() == expected.len()) {
        return Err(format!("a body of {state:?} ended with {error:?} after {}", bytes.len()));
    }
    Ok(error.is_none())
}
