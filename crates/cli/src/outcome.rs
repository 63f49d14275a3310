//! The end of a command: its result on standard output, warnings and failures on standard error,
//! and the exit code.

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
    /// Returns the failure of a wrong command line or configuration: exit code 2.
    pub fn usage(text: impl Display) -> Failure {
        Failure { text: text.to_string(), code: 2 }
    }

    /// Returns the failure of something while running: exit code 1.
    pub fn runtime(text: impl Display) -> Failure {
        Failure { text: text.to_string(), code: 1 }
    }

    /// Returns the failure of something that was done, but not everywhere: exit code 3.
    pub fn partial(text: impl Display) -> Failure {
        Failure { text: text.to_string(), code: 3 }
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

/// Prints a warning of a command that does not serve.
pub fn warn(text: &str) {
    let _ = writeln!(io::stderr(), "larder: warning: {text}");
}

/// Prints the result of a command on standard output. A reader that has seen enough (`head`) is no
/// error.
pub fn answer(text: &str) -> Result<(), Failure> {
    let written = writeln!(io::stdout(), "{text}");
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::runtime(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
