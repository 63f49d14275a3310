//! Events of the store that an operator should know.

use std::fmt;
use std::time::Duration;

/// An event to be logged. `device` counts from 0 in the order in which devices were given.
#[derive(Clone, Debug)]
pub enum Event {
    /// A read, write or flush failed; service goes on.
    DeviceError {
        /// Number of the device.
        device: usize,
        /// "read", "write" or "flush", and the byte offset.
        operation: String,
        /// The system's error.
        error: String,
    },
    /// The device is given up: its share of the cache is no longer read or written.
    Offline {
        /// Number of the device.
        device: usize,
        /// The reason.
        reason: String,
    },
    /// The purge table is nearly full, or was full and its oldest quarter was merged into one purge
    /// of everything as old ([`crate::Options::purges`]).
    PurgesFull {
        /// Number of the device.
        device: usize,
        /// Entries in force.
        entries: usize,
        /// Capacity of the table.
        max: usize,
        /// True if the oldest entries were merged. If not, they will be if more purges come.
        merged: bool,
    },
    /// A write or flush has not ended within [`crate::Options::write_bound`]. Until one does, no
    /// caller waits for the device, and an object that does not fit in memory is not stored.
    WritesStalled {
        /// Number of the device.
        device: usize,
        /// The bound.
        bound: Duration,
    },
    /// The device writes again.
    WritesResumed {
        /// Number of the device.
        device: usize,
        /// Time since the start of the operation that stalled first.
        after: Duration,
    },
    /// One superblock copy was bad and has been restored from the other.
    SuperblockRestored {
        /// Number of the device.
        device: usize,
    },
    /// Records on the device cannot be proved alive: the cache starts empty.
    StartedEmpty {
        /// Number of the device.
        device: usize,
        /// The reason.
        reason: String,
    },
    /// The device is shorter than the cache on it: everything beyond its end is lost.
    Shrunken {
        /// Number of the device.
        device: usize,
        /// Size of the device in bytes.
        len: u64,
        /// Size in bytes that the cache was created for.
        expected: u64,
    },
    /// Readers of large objects no longer hold the pieces that they have still to read: their
    /// transfers end early if those are evicted. Reported now and then, with the numbers since the
    /// last report.
    HoldsRevoked {
        /// Number of the device.
        device: usize,
        /// Objects released because all held objects together exceeded
        /// [`crate::Options::held_percent`].
        objects: u64,
        /// Readers released because they took longer than [`crate::Options::held_time`].
        transfers: u64,
    },
    /// Objects that a killed process had not written yet were found in memory that outlived it.
    Restaged {
        /// Number of the device.
        device: usize,
        /// Number of objects.
        objects: usize,
    },
    /// There is no memory that outlives the process: a kill loses what was stored within
    /// [`crate::Options::durability_bound`].
    NoSharedMemory {
        /// Number of the device.
        device: usize,
        /// The reason.
        error: String,
    },
    /// Recovery is in progress.
    Recovering {
        /// Number of the device.
        device: usize,
        /// Clusters read.
        done: u32,
        /// Clusters in use.
        of: u32,
    },
    /// Recovery ended; the index is complete.
    Recovered {
        /// Number of the device.
        device: usize,
        /// Records in the index.
        records: usize,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::DeviceError { device, operation, error } => {
                write!(f, "cache device {device}: {operation} failed: {error}")
            }
            Event::Offline { device, reason } => {
                write!(f, "cache device {device} is given up, serving without it: {reason}")
            }
            Event::PurgesFull { device, entries, max, merged } => {
                let what = if *merged { "the oldest were merged" } else { "nearly full" };
                write!(f, "cache device {device}: {entries} of {max} purges in force: {what}")
            }
            Event::WritesStalled { device, bound } => {
                write!(f, "cache device {device} has not finished a write in {bound:?}")
            }
            Event::WritesResumed { device, after } => {
                write!(f, "cache device {device} writes again, after {after:?}")
            }
            Event::SuperblockRestored { device } => write!(
                f,
                "cache device {device}: one superblock copy was damaged and has been restored"
            ),
            Event::StartedEmpty { device, reason } => {
                write!(f, "cache device {device} starts empty: {reason}")
            }
            Event::Shrunken { device, len, expected } => {
                write!(f, "cache device {device} has only {len} of the cache's {expected} bytes")
            }
            Event::HoldsRevoked { device, objects, transfers } => write!(
                f,
                "cache device {device}: {objects} objects (share) and {transfers} transfers \
                 (time) are held no longer"
            ),
            Event::Restaged { device, objects } => {
                write!(f, "cache device {device}: {objects} objects not written yet were kept")
            }
            Event::NoSharedMemory { device, error } => write!(
                f,
                "cache device {device}: no memory that outlives the process, a kill loses the \
                 objects stored last: {error}"
            ),
            Event::Recovering { device, done, of } => {
                write!(f, "cache device {device}: recovery has read {done} of {of} clusters")
            }
            Event::Recovered { device, records } => {
                write!(f, "cache device {device}: recovery complete, {records} records")
            }
        }
    }
}
