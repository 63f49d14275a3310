//! Measurements: times and counts of requests, resource usage of the program under test and of its
//! device, and the cost of the generator itself.

mod device;
mod figures;
mod file_calls;
mod latencies;
mod listener;
mod process;
mod system_calls;
mod tally;
mod threads;
mod timer;

pub use device::{DeviceCounts, device_counts};
pub use figures::{DeviceFigures, GeneratorFigures, PhaseFigures, ProcessFigures, Second, Times};
pub use file_calls::{FileCallCounts, FileCalls};
pub use latencies::Latencies;
pub use listener::process_at;
pub use process::{ProcessCounts, family, process_counts};
pub use system_calls::SystemCalls;
pub use tally::{Answered, Outcome, Tally};
pub use threads::{ThreadTime, thread_time};
pub use timer::{TimerAccuracy, measure_timer};
