//! The page that lists a directory.
//!
//! Directories come first, then files, each in the order of their names' bytes. What a request
//! would not get is not listed: hidden names, symbolic links that the policy does not allow, what
//! is neither file nor directory.
//!
//! A directory may be as large as its owner likes, so the page has bounds: of at most [`READ_MAX`]
//! entries the first [`LISTED_MAX`] are shown, and the page says when there are more.

use std::collections::BTreeSet;
use std::io;

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use rustix::fs::{Dir, FileType, fstat};

use crate::found::Listing;
use crate::request_path::{encode, is_hidden};
use crate::resolve::{Purpose, Resolver};
use crate::select::{Look, join, kind, refusal};
use crate::version::{self, Version};

/// The number of entries on a page.
pub const LISTED_MAX: usize = 2_000;

/// The number of entries of a directory that are read.
pub const READ_MAX: usize = 100_000;

/// The look of the page: the system's font, light or dark as the reader's system is, no column
/// wider than a phone.
const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}\
h1{font-size:1.25rem;overflow-wrap:anywhere}\
table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.25rem .5rem;border-bottom:1px solid #8884;vertical-align:top}\
td:first-child{overflow-wrap:anywhere}\
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
@media(max-width:32rem){.t{display:none}}";

/// A page in HTML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingPage {
    /// The page, in UTF-8.
    pub html: String,
    /// A strong entity tag, made of the page.
    pub etag: String,
}

/// One line: directories sort before files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    is_file: bool,
    bytes: Vec<u8>,
}

/// What is shown of a directory.
#[derive(Debug, Default)]
struct Entries {
    /// The first names, with the version of each.
    shown: Vec<(Name, Version)>,
    /// There are more.
    is_cut: bool,
}

/// Makes the page of a directory.
pub(crate) fn page(
    resolver: &Resolver,
    hide_dotfiles: bool,
    listing: &Listing,
) -> io::Result<ListingPage> {
    let entries = read(resolver, hide_dotfiles, &listing.path)?;
    let html = render(&listing.title, listing.path.is_empty(), &entries).into_string();
    let etag = version::etag_of(html.as_bytes());
    Ok(ListingPage { html, etag })
}

/// Reads the first entries of a directory.
fn read(resolver: &Resolver, hide_dotfiles: bool, path: &[u8]) -> io::Result<Entries> {
    let descriptor = resolver.open(path, Purpose::List).result?;
    let mut names = BTreeSet::new();
    let mut entries = Entries::default();
    let mut count = 0;
    for entry in Dir::new(descriptor)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        count += 1;
        if count > READ_MAX {
            entries.is_cut = true;
            break;
        }
        if hide_dotfiles && is_hidden(name) {
            continue;
        }
        let Some(is_file) = is_file(resolver, path, name, entry.file_type())? else { continue };
        names.insert(Name { is_file, bytes: name.to_vec() });
        if names.len() > LISTED_MAX {
            names.pop_last();
            entries.is_cut = true;
        }
    }
    for name in names {
        match (look(resolver, &join(path, &name.bytes))?, name.is_file) {
            (Look::File(version), true) | (Look::Directory(version), false) => {
                entries.shown.push((name, version));
            }
            // It was changed meanwhile.
            _ => {}
        }
    }
    Ok(entries)
}

/// Returns whether an entry is a file or else a directory; `None` when it is not listed.
fn is_file(
    resolver: &Resolver,
    path: &[u8],
    name: &[u8],
    told: FileType,
) -> io::Result<Option<bool>> {
    match told {
        FileType::RegularFile => Ok(Some(true)),
        FileType::Directory => Ok(Some(false)),
        // Not every file system tells.
        FileType::Symlink | FileType::Unknown => Ok(match look(resolver, &join(path, name))? {
            Look::File(_) => Some(true),
            Look::Directory(_) => Some(false),
            Look::Other | Look::Missing | Look::Forbidden => None,
        }),
        _ => Ok(None),
    }
}

fn look(resolver: &Resolver, path: &[u8]) -> io::Result<Look> {
    match resolver.open(path, Purpose::Look).result {
        Ok(descriptor) => Ok(kind(&fstat(descriptor)?)),
        Err(errno) => refusal(errno),
    }
}

/// Writes the page. It has no script and fetches nothing. From the top, which need not be that of
/// the URL, no link leads upwards: there is nothing of this root.
fn render(title: &[u8], is_top: bool, entries: &Entries) -> Markup {
    let slash = if title.is_empty() { "" } else { "/" };
    let title = format!("Index of /{}{slash}", String::from_utf8_lossy(title));
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
                        th scope="col" { "Name" }
                        th.n scope="col" { "Size" }
                        th.n.t scope="col" { "Modified (UTC)" }
                    } }
                    tbody {
                        @if !is_top {
                            tr { td { a href="../" { "../" } } td.n {} td.n.t {} }
                        }
                        @for (name, version) in &entries.shown { (row(name, version)) }
                    }
                }
                @if entries.is_cut {
                    p { "Only " (entries.shown.len()) " entries are shown, there are more." }
                }
            }
        }
    }
}

fn row(name: &Name, version: &Version) -> Markup {
    let slash = if name.is_file { "" } else { "/" };
    let link = format!("{}{slash}", encode(&name.bytes));
    html! {
        tr {
            td { a href=(link) { (String::from_utf8_lossy(&name.bytes)) (slash) } }
            @if name.is_file {
                td.n title={ (version.size) " bytes" } { (size(version.size)) }
            } @else {
                td.n {}
            }
            td.n.t { (modified(version)) }
        }
    }
}

/// Writes a size for reading: `714 B`, `1.4 KiB`.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut amount = bytes as f64 / 1024.0;
    let mut units = UNITS.into_iter();
    let mut unit = units.next();
    if amount < 1.0 {
        return format!("{bytes} B");
    }
    // What would be rounded to 1,024 of a unit is one of the next.
    while amount >= 1023.95
        && let Some(next) = units.next()
    {
        amount /= 1024.0;
        unit = Some(next);
    }
    format!("{amount:.1} {}", unit.unwrap_or_default())
}

fn modified(version: &Version) -> String {
    let time = Timestamp::from_second(version.modified.seconds);
    time.map_or(String::new(), |time| time.strftime("%Y-%m-%d %H:%M").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

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
