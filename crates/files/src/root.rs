//! The document root.
//!
//! A root is one directory, held open: if it was reached through a symbolic link, it stays the
//! directory that the link led to when it was opened. Operators who deploy by changing such a link
//! need a check of [`Root::is_current`] and a new root.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, fstat, openat, stat};
use rustix::io::Errno;

use crate::Accepted;
use crate::found::{Found, Listing, Outcome, Representation};
use crate::listing::{self, ListingPage, ListingQuery};
use crate::media_type::MediaTypes;
use crate::options::{BadOptions, Options};
use crate::pattern::Pattern;
use crate::request_path::{self, RequestPath};
use crate::resolve::{Method, Resolver};
use crate::select::{Interrupted, Search, Wanted};

/// Maximum number of attempts to complete a search while files change faster than they can be
/// opened.
const TRIES: usize = 16;

/// A request for a file.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The path of the URL as it was sent, without the query.
    pub path: &'a [u8],
    /// The codings that the client accepts.
    pub accepted: Accepted,
}

/// Why a directory cannot be used as a document root.
#[derive(Debug)]
pub enum OpenError {
    /// The directory does not exist.
    Missing(PathBuf),
    /// The path is not a directory.
    NotDirectory(PathBuf),
    /// This process may not search the directory.
    Forbidden(PathBuf),
    /// This process may open files in the directory but not list it, which the options require.
    NotListable(PathBuf),
    /// An option is invalid.
    Options(BadOptions),
    /// The kernel reported another error.
    Io(PathBuf, io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Missing(path) => write!(f, "the root {} does not exist", path.display()),
            OpenError::NotDirectory(path) => {
                write!(f, "the root {} is not a directory", path.display())
            }
            OpenError::Forbidden(path) => {
                let path = path.display();
                write!(f, "the root {path} may not be entered by this process (permissions)")
            }
            OpenError::NotListable(path) => {
                let path = path.display();
                write!(f, "the root {path} may not be listed by this process (permissions)")
            }
            OpenError::Options(why) => write!(f, "{why}"),
            OpenError::Io(path, why) => {
                write!(f, "the root {} cannot be opened: {why}", path.display())
            }
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Options(why) => Some(why),
            OpenError::Io(_, why) => Some(why),
            _ => None,
        }
    }
}

/// A directory whose files are served.
#[derive(Debug)]
pub struct Root {
    resolver: Resolver,
    options: Options,
    patterns: Vec<Pattern>,
    error_pages: BTreeMap<u16, Pattern>,
    media_types: MediaTypes,
    path: PathBuf,
}

