//! What answers a request, and what that answer depends on.

use std::borrow::Cow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::coding::Coding;
use crate::reader::Reader;
use crate::request_path::{encode, parent};
use crate::version::Version;

/// What answers a request. `F` is what is known of a file: a [`File`] that is open, or its
/// [`Representation`] alone.
#[derive(Debug)]
pub struct Found<F = File> {
    /// The answer.
    pub outcome: Outcome<F>,
    /// The directories below the root whose entries led to it, few, in the order of the looks; the
    /// root is the empty path. One need not exist. What befalls a directory itself (it is moved,
    /// removed, created, its permissions are changed), or one that leads to it, counts as a change
    /// in it: the directory above is not named for that alone.
    pub directories: Vec<Vec<u8>>,
    /// Every change of the answer shows as a change in one of these directories. False when a
    /// symbolic link was crossed, or when the file has several names (it may be changed by another
    /// one).
    pub watchable: bool,
}

/// The kinds of answers.
#[derive(Debug)]
pub enum Outcome<F = File> {
    /// A regular file.
    File(F),
    /// The URL of a directory lacks its `/` (301): the right one, without the query.
    Redirect(String),
    /// A directory that may be listed, by [`crate::Root::list`].
    Listing(Listing),
    /// There is nothing (404).
    Missing,
    /// It may not be read: permissions, a symbolic link that the policy does not allow, a directory
    /// without an index (403).
    Forbidden,
    /// A device, FIFO or socket (403). It was not opened for reading.
    NotRegular,
    /// The path of the request is malformed (400).
    Malformed,
    /// The status that stands at the end of what was to be tried.
    Status(u16),
}

impl<F> Outcome<F> {
    /// Makes something else of the file, if it is one.
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

/// A regular file that is open for reading.
#[derive(Debug)]
pub struct File {
    pub(crate) descriptor: OwnedFd,
    /// Its state; `version.size` is its length.
    pub version: Version,
    /// The path below the root, of the file itself and not of its precompressed sibling.
    pub path: Vec<u8>,
    /// The value of `Content-Type`.
    pub media_type: Cow<'static, str>,
    /// The value of `Content-Encoding`: this is the precompressed sibling.
    pub coding: Option<Coding>,
    /// What is to be sent is the file compressed in this coding: by whoever sends it, for nothing
    /// lies ready.
    pub compress: Option<Coding>,
    /// Another `Accept-Encoding` may lead to another answer.
    pub varies: bool,
}

/// What is sent: the file, or what is made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Representation {
    /// The state of the file.
    pub version: Version,
    /// It lies ready in this coding, as [`File::coding`] says.
    pub coding: Option<Coding>,
    /// It is to be compressed, as [`File::compress`] says.
    pub compress: Option<Coding>,
    /// As [`File::varies`] says.
    pub varies: bool,
}

impl File {
    /// Returns what is sent of it.
    pub fn representation(&self) -> Representation {
        let File { version, coding, compress, varies, .. } = *self;
        Representation { version, coding, compress, varies }
    }

    /// Returns the path of a URL that is its path below the root.
    pub fn url_path(&self) -> String {
        format!("/{}", encode(&self.path))
    }

    /// Returns the directory that it lies in, as the path of a URL below the root that begins and
    /// ends with `/`.
    pub fn directory(&self) -> String {
        match parent(&self.path) {
            [] => "/".to_owned(),
            directory => format!("/{}/", encode(directory)),
        }
    }

    /// Begins to read it. With `forget` the kernel drops from its own cache what was read.
    pub fn reader(&self, forget: bool) -> Reader<BorrowedFd<'_>> {
        Reader::new(self.descriptor.as_fd(), self.version, forget)
    }

    /// Begins to read it, as [`Self::reader`] does.
    pub fn into_reader(self, forget: bool) -> Reader {
        Reader::new(self.descriptor, self.version, forget)
    }
}

/// A directory that may be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The path below the root.
    pub(crate) path: Vec<u8>,
    /// The path of the request, decoded, for the title.
    pub(crate) title: Vec<u8>,
}
