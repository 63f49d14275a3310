//! An origin whose redirects are followed, so that the final response is that of the first URL.
//!
//! Guarantees: a redirect is followed only by GET and HEAD without a body, to the origin's own
//! servers or to a permitted host, and never to an address of a private network that no access rule
//! names. A redirect that is not followed goes to the client. Another host gets no field by which
//! the client or the proxy identifies itself. The final response is no more shareable than the
//! redirects that led to it, and not one that rules deny or keep from the cache.
//!
//! Requests carry no conditions: a validator of one resource could match one of another, to which
//! the URL redirects by now. `Range` is removed for the same reason.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, Uri, header};
use net::address::bare;
use semantics::{Url, validators};
use upstream::connection::origin_body::OriginBody;
use upstream::connection::request_body::OutBody;
use upstream::failure::error::{Failure, Reason};
use upstream::send::client::Upstream;
use upstream::send::origin::{Connector, Origin, Sending, Voucher};
use upstream::send::outgoing::Outgoing;
use upstream::settings::endpoint::{At, Endpoint};

use crate::message::scheme::Scheme;
use crate::rules::access::{Access, Query};
use crate::rules::aliases::Aliases;
use crate::rules::request_rules::Follow;

/// Fields that another host gets.
const FOR_OTHERS: [HeaderName; 8] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::ACCEPT_LANGUAGE,
    header::USER_AGENT,
    header::VIA,
    header::TE,
    header::CONNECTION,
    HeaderName::from_static("cdn-loop"),
];

/// Field by which origins tell nginx a lifetime, of which 0 forbids storing.
const ACCEL_EXPIRES: HeaderName = HeaderName::from_static("x-accel-expires");

/// The origin, and what decides where its redirects may lead.
pub(crate) struct FollowedOrigin {
    pub to: Arc<dyn Origin>,
    pub follow: Follow,
    /// Scheme of the URL that the client requests.
    pub scheme: Scheme,
    /// Hosts of the site.
    pub hosts: Vec<String>,
    pub access: Arc<Access>,
    pub client: IpAddr,
    /// True if the request may identify its client.
    pub is_personal: bool,
    pub may_ask: MayAsk,
    /// Fields of a response that overrule `Cache-Control` here.
    pub targets: Vec<HeaderName>,
}

/// Decides whether a client may ask the origin for a URL with these fields through the cache.
pub(crate) type MayAsk = Box<dyn Fn(&Url, &HeaderMap) -> bool + Send + Sync>;

/// One request on the way to the final response.
struct Hop {
    method: Method,
    url: Url,
    headers: HeaderMap,
    /// True if the origin's own servers get it.
    is_own: bool,
}

/// Statements of the redirects about the final response.
#[derive(Default)]
struct Carried {
    vary: Vec<HeaderValue>,
    cookies: Vec<HeaderValue>,
    /// True if the response must not be stored.
    is_unstorable: bool,
    /// True if the response may be for this client only.
    is_private: bool,
    /// True if each use of the response must be confirmed.
    is_uncertain: bool,
}

impl FollowedOrigin {
    /// Sends a request, and follows redirects.
    async fn follow(
        &self,
        with: Connector<'_>,
        mut outgoing: Outgoing<'_>,
    ) -> Result<Response<OriginBody>, Failure> {
        let again = outgoing.again;
        let first = outgoing.request.take().or_else(|| again.map(|again| again()));
        let hop = first.as_deref().and_then(|first| self.first_hop(first));
        outgoing.request = first;
        let (Some(again), Some(mut hop)) = (again.filter(|_| outgoing.upgrade.is_none()), hop)
        else {
            return self.to.ask(with, outgoing).await;
        };
        let unconditional = || {
            let mut request = again();
            validators::remove_conditions(request.headers_mut());
            request
        };
        let mut response = self.to.ask(with, outgoing.with_request(&unconditional)).await?;
        let (mut carried, mut visited) = (Carried::default(), vec![hop.url.clone()]);
        for _ in 0..self.follow.most {
            let next = self.next_hop(&hop, &response).filter(|next| !visited.contains(&next.url));
            let Some(next) = next else { break };
            carried.note(&hop, response.headers(), self);
            // A short text, after which the connection can be used again.
            response.body_mut().take_whole();
            drop(response);
            hop = next;
            visited.push(hop.url.clone());
            response = Box::pin(self.send_hop(with, &hop, &outgoing)).await?;
        }
        if visited.len() > 1 {
            carried.add_to(&hop, response.headers_mut(), &self.targets);
        }
        Ok(response)
    }

