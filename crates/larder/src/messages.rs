//! How a command ends: what it says on standard error and with which exit code.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    /// A wrong command line or configuration: exit code 2.
    pub fn usage(text: impl Display) -> Failure {
        Failure { text: text.to_string(), code: 2 }
    }

    /// Something that failed while running: exit code 1.
    pub fn runtime(text: impl Display) -> Failure {
        Failure { text: text.to_string(), code: 1 }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Prints the failure on standard error and returns its exit code.
pub fn report(failure: &Failure) -> ExitCode {
    for line in failure.text.lines() {
        // Standard error may be closed; the exit code tells the same.
        let _ = writeln!(io::stderr(), "larder: {line}");
    }
    ExitCode::from(failure.code)
}

/// Prints the result of a command on standard output.
pub fn answer(text: &str) -> Result<(), Failure> {
    let written = writeln!(io::stdout(), "{text}");
    written.map_err(|error| Failure::runtime(format!("cannot write to standard output: {error}")))
}
