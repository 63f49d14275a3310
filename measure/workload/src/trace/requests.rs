//! Traces as the lab's requests: names become dense numbers, missing sizes are taken from earlier
//! lines, and changes of size or `Last-Modified` become versions.
//!
//! Logs state how much was sent, which is not always the size of the object. A hit, a part and a
//! transfer that is known to have broken off make no version. Neither does a size below the known
//! one, unless it comes twice in a row, or the object's earlier ones did not end with the known
//! size again ([`Row::is_short`]).
//!
//! Memory grows with the objects, sites, directories and clients of the traces, at about 50 bytes
//! per object, never with the requests.

use std::num::NonZeroU64;
use std::path::PathBuf;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::event::{Event, Measure, SkipReason};
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
            numbering: Numbering { filter: options.filter, ..Numbering::default() },
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
                self.done.extend(left.map(|(path, trace)| (path, trace.skipped())));
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
                Ok(None) => self.done.push((path, trace.skipped())),
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
    filter: Filter,
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
    /// The last size plus 1, if it was below `size` and taken for a transfer that broke off.
    short: Option<NonZeroU64>,
    version: u32,
    site: u32,
    group: u32,
    /// How often the known size came back after a shorter one, less how often it did not.
    returns: i8,
    /// True if `size` is the largest part that was seen.
    is_part: bool,
}

impl Numbering {
    fn request(&mut self, event: &Event) -> Numbered {
        let Numbering { filter, clients, sites, groups, objects, rows } = self;
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
                rows[object as usize].update(event, *filter);
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
                rows.push(Row {
                    name,
                    size,
                    modified: event.modified,
                    short: None,
                    version: 0,
                    site,
                    group,
                    returns: 0,
                    is_part: event.measure == Measure::Part,
                });
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

/// Difference of two response heads of one object, in bytes, that makes no version where a log
/// counts the head: fields such as `Age` and `Via`.
const HEADS: u64 = 256;

/// Value of [`Row::returns`] from which on each smaller size is a version.
const RETURNS_MIN: i8 = -2;

impl Row {
    /// Applies a later line. The object has a new version if its `Last-Modified` differs. If that
    /// is not known, a different size or the log's own statement makes a new version.
    fn update(&mut self, event: &Event, filter: Filter) {
        let told = event.modified != 0 && self.modified != 0;
        // An error tells nothing about the object.
        let is_document = event.skip_reason.is_none();
        let is_changed = match told {
            true => event.modified != self.modified,
            false => is_document && self.is_other(event, filter),
        };
        self.version = self.version.saturating_add(u32::from(is_changed));
        if let Some(size) = event.size.filter(|_| is_changed || is_document) {
            self.take_size(size, event, is_changed);
        }
        if is_changed {
            self.short = None;
        }
        if event.modified != 0 {
            self.modified = event.modified;
        }
    }

    /// Returns whether the event is for another version, by its size or the log's statement.
    fn is_other(&mut self, event: &Event, filter: Filter) -> bool {
        let Some(size) = event.size else { return event.is_new_version };
        if filter == Filter::Papers {
            return size != self.size || event.is_new_version;
        }
        if event.is_new_version {
            return true;
        }
        if event.is_hit || event.measure == Measure::Part || self.is_part {
            return false;
        }
        let slack = if event.measure == Measure::SentWithHead { HEADS } else { 0 };
        if size.abs_diff(self.size) <= slack {
            let was_short = self.short.take().is_some();
            self.returns = self.returns.saturating_add(i8::from(was_short));
            return false;
        }
        if size > self.size {
            self.returns = self.returns.saturating_sub(i8::from(self.short.is_some()));
            return true;
        }
        event.measure == Measure::Object || !self.is_short(size)
    }

    /// Takes over the size of an event, if it is that of the object.
    fn take_size(&mut self, size: u64, event: &Event, is_changed: bool) {
        let is_part = event.measure == Measure::Part;
        if is_changed || self.is_part && !is_part {
            (self.size, self.is_part) = (size, is_part);
        } else if self.is_part {
            self.size = self.size.max(size);
        } else if !is_part && !event.is_hit && self.short.is_none() {
            self.size = size;
        }
    }

    /// Returns whether a size below the known one is that of a transfer that broke off.
    fn is_short(&mut self, size: u64) -> bool {
        if let Some(short) = self.short {
            self.returns = self.returns.saturating_sub(1);
            if short.get() == size.saturating_add(1) {
                return false;
            }
        }
        self.short = NonZeroU64::new(size.saturating_add(1));
        self.returns > RETURNS_MIN
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

    /// Returns versions and sizes, with all requests for one object.
    fn versions(measure: Measure, sizes: &[u64]) -> Vec<(u32, u64)> {
        let events: Vec<Event> =
            sizes.iter().map(|size| Event { measure, ..event(0, *size) }).collect();
        run(&events).into_iter().flatten().map(|(_, version, size)| (version, size)).collect()
    }

    #[test]
    fn transfers_that_broke_off_are_no_versions() {
        let sent = |sizes: &[u64]| versions(Measure::Sent, sizes);
        assert_eq!(sent(&[9, 3, 9, 0, 9]), [(0, 9); 5]);
        assert_eq!(sent(&[9, 3, 3, 3]), [(0, 9), (0, 9), (1, 3), (1, 3)], "twice in a row");
        assert_eq!(sent(&[3, 9, 9]), [(0, 3), (1, 9), (1, 9)]);
        // A document that always changes is soon known as one.
        let changing: Vec<u64> = (0..20).map(|number| 100 + number * 7 % 20).collect();
        assert!(sent(&changing)[19].0 >= 16, "{:?}", sent(&changing));
        assert_eq!(versions(Measure::Object, &[9, 3, 9])[2].0, 2, "sizes of objects are exact");
    }

    #[test]
    fn parts_and_hits_are_no_versions() {
        let part = |size: u64| Event { measure: Measure::Part, ..event(0, size) };
        let found = run(&[part(4), part(9), part(2), event(0, 20), part(3), event(0, 20)]);
        let sizes = [4, 9, 9, 20, 20, 20];
        assert_eq!(found, sizes.map(|size| Some((0, 0, size))));
        let hit = |size: u64| Event { is_hit: true, ..event(0, size) };
        assert_eq!(run(&[event(0, 7), hit(8), event(0, 7)]), [Some((0, 0, 7)); 3]);
        let with_head = |sizes: &[u64]| versions(Measure::SentWithHead, sizes);
        let found = with_head(&[1_000, 1_040, 900, 2_000]).into_iter().map(|(version, _)| version);
        assert_eq!(found.collect::<Vec<_>>(), [0, 0, 0, 1]);
    }

    #[test]
    fn an_error_is_no_new_version() {
        let error = Event { skip_reason: Some(SkipReason::Status), ..event(0, 99) };
        let found = run(&[event(0, 7), error, event(0, 7)]);
        assert_eq!(found, [(0, 0, 7), (0, 0, 7), (0, 0, 7)].map(Some));
    }
}
