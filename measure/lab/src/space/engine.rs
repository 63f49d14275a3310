//! The product's engine on any device and clock (a real file, memory, a simulated drive): creating
//! a cache, storing objects and reading them back; and the engine as a [`SpaceManager`].
//!
//! It gets the lab's objects as the proxy would store responses: a URL as the key, site and
//! directory as the locality, some metadata, the body. The engine evicts by itself if its device is
//! too small for the objects that the lab's cache keeps; an evicted object is [`Read::Gone`].

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use device::{Clock, Counts, Device};
use store::{Content, Entry, FormatOptions, Hint, Key, Locality, Lookup, Options, Refusal, Store};

use crate::space::manager::{Calls, Read, SpaceError, SpaceManager, Stored};
use workload::contents::{Bodies, first_wrong_content, mix};
use workload::request::Object;

/// The metadata of every object: about the size of a response head.
const META: &[u8] = &[b'm'; 300];

/// Creates an empty cache on `device` and opens it with `clock`. The caller must run its
/// background.
///
/// # Errors
/// The device is too small or broken, or these parameters do not fit it.
pub async fn create<D: Device, C: Clock>(
    device: Rc<D>,
    clock: C,
    format: &FormatOptions,
    options: Options,
) -> Result<Store<D, C>, SpaceError> {
    let format = FormatOptions { superblock_far: false, labels: false, ..*format };
    // The secret protects real caches against strangers; here it is fixed, so that runs are
    // repeatable.
    let formatted = store::format_with_seed(&*device, &format, [7; 48], clock.unix_seconds()).await;
    formatted.map_err(|error| SpaceError::Engine(error.to_string()))?;
    let opened = Store::open(vec![device], clock, options).await;
    opened.map_err(|error| SpaceError::Engine(error.reason.to_string()))
}

/// Stores an object; its version becomes the stamp.
///
/// # Errors
/// The engine refused it.
pub async fn insert<D: Device, C: Clock>(
    store: &Store<D, C>,
    key: &Key,
    object: &Object,
    body: impl Iterator<Item = Content>,
) -> Result<(), Refusal> {
    let token = store.begin_fetch(key);
    let hint = Hint {
        size: Some(object.size),
        kind: object.kind,
        stamp: object.version,
        ..Hint::default()
    };
    let mut writer = store.insert(&token, key, Bytes::from_static(META), hint).await?;
    for part in body {
        writer.write(part).await?;
    }
    writer.commit().await
}

/// Reads the whole body of an entry and compares it with that of `object`; returns false if it was
/// cut short.
///
/// # Errors
/// The body differs from the one stored.
pub async fn read<D: Device, C: Clock>(
    entry: &Entry<D, C>,
    object: &Object,
) -> Result<bool, SpaceError> {
    let (mut body, mut at) = (entry.body(0..entry.len()), 0);
    while let Some(part) = body.next_content().await {
        let Ok(content) = part else { return Ok(false) };
        if let Some(position) = first_wrong_content(object, at, &content) {
            return Err(SpaceError::Wrong { object: *object, position });
        }
        at += content.len() as u64;
    }
    match at == object.size {
        true => Ok(true),
        false => Err(SpaceError::Wrong { object: *object, position: at.min(object.size) }),
    }
}

/// The engine with its background running, on a device whose operations are counted.
pub struct EngineSpace<D: Device, C: Clock> {
    store: Store<D, C>,
    counts: Rc<dyn Fn() -> Counts>,
    /// True if bodies consist of lengths and names only.
    elided: bool,
}

