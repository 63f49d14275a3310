//! Web sites that differ in where the files of their pages lie, and the groupings that a cache may
//! be given.
//!
//! The pages and parts are those of a stream, in which no two pages share a part. A site assigns
//! directories to them and replaces a tenth of the parts by files that many pages share.

use std::collections::{HashMap, VecDeque};

use workload::contents::mix;
use workload::request::{Kind, Request};

/// Pages per directory, in sites where pages share directories.
const BLOCK: u32 = 64;
/// Number of shared files per block of pages, and the size of each in bytes.
const SHARED: u64 = 4;
const SHARED_BYTES: u64 = 8_000;
/// The number of the first shared file, above those of the stream.
const FIRST_SHARED: u32 = 1 << 30;
/// One part in this many is a shared file.
const SHARED_EVERY: u64 = 10;

/// How the files of a site are arranged in directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Website {
    /// Each page in a directory of its own, with its parts.
    Beside,
    /// Like `Beside`, but half of the parts lie in a directory of 64 pages.
    Half,
    /// Like `Half`, but the page is `NAME.html` in a directory of 64 pages and is requested as
    /// `NAME/`.
    Clean,
    /// 64 pages in one directory, all of their parts in another.
    Apart,
    /// All pages in one directory, all parts in another.
    Flat,
}

/// Grouping of objects that is given to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    Nothing,
    Url,
    File,
    /// The directory of the only page that refers to the file; otherwise the file's own directory.
    PagesDirectory,
    /// The only page that refers to the file; otherwise the file's directory.
    Page,
}

impl Grouping {
    pub(super) const ALL: [Grouping; 5] = [
        Grouping::Nothing,
        Grouping::Url,
        Grouping::File,
        Grouping::PagesDirectory,
        Grouping::Page,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Grouping::Nothing => "nothing",
            Grouping::Url => "URL's directory",
            Grouping::File => "file's directory",
            Grouping::PagesDirectory => "page's directory",
            Grouping::Page => "page",
        }
    }
}

impl Website {
    pub(super) const ALL: [Website; 5] =
        [Website::Beside, Website::Half, Website::Clean, Website::Apart, Website::Flat];

    /// Returns the groupings to measure; the others would repeat one of these.
    pub(super) fn groupings(self) -> &'static [Grouping] {
        match self {
            Website::Beside => &[Grouping::Nothing, Grouping::Url, Grouping::Page],
            Website::Half => &[Grouping::Url, Grouping::Page],
            Website::Clean => {
                &[Grouping::Url, Grouping::File, Grouping::PagesDirectory, Grouping::Page]
            }
            Website::Apart | Website::Flat => {
                &[Grouping::Url, Grouping::PagesDirectory, Grouping::Page]
            }
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Website::Beside => "parts beside their page",
            Website::Half => "half of the parts elsewhere",
            Website::Clean => "the same, clean URLs",
            Website::Apart => "all parts elsewhere",
            Website::Flat => "two directories",
        }
    }

    /// Returns the request on this site, with the location of its file.
    pub(super) fn place(self, request: &Request) -> Placed {
        let page = request.group;
        let is_page = request.kind == Kind::Html;
        let chance = mix(u64::from(request.object));
        let is_shared = !is_page && chance.is_multiple_of(SHARED_EVERY);
        let own = directory(Level::Own, page);
        let block = if self == Website::Flat { 0 } else { page / BLOCK };
        let pages = directory(Level::Pages, block);
        let parts = directory(Level::Parts, block);
        let elsewhere = is_shared || chance >> 8 & 1 == 0;
        let (url, file) = match (self, is_page) {
            (Website::Clean, true) => (own, pages),
            (Website::Beside | Website::Half, true) => (own, own),
            (Website::Apart | Website::Flat, true) => (pages, pages),
            (Website::Beside, false) if !is_shared => (own, own),
            (Website::Half | Website::Clean, false) if !elsewhere => (own, own),
            (_, false) => (parts, parts),
        };
        let mut asked = Request { site: 0, group: url, ..*request };
        if is_shared {
            let number = u64::from(page / BLOCK) * SHARED + (chance >> 16) % SHARED;
            asked.object = FIRST_SHARED + number as u32;
            asked.size = SHARED_BYTES;
        }
        Placed { request: asked, page, own, file }
    }
}

