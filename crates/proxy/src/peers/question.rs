//! A question of one node to another, and what the answer says of itself: the fields that they add
//! to a request and a response of HTTP.
//!
//! A question is the request that the origin would get, with two fields more: `Larder-Fleet` says
//! who asks for what, and for whom; `Larder-Purges` which purges the asking node has: their digest,
//! and where that is unknown to the other, their vector. An answer says in `Larder-Owners` how many
//! owners a hot document has. They mean something on the connections between nodes alone: a client
//! that sends them is a client.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;

use crate::message::scheme::Scheme;
use fleet::lookup::{Ask, Reach};
use fleet::{KeyHash, MemberId, Protocols};
use http::Uri;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use semantics::{EditFields, value};

/// The field that makes a request a question, and a response the answer to one.
pub(crate) const FLEET: HeaderName = HeaderName::from_static("larder-fleet");
/// The purges of the sender: 16 hexadecimal digits of a digest, or a vector.
pub(crate) const PURGES: HeaderName = HeaderName::from_static("larder-purges");
/// Stands for [`PURGES`] in the refusal of a question with a digest that is not known.
pub(crate) const DIGEST_UNKNOWN: HeaderValue = HeaderValue::from_static("unknown");

/// On how many owners a hot document is, in an answer; left out where it is one.
pub(crate) const OWNERS: HeaderName = HeaderName::from_static("larder-owners");

const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// Expected bytes of a question's field; a longer one is possible.
const QUESTION_BYTES: usize = 128;

/// Question of one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The node that asks.
    pub from: MemberId,
    /// How many nodes the request has travelled to, this one included.
    pub hops: u8,
    /// How far to go for an answer.
    pub reach: Reach,
    /// A copy may enter the memory of who answers.
    pub keep_copy: bool,
    /// The hash of the document's key: both must come to the same.
    pub key: KeyHash,
    /// The scheme of the document's URL.
    pub scheme: Scheme,
    /// The client that began it.
    pub client: SocketAddr,
    /// The name of the operator's rule for it, which the asking node has applied to the request.
    pub rule: Option<String>,
    /// The classes that the rule uses, written by `ClassValues::word`.
    pub classes: Option<String>,
}

/// A field that is not of a protocol that this node understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotUnderstood(pub Protocols);

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FLEET} is not understood: this node speaks protocol {}", self.0)
    }
}

impl Error for NotUnderstood {}

const REACHES: [(&str, Reach); 3] =
    [("memory", Reach::Memory), ("disk", Reach::Disk), ("origin", Reach::Origin)];

impl Question {
    /// Makes the question of `ask`.
    pub fn of(ask: &Ask, from: &MemberId, about: &About) -> Question {
        Question {
            from: from.clone(),
            hops: ask.hops,
            reach: ask.reach,
            keep_copy: ask.keep_copy,
            key: about.key,
            scheme: about.scheme,
            client: about.client,
            rule: about.rule.clone(),
            classes: about.classes.clone(),
        }
    }

    /// Returns the field that asks it, in a protocol.
    pub fn value(&self, protocol: u16) -> HeaderValue {
        let reach = REACHES.iter().find(|(_, reach)| *reach == self.reach).map_or("", |(w, _)| w);
        let copy = if self.keep_copy { "keep" } else { "drop" };
        let mut text = Text::default();
        text.number(protocol.into());
        text.word(self.from.as_str());
        text.number(self.hops.into());
        text.word(reach);
        text.word(copy);
        text.hexadecimal(self.key.bits());
        text.word(self.scheme.name());
        text.address(self.client);
        match &self.rule {
            None => text.word("*"),
            Some(name) => text.word(&utf8_percent_encode(name, PLAIN).to_string()),
        }
        if let Some(classes) = &self.classes {
            text.word(classes);
        }
        // All of it is visible ASCII and spaces.
        HeaderValue::try_from(text.0).unwrap_or(HeaderValue::from_static(""))
    }

    /// Takes the question out of the fields of a request.
    ///
    /// # Errors
    /// There is none, or it is of a protocol that is not among `understood`.
    pub fn take(
        fields: &mut impl EditFields,
        understood: Protocols,
    ) -> Result<Question, NotUnderstood> {
        let text = fields.line(&FLEET).and_then(value::text);
        let read = text.and_then(|text| of_protocol(text, understood)).and_then(Question::read);
        fields.remove_lines(&FLEET);
        read.ok_or(NotUnderstood(understood))
    }

