//! The page that lists a directory, in HTML or JSON, as a whole or in parts.
//!
//! It lists only names that a request could get: files and directories that are neither hidden nor
//! behind a symbolic link that the policy forbids.
//!
//! A directory may be arbitrarily large, so the work is bounded: at most [`READ_MAX`] entries are
//! read, and a page has at most [`LISTED_MAX`] of them, or [`JSON_MAX`] in JSON. Pages link to the
//! previous and the next one, and the page says so if entries were not read. Files are examined
//! only where the order or the page needs it.

mod query;

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::io;

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use rustix::fs::{AtFlags, Dir, FileType, Stat, fstat, statat};
use rustix::io::Errno;

use crate::found::Listing;
use crate::request_path::{encode, is_hidden};
use crate::resolve::{Purpose, Resolver};
use crate::select::{Look, join, kind, refusal};
use crate::version::{self, Version};

use query::Sort;

pub use query::ListingQuery;

/// Maximum number of entries on a page.
pub const LISTED_MAX: usize = 2_000;

/// Maximum number of entries in a JSON array.
const JSON_MAX: usize = 100_000;

/// Maximum number of entries read from a directory.
pub const READ_MAX: usize = 500_000;

/// The bit for a directory in the mode values of Caddy's listings, which are Go's.
const GO_DIRECTORY: u32 = 1 << 31;

/// The bit for a symbolic link in the same values.
const GO_LINK: u32 = 1 << 27;

/// The style sheet of the page: the system's font, light or dark as the reader's system, and no
/// column wider than a phone.
const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}\
h1{font-size:1.25rem;overflow-wrap:anywhere}\
table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.25rem .5rem;border-bottom:1px solid #8884;vertical-align:top}\
td:first-child{overflow-wrap:anywhere}\
th a{color:inherit}\
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
@media(max-width:32rem){.t{display:none}}";

/// A rendered listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingPage {
    /// The body, in UTF-8.
    pub text: String,
    /// The value of `Content-Type`.
    pub media_type: &'static str,
    /// The query of the next page, beginning with `?`, if there is one.
    pub next: Option<String>,
    /// A strong entity tag computed from the text.
    pub etag: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    name: Box<[u8]>,
    is_file: bool,
    is_link: bool,
    /// The version and the mode, once examined.
    state: Option<(Version, u32)>,
}

/// The listed entries of a directory.
#[derive(Debug, Default)]
struct Entries {
    shown: Vec<Entry>,
    /// The number of entries on all pages.
    count: usize,
    /// True if entries were left unread.
    is_cut: bool,
}

/// A directory that is being read.
struct Directory<'a> {
    resolver: &'a Resolver,
    path: &'a [u8],
    entries: Dir,
}

/// Renders the page of a directory that `wanted` selects.
pub(crate) fn page(
    resolver: &Resolver,
    hide_dotfiles: bool,
    listing: &Listing,
    wanted: &ListingQuery,
) -> io::Result<ListingPage> {
    let most = if wanted.is_json { JSON_MAX } else { LISTED_MAX };
    let limit = wanted.limit.unwrap_or(most).min(most);
    let wanted = ListingQuery { limit: wanted.limit.map(|_| limit), ..*wanted };
    let directory = Directory::open(resolver, &listing.path)?;
    let entries = directory.read(hide_dotfiles, &wanted, limit)?;
    let next = wanted.offset.saturating_add(limit);
    let next = (next < entries.count).then_some(ListingQuery { offset: next, ..wanted });
    let next = next.map(ListingQuery::to_query);
    let (text, media_type) = match wanted.is_json {
        true => (to_json(&entries.shown), "application/json"),
        false => {
            let page = Page { wanted, limit, next: next.as_deref(), entries: &entries };
            let html = page.render(&listing.title, listing.path.is_empty());
            (html.into_string(), "text/html; charset=utf-8")
        }
    };
    let etag = version::etag_of(text.as_bytes());
    Ok(ListingPage { text, media_type, next, etag })
}

