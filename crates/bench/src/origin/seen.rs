//! Which requests the origin has answered, and with what: how a hit is told, whatever the cache
//! says of it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Requests that are remembered: more than are ever under way.
const REMEMBERED: usize = 1 << 20;

/// What the origin sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// That what is stored still holds.
    Head,
    /// The object, a part of it, or its head when that was asked for.
    Object,
    /// A part of the object, before it closed the connection.
    Part,
}

/// The numbers of the last requests that were answered.
pub struct Seen(Box<[AtomicU64]>);

impl Default for Seen {
    fn default() -> Seen {
        Seen((0..REMEMBERED).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Seen {
    /// Notes a request, by its number from 1 on, before it is answered.
    pub fn mark(&self, number: u64, sent: Sent) {
        let kind = match sent {
            Sent::Head => 0,
            Sent::Object => 1,
            Sent::Part => 2,
        };
        let mark = number << 2 | kind;
        self.slot(number).store(mark, Ordering::Release);
    }

    /// What a request was answered with; `None` when it never came, or so long ago that another has
    /// taken its place.
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
