//! Facts that a node announces about itself, encoded as keys with text values, and their decoding.
//!
//! A key is one letter, so a node's keys are few whatever is sent to it, and only changed ones are
//! sent again. A value has exactly one spelling: a value that would be written differently than it
//! was read is rejected. Keys of later versions are ignored, so that nodes of all protocols
//! ([`fleet::protocol`]) know of each other; a later version that must not be misunderstood raises
//! [`FORMAT`].

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use fleet::member::{Address, State};
use fleet::{Member, MemberId, Protocols};

/// Version of the format of facts.
pub const FORMAT: &str = "1";

/// Maximum bytes of a value: an address has up to 261.
pub const VALUE_MAX: usize = 320;

/// Maximum bytes of a zone and of a program's version.
const TEXT_MAX: usize = 64;

const FORMAT_KEY: &str = "f";
const ADDRESS: &str = "a";
const ZONE: &str = "z";
const WEIGHT: &str = "w";
pub const LOAD: &str = "l";
const PROGRAM: &str = "v";
const PROTOCOLS: &str = "p";
const POLICY: &str = "c";
const CACHE: &str = "k";
const NO_CACHE: &str = "none";
const DISK: &str = "d";
const DISK_FAILED: &str = "failed";
const STATE: &str = "s";

/// A fact that is missing or malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidFact {
    what: &'static str,
    /// `None`: the fact is missing.
    given: Option<Box<str>>,
}

impl fmt::Display for InvalidFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.given {
            None => write!(f, "its {} is missing", self.what),
            Some(given) => write!(f, "{given:?} is not a valid {} of a member", self.what),
        }
    }
}

impl std::error::Error for InvalidFact {}

/// Encodes the facts of a member.
///
/// # Errors
///
/// Its zone or its program's version is too long or has control characters.
pub fn encode(member: &Member) -> Result<Vec<(&'static str, String)>, InvalidFact> {
    Ok(vec![
        (DISK, if member.disk_failed { DISK_FAILED } else { "" }.to_owned()),
        (FORMAT_KEY, FORMAT.to_owned()),
        (ADDRESS, member.address.to_string()),
        (ZONE, text("zone", &member.zone)?.to_string()),
        (WEIGHT, member.weight.to_string()),
        (PROGRAM, text("version", &member.program)?.to_string()),
        (PROTOCOLS, member.protocols.to_string()),
        (POLICY, member.policy_version.to_string()),
        (CACHE, if member.has_cache { "" } else { NO_CACHE }.to_owned()),
        (STATE, member.state.to_string()),
        (LOAD, member.load.to_string()),
    ])
}

/// Decodes the facts of a member; `value` finds the value of a key.
///
/// # Errors
///
/// A fact is missing or malformed.
pub fn decode<'a>(
    id: MemberId,
    value: impl Fn(&str) -> Option<&'a str>,
) -> Result<Member, InvalidFact> {
    let fact = |what, key: &str| value(key).ok_or(InvalidFact { what, given: None });
    let format = fact("format", FORMAT_KEY)?;
    if format != FORMAT {
        return Err(InvalidFact { what: "format", given: Some(excerpt(format)) });
    }
    let zone = fact("zone", ZONE)?;
    let program = fact("version", PROGRAM)?;
    Ok(Member {
        id,
        address: read::<Address>("address", fact("address", ADDRESS)?)?,
        zone: text("zone", zone)?,
        weight: read("weight", fact("weight", WEIGHT)?)?,
        load: read("load", fact("load", LOAD)?)?,
        program: text("version", program)?,
        protocols: read("range of protocols", fact("range of protocols", PROTOCOLS)?)?,
        policy_version: read("policy", fact("policy", POLICY)?)?,
        disk_failed: value(DISK).is_some_and(|disk| disk == DISK_FAILED),
        has_cache: value(CACHE).is_none_or(|cache| cache != NO_CACHE),
        state: read::<State>("state", fact("state", STATE)?)?,
    })
}

/// Returns a member of which only these facts are known so far.
pub fn unheard(id: MemberId, address: Address, zone: Arc<str>, weight: u32) -> Member {
    Member {
        id,
        address,
        zone,
        weight,
        load: 0,
        program: "".into(),
        protocols: Protocols::OWN,
        policy_version: 0,
        disk_failed: false,
        has_cache: true,
        state: State::Joining,
    }
}