    /// Reads what follows the protocol.
    fn read(text: &str) -> Option<Question> {
        // All of it is ASCII; bytes are split with fewer instructions than characters.
        let mut words = text.as_bytes().split(|byte| *byte == b' ');
        let mut word = || std::str::from_utf8(words.next()?).ok();
        let (from, hops, reach, copy) = (word()?, word()?, word()?, word()?);
        let (key, scheme, client, rule) = (word()?, word()?, word()?, word()?);
        let classes = word().map(str::to_owned);
        if word().is_some() {
            return None;
        }
        let keep_copy = match copy {
            "keep" => true,
            "drop" => false,
            _ => return None,
        };
        let rule = match rule {
            "*" => None,
            name => Some(percent_decode_str(name).decode_utf8().ok()?.into_owned()),
        };
        Some(Question {
            from: from.parse().ok()?,
            hops: hops.parse().ok()?,
            reach: REACHES.iter().find(|(word, _)| *word == reach)?.1,
            keep_copy,
            key: KeyHash::from_bits(u64::from_str_radix(key, 16).ok()?),
            scheme: Scheme::named(scheme)?,
            client: client.parse().ok()?,
            rule,
            classes,
        })
    }
}

/// Words with a space between them. `format!` takes ten times as many instructions, for every
/// question.
#[derive(Default)]
struct Text(Vec<u8>);

impl Text {
    fn word(&mut self, word: &str) {
        if self.0.is_empty() {
            self.0.reserve(QUESTION_BYTES);
        } else {
            self.0.push(b' ');
        }
        self.0.extend_from_slice(word.as_bytes());
    }

    fn number(&mut self, number: u32) {
        self.word("");
        self.digits(number);
    }

    fn digits(&mut self, number: u32) {
        if number >= 10 {
            self.digits(number / 10);
        }
        self.0.push(b'0' + (number % 10) as u8);
    }

    fn hexadecimal(&mut self, number: u64) {
        self.word("");
        let digits =
            (0..16).rev().map(|at| b"0123456789abcdef"[(number >> (4 * at)) as usize & 15]);
        self.0.extend(digits);
    }

    fn address(&mut self, address: SocketAddr) {
        let SocketAddr::V4(v4) = address else { return self.word(&address.to_string()) };
        let [a, b, c, d] = v4.ip().octets();
        self.number(a.into());
        for part in [b, c, d] {
            self.0.push(b'.');
            self.digits(part.into());
        }
        self.0.push(b':');
        self.digits(v4.port().into());
    }
}

/// Returns what follows the protocol of a field, if it is one of those that are `understood`.
pub(crate) fn of_protocol(text: &str, understood: Protocols) -> Option<&str> {
    let (protocol, rest) = text.split_once(' ')?;
    understood.contain(protocol.parse().ok()?).then_some(rest)
}

/// Parts of a document's questions that are the same for all nodes.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// Path and query of the object, if a rule asks the origin for others.
    pub uri: Option<Uri>,
    pub key: KeyHash,
    pub scheme: Scheme,
    /// Host and port of its URL, as in its key.
    pub authority: HeaderValue,
    pub client: SocketAddr,
    pub rule: Option<String>,
    pub classes: Option<String>,
}

/// How a node got the document that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It had been stored there.
    Hit,
    /// It was fetched.
    Fetched,
    /// The node has none: it was asked for what it has alone, lags behind in purges, could not
    /// reach the origin, or may not answer.
    None,
}

impl Reply {
    /// Takes what an answer says of itself out of its fields. Who says nothing has no answer.
    pub fn take(fields: &mut HeaderMap) -> Reply {
        let Some(value) = fields.remove(FLEET) else { return Reply::None };
        let name = value.as_bytes().split(|byte| *byte == b'(').next().unwrap_or_default();
        match name {
            b"HIT_RAM" | b"HIT_DISK" | b"HIT_FILL" | b"HIT_PEER" | b"STALE" => Reply::Hit,
            b"REVALIDATED" => Reply::Hit,
            b"MISS" | b"REFRESHED" | b"BYPASS" => Reply::Fetched,
            _ => Reply::None,
        }
    }
}

