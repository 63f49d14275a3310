//! The background task: whether it runs, and how it is woken.

use std::task::Waker;

/// The background task: whether it runs, and how to wake it.
#[derive(Default)]
pub(crate) struct Background {
    /// The waker of the idle background.
    waker: Option<Waker>,
    /// True if anything changed since it was last given a task.
    woken: bool,
    runs: bool,
}

impl Background {
    /// Records that the background asks for its next task, and so knows of all changes.
    pub(super) fn begin_task(&mut self) {
        self.woken = false;
    }

    /// Wakes the background, because there may be a task for it.
    pub(crate) fn wake(&mut self) {
        self.woken = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Registers `waker` to wake the background. Returns false when something changed since it was
    /// last given a task: it must not idle.
    pub(crate) fn idle(&mut self, waker: &Waker) -> bool {
        if self.woken {
            return false;
        }
        self.waker = Some(waker.clone());
        true
    }

    pub(crate) fn start(&mut self) {
        self.runs = true;
    }

    /// Records that the background has ended.
    pub(super) fn stop(&mut self) {
        self.runs = false;
    }

    pub(super) fn runs(&self) -> bool {
        self.runs
    }
}
