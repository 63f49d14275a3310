//! Opens the store: the first worker opens it and the others attach to it. This happens before the
//! first client is accepted or, during an upgrade, when the previous process has released the
//! store.
//!
//! Until the store is open, every request is passed through. URLs that unsafe requests invalidate
//! in the meantime are remembered and removed before the store serves anything: an upgrade must not
//! bring back a response that a client has changed (RFC 9111, 4.4).

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use device::AnyDevice;
use net::clock::TokioClock;
use store::StoreShare;
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_local;

use crate::object::store::Store;
use crate::server::run::{CacheSetup, Devices};
use crate::services::Shared;

/// The source of the cache.
pub enum CacheSource {
    /// No cache: every request is passed through.
    None,
    /// The cache can be opened now.
    Now(Box<CacheSetup>),
    /// Another process still holds the cache.
    Pending(PendingCache),
}

/// A cache that another process is about to release.
pub struct PendingCache {
    /// Receives the cache, or `None` if it turns out to be unusable.
    pub setup: oneshot::Receiver<Option<CacheSetup>>,
    /// Memory size of the cache in bytes ([`store::Options::memory`]).
    pub memory: u64,
    /// Time to wait for the cache before serving clients without it. Until then they wait in the
    /// kernel's accept queue.
    pub patience: Duration,
}

impl From<Option<CacheSetup>> for CacheSource {
    fn from(setup: Option<CacheSetup>) -> CacheSource {
        setup.map_or(CacheSource::None, |setup| CacheSource::Now(Box::new(setup)))
    }
}

impl CacheSource {
    /// Returns the memory size of the cache in bytes.
    pub(crate) fn memory(&self) -> u64 {
        match self {
            CacheSource::None => 0,
            CacheSource::Now(setup) => setup.options.memory,
            CacheSource::Pending(later) => later.memory,
        }
    }

    /// Returns the first worker's setup channel, and the longest time that clients wait for the
    /// store.
    pub(crate) fn split(self) -> (oneshot::Receiver<Option<CacheSetup>>, Option<Duration>) {
        let filled = |setup| {
            let (send, receive) = oneshot::channel();
            // The receiver still exists.
            let _ = send.send(setup);
            receive
        };
        match self {
            CacheSource::None => (filled(None), None),
            CacheSource::Now(setup) => (filled(Some(*setup)), None),
            CacheSource::Pending(later) => (later.setup, Some(later.patience)),
        }
    }
}

/// State of the opening, shared with the other workers.
#[derive(Clone)]
pub(crate) enum OpenState {
    Opening,
    /// Opened, or `None` if there is no store.
    Done(Option<(StoreShare, Arc<Devices>)>),
}

/// Opens the store on the first worker, removes entries invalidated in the meantime, and shares the
/// store with the other workers. Returns `None` if there is no store.
pub(crate) async fn open_first(
    setup: oneshot::Receiver<Option<CacheSetup>>,
    clock: TokioClock,
    shared: &Shared,
    share: &watch::Sender<OpenState>,
) -> Option<Store> {
    // A dropped sender means that there is no cache.
    let opened = match setup.await.unwrap_or(None) {
        Some(setup) => Box::pin(open(setup, clock, shared)).await,
        None => None,
    };
    let (store, shared) = opened.unzip();
    share.send_replace(OpenState::Done(shared));
    store
}

async fn open(
    setup: CacheSetup,
    clock: TokioClock,
    shared: &Shared,
) -> Option<(Store, (StoreShare, Arc<Devices>))> {
    let CacheSetup { devices, mut options, is_doubted, opened } = setup;
    options.labels = Some(shared.labels.clone());
    let made = match devices(0) {
        Ok(made) => made,
        Err(error) => {
            log::error!("SERVING WITHOUT A CACHE: a device cannot be used: {error}");
            return None;
        }
    };
    let store = open_store(made, clock, options).await?;
    if is_doubted && let Err(refusal) = store.doubt_everything().await {
        log::warn!("that everything stored needs validation is not durable yet: {refusal}");
    }
    if let Err(refusal) = store.invalidate(&shared.missed.close(), None).await {
        log::warn!("an invalidation before the cache was open is not durable yet: {refusal}");
    }
    let share = store.share();
    opened(&share);
    Some((store, (share, Arc::from(devices))))
}

async fn open_store(
    devices: Vec<Rc<AnyDevice>>,
    clock: TokioClock,
    options: store::Options,
) -> Option<Store> {
    match Box::pin(Store::open(devices, clock, options)).await {
        Ok(store) => {
            let background = store.clone();
            spawn_local(async move { background.run_background().await });
            Some(store)
        }
        Err(error) => {
            log::error!("SERVING WITHOUT A CACHE: {error}");
            None
        }
    }
}

/// Waits for the store on every other worker and attaches to it. Returns `None` if there is no
/// store.
pub(crate) async fn attach(
    index: usize,
    clock: TokioClock,
    mut share: watch::Receiver<OpenState>,
) -> Option<Store> {
    let done = share.wait_for(|share| matches!(share, OpenState::Done(_))).await.ok()?.clone();
    let OpenState::Done(Some((share, devices))) = done else { return None };
    let attached = devices(index)
        .and_then(|devices| Store::attach(&share, devices, clock).map_err(io::Error::other));
    attached
        .inspect_err(|error| log::error!("worker {index} serves without the cache: {error}"))
        .ok()
}
