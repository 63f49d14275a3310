//! Names of the fields that nearly all requests consist of. They are recognised by one look into a
//! table, and what they mean to the lists of names of this crate is known then.

/// Names of request fields, in lower case: plain ones, none of which is a claim or asks for another
/// method.
pub(crate) const NAMES: [&str; 62] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "access-control-request-headers",
    "access-control-request-method",
    "authorization",
    "cache-control",
    "cdn-loop",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "device-memory",
    "dnt",
    "downlink",
    "dpr",
    "early-data",
    "ect",
    "expect",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "origin",
    "pragma",
    "priority",
    "purpose",
    "range",
    "referer",
    "rtt",
    "save-data",
    "sec-ch-ua",
    "sec-ch-ua-arch",
    "sec-ch-ua-full-version-list",
    "sec-ch-ua-mobile",
    "sec-ch-ua-model",
    "sec-ch-ua-platform",
    "sec-ch-ua-platform-version",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "sec-fetch-user",
    "sec-gpc",
    "sec-purpose",
    "sec-websocket-key",
    "sec-websocket-version",
    "traceparent",
    "tracestate",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "user-agent",
    "via",
    "x-request-id",
    "x-requested-with",
];

/// Those of [`NAMES`] that identify a client ([`crate::settings::identifying`]).
const IDENTIFYING: [&str; 2] = ["authorization", "cookie"];

/// What is known of a usual name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsualName {
    /// It is in the built-in list of names that identify a client.
    pub identifies: bool,
}

const SLOTS: usize = 512;

/// The names by [`slot_of`].
struct Table {
    factor: u32,
    slots: [Option<(&'static str, UsualName)>; SLOTS],
}

static TABLE: Table = Table::new();

impl Table {
    /// Makes a table in which no two names share a slot.
    const fn new() -> Table {
        let mut factor: u32 = 0x9e37_79b1;
        loop {
            if let Some(slots) = slots_by(factor) {
                return Table { factor, slots };
            }
            factor = factor.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) | 1;
        }
    }
}

/// Returns the names in their slots; `None` when two share one.
const fn slots_by(factor: u32) -> Option<[Option<(&'static str, UsualName)>; SLOTS]> {
    let mut slots = [None; SLOTS];
    let mut number = 0;
    while number < NAMES.len() {
        let name = NAMES[number];
        let slot = slot_of(name.as_bytes(), factor);
        if slots[slot].is_some() {
            return None;
        }
        let mut identifies = false;
        let mut other = 0;
        while other < IDENTIFYING.len() {
            identifies |= is_name(name.as_bytes(), IDENTIFYING[other].as_bytes());
            other += 1;
        }
        slots[slot] = Some((name, UsualName { identifies }));
        number += 1;
    }
    Some(slots)
}

/// Returns a slot by the length of a name and three of its letters. Case does not matter. A name
/// has at least three bytes.
const fn slot_of(name: &[u8], factor: u32) -> usize {
    let length = name.len();
    let (first, third, last) = (name[0], name[length - 3], name[length - 1]);
    let letters = u32::from_le_bytes([length as u8, first | 0x20, third | 0x20, last | 0x20]);
    (letters.wrapping_mul(factor) >> (32 - SLOTS.trailing_zeros())) as usize
}

/// Returns what is known of a name, if it is usual. Case does not matter.
#[inline]
pub(crate) fn usual_name(name: &str) -> Option<UsualName> {
    if name.len() < 3 {
        return None;
    }
    let (known, usual) = TABLE.slots[slot_of(name.as_bytes(), TABLE.factor)]?;
    is_name(name.as_bytes(), known.as_bytes()).then_some(usual)
}

/// Returns whether a name is `known`, which consists of letters in lower case, digits and hyphens.
/// Eight bytes are compared at a time.
#[inline]
pub(crate) const fn is_name(name: &[u8], known: &[u8]) -> bool {
    if name.len() != known.len() {
        return false;
    }
    let (mut names, mut knowns) = (name, known);
    while let (Some((name, more)), Some((known, more_known))) =
        (names.split_first_chunk::<8>(), knowns.split_first_chunk::<8>())
    {
        if !is_same(u64::from_le_bytes(*name), u64::from_le_bytes(*known)) {
            return false;
        }
        (names, knowns) = (more, more_known);
    }
    while let (Some((name, more)), Some((known, more_known))) =
        (names.split_first(), knowns.split_first())
    {
        if !is_same(*name as u64, *known as u64) {
            return false;
        }
        (names, knowns) = (more, more_known);
    }
    true
}

/// Returns whether eight bytes are those of `known`, in any case.
const fn is_same(bytes: u64, known: u64) -> bool {
    // Letters alone have this bit among the bytes of known names.
    const OF_LETTERS: u64 = 0x4040_4040_4040_4040;
    bytes | ((known & OF_LETTERS) >> 1) == known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_names_are_recognised_in_any_case() {
        for name in NAMES {
            let usual = UsualName { identifies: IDENTIFYING.contains(&name) };
            assert_eq!(usual_name(name), Some(usual), "{name}");
            assert_eq!(usual_name(&name.to_ascii_uppercase()), Some(usual), "{name}");
            for at in 0..name.len() {
                for other in [b'_', b'\r', b'~', b'1', b'M', b'q'] {
                    let mut near = name.as_bytes().to_vec();
                    near[at] = other;
                    let near = String::from_utf8(near).unwrap();
                    let is_other = NAMES.iter().any(|name| near.eq_ignore_ascii_case(name));
                    assert_eq!(usual_name(&near).is_some(), is_other, "{near:?}");
                }
            }
            assert_eq!(usual_name(&name[1..]), None, "{name}");
        }
        assert_eq!(usual_name(""), None);
    }
}
