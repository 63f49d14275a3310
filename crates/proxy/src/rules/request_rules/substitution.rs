//! Literal texts that are replaced in the bodies of the origin's responses.
//!
//! The stored body has the new texts. So they depend only on what the key determines: the host, the
//! scheme, the names of site and rule. Their values are escaped for HTML.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderMap;
use semantics::{Pattern, compressed};

use crate::message::template::{Piece, Stage, Template, Values, Variable};
use crate::rules::request_rules::response_rule::media_type;

/// Maximum number of texts of a rule.
const TEXTS_MAX: usize = 32;

/// Maximum length in bytes of a text, and of what replaces it.
const TEXT_MAX: usize = 4 << 10;

/// Replacement of one text.
#[derive(Clone, Debug)]
pub struct Substitute {
    from: String,
    to: Template,
    once: bool,
    /// `to` with the values of its variables.
    text: Bytes,
}

/// The replacements of a rule.
#[derive(Clone, Debug)]
pub struct Substitution {
    list: Vec<Substitute>,
    types: Vec<Pattern>,
    ignores_case: bool,
    finder: AhoCorasick,
}

impl Substitute {
    /// Creates the replacement of `from`, wherever it is or `once`. `to` may have variables.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong.
    pub fn new(from: &str, to: &str, once: bool) -> Result<Substitute, String> {
        if from.is_empty() || from.len().max(to.len()) > TEXT_MAX {
            return Err(format!("expected texts of 1 to {TEXT_MAX} bytes"));
        }
        let template = Template::parse(to, Stage::Request)?;
        let is_safe = |variable: &&Variable| {
            matches!(variable, Variable::Host | Variable::Scheme | Variable::Site | Variable::Rule)
        };
        if let Some(other) = template.variables().find(|variable| !is_safe(variable)) {
            return Err(format!(
                "expected no variables but {{host}}, {{scheme}}, {{site}} and {{rule}}, got \
                 {other}: the stored body is for all clients"
            ));
        }
        let text = Bytes::copy_from_slice(template.fixed().unwrap_or_default().as_bytes());
        Ok(Substitute { from: from.to_owned(), to: template, once, text })
    }
}

impl Substitution {
    /// Creates the replacements in bodies of these media types.
    ///
    /// # Errors
    ///
    /// A sentence: there are too many.
    pub fn new(
        list: Vec<Substitute>,
        types: Vec<Pattern>,
        ignores_case: bool,
    ) -> Result<Substitution, String> {
        if list.len() > TEXTS_MAX {
            return Err(format!("expected at most {TEXTS_MAX} texts"));
        }
        let finder = finder_of(list.iter(), ignores_case)?;
        Ok(Substitution { list, types, ignores_case, finder })
    }

    /// Returns what the replacements state, as text.
    pub(super) fn told(&self) -> String {
        format!("{:?} {:?} {}", self.list, self.types, self.ignores_case)
    }

    /// Returns the replacements with the values of their variables; `None` if they have none.
    pub(crate) fn fill(&self, values: &impl Values) -> Option<Arc<Substitution>> {
        if self.list.iter().all(|one| one.to.fixed().is_some()) {
            return None;
        }
        let filled = |one: &Substitute| Substitute { text: filled(&one.to, values), ..one.clone() };
        Some(Arc::new(Substitution {
            list: self.list.iter().map(filled).collect(),
            ..self.clone()
        }))
    }

    /// Returns whether texts are replaced in the body of a response: a whole document of such a
    /// type, without a coding, that proxies may change.
    pub(crate) fn applies(&self, status: StatusCode, fields: &HeaderMap) -> bool {
        let kind = media_type(fields);
        compressed::is_permitted(status, fields)
            && self.types.iter().any(|pattern| pattern.matches(kind))
    }

    /// Begins the replacement in one body.
    pub(crate) fn begin(self: &Arc<Substitution>) -> Replacing {
        let open = (0..self.list.len()).collect();
        Replacing { finder: Some(self.finder.clone()), open, of: self.clone() }
    }
}

/// The replacement in one body.
pub(crate) struct Replacing {
    of: Arc<Substitution>,
    /// Finds the texts of `open`; `None` if there are none.
    finder: Option<AhoCorasick>,
    /// The numbers of the texts that are still replaced.
    open: Vec<usize>,
}

impl Replacing {
    /// Appends `input` with replaced texts to `out`, and returns how many bytes of it are done. If
    /// it is not the `last`, the rest may be the beginning of a text. Stops once `out` has
    /// `out_max` bytes.
    pub fn replace(
        &mut self,
        input: &[u8],
        last: bool,
        out: &mut Vec<u8>,
        out_max: usize,
    ) -> usize {
        let mut at = 0;
        while at < input.len() && out.len() < out_max {
            let longest = self.open.iter().map(|number| self.of.list[*number].from.len()).max();
            let held = if last { 0 } else { longest.unwrap_or(1) - 1 };
            // A text that begins before this position is in the input as a whole.
            let known = input.len().saturating_sub(held);
            let found = self.finder.as_ref().and_then(|finder| finder.find(&input[at..]));
            match found.filter(|found| at + found.start() < known) {
                Some(found) => {
                    let number = self.open[found.pattern().as_usize()];
                    out.extend_from_slice(&input[at..at + found.start()]);
                    out.extend_from_slice(&self.of.list[number].text);
                    at += found.end();
                    if self.of.list[number].once {
                        self.close(number);
                    }
                }
                None if at < known => {
                    out.extend_from_slice(&input[at..known]);
                    at = known;
                }
                None => break,
            }
        }
        at
    }

