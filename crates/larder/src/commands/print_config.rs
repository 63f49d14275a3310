//! `larder print-config`: prints an example configuration file.

use cli::outcome::{Failure, answer};

use crate::config::example_file::example;

pub fn run() -> Result<(), Failure> {
    answer(example().trim_end())
}
