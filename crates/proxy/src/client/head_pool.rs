//! Memory for heads of requests, used again and again by the connections of one worker.

use std::cell::RefCell;

use http1::RequestHead;

/// Heads that are kept at most: as many as are read between two waits, and more.
const KEPT_MAX: usize = 64;

/// Bytes of a head that is kept at most.
const BYTES_MAX: usize = 8 << 10;

/// Heads that no request uses.
#[derive(Default)]
pub(crate) struct HeadPool {
    free: RefCell<Vec<RequestHead>>,
}

impl HeadPool {
    /// Takes the memory of a head, whose content means nothing.
    pub fn take(&self) -> RequestHead {
        self.free.borrow_mut().pop().unwrap_or_default()
    }

    /// Gives the memory of a head back.
    pub fn give(&self, head: RequestHead) {
        let mut free = self.free.borrow_mut();
        if free.len() < KEPT_MAX && head.capacity() <= BYTES_MAX {
            free.push(head);
        }
    }
}
