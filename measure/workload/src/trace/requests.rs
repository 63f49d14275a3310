//! Traces as the lab's requests: names become dense numbers, missing sizes are taken from earlier
//! lines, and changes of size or `Last-Modified` become versions.
//!
//! Memory grows with the objects, sites, directories and clients of the traces, at about 50 bytes
//! per object, never with the requests.

use std::path::PathBuf;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::event::{Event, SkipReason};
use super::{Columns, Filter, Format, Skipped, Trace, TraceError};
use crate::contents::mix;
use crate::request::Request;

/// How traces are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    /// The format.
    pub format: Format,
    /// Columns of a CSV file without a header line.
    pub columns: Option<Columns>,
    /// Which requests count.
    pub filter: Filter,
}

/// The requests of several traces, one after another.
pub struct Requests {
    paths: std::vec::IntoIter<PathBuf>,
    options: ReadOptions,
    trace: Option<(PathBuf, Trace)>,
    done: Vec<(PathBuf, Skipped)>,
    numbering: Numbering,
    failed: Option<(PathBuf, TraceError)>,
}

impl Requests {
    /// Returns the requests from the beginning. The files are opened one after another.
    pub fn new(paths: Vec<PathBuf>, options: ReadOptions) -> Requests {
        Requests {
            paths: paths.into_iter(),
            options,
            trace: None,
            done: Vec::new(),
            numbering: Numbering::default(),
            failed: None,
        }
    }

    /// Returns what was skipped, trace by trace. Call it after the last request.
    ///
    /// # Errors
    /// The trace that could not be read to its end, and the reason.
    pub fn finish(mut self) -> Result<Vec<(PathBuf, Skipped)>, (PathBuf, TraceError)> {
        match self.failed.take() {
            Some(failed) => Err(failed),
            None => {
                let left = self.trace.take();
                self.done.extend(left.map(|(path, trace)| (path, trace.skipped().clone())));
                Ok(self.done)
            }
        }
    }

    fn advance(&mut self) -> Result<Option<Request>, (PathBuf, TraceError)> {
        loop {
            let (path, mut trace) = match self.trace.take() {
                Some(open) => open,
                None => {
                    let Some(path) = self.paths.next() else { return Ok(None) };
                    let ReadOptions { format, columns, filter } = self.options;
                    match Trace::open(&path, format, columns) {
                        Ok(trace) => (path, trace.with_filter(filter)),
                        Err(error) => return Err((path, error)),
                    }
                }
            };
            match trace.next_event() {
                Err(error) => return Err((path, error)),
                Ok(None) => self.done.push((path, trace.skipped().clone())),
                Ok(Some(event)) => {
                    let request = self.numbering.request(&event);
                    match request {
                        Numbered::Request(_) => {}
                        Numbered::NoSize => trace.pass_over(SkipReason::NoSize),
                        Numbered::Full => return Err((path, TraceError::TooManyNames)),
                    }
                    self.trace = Some((path, trace));
                    if let Numbered::Request(request) = request {
                        return Ok(Some(request));
                    }
                }
            }
        }
    }
}

/// Ends at the first error, which [`Requests::finish`] returns.
impl Iterator for Requests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if self.failed.is_some() {
            return None;
        }
        self.advance().unwrap_or_else(|failed| {
            self.failed = Some(failed);
            None
        })
    }
}

enum Numbered {
    Request(Request),
    /// The size of the object is unknown.
    NoSize,
    /// There are 2^32 names of one kind.
    Full,
}

/// Assigns numbers to names and versions to objects.
#[derive(Default)]
struct Numbering {
    clients: Names,
    sites: Names,
    groups: Names,
    objects: HashTable<u32>,
    rows: Vec<Row>,
}

/// State of an object.
#[derive(Clone, Copy)]
struct Row {
    name: u64,
    size: u64,
    modified: u64,
    version: u32,
    site: u32,
    group: u32,
}

