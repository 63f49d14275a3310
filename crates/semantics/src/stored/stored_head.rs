//! The head of a stored response: status, fields, trailers and facts; `encoding` defines the bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::StatusCode;
use http::header::{
    AGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};

use crate::fields::assumed_vary;
use crate::fields::assumed_vary::ASSUMED;
use crate::fields::cache_control::ResponseDirectives;
use crate::fields::compressed;
use crate::fields::compressed::{BODY_ID, Form};
use crate::fields::spellings::Spellings;
use crate::fields::validators::Selected;
use crate::fields::vary::Vary;
use crate::fields::{date, hop_by_hop, one_exchange, value};
use crate::request::disguise;
use crate::request::facts::{RequestFacts, TargetFacts};
use crate::response::storability;
use crate::response::storability::NotStorable;
use crate::settings::Settings;
use crate::stored::encoding::{Damaged, HEAD, SPELLED, VERSION, take};
use crate::stored::packed::{Flag, Packed};
use crate::time::{ExchangeTimes, Seconds, Time};

/// The status, headers and facts of a stored response.
#[derive(Clone, Debug)]
pub struct StoredHead {
    packed: Packed,
    headers: HeaderMap,
    /// The spelling of the names in `headers`.
    spellings: Spellings,
    /// `None` if there are no trailers.
    trailers: Option<Box<HeaderMap>>,
}

/// Equal heads may spell their names differently.
impl PartialEq for StoredHead {
    fn eq(&self, other: &StoredHead) -> bool {
        self.packed == other.packed
            && self.headers == other.headers
            && self.trailers == other.trailers
    }
}

impl StoredHead {
    /// Prepares the head of a response for storing (RFC 9111, 3.1). Removes hop-by-hop fields,
    /// fields that `private` or `no-cache` names, and `Age`, which the facts contain. Adds a `Date`
    /// if it is missing. `target` holds the facts of the request target.
    pub fn new(
        target: TargetFacts,
        status: StatusCode,
        headers: &HeaderMap,
        times: ExchangeTimes,
        settings: &Settings,
    ) -> StoredHead {
        let directives = ResponseDirectives::parse(headers, settings);
        StoredHead::with(target, status, headers, &directives, times, settings)
    }

    /// Prepares the head of a response to `request` for storing, as [`StoredHead::new`], if it may
    /// be stored. Adds what the response is assumed to depend on
    /// ([`assumed_vary`]).
    ///
    /// # Errors
    /// Those of [`storability::judge`].
    pub fn judged(
        request: &RequestFacts,
        status: StatusCode,
        headers: &HeaderMap,
        times: ExchangeTimes,
        settings: &Settings,
    ) -> Result<StoredHead, NotStorable> {
        let directives = ResponseDirectives::parse(headers, settings);
        storability::judge_by(request, status, headers, &directives, times, settings)?;
        let mut head =
            StoredHead::with(request.target, status, headers, &directives, times, settings);
        if !head.packed.is_stated() && assumed_vary::is_added(settings) {
            // A client's own page changes with what the client does elsewhere.
            if !request.is_told_apart_by(|_| false) {
                head.packed = head.packed.unguessed();
            }
            let kind = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
            let is_coded = head.headers.contains_key(CONTENT_ENCODING);
            let is_file = request.target.names_file && !kind.is_some_and(disguise::is_document);
            head.headers.insert(ASSUMED, assumed_vary::value(is_file, kind, is_coded));
        }
        Ok(head)
    }

    fn with(
        target: TargetFacts,
        status: StatusCode,
        headers: &HeaderMap,
        directives: &ResponseDirectives,
        times: ExchangeTimes,
        settings: &Settings,
    ) -> StoredHead {
        let packed = Packed::by(target, status, headers, directives, times, settings);
        let mut headers = headers.clone();
        hop_by_hop::strip(&mut headers);
        headers.remove(AGE);
        for name in directives.private.fields().iter().chain(directives.no_cache.fields()) {
            headers.remove(name);
        }
        date::ensure(&mut headers, times.received);
        StoredHead { packed, headers, spellings: Spellings::LOWER_CASE, trailers: None }
    }

    /// Returns the response with another spelling of its field names.
    pub fn spelled(self, spellings: Spellings) -> StoredHead {
        StoredHead { spellings, ..self }
    }

    /// Returns the version of the encoded form.
    pub(crate) fn version(&self) -> u8 {
        if self.spellings == Spellings::LOWER_CASE { VERSION } else { SPELLED }
    }

