//! Fields of a response from the cache: stored fields in their encoded form, and the edits that
//! adapt them to one response. They are written without building a map.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http1::{write_field, write_number_field};
use semantics::assumed_vary::ASSUMED;
use semantics::compressed::{BODY_ID, VARY_BY_CODING};
use semantics::ignored_fields::IGNORED;
use semantics::range::ByteRange;
use semantics::{Seconds, TagFields, meta, one_exchange, validators};
use upstream::send::origin::VERSION;

use crate::observe::cache_status::{CACHE_STATUS, CacheStatus, HitStatus};
use crate::observe::outcome::Outcome;
use crate::options::Options;
use crate::response::client_response::ClientResponse;
use crate::rules::client_edits::FilledEdits;
use crate::rules::request_rules::{DECISION, Rule};
use crate::services::{Services, Shared};

/// Stored fields of a response, and their edits.
pub(crate) struct StoredFields {
    /// The encoded head.
    pub meta: Bytes,
    /// `Age`; `None` if the response is this server's own.
    pub age: Option<Seconds>,
    /// The part of the representation to send.
    pub part: StoredPart,
    /// Length of the whole body in bytes.
    pub length: u64,
    /// The member to add to `Cache-Status`.
    pub status: CacheStatus,
    /// The rule that replaces lines of `Vary`, if any.
    pub rule: Option<Arc<Rule>>,
    /// Edits for the client, if any.
    pub edits: Option<FilledEdits>,
}

/// Part of a stored representation to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredPart {
    Whole,
    /// 304: the client has the representation.
    NotModified,
    /// 206 with one part.
    Range(ByteRange),
}

#[derive(Clone, Copy)]
pub(crate) struct Common<'a> {
    pub status: &'a HitStatus,
    pub pseudonym: &'a str,
    /// Fields that clients must not see.
    hidden: Option<&'a TagFields>,
    /// A bit for each length of their names, modulo 64, which rules out most names.
    hidden_lengths: u64,
    /// True if another node gets the response.
    pub is_peer: bool,
}

/// Which fields of interest were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub has_date: bool,
    pub has_length: bool,
}

/// Returns a response with all fields in its map, including stored ones. `is_head` says that the
/// length does not follow from a body, `is_peer` that the response is for another node.
pub(crate) fn with_map(
    mut response: ClientResponse,
    services: &Services,
    (is_head, is_peer): (bool, bool),
) -> ClientResponse {
    if let Some(stored) = response.body_mut().take_stored_fields() {
        let options = services.options();
        *response.headers_mut() = stored.to_map(Common::of(services, &options, is_peer), is_head);
    }
    response
}

