//! The program under test, as far as the kernel reports on it: processes and a device.

use std::path::PathBuf;

use crate::measure::{DeviceCounts, ProcessCounts, device_counts, family, process_counts};

/// The program under test.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// Its processes, without those that they have started.
    pub processes: Vec<u32>,
    /// Its devices.
    pub devices: Vec<PathBuf>,
    /// True if system calls are counted.
    pub system_calls: bool,
}

impl Subject {
    /// Returns the program of a process, if it is known.
    pub fn of(process: Option<u32>) -> Subject {
        Subject { processes: process.into_iter().collect(), ..Subject::default() }
    }

    /// Returns its processes with all that they have started.
    pub fn all_processes(&self) -> Vec<u32> {
        self.processes.iter().flat_map(|process| family(*process)).collect()
    }

    /// Returns the resource usage of its processes so far; `None` if they are unknown or have
    /// ended.
    pub fn process_counts(&self) -> Option<ProcessCounts> {
        process_counts(&self.all_processes()).ok()
    }

    /// Returns the activity of its devices so far; `None` if it has none.
    pub fn device_counts(&self) -> Option<DeviceCounts> {
        let counts = self.devices.iter().map(|device| device_counts(device).ok());
        counts.reduce(|a, b| Some(sum(&a?, &b?))).flatten()
    }
}

fn sum(a: &DeviceCounts, b: &DeviceCounts) -> DeviceCounts {
    DeviceCounts {
        reads: a.reads + b.reads,
        read_bytes: a.read_bytes + b.read_bytes,
        writes: a.writes + b.writes,
        written_bytes: a.written_bytes + b.written_bytes,
    }
}
