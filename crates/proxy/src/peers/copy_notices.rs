//! Notices of copies that entered or left this node's memory, until the owners of the documents are
//! told. Owners pass questions on by hints, and a hint of a copy that is gone costs a question.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fleet::KeyHash;

/// Maximum notices that wait; beyond them the oldest are dropped.
const WAITING_MAX: usize = 8 << 10;

/// A copy that entered or left memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyNotice {
    pub key: KeyHash,
    /// The document, if its copy entered memory; `None` if it left.
    pub entered: Option<NoticedDocument>,
}

/// Size and type of a document, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NoticedDocument {
    pub size: Option<u64>,
    pub content_type: Option<Box<str>>,
}

/// The notices that wait, oldest first.
#[derive(Debug, Default)]
pub(crate) struct CopyNotices(Mutex<VecDeque<CopyNotice>>);

impl CopyNotices {
    /// Adds a notice.
    pub fn add(&self, notice: CopyNotice) {
        let mut waiting = self.lock();
        if waiting.len() == WAITING_MAX {
            waiting.pop_front();
        }
        waiting.push_back(notice);
    }

    /// Takes the oldest notices, at most `count`.
    pub fn take(&self, count: usize) -> Vec<CopyNotice> {
        let mut waiting = self.lock();
        let count = count.min(waiting.len());
        waiting.drain(..count).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<CopyNotice>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_notices_are_taken_first_and_dropped_first() {
        let notices = CopyNotices::default();
        let key = KeyHash::from_bits;
        (0..=WAITING_MAX as u64)
            .for_each(|bits| notices.add(CopyNotice { key: key(bits), entered: None }));
        let taken = notices.take(2);
        assert_eq!(taken.iter().map(|notice| notice.key).collect::<Vec<_>>(), [key(1), key(2)]);
        assert_eq!(notices.take(usize::MAX).len(), WAITING_MAX - 2);
        assert!(notices.take(1).is_empty());
    }
}
