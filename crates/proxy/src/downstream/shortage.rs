//! The beginning and the end of a descriptor shortage. A shortage comes and goes with every
//! connection that ends, so it counts as over only after a while without one. It is therefore
//! reported twice, not every time.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time without a failure after which a shortage is over.
const OVER_AFTER: Duration = Duration::from_secs(5);

/// Tracks a descriptor shortage.
#[derive(Default)]
pub struct Shortage(Mutex<Option<Instant>>);

impl Shortage {
    /// Records that no descriptor was available. Returns whether this starts a shortage.
    pub fn felt(&self, now: Instant) -> bool {
        self.lock().replace(now).is_none()
    }

    /// Records that a descriptor was available. Returns whether this ends a shortage.
    pub fn relieved(&self, now: Instant) -> bool {
        let mut last = self.lock();
        let over = last.is_some_and(|last| now.duration_since(last) >= OVER_AFTER);
        if over {
            *last = None;
        }
        over
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[test]
fn it_is_told_of_when_it_begins_and_when_it_is_over() {
    let (shortage, begin) = (Shortage::default(), net::clock::TokioClock::system().instant());
    let after = |seconds| begin + Duration::from_secs(seconds);
    assert!(!shortage.relieved(begin), "there was none");
    assert!(shortage.felt(begin));
    for second in 1..20 {
        assert!(!shortage.relieved(after(second)) && !shortage.felt(after(second)));
    }
    assert!(!shortage.relieved(after(23)));
    assert!(shortage.relieved(after(24)) && !shortage.relieved(after(25)));
    assert!(shortage.felt(after(26)));
}