impl<'a> Directory<'a> {
    fn open(resolver: &'a Resolver, path: &'a [u8]) -> io::Result<Directory<'a>> {
        let descriptor = resolver.open(path, Purpose::List).result?;
        Ok(Directory { resolver, path, entries: Dir::new(descriptor)? })
    }

    /// Reads the entries, and examines those that the page or its order needs.
    fn read(
        mut self,
        hide_dotfiles: bool,
        wanted: &ListingQuery,
        limit: usize,
    ) -> io::Result<Entries> {
        let (mut all, is_cut) = self.names(hide_dotfiles)?;
        if matches!(wanted.sort, Sort::Size | Sort::Time) {
            self.look_at_all(&mut all)?;
        }
        let (sort, is_descending) = (wanted.sort, wanted.is_descending);
        all.sort_unstable_by(|a, b| match is_descending {
            true => compare(sort, b, a),
            false => compare(sort, a, b),
        });
        let count = all.len();
        let mut shown: Vec<Entry> = all.into_iter().skip(wanted.offset).take(limit).collect();
        self.look_at_all(&mut shown)?;
        Ok(Entries { shown, count, is_cut })
    }

    /// Returns the entries read, and whether there are more.
    fn names(&mut self, hide_dotfiles: bool) -> io::Result<(Vec<Entry>, bool)> {
        let (mut all, mut count) = (Vec::new(), 0);
        while let Some(entry) = self.entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            count += 1;
            if count > READ_MAX {
                return Ok((all, true));
            }
            if hide_dotfiles && is_hidden(name) {
                continue;
            }
            all.extend(self.entry(name, entry.file_type())?);
        }
        Ok((all, false))
    }

    /// Returns the entry of this name; `None` if it must not be listed.
    fn entry(&self, name: &[u8], told: FileType) -> io::Result<Option<Entry>> {
        let is_file = match told {
            FileType::RegularFile => Some(true),
            FileType::Directory => Some(false),
            // Not every file system reports the type.
            FileType::Symlink | FileType::Unknown => None,
            _ => return Ok(None),
        };
        let (is_link, name) = (told == FileType::Symlink, name.into());
        let mut entry = Entry { name, is_file: is_file == Some(true), is_link, state: None };
        let is_listed = is_file.is_some() || self.look_at(&mut entry)?;
        Ok(is_listed.then_some(entry))
    }

    /// Examines the entries not examined yet, and removes those that no longer are what the
    /// directory said.
    fn look_at_all(&self, entries: &mut Vec<Entry>) -> io::Result<()> {
        let mut failed = Ok(());
        entries.retain_mut(|entry| {
            let was_file = entry.is_file;
            match entry.state.is_some() || failed.is_err() {
                true => true,
                false => match self.look_at(entry) {
                    Ok(is_listed) => is_listed && was_file == entry.is_file,
                    Err(why) => {
                        failed = Err(why);
                        true
                    }
                },
            }
        });
        failed
    }

    /// Examines the target of an entry. Returns whether it is listed.
    fn look_at(&self, entry: &mut Entry) -> io::Result<bool> {
        let Some(stat) = self.stat(entry)? else { return Ok(false) };
        let (version, is_file) = match kind(&stat) {
            Look::File(version) => (version, true),
            Look::Directory(version) => (version, false),
            Look::Other | Look::Missing | Look::Forbidden => return Ok(false),
        };
        (entry.state, entry.is_file) = (Some((version, stat.st_mode)), is_file);
        Ok(true)
    }

    fn stat(&self, entry: &Entry) -> io::Result<Option<Stat>> {
        if !entry.is_link {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let stat = statat(self.entries.fd()?, &*entry.name, flags);
            if !matches!(&stat, Ok(stat) if is_link(stat)) {
                return stat.map_or_else(nothing, |stat| Ok(Some(stat)));
            }
        }
        match self.resolver.open(&join(self.path, &entry.name), Purpose::Look).result {
            Ok(descriptor) => Ok(Some(fstat(descriptor)?)),
            Err(errno) => nothing(errno),
        }
    }
}

fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// Returns `None` if the error means that the entry is not listed, else the error.
fn nothing(errno: Errno) -> io::Result<Option<Stat>> {
    refusal(errno).map(|_| None)
}

fn compare(sort: Sort, a: &Entry, b: &Entry) -> Ordering {
    let size = |entry: &Entry| match &entry.state {
        Some((version, _)) if entry.is_file => version.size,
        _ => 0,
    };
    let time = |entry: &Entry| entry.state.as_ref().map(|(version, _)| version.modified);
    let first = match sort {
        Sort::Name => Ordering::Equal,
        Sort::NameDirectoriesFirst => a.is_file.cmp(&b.is_file),
        Sort::Size => a.is_file.cmp(&b.is_file).then_with(|| size(a).cmp(&size(b))),
        Sort::Time => time(a).cmp(&time(b)),
    };
    first.then_with(|| a.name.cmp(&b.name))
}

/// A listing rendered as an HTML page.
struct Page<'a> {
    wanted: ListingQuery,
    limit: usize,
    next: Option<&'a str>,
    entries: &'a Entries,
}