impl Root {
    /// Opens a directory as a document root.
    ///
    /// # Errors
    ///
    /// Fails if the path is not a directory, if it may not be entered, or if the options are
    /// invalid.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Root, OpenError> {
        let path = path.as_ref();
        options.check().map_err(OpenError::Options)?;
        let error_pages = options.error_patterns().map_err(OpenError::Options)?;
        let fail = |errno: Errno| match errno {
            Errno::NOENT => OpenError::Missing(path.to_owned()),
            Errno::NOTDIR => OpenError::NotDirectory(path.to_owned()),
            Errno::ACCESS | Errno::PERM => OpenError::Forbidden(path.to_owned()),
            errno => OpenError::Io(path.to_owned(), errno.into()),
        };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, path, flags | OFlags::PATH, Mode::empty()).map_err(fail)?;
        let method = Method::of(directory.as_fd()).map_err(fail)?;
        if options.listing {
            openat(&directory, ".", flags | OFlags::RDONLY, Mode::empty()).map_err(|errno| {
                match fail(errno) {
                    OpenError::Forbidden(path) => OpenError::NotListable(path),
                    why => why,
                }
            })?;
        }
        let real = path.canonicalize().map_err(|why| OpenError::Io(path.to_owned(), why))?;
        let resolver = Resolver {
            directory,
            path: real.into_os_string().into_vec(),
            method,
            symlinks: options.symlinks,
        };
        Ok(Root {
            resolver,
            patterns: options.patterns(),
            error_pages,
            media_types: MediaTypes::new(&options.media_types, &options.default_type),
            options,
            path: path.to_owned(),
        })
    }

    /// Returns whether the path that was opened still leads to this directory. A missing path does
    /// not.
    ///
    /// # Errors
    ///
    /// Fails if the kernel cannot tell.
    pub fn is_current(&self) -> io::Result<bool> {
        let own = fstat(&self.resolver.directory)?;
        match stat(&self.path) {
            Ok(there) => Ok((there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Finds the file or other outcome for a request.
    ///
    /// # Errors
    ///
    /// Fails if the kernel fails, for lack of descriptors or because of a disk error. Nothing is
    /// known about the path then.
    pub fn find(&self, request: &Request) -> io::Result<Found> {
        match self.parse(request.path) {
            Ok(path) => self.search(&self.patterns, &path, request.accepted),
            Err(outcome) => Ok(without_look(outcome)),
        }
    }

    /// Finds the outcome for a request if that needs no disk access; returns `None` otherwise.
    /// Reading the file may still wait for a disk.
    ///
    /// # Errors
    ///
    /// Fails if the kernel fails.
    pub fn find_cached(&self, request: &Request) -> io::Result<Option<Found>> {
        let path = match self.parse(request.path) {
            Ok(path) => path,
            Err(outcome) => return Ok(Some(without_look(outcome))),
        };
        let patterns = &self.patterns;
        let wanted = Wanted { patterns, path: &path, accepted: request.accepted };
        match self.new_search(true).open(wanted) {
            Ok(found) => Ok(Some(found)),
            Err(Interrupted::NotCached | Interrupted::Outrun) => Ok(None),
            Err(Interrupted::Failed(why)) => Err(why),
        }
    }

    /// Returns the one directory whose entries most likely determine the outcome: the directory of
    /// the path. `None` for a path that leads nowhere.
    pub fn likely_directory(&self, path: &[u8]) -> Option<Vec<u8>> {
        let mut path = self.parse(path).ok()?;
        if !path.is_directory {
            let parent = request_path::parent(&path.bytes).len();
            path.bytes.truncate(parent);
        }
        Some(path.bytes)
    }

    /// Finds the version of the file that answers a request without opening the file for reading,
    /// unless it is a precompressed sibling. Permissions are checked on the way to the file only.
    /// If the file itself is not readable, its version shows that, because any change of
    /// permissions changes the version.
    ///
    /// # Errors
    ///
    /// Fails if the kernel fails.
    pub fn version_of(&self, request: &Request) -> io::Result<Found<Representation>> {
        let path = match self.parse(request.path) {
            Ok(path) => path,
            Err(outcome) => return Ok(without_look(outcome)),
        };
        let patterns = &self.patterns;
        let wanted = Wanted { patterns, path: &path, accepted: request.accepted };
        again(|| self.new_search(false).version(wanted))
    }

    /// Finds the version like [`Root::version_of`] if that needs no disk access; returns `None`
    /// otherwise.
    ///
    /// # Errors
    ///
    /// Fails if the kernel fails.
    pub fn version_of_cached(
        &self,
        request: &Request,
    ) -> io::Result<Option<Found<Representation>>> {
        let path = match self.parse(request.path) {
            Ok(path) => path,
            Err(outcome) => return Ok(Some(without_look(outcome))),
        };
        let patterns = &self.patterns;
        let wanted = Wanted { patterns, path: &path, accepted: request.accepted };
        match self.new_search(true).version(wanted) {
            Ok(found) => Ok(Some(found)),
            Err(Interrupted::NotCached | Interrupted::Outrun) => Ok(None),
            Err(Interrupted::Failed(why)) => Err(why),
        }
    }

    /// Returns whether an error page is configured for a status.
    pub fn has_error_page(&self, status: u16) -> bool {
        self.error_pages.contains_key(&status)
    }

    /// Finds the error page for a status; `None` if none is configured. Treat any outcome other
    /// than a file like no page.
    ///
    /// # Errors
    ///
    /// Fails if the kernel fails.
    pub fn error_page(&self, status: u16, accepted: Accepted) -> io::Result<Option<Found>> {
        let Some(pattern) = self.error_pages.get(&status) else { return Ok(None) };
        self.search(std::slice::from_ref(pattern), &RequestPath::root(), accepted).map(Some)
    }

    /// Returns the canonical spelling of a URL path, shared by all spellings with the same outcome;
    /// `None` for a path that leads nowhere.
    pub fn canonical_path<'p>(&self, path: &'p str) -> Option<Cow<'p, str>> {
        if request_path::is_canonical(path) {
            return Some(Cow::Borrowed(path));
        }
        let path = RequestPath::parse(path.as_bytes(), self.options.encoded_slashes).ok()?;
        Some(Cow::Owned(path.to_url(path.is_directory)))
    }

    /// Renders the listing of a directory, or the part of it that `wanted` selects.
    ///
    /// # Errors
    ///
    /// Fails if the directory is gone (`NotFound`), may not be read (`PermissionDenied`) or cannot
    /// be read.
    pub fn list(&self, listing: &Listing, wanted: &ListingQuery) -> io::Result<ListingPage> {
        listing::page(&self.resolver, self.options.hide_dotfiles, listing, wanted)
    }

    /// Returns the path below the root, or the outcome for a path that leads nowhere.
    fn parse(&self, raw: &[u8]) -> Result<RequestPath, Outcome<Infallible>> {
        let path = match RequestPath::parse(raw, self.options.encoded_slashes) {
            Ok(path) => path.strip(&self.options.strip).ok_or(Outcome::Missing)?,
            Err(why) if why.is_missing() => return Err(Outcome::Missing),
            Err(_) => return Err(Outcome::Malformed),
        };
        match path {
            path if self.options.hide_dotfiles && path.is_hidden() => Err(Outcome::Missing),
            path if path.lacks_slash() => Err(Outcome::Redirect(path.to_url(true))),
            path => Ok(path),
        }
    }

    fn search(
        &self,
        patterns: &[Pattern],
        path: &RequestPath,
        accepted: Accepted,
    ) -> io::Result<Found> {
        let wanted = Wanted { patterns, path, accepted };
        again(|| self.new_search(false).open(wanted))
    }

    fn new_search(&self, quick: bool) -> Search<'_> {
        Search::new(&self.resolver, &self.options, &self.media_types, quick)
    }
}

impl AsFd for Root {
    /// Returns the directory, which is open for looking up names only, not for reading.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.resolver.directory.as_fd()
    }
}

/// Returns a result that depends on nothing in the root.
fn without_look<F>(outcome: Outcome<Infallible>) -> Found<F> {
    let outcome = outcome.map(|none| match none {});
    Found { outcome, directories: Vec::new(), watchable: true }
}

/// Repeats a search until nothing changes during it.
fn again<F>(search: impl Fn() -> Result<Found<F>, Interrupted>) -> io::Result<Found<F>> {
    for _ in 0..TRIES {
        match search() {
            Ok(found) => return Ok(found),
            Err(Interrupted::Failed(why)) => return Err(why),
            Err(Interrupted::NotCached | Interrupted::Outrun) => {}
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "files change faster than they can be opened"))
}

#[cfg(test)]
mod tests;
