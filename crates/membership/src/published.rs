//! The current view of a node, published to its readers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fleet::members::InvalidMembers;
use fleet::{Member, MemberId, Members};
use tokio::sync::watch;

/// The current view. Each further view that is published has the next version.
pub struct Published(watch::Sender<Members>);

impl Published {
    /// Publishes a first view.
    pub fn new(list: Vec<Member>) -> Result<Published, InvalidMembers> {
        Ok(Published(watch::Sender::new(Members::new(1, list)?)))
    }

    /// Returns the current view.
    pub fn members(&self) -> Members {
        self.0.borrow().clone()
    }

    /// Returns a receiver of further views.
    pub fn changes(&self) -> watch::Receiver<Members> {
        self.0.subscribe()
    }

    /// Publishes these members, unless they equal those of the current view.
    pub fn publish(&self, list: Vec<Member>) {
        self.0.send_if_modified(|present| match Members::new(present.version() + 1, list) {
            Ok(next) => {
                let differs = !next.iter().eq(present.iter());
                if differs {
                    *present = next;
                }
                differs
            }
            Err(error) => {
                log::error!("keeping the current members of the fleet: {error}");
                false
            }
        });
    }
}

/// Returns whether an announcement is by this node; another is logged.
pub fn is_own(own: &MemberId, announced: &Member) -> bool {
    let same = announced.id == *own;
    if !same {
        log::error!("node {own} cannot announce itself as {}: it keeps its name", announced.id);
    }
    same
}

/// Locks a mutex, ignoring poison.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, load: u64) -> Member {
        let (id, address) = (name.parse().unwrap(), "h:1".parse().unwrap());
        Member { load, ..crate::facts::unheard(id, address, "".into(), 1) }
    }

    #[test]
    fn only_another_view_is_published() {
        let published = Published::new(vec![member("a", 0)]).unwrap();
        let mut changes = published.changes();
        published.publish(vec![member("a", 0)]);
        assert!(!changes.has_changed().unwrap());
        published.publish(vec![member("b", 0), member("a", 1)]);
        assert!(changes.has_changed().unwrap());
        let view = changes.borrow_and_update().clone();
        assert_eq!((view.version(), view.len()), (2, 2));
        published.publish(vec![member("b", 0), member("b", 1)]);
        assert_eq!(published.members().version(), 2, "a name stands once");
    }
}