impl Page<'_> {
    /// Renders the page. It has no script and fetches nothing. The top directory, which need not be
    /// the top of the URL, has no link upwards, because nothing above it belongs to this root.
    fn render(&self, title: &[u8], is_top: bool) -> Markup {
        let slash = if title.is_empty() { "" } else { "/" };
        let title = format!("Index of /{}{slash}", String::from_utf8_lossy(title));
        let column = |sort, text: &str| {
            html! { a rel="nofollow" href=(self.wanted.sorted_by(sort).to_query()) { (text) } }
        };
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    h1 { (title) }
                    table {
                        thead { tr {
                            th scope="col" { (column(Sort::NameDirectoriesFirst, "Name")) }
                            th.n scope="col" { (column(Sort::Size, "Size")) }
                            th.n.t scope="col" { (column(Sort::Time, "Modified (UTC)")) }
                        } }
                        tbody {
                            @if !is_top {
                                tr { td { a href="../" { "../" } } td.n {} td.n.t {} }
                            }
                            @for entry in &self.entries.shown { (row(entry)) }
                        }
                    }
                    (self.place())
                }
            }
        }
    }

    /// Renders the position within the directory and links to the other parts; nothing if the page
    /// shows all of it.
    fn place(&self) -> Markup {
        let (offset, Entries { shown, count, is_cut }) = (self.wanted.offset, self.entries);
        let previous = offset.saturating_sub(self.limit);
        let previous = ListingQuery { offset: previous.min(*count), ..self.wanted };
        html! {
            @if *is_cut {
                p { "There are more entries: only the first " (READ_MAX) " were read." }
            }
            @if offset > 0 || self.next.is_some() {
                p {
                    (shown.len()) " of " (count) " entries, " (offset) " before them."
                    @if offset > 0 {
                        " " a rel="prev" href=(previous.to_query()) { "Previous page" }
                    }
                    @if let Some(next) = self.next {
                        " " a rel="next" href=(next) { "Next page" }
                    }
                }
            }
        }
    }
}

fn row(entry: &Entry) -> Markup {
    let slash = if entry.is_file { "" } else { "/" };
    let version = entry.state.as_ref().map(|(version, _)| version);
    html! {
        tr {
            td { a href=(link(entry)) { (String::from_utf8_lossy(&entry.name)) (slash) } }
            @if let Some(version) = version.filter(|_| entry.is_file) {
                td.n title={ (version.size) " bytes" } { (size(version.size)) }
            } @else {
                td.n {}
            }
            td.n.t { (version.map(modified).unwrap_or_default()) }
        }
    }
}

/// Returns the link to an entry, relative to the directory. A name with a colon gets a `./` in
/// front, because it would otherwise parse as a scheme.
fn link(entry: &Entry) -> String {
    let (name, slash) = (encode(&entry.name), if entry.is_file { "" } else { "/" });
    let begin = if name.contains(':') { "./" } else { "" };
    format!("{begin}{name}{slash}")
}

/// Formats entries as Caddy does: a JSON array of objects.
fn to_json(entries: &[Entry]) -> String {
    let mut text = String::from("[");
    for (at, entry) in entries.iter().enumerate() {
        let Some((version, mode)) = &entry.state else { continue };
        let slash = if entry.is_file { "" } else { "/" };
        let kind = if entry.is_file { 0 } else { GO_DIRECTORY };
        let mode = (mode & 0o777) | kind | if entry.is_link { GO_LINK } else { 0 };
        let time = timestamp(version).unwrap_or_default();
        let (name, url) = (String::from_utf8_lossy(&entry.name), encode(&entry.name));
        if at > 0 {
            text.push(',');
        }
        text.push_str("{\"name\":\"");
        push_escaped(&mut text, &name);
        // Writing to memory cannot fail.
        let _ = write!(
            text,
            "{slash}\",\"size\":{},\"url\":\"./{url}{slash}\",\"mod_time\":\"{time}\",\
             \"mode\":{mode},\"is_dir\":{},\"is_symlink\":{}}}",
            version.size, !entry.is_file, entry.is_link
        );
    }
    text.push_str("]\n");
    text
}

/// Appends the content of a JSON string (RFC 8259, 7), escaped so that it is also safe in HTML.
fn push_escaped(text: &mut String, part: &str) {
    for letter in part.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            '<' | '>' | '&' | '\'' | '\u{2028}' | '\u{2029}' | '\0'..=' ' | '\u{7f}'
                if letter != ' ' =>
            {
                // Writing to memory cannot fail.
                let _ = write!(text, "\\u{:04x}", u32::from(letter));
            }
            _ => text.push(letter),
        }
    }
}

/// Formats a size for people: `714 B`, `1.4 KiB`.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut amount = bytes as f64 / 1024.0;
    let mut units = UNITS.into_iter();
    let mut unit = units.next();
    if amount < 1.0 {
        return format!("{bytes} B");
    }
    // A value that would round to 1,024 belongs to the next unit.
    while amount >= 1023.95
        && let Some(next) = units.next()
    {
        amount /= 1024.0;
        unit = Some(next);
    }
    format!("{amount:.1} {}", unit.unwrap_or_default())
}

fn modified(version: &Version) -> String {
    timestamp(version).map_or(String::new(), |time| time.strftime("%Y-%m-%d %H:%M").to_string())
}

fn timestamp(version: &Version) -> Option<Timestamp> {
    let nanoseconds = i32::try_from(version.modified.nanoseconds).ok()?;
    Timestamp::new(version.modified.seconds, nanoseconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_in_json() {
        let mut text = String::new();
        push_escaped(&mut text, "a \"\\\n\0</script>&'\u{2028}\u{7f}é");
        let expected = r#"a \"\\\u000a\u0000\u003c/script\u003e\u0026\u0027\u2028\u007fé"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn sizes_are_rounded_to_a_tenth() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1434, "1.4 KiB"),
            (1_048_524, "1023.9 KiB"),
            (1_048_575, "1.0 MiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }
}
