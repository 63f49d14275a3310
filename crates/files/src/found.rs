//! The result of a lookup and what it depends on.

use std::borrow::Cow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::Coding;
use crate::reader::Reader;
use crate::request_path::{encode, parent};
use crate::version::Version;

/// The result of a lookup. `F` describes a file: an open [`File`], or only its [`Representation`].
#[derive(Debug)]
pub struct Found<F = File> {
    /// The kind of response, with the file if there is one.
    pub outcome: Outcome<F>,
    /// The directories, as paths below the root, whose entries determined the outcome, in the order
    /// of the lookups; usually few. The root is the empty path. A directory in the list need not
    /// exist. An event on a directory itself (moved, removed, created, permissions changed) or on
    /// one above it counts as a change in that directory, so its parent is not listed for that
    /// reason alone.
    pub directories: Vec<Vec<u8>>,
    /// True if every change of the outcome shows as a change in one of `directories`. False if a
    /// symbolic link was crossed, or if the file has several names and can be changed through
    /// another one.
    pub watchable: bool,
}

/// The kind of a response.
#[derive(Debug)]
pub enum Outcome<F = File> {
    /// A regular file.
    File(F),
    /// The URL of a directory lacks its final `/` (301). Holds the correct path, without the query.
    Redirect(String),
    /// A directory whose listing [`crate::Root::list`] can produce.
    Listing(Listing),
    /// Nothing there (404).
    Missing,
    /// Reading is not allowed: by permissions, by the policy for symbolic links, or because a
    /// directory has no index (403).
    Forbidden,
    /// A device, FIFO or socket (403). It was not opened for reading.
    NotRegular,
    /// The path of the request is malformed (400).
    Malformed,
    /// The status at the end of the list of patterns.
    Status(u16),
}

impl<F> Outcome<F> {
    /// Converts the file, if the outcome is one.
    pub(crate) fn map<G>(self, change: impl FnOnce(F) -> G) -> Outcome<G> {
        match self {
            Outcome::File(file) => Outcome::File(change(file)),
            Outcome::Redirect(location) => Outcome::Redirect(location),
            Outcome::Listing(listing) => Outcome::Listing(listing),
            Outcome::Missing => Outcome::Missing,
            Outcome::Forbidden => Outcome::Forbidden,
            Outcome::NotRegular => Outcome::NotRegular,
            Outcome::Malformed => Outcome::Malformed,
            Outcome::Status(status) => Outcome::Status(status),
        }
    }
}

/// A regular file, open for reading.
#[derive(Debug)]
pub struct File {
    pub(crate) descriptor: OwnedFd,
    /// The file's state; `version.size` is its length in bytes.
    pub version: Version,
    /// The path below the root of the file itself, not of its precompressed sibling.
    pub path: Vec<u8>,
    /// The value of `Content-Type`.
    pub media_type: Cow<'static, str>,
    /// The value of `Content-Encoding`, if the open file is the precompressed sibling.
    pub coding: Option<Coding>,
    /// The coding in which the sender must compress the file, because no sibling exists.
    pub compress: Option<Coding>,
    /// True if another `Accept-Encoding` may lead to another response.
    pub varies: bool,
}

/// The representation to send: the file, or a compressed form of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Representation {
    /// The state of the file.
    pub version: Version,
    /// The coding of the precompressed sibling; see [`File::coding`].
    pub coding: Option<Coding>,
    /// The coding in which to compress; see [`File::compress`].
    pub compress: Option<Coding>,
    /// True if the response varies; see [`File::varies`].
    pub varies: bool,
}

impl File {
    /// Returns the representation to send for this file.
    pub fn representation(&self) -> Representation {
        let File { version, coding, compress, varies, .. } = *self;
        Representation { version, coding, compress, varies }
    }

    /// Returns the URL path that equals the file's path below the root.
    pub fn url_path(&self) -> String {
        format!("/{}", encode(&self.path))
    }

    /// Returns the directory of the file as a URL path below the root that begins and ends with
    /// `/`.
    pub fn directory(&self) -> String {
        match parent(&self.path) {
            [] => "/".to_owned(),
            directory => format!("/{}/", encode(directory)),
        }
    }

    /// Creates a reader for the file. With `forget` the kernel drops the bytes read from its page
    /// cache.
    pub fn reader(&self, forget: bool) -> Reader<BorrowedFd<'_>> {
        Reader::new(self.descriptor.as_fd(), self.version, forget)
    }

    /// Creates a reader that owns the file, like [`Self::reader`].
    pub fn into_reader(self, forget: bool) -> Reader {
        Reader::new(self.descriptor, self.version, forget)
    }
}

/// A directory that can be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The path below the root.
    pub(crate) path: Vec<u8>,
    /// The decoded path of the request, for the title.
    pub(crate) title: Vec<u8>,
}
