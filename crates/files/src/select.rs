//! Selects the file that answers a request: the order in which names are examined.
//!
//! Patterns are tried in order ([`crate::Pattern`]). A directory has index files, then its listing;
//! a file has precompressed siblings. Each lookup opens a name without touching the file and reads
//! its type from the descriptor. The directories looked up are recorded for [`Found`].
//!
//! A file that exists but may not be read ends the search: answering with another file would hide
//! the mistake.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Stat, fstat};
use rustix::io::Errno;

use crate::found::{File, Found, Listing, Outcome, Representation};
use crate::media_type::MediaTypes;
use crate::options::Options;
use crate::pattern::{Candidate, Pattern};
use crate::request_path::{self, RequestPath};
use crate::resolve::{Purpose, Resolver};
use crate::version::Version;
use crate::{Accepted, Coding};

/// Why a search has no result.
#[derive(Debug)]
pub(crate) enum Interrupted {
    /// The search needs a disk access, which is not allowed.
    NotCached,
    /// The selected file has changed: the search must restart.
    Outrun,
    Failed(io::Error),
}

/// Why a search ended without a file.
#[derive(Debug)]
enum Ended {
    /// An outcome without a file.
    Answer(Outcome<Infallible>),
    Interrupted(Interrupted),
}

/// The type of a path, as found by examining it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    File(Version),
    Directory(Version),
    /// Neither file nor directory.
    Other,
    Missing,
    Forbidden,
}

#[derive(Debug)]
struct Chosen {
    path: Vec<u8>,
    version: Version,
    /// The sibling that is sent instead, open.
    sibling: Option<File>,
    accepted: Accepted,
    /// True if there are siblings, for this client or another.
    has_siblings: bool,
}

/// The input of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// The patterns to try, in order.
    pub(crate) patterns: &'a [Pattern],
    pub(crate) path: &'a RequestPath,
    pub(crate) accepted: Accepted,
}

pub(crate) struct Search<'a> {
    resolver: &'a Resolver,
    options: &'a Options,
    media_types: &'a MediaTypes,
    /// True if the search must not wait for a disk.
    quick: bool,
    directories: Vec<Vec<u8>>,
    /// Paths that turned out to be directories.
    passed: Vec<Vec<u8>>,
    watchable: bool,
    /// The last path examined, because consecutive patterns often lead to the same path.
    last: Option<(Vec<u8>, Look)>,
}

