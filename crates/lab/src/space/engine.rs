//! The product's engine as a [`SpaceManager`], on any device and in any time: a real file, memory,
//! a simulated drive.
//!
//! It gets the lab's objects as the proxy would give it answers: a URL as the key, site and
//! directory as the neighbourhood, some metadata, the body. The engine evicts by itself when its
//! device is too small for what the lab's cache keeps; what it gave up is [`Read::Gone`].

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use device::{Clock, Counts, Device};
use store::{Body, Content, FormatOptions, Hint, Key, Locality, Lookup, Options, Refusal, Store};

use crate::space::manager::{Calls, Read, SpaceError, SpaceManager, Stored};
use crate::workload::contents::mix;
use crate::workload::request::Object;

/// The metadata of every object: about as much as the head of an answer takes.
const META: &[u8] = &[b'm'; 300];

/// The engine, its background running, on a device whose operations are counted.
pub struct EngineSpace<D: Device, C: Clock> {
    store: Store<D, C>,
    counts: Rc<dyn Fn() -> Counts>,
    /// Whether bodies are lengths and names only.
    elided: bool,
}

impl<D: Device, C: Clock> EngineSpace<D, C> {
    /// Makes an empty cache on `device` and opens it in the time of `clock`. `counts` tells what
    /// was done on the device so far; `spawn` runs the engine's background beside its caller.
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
        // The secret protects caches against strangers; a run is to be the same each time.
        let format = FormatOptions {
            memory: options.memory,
            superblock_far: false,
            labels: false,
            ..*format
        };
        let formatted = store::format(&*device, &format, [7; 48], clock.unix_seconds()).await;
        formatted.map_err(|error| SpaceError::Engine(error.to_string()))?;
        let opened = Store::open(vec![device], clock, options).await;
        let store = opened.map_err(|(_, error)| SpaceError::Engine(error.to_string()))?;
        let background = store.clone();
        spawn(Box::pin(async move { background.run_background().await }));
        Ok(EngineSpace { store, counts, elided: false })
    }

    /// The same, with bodies of which only length and name are kept, on a simulated device: what is
    /// stored then takes no memory. What is read is told from another object's by its name.
    #[must_use]
    pub fn eliding_bodies(self) -> EngineSpace<D, C> {
        EngineSpace { elided: true, ..self }
    }

    /// The engine.
    pub fn engine(&self) -> &Store<D, C> {
        &self.store
    }

    async fn insert(&self, object: &Object, body: Bytes) -> Result<(), Refusal> {
        let key = key(object);
        let token = self.store.begin_fetch(&key);
        let hint = Hint { size: Some(object.size), kind: object.kind, ..Hint::default() };
        let meta = Bytes::from_static(META);
        let mut writer = self.store.insert(&token, &key, meta, hint).await?;
        let content = match self.elided {
            true => Content::Elided { id: name(object), len: object.size as usize },
            false => body.into(),
        };
        writer.write(content).await?;
        writer.commit().await
    }
}

/// Reads a body that was elided; it must be the one of `object`, whole.
async fn read_elided<D: Device, C: Clock>(
    object: &Object,
    body: &mut Body<D, C>,
) -> Result<Read, SpaceError> {
    let (mut first, mut read) = (None, 0);
    while let Some(part) = body.next_content().await {
        match part {
            Ok(Content::Elided { id, len }) => {
                first.get_or_insert(id);
                read += len as u64;
            }
            Ok(Content::Bytes(bytes)) => read += bytes.len() as u64,
            Err(_) => return Ok(Read::Gone),
        }
    }
    if read == object.size && first.is_none_or(|id| id == name(object)) {
        return Ok(Read::Unseen);
    }
    Err(SpaceError::Engine(format!("{object:?}: {read} bytes of {first:?} were read")))
}

/// What an elided body is told by.
fn name(object: &Object) -> u64 {
    mix(u64::from(object.id) << 32 | u64::from(object.version))
}

/// An object's name: as long as a URL is, the same for all versions.
fn key(object: &Object) -> Key {
    let url = format!("http://server-{}.example/objects/{:08}", object.site, object.id);
    let site = mix(u64::from(object.site));
    let group = mix(site ^ u64::from(object.group));
    Key::new(url.into(), Locality { site, group }).expect("a short key")
}

impl<D: Device, C: Clock> SpaceManager for EngineSpace<D, C> {
    async fn store(&self, object: &Object, body: Bytes) -> Result<Stored, SpaceError> {
        match self.insert(object, body).await {
            Ok(()) => Ok(Stored::Kept),
            Err(Refusal::Offline) => Err(SpaceError::Engine("its device was given up".to_owned())),
            Err(refusal) => Ok(Stored::Refused(refusal)),
        }
    }

    async fn read(&self, object: &Object) -> Result<Read, SpaceError> {
        let Lookup::Hit(entry) = self.store.lookup(&key(object)).await else {
            return Ok(Read::Gone);
        };
        let mut body = entry.body(0..entry.len());
        if self.elided {
            return read_elided(object, &mut body).await;
        }
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
        // The lab's cache has decided what goes for room: nobody relies on its being gone.
        Ok(self.store.evict(&key(object)))
    }

    fn hold_reads(&self, holds: bool) {
        self.store.hold_reads(holds);
    }

    async fn finish(&self) -> Result<(), SpaceError> {
        match self.store.shutdown().await {
            true => Ok(()),
            false => Err(SpaceError::Engine("its device could not be ended in order".to_owned())),
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
