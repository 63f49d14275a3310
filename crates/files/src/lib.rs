//! The document root of a static web server: which file answers a request, and reading it.
//!
//! [`Root::find`] takes the path of a URL and says what answers it: a file that is open, a redirect
//! to a directory, a listing, nothing. There is no HTTP server in here and nothing is kept: the
//! functions are system calls, may wait for a disk, and are called from threads that may.
//!
//! It promises:
//!
//! * Nothing outside of the root is opened but what a symbolic link leads to under the policy
//!   [`Symlinks::Anywhere`]. No check can be outrun: what is said of a file is read off the
//!   descriptor that its bytes come from.
//! * What is not a regular file is never opened for reading, so no FIFO and no device blocks.
//! * Bytes of two versions of a file are not passed off as one ([`Reader`]; its module says what no
//!   reader can notice).
//!
//! From the top: [`Root`] (`root`), the order in which names are tried (`select`), how one name is
//! opened (`resolve`), what was found (`found`), its bytes (`reader`) and its state (`version`).
//! [`watch`] tells when what was found may have changed.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod coding;
mod found;
mod listing;
mod media_type;
mod options;
mod pattern;
mod reader;
mod request_path;
mod resolve;
mod root;
mod select;
mod version;
pub mod watch;

pub use coding::{Accepted, Coding};
pub use found::{File, Found, Listing, Outcome, Representation};
pub use listing::{LISTED_MAX, ListingPage, ListingQuery, READ_MAX};
pub use options::{BadOptions, Compress, Options, Symlinks};
pub use pattern::{BadPattern, Pattern};
pub use reader::{ReadError, Reader};
pub use request_path::{BadPath, SEGMENTS_MAX, canonical_path};
pub use root::{OpenError, Request, Root};
pub use version::{Timestamp, Version};
