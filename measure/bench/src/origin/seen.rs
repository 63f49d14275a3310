//! Which requests the origin has served, and with what. This identifies hits whatever the cache
//! reports.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of requests to remember, more than are ever in flight.
const REMEMBERED: usize = 1 << 20;

/// The content that the origin sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Confirmation that the stored response is still valid.
    Head,
    /// The object, a part of it, or its head if only that was requested.
    Object,
    /// A part of the object, before closing the connection.
    Part,
}

/// The numbers of the latest requests that were served.
pub struct Seen(Box<[AtomicU64]>);

impl Default for Seen {
    fn default() -> Seen {
        Seen((0..REMEMBERED).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Seen {
    /// Records a request, by its number from 1 on, before the response is sent.
    pub fn mark(&self, number: u64, sent: Sent) {
        let kind = match sent {
            Sent::Head => 0,
            Sent::Object => 1,
            Sent::Part => 2,
        };
        let mark = number << 2 | kind;
        self.slot(number).store(mark, Ordering::Release);
    }

    /// Returns what a request was served with; `None` if it never arrived, or a later one has taken
    /// its slot.
    pub fn answer(&self, number: u64) -> Option<Sent> {
        let mark = self.slot(number).load(Ordering::Acquire);
        let sent = match mark & 3 {
            0 => Sent::Head,
            1 => Sent::Object,
            _ => Sent::Part,
        };
        (mark >> 2 == number).then_some(sent)
    }

    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.0[(number % REMEMBERED as u64) as usize]
    }
}

#[test]
fn what_was_marked_is_known_until_its_place_is_taken() {
    let seen = Seen::default();
    assert_eq!(seen.answer(5), None);
    seen.mark(5, Sent::Object);
    seen.mark(6, Sent::Head);
    seen.mark(7, Sent::Part);
    assert_eq!(seen.answer(7), Some(Sent::Part));
    assert_eq!((seen.answer(5), seen.answer(6)), (Some(Sent::Object), Some(Sent::Head)));
    seen.mark(5 + REMEMBERED as u64, Sent::Object);
    assert_eq!(seen.answer(5), None);
}
