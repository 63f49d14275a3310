//! The errors of an exchange in HTTP/1.1.

use std::{error, fmt, io};

use http1::{HeadError, Malformed};

/// The error of an exchange in HTTP/1.1.
#[derive(Debug)]
pub enum Http1Error {
    /// What came is not HTTP, or could be read in two ways.
    Malformed(&'static str),
    /// The head is longer than is taken.
    HeadTooLarge,
    /// Bytes came on a connection in use before, to which the request had not gone yet.
    Premature,
    /// The connection ended before the answer did.
    Closed,
    /// The system's error, or TLS's.
    Io(io::Error),
    /// The body of the request broke off.
    RequestBody,
}

impl From<Malformed> for Http1Error {
    fn from(malformed: Malformed) -> Http1Error {
        Http1Error::Malformed(malformed.0)
    }
}

impl From<HeadError> for Http1Error {
    fn from(error: HeadError) -> Http1Error {
        match error {
            HeadError::TooLarge => Http1Error::HeadTooLarge,
            HeadError::Malformed(malformed) => malformed.into(),
        }
    }
}

impl Http1Error {
    /// Returns whether the connection ended, which may have been idle for too long.
    pub(crate) fn is_end(&self) -> bool {
        match self {
            Http1Error::Closed => true,
            Http1Error::Io(error) => matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::ConnectionAborted
                    // A TLS peer that ends without a close_notify.
                    | io::ErrorKind::UnexpectedEof
            ),
            _ => false,
        }
    }

    /// Returns whether what came may be bytes behind an earlier answer on the connection.
    pub(crate) fn may_be_overrun(&self) -> bool {
        self.is_bad_answer() || matches!(self, Http1Error::Premature)
    }

    /// Returns whether what came is not HTTP as it is taken here.
    pub(crate) fn is_bad_answer(&self) -> bool {
        matches!(self, Http1Error::Malformed(_) | Http1Error::HeadTooLarge)
    }
}

impl fmt::Display for Http1Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Http1Error::Malformed(what) => what,
            Http1Error::HeadTooLarge => "the head of its answer is larger than upstream.head-size",
            Http1Error::Premature => "bytes came before the request had reached it",
            Http1Error::Closed => "it closed the connection before its answer was whole",
            Http1Error::Io(error) => return error.fmt(f),
            Http1Error::RequestBody => "the request's body broke off",
        })
    }
}

impl error::Error for Http1Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Http1Error::Io(error) => Some(error),
            _ => None,
        }
    }
}
