//! An origin that is asked only for what a directory has no file for, or not at all.
//!
//! A response from the directory is validated at every use unless a rule gives it a lifetime: that
//! costs a look at the file.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{Method, Request, Response, StatusCode, Uri, header};
use upstream::connection::origin_body::OriginBody;
use upstream::connection::request_body::OutBody;
use upstream::failure::error::Failure;
use upstream::send::origin::{Connector, Origin, Sending, VERSION, Voucher};
use upstream::send::outgoing::Outgoing;
use upstream::settings::endpoint::Endpoint;

use crate::message::template::Values;
use crate::rules::request_rules::{TriedName, TryRoot};

/// The directory, and the origin for everything else; `None` if the directory is to answer.
pub(crate) struct TryRootOrigin {
    pub files: Arc<dyn Origin>,
    pub to: Option<Arc<dyn Origin>>,
    pub tries: Tries,
}

/// Marks a response of the directory.
#[derive(Clone, Copy)]
pub(crate) struct OfFile;

/// The paths to ask the directory for.
#[derive(Default)]
pub(crate) struct Tries {
    /// Paths with the client's query, and whether they are of directories. `None`: the path of the
    /// request, as a file.
    paths: Option<Vec<(Uri, bool)>>,
    /// Path and query that the client names, in the form of the key.
    named: String,
}

impl Tries {
    /// Makes the paths that a rule names for a request of the client for `named`.
    pub fn new(root: &TryRoot, named: &str, values: &impl Values) -> Tries {
        if root.names.is_empty() {
            return Tries::default();
        }
        let (path, query) = named.split_once('?').unwrap_or((named, ""));
        let uri = |name: &TriedName| {
            let tried = name.of(path, values)?;
            let uri = if query.is_empty() { tried } else { format!("{tried}?{query}") };
            Some((uri.parse().ok()?, name.is_directory()))
        };
        let paths = Some(root.names.iter().filter_map(uri).collect());
        Tries { paths, named: named.to_owned() }
    }

    /// Returns the redirect to a directory under the path that the client named.
    fn redirect(&self) -> Option<HeaderValue> {
        let (path, query) = self.named.split_once('?').unwrap_or((&self.named, ""));
        let mark = if query.is_empty() { "" } else { "?" };
        // Two slashes at the beginning would name a host, and browsers read a backslash as one.
        let path = path.trim_start_matches(['/', '\\']);
        HeaderValue::try_from(format!("/{path}/{mark}{query}")).ok()
    }
}

impl TryRootOrigin {
    async fn ask(
        &self,
        with: Connector<'_>,
        outgoing: Outgoing<'_>,
    ) -> Result<Response<OriginBody>, Failure> {
        let is_read = |method: &Method| matches!(*method, Method::GET | Method::HEAD);
        let request = outgoing.request.as_deref();
        let is_plain = request.is_some_and(|request| is_read(request.method()));
        let again = outgoing.again.filter(|_| is_plain && outgoing.upgrade.is_none());
        let Some(again) = again else {
            return match &self.to {
                Some(to) => to.ask(with, outgoing).await,
                None => Ok(lacking(self.files.clone().send(with, outgoing).await?)),
            };
        };
        let as_named = [(None, false)];
        let of_rule = |paths: &Vec<(Uri, bool)>| -> Vec<(Option<Uri>, bool)> {
            paths.iter().map(|(uri, is_directory)| (Some(uri.clone()), *is_directory)).collect()
        };
        let tries = self.tries.paths.as_ref().map_or(as_named.to_vec(), of_rule);
        let mut last = None;
        for (uri, is_directory) in tries {
            // A date of one of the two would confirm a stored response of the other. A HEAD has
            // only the conditions of the client, and the cache does not evaluate them.
            let of_file = || {
                let request = for_path(again(), uri.as_ref());
                let confirms = request.method() != Method::HEAD;
                without_date(request, |has_tag| confirms && !has_tag)
            };
            let found = self.files.clone().send(with, outgoing.with_request(&of_file)).await?;
            if is_of_file(&found) || found.status().is_server_error() {
                return Ok(validated(found));
            }
            if is_directory && found.status().is_redirection() {
                return Ok(self.redirected(found));
            }
            last = Some((found, is_directory));
        }
        match (&self.to, last) {
            (Some(to), _) => {
                let of_origin = || without_date(again(), |has_tag| has_tag);
                to.ask(with, outgoing.with_request(&of_origin)).await
            }
            // A directory without an index file may not be listed.
            (None, Some((found, true))) if found.status() == StatusCode::FORBIDDEN => {
                Ok(validated(found))
            }
            (None, Some((found, _))) => Ok(lacking(found)),
            (None, None) => Ok(missing()),
        }
    }

    /// Sets the target of a redirect to a directory: the path of the client, with a slash.
    fn redirected(&self, mut found: Response<OriginBody>) -> Response<OriginBody> {
        let to = self.tries.redirect();
        to.into_iter().for_each(|to| _ = found.headers_mut().insert(header::LOCATION, to));
        validated(found)
    }
}

/// Returns whether a response of the directory is about a file: a directory has a redirect.
fn is_of_file(found: &Response<OriginBody>) -> bool {
    [200, 206, 304, 412, 416].contains(&found.status().as_u16())
}

/// Makes a request one for another path.
fn for_path(mut request: Box<Request<OutBody>>, uri: Option<&Uri>) -> Box<Request<OutBody>> {
    uri.into_iter().for_each(|uri| request.uri_mut().clone_from(uri));
    request
}

/// Makes a file's response one of an origin that does not vouch.
fn validated(mut found: Response<OriginBody>) -> Response<OriginBody> {
    found.headers_mut().remove(VERSION);
    let validated = HeaderValue::from_static("max-age=0");
    found.headers_mut().insert(header::CACHE_CONTROL, validated);
    found.extensions_mut().insert(OfFile);
    found
}

/// Makes a redirect to a directory, or a refusal to list it, a 404. Leaves other errors unchanged.
fn lacking(mut found: Response<OriginBody>) -> Response<OriginBody> {
    if found.status().is_redirection() || found.status() == StatusCode::FORBIDDEN {
        found = missing();
    }
    found.headers_mut().remove(VERSION);
    found
}

fn missing() -> Response<OriginBody> {
    let mut response = Response::new(OriginBody::whole(Bytes::new()));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

/// Removes `If-Modified-Since` from a request. `is_meant` decides by whether it has a tag too: the
/// responses of the directory have one.
fn without_date(
    mut request: Box<Request<OutBody>>,
    is_meant: impl Fn(bool) -> bool,
) -> Box<Request<OutBody>> {
    let fields = request.headers_mut();
    if is_meant(fields.contains_key(header::IF_NONE_MATCH)) {
        fields.remove(header::IF_MODIFIED_SINCE);
    }
    request
}

impl Origin for TryRootOrigin {
    fn send<'a>(self: Arc<Self>, with: Connector<'a>, request: Outgoing<'a>) -> Sending<'a> {
        Box::pin(async move { self.ask(with, request).await })
    }

    fn endpoint(&self, number: usize) -> Option<&Endpoint> {
        self.to.as_ref()?.endpoint(number)
    }

    fn voucher(&self) -> Option<&dyn Voucher> {
        self.to.as_ref()?.voucher()
    }
}

impl fmt::Display for TryRootOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to.as_ref().unwrap_or(&self.files).fmt(f)
    }
}

impl fmt::Debug for TryRootOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TryRootOrigin({:?}, {:?})", self.files, self.to)
    }
}
