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

const SLOTS: usize = 512;

/// The names by [`slot_of`].
struct Table {
    factor: u32,
    slots: [Option<&'static str>; SLOTS],
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
const fn slots_by(factor: u32) -> Option<[Option<&'static str>; SLOTS]> {
    let mut slots = [None; SLOTS];
    let mut number = 0;
    while number < NAMES.len() {
        let name = NAMES[number];
        let slot = slot_of(name.as_bytes(), factor);
        if slots[slot].is_some() {
            return None;
        }
        slots[slot] = Some(name);
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

/// Returns the usual name that a name is, in lower case, if it is one. Case does not matter.
#[inline]
pub(crate) fn usual_name(name: &str) -> Option<&'static str> {
    if name.len() < 3 {
        return None;
    }
    let known = TABLE.slots[slot_of(name.as_bytes(), TABLE.factor)]?;
    is_name(name.as_bytes(), known.as_bytes()).then_some(known)
}

/// Returns whether a name is usual. Case does not matter.
#[inline]
pub(crate) fn is_usual(name: &str) -> bool {
    usual_name(name).is_some()
}

/// Returns whether a name is `known`, which consists of letters in lower case, digits and hyphens.
/// Up to eight bytes are compared at a time; the last ones may be compared twice.
#[inline]
pub(crate) fn is_name(name: &[u8], known: &[u8]) -> bool {
    if name.len() != known.len() {
        return false;
    }
    if let (Some(last), Some(known_last)) = (name.last_chunk::<8>(), known.last_chunk::<8>()) {
        let is_same = |(name, known): (&[u8; 8], &[u8; 8])| {
            is_same(u64::from_le_bytes(*name), u64::from_le_bytes(*known))
        };
        let mut eights = name.as_chunks::<8>().0.iter().zip(known.as_chunks::<8>().0);
        return is_same((last, known_last)) && eights.all(is_same);
    }
    if let (Some(last), Some(known_last)) = (name.last_chunk::<4>(), known.last_chunk::<4>())
        && let (Some(first), Some(known_first)) = (name.first_chunk::<4>(), known.first_chunk())
    {
        let pair = |one: &[u8; 4], other: &[u8; 4]| {
            u64::from(u32::from_le_bytes(*one)) << 32 | u64::from(u32::from_le_bytes(*other))
        };
        return is_same(pair(first, last), pair(known_first, known_last));
    }
    name.iter().zip(known).all(|(byte, known)| is_same((*byte).into(), (*known).into()))
}

/// Returns whether eight bytes are those of `known`, in any case.
#[inline]
fn is_same(bytes: u64, known: u64) -> bool {
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
            assert_eq!(usual_name(name), Some(name));
            assert_eq!(usual_name(&name.to_ascii_uppercase()), Some(name));
            for at in 0..name.len() {
                for other in [b'_', b'\r', b'~', b'1', b'M', b'q'] {
                    let mut near = name.as_bytes().to_vec();
                    near[at] = other;
                    let near = String::from_utf8(near).unwrap();
                    let is_other = NAMES.iter().any(|name| near.eq_ignore_ascii_case(name));
                    assert_eq!(is_usual(&near), is_other, "{near:?}");
                }
            }
            assert!(!is_usual(&name[1..]), "{name}");
        }
        assert!(!is_usual(""));
    }
}
