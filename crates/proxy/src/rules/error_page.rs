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
/// for its class. A class leaves out 401 and 407, which ask the client to log in.
pub(super) fn page_for(
    pages: &[ErrorPage],
    status: StatusCode,
    outcome: Outcome,
) -> Option<&ErrorPage> {
    let is_own = matches!(outcome, Outcome::Error(_) | Outcome::Denied(_) | Outcome::Invalid(_));
    let fitting = || {
        let is_login = matches!(status.as_u16(), 401 | 407);
        let fits = move |page: &&ErrorPage| {
            let is_named = !is_login || matches!(page.of, StatusPattern::Status(_));
            page.of.matches(status) && is_named && (is_own || !page.own_only)
        };
        pages.iter().rev().filter(fits)
    };
    let exact = fitting().find(|page| matches!(page.of, StatusPattern::Status(_)));
    exact.or_else(|| fitting().next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::outcome::Error;

    #[test]
    fn the_most_special_page_that_came_last_is_found() {
        let page = |of: &str, own_only, kind: &'static str| ErrorPage {
            of: of.parse().unwrap_or_else(|why| panic!("{why}")),
            own_only,
            status: None,
            kind: HeaderValue::from_static(kind),
            body: ReplyBody::File("".into()),
        };
        let pages = [
            page("404", false, "a"),
            page("404", false, "b"),
            page("4xx", false, "c"),
            page("5xx", true, "d"),
        ];
        let found = |status, outcome| {
            let status = StatusCode::from_u16(status).unwrap_or_default();
            page_for(&pages, status, outcome).and_then(|page| page.kind.to_str().ok())
        };
        for (status, theirs, own) in [
            (404, Some("b"), Some("b")),
            (410, Some("c"), Some("c")),
            (401, None, None),
            (502, None, Some("d")),
            (200, None, None),
        ] {
            assert_eq!(found(status, Outcome::Miss), theirs, "{status}");
            assert_eq!(found(status, Outcome::Error(Error::Connect)), own, "{status}");
        }
    }
}
