//! Detection of a shortage of file descriptors.

use std::io;

/// Returns whether an error means a lack of descriptors or memory: EMFILE, ENFILE, ENOBUFS, ENOMEM.
pub fn lacks_resource(error: &io::Error) -> bool {
    const NAMES: [i32; 4] = [24, 23, 105, 12];
    error.raw_os_error().is_some_and(|code| NAMES.contains(&code))
}
