//! The group of a response: the files that are likely to be requested together with it.
//!
//! A page has its own group, except that the index page of a directory belongs to the group of the
//! directory. A file that only one page refers to belongs to the group of the page, any other file
//! to that of its directory. To find references, pages are read in the background after they have
//! been served ([`page`]), and the result is kept for a while ([`crate::origin::references`]).
//!
//! Guarantees: no response waits for this.

use std::sync::Arc;

use crate::{Accepted, File, Outcome, Request, canonical_path};
use bytes::Bytes;
use http::StatusCode;
use http::header::{self, HeaderMap};
use semantics::Url;
use upstream::send::origin::Group;

use crate::origin::body::{FileBody, WHOLE_MAX};
use crate::origin::page;
use crate::origin::references::References;
use crate::origin::voucher::Known;

/// The host of a page that was requested without one.
const NOWHERE: &str = "localhost";

pub(crate) struct Grouping {
    references: Arc<References>,
    /// The names of index files, which represent their directory.
    index: Vec<String>,
}

/// The group of a file when it is found.
pub(crate) struct Grouped {
    pub group: Group,
    is_page: bool,
}

/// A response with a file, and the request for it.
pub(crate) struct Answered<'a> {
    pub path: &'a str,
    pub request: &'a HeaderMap,
    pub status: StatusCode,
    pub fields: &'a HeaderMap,
    pub body: &'a FileBody,
}

impl Grouping {
    /// Starts without references.
    pub fn new(index: Vec<String>) -> Grouping {
        Grouping { references: Arc::new(References::new()), index }
    }

    /// Returns the group of a file that was found at a URL's path.
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

    /// Reads the served page for references in the background, if it was sent whole and has not
    /// been read recently.
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

    /// Returns a function that finds the text of a page; the response may have been encoded.
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