    /// Returns the request as a hop; `None` if its redirects are not followed.
    fn first_hop(&self, first: &Request<OutBody>) -> Option<Hop> {
        let (method, headers) = (first.method(), first.headers());
        let is_for_origin = headers.contains_key(header::IF_MATCH)
            || headers.contains_key(header::IF_UNMODIFIED_SINCE);
        if is_for_origin || !matches!(*method, Method::GET | Method::HEAD) {
            return None;
        }
        let host = headers.get(header::HOST)?.to_str().ok()?;
        let path = first.uri().path_and_query()?.as_str();
        let url = Url::new(self.scheme.name(), host, path).ok()?;
        let mut headers = headers.clone();
        validators::remove_conditions(&mut headers);
        Some(Hop { method: method.clone(), url, headers, is_own: true })
    }

    /// Returns the request that a redirect leads to; `None` if the response is no redirect, or must
    /// not be followed.
    fn next_hop(&self, hop: &Hop, response: &Response<OriginBody>) -> Option<Hop> {
        if ![301, 302, 303, 307, 308].contains(&response.status().as_u16()) {
            return None;
        }
        let mut lines = response.headers().get_all(header::LOCATION).iter();
        let (Some(location), None) = (lines.next(), lines.next()) else { return None };
        let url = hop.url.resolve(location.to_str().ok()?)?;
        url.sent().parse::<Uri>().ok()?;
        let is_own = self.is_own(hop, &url);
        if !is_own && !self.permits(hop, &url) {
            return None;
        }
        let mut headers = match host(&url) == host(&hop.url) {
            true => hop.headers.clone(),
            false => for_others(&hop.headers),
        };
        headers.insert(header::HOST, HeaderValue::from_str(url.authority()).ok()?);
        if is_own && !(self.may_ask)(&url, &headers) {
            return None;
        }
        Some(Hop { method: hop.method.clone(), url, headers, is_own })
    }

    /// Returns whether the origin's own servers serve a URL.
    fn is_own(&self, hop: &Hop, url: &Url) -> bool {
        let is_same = || hop.is_own && url.authority() == hop.url.authority();
        let is_server = |server: &Endpoint| {
            server.scheme() == url.scheme() && server.authority().to_string() == url.authority()
        };
        let is_of_site = || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(url.authority()));
        is_same() || is_of_site() || self.servers().any(is_server)
    }

    fn servers(&self) -> impl Iterator<Item = &Endpoint> {
        (0..).map_while(|number| self.to.endpoint(number))
    }

    /// Returns whether a redirect may lead to a host that is not the origin's own, as far as its
    /// address does not decide: a permitted host, the port of its scheme or of one of the origin's
    /// servers, and not from https to http.
    fn permits(&self, hop: &Hop, url: &Url) -> bool {
        let (host, port) = place(url);
        let is_port_of = |server: &Endpoint| matches!(server.at, At::Tcp(_, own) if own == port);
        self.follow.hosts.iter().any(|pattern| pattern.matches(host))
            && (port == default_port(url) || self.servers().any(is_port_of))
            && (hop.url.scheme() == "http" || url.scheme() == "https")
    }

    async fn send_hop(
        &self,
        with: Connector<'_>,
        hop: &Hop,
        outgoing: &Outgoing<'_>,
    ) -> Result<Response<OriginBody>, Failure> {
        let make = || hop.request(with.upstream);
        if hop.is_own {
            return self.to.ask(with, outgoing.with_request(&make)).await;
        }
        let (host, port) = place(&hop.url);
        let plain = Endpoint::plain(host, port);
        let server = match hop.url.scheme() {
            "https" => {
                Endpoint { tls: Some(with.limits.tls.clone()), http2: with.limits.http2, ..plain }
            }
            _ => plain,
        };
        let query = Query { client: self.client, method: &hop.method, host, port };
        let check = |address: SocketAddr| self.access.at_named(&query, address).is_ok();
        let server: Arc<dyn Origin> = Arc::new(server);
        let others = Outgoing { pinned: None, ..outgoing.with_request(&make) };
        let sent = server.ask(Connector { check: &check, ..with }, others).await;
        sent.map_err(|failure| {
            let why = match failure {
                Failure::Failed(_, why) => why,
                Failure::Denied => "its address is private, or an access rule denies it".to_owned(),
                Failure::Request(..) => return failure,
            };
            // The origin itself responded.
            let why = format!("it redirects to {}, which failed: {why}", hop.url.authority());
            with.upstream.bad_response(&self.to, &why);
            Failure::Failed(Reason::BadAnswer, why)
        })
    }
}

