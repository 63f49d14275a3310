//! The file with the number of the process, for programs that send it signals.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process;

use nix::fcntl::OFlag;
use nix::unistd::User;

/// The open file. It is written once the process serves, so that it names the old process until a
/// new one has taken over.
pub struct PidFile {
    path: PathBuf,
    file: File,
}

impl PidFile {
    /// Opens the file, or creates it, as a file of the user that will serve. Links are refused: the
    /// user may own the folder, and must not be given another file. The error is a sentence.
    pub fn open(path: &Path, user: Option<&User>) -> Result<PidFile, String> {
        let failed = |error| format!("pid-file: {}: {error}", path.display());
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        options.custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
        let file = options.open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() || found.nlink() != 1 {
            return Err(format!("pid-file: {}: not a file of its own", path.display()));
        }
        if let Some(user) = user {
            fchown(&file, Some(user.uid.as_raw()), Some(user.gid.as_raw())).map_err(failed)?;
        }
        Ok(PidFile { path: path.to_owned(), file })
    }

    /// Writes the number of this process.
    pub fn write(&self) {
        let mut file = &self.file;
        let written = (file.set_len(0))
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| writeln!(file, "{}", process::id()));
        if let Err(error) = written {
            log::error!("pid-file: {}: {error}", self.path.display());
        }
    }

    /// Removes the file, or empties it where the user may not remove it.
    pub fn remove(&self) {
        if fs::remove_file(&self.path).is_err() {
            // Nothing else can be done about it.
            let _ = self.file.set_len(0);
        }
    }
}
