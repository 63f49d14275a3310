//! The time that a thread of this process ran, and that it waited for a core.

use std::fs;
use std::ops::Sub;

/// Scheduling times of a thread, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadTime {
    /// Time for which the thread ran.
    pub ran: u64,
    /// Time for which the thread was runnable while others ran.
    pub waited: u64,
}

impl Sub for ThreadTime {
    type Output = ThreadTime;

    fn sub(self, before: ThreadTime) -> ThreadTime {
        ThreadTime {
            ran: self.ran.saturating_sub(before.ran),
            waited: self.waited.saturating_sub(before.waited),
        }
    }
}

/// Returns the times of a thread; `None` if the kernel does not report them.
pub fn thread_time(thread: u32) -> Option<ThreadTime> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    Some(ThreadTime { ran: numbers.next()?.ok()?, waited: numbers.next()?.ok()? })
}

#[test]
fn this_thread_has_run() {
    let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    // The kernel updates the times at its clock ticks.
    let begin = std::time::Instant::now();
    while begin.elapsed() < std::time::Duration::from_millis(30) {
        std::hint::spin_loop();
    }
    assert!(thread_time(own).is_none_or(|time| time.ran > 0));
    assert_eq!(thread_time(u32::MAX), None);
}
