//! Parameters of a store. A paper's system is one set of them; the defaults are the product's.

use std::sync::Arc;
use std::time::Duration;

use crate::areas::cluster_size_for;
use crate::event::Event;

/// When an object is written to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePolicy {
    /// As soon as it is complete: a kill loses at most the last [`Options::durability_bound`].
    OnInsert,
    /// When it leaves memory, grouped with its neighbours (UCFS): a kill loses what is in memory.
    OnEvict,
}

/// How much a disk hit reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadUnit {
    /// Just the object's record.
    Object,
    /// The whole cluster; its other objects enter memory as prefetched (UCFS, C4).
    Cluster,
}

/// Parameters of an open store; [`Options::default`] is the product's choice.
#[derive(Clone)]
pub struct Options {
    /// Bytes of memory for index, tables, tier and buffers of all devices together.
    pub memory: u64,
    /// When objects are written.
    pub write_policy: WritePolicy,
    /// How much a disk hit reads.
    pub read_unit: ReadUnit,
    /// The longest that a committed object or a fact may stay unwritten
    /// ([`WritePolicy::OnInsert`]).
    pub durability_bound: Duration,
    /// The longest between two flushes of the device while there is something to flush: what a
    /// power loss may cost. Purges never wait for it.
    pub flush_interval: Duration,
    /// The longest that an insertion waits for room before it is refused as `Busy`.
    pub stall_bound: Duration,
    /// Bytes of the largest object; `None`: a quarter of the device that it would be on.
    pub object_max: Option<u64>,
    /// A cluster none of whose objects was touched for this long is dropped (UCFS, C9: 115 hours).
    pub one_timer_age: Option<Duration>,
    /// Reference counts of clusters are halved when their mean passes this (C9).
    pub aging_mean: u16,
    /// Percent of all clusters, the youngest, that are not evicted for want of references.
    pub young_percent: u8,
    /// How long opening may wait for recovery before it goes on beside service.
    pub recovery_wait: Duration,
    /// Told what operators should know; called without locks held, must not block.
    pub on_event: Arc<dyn Fn(Event) + Send + Sync>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            memory: 256 << 20,
            write_policy: WritePolicy::OnInsert,
            read_unit: ReadUnit::Object,
            durability_bound: Duration::from_secs(1),
            flush_interval: Duration::from_secs(5),
            stall_bound: Duration::from_secs(5),
            object_max: None,
            one_timer_age: None,
            aging_mean: 10,
            young_percent: 10,
            recovery_wait: Duration::from_millis(1500),
            on_event: Arc::new(|_| {}),
        }
    }
}

impl Options {
    /// UCFS as its paper has it: whole-cluster reads, writes from the cold end of memory in
    /// groups, one-timers dropped after 115 hours. A kill loses what is in memory only.
    pub fn ucfs() -> Options {
        Options {
            write_policy: WritePolicy::OnEvict,
            read_unit: ReadUnit::Cluster,
            one_timer_age: Some(Duration::from_secs(115 * 3600)),
            young_percent: 0,
            ..Options::default()
        }
    }
}

/// Parameters fixed when a cache is created.
#[derive(Clone, Copy, Debug)]
pub struct FormatOptions {
    /// Expected mean object in bytes (body, metadata and key): sizes the index.
    pub mean_object: u32,
    /// Bytes of a cluster, a power of two within [`crate::CLUSTER_SIZES`]; `None`: by the size of
    /// the cache.
    pub cluster_size: Option<u32>,
}

/// The default of [`FormatOptions::mean_object`].
pub const MEAN_OBJECT: u32 = 12 * 1024;

impl Default for FormatOptions {
    fn default() -> FormatOptions {
        FormatOptions { mean_object: MEAN_OBJECT, cluster_size: None }
    }
}

impl FormatOptions {
    pub(crate) fn cluster_size_for(&self, len: u64) -> u32 {
        self.cluster_size.unwrap_or_else(|| cluster_size_for(len))
    }
}
