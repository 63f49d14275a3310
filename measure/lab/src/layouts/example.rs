//! The drawn examples: a small cache of every layout after the same history.
//!
//! The history depends on the number of objects only. All objects are stored. Then some are stored
//! again with other sizes, round after round, some are removed and stored again, and some get new
//! metadata; every third stays unchanged. The total exceeds the space, so every layout has to reuse
//! space.

use std::fmt;
use std::rc::Rc;

use bytes::Bytes;
use device::{Clock, Extent, MemoryDevice};
use sim::{Executor, Handle};
use store::{
    FormatError, FormatOptions, Hint, IndexOptions, Inspector, Key, LayoutName, Locality, Lookup,
    Options, PlacedKind, Placements, Store,
};

/// The number of objects that can be drawn. With fewer, no space is reused; with more, letters and
/// space run out.
pub const OBJECTS: std::ops::RangeInclusive<usize> = 12..=26;
/// Number of sites of the objects.
pub const SITES: usize = 4;

/// Cluster size in bytes.
const CLUSTER: u32 = 32 << 10;
/// Number of clusters in the space: few, so that a drawing shows all of it.
const CLUSTERS: u32 = 16;
/// The largest size class of `buddy` in bytes.
const BUDDY_THRESHOLD: u32 = 16 << 10;
/// Body sizes in bytes; few different ones, as `buddy` expects.
const SIZES: [usize; 10] = [6000, 16_000, 9000, 24_000, 3000, 12_000, 26_000, 6000, 9000, 20_000];
/// Number of rounds in which some of the objects are stored again.
const ROUNDS: usize = 6;
/// Start of the clock, in Unix seconds.
const START: u64 = 1_000_000_000;

/// A layout with its settings, and its description.
#[derive(Clone, Copy)]
pub struct Variant {
    /// Name in file names and headings.
    pub name: &'static str,
    /// Description in one line.
    pub text: &'static str,
    layout: LayoutName,
    stream_runs: u32,
}

/// The variants drawn, in the order of the documentation.
pub const VARIANTS: [Variant; 5] = [
    Variant {
        name: "cluster",
        text: "one behind another; what is dead costs room until its cluster goes, and then all \
               of it goes",
        layout: LayoutName::Cluster,
        stream_runs: 1,
    },
    Variant {
        name: "stream",
        text: "the next free slots as they come: an object may lie in several runs",
        layout: LayoutName::Stream,
        stream_runs: 64,
    },
    Variant {
        name: "stream-1",
        text: "stream with runs-max 1: the next free run that is long enough",
        layout: LayoutName::Stream,
        stream_runs: 1,
    },
    Variant {
        name: "unified",
        text: "one run each, in the largest free piece until the next object does not fit",
        layout: LayoutName::Unified,
        stream_runs: 1,
    },
    Variant {
        name: "buddy",
        text: "regions of one size class from the left; what is above 16 KiB from the right",
        layout: LayoutName::Buddy,
        stream_runs: 1,
    },
];

/// A record in the drawing.
pub struct Piece {
    /// Number of the object; its letter is the one at this position in the alphabet.
    pub object: usize,
    /// True if it replaces the metadata of the object.
    pub metadata: bool,
    /// True if it can be found.
    pub live: bool,
    /// Its runs, in bytes from the beginning of the space.
    pub runs: Vec<Extent>,
}

/// The space of one variant.
pub struct Example {
    /// The variant.
    pub variant: Variant,
    /// Size of the space in bytes.
    pub len: u64,
    /// Cluster size in bytes; `None`: the layout has slots.
    pub cluster: Option<u64>,
    /// The records, in the order of the space.
    pub pieces: Vec<Piece>,
    /// Objects that were evicted, neither removed nor replaced.
    pub evicted: Vec<usize>,
}

/// Why an example could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ExampleError(String);

fn failed(what: &str, why: impl fmt::Display) -> ExampleError {
    ExampleError(format!("{what}: {why}"))
}

/// Returns the site of an object.
pub fn site(object: usize) -> usize {
    object * 3 % SITES
}

