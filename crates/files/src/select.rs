//! Which file answers: the order in which names are looked at.
//!
//! Patterns come one after the other ([`crate::Pattern`]); a directory has its index files, then
//! its listing; beside a file lie its precompressed siblings. Each look opens a name without
//! touching the file and reads its kind off the descriptor. What was looked at is noted for
//! [`Found`].
//!
//! A file that is there and may not be read ends the search: another one in its place would hide
//! the mistake.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Stat, fstat};
use rustix::io::Errno;

use crate::coding::{Accepted, Coding};
use crate::found::{File, Found, Listing, Outcome, Representation};
use crate::media_type::MediaTypes;
use crate::options::Options;
use crate::pattern::{Candidate, Pattern};
use crate::request_path::{self, RequestPath};
use crate::resolve::{Purpose, Resolver};
use crate::version::Version;

/// Why a search has no answer.
#[derive(Debug)]
pub(crate) enum Interrupted {
    /// The disk would have to be asked, and may not be.
    NotCached,
    /// What was chosen is no longer what it was: the search must begin anew.
    Outrun,
    /// The kernel failed.
    Failed(io::Error),
}

/// What ends a search that has found no file.
#[derive(Debug)]
enum Ended {
    /// An answer without a file.
    Answer(Outcome<Infallible>),
    Interrupted(Interrupted),
}

/// What a look at a path shows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    File(Version),
    Directory(Version),
    /// Neither file nor directory.
    Other,
    Missing,
    Forbidden,
}

/// The file that was chosen.
#[derive(Debug)]
struct Chosen {
    path: Vec<u8>,
    version: Version,
    /// The sibling that is sent in its place, open.
    sibling: Option<File>,
    accepted: Accepted,
    /// Siblings lie ready, for this client or another.
    has_siblings: bool,
}

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// What is tried, in order.
    pub(crate) patterns: &'a [Pattern],
    pub(crate) path: &'a RequestPath,
    pub(crate) accepted: Accepted,
}

/// One search.
pub(crate) struct Search<'a> {
    resolver: &'a Resolver,
    options: &'a Options,
    media_types: &'a MediaTypes,
    /// Never wait for a disk.
    quick: bool,
    directories: Vec<Vec<u8>>,
    /// Paths that turned out to be directories.
    passed: Vec<Vec<u8>>,
    watchable: bool,
    /// The last look: patterns often lead to the same path.
    last: Option<(Vec<u8>, Look)>,
}

impl<'a> Search<'a> {
    /// Makes a search that has looked at nothing.
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

    /// Finds the file that answers and opens it.
    pub(crate) fn open(mut self, wanted: Wanted) -> Result<Found, Interrupted> {
        let opened = self.first(wanted).and_then(|chosen| self.open_chosen(chosen));
        self.found(opened)
    }

    /// Finds the file that answers and returns what is sent of it. Files that have no sibling are
    /// not opened for reading.
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
        // Whether a directory is still there shows in itself, if its entries count.
        for passed in std::mem::take(&mut self.passed) {
            if !self.directories.contains(&passed) {
                self.note(request_path::parent(&passed));
            }
        }
        Ok(Found { outcome, directories: self.directories, watchable: self.watchable })
    }

    /// Chooses the file of the first pattern that leads to one.
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

    /// Chooses the index file of a directory.
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

    /// Chooses between a file and its siblings.
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
                // Who may not read the file may not read it compressed.
                self.open_file(&path)?;
                break;
            }
        }
        Ok(Chosen { path, version, sibling, accepted, has_siblings: !ready.is_empty() })
    }

    /// Returns the coding that a file without a sibling for the client is to be compressed in, and
    /// whether the answer varies.
    fn compression(&self, chosen: &Chosen, size: u64) -> (Option<Coding>, bool) {
        let compress = &self.options.compress;
        let is_compressed = !compress.codings.is_empty()
            && compress.includes(size, &self.media_types.of(&chosen.path));
        let coding = is_compressed.then(|| compress.for_client(chosen.accepted)).flatten();
        (coding, is_compressed || chosen.has_siblings)
    }

    /// Opens a sibling; `None` when it may not be read or is gone.
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

    /// Opens what was chosen. What is said of it is read off the descriptor.
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

    /// Looks at a path below the root.
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

    /// Opens a file for reading that was one when it was looked at.
    fn open_file(&mut self, path: &[u8]) -> Result<(OwnedFd, Version), Ended> {
        match self.open_name(path, Purpose::Read)? {
            (Look::File(version), Some(descriptor)) => Ok((descriptor, version)),
            (Look::Forbidden, _) => answer(Outcome::Forbidden),
            _ => Err(Ended::Interrupted(Interrupted::Outrun)),
        }
    }

    /// Opens a path and asks the descriptor, if there is one, what it is of. Notes whether its
    /// changes show.
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

    /// Notes a directory whose entries were looked at.
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

/// Returns what a file is.
pub(crate) fn kind(stat: &Stat) -> Look {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Look::File(Version::of(stat)),
        FileType::Directory => Look::Directory(Version::of(stat)),
        _ => Look::Other,
    }
}

/// Returns what it means that a path cannot be opened.
///
/// # Errors
///
/// When it says nothing about the path: a disk that fails, no descriptor left.
pub(crate) fn refusal(errno: Errno) -> io::Result<Look> {
    match errno {
        // Some file systems take not every name, and say so in one of the last two ways.
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => {
            Ok(Look::Missing)
        }
        Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::XDEV => Ok(Look::Forbidden),
        // Reading was wanted, and it is a socket or device.
        Errno::NXIO | Errno::NODEV => Ok(Look::Other),
        errno => Err(errno.into()),
    }
}

/// Returns the path of a name in a directory below the root.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
    [directory, slash, name].concat()
}

fn with_extension(path: &[u8], coding: Coding) -> Vec<u8> {
    [path, coding.extension().as_bytes()].concat()
}