impl<'a> Search<'a> {
    /// Creates a search that has examined nothing yet.
    pub(crate) fn new(
        resolver: &'a Resolver,
        options: &'a Options,
        media_types: &'a MediaTypes,
        quick: bool,
    ) -> Search<'a> {
        let (directories, passed) = (Vec::new(), Vec::new());
        let (watchable, last) = (true, None);
        Search { resolver, options, media_types, quick, directories, passed, watchable, last }
    }

    /// Finds the file that answers the request and opens it.
    pub(crate) fn open(mut self, wanted: Wanted) -> Result<Found, Interrupted> {
        let opened = self.first(wanted).and_then(|chosen| self.open_chosen(chosen));
        self.found(opened)
    }

    /// Finds the file that answers the request and returns the representation to send. Files
    /// without a sibling are not opened for reading.
    pub(crate) fn version(mut self, wanted: Wanted) -> Result<Found<Representation>, Interrupted> {
        let chosen = self.first(wanted);
        let chosen = chosen.map(|mut chosen| match chosen.sibling.take() {
            Some(file) => file.representation(),
            None => {
                let (compress, varies) = self.compression(&chosen, chosen.version.size);
                Representation { version: chosen.version, coding: None, compress, varies }
            }
        });
        self.found(chosen)
    }

    fn found<F>(mut self, result: Result<F, Ended>) -> Result<Found<F>, Interrupted> {
        let outcome = match result {
            Ok(file) => Outcome::File(file),
            Err(Ended::Answer(outcome)) => outcome.map(|none| match none {}),
            Err(Ended::Interrupted(interrupted)) => return Err(interrupted),
        };
        // A directory whose entries are recorded needs no record of its parent: its removal shows
        // in itself.
        for passed in std::mem::take(&mut self.passed) {
            if !self.directories.contains(&passed) {
                self.note(request_path::parent(&passed));
            }
        }
        Ok(Found { outcome, directories: self.directories, watchable: self.watchable })
    }

    /// Selects the file of the first pattern that leads to one.
    fn first(&mut self, wanted: Wanted) -> Result<Chosen, Ended> {
        let Wanted { patterns, path: request, accepted } = wanted;
        for candidate in patterns.iter().filter_map(|pattern| pattern.apply(request)) {
            let (path, is_directory, follows_request) = match candidate {
                Candidate::Status(404) => break,
                Candidate::Status(status) => return answer(Outcome::Status(status)),
                Candidate::Path { path, is_directory, follows_request } => {
                    (path, is_directory, follows_request)
                }
            };
            match (self.look(&path)?, is_directory) {
                (Look::Forbidden, _) => return answer(Outcome::Forbidden),
                (Look::File(version), false) => return self.file(path, version, accepted),
                (Look::Other, false) => return answer(Outcome::NotRegular),
                (Look::Directory(_), true) if follows_request && !request.is_directory => {
                    return answer(Outcome::Redirect(request.to_url(true)));
                }
                (Look::Directory(_), true) => return self.directory(path, wanted),
                (Look::Missing | Look::File(_) | Look::Directory(_) | Look::Other, _) => {}
            }
        }
        answer(Outcome::Missing)
    }

    /// Selects the index file of a directory.
    fn directory(&mut self, path: Vec<u8>, wanted: Wanted) -> Result<Chosen, Ended> {
        let options = self.options;
        for name in &options.index {
            let index = join(&path, name.as_bytes());
            match self.look(&index)? {
                Look::File(version) => return self.file(index, version, wanted.accepted),
                Look::Forbidden => return answer(Outcome::Forbidden),
                Look::Other => return answer(Outcome::NotRegular),
                Look::Directory(_) | Look::Missing => {}
            }
        }
        if !options.listing {
            return answer(Outcome::Forbidden);
        }
        self.note(&path);
        answer(Outcome::Listing(Listing { path, title: wanted.path.whole() }))
    }

    /// Selects between a file and its siblings.
    fn file(
        &mut self,
        path: Vec<u8>,
        version: Version,
        accepted: Accepted,
    ) -> Result<Chosen, Ended> {
        let options = self.options;
        let mut ready = Vec::new();
        for &coding in &options.precompressed {
            if matches!(self.look(&with_extension(&path, coding))?, Look::File(_)) {
                ready.push(coding);
            }
        }
        let mut sibling = None;
        for coding in accepted.iter().filter(|coding| ready.contains(coding)) {
            sibling = self.open_sibling(&path, coding)?;
            if sibling.is_some() {
                // A client must not get a compressed copy of a file that may not be read.
                self.open_file(&path)?;
                break;
            }
        }
        Ok(Chosen { path, version, sibling, accepted, has_siblings: !ready.is_empty() })
    }

    /// Returns the coding in which to compress a file without a sibling for the client, and whether
    /// the response varies.
    fn compression(&self, chosen: &Chosen, size: u64) -> (Option<Coding>, bool) {
        let compress = &self.options.compress;
        let is_compressed = !compress.codings.is_empty()
            && compress.includes(size, &self.media_types.of(&chosen.path));
        let coding = is_compressed.then(|| compress.for_client(chosen.accepted)).flatten();
        (coding, is_compressed || chosen.has_siblings)
    }

    /// Opens a sibling; `None` if it may not be read or is gone.
    fn open_sibling(&mut self, path: &[u8], coding: Coding) -> Result<Option<File>, Ended> {
        match self.open_file(&with_extension(path, coding)) {
            Ok((descriptor, version)) => Ok(Some(File {
                descriptor,
                version,
                path: path.to_vec(),
                media_type: self.media_types.of(path),
                coding: Some(coding),
                compress: None,
                varies: true,
            })),
            Err(Ended::Answer(_) | Ended::Interrupted(Interrupted::Outrun)) => Ok(None),
            Err(ended) => Err(ended),
        }
    }

    /// Opens the selected file. Everything reported about it is read from the descriptor.
    fn open_chosen(&mut self, mut chosen: Chosen) -> Result<File, Ended> {
        if let Some(file) = chosen.sibling.take() {
            return Ok(file);
        }
        let (descriptor, version) = self.open_file(&chosen.path)?;
        let (compress, varies) = self.compression(&chosen, version.size);
        let media_type = self.media_types.of(&chosen.path);
        let path = chosen.path;
        Ok(File { descriptor, version, path, media_type, coding: None, compress, varies })
    }

    /// Examines a path below the root.
    fn look(&mut self, path: &[u8]) -> Result<Look, Ended> {
        if let Some((last, look)) = &self.last
            && last == path
        {
            return Ok(*look);
        }
        let (look, _) = self.open_name(path, Purpose::Look)?;
        match look {
            Look::Directory(_) => self.passed.push(path.to_vec()),
            _ => self.note(request_path::parent(path)),
        }
        self.last = Some((path.to_vec(), look));
        Ok(look)
    }

    /// Opens a path for reading that was a file when it was examined.
    fn open_file(&mut self, path: &[u8]) -> Result<(OwnedFd, Version), Ended> {
        match self.open_name(path, Purpose::Read)? {
            (Look::File(version), Some(descriptor)) => Ok((descriptor, version)),
            (Look::Forbidden, _) => answer(Outcome::Forbidden),
            _ => Err(Ended::Interrupted(Interrupted::Outrun)),
        }
    }

    /// Opens a path and determines its type from the descriptor, if there is one. Records whether
    /// its changes can be watched.
    fn open_name(
        &mut self,
        path: &[u8],
        purpose: Purpose,
    ) -> Result<(Look, Option<OwnedFd>), Ended> {
        let opened = match self.quick {
            true => self.resolver.open_cached(path, purpose),
            false => self.resolver.open(path, purpose),
        };
        self.watchable &= !opened.crossed_link;
        let descriptor = match opened.result {
            Ok(descriptor) => descriptor,
            Err(Errno::AGAIN) if self.quick => {
                return Err(Ended::Interrupted(Interrupted::NotCached));
            }
            Err(errno) => return Ok((refusal(errno).map_err(failed)?, None)),
        };
        let stat = fstat(&descriptor).map_err(|errno| failed(errno.into()))?;
        let look = kind(&stat);
        if matches!(look, Look::File(_)) {
            self.watchable &= stat.st_nlink <= 1;
        }
        Ok((look, Some(descriptor)))
    }

    /// Records a directory whose entries were looked up.
    fn note(&mut self, directory: &[u8]) {
        if self.directories.iter().all(|known| known != directory) {
            self.directories.push(directory.to_vec());
        }
    }
}