    fn close(&mut self, number: usize) {
        self.open.retain(|open| *open != number);
        let open = self.open.iter().map(|number| &self.of.list[*number]);
        self.finder = match self.open.is_empty() {
            true => None,
            false => finder_of(open, self.of.ignores_case).ok(),
        };
    }
}

fn finder_of<'s>(
    list: impl Iterator<Item = &'s Substitute>,
    ignores_case: bool,
) -> Result<AhoCorasick, String> {
    let mut builder = AhoCorasick::builder();
    builder.match_kind(MatchKind::LeftmostFirst).ascii_case_insensitive(ignores_case);
    builder.build(list.map(|one| &one.from)).map_err(|error| error.to_string())
}

fn filled(template: &Template, values: &impl Values) -> Bytes {
    let mut out = Vec::new();
    for piece in template.pieces() {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Variable(variable) => {
                let mut value = Vec::new();
                values.write(variable, &mut value);
                for byte in value {
                    match byte {
                        b'&' => out.extend_from_slice(b"&amp;"),
                        b'<' => out.extend_from_slice(b"&lt;"),
                        b'>' => out.extend_from_slice(b"&gt;"),
                        b'"' => out.extend_from_slice(b"&quot;"),
                        b'\'' => out.extend_from_slice(b"&#39;"),
                        _ => out.push(byte),
                    }
                }
            }
        }
    }
    out.into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn substitution(texts: &[(&str, &str, bool)], ignores_case: bool) -> Arc<Substitution> {
        let list = texts.iter().map(|(from, to, once)| Substitute::new(from, to, *once).unwrap());
        Arc::new(Substitution::new(list.collect(), Vec::new(), ignores_case).unwrap())
    }

    /// Replaces in a body that arrives in pieces of `size` bytes.
    fn replaced(of: &Arc<Substitution>, body: &str, size: usize, out_max: usize) -> String {
        let (mut replacing, mut out) = (of.begin(), String::new());
        let mut pending = Vec::new();
        let count = body.len().div_ceil(size);
        for (number, piece) in body.as_bytes().chunks(size).enumerate() {
            pending.extend_from_slice(piece);
            loop {
                let mut made = Vec::new();
                let last = number + 1 == count;
                let done = replacing.replace(&pending, last, &mut made, out_max);
                out.push_str(std::str::from_utf8(&made).unwrap());
                pending.drain(..done);
                if done == 0 {
                    break;
                }
            }
            assert!(pending.len() < 8, "no more is held back than may be a text");
        }
        out
    }

    #[test]
    fn texts_are_replaced_wherever_the_body_is_cut() {
        let all = substitution(&[("http://a", "/", false), ("aab", "<>", false)], false);
        let once = substitution(&[("ab", "1", true), ("a", "2", false)], false);
        let any_case = substitution(&[("Ab", "1", false)], true);
        for (of, body, expected) in [
            (&all, "xhttp://ahttp://bhttp:/http://a", "x/http://bhttp://"),
            (&all, "aaaabaab http://", "aa<><> http://"),
            (&all, "", ""),
            (&all, "aa", "aa"),
            (&once, "ab ab a", "1 2b 2"),
            (&any_case, "aBAbab ba", "111 ba"),
        ] {
            for size in 1..=body.len().max(1) {
                for out_max in [1, 3, 1000] {
                    assert_eq!(replaced(of, body, size, out_max), expected, "{body} {size}");
                }
            }
        }
    }

    #[test]
    fn texts_are_bounded_and_for_all_clients() {
        let long = "x".repeat(TEXT_MAX + 1);
        for (from, to) in [
            ("", "x"),
            (long.as_str(), "x"),
            ("x", long.as_str()),
            ("x", "{path}"),
            ("x", "{header.cookie}"),
        ] {
            assert!(Substitute::new(from, to, false).is_err());
        }
        let one = Substitute::new("x", "{scheme}", false).unwrap();
        assert!(Substitution::new(vec![one; TEXTS_MAX + 1], Vec::new(), false).is_err());
    }

    #[test]
    fn values_are_escaped() {
        struct Evil;
        impl Values for Evil {
            fn write(&self, _variable: &Variable, out: &mut Vec<u8>) {
                out.extend_from_slice(b"<a href='\"'>&");
            }
        }
        let of = substitution(&[("x", "{host}<b>", false)], false).fill(&Evil).unwrap();
        let expected = "&lt;a href=&#39;&quot;&#39;&gt;&amp;<b>";
        assert_eq!(replaced(&of, "x", 1, 1000), expected);
    }
}
