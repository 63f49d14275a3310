//! Files of a package, and archives of them that depend on nothing else.

use std::collections::BTreeSet;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// A file, or a directory if it has no contents.
#[derive(Clone)]
pub struct File {
    /// The path, without a leading slash.
    pub path: String,
    pub mode: u32,
    /// User and group that own it.
    pub owner: u32,
    pub bytes: Option<Vec<u8>>,
}

impl File {
    /// Returns a file of root.
    pub fn new(path: impl Into<String>, mode: u32, bytes: impl Into<Vec<u8>>) -> File {
        File { path: path.into(), mode, owner: 0, bytes: Some(bytes.into()) }
    }

    /// Returns a directory.
    pub fn directory(path: impl Into<String>, mode: u32, owner: u32) -> File {
        File { path: path.into(), mode, owner, bytes: None }
    }
}

/// Returns a tar archive: `prefix` before each path, missing directories added, in order of names.
pub fn tar(files: &[File], prefix: &str, time: u64) -> Result<Vec<u8>, String> {
    let mut all = files.to_vec();
    let given: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let mut parents = BTreeSet::new();
    for file in files {
        let slashes = file.path.match_indices('/').map(|(end, _)| &file.path[..end]);
        parents.extend(slashes.filter(|parent| !given.contains(parent)));
    }
    all.extend(parents.into_iter().map(|parent| File::directory(parent, 0o755, 0)));
    all.sort_by(|a, b| a.path.cmp(&b.path));
    let mut builder = tar::Builder::new(Vec::new());
    for file in &all {
        let mut header = tar::Header::new_gnu();
        header.set_mode(file.mode);
        header.set_uid(file.owner.into());
        header.set_gid(file.owner.into());
        header.set_mtime(time);
        let bytes = file.bytes.as_deref().unwrap_or_default();
        header.set_size(bytes.len() as u64);
        let slash = if file.bytes.is_none() && !file.path.is_empty() { "/" } else { "" };
        header.set_entry_type(match file.bytes {
            Some(_) => tar::EntryType::Regular,
            None => tar::EntryType::Directory,
        });
        let path = format!("{prefix}{}{slash}", file.path);
        // `append_data` would drop the `./` that packages of Debian begin their paths with.
        set_path(&mut header, &path)?;
        header.set_cksum();
        builder.append(&header, bytes).map_err(|error| format!("tar: {path}: {error}"))?;
    }
    builder.into_inner().map_err(|error| format!("tar: {error}"))
}

fn set_path(header: &mut tar::Header, path: &str) -> Result<(), String> {
    let name = &mut header.as_old_mut().name;
    let Some(space) = name.get_mut(..path.len()) else {
        return Err(format!("tar: {path}: more than 100 bytes"));
    };
    space.copy_from_slice(path.as_bytes());
    Ok(())
}

/// Returns `bytes` compressed, without name and time.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder
        .write_all(bytes)
        .and_then(|()| encoder.finish())
        .map_err(|error| format!("gzip: {error}"))
}

/// Returns the SHA-256 in hex.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
