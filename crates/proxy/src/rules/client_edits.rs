//! Edits of responses for clients. They are applied when a response is sent, to stored responses as
//! to all others, and are not stored. Responses to other nodes of a fleet are not edited.

use std::sync::Arc;

use http::header::{self, HeaderMap, HeaderName};

use crate::message::header_edits::{Edits, FilledFields, set_filled};
use crate::message::template::{Stage, Values};
use crate::observe::cache_status::CACHE_STATUS;

/// Fields of this proxy that clients may be denied, in addition to those that any rule may remove.
pub const HIDEABLE: [HeaderName; 3] = [header::VIA, header::AGE, CACHE_STATUS];

/// Edits of responses for clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientEdits {
    edits: Edits,
    /// Some of [`HIDEABLE`].
    hide: Vec<HeaderName>,
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
        Ok(ClientEdits { edits, hide })
    }

    /// Returns whether there are no edits.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.hide.is_empty()
    }

    /// Returns edits that do the same as these and then `later`.
    pub fn then(&self, later: &ClientEdits) -> ClientEdits {
        let is_hidden = |name: &HeaderName| self.hide.contains(name) || later.hide.contains(name);
        let hide = HIDEABLE.into_iter().filter(is_hidden).collect();
        ClientEdits { edits: self.edits.then(&later.edits), hide }
    }

    /// Returns the edits of one response, with the values of their variables.
    pub(crate) fn fill(self: &Arc<ClientEdits>, values: &impl Values) -> FilledEdits {
        FilledEdits { set: self.edits.filled_fields(values), of: self.clone() }
    }

    /// Removes the hidden fields.
    pub(crate) fn hide(&self, fields: &mut HeaderMap) {
        self.hide.iter().for_each(|name| _ = fields.remove(name));
    }

    fn hides(&self, name: &str) -> bool {
        self.hide.iter().any(|hidden| name.eq_ignore_ascii_case(hidden.as_str()))
    }
}

/// Edits of one response.
pub(crate) struct FilledEdits {
    of: Arc<ClientEdits>,
    set: FilledFields,
}

impl FilledEdits {
    /// Applies the edits to the fields of a response with this status.
    pub fn apply(&self, fields: &mut HeaderMap) {
        self.of.hide(fields);
        self.of.edits.remove(fields);
        set_filled(&self.set, fields);
    }

    /// Returns whether fields of this name, in any case, are removed or replaced.
    pub fn leave_out(&self, name: &str) -> bool {
        self.of.hides(name)
            || self.set.iter().any(|(set, _)| name.eq_ignore_ascii_case(set.as_str()))
            || self.of.edits.removes(name)
    }

    /// Returns the names and values of the fields that replace others.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.set.iter().filter_map(|(name, value)| {
            Some((name.as_str().as_bytes(), value.as_ref()?.as_bytes()))
        })
    }
}