impl Numbering {
    fn request(&mut self, event: &Event) -> Numbered {
        let Numbering { clients, sites, groups, objects, rows } = self;
        let Some(client) = clients.number(event.client) else { return Numbered::Full };
        let name = event.object;
        let found = objects.entry(
            mix(name),
            |at| rows[*at as usize].name == name,
            |at| mix(rows[*at as usize].name),
        );
        let object = match found {
            Entry::Occupied(place) => {
                let object = *place.get();
                rows[object as usize].update(event);
                object
            }
            Entry::Vacant(place) => {
                let Some(size) = event.size else { return Numbered::NoSize };
                let (site, group) = (sites.number(event.site), groups.number(event.group));
                let (Some(site), Some(group), Ok(object)) =
                    (site, group, u32::try_from(rows.len()))
                else {
                    return Numbered::Full;
                };
                let modified = event.modified;
                rows.push(Row { name, size, modified, version: 0, site, group });
                *place.insert(object).get()
            }
        };
        let row = &rows[object as usize];
        Numbered::Request(Request {
            time_ms: event.time_ms,
            size: row.size,
            client,
            site: row.site,
            group: row.group,
            object,
            version: row.version,
            status: event.status,
            method: event.method,
            kind: event.kind,
            uncacheable: event.skip_reason.is_some(),
        })
    }
}

impl Row {
    /// Applies a later line. The object has a new version if its `Last-Modified` differs. If that
    /// is not known, a different size or the log's own statement makes a new version.
    fn update(&mut self, event: &Event) {
        let told = event.modified != 0 && self.modified != 0;
        let size = event.size.unwrap_or(self.size);
        // A response that is no document (an error, a part) tells nothing about the object.
        let is_document = event.skip_reason.is_none();
        let is_changed = match told {
            true => event.modified != self.modified,
            false => is_document && (size != self.size || event.is_new_version),
        };
        self.version = self.version.saturating_add(u32::from(is_changed));
        if is_changed || is_document {
            self.size = size;
        }
        if event.modified != 0 {
            self.modified = event.modified;
        }
    }
}

/// Numbers for names of one kind.
#[derive(Default)]
struct Names {
    places: HashTable<u32>,
    names: Vec<u64>,
}

impl Names {
    fn number(&mut self, name: u64) -> Option<u32> {
        let names = &mut self.names;
        let same = |at: &u32| names[*at as usize] == name;
        match self.places.entry(mix(name), same, |at| mix(names[*at as usize])) {
            Entry::Occupied(place) => Some(*place.get()),
            Entry::Vacant(place) => {
                let number = u32::try_from(names.len()).ok()?;
                names.push(name);
                Some(*place.insert(number).get())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::event::hash;

    fn event(object: u64, size: impl Into<Option<u64>>) -> Event {
        let size = size.into();
        Event { object, size, site: object / 10, client: 5, status: 200, ..Event::default() }
    }

    /// Returns object, version and size of each event; `None` if it was skipped.
    fn run(events: &[Event]) -> Vec<Option<(u32, u32, u64)>> {
        let mut numbering = Numbering::default();
        let mut one = |event| match numbering.request(event) {
            Numbered::Request(request) => {
                assert_eq!((request.client, request.site), (0, request.object));
                Some((request.object, request.version, request.size))
            }
            Numbered::NoSize => None,
            Numbered::Full => panic!("there are few names"),
        };
        events.iter().map(&mut one).collect()
    }

    #[test]
    fn numbers_are_dense_and_sizes_make_versions() {
        let events = [
            event(u64::MAX, 7),
            event(hash(b"b"), 8),
            event(u64::MAX, 7),
            event(u64::MAX, 9),
            event(u64::MAX, None),
        ];
        let expected = [(0, 0, 7), (1, 0, 8), (0, 0, 7), (0, 1, 9), (0, 1, 9)].map(Some);
        assert_eq!(run(&events), expected);
        assert_eq!(run(&[event(0, None), event(0, 4)]), [None, Some((0, 0, 4))]);
    }

    #[test]
    fn versions_follow_the_statements_of_the_log() {
        let changed = |object, size| Event { is_new_version: true, ..event(object, size) };
        let found = run(&[changed(0, 7), event(0, 7), changed(0, 7)]);
        assert_eq!(found, [(0, 0, 7), (0, 0, 7), (0, 1, 7)].map(Some));
        let modified = |modified, size| Event { modified, ..event(0, size) };
        let found = run(&[modified(3, 7), modified(3, 8), modified(4, 8), modified(0, 8)]);
        assert_eq!(found, [(0, 0, 7), (0, 0, 8), (0, 1, 8), (0, 1, 8)].map(Some));
    }

    #[test]
    fn an_error_is_no_new_version() {
        let error = Event { skip_reason: Some(SkipReason::Status), ..event(0, 99) };
        let found = run(&[event(0, 7), error, event(0, 7)]);
        assert_eq!(found, [(0, 0, 7), (0, 0, 7), (0, 0, 7)].map(Some));
    }
}
