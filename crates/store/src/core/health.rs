//! The health of a device.

/// Use of a device, and the state of its writes.
#[derive(Default)]
pub(super) struct Health {
    /// True once the device was given up, or shut down: every lookup misses, every insertion is
    /// refused.
    offline: bool,
    /// True if a write takes longer than it may, so that callers do not wait for the background.
    writes_stall: bool,
}

impl Health {
    #[inline]
    pub(super) fn is_online(&self) -> bool {
        !self.offline
    }

    /// Takes the device offline for good. Returns true the first time.
    pub(super) fn go_offline(&mut self) -> bool {
        !std::mem::replace(&mut self.offline, true)
    }

    pub(super) fn writes_stall(&self) -> bool {
        self.writes_stall
    }

    pub(super) fn set_writes_stall(&mut self, stall: bool) {
        self.writes_stall = stall;
    }

    /// Returns whether tasks must not wait for the device any longer.
    pub(super) fn ends_waits(&self) -> bool {
        self.offline || self.writes_stall
    }
}