fn answer<T>(outcome: Outcome<Infallible>) -> Result<T, Ended> {
    Err(Ended::Answer(outcome))
}

fn failed(why: io::Error) -> Ended {
    Ended::Interrupted(Interrupted::Failed(why))
}

/// Returns the type of a file from its `stat` data.
pub(crate) fn kind(stat: &Stat) -> Look {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Look::File(Version::of(stat)),
        FileType::Directory => Look::Directory(Version::of(stat)),
        _ => Look::Other,
    }
}

/// Returns the type of a path that could not be opened, derived from the error.
///
/// # Errors
///
/// Returns errors that say nothing about the path: a failing disk, no descriptor left.
pub(crate) fn refusal(errno: Errno) -> io::Result<Look> {
    match errno {
        // Some file systems do not accept every name and report that by one of the last two errors.
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => {
            Ok(Look::Missing)
        }
        Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::XDEV => Ok(Look::Forbidden),
        // The path was opened for reading and is a socket or a device.
        Errno::NXIO | Errno::NODEV => Ok(Look::Other),
        errno => Err(errno.into()),
    }
}

/// Joins a directory below the root and a name.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
    [directory, slash, name].concat()
}

fn with_extension(path: &[u8], coding: Coding) -> Vec<u8> {
    [path, coding.extension().as_bytes()].concat()
}
