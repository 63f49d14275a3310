//! Scripts: pages of text that state the requests of a client, the responses of the origin, and the
//! responses that the client must get ([`format`]), played to proxies over any network
//! ([`play`]).

pub mod explanation;
pub mod format;
pub mod origin;
pub mod play;
pub mod world;

use std::path::Path;

use format::Test;

/// Returns every test of every script (`*.http`) in a directory, in the order of the files' names.
///
/// # Panics
///
/// A script cannot be read or parsed.
pub fn load(directory: &Path) -> Vec<Test> {
    let entries = std::fs::read_dir(directory).expect("the directory of the scripts");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "http"));
    paths.sort();
    let parse = |path: &std::path::PathBuf| {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).expect("a script");
        format::parse(&name, &text).unwrap_or_else(|problem| panic!("{problem}"))
    };
    paths.iter().flat_map(parse).collect()
}