/// Runs `objects` objects through the engine with this variant.
///
/// # Errors
/// The engine refused an operation that it should accept.
pub fn example(variant: Variant, objects: usize) -> Result<Example, ExampleError> {
    let executor = Executor::new(None, START);
    let clock = executor.handle();
    let run = executor.try_run(1 << 50, async move {
        let device = Rc::new(small_cache(variant).await?);
        let options = Options { memory: 64 << 20, packet: 32 << 10, ..Options::default() };
        let opened = Store::open(vec![device], clock.clone(), options).await;
        let store = opened.map_err(|error| failed("opening", error.reason))?;
        let background = store.clone();
        clock.spawn(async move { background.run_background().await });
        let fixture = Fixture { store, clock, objects };
        fixture.play().await?;
        fixture.picture(variant).await
    });
    run.map_err(|stop| failed(variant.name, stop))?
}

/// Creates a cache whose space has exactly [`CLUSTERS`] clusters. The smallest cache is larger than
/// a drawing can show, so the area for the index dump takes the rest. Its size follows from the
/// entries of the index or, in slots, from the expected object.
async fn small_cache(variant: Variant) -> Result<MemoryDevice, ExampleError> {
    let plain = FormatOptions {
        layout: variant.layout,
        cluster_size: Some(CLUSTER),
        stream_runs: variant.stream_runs,
        buddy_threshold: BUDDY_THRESHOLD,
        superblock_far: false,
        labels: false,
        ..FormatOptions::default()
    };
    let formats: Vec<FormatOptions> = match variant.layout {
        LayoutName::Cluster => {
            let entries = (1..900).rev().map(|thousands| Some(thousands * 1000));
            let index = entries.map(|entries| IndexOptions { entries, ..plain.index });
            index.map(|index| FormatOptions { index, ..plain }).collect()
        }
        _ => (1..4096)
            .map(|mean_object| FormatOptions { mean_object: Some(mean_object), ..plain })
            .collect(),
    };
    for len in (store::CACHE_SIZE_MIN..).step_by(CLUSTER as usize).take(64) {
        for format in &formats {
            let memory = MemoryDevice::new(len, 512);
            match store::format_with_seed(&memory, format, [7; 48], START).await {
                Err(FormatError::TooSmall { .. }) => continue,
                formatted => formatted.map_err(|error| failed("formatting", error))?,
            }
            let inspector = Inspector::open(&memory).await;
            let inspector = inspector.map_err(|error| failed("looking at the cache", error))?;
            if inspector.superblock().clusters == CLUSTERS {
                return Ok(memory);
            }
            // All further formats have more clusters.
            break;
        }
    }
    Err(ExampleError(format!("no cache of layout {} has {CLUSTERS} clusters", variant.name)))
}

struct Fixture {
    store: Store<MemoryDevice, Handle>,
    clock: Handle,
    objects: usize,
}

impl Fixture {
    async fn play(&self) -> Result<(), ExampleError> {
        for object in 0..self.objects {
            self.put(object, 0).await?;
        }
        self.settle().await;
        for round in 1..=ROUNDS {
            let (gone, back): (Vec<usize>, Vec<usize>) = match round {
                2 => ((0..self.objects).filter(|object| object % 7 == 5).collect(), Vec::new()),
                5 => (Vec::new(), (0..self.objects).filter(|object| object % 7 == 5).collect()),
                _ => (Vec::new(), Vec::new()),
            };
            for object in gone {
                self.store.remove(&key(object)).await;
            }
            for object in (0..self.objects).filter(|object| (object * 7 + round * 3) % 5 < 2) {
                if object % 3 > 0 && object % 7 != 5 {
                    self.put(object, round).await?;
                }
            }
            for object in back {
                self.put(object, round).await?;
            }
            self.settle().await;
        }
        for object in (3..self.objects).step_by(8) {
            self.refresh(object).await?;
        }
        self.settle().await;
        Ok(())
    }

    /// Waits until everything is on the device and dead records are free.
    async fn settle(&self) {
        let later = self.clock.now() + 30_000_000_000;
        self.clock.sleep_until(later).await;
    }