    /// Returns the spelling of the names in [`StoredHead::headers`].
    pub fn spellings(&self) -> &Spellings {
        &self.spellings
    }

    /// Returns the response with trailers, which are kept apart from its fields (RFC 9111, 3.1).
    /// Removes trailers that frame a message, are hop-by-hop, concern one exchange, or are named by
    /// `private` or `no-cache`.
    pub fn with_trailers(mut self, trailers: &HeaderMap, settings: &Settings) -> StoredHead {
        let directives = ResponseDirectives::parse(&self.headers, settings);
        let mut trailers = trailers.clone();
        hop_by_hop::strip(&mut trailers);
        one_exchange::remove_personal(&mut trailers);
        trailers.remove(CONTENT_LENGTH);
        for name in directives.private.fields().iter().chain(directives.no_cache.fields()) {
            trailers.remove(name);
        }
        if !trailers.is_empty() {
            self.packed = self.packed.with_trailers();
            self.trailers = Some(Box::new(trailers));
        }
        self
    }

    /// Returns the trailers of the body, if there are any.
    pub fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_deref()
    }

    /// Returns the response with the trailers of `other`, which has the same body.
    pub(crate) fn with_trailers_of(mut self, other: &StoredHead) -> StoredHead {
        if other.trailers.is_some() {
            self.packed = self.packed.with_trailers();
            self.trailers.clone_from(&other.trailers);
        }
        self
    }

    /// Returns the facts that decide the reuse of the response.
    pub fn packed(&self) -> &Packed {
        &self.packed
    }

    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        self.packed.status()
    }

    /// Returns the stored headers, which do not include `Age`.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the headers to send, including `Age` (RFC 9111, 5.1).
    pub fn reply_headers(&self, age: Seconds) -> HeaderMap {
        let mut headers = self.headers.clone();
        // Space for `Age` and the fields that the caller adds, so that the map grows only once.
        headers.reserve(4);
        headers.insert(AGE, value::of_number(age.get().into()));
        headers
    }

    /// Returns the validators for evaluating conditions and `If-Range`.
    pub fn selected(&self) -> Selected<'_> {
        self.packed.selected(&self.headers)
    }

    /// Returns the request fields that the response varies on.
    pub fn vary(&self) -> Vary {
        Vary::of(&self.headers)
    }

    /// Returns a head without fields for a response whose fields are unreadable. It must be
    /// validated before any use.
    pub fn unreadable(facts: Packed) -> StoredHead {
        let (headers, spellings) = (HeaderMap::new(), Spellings::LOWER_CASE);
        StoredHead { packed: facts.expired(), headers, spellings, trailers: None }
    }

    /// Returns the response marked for validation before any further use.
    pub fn expired(mut self) -> StoredHead {
        self.packed = self.packed.expired();
        self
    }

    /// Returns the response with a lifetime that ends at `at`, unless it ends before.
    pub fn outdated(mut self, at: Time) -> StoredHead {
        self.packed = self.packed.outdated(at);
        self
    }

    /// Returns the response without any permission to use it before it is validated, because a
    /// purge that was missed may have removed it.
    pub fn doubted(mut self) -> StoredHead {
        self.packed = self.packed.doubted();
        self
    }

    /// Returns the response with the fields of these names replaced.
    pub fn with_fields(mut self, fields: &HeaderMap) -> StoredHead {
        for name in fields.keys() {
            self.headers.remove(name);
            let values = fields.get_all(name).iter();
            self.headers.extend(values.map(|value| (name.clone(), value.clone())));
        }
        self
    }

    /// Returns the response with this number of its body ([`BODY_ID`]), or without any.
    pub fn with_body_id(mut self, id: Option<u128>) -> StoredHead {
        self.headers.remove(BODY_ID);
        let id = id.map(|id| HeaderValue::try_from(format!("{id:032x}")));
        self.headers.extend(id.and_then(Result::ok).map(|id| (BODY_ID, id)));
        self
    }

    /// Returns the head of the form of this response in a coding.
    pub fn compressed(&self, coding: &'static str) -> StoredHead {
        let mut head = self.clone();
        compressed::describe(&mut head.headers, coding, Form::Stored);
        head
    }

    /// Returns whether this is the head of a compressed form.
    pub fn is_compressed(&self) -> bool {
        self.headers.contains_key(BODY_ID) && self.headers.contains_key(CONTENT_ENCODING)
    }

    /// Returns the response as that to a HEAD, which is used only for other HEAD requests. Its
    /// length is the one in its fields.
    pub fn of_head(mut self) -> StoredHead {
        self.packed = self.packed.of_head();
        self
    }

    /// Returns the response with `Last-Modified` as a weak validator.
    pub(crate) fn with_weak_last_modified(mut self) -> StoredHead {
        self.packed = self.packed.with_weak_last_modified();
        self
    }

    /// Encodes the head.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(4 + Packed::LEN + self.fields_size());
        out.put_slice(&[HEAD, self.version()]);
        self.encode_body(&mut out);
        out.freeze()
    }

    /// Returns the size of the encoded fields and trailers in bytes.
    pub(crate) fn fields_size(&self) -> usize {
        let trailers = self.trailers.iter().flat_map(|trailers| trailers.iter());
        let fields = self.headers.iter().chain(trailers);
        fields.map(|(name, value)| 6 + name.as_str().len() + value.as_bytes().len()).sum()
    }

    /// Appends the encoded head, from the facts on, to `out`.
    pub(crate) fn encode_body(&self, out: &mut BytesMut) {
        out.put_slice(&self.packed.encode());
        put_fields(out, &self.headers, &self.spellings);
        if let Some(trailers) = &self.trailers {
            put_fields(out, trailers, &Spellings::LOWER_CASE);
        }
    }

    /// Decodes the head.
    pub fn decode(bytes: &Bytes) -> Result<StoredHead, Damaged> {
        let mut rest = bytes.clone();
        match take(&mut rest, 2)?.as_ref() {
            [HEAD, VERSION | SPELLED] => StoredHead::decode_body(rest),
            _ => Err(Damaged),
        }
    }

    pub(crate) fn decode_body(mut rest: Bytes) -> Result<StoredHead, Damaged> {
        let facts = take(&mut rest, Packed::LEN)?;
        let facts = facts.as_ref().try_into().map_err(|_| Damaged)?;
        let packed = Packed::decode(facts).ok_or(Damaged)?;
        let (headers, spellings) = take_fields(&mut rest)?;
        let trailers = match packed.is(Flag::Trailers) {
            true => Some(Box::new(take_fields(&mut rest)?.0)),
            false => None,
        };
        let head = StoredHead { packed, headers, spellings, trailers };
        if rest.is_empty() { Ok(head) } else { Err(Damaged) }
    }
}

