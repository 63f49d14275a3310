//! Path and query of a request, with what one look at their bytes tells. Every request needs it
//! several times: to check its target, to find its rule, and to write its key.

/// Path and query as sent, and their properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScannedPath<'a> {
    /// Path and query.
    pub text: &'a str,
    /// Their properties.
    pub shape: PathShape,
}

/// Properties of a path with its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathShape {
    /// Length of the path, without query, in bytes.
    path: u32,
    /// Length of the path up to its last `/`, in bytes.
    directory: u32,
    is_usual: bool,
    is_normal: bool,
    is_unambiguous: bool,
}

impl<'a> ScannedPath<'a> {
    /// Looks at a path and its query. Of texts longer than 4 GiB nothing is known.
    pub fn new(text: &'a str) -> ScannedPath<'a> {
        ScannedPath { text, shape: PathShape::of(text.as_bytes()) }
    }

    /// Returns whether there is a query, be it empty.
    pub fn has_query(&self) -> bool {
        self.text.len() != self.shape.path as usize
    }

    /// Returns the path alone.
    pub fn without_query(&self) -> ScannedPath<'a> {
        match self.has_query() {
            true => ScannedPath::new(&self.text[..self.shape.path as usize]),
            false => *self,
        }
    }

    /// Returns the path without query if all servers interpret it alike. False negatives only cost
    /// time.
    pub(crate) fn unambiguous(&self) -> Option<&'a str> {
        self.shape.is_unambiguous.then(|| &self.text[..self.shape.path as usize])
    }
}

impl PathShape {
    fn of(text: &[u8]) -> PathShape {
        let length = u32::try_from(text.len()).ok();
        let has_slash = length.is_some() && text.first() == Some(&b'/');
        let path = length.unwrap_or(0);
        let (is_normal, is_unambiguous) = (has_slash, has_slash);
        let mut shape = PathShape { path, directory: 0, is_usual: true, is_normal, is_unambiguous };
        let mut in_path = true;
        for (at, &byte) in text.iter().enumerate() {
            if class_of(byte) & PLAIN == 0 {
                shape.note(text, at, &mut in_path);
            }
        }
        shape
    }

    /// Notes a byte that may have a meaning.
    fn note(&mut self, text: &[u8], at: usize, in_path: &mut bool) {
        let byte = text[at];
        match byte {
            b'/' | b'.' if *in_path => {
                self.is_unambiguous &= at == 0 || text[at - 1] != b'/';
                if byte == b'/' {
                    self.directory = at as u32 + 1;
                }
            }
            b'?' if *in_path => (*in_path, self.path) = (false, at as u32),
            b';' if *in_path => self.is_unambiguous = false,
            b'%' => {
                self.is_unambiguous &= !*in_path;
                self.is_normal &= text.get(at + 1..at + 3).is_some_and(is_normal_triplet);
            }
            _ if class_of(byte) & PATH == 0 => {
                self.is_unambiguous &= byte != b'\\' || !*in_path;
                (self.is_usual, self.is_normal) = (false, false);
            }
            _ => {}
        }
    }

    /// Returns whether all bytes are such that URLs may contain them (RFC 3986, 3.3 and 3.4).
    pub fn is_usual(&self) -> bool {
        self.is_usual
    }

    /// Returns the length in bytes of the path's directory if path and query are in normal form;
    /// may return `None` for some that are.
    pub(crate) fn normal_directory(&self) -> Option<usize> {
        self.is_normal.then_some(self.directory as usize)
    }
}

/// Returns whether these two digits encode a byte that must be encoded, in the usual case.
fn is_normal_triplet(digits: &[u8]) -> bool {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    let decoded = value(digits[0]).zip(value(digits[1])).map(|(high, low)| high * 16 + low);
    decoded.is_some_and(|byte| class_of(byte) & UNRESERVED == 0)
}

/// Returns whether a host is a name or an IPv4 address.
pub(crate) fn is_usual_host(host: &str) -> bool {
    let all = host.bytes().fold(HOST, |all, byte| all & class_of(byte));
    !host.is_empty() && all != 0
}

/// The byte may appear unencoded in paths and queries.
const PATH: u8 = 1;
/// The byte may appear in a host that is a name or an IPv4 address.
const HOST: u8 = 2;
/// The byte is unencoded in normal form: a triplet for it is not normal.
const UNRESERVED: u8 = 4;
/// The byte may appear in paths and queries and has no special meaning there.
const PLAIN: u8 = 8;

/// The classes of each byte, as bits.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        let at = byte as u8;
        if at.is_ascii_alphanumeric() {
            classes[byte] = PATH | HOST | UNRESERVED | PLAIN;
        }
        let mut others = 0;
        let marks = b"-_~.!$&'()*+,;=:@/?";
        while others < marks.len() {
            if marks[others] == at {
                let is_unreserved = others < 3;
                let is_of_host = others < 15;
                let is_plain = !matches!(at, b'/' | b'?' | b'.' | b';');
                classes[byte] = PATH
                    | if is_plain { PLAIN } else { 0 }
                    | if is_of_host { HOST } else { 0 }
                    | if is_unreserved { UNRESERVED } else { 0 };
            }
            others += 1;
        }
        byte += 1;
    }
    classes
};

fn class_of(byte: u8) -> u8 {
    CLASSES[usize::from(byte)]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn one_look_tells_form_and_ambiguity() {
        // Usual bytes; the directory of a normal form; the path if there is one reading.
        let rows = [
            ("/", true, Some(1), Some("/")),
            ("/a/b.css?c/d;e%2F..", true, Some(3), Some("/a/b.css")),
            ("/a/?b?c", true, Some(3), Some("/a/")),
            ("/a/../b", true, Some(6), None),
            ("/a//b", true, Some(4), None),
            ("/a;b", true, Some(1), None),
            ("/a%2Fb", true, Some(1), None),
            ("/a%2fb", true, None, None),
            ("/a?%41", true, None, Some("/a")),
            ("/a?%C3", true, Some(1), Some("/a")),
            ("/a%", true, None, None),
            ("/a\\b", false, None, None),
            ("/a?\\", false, None, Some("/a")),
            ("/\u{fc}", false, None, Some("/\u{fc}")),
            ("*", true, None, None),
            ("", true, None, None),
            ("?a", true, None, None),
        ];
        for (text, is_usual, directory, unambiguous) in rows {
            let path = ScannedPath::new(text);
            let found = (path.shape.is_usual(), path.shape.normal_directory(), path.unambiguous());
            assert_eq!(found, (is_usual, directory, unambiguous), "{text}");
            let alone = path.without_query();
            assert_eq!(alone, ScannedPath::new(text.split('?').next().unwrap()), "{text}");
        }
    }
}