/// Reads a value that has exactly one spelling.
fn read<T: FromStr + fmt::Display>(what: &'static str, given: &str) -> Result<T, InvalidFact> {
    let value = given.parse::<T>().ok().filter(|value| value.to_string() == given);
    value.ok_or_else(|| InvalidFact { what, given: Some(excerpt(given)) })
}

/// Checks the length and characters of a text.
fn text(what: &'static str, given: &str) -> Result<Arc<str>, InvalidFact> {
    match given.len() <= TEXT_MAX && !given.chars().any(char::is_control) {
        true => Ok(given.into()),
        false => Err(InvalidFact { what, given: Some(excerpt(given)) }),
    }
}

/// Returns the beginning of a text, for an error.
fn excerpt(given: &str) -> Box<str> {
    given.chars().take(TEXT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random_member(random: &mut fastrand::Rng) -> Member {
        let mut word = |most: usize| -> String {
            let length = random.usize(1..=most);
            std::iter::repeat_with(|| random.alphanumeric()).take(length).collect()
        };
        let (id, host, zone, program) = (word(64), word(200), word(64), word(64));
        let oldest = random.u16(..);
        let newest = random.u16(oldest..);
        Member {
            id: id.parse().unwrap(),
            address: format!("{host}:{}", random.u16(1..)).parse().unwrap(),
            zone: zone.into(),
            weight: random.u32(..),
            load: random.u64(..),
            program: program.into(),
            protocols: Protocols::new(oldest, newest).unwrap(),
            policy_version: random.u64(..),
            disk_failed: random.bool(),
            has_cache: random.bool(),
            state: *random.choice(&[State::Joining, State::Serving, State::Leaving]).unwrap(),
        }
    }

    fn decoded(id: &MemberId, facts: &[(&'static str, String)]) -> Result<Member, InvalidFact> {
        decode(id.clone(), |key| {
            facts.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
        })
    }

    #[test]
    fn facts_are_read_as_they_were_written() {
        let mut random = fastrand::Rng::with_seed(crate::seed());
        for _ in 0..500 {
            let member = random_member(&mut random);
            let facts = encode(&member).unwrap();
            assert!(facts.iter().all(|(key, value)| key.len() == 1 && value.len() <= VALUE_MAX));
            assert_eq!(decoded(&member.id, &facts).unwrap(), member);
        }
    }

    #[test]
    fn each_fact_is_needed_and_strict() {
        let member = random_member(&mut fastrand::Rng::with_seed(1));
        let facts = encode(&member).unwrap();
        for left_out in (0..facts.len()).filter(|at| ![DISK, CACHE].contains(&facts[*at].0)) {
            let mut facts = facts.clone();
            facts.remove(left_out);
            let error = decoded(&member.id, &facts).unwrap_err().to_string();
            assert!(error.ends_with("is missing"), "{error}");
        }
        let long = "x".repeat(65);
        for (key, wrong) in [
            (FORMAT_KEY, "2"),
            (ADDRESS, "nowhere"),
            (ADDRESS, "h:080"),
            (ZONE, "a\nb"),
            (ZONE, &long),
            (WEIGHT, "-1"),
            (WEIGHT, "4294967296"),
            (WEIGHT, "+1"),
            (LOAD, "01"),
            (LOAD, ""),
            (PROGRAM, "\u{7f}"),
            (PROTOCOLS, "1-1"),
            (PROTOCOLS, "2-1"),
            (POLICY, "1 "),
            (STATE, "Serving"),
        ] {
            let mut facts = facts.clone();
            facts.iter_mut().find(|(known, _)| *known == key).unwrap().1 = wrong.to_owned();
            assert!(decoded(&member.id, &facts).is_err(), "{key}={wrong:?}");
        }
        let mut later = facts.clone();
        later.push(("x", "of a later version".to_owned()));
        assert_eq!(decoded(&member.id, &later).unwrap(), member);
    }

    #[test]
    fn facts_that_cannot_be_encoded_are_rejected() {
        let member = random_member(&mut fastrand::Rng::with_seed(2));
        let error = encode(&Member { zone: "a\0".into(), ..member.clone() }).unwrap_err();
        assert_eq!(error.to_string(), "\"a\\0\" is not a valid zone of a member");
        assert!(encode(&Member { program: "é".repeat(33).into(), ..member }).is_err());
    }
}
