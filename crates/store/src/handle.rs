//! A handle on a store for programs whose runtime moves tasks between threads.
//!
//! A [`Store`] stays on its thread. [`StoreHandle`] is `Send + Sync`: it sends each operation over
//! a bounded channel to a thread that has a store, one thread for each device, and waits for the
//! result. The threads share one store, so an object is found from each of them.
//!
//! Guarantees: an operation that returned before [`StoreHandle::close`] began is saved by it; an
//! operation that was sent before is completed; a later one is refused with
//! [`HandleError::Closed`]. A thread that ended is never a panic of its callers.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use device::{AnyDevice, CacheFile, Clock, Contents, Ring, SystemClock};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinSet, LocalSet, spawn_local};

use crate::base::key::Key;
use crate::base::labels::{Label, Mode, Target};
use crate::base::refusal::Refusal;
use crate::config::options::{FormatOptions, Options};
use crate::interface::entry::{Entry, ReadError};
use crate::interface::fetch_token::FetchToken;
use crate::interface::format::format;
use crate::interface::store::{DeviceError, Lookup, ReopenError, Store, StoreShare};
use crate::interface::writer::Hint;
use crate::shell::create::FormatError;

/// Maximum number of device operations in flight on each thread.
const RING_PLACES: u32 = 256;

/// The store of one thread of a [`StoreHandle`].
pub type ThreadStore = Store<AnyDevice, SystemClock>;

type Job = Box<dyn FnOnce(ThreadStore) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// A message to a store thread.
enum Message {
    Run(Job),
    /// Accept no more messages, and end when those that were sent before are done.
    Close,
}

/// Parameters of [`StoreHandle::open`].
#[derive(Clone)]
pub struct HandleOptions {
    /// Parameters of the store.
    pub store: Options,
    /// Parameters of the caches that are created on blank files.
    pub format: FormatOptions,
    /// Maximum number of operations that wait for one thread, and maximum number that are under way
    /// on it; at least 1. Beyond that, callers wait.
    pub backlog: usize,
}

impl Default for HandleOptions {
    fn default() -> HandleOptions {
        let (store, format) = (Options::default(), FormatOptions::default());
        HandleOptions { store, format, backlog: 1024 }
    }
}