impl StoredFields {
    /// Returns the value of the first stored field of this name.
    pub fn value(&self, name: &HeaderName) -> Option<&[u8]> {
        let name = name.as_str().as_bytes();
        let mut fields = meta::fields(&self.meta);
        fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns whether a field has any of these names, in lower case.
    pub fn has_any(&self, names: &[&str]) -> bool {
        let is_one =
            |name: &[u8]| names.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()));
        meta::fields(&self.meta).any(|(name, _)| is_one(name))
    }

    /// Writes the fields. `with_length` includes the stored `Content-Length`.
    pub fn write(&self, common: Common<'_>, with_length: bool, out: &mut Vec<u8>) -> Written {
        let mut written = Written::default();
        self.each(common, with_length, |kind, name, value| {
            written.has_date |= kind == FieldKind::Date;
            written.has_length |= kind == FieldKind::Length;
            write_field(name, value, out);
        });
        if let Some(age) = self.age.filter(|_| !self.is_edited(b"age")) {
            write_number_field(b"age", age.get().into(), out);
        }
        if !self.is_edited(CACHE_STATUS.as_str().as_bytes()) {
            out.extend_from_slice(b"cache-status: ");
            self.write_status(common, out);
            out.extend_from_slice(b"\r\n");
        }
        if let StoredPart::Range(range) = self.part {
            write_field(b"content-range", range.content_range(self.length).as_bytes(), out);
        }
        if let Some(edits) = &self.edits {
            edits.fields().for_each(|(name, value)| write_field(name, value, out));
        }
        written
    }

    /// Returns the fields as a map. `is_head` says that the length does not follow from a body.
    pub fn to_map(&self, common: Common<'_>, is_head: bool) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(16);
        let with_length = self.part == StoredPart::Whole;
        self.each(common, with_length, |_, name, value| {
            let name = HeaderName::from_bytes(name);
            let value = HeaderValue::from_maybe_shared(self.shared(value));
            if let (Ok(name), Ok(value)) = (name, value) {
                map.append(name, value);
            }
        });
        if is_head && self.part == StoredPart::Whole {
            map.entry(header::CONTENT_LENGTH).or_insert(HeaderValue::from(self.length));
        }
        if let Some(age) = self.age {
            map.insert(header::AGE, HeaderValue::from(age.get()));
        }
        let mut status = Vec::new();
        self.write_status(common, &mut status);
        if let Ok(status) = HeaderValue::try_from(status) {
            map.append(CACHE_STATUS, status);
        }
        if let StoredPart::Range(range) = self.part {
            map.insert(header::CONTENT_RANGE, range.content_range(self.length));
            map.insert(header::CONTENT_LENGTH, HeaderValue::from(range.count()));
        }
        if let Some(edits) = &self.edits {
            edits.apply(&mut map);
        }
        map
    }

    /// Returns whether the edits for the client remove or replace fields of this name.
    fn is_edited(&self, name: &[u8]) -> bool {
        self.edits.as_ref().is_some_and(|edits| edits.leave_out(name))
    }

    /// Returns a value, sharing the head's memory if the value lies in it.
    fn shared(&self, value: &[u8]) -> Bytes {
        let begin = value.as_ptr().addr().wrapping_sub(self.meta.as_ptr().addr());
        match begin.checked_add(value.len()).is_some_and(|end| end <= self.meta.len()) {
            true => self.meta.slice(begin..begin + value.len()),
            false => Bytes::copy_from_slice(value),
        }
    }

    /// Writes the member of `Cache-Status`.
    fn write_status(&self, common: Common<'_>, out: &mut Vec<u8>) {
        match (self.status, self.status.ttl) {
            (CacheStatus { outcome: Outcome::HitRam, .. }, Some(ttl)) => {
                common.status.write(true, ttl, out);
            }
            (CacheStatus { outcome: Outcome::HitDisk, .. }, Some(ttl)) => {
                common.status.write(false, ttl, out);
            }
            (status, _) => out.extend_from_slice(status.value(common.pseudonym).as_bytes()),
        }
    }

    /// Calls `take` for each stored field that is part of the response, with its kind, its name as
    /// spelled, and its value.
    fn each(
        &self,
        common: Common<'_>,
        with_length: bool,
        mut take: impl FnMut(FieldKind, &[u8], &[u8]),
    ) {
        let has_etag = self.part == StoredPart::NotModified
            && meta::fields(&self.meta).any(|(name, _)| name.eq_ignore_ascii_case(b"etag"));
        for (name, value) in meta::fields(&self.meta) {
            let kind = FieldKind::of(name);
            let mut unfolded = None;
            let is_sent = match kind {
                FieldKind::Connection => false,
                FieldKind::Length => with_length,
                FieldKind::Date | FieldKind::Via => self.age.is_some(),
                // Other nodes take over the decision of a rule.
                FieldKind::Decision => common.is_peer,
                FieldKind::BodyId => {
                    take(FieldKind::Vary, b"vary", VARY_BY_CODING.as_bytes());
                    continue;
                }
                FieldKind::Vary => {
                    unfolded = self.rule.as_ref().and_then(|rule| rule.unfolded(value));
                    unfolded.as_ref().is_none_or(|line| !line.is_empty())
                        && !self.is_left_out(name, has_etag)
                }
                FieldKind::Other => !self.is_left_out(name, has_etag) && !common.hides(name),
            };
            if is_sent && !self.is_edited(name) {
                take(kind, name, unfolded.as_ref().map_or(value, HeaderValue::as_bytes));
            }
        }
    }

    fn is_left_out(&self, name: &[u8], has_etag: bool) -> bool {
        let text = || std::str::from_utf8(name).unwrap_or_default();
        let is_of_whole = match self.part {
            StoredPart::Whole => false,
            StoredPart::NotModified => validators::is_left_out_of_304(text(), has_etag),
            StoredPart::Range(_) => one_exchange::is_content_digest(text()),
        };
        let is_version = || name.eq_ignore_ascii_case(VERSION.as_str().as_bytes());
        is_of_whole || (self.age.is_none() && is_version())
    }
}

/// How a stored field is sent, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldKind {
    /// `Age`, and fields of the connection to the origin.
    Connection,
    Length,
    Date,
    Via,
    Vary,
    BodyId,
    /// [`DECISION`], [`IGNORED`] or [`ASSUMED`].
    Decision,
    Other,
}

impl FieldKind {
    /// Returns the kind of the field of this name, in any case.
    fn of(name: &[u8]) -> FieldKind {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match name.len() {
            3 if is(b"age") => FieldKind::Connection,
            3 if is(b"via") => FieldKind::Via,
            4 if is(b"date") => FieldKind::Date,
            4 if is(b"vary") => FieldKind::Vary,
            10 if is(b"connection") => FieldKind::Connection,
            14 if is(b"content-length") => FieldKind::Length,
            17 if is(b"transfer-encoding") => FieldKind::Connection,
            INTERNAL_LEN if is(BODY_ID.as_str().as_bytes()) => FieldKind::BodyId,
            INTERNAL_LEN if INTERNAL.iter().any(|one| is(one.as_str().as_bytes())) => {
                FieldKind::Decision
            }
            _ => FieldKind::Other,
        }
    }
}

/// Length in bytes of [`BODY_ID`] and of [`INTERNAL`].
const INTERNAL_LEN: usize = 11;

static INTERNAL: [HeaderName; 3] = [DECISION, IGNORED, ASSUMED];

impl<'a> Common<'a> {
    /// Returns the properties of responses to clients, or to other nodes if `is_peer`. A node needs
    /// the tags of objects that it keeps.
    pub fn of(services: &'a Services, options: &'a Options, is_peer: bool) -> Common<'a> {
        let purging = &options.purging;
        let hidden = (!purging.pass_tags && !is_peer).then_some(&purging.tags);
        let names = hidden.into_iter().flat_map(TagFields::names);
        let hidden_lengths = names.fold(0, |all, name| all | length_bit(name.as_str().as_bytes()));
        let Shared { hit_status: status, pseudonym, .. } = &*services.shared;
        Common { status, pseudonym: pseudonym.as_str(), hidden, hidden_lengths, is_peer }
    }

    fn hides(&self, name: &[u8]) -> bool {
        let is_hidden = |hidden: &HeaderName| hidden.as_str().as_bytes().eq_ignore_ascii_case(name);
        self.hidden_lengths & length_bit(name) != 0
            && self.hidden.is_some_and(|fields| fields.names().any(is_hidden))
    }
}

fn length_bit(name: &[u8]) -> u64 {
    1 << (name.len() % 64)
}
