//! The group of an answer: what its file is likely to be asked for together with.
//!
//! A page is of a group of its own, or, as the index of a directory, of that of the directory; a
//! file that only one page refers to is of the page's, any other one of its directory's. Pages are
//! read for that when they have been answered with ([`crate::page`]), in the background, and what
//! they say is remembered for a while ([`crate::references`]).
//!
//! It promises: no answer waits for it.

use std::sync::Arc;

use bytes::Bytes;
use files::{Accepted, File, Outcome, Request, canonical_path};
use http::StatusCode;
use http::header::{self, HeaderMap};
use semantics::Url;
use upstream::send::origin::Group;

use crate::body::{FileBody, WHOLE_MAX};
use crate::page;
use crate::references::References;
use crate::voucher::Known;

/// The host of a page that was asked for without one.
const NOWHERE: &str = "localhost";

/// See the module.
pub(crate) struct Grouping {
    references: Arc<References>,
    /// The names of files that stand for their directory.
    index: Vec<String>,
}

/// What is known of a file when it is found.
pub(crate) struct Grouped {
    pub group: Group,
    is_page: bool,
}

/// An answer with a file, and what was asked for.
pub(crate) struct Answered<'a> {
    pub path: &'a str,
    pub request: &'a HeaderMap,
    pub status: StatusCode,
    pub fields: &'a HeaderMap,
    pub body: &'a FileBody,
}

impl Grouping {
    /// Begins without knowing any page.
    pub fn new(index: Vec<String>) -> Grouping {
        Grouping { references: Arc::new(References::new()), index }
    }

    /// Returns the group of a file that was found under the path of a URL.
    pub fn of(&self, file: &File, path: &str) -> Grouped {
        let is_page = file.media_type.starts_with("text/html");
        let directory = || Group(file.directory().into());
        let group = match is_page {
            true if self.is_index(file) => directory(),
            true => Group(file.url_path().into()),
            false => {
                let path = canonical_path(path.as_bytes()).ok();
                path.and_then(|path| self.references.group(&path)).unwrap_or_else(directory)
            }
        };
        Grouped { group, is_page }
    }

    fn is_index(&self, file: &File) -> bool {
        let name = file.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        self.index.iter().any(|index| index.as_bytes() == name)
    }

    /// Reads the page that is the whole answer, if it is one that was not read lately, beside all
    /// else.
    pub fn read(&self, of: &Grouped, answered: &Answered<'_>, known: &Known) {
        let tag = answered.fields.get(header::ETAG).map_or(&b""[..], |tag| tag.as_bytes());
        if !of.is_page || answered.status != StatusCode::OK || answered.body.whole().is_none() {
            return;
        }
        let Some(url) = answered.url() else { return };
        let Some(place) = self.references.begin(&of.group, tag) else { return };
        let (references, find) = (self.references.clone(), self.text(answered, known));
        tokio::task::spawn_blocking(move || {
            let html = find().unwrap_or_default();
            references.remember(place, &page::references(&html, &url));
        });
    }

    /// Returns what finds the text of a page: it may have been answered with in a coding.
    fn text(
        &self,
        answered: &Answered<'_>,
        known: &Known,
    ) -> impl FnOnce() -> Option<Bytes> + use<> {
        let is_coded = answered.fields.contains_key(header::CONTENT_ENCODING);
        let bytes = answered.body.whole().filter(|_| !is_coded).cloned();
        let (root, path) = (known.root.clone(), answered.path.to_owned());
        move || {
            if bytes.is_some() {
                return bytes;
            }
            let accepted = Accepted::default();
            let found = root.find(&Request { path: path.as_bytes(), accepted }).ok()?;
            let Outcome::File(file) = found.outcome else { return None };
            let is_read = file.coding.is_none() && file.version.size <= WHOLE_MAX;
            is_read.then(|| file.reader(false).read_rest())?.ok().map(Bytes::from)
        }
    }
}

impl Answered<'_> {
    fn url(&self) -> Option<Url> {
        let host = self.request.get(header::HOST).and_then(|host| host.to_str().ok());
        Url::new("http", host.unwrap_or(NOWHERE), self.path).ok()
    }
}
