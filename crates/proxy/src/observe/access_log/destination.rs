//! Destinations of the access log: a file, standard output or a syslog server.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::syslog::{Receiver, Syslog};

/// Destination of the lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// File, opened again on each [`AccessLog::reopen`](super::AccessLog::reopen).
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// Syslog server.
    Syslog(Receiver),
}

impl Destination {
    /// Parses `-`, `syslog:unix:PATH`, `syslog:HOST:PORT` or the path of a file. The error is a
    /// sentence.
    pub fn parse(path: &Path) -> Result<Destination, String> {
        let syslog = path.to_str().and_then(|text| text.strip_prefix("syslog:"));
        match syslog {
            Some(receiver) => receiver.parse().map(Destination::Syslog),
            None if path.as_os_str() == "-" => Ok(Destination::Stdout),
            None => Ok(Destination::File(path.to_owned())),
        }
    }

    /// Opens the destination. A syslog server need not be there.
    pub(super) fn open(&self) -> io::Result<Box<dyn Write + Send>> {
        match self {
            Destination::Stdout => Ok(Box::new(io::stdout())),
            Destination::File(path) => open_file(path).map(|file| Box::new(file) as _),
            Destination::Syslog(receiver) => {
                Syslog::open(receiver).map(|syslog| Box::new(syslog) as _)
            }
        }
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    // The open of a FIFO would wait for a reader.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    let opened = options.append(true).create(true).mode(0o640).custom_flags(flags).open(path);
    let file = opened.map_err(|error| {
        let why = match Errno::from_io_error(&error) {
            Some(Errno::NXIO) => "no program reads this FIFO".to_owned(),
            _ => error.to_string(),
        };
        let path = path.display();
        io::Error::new(error.kind(), format!("the access log {path} cannot be opened: {why}"))
    })?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}
