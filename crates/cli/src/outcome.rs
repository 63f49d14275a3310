//! The end of a command: its result on standard output, warnings and failures on standard error,
//! and the exit code.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// The reason why a command failed.
#[derive(Debug)]
pub struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    /// Returns a failure for a wrong command line or configuration: exit code 2.
    pub fn usage(text: impl Display) -> Failure {
        Failure { text: text.to_string(), code: 2 }
    }

    /// Returns a failure at run time: exit code 1.
    pub fn runtime(text: impl Display) -> Failure {
        Failure { text: text.to_string(), code: 1 }
    }

    /// Returns a failure for an action that succeeded only in part: exit code 3.
    pub fn partial(text: impl Display) -> Failure {
        Failure { text: text.to_string(), code: 3 }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Prints the failure to standard error and returns its exit code.
pub fn report(failure: &Failure) -> ExitCode {
    for line in failure.text.lines() {
        // Standard error may be closed; the exit code still reports the failure.
        let _ = writeln!(io::stderr(), "larder: {line}");
    }
    ExitCode::from(failure.code)
}

/// Prints a warning to standard error, for commands other than `serve`.
pub fn warn(text: &str) {
    let _ = writeln!(io::stderr(), "larder: warning: {text}");
}

/// Prints the result of a command to standard output. A reader that closes the pipe early (`head`)
/// is not an error.
pub fn answer(text: &str) -> Result<(), Failure> {
    let written = writeln!(io::stdout(), "{text}");
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::runtime(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
