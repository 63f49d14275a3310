//! Errors of an HTTP/1.1 exchange.

use std::{error, fmt, io};

use http1::{HeadError, Malformed};

/// Error of an HTTP/1.1 exchange.
#[derive(Debug)]
pub enum Http1Error {
    /// The response is not valid HTTP, or ambiguous.
    Malformed(&'static str),
    /// The response head exceeds the size limit.
    HeadTooLarge,
    /// Bytes arrived on a reused connection before the request had reached the origin.
    Premature,
    /// The connection ended before the response was complete.
    Closed,
    /// I/O or TLS error.
    Io(io::Error),
    /// The request body broke off.
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
            HeadError::TooLarge | HeadError::TargetTooLong => Http1Error::HeadTooLarge,
            HeadError::Malformed(malformed) => malformed.into(),
        }
    }
}

impl Http1Error {
    /// Returns whether the connection ended, possibly because it was idle for too long.
    pub(crate) fn is_end(&self) -> bool {
        match self {
            Http1Error::Closed => true,
            Http1Error::Io(error) => matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::ConnectionAborted
                    // A TLS peer that closes without close_notify.
                    | io::ErrorKind::UnexpectedEof
            ),
            _ => false,
        }
    }

    /// Returns whether the bytes read may follow an earlier response on the connection.
    pub(crate) fn may_be_overrun(&self) -> bool {
        self.is_bad_answer() || matches!(self, Http1Error::Premature)
    }

    /// Returns whether the bytes read are not an acceptable HTTP response.
    pub(crate) fn is_bad_answer(&self) -> bool {
        matches!(self, Http1Error::Malformed(_) | Http1Error::HeadTooLarge)
    }
}

impl fmt::Display for Http1Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Http1Error::Malformed(what) => what,
            Http1Error::HeadTooLarge => "its response head is larger than upstream.head-size",
            Http1Error::Premature => "it sent bytes before the request had reached it",
            Http1Error::Closed => "it closed the connection before its response was complete",
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
