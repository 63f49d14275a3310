//! The steps of the background: what the core decides and the shell does.

use std::collections::BTreeSet;

use device::{Extent, Nanos};

use crate::base::limits::ClusterId;
use crate::base::summary::Entry;
use crate::core::held::HoldsRevoked;
use crate::format::checkpoint::Checkpoint;
use crate::format::journal::FlushMark;
use crate::space::appender::{Requests, WriteJob};
use crate::space::slots::page_write::{PageDone, PageJob};

/// The next step of the background.
pub(crate) enum Task {
    /// Nothing to do before the deadline, or before something changes.
    Idle(Option<Nanos>),
    /// Write the journal's facts; flush when `durable`.
    Sync { durable: bool },
    /// Write records.
    Write(WriteJob),
    /// Write pages of slots.
    WritePages(PageJob),
    /// Read the summary of a cluster and give the cluster up.
    Evict(EvictPlan),
    /// Read the summary of a cluster to know what lies together in it. It is pinned meanwhile.
    Learn { cluster: ClusterId, incarnation: u64, extent: Extent },
    /// Read a cluster to know the labels of what it holds. It is pinned meanwhile.
    ReadLabels(LabelsPlan),
    /// Ask again, after others had their turn.
    Again,
    /// Report revoked holds.
    Report(HoldsRevoked),
    /// Write a checkpoint.
    Checkpoint,
    /// Write the superblocks with this run of the store.
    NameRun(u64),
    /// The store is offline: stop.
    Stop,
}

/// A step of the background that has ended.
pub(crate) enum Completed {
    /// Records were written by these requests; `None`: the device did not take all of them.
    Write(WriteJob, Option<Requests>),
    /// Pages of slots were written, or not.
    WritePages(PageJob, Vec<PageDone>),
    /// A flush ended then: what was written before the mark is durable.
    Flush(FlushMark, Nanos),
    /// The summary of a cluster to be given up was read; `None`: there is none that can be.
    Evict(EvictPlan, Option<Vec<Entry>>),
    /// The summary of a cluster was read, for what lies together in it; empty without one.
    Learn { cluster: ClusterId, incarnation: u64, entries: Vec<Entry> },
    /// A cluster was read for its labels; `None`: not, or not all of it.
    ReadLabels(LabelsPlan, Option<Vec<u64>>),
    /// The checkpoint is durable.
    Checkpoint(Checkpoint),
    /// The superblocks name this run of the store.
    NameRun(u64),
    /// The background itself has ended.
    Background,
}

/// A cluster to be given up; pinned meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct EvictPlan {
    pub(crate) cluster: ClusterId,
    pub(crate) incarnation: u64,
    pub(crate) extent: Extent,
    /// Nothing in it lives: its summary has nothing to say.
    pub(crate) all_dead: bool,
}

/// Bytes at the end of a cluster that are read first for its summary.
pub(crate) const SUMMARY_READ: u32 = 4096;

/// A cluster to be read for the labels of what lives in it.
pub(crate) struct LabelsPlan {
    pub(crate) evict: EvictPlan,
    /// Granules of its dead records.
    pub(crate) dead: BTreeSet<u32>,
}
