//! What gossip has done, in numbers.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The numbers since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Figures {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The numbers, while they are counted.
        #[derive(Default)]
        pub struct Counters {
            $(pub $name: Counter,)*
        }

        impl Counters {
            /// Reads the numbers.
            pub fn read(&self) -> Figures {
                Figures { $($name: self.$name.0.load(Relaxed),)* }
            }
        }
    };
}

figures! {
    /// Datagrams that came, whatever became of them.
    received,
    /// Bytes of them.
    received_bytes,
    /// Datagrams that were sent.
    sent,
    /// Bytes of them.
    sent_bytes,
    /// Datagrams that did not open: sealed with another key or for another fleet, or not at all.
    unopened,
    /// Datagrams that opened, and are none that a member sends.
    malformed,
    /// Datagrams of which there is more to learn than there is room for: too many members.
    crowded,
    /// Datagrams that were too large to send: too many members.
    oversized,
    /// Datagrams that the system did not send.
    unsent,
    /// Times that gossip ended without being told to, and was begun again.
    restarts,
}

/// One number.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts one more.
    pub fn count(&self) {
        self.add(1);
    }

    /// Adds a number.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }
}
