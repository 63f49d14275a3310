//! Chooses the server of a request whose rule lets the request name it.

use crate::options::Options;
use crate::origin::target::Target;
use crate::request::request_values::RequestValues;
use crate::rules::request_rules::{NamedServer, Rule};

/// The server for a request.
pub(crate) enum ServerChoice {
    /// A server of the origin that the rule or the site has.
    Configured,
    /// The server that the request names.
    Named(NamedServer),
    /// No server: the request names no permitted one.
    Refused,
}

impl ServerChoice {
    /// Returns the choice for the request to `target`, the one at the client's own site. Variables
    /// have the values of the URL in the key, so that the key determines the server.
    pub fn of(
        rule: Option<&Rule>,
        values: &RequestValues<'_>,
        target: &Target<'_>,
        options: &Options,
    ) -> ServerChoice {
        let Some((rule, actions)) = rule.and_then(|rule| Some((rule, rule.actions.as_ref()?)))
        else {
            return ServerChoice::Configured;
        };
        let Some(template) = &actions.server else {
            return match actions.allows_host(target.host) {
                true => ServerChoice::Configured,
                false => ServerChoice::Refused,
            };
        };
        let Some(url) = target.url(&options.upstream) else { return ServerChoice::Refused };
        let url = rule.query.apply(&url);
        let values = RequestValues { normal: Some(url.path_and_query()), ..*values };
        let place = (target.scheme, target.place().1);
        let named = template.server(&values, place);
        match named.filter(|server| actions.allows_host(&server.host)) {
            Some(server) => ServerChoice::Named(server),
            None => ServerChoice::Refused,
        }
    }
}
