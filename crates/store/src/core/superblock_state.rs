//! The superblock of an open cache, and what its next versions will say.

use crate::format::checkpoint::Checkpoint;
use crate::format::superblock::Superblock;

/// The superblock of this opening, the run in which the store was opened, and the number of the
/// last checkpoint.
pub(super) struct SuperblockState {
    superblock: Superblock,
    /// The run of the store in which it was opened; the superblock's is higher when devices were
    /// given up since.
    first_run: u64,
    checkpoint: u64,
}

impl SuperblockState {
    pub(super) fn new(superblock: Superblock, checkpoint: u64) -> SuperblockState {
        SuperblockState { first_run: superblock.run, superblock, checkpoint }
    }

    /// Returns the superblock to write next.
    pub(super) fn get(&self) -> &Superblock {
        &self.superblock
    }

    /// Records that the superblocks on the device name `run`.
    pub(super) fn set_run(&mut self, run: u64) {
        self.superblock.run = run;
    }

    /// Returns the run that superblocks name once the store continued without `lost` devices.
    pub(super) fn run_without(&self, lost: u64) -> u64 {
        self.first_run + lost
    }

    /// Assigns the number of the next checkpoint.
    pub(super) fn next_checkpoint(&mut self) -> u64 {
        self.checkpoint += 1;
        self.checkpoint
    }

    /// Records that the journal before `checkpoint` is no longer needed.
    pub(super) fn set_checkpoint(&mut self, checkpoint: &Checkpoint) {
        self.superblock.journal_contained = checkpoint.journal_block - 1;
    }
}