/// Takes out of an answer's fields on how many owners its document is; 1 where it does not say.
pub(crate) fn take_owners(fields: &mut HeaderMap) -> u32 {
    let value = fields.remove(OWNERS);
    let number = value.as_ref().and_then(|value| value.to_str().ok()?.parse().ok());
    number.unwrap_or(1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::observe::outcome::{Error, Outcome};

    fn question(rule: Option<&str>) -> Question {
        Question {
            from: "node-a".parse().unwrap(),
            hops: 2,
            reach: Reach::Disk,
            keep_copy: true,
            key: KeyHash::from_bits(0xab),
            scheme: Scheme::Https,
            client: "[2001:db8::1]:5".parse().unwrap(),
            rule: rule.map(str::to_owned),
            classes: rule.map(|_| "plan=pro;x=%20".to_owned()),
        }
    }

    #[test]
    fn a_question_is_written_as_it_is_read() {
        for rule in [None, Some("*"), Some("images, and ümläuts"), Some("")] {
            let v4 = "203.0.113.9:65535".parse().unwrap();
            let asked = Question { client: v4, ..question(rule) };
            let text = asked.value(1).to_str().unwrap().to_owned();
            let expected = "1 node-a 2 disk keep 00000000000000ab https 203.0.113.9:65535 ";
            assert!(text.starts_with(expected), "{text}");
            let asked = question(rule);
            let mut fields = HeaderMap::new();
            fields.insert(FLEET, asked.value(1));
            let read = Question::take(&mut fields, Protocols::OWN);
            // An empty name is that of no rule.
            assert_eq!(read.map(|read| read == asked), Ok(true), "{rule:?}");
            assert!(fields.is_empty());
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let right = question(None).value(1).to_str().unwrap().to_owned();
        let is_read = |text: &str| {
            let mut fields = HeaderMap::new();
            fields.insert(FLEET, text.parse().unwrap());
            Question::take(&mut fields, Protocols::OWN).is_ok()
        };
        assert!(is_read(&right), "{right}");
        let parts: Vec<&str> = right.split(' ').collect();
        for at in 0..parts.len() - 1 {
            let mut wrong = parts.clone();
            wrong[at] = "?";
            assert!(!is_read(&wrong.join(" ")), "{at}");
            let mut fewer = parts.clone();
            fewer.remove(at);
            assert!(!is_read(&fewer.join(" ")), "{at}");
        }
        assert!(Question::take(&mut HeaderMap::new(), Protocols::OWN).is_err());
    }

    #[test]
    fn what_is_asked_in_another_protocol_is_not_understood() {
        let later = Protocols::new(2, 3).unwrap();
        for (protocol, is_understood) in [(1, false), (2, true), (3, true), (4, false)] {
            let mut fields = HeaderMap::new();
            fields.insert(FLEET, question(None).value(protocol));
            let read = Question::take(&mut fields, later);
            assert_eq!(read.is_ok(), is_understood, "{protocol}: {read:?}");
        }
        let said = NotUnderstood(later).to_string();
        assert_eq!(said, "larder-fleet is not understood: this node speaks protocol 2-3");
    }

    #[test]
    fn an_answer_says_how_many_owners_there_are_or_nothing() {
        for (value, owners) in [("3", 3), ("0", 0), ("-1", 1), ("many", 1), ("99999999999", 1)] {
            let mut fields = HeaderMap::new();
            fields.insert(OWNERS, value.parse().unwrap());
            assert_eq!((take_owners(&mut fields), fields.len()), (owners, 0));
        }
        assert_eq!(take_owners(&mut HeaderMap::new()), 1);
    }

    #[test]
    fn an_answer_tells_whether_it_is_one() {
        let of = |outcome: Outcome| {
            let mut fields = HeaderMap::new();
            fields.insert(FLEET, outcome.text().parse().unwrap());
            Reply::take(&mut fields)
        };
        assert_eq!(of(Outcome::HitRam), Reply::Hit);
        assert_eq!(of(Outcome::Miss), Reply::Fetched);
        assert_eq!(of(Outcome::Error(Error::OnlyIfCached)), Reply::None);
        assert_eq!(Reply::take(&mut HeaderMap::new()), Reply::None);
        for outcome in Outcome::all().filter(|outcome| outcome.is_hit()) {
            assert_eq!(of(outcome), Reply::Hit, "{outcome}");
        }
    }
}
