//! Counters of gossip.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Values of the counters since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Figures {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Default)]
        pub struct Counters {
            $(pub $name: Counter,)*
        }

        impl Counters {
            pub fn read(&self) -> Figures {
                Figures { $($name: self.$name.0.load(Relaxed),)* }
            }
        }
    };
}

figures! {
    /// Datagrams received, valid or not.
    received,
    /// Bytes of the datagrams received.
    received_bytes,
    /// Datagrams sent.
    sent,
    /// Bytes of the datagrams sent.
    sent_bytes,
    /// Datagrams that did not open: sealed with another key, for another fleet, or not at all.
    unopened,
    /// Datagrams that opened but are not valid messages.
    malformed,
    /// Datagrams that name more nodes than fit: too many members.
    crowded,
    /// Datagrams that were too large to send: too many members.
    oversized,
    /// Datagrams that the system did not send.
    unsent,
    /// Times that gossip ended unexpectedly and was restarted.
    restarts,
}

#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn count(&self) {
        self.add(1);
    }

    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }
}