impl<D: Device, C: Clock> EngineSpace<D, C> {
    /// Creates an empty cache on `device` and opens it with `clock`. `counts` returns the
    /// operations on the device so far; `spawn` runs the engine's background concurrently.
    ///
    /// # Errors
    /// The device is too small or broken, or these parameters do not fit it.
    pub async fn create(
        device: Rc<D>,
        clock: C,
        format: &FormatOptions,
        options: Options,
        counts: Rc<dyn Fn() -> Counts>,
        spawn: impl FnOnce(Pin<Box<dyn Future<Output = ()>>>),
    ) -> Result<EngineSpace<D, C>, SpaceError> {
        let format = FormatOptions { memory: options.memory, ..*format };
        let store = self::create(device, clock, &format, options).await?;
        let background = store.clone();
        spawn(Box::pin(async move { background.run_background().await }));
        Ok(EngineSpace { store, counts, elided: false })
    }

    /// Keeps only length and name of bodies, on a simulated device, so that stored objects take no
    /// memory. The name distinguishes the bodies of different objects when they are read.
    #[must_use]
    pub fn eliding_bodies(self) -> EngineSpace<D, C> {
        EngineSpace { elided: true, ..self }
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Store<D, C> {
        &self.store
    }

    async fn insert(&self, object: &Object, body: Bytes) -> Result<(), Refusal> {
        let key = short_key(object);
        match self.elided {
            true => {
                let body = Bodies::Elided.parts(object, usize::MAX);
                self::insert(&self.store, &key, object, body).await
            }
            false => self::insert(&self.store, &key, object, [body.into()].into_iter()).await,
        }
    }
}

/// Returns an object's key in a whole cache: as long as a URL, and the same for all versions.
pub fn key(object: &Object) -> Key {
    named(object, format!("http://server-{:07}.example/objects/{:09}", object.site, object.id))
}

/// Returns an object's key in a space manager.
fn short_key(object: &Object) -> Key {
    named(object, format!("http://server-{}.example/objects/{:08}", object.site, object.id))
}

fn named(object: &Object, url: String) -> Key {
    let site = mix(u64::from(object.site));
    let group = mix(site ^ u64::from(object.group));
    Key::new(url.into(), Locality { site, group }).expect("a short key")
}

impl<D: Device, C: Clock> SpaceManager for EngineSpace<D, C> {
    async fn store(&self, object: &Object, body: Bytes) -> Result<Stored, SpaceError> {
        match self.insert(object, body).await {
            Ok(()) => Ok(Stored::Kept),
            Err(Refusal::Offline) => Err(SpaceError::Engine("its device is out of use".to_owned())),
            Err(refusal) => Ok(Stored::Refused(refusal)),
        }
    }

    async fn read(&self, object: &Object) -> Result<Read, SpaceError> {
        let Lookup::Hit(entry) = self.store.lookup(&short_key(object)).await else {
            return Ok(Read::Gone);
        };
        if self.elided {
            let is_whole = self::read(&entry, object).await?;
            return Ok(if is_whole { Read::Unseen } else { Read::Gone });
        }
        let mut body = entry.body(0..entry.len());
        let mut parts = Vec::new();
        while let Some(part) = body.next().await {
            match part {
                Ok(bytes) => parts.push(bytes),
                Err(_) => return Ok(Read::Gone),
            }
        }
        Ok(Read::Body(parts))
    }

    async fn delete(&self, object: &Object) -> Result<bool, SpaceError> {
        // The lab's cache decides on evictions; nothing depends on the object being gone.
        Ok(self.store.evict(&short_key(object)))
    }

    fn hold_reads(&self, holds: bool) {
        self.store.hold_reads(holds);
    }

    async fn finish(&self) -> Result<(), SpaceError> {
        match self.store.shutdown().await {
            true => Ok(()),
            false => {
                Err(SpaceError::Engine("its device could not be shut down cleanly".to_owned()))
            }
        }
    }

    fn calls(&self) -> Calls {
        let counts = (self.counts)();
        Calls {
            reads: counts.reads,
            read_bytes: counts.bytes_read,
            writes: counts.writes,
            written_bytes: counts.bytes_written,
            syncs: counts.flushes,
            ..Calls::default()
        }
    }
}
