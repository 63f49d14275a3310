//! Ordering of writes to one file. A kernel holds the file's lock for the whole of a write, so
//! writes to one file are carried out one after another, in the order of the calls. Without the
//! lock a short write would overtake a long one and break the runs in which blocks are written.

use super::Ffs;

/// A place in the queue of writes to one file, given up on drop.
pub(super) struct Turn {
    ffs: Ffs,
    inode: u32,
    ticket: u64,
}

impl Ffs {
    /// Waits until all earlier writes to the file have ended.
    pub(super) async fn turn_to_write(&self, inode: u32) -> Turn {
        let ticket = {
            let mut state = self.state();
            let writers = &mut state.inode_mut(inode).writers;
            let ticket = writers.back().map_or(0, |last| last + 1);
            writers.push_back(ticket);
            ticket
        };
        let turn = Turn { ffs: self.clone(), inode, ticket };
        while self.state().inode_mut(inode).writers.front() != Some(&ticket) {
            self.inner.progress.next().await;
        }
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let others = {
            let mut state = self.ffs.state();
            state.inodes.get_mut(&self.inode).is_some_and(|inode| {
                inode.writers.retain(|ticket| *ticket != self.ticket);
                !inode.writers.is_empty()
            })
        };
        if others {
            self.ffs.inner.progress.step();
        }
    }
}