/// The kinds of directories of a site.
#[derive(Clone, Copy)]
enum Level {
    Own,
    Pages,
    Parts,
}

fn directory(level: Level, number: u32) -> u32 {
    number * 3 + level as u32
}

/// A request with the location of its file.
pub(super) struct Placed {
    /// The request; its group is the directory of its URL.
    pub(super) request: Request,
    /// Number of the page that is requested, or that the part belongs to.
    page: u32,
    /// A group number for that page alone.
    own: u32,
    file: u32,
}

impl Placed {
    fn is_page(&self) -> bool {
        self.request.kind == Kind::Html
    }
}

/// The content of the pages: which page refers to which files.
#[derive(Default)]
pub(super) struct Contents(HashMap<u32, Vec<u32>>);

impl Contents {
    /// Collects the references of all pages in `requests`.
    pub(super) fn of(site: Website, requests: impl Iterator<Item = Request>) -> Contents {
        let mut pages: HashMap<u32, Vec<u32>> = HashMap::new();
        for placed in requests.map(|request| site.place(&request)) {
            let parts = pages.entry(placed.page).or_default();
            if !placed.is_page() && !parts.contains(&placed.request.object) {
                parts.push(placed.request.object);
            }
        }
        Contents(pages)
    }
}

/// The pages that refer to a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Referrer {
    /// One page, or pages of one group.
    Group(u32),
    /// Pages of several groups.
    Several,
}

/// References read in pages when they were stored: a bounded number, the oldest forgotten first.
pub(super) struct References<'a> {
    contents: &'a Contents,
    grouping: Grouping,
    known: HashMap<u32, Referrer>,
    order: VecDeque<u32>,
    most: usize,
}

impl<'a> References<'a> {
    /// Creates an empty table of at most `most` references.
    pub(super) fn new(contents: &'a Contents, grouping: Grouping, most: usize) -> References<'a> {
        References { contents, grouping, known: HashMap::new(), order: VecDeque::new(), most }
    }

    /// Returns the group of a requested file.
    pub(super) fn group(&self, placed: &Placed) -> u32 {
        match self.grouping {
            Grouping::Nothing => directory(Level::Own, placed.request.object),
            Grouping::Url => placed.request.group,
            Grouping::File => placed.file,
            Grouping::PagesDirectory | Grouping::Page if placed.is_page() => self.of_page(placed),
            Grouping::PagesDirectory | Grouping::Page => {
                match self.known.get(&placed.request.object) {
                    Some(Referrer::Group(group)) => *group,
                    Some(Referrer::Several) | None => placed.file,
                }
            }
        }
    }

    /// Reads the references of a page that was stored.
    pub(super) fn stored(&mut self, placed: &Placed) {
        let is_read = matches!(self.grouping, Grouping::PagesDirectory | Grouping::Page);
        if !placed.is_page() || !is_read {
            return;
        }
        let group = self.of_page(placed);
        for part in self.contents.0.get(&placed.page).into_iter().flatten() {
            match self.known.get_mut(part) {
                Some(referrer) if *referrer == Referrer::Group(group) => {}
                Some(referrer) => *referrer = Referrer::Several,
                None => {
                    self.known.insert(*part, Referrer::Group(group));
                    self.order.push_back(*part);
                }
            }
        }
        while self.order.len() > self.most {
            let oldest = self.order.pop_front();
            oldest.map(|oldest| self.known.remove(&oldest));
        }
    }

    fn of_page(&self, placed: &Placed) -> u32 {
        match self.grouping {
            Grouping::Page => placed.own,
            _ => placed.file,
        }
    }
}
