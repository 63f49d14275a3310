//! Pages that clients get in place of errors. What is stored, and what other nodes get, is the
//! error itself.

use http::StatusCode;
use http::header::HeaderValue;
use semantics::StatusPattern;

use crate::observe::outcome::Outcome;
use crate::rules::request_rules::ReplyBody;

/// A page for errors with a status.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorPage {
    /// The status or class of the errors.
    pub of: StatusPattern,
    /// True if the page is for errors of this proxy only, not for those of origins.
    pub own_only: bool,
    /// The status of the page; `None`: that of the error.
    pub status: Option<StatusCode>,
    /// The media type.
    pub kind: HeaderValue,
    /// The contents.
    pub body: ReplyBody,
}

/// Returns the page for a response; of several the last one, but one for a single status before one
/// for its class.
pub(super) fn page_for(
    pages: &[ErrorPage],
    status: StatusCode,
    outcome: Outcome,
) -> Option<&ErrorPage> {
    let is_own = matches!(outcome, Outcome::Error(_) | Outcome::Denied(_) | Outcome::Invalid(_));
    let fitting = || {
        let fits = |page: &&ErrorPage| page.of.matches(status) && (is_own || !page.own_only);
        pages.iter().rev().filter(fits)
    };
    let exact = fitting().find(|page| matches!(page.of, StatusPattern::Status(_)));
    exact.or_else(|| fitting().next())
}
