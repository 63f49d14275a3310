//! Which files a page of HTML refers to: those that a browser asks for to show it.
//!
//! Read are the tags alone, by a tokenizer; neither style sheets nor scripts are understood, so
//! what they load is not found. It promises: work and memory grow with the bytes of the page, and
//! no further for any page; what is returned are paths of the page's own site, at most
//! [`REFERENCES_MAX`].

use files::canonical_path;
use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use semantics::Url;

/// References of a page that are returned.
pub(crate) const REFERENCES_MAX: usize = 64;

/// References of a page that are resolved: many of them may lead elsewhere.
const RESOLVED_MAX: usize = 512;

/// Bytes of a reference; what is longer is most likely no name but the bytes themselves (`data:`).
const REFERENCE_MAX: usize = 1024;

/// What is encoded before a reference is resolved, as browsers do, who take what is not in order.
const ENCODED: AsciiSet = CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`');

/// The kinds of `link` that are loaded with the page.
const LOADED: [&str; 6] =
    ["stylesheet", "icon", "apple-touch-icon", "preload", "modulepreload", "manifest"];

/// Returns the paths of the files that `html` refers to, read as the page at `url`: each once, in
/// the spelling that all with the same meaning share ([`canonical_path`]).
pub(crate) fn references(html: &[u8], url: &Url) -> Vec<String> {
    let mut reading = Reading::new(url);
    let callback = |event: CallbackEvent<'_>, _: Span<()>| reading.take(&event);
    let mut emitter = CallbackEmitter::new(callback);
    // Without it the text of scripts would be taken for tags.
    emitter.naively_switch_states(true);
    // The first token is the sign that there is enough.
    let _enough = Tokenizer::new_with_emitter(html, emitter).next();
    reading.found
}

/// What the value of an attribute says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// A reference.
    Reference,
    /// References with descriptors, between commas (`srcset`).
    Candidates,
    /// What relative references are relative to.
    Base,
    /// How a link is meant.
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

/// The page as far as it is read.
struct Reading<'a> {
    page: &'a Url,
    /// What the first `base` says.
    base: Option<Url>,
    /// The tag that is open.
    tag: Vec<u8>,
    /// What the next value means.
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

    /// Takes what comes next. `Some`: that is enough.
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
            // Attributes of an end tag mean nothing.
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

    /// Takes the references of a tag whose attributes are all there.
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

    /// Resolves a reference (RFC 3986, 5).
    fn resolve(&self, reference: &[u8]) -> Option<Url> {
        let reference = reference.trim_ascii();
        if reference.is_empty() || reference.len() > REFERENCE_MAX {
            return None;
        }
        let reference = percent_encode(reference, &ENCODED).to_string();
        self.base.as_ref().unwrap_or(self.page).resolve(&reference)
    }

    /// Returns the path of a file of this site.
    fn path(&self, url: &Url) -> Option<String> {
        let path = url.path_and_query().split('?').next().unwrap_or_default();
        let is_file = url.authority() == self.page.authority() && !path.ends_with('/');
        canonical_path(path.as_bytes()).ok().filter(|_| is_file)
    }
}

/// Returns the references of a `srcset`: what stands before the descriptors.
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
