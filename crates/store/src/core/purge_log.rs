//! The log of purges by name, on the device that keeps it.

use crate::format::purge_log::{LogOwner, PurgeLog};
use crate::format::superblock::Superblock;

/// The log of purges, if this device keeps one, and what a new log is named by.
pub(crate) struct KeptPurgeLog {
    log: Option<PurgeLog>,
    owner: LogOwner,
}

impl KeptPurgeLog {
    pub(super) fn new(log: Option<PurgeLog>, superblock: &Superblock) -> KeptPurgeLog {
        KeptPurgeLog { log, owner: superblock.log_owner() }
    }

    /// Returns the log, if there is one.
    pub(crate) fn get(&mut self) -> Option<&mut PurgeLog> {
        self.log.as_mut()
    }

    /// Returns the log; begins one at `now`, in unix seconds, if there is none because the device
    /// that kept it was given up.
    pub(crate) fn begin(&mut self, now: u64) -> &mut PurgeLog {
        self.log.get_or_insert_with(|| PurgeLog::new(&self.owner, now))
    }

    /// Begins a new log in place of the present one, with its purges and a greater number than that
    /// and than `known`. The caller wakes the background, which writes it.
    pub(crate) fn begin_later(&mut self, known: u64) {
        self.begin(0).begin_later(known);
    }

    /// Returns the number of durable purges in the log; `u64::MAX` without a log.
    pub(super) fn durable(&self) -> u64 {
        self.log.as_ref().map_or(u64::MAX, PurgeLog::durable)
    }

    pub(super) fn begin_flush(&mut self) {
        if let Some(log) = &mut self.log {
            log.begin_flush();
        }
    }

    pub(super) fn end_flush(&mut self) {
        if let Some(log) = &mut self.log {
            log.end_flush();
        }
    }
}
