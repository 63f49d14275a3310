//! A consistency check of the file system in memory, like `fsck`.

use std::collections::HashSet;

use super::{Ffs, ROOT, State};

impl Ffs {
    /// Checks that no fragment belongs to two files, that exactly the fragments of files are in
    /// use, and that directories and inodes agree.
    ///
    /// # Errors
    /// A description of the first inconsistency.
    pub fn audit(&self) -> Result<(), String> {
        let state = self.state();
        state.groups.audit()?;
        state.audit_space(self.inner.units.per_block)?;
        state.audit_names()
    }
}

impl State {
    fn audit_space(&self, per_block: u64) -> Result<(), String> {
        let mut owned = HashSet::new();
        for (number, inode) in &self.inodes {
            let pieces = inode.pieces().iter().map(|piece| (piece.at, piece.count));
            let indirect = inode.indirect.iter().map(|at| (*at, per_block));
            for at in pieces.chain(indirect).flat_map(|(at, count)| at..at + count) {
                if !owned.insert(at) {
                    return Err(format!(
                        "fragment {at} of inode {number} also belongs to another \
                                        inode"
                    ));
                }
                if !self.groups.is_used(at) {
                    return Err(format!("fragment {at} of inode {number} is marked free"));
                }
            }
            if !self.groups.is_inode_used(*number) {
                return Err(format!("inode {number} is marked free"));
            }
        }
        match owned.len() as u64 == self.groups.used() {
            true => Ok(()),
            false => {
                Err(format!("{} fragments of {} have an owner", owned.len(), self.groups.used()))
            }
        }
    }

    fn audit_names(&self) -> Result<(), String> {
        let mut reached = HashSet::from([ROOT]);
        let directories = self.inodes.values().filter_map(|inode| inode.directory.as_ref());
        for directory in directories {
            for entry in directory.entries() {
                if !self.inodes.contains_key(&entry.inode) {
                    return Err(format!("an entry leads to inode {}, which is free", entry.inode));
                }
                if !reached.insert(entry.inode) {
                    return Err(format!("two entries lead to inode {}", entry.inode));
                }
            }
            if directory.len() as u64 * 12 > directory.size() {
                return Err("a directory has more entries than room".to_owned());
            }
        }
        for (number, inode) in &self.inodes {
            if inode.named != reached.contains(number) {
                return Err(format!("inode {number} and the directories disagree"));
            }
            if !inode.named && inode.opens == 0 {
                return Err(format!("no entry leads to inode {number}"));
            }
        }
        Ok(())
    }
}