    async fn put(&self, object: usize, version: usize) -> Result<(), ExampleError> {
        let key = key(object);
        let len = SIZES[(object + 3 * version) % SIZES.len()];
        let hint = Hint { size: Some(len as u64), ..Hint::default() };
        let token = self.store.begin_fetch(&key);
        let refused = |refusal| ExampleError(format!("object {object} was refused: {refusal:?}"));
        let meta = Bytes::from_static(b"200 OK");
        let mut writer = self.store.insert(&token, &key, meta, hint).await.map_err(refused)?;
        writer.write(Bytes::from(vec![b'.'; len])).await.map_err(refused)?;
        writer.commit().await.map_err(refused)
    }

    /// Replaces the metadata of an object, if it is there.
    async fn refresh(&self, object: usize) -> Result<(), ExampleError> {
        let key = key(object);
        let token = self.store.begin_fetch(&key);
        let Lookup::Hit(entry) = self.store.lookup(&key).await else { return Ok(()) };
        let meta = Bytes::from_static(b"200 OK, again");
        let replaced = self.store.replace_meta(&token, &key, &entry, meta).await;
        replaced.map_err(|refusal| ExampleError(format!("metadata were refused: {refusal:?}")))
    }

    async fn picture(&self, variant: Variant) -> Result<Example, ExampleError> {
        let keys: Vec<Key> = (0..self.objects).map(key).collect();
        let placed = self.store.placements(&keys).await.pop();
        let Placements { space, unit, records } =
            placed.ok_or_else(|| ExampleError("the store has no device".to_owned()))?;
        let mut pieces = Vec::new();
        for record in records {
            let Some(object) = record.key else {
                return Err(ExampleError("a record is of no object that was stored".to_owned()));
            };
            let shifted = |run: &Extent| Extent { offset: run.offset - space.offset, len: run.len };
            pieces.push(Piece {
                object,
                metadata: record.kind == PlacedKind::Metadata,
                live: record.live,
                runs: record.runs.iter().map(shifted).collect(),
            });
        }
        let here = |object| {
            pieces.iter().any(|piece| piece.object == object && piece.live && !piece.metadata)
        };
        let evicted = (0..self.objects).filter(|object| !here(*object)).collect();
        let cluster = (variant.layout == LayoutName::Cluster).then_some(u64::from(unit));
        Ok(Example { variant, len: space.len, cluster, pieces, evicted })
    }
}

fn key(object: usize) -> Key {
    let site = site(object);
    let url = format!("http://site-{site}.example/objects/{object}");
    let locality = Locality { site: site as u64, group: site as u64 };
    Key::new(Bytes::from(url), locality).expect("a short key")
}

impl Example {
    /// Returns the free bytes that objects could use.
    pub fn free(&self) -> u64 {
        self.gaps().iter().filter(|gap| !self.is_rest(gap)).map(|gap| gap.len).sum()
    }

    /// Returns the bytes of dead records.
    pub fn dead(&self) -> u64 {
        let dead = self.pieces.iter().filter(|piece| !piece.live);
        dead.flat_map(|piece| &piece.runs).map(|run| run.len).sum()
    }

    /// Returns the gaps between records, in the order of the space; in clusters, separately for
    /// each cluster.
    pub fn gaps(&self) -> Vec<Extent> {
        let mut runs: Vec<&Extent> = self.pieces.iter().flat_map(|piece| &piece.runs).collect();
        runs.sort_by_key(|run| run.offset);
        let step = self.cluster.unwrap_or(self.len);
        let mut gaps = Vec::new();
        for start in (0..self.len).step_by(step as usize) {
            let mut at = start;
            let end = start + step;
            for run in runs.iter().filter(|run| start <= run.offset && run.offset < end) {
                // Records in clusters start on granules of 64 bytes; less than one is not a gap.
                if run.offset >= at + 64 {
                    gaps.push(Extent { offset: at, len: run.offset - at });
                }
                at = run.end();
            }
            if at < end {
                gaps.push(Extent { offset: at, len: end - at });
            }
        }
        gaps
    }

    /// Returns whether a gap is the rest of a cluster in use, which stays unused until the cluster
    /// is evicted.
    pub fn is_rest(&self, gap: &Extent) -> bool {
        self.cluster.is_some_and(|cluster| gap.len < cluster)
    }
}
