//! What is tested, as far as the kernel tells of it: processes, and a device.

use std::path::PathBuf;

use crate::measure::{DeviceCounts, ProcessCounts, device_counts, family, process_counts};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The first of the processes.
    pub process: Option<u32>,
    /// The device that it keeps its cache on.
    pub device: Option<PathBuf>,
    /// Whether system calls are counted.
    pub system_calls: bool,
}

impl Subject {
    /// Returns its processes.
    pub fn processes(&self) -> Vec<u32> {
        self.process.map(family).unwrap_or_default()
    }

    /// Returns what its processes have used so far; `None` when they are not known, or gone.
    pub fn process_counts(&self) -> Option<ProcessCounts> {
        process_counts(&self.processes()).ok()
    }

    /// Returns what its device has done so far.
    pub fn device_counts(&self) -> Option<DeviceCounts> {
        device_counts(self.device.as_ref()?).ok()
    }
}