impl Hop {
    fn request(&self, upstream: &Upstream) -> Box<Request<OutBody>> {
        let mut request = upstream.request();
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.url.sent().parse().unwrap_or(Uri::from_static("/"));
        *request.headers_mut() = self.headers.clone();
        request
    }
}

impl Carried {
    /// Records the fields of a redirect.
    fn note(&mut self, hop: &Hop, fields: &HeaderMap, origin: &FollowedOrigin) {
        let says = |directive: &str| {
            let names = [&[header::CACHE_CONTROL][..], &origin.targets].concat();
            let mut lines = names.iter().flat_map(|name| fields.get_all(name));
            lines.any(|line| {
                let parts = line.as_bytes().split(|byte| *byte == b',');
                let name = |part: &[u8]| {
                    let name = part.split(|byte| *byte == b'=').next().unwrap_or_default();
                    name.trim_ascii().to_ascii_lowercase()
                };
                parts.into_iter().any(|part| name(part) == directive.as_bytes())
            })
        };
        let is_shared = says("public") || says("s-maxage");
        let is_zero = || fields.get(ACCEL_EXPIRES).is_some_and(|at| at == "0");
        self.is_unstorable |= says("no-store") || is_zero();
        self.is_uncertain |= says("no-cache");
        self.is_private |= says("private") || (origin.is_personal && !is_shared);
        self.vary.extend(fields.get_all(header::VARY).iter().cloned());
        if hop.is_own {
            self.cookies.extend(fields.get_all(header::SET_COOKIE).iter().cloned());
        }
    }

    /// Adds what the redirects say to the fields of the final response, that to `hop`.
    fn add_to(self, hop: &Hop, fields: &mut HeaderMap, targets: &[HeaderName]) {
        if !hop.is_own {
            // They are for another host.
            fields.remove(header::SET_COOKIE);
        }
        self.vary.into_iter().for_each(|line| _ = fields.append(header::VARY, line));
        self.cookies.into_iter().for_each(|line| _ = fields.append(header::SET_COOKIE, line));
        let directives = [
            (self.is_unstorable, "no-store"),
            (self.is_private, "private"),
            (self.is_uncertain, "no-cache"),
        ];
        for (_, directive) in directives.into_iter().filter(|(is_said, _)| *is_said) {
            targets.iter().for_each(|name| _ = fields.remove(name));
            fields.append(header::CACHE_CONTROL, HeaderValue::from_static(directive));
        }
        // The client knows only the first URL.
        let location = fields.get(header::LOCATION).and_then(|location| location.to_str().ok());
        let absolute = location.and_then(|location| hop.url.resolve(location));
        if let Some(Ok(absolute)) = absolute.map(|url| HeaderValue::from_str(url.as_str())) {
            fields.insert(header::LOCATION, absolute);
        }
    }
}

fn for_others(fields: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for name in &FOR_OTHERS {
        fields.get_all(name).iter().for_each(|line| _ = kept.append(name, line.clone()));
    }
    kept
}

/// Returns the host of a URL, an IPv6 address without brackets, and its port.
fn place(url: &Url) -> (&str, u16) {
    let (host, port) = Aliases::split(url.authority());
    (bare(host), port.unwrap_or(default_port(url)))
}

fn host(url: &Url) -> &str {
    place(url).0
}

fn default_port(url: &Url) -> u16 {
    if url.scheme() == "https" { 443 } else { 80 }
}

impl Origin for FollowedOrigin {
    fn send<'a>(self: Arc<Self>, with: Connector<'a>, request: Outgoing<'a>) -> Sending<'a> {
        Box::pin(async move { self.follow(with, request).await })
    }

    fn endpoint(&self, number: usize) -> Option<&Endpoint> {
        self.to.endpoint(number)
    }

    fn voucher(&self) -> Option<&dyn Voucher> {
        self.to.voucher()
    }
}

impl fmt::Display for FollowedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to.fmt(f)
    }
}

impl fmt::Debug for FollowedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FollowedOrigin({:?})", self.to)
    }
}
