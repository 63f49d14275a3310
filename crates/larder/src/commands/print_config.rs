//! `larder print-config`: prints an example of a configuration file.

use cli::outcome::{Failure, answer};

use crate::config::example_file::example;

/// Prints it.
pub fn run() -> Result<(), Failure> {
    answer(example().trim_end())
}
