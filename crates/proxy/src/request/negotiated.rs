//! The coding in which a client gets a response that this proxy compresses.

use compression::Coding;
use http::Method;
use http::header::{ACCEPT_ENCODING, HeaderValue};
use http1::RequestHead;
use semantics::{EditFields as _, coding, compressed};

use crate::options::Options;
use crate::origin::site::Site;
use crate::rules::request_rules::Rule;

/// The result of negotiating a coding with a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Negotiated {
    /// True if the response may depend on the client's `Accept-Encoding`.
    pub is_on: bool,
    /// The coding that the client prefers, if it prefers one to none.
    pub coding: Option<Coding>,
}

impl Negotiated {
    /// Chooses the coding for a request, and asks the origin for the body without a coding: all
    /// forms are made from that one.
    pub fn of(
        head: &mut RequestHead,
        site: &Site,
        options: &Options,
        rule: Option<&Rule>,
    ) -> Negotiated {
        let codings = options.codings(rule);
        let is_read = matches!(head.method, Method::GET | Method::HEAD);
        if codings.is_empty() || !is_read || site.voucher().is_some() {
            return Negotiated::default();
        }
        let best = coding::best(&head.fields, codings.iter().map(|coding| coding.name()));
        let coding = best.and_then(|at| codings.get(at)).copied();
        head.fields.set_line(&ACCEPT_ENCODING, &HeaderValue::from_static("identity"));
        if coding.is_some() {
            compressed::drop_range_by_date(&mut head.fields);
        }
        Negotiated { is_on: true, coding }
    }
}
