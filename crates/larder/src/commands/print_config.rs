//! `larder print-config`: prints an example of a configuration file.

use crate::config::example_file::example;
use crate::process::logging::{Failure, answer};

/// Prints it.
pub fn run() -> Result<(), Failure> {
    answer(example().trim_end())
}
