//! Edits of responses for clients. They are applied when a response is sent, to stored responses as
//! to all others, and are not stored. Responses to other nodes of a fleet are not edited.

use std::sync::Arc;

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::message::header_edits::{Edits, FilledFields, set_filled};
use crate::message::template::{Stage, Values};
use crate::observe::cache_status::CACHE_STATUS;
use crate::observe::outcome::Outcome;
use crate::rules::error_page::{ErrorPage, page_for};

/// Fields of this proxy that clients may be denied, in addition to those that any rule may remove.
pub const HIDEABLE: [HeaderName; 3] = [header::VIA, header::AGE, CACHE_STATUS];

/// Edits of responses for clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientEdits {
    edits: Edits,
    /// Some of [`HIDEABLE`].
    hide: Vec<HeaderName>,
    /// Pages in place of errors.
    pages: Vec<ErrorPage>,
}

impl ClientEdits {
    /// Parses edits, as [`Edits::at`] does. `hide` names some of [`HIDEABLE`].
    pub fn new(
        set: &[String],
        remove: &[String],
        hide: &[HeaderName],
    ) -> Result<ClientEdits, String> {
        let edits = Edits::at(Stage::Response, set, remove)?;
        let hide = HIDEABLE.into_iter().filter(|name| hide.contains(name)).collect();
        Ok(ClientEdits { edits, hide, pages: Vec::new() })
    }

    /// Returns whether there are no edits.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.hide.is_empty() && self.pages.is_empty()
    }

    /// Returns these edits with pages in place of errors.
    pub fn with_pages(self, pages: Vec<ErrorPage>) -> ClientEdits {
        ClientEdits { pages, ..self }
    }

    /// Returns whether there are pages in place of errors.
    pub(crate) fn has_pages(&self) -> bool {
        !self.pages.is_empty()
    }

    /// Returns the page that clients get in place of a response.
    pub(crate) fn error_page(&self, status: StatusCode, outcome: Outcome) -> Option<&ErrorPage> {
        page_for(&self.pages, status, outcome)
    }

    /// Returns edits that do the same as these and then `later`.
    pub fn then(&self, later: &ClientEdits) -> ClientEdits {
        let is_hidden = |name: &HeaderName| self.hide.contains(name) || later.hide.contains(name);
        let hide = HIDEABLE.into_iter().filter(is_hidden).collect();
        let pages = [&self.pages[..], &later.pages].concat();
        ClientEdits { edits: self.edits.then(&later.edits), hide, pages }
    }

    /// Returns the edits of one response, with the values of their variables.
    pub(crate) fn fill<V: Values>(
        self: &Arc<ClientEdits>,
        values: impl FnOnce() -> V,
    ) -> FilledEdits {
        let filled = match self.edits.has_variables() {
            true => self.edits.variable_fields(&values()),
            false => FilledFields::new(),
        };
        FilledEdits { of: self.clone(), filled }
    }

    /// Removes the hidden fields.
    pub(crate) fn hide(&self, fields: &mut HeaderMap) {
        self.hide.iter().for_each(|name| _ = fields.remove(name));
    }

    fn hides(&self, name: &[u8]) -> bool {
        self.hide.iter().any(|hidden| name.eq_ignore_ascii_case(hidden.as_str().as_bytes()))
    }
}

/// Edits of one response.
pub(crate) struct FilledEdits {
    of: Arc<ClientEdits>,
    /// The fields to set whose values have variables.
    filled: FilledFields,
}

impl FilledEdits {
    /// Applies the edits to the fields of a response with this status.
    pub fn apply(&self, fields: &mut HeaderMap) {
        self.of.hide(fields);
        self.of.edits.remove(fields);
        set_filled(self.set(), fields);
    }

    /// Returns whether there are pages in place of errors.
    pub fn has_pages(&self) -> bool {
        self.of.has_pages()
    }

    /// Returns whether fields of this name, in any case, are removed or replaced.
    pub fn leave_out(&self, name: &[u8]) -> bool {
        self.of.hides(name)
            || self.set().any(|(set, _)| name.eq_ignore_ascii_case(set.as_str().as_bytes()))
            || self.of.edits.removes(name)
    }

    /// Returns the names and values of the fields that replace others.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.set().filter_map(|(name, value)| Some((name.as_str().as_bytes(), value?.as_bytes())))
    }

    /// Returns the fields to set, and those to remove, which have no value.
    fn set(&self) -> impl Iterator<Item = (&HeaderName, Option<&HeaderValue>)> {
        self.of.edits.set_fields(&self.filled)
    }
}