/// The reason why an operation has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    /// The store is closed, or the thread or the operation panicked.
    #[error("the store is closed")]
    Closed,
    /// The store refused the operation.
    #[error("the store refused the operation: {0}")]
    Refused(#[from] Refusal),
    /// The object cannot be read to its end.
    #[error("the object cannot be read: {0}")]
    Unreadable(#[from] ReadError),
}

/// The reason why a store was not opened on threads of its own.
#[derive(Debug, thiserror::Error)]
pub enum HandleOpenError {
    /// No file was given.
    #[error("a store needs at least one file")]
    NoFile,
    /// A thread, its event loop or its access to a file cannot be created.
    #[error("a store thread cannot be started: {0}")]
    Thread(#[from] io::Error),
    /// A blank file cannot be formatted.
    #[error("a cache cannot be created: {0}")]
    Format(#[from] FormatError),
    /// No file can be opened as a cache.
    #[error(transparent)]
    Open(#[from] DeviceError),
    /// A thread has fewer files than the store.
    #[error(transparent)]
    Attach(#[from] ReopenError),
    /// A store thread panicked while it opened the store.
    #[error("a store thread panicked")]
    Panicked,
}

/// An object as [`StoreHandle::get`] returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// The metadata.
    pub meta: Bytes,
    /// The whole body, in memory.
    pub body: Bytes,
    /// Time at which it was stored, in unix seconds.
    pub stored_at: u64,
    /// Time since when it is outdated by a soft purge, in unix seconds; `None` when it is not.
    pub outdated_since: Option<u64>,
}

/// A handle on a store that runs on threads of its own. A clone is another handle on the same
/// store. When the last one is dropped, the store is closed without waiting. Operations that are
/// still under way may then be refused; call [`StoreHandle::close`] to have them completed.
#[derive(Clone)]
pub struct StoreHandle {
    /// One for each file; the first one runs the store's background.
    threads: Arc<[StoreThread]>,
}

/// The callers' end of a store thread.
struct StoreThread {
    messages: mpsc::Sender<Message>,
    /// True if the thread stopped its store in order; `None` while it runs.
    ended: watch::Receiver<Option<bool>>,
}

impl StoreHandle {
    /// Opens the caches on `files` as one store, with one thread for each file. Creates the cache
    /// of a blank file.
    ///
    /// # Errors
    /// No thread can be started, a file cannot be formatted, or none can be opened.
    pub async fn open(
        files: Vec<Arc<CacheFile>>,
        options: HandleOptions,
    ) -> Result<StoreHandle, HandleOpenError> {
        let (count, clock, backlog) = (files.len(), SystemClock::new(), options.backlog.max(1));
        if count == 0 {
            return Err(HandleOpenError::NoFile);
        }
        let start = async |first: bool, open: Open| {
            let (messages, received) = mpsc::channel(backlog);
            let (end, ended) = watch::channel(None);
            let worker = Worker { files: files.clone(), clock, backlog, first, received, end };
            let share = worker.start(open).await?;
            Ok::<_, HandleOpenError>((StoreThread { messages, ended }, share))
        };
        let (first, share) = start(true, Open::Store(Box::new(options))).await?;
        let mut threads = vec![first];
        for _ in 1..count {
            threads.push(start(false, Open::Share(share.clone())).await?.0);
        }
        Ok(StoreHandle { threads: threads.into() })
    }

    /// Returns the object under `key` with its whole body; `None` when it is not stored.
    ///
    /// # Errors
    /// The store is closed, or a piece of a large object is missing.
    pub async fn get(&self, key: &Key) -> Result<Option<StoredObject>, HandleError> {
        let wanted = key.clone();
        let found = self.run(key, async move |store| match store.lookup(&wanted).await {
            Lookup::Hit(entry) => read(&entry).await.map(Some),
            Lookup::Miss => Ok(None),
        });
        Ok(found.await??)
    }

    /// Begins a fetch of `key`; see [`Store::begin_fetch`]. Call this before the request for the
    /// object is sent, so that a later purge keeps an outdated response out of the store.
    ///
    /// # Errors
    /// The store is closed.
    pub async fn begin_fetch(&self, key: &Key) -> Result<FetchToken, HandleError> {
        let wanted = key.clone();
        self.run(key, async move |store| store.begin_fetch(&wanted)).await
    }

    /// Stores an object under `key`, replacing any object there. The insertion goes on when the
    /// returned future is dropped. [`Hint::size`] is set to the length of `body`.
    ///
    /// # Errors
    /// The store is closed, or refused the object, see [`Store::insert`].
    pub async fn insert(
        &self,
        token: &FetchToken,
        key: &Key,
        meta: Bytes,
        body: Bytes,
        hint: Hint,
    ) -> Result<(), HandleError> {
        let (token, stored) = (token.clone(), key.clone());
        let hint = Hint { size: Some(body.len() as u64), ..hint };
        let result = self.run(key, async move |store| {
            let mut writer = store.insert(&token, &stored, meta, hint).await?;
            writer.write(body).await?;
            writer.commit().await
        });
        Ok(result.await??)
    }

    /// Removes `key`; returns whether something was removed. See [`Store::remove`].
    ///
    /// # Errors
    /// The store is closed.
    pub async fn remove(&self, key: &Key) -> Result<bool, HandleError> {
        let unwanted = key.clone();
        self.run(key, async move |store| store.remove(&unwanted).await).await
    }

    /// Removes `key` durably; returns whether something was removed. See [`Store::purge`].
    ///
    /// # Errors
    /// The store is closed, or a device could not make it durable.
    pub async fn purge(&self, key: &Key) -> Result<bool, HandleError> {
        let unwanted = key.clone();
        Ok(self.run(key, async move |store| store.purge(&unwanted).await).await??)
    }

    /// Purges every object with this label, durably; see [`Store::purge_all`] and
    /// [`Options::labels`].
    ///
    /// # Errors
    /// The store is closed, or a device could not make it durable.
    pub async fn purge_label(
        &self,
        kind: u8,
        name: impl Into<Bytes>,
        mode: Mode,
    ) -> Result<(), HandleError> {
        let name = name.into();
        let purged = run_on(&self.threads[0], async move |store: &ThreadStore| {
            store.purge_all(&[Target::Label(Label { kind, name: &name })], mode).await
        });
        Ok(purged.await??)
    }

    /// Runs `job` with the store of the thread that serves `key`, and returns its result.
    /// Operations of one key that run one after another see each other's effects on any thread.
    ///
    /// # Errors
    /// The store is closed, or `job` panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        key: &Key,
        job: impl AsyncFnOnce(&ThreadStore) -> T + Send + 'static,
    ) -> Result<T, HandleError> {
        let number = key.locality().group % self.threads.len() as u64;
        run_on(&self.threads[number as usize], job).await
    }

    /// Closes the store in order: refuses new operations, completes those that were sent, then
    /// calls [`Store::shutdown`]. Returns whether every device was stopped in order; one that was
    /// not recovers at the next start.
    ///
    /// # Errors
    /// `Closed`: the store was closed before.
    pub async fn close(&self) -> Result<bool, HandleError> {
        let (mut was_open, mut in_order) = (false, true);
        // The first thread runs the background, which the others need to the end.
        for thread in self.threads.iter().rev() {
            was_open |= thread.messages.send(Message::Close).await.is_ok();
            let mut ended = thread.ended.clone();
            let ended = ended.wait_for(Option::is_some).await;
            in_order &= ended.is_ok_and(|ended| *ended == Some(true));
        }
        if was_open { Ok(in_order) } else { Err(HandleError::Closed) }
    }
}

/// Runs `job` on `thread`.
async fn run_on<T: Send + 'static>(
    thread: &StoreThread,
    job: impl AsyncFnOnce(&ThreadStore) -> T + Send + 'static,
) -> Result<T, HandleError> {
    let (reply, result) = oneshot::channel();
    let job: Job = Box::new(move |store| {
        Box::pin(async move {
            // A caller that no longer waits does not need the result.
            _ = reply.send(job(&store).await);
        })
    });
    let sent = thread.messages.send(Message::Run(job)).await;
    sent.map_err(|_| HandleError::Closed)?;
    result.await.map_err(|_| HandleError::Closed)
}

/// Reads an object to its end.
async fn read(entry: &Entry<AnyDevice, SystemClock>) -> Result<StoredObject, ReadError> {
    let body = match entry.whole() {
        Some(body) => body,
        None => {
            let mut collected = BytesMut::with_capacity(entry.len() as usize);
            let mut body = entry.body(0..entry.len());
            while let Some(chunk) = body.next().await {
                collected.extend_from_slice(&chunk?);
            }
            collected.freeze()
        }
    };
    let (meta, stored_at) = (entry.meta().clone(), entry.stored_at());
    Ok(StoredObject { meta, body, stored_at, outdated_since: entry.outdated_since() })
}

/// How a thread gets its store.
enum Open {
    /// It opens the store.
    Store(Box<HandleOptions>),
    /// It attaches to the store that the first thread opened.
    Share(StoreShare),
}

/// A store thread.
struct Worker {
    files: Vec<Arc<CacheFile>>,
    clock: SystemClock,
    backlog: usize,
    /// Runs the background and stops the store.
    first: bool,
    received: mpsc::Receiver<Message>,
    end: watch::Sender<Option<bool>>,
}

impl Worker {
    /// Starts the thread; returns when its store is open.
    async fn start(self, open: Open) -> Result<StoreShare, HandleOpenError> {
        let (opened, share) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let body = move || LocalSet::new().block_on(&runtime, self.serve(open, opened));
        std::thread::Builder::new().name("store".to_owned()).spawn(body)?;
        share.await.unwrap_or(Err(HandleOpenError::Panicked))
    }

    async fn serve(
        mut self,
        open: Open,
        opened: oneshot::Sender<Result<StoreShare, HandleOpenError>>,
    ) {
        let store = match self.open(open).await {
            Ok(store) => store,
            Err(error) => {
                _ = opened.send(Err(error));
                return;
            }
        };
        if self.first {
            let background = store.clone();
            spawn_local(async move { background.run_background().await });
        }
        // A caller that no longer waits drops the handle, which ends the loop.
        _ = opened.send(Ok(store.share()));
        self.run_jobs(&store).await;
        let in_order = if self.first { store.shutdown().await } else { true };
        self.end.send_replace(Some(in_order));
    }

    async fn open(&self, open: Open) -> Result<ThreadStore, HandleOpenError> {
        // Without io_uring the files are read and written by threads.
        let ring = Ring::new(RING_PLACES).ok();
        if let Some(ring) = &ring {
            spawn_local(device::drive(ring.clone()));
        }
        let attach = |file: &Arc<CacheFile>| file.attach(ring.as_ref()).map(Rc::new);
        let devices: Vec<Rc<AnyDevice>> =
            self.files.iter().map(attach).collect::<io::Result<_>>()?;
        let options = match open {
            Open::Share(share) => return Ok(Store::attach(&share, devices, self.clock)?),
            Open::Store(options) => options,
        };
        for (file, device) in self.files.iter().zip(&devices) {
            if file.contents()? == Contents::Blank {
                format(&**device, &options.format, self.clock.unix_seconds()).await?;
            }
        }
        Ok(Store::open(devices, self.clock, options.store).await?)
    }

    /// Runs jobs until the handle is closed or dropped, and those that were sent before are done.
    async fn run_jobs(&mut self, store: &ThreadStore) {
        let mut jobs = JoinSet::new();
        while let Some(message) = self.received.recv().await {
            match message {
                Message::Close => self.received.close(),
                Message::Run(job) => {
                    while jobs.try_join_next().is_some() {}
                    if jobs.len() >= self.backlog {
                        jobs.join_next().await;
                    }
                    jobs.spawn_local(job(store.clone()));
                }
            }
        }
        // The result of a job that panicked is dropped, so its caller gets `Closed`.
        while jobs.join_next().await.is_some() {}
    }
}
