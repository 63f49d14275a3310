//! Limits that all roots of a process share.

#[cfg(test)]
use std::cell::RefCell;
#[cfg(test)]
use std::collections::HashMap;
use std::sync::Arc;
#[cfg(not(test))]
use std::sync::OnceLock;

use tokio::sync::Semaphore;

/// A limit of the process. In tests each thread has its own, as a test that takes all permits would
/// disturb those that run beside it.
pub(crate) struct ProcessLimit {
    /// Returns the number of permits.
    permits: fn() -> usize,
    #[cfg(not(test))]
    semaphore: OnceLock<Arc<Semaphore>>,
}

impl ProcessLimit {
    pub const fn new(permits: fn() -> usize) -> ProcessLimit {
        ProcessLimit {
            permits,
            #[cfg(not(test))]
            semaphore: OnceLock::new(),
        }
    }

    fn made(&self) -> Arc<Semaphore> {
        Arc::new(Semaphore::new((self.permits)()))
    }

    #[cfg(not(test))]
    pub fn semaphore(&self) -> Arc<Semaphore> {
        self.semaphore.get_or_init(|| self.made()).clone()
    }

    #[cfg(test)]
    pub fn semaphore(&'static self) -> Arc<Semaphore> {
        thread_local! {
            static OF_TEST: RefCell<HashMap<usize, Arc<Semaphore>>> = RefCell::default();
        }
        let address = std::ptr::from_ref(self).addr();
        OF_TEST.with_borrow_mut(|all| all.entry(address).or_insert_with(|| self.made()).clone())
    }
}
