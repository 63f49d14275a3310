//! Reports of tests that lack a prerequisite, in a line that the continuous integration repeats.

use std::io::Write;

/// Writes `SKIPPED: reason`, bypassing the capture of the test harness.
pub fn skipped(reason: &str) {
    // The harness captures the print macros when a test passes, but not the stream itself.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}