fn put_fields(out: &mut BytesMut, fields: &HeaderMap, spellings: &Spellings) {
    let mut speller = spellings.speller();
    out.put_u16_le(fields.len() as u16);
    for (name, value) in fields {
        out.put_u16_le(name.as_str().len() as u16);
        out.put_u32_le(value.as_bytes().len() as u32);
        out.put_slice(speller.spell(name).as_bytes());
        out.put_slice(value.as_bytes());
    }
}

fn take_fields(rest: &mut Bytes) -> Result<(HeaderMap, Spellings), Damaged> {
    let mut names = Vec::new();
    let count = take(rest, 2)?.get_u16_le();
    let mut fields = HeaderMap::with_capacity(usize::from(count).min(128));
    for _ in 0..count {
        let mut lengths = take(rest, 6)?;
        let name_length = usize::from(lengths.get_u16_le());
        let value_length = usize::try_from(lengths.get_u32_le()).map_err(|_| Damaged)?;
        let spelled = take(rest, name_length)?;
        let name = HeaderName::from_bytes(&spelled).map_err(|_| Damaged)?;
        names.push(spelled);
        let value = HeaderValue::from_maybe_shared(take(rest, value_length)?);
        fields.try_append(name, value.map_err(|_| Damaged)?).map_err(|_| Damaged)?;
    }
    let names = names.iter().filter_map(|name| std::str::from_utf8(name).ok());
    Ok((fields, Spellings::of(names)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{NOW_DATE, headers, stored};
    use crate::stored::meta::{Meta, fields};
    use crate::stored::vary_marker::VaryMarker;

    #[test]
    fn a_response_is_made_fit_to_be_stored() {
        let head = stored(&[
            "Cache-Control: max-age=60, private=\"x-secret\", no-cache=\"set-cookie\"",
            "Age: 5",
            "X-Secret: 1",
            "Set-Cookie: a=b",
            "Connection: x-hop",
            "X-Hop: 1",
            "X-Kept: 1",
            "X-Kept: 2",
        ]);
        let expected = headers(&[
            "Cache-Control: max-age=60, private=\"x-secret\", no-cache=\"set-cookie\"",
            "X-Kept: 1",
            "X-Kept: 2",
            &format!("Date: {NOW_DATE}"),
        ]);
        assert_eq!(*head.headers(), expected);
        assert_eq!(head.reply_headers(Seconds::new(7))[AGE], "7");
    }

    #[test]
    fn heads_come_back_as_they_were() {
        let head =
            stored(&["Cache-Control: max-age=60", "X-Many: 1", "X-Many: \u{e9}", "X-Empty:"]);
        assert_eq!(Meta::decode(&head.encode()), Ok(Meta::Head(head.clone())));
        assert_eq!(StoredHead::decode(&head.encode()), Ok(head.clone()));
        let names = ["Cache-Control", "X-Many", "x-many", "X-EMPTY", "date"];
        let spelled = head.spelled(Spellings::of(names.into_iter()));
        let encoded = spelled.encode();
        assert!(fields(&encoded).map(|(name, _)| name).eq(names.map(str::as_bytes)));
        assert_eq!((encoded[1], StoredHead::decode(&encoded)), (SPELLED, Ok(spelled)));
        let marker = VaryMarker::new(1, &["accept".parse().unwrap()]);
        assert_eq!(StoredHead::decode(&marker.encode()), Err(Damaged));
    }

    #[test]
    fn a_form_has_the_facts_of_its_response() {
        let plain = stored(&["Cache-Control: max-age=60", "ETag: \"a\"", "larder-body: origin"]);
        assert_eq!(plain.clone().with_body_id(None).headers().get(BODY_ID), None);
        let numbered = plain.with_body_id(Some(10));
        assert_eq!(numbered.headers()[BODY_ID], "0000000000000000000000000000000a");
        let form = numbered.compressed("br");
        assert_eq!(form.packed(), numbered.packed());
        assert_eq!(form.headers()[BODY_ID], numbered.headers()[BODY_ID]);
        assert_eq!(form.headers()["etag"], "\"a~br1\"");
        assert!(form.is_compressed() && !numbered.is_compressed());
    }

    #[test]
    fn trailers_are_kept_apart_from_the_fields() {
        let settings = Settings::default();
        let came = headers(&[
            "X-Sum: 1",
            "X-Sum: 2",
            "X-Secret: 1",
            "Content-Length: 5",
            "Transfer-Encoding: gzip",
        ]);
        let plain = stored(&["Cache-Control: max-age=60, private=\"x-secret\"", "X-A: 1"]);
        let head = plain.clone().with_trailers(&came, &settings);
        assert_eq!(head.headers(), plain.headers());
        assert_eq!(head.trailers(), Some(&headers(&["X-Sum: 1", "X-Sum: 2"])));
        let encoded = head.encode();
        assert_eq!(StoredHead::decode(&encoded), Ok(head.clone()));
        for length in 0..encoded.len() {
            assert_eq!(Meta::decode(&encoded.slice(..length)), Err(Damaged), "{length}");
        }
        let names: Vec<&[u8]> = fields(&encoded).map(|(name, _)| name).collect();
        assert_eq!(names, [&b"cache-control"[..], b"x-a", b"date"]);
        let none = plain.clone().with_trailers(&headers(&["Transfer-Encoding: x"]), &settings);
        assert_eq!((none.trailers(), none.encode()), (None, plain.encode()));
    }

    #[test]
    fn cut_or_lengthened_bytes_are_damaged() {
        let marker = VaryMarker::new(1, &["accept".parse().unwrap()]).encode();
        for whole in [stored(&["Cache-Control: max-age=60"]).encode(), marker] {
            for length in 0..whole.len() {
                assert_eq!(Meta::decode(&whole.slice(..length)), Err(Damaged), "{length}");
            }
            let longer = Bytes::from([&whole[..], b"x"].concat());
            assert_eq!(Meta::decode(&longer), Err(Damaged));
        }
    }

    #[test]
    fn fields_that_cannot_have_been_stored_are_damaged() {
        let good = stored(&["X-Abc: value"]).encode();
        let replace = |from: &[u8], to: &[u8]| {
            let at = good.windows(from.len()).position(|window| window == from).unwrap();
            let mut bytes = good.to_vec();
            bytes[at..at + from.len()].copy_from_slice(to);
            Meta::decode(&Bytes::from(bytes))
        };
        assert!(replace(b"value", b"other").is_ok());
        assert_eq!(replace(b"x-abc", b"x abc"), Err(Damaged));
        assert_eq!(replace(b"value", b"va\r\nx"), Err(Damaged));
    }
}
