//! The document root of a static web server: selects the file that answers a request and reads it.
//!
//! [`Root::find`] takes the path of a URL and returns what answers it: an open file, a redirect to
//! a directory, a listing, or nothing. The crate contains no HTTP server and caches nothing. Except
//! in [`origin`], functions are system calls that may wait for a disk; call them on threads that
//! may block. [`origin`] is a document root in the place of an origin server.
//!
//! Guarantees:
//!
//! * Nothing outside the root is opened, except through symbolic links under the policy
//!   [`Symlinks::Anywhere`]. Checks cannot be raced: everything reported about a file is read from
//!   the same descriptor as its bytes.
//! * Only regular files are opened for reading, so no FIFO or device can block.
//! * Bytes of two versions of a file are never passed off as one ([`Reader`]; its module lists the
//!   changes that no reader can detect).
//!
//! Modules from the top: [`Root`] (`root`), the order in which names are tried (`select`), opening
//! one name (`resolve`), the result (`found`), its bytes (`reader`) and its state (`version`).
//! [`watch`] reports when an earlier result may have changed.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod found;
mod listing;
mod media_type;
mod options;
pub mod origin;
mod pattern;
mod reader;
mod request_path;
mod resolve;
mod root;
mod select;
mod version;
pub mod watch;

pub use compression::{Accepted, Coding, Compress};
pub use found::{File, Found, Listing, Outcome, Representation};
pub use listing::{LISTED_MAX, ListingPage, ListingQuery, READ_MAX};
pub use media_type::usual_type_of;
pub use options::{BadOptions, Options, Symlinks};
pub use pattern::{BadPattern, Pattern};
pub use reader::{ReadError, Reader};
pub use request_path::{BadPath, SEGMENTS_MAX, canonical_path};
pub use root::{OpenError, Request, Root};
pub use version::{Timestamp, Version};
