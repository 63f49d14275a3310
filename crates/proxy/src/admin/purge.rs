//! What a purge asks for, and what came of it.

use http::{StatusCode, Uri};
use serde_json::{Value, json};

/// A URL to be purged: absolute, `http` or `https`, without user information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    url: Uri,
}

/// What came of a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purged {
    /// Something was removed: the fronts (`forward`, or the name of a site) under which it was
    /// stored.
    Removed(Vec<String>),
    /// Nothing was stored; running fetches begun before are not stored either.
    Nothing,
    /// The URL cannot be one of this cache; says why.
    NotOurs(String),
    /// What was stored is gone from memory, but the device could not make that durable; says why.
    NotDurable(String),
}

impl Purge {
    /// The URL.
    pub fn url(&self) -> &Uri {
        &self.url
    }

    /// Reads the request's query or body: `url=URL` or `{"url": "URL"}`, once.
    pub(super) fn read(
        query: Option<&str>,
        kind: Option<&str>,
        body: &[u8],
    ) -> Result<Purge, String> {
        let mut urls = form(query.unwrap_or_default().as_bytes())?;
        if !body.is_empty() {
            let kind = kind.unwrap_or_default();
            let kind = kind.split(';').next().unwrap_or_default().trim();
            if kind.eq_ignore_ascii_case("application/json") {
                urls.push(json_url(body)?);
            } else if kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
                urls.extend(form(body)?);
            } else {
                return Err(format!(
                    "a body must be application/x-www-form-urlencoded (url=URL) or \
                     application/json ({{\"url\": \"URL\"}}), not {kind:?}"
                ));
            }
        }
        match <[String; 1]>::try_from(urls) {
            Ok([url]) => Purge::of(&url),
            Err(urls) if urls.is_empty() => Err("no URL: send POST /purge with url=URL, e.g. \
                curl --data-urlencode url=http://example.com/ http://127.0.0.1:3129/purge"
                .to_owned()),
            Err(_) => Err("more than one URL: send one request for each".to_owned()),
        }
    }

    fn of(text: &str) -> Result<Purge, String> {
        let wrong = |why: &str| {
            Err(format!("{text:?} is not a URL to purge: {why}; expected http://host/path"))
        };
        let url: Uri = match text.parse() {
            Ok(url) => url,
            Err(error) => return wrong(&error.to_string()),
        };
        match (url.scheme_str(), url.authority()) {
            (Some("http" | "https"), Some(authority)) if authority.host().is_empty() => {
                wrong("it has no host")
            }
            (Some("http" | "https"), Some(authority)) if authority.as_str().contains('@') => {
                wrong("it has user information")
            }
            (Some("http" | "https"), Some(_)) => Ok(Purge { url }),
            (Some(_), _) => wrong("its scheme is neither http nor https"),
            (None, _) => wrong("it is not absolute"),
        }
    }
}

impl Purged {
    /// Status and body of the answer.
    pub(super) fn answer(&self, purge: &Purge) -> (StatusCode, Value) {
        let url = purge.url.to_string();
        match self {
            Purged::Removed(fronts) => (StatusCode::OK, json!({"url": url, "removed": fronts})),
            Purged::Nothing => {
                (StatusCode::NOT_FOUND, json!({"url": url, "error": "nothing was stored"}))
            }
            Purged::NotOurs(why) => (StatusCode::BAD_REQUEST, json!({"url": url, "error": why})),
            Purged::NotDurable(why) => {
                let why = format!("removed from memory, but not durably: {why}; send it again");
                (StatusCode::SERVICE_UNAVAILABLE, json!({"url": url, "error": why}))
            }
        }
    }
}

/// The values of `url` in a form or a query; another name is an error.
fn form(text: &[u8]) -> Result<Vec<String>, String> {
    form_urlencoded::parse(text)
        .map(|(name, value)| match name.as_ref() {
            "url" => Ok(value.into_owned()),
            _ => Err(format!(
                "unknown parameter {name:?}; expected url=URL, with & and % in the URL escaped"
            )),
        })
        .collect()
}

fn json_url(body: &[u8]) -> Result<String, String> {
    let expected = "expected {\"url\": \"URL\"}";
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| format!("the body is not JSON: {error}; {expected}"))?;
    match value.as_object() {
        Some(object) if object.len() == 1 => match object.get("url") {
            Some(Value::String(url)) => Ok(url.clone()),
            _ => Err(expected.to_owned()),
        },
        _ => Err(expected.to_owned()),
    }
}
