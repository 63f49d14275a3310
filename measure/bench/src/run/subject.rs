//! The program under test, as far as the kernel reports on it: processes and a device.

use std::path::PathBuf;

use crate::measure::{DeviceCounts, ProcessCounts, device_counts, family, process_counts};

/// The program under test.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The first of its processes.
    pub process: Option<u32>,
    /// The device that holds its cache.
    pub device: Option<PathBuf>,
    /// True if system calls are counted.
    pub system_calls: bool,
}

impl Subject {
    /// Returns its processes.
    pub fn processes(&self) -> Vec<u32> {
        self.process.map(family).unwrap_or_default()
    }

    /// Returns the resource usage of its processes so far; `None` if they are unknown or have
    /// ended.
    pub fn process_counts(&self) -> Option<ProcessCounts> {
        process_counts(&self.processes()).ok()
    }

    /// Returns the activity of its device so far.
    pub fn device_counts(&self) -> Option<DeviceCounts> {
        device_counts(self.device.as_ref()?).ok()
    }
}
