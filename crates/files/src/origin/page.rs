//! Finds the files that an HTML page refers to, among those that a browser loads to show it.
//!
//! Only the tags are read, by a tokenizer. Style sheets and scripts are not interpreted, so the
//! files that they load are not found. Guarantees: for every page, work and memory grow at most in
//! proportion to its bytes; the returned paths belong to the page's own site, and are at most
//! [`REFERENCES_MAX`].

use crate::canonical_path;
use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use semantics::Url;

/// Maximum number of returned references per page.
pub(crate) const REFERENCES_MAX: usize = 64;

/// Maximum number of references to resolve per page; many of them may lead to other sites.
const RESOLVED_MAX: usize = 512;

/// Maximum length of a reference in bytes. A longer one is most likely not a name but inline data
/// (`data:`).
const REFERENCE_MAX: usize = 1024;

/// Characters to encode before a reference is resolved. Browsers do the same for malformed
/// references.
const ENCODED: AsciiSet = CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`');

/// The kinds of `link` that are loaded with the page.
const LOADED: [&str; 6] =
    ["stylesheet", "icon", "apple-touch-icon", "preload", "modulepreload", "manifest"];

/// Returns the paths of the files that `html` refers to, read as the page at `url`: each path once,
/// in canonical spelling ([`canonical_path`]).
pub(crate) fn references(html: &[u8], url: &Url) -> Vec<String> {
    let mut reading = Reading::new(url);
    let callback = |event: CallbackEvent<'_>, _: Span<()>| reading.take(&event);
    let mut emitter = CallbackEmitter::new(callback);
    // Without it the text of scripts would be parsed as tags.
    emitter.naively_switch_states(true);
    // The callback emits a token only when enough was found.
    let _enough = Tokenizer::new_with_emitter(html, emitter).next();
    reading.found
}

/// The meaning of an attribute's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Reference,
    /// Comma-separated references with descriptors (`srcset`).
    Candidates,
    /// The base of relative references.
    Base,
    /// The relation of a link (`rel`).
    Relation,
}

impl Meaning {
    fn of(tag: &[u8], attribute: &[u8]) -> Option<Meaning> {
        Some(match (tag, attribute) {
            (
                b"img" | b"source" | b"script" | b"video" | b"audio" | b"track" | b"embed",
                b"src",
            )
            | (b"video", b"poster")
            | (b"object", b"data")
            | (b"link", b"href") => Meaning::Reference,
            (b"img" | b"source", b"srcset") | (b"link", b"imagesrcset") => Meaning::Candidates,
            (b"base", b"href") => Meaning::Base,
            (b"link", b"rel") => Meaning::Relation,
            _ => return None,
        })
    }
}

/// The state of reading a page.
struct Reading<'a> {
    page: &'a Url,
    /// The URL of the first `base` element.
    base: Option<Url>,
    tag: Vec<u8>,
    /// The meaning of the next value.
    meaning: Option<Meaning>,
    /// References of the open tag.
    pending: Vec<Vec<u8>>,
    /// The open tag is a link to something that is not loaded with the page.
    is_mere_link: bool,
    resolved: usize,
    found: Vec<String>,
}

impl<'a> Reading<'a> {
    fn new(page: &'a Url) -> Reading<'a> {
        Reading {
            page,
            base: None,
            tag: Vec::new(),
            meaning: None,
            pending: Vec::new(),
            is_mere_link: false,
            resolved: 0,
            found: Vec::new(),
        }
    }

    /// Processes the next event. Returns `Some` when enough was found.
    fn take(&mut self, event: &CallbackEvent<'_>) -> Option<()> {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                self.tag.clear();
                self.tag.extend_from_slice(name);
                self.pending.clear();
                self.is_mere_link = *name == b"link";
            }
            CallbackEvent::AttributeName { name } => self.meaning = Meaning::of(&self.tag, name),
            CallbackEvent::AttributeValue { value } => self.value(value),
            CallbackEvent::CloseStartTag { .. } => self.close(),
            // Attributes of an end tag have no meaning.
            CallbackEvent::EndTag { .. } => self.tag.clear(),
            _ => {}
        }
        (self.found.len() >= REFERENCES_MAX || self.resolved >= RESOLVED_MAX).then_some(())
    }

    fn value(&mut self, value: &[u8]) {
        match self.meaning.take() {
            Some(Meaning::Reference) => self.pend(value),
            Some(Meaning::Candidates) => candidates(value).for_each(|one| self.pend(one)),
            Some(Meaning::Relation) => {
                let is_loaded = |word: &[u8]| {
                    LOADED.iter().any(|loaded| loaded.as_bytes().eq_ignore_ascii_case(word))
                };
                self.is_mere_link = !value.split(u8::is_ascii_whitespace).any(is_loaded);
            }
            Some(Meaning::Base) if self.base.is_none() => self.base = self.resolve(value),
            Some(Meaning::Base) | None => {}
        }
    }

    fn pend(&mut self, reference: &[u8]) {
        if self.pending.len() < REFERENCES_MAX && reference.len() <= REFERENCE_MAX {
            self.pending.push(reference.to_vec());
        }
    }

    /// Processes the references of a tag whose attributes are complete.
    fn close(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if self.is_mere_link {
            return;
        }
        for reference in pending {
            self.resolved += 1;
            let Some(path) = self.resolve(&reference).and_then(|url| self.path(&url)) else {
                continue;
            };
            if self.found.len() < REFERENCES_MAX && !self.found.contains(&path) {
                self.found.push(path);
            }
        }
    }

    fn resolve(&self, reference: &[u8]) -> Option<Url> {
        let reference = reference.trim_ascii();
        if reference.is_empty() || reference.len() > REFERENCE_MAX {
            return None;
        }
        let reference = percent_encode(reference, &ENCODED).to_string();
        self.base.as_ref().unwrap_or(self.page).resolve(&reference)
    }

    /// Returns the path if the URL names a file of this site.
    fn path(&self, url: &Url) -> Option<String> {
        let path = url.path_and_query().split('?').next().unwrap_or_default();
        let is_file = url.authority() == self.page.authority() && !path.ends_with('/');
        canonical_path(path.as_bytes()).ok().filter(|_| is_file)
    }
}

/// Returns the references of a `srcset`: the text before each descriptor.
fn candidates(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let reference = |candidate: &'_ [u8]| -> usize {
        let candidate = candidate.trim_ascii_start();
        candidate.iter().position(u8::is_ascii_whitespace).unwrap_or(candidate.len())
    };
    value
        .split(|byte| *byte == b',')
        .map(move |candidate| &candidate.trim_ascii_start()[..reference(candidate)])
        .filter(|reference| !reference.is_empty())
        .take(REFERENCES_MAX)
}

#[cfg(test)]
mod tests;
