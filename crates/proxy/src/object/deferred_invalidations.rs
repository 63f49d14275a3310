//! Keys to remove as soon as the store is open.

use std::sync::{Mutex, PoisonError};

use store::Key;

/// Maximum number of remembered keys. A caller with more waits for the store.
const MISSED_MAX: usize = 16_384;

/// Keys to remove as soon as the store is open, of all workers.
pub(crate) struct DeferredInvalidations(Mutex<Option<Vec<Key>>>);

impl DeferredInvalidations {
    pub fn new() -> DeferredInvalidations {
        DeferredInvalidations(Mutex::new(Some(Vec::new())))
    }

    /// Remembers keys. Returns them if there are too many, or if the store is already open.
    pub fn remember(&self, keys: Vec<Key>) -> Result<(), Vec<Key>> {
        let mut missed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *missed {
            Some(all) if all.len() + keys.len() <= MISSED_MAX => {
                all.extend(keys);
                Ok(())
            }
            _ => Err(keys),
        }
    }

    /// Returns all keys and accepts no more.
    pub fn close(&self) -> Vec<Key> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use bytes::Bytes;
    use store::Locality;

    use super::*;

    #[test]
    fn deferred_keys_are_bounded_until_the_store_opens() {
        let key = || Key::new(Bytes::from_static(b"k"), Locality::default()).unwrap();
        let missed = DeferredInvalidations::new();
        assert!(missed.remember(vec![key(); MISSED_MAX]).is_ok());
        assert_eq!(missed.remember(vec![key()]).unwrap_err().len(), 1);
        assert_eq!(missed.close().len(), MISSED_MAX);
        assert!(missed.remember(vec![key()]).is_err());
        assert!(missed.close().is_empty());
    }
}
