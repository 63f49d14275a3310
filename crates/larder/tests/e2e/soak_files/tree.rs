//! Directories of files, changed in all the ways in which programs change files, with a history of
//! each path.
//!
//! Excluded are the changes that `docs/guide/static.md` names as invisible to any reader: a large
//! write in place that keeps the size, writes through mappings, and a second name elsewhere that a
//! file gets without a change of its own. A small write in place that takes long is recorded as not
//! ended until the next change.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use testkit::body::{self, mix};
use testkit::random::Random;

use super::history::{Content, History};

/// Number of directories, each with one writer; the writers take turns.
pub const DIRECTORIES: usize = 12;

/// The files of each directory: some have compressed siblings, which need not exist.
pub const NAMES: [&str; 12] = [
    "a.html",
    "a.html.gz",
    "a.html.zst",
    "b.html",
    "c.html",
    "d.html",
    "d.html.gz",
    "e.bin",
    "f.bin",
    "g.bin",
    "h.bin",
    "large.bin",
];

/// Size of the largest file.
const LARGEST: u64 = 5 << 20;

/// Maximum bytes written in place: few enough that one call writes them in a moment.
const IN_PLACE_MAX: u64 = 4096;

/// Maximum duration of a call that writes in place. A longer one has no definite moment: the times
/// of the file are those of its start.
const MOMENT: Duration = Duration::from_millis(5);

/// Events of a burst, more than the kernel's queue holds by default.
const BURST: usize = 20_000;

/// Number of changes of all trees, by kind.
pub static CHANGES: [AtomicU64; KINDS.len()] = [const { AtomicU64::new(0) }; KINDS.len()];

pub const KINDS: [&str; 13] = [
    "replaced",
    "in place",
    "in place again and again",
    "rewritten",
    "appended",
    "shortened",
    "deleted",
    "closed and opened",
    "directory away and back",
    "directories exchanged",
    "directory rebuilt",
    "became a link",
    "written by another name",
];

/// A directory that may be served.
pub struct Tree {
    root: PathBuf,
    /// A directory beside it on the same file system.
    outside: PathBuf,
    /// By directory, then by name.
    files: Vec<Vec<History<Content>>>,
}

/// A file of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub directory: usize,
    pub name: usize,
}

impl Place {
    /// Draws a file.
    pub fn any(random: &mut Random) -> Place {
        let directory = random.below(DIRECTORIES);
        Place { directory, name: random.below(NAMES.len()) }
    }

    /// Returns the path of its URL.
    pub fn path(self) -> String {
        format!("/{}/{}", directory_name(self.directory), NAMES[self.name])
    }

    /// Returns the file of the same name with an extension, if it is in [`NAMES`].
    pub fn sibling(self, extension: &str) -> Option<Place> {
        let name = format!("{}.{extension}", NAMES[self.name]);
        let name = NAMES.iter().position(|known| *known == name)?;
        Some(Place { name, ..self })
    }
}

/// Returns the path of a directory; some are nested deeply.
fn directory_name(directory: usize) -> String {
    match directory % 3 {
        0 => format!("d{directory}"),
        1 => format!("x/d{directory}"),
        _ => format!("x/y/z/d{directory}"),
    }
}

fn size(random: &mut Random, name: usize) -> u64 {
    let largest = if NAMES[name] == "large.bin" { LARGEST } else { 300 << 10 };
    let bits = u64::from(largest.ilog2()) + 1;
    let scale = random.below(bits + 1);
    random.below((1 << scale).min(largest + 1))
}

fn bytes_of(seed: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    body::fill(seed, 0, &mut bytes);
    bytes
}

fn create(path: &Path, seed: u64, length: u64) {
    let mut file = File::create(path).unwrap();
    bytes_of(seed, length).chunks(64 << 10).for_each(|piece| file.write_all(piece).unwrap());
}

fn close(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

impl Tree {
    /// Creates all files.
    pub fn new(root: &Path, outside: &Path, random: &mut Random) -> Tree {
        fs::create_dir_all(root.join("store")).unwrap();
        let mut files = Vec::new();
        for directory in 0..DIRECTORIES {
            fs::create_dir_all(root.join(directory_name(directory))).unwrap();
            let made = NAMES.iter().enumerate().map(|(name, text)| {
                let (seed, length) = (mix(random.word()), size(random, name));
                let path = root.join(directory_name(directory)).join(text);
                create(&path, seed, length);
                History::new(Content::bytes(seed, length))
            });
            files.push(made.collect());
        }
        Tree { root: root.to_owned(), outside: outside.to_owned(), files }
    }

    /// Returns the history of a file.
    pub fn history(&self, place: Place) -> &History<Content> {
        &self.files[place.directory][place.name]
    }

    fn at(&self, place: Place) -> PathBuf {
        self.directory(place.directory).join(NAMES[place.name])
    }

    fn directory(&self, directory: usize) -> PathBuf {
        self.root.join(directory_name(directory))
    }

    fn change(&self, place: Place, through: &[Content], work: impl FnOnce()) {
        let history = self.history(place);
        history.begin(through.iter().cloned());
        work();
        history.end();
    }

    /// Changes a file, or its directory, of a writer that owns each `step`th directory from `first`
    /// on.
    pub fn change_any(&self, random: &mut Random, first: usize, step: usize) {
        let own = DIRECTORIES.div_ceil(step) as u64;
        let directory = || (first % step..DIRECTORIES).step_by(step);
        let mut any = || {
            let turn = random.below(own) as usize;
            directory().cycle().nth(turn).expect("each writer has some")
        };
        let (one, other) = (any(), any());
        let place = Place { directory: one, name: random.below(NAMES.len()) };
        let kind = match random.below(100) {
            0..=24 => 0,
            25..=39 => 1,
            40..=45 => 2,
            46..=57 => 3,
            58..=67 => 4,
            68..=71 => 5,
            72..=77 => 6,
            78..=83 => 7,
            84..=87 => 8,
            88..=90 => 9,
            91 => 10,
            92..=95 => 11,
            _ => 12,
        };
        CHANGES[kind].fetch_add(1, Ordering::Relaxed);
        match (KINDS[kind], self.history(place).last()) {
            ("directory away and back", _) => self.move_away(one, random),
            ("directories exchanged", _) if one != other => self.exchange(one, other),
            ("directory rebuilt", _) => self.rebuild(one, random),
            ("replaced" | "directories exchanged", _) => self.replace(place, random),
            ("became a link", _) => self.link(place, random),
            (_, Content::Bytes { seed, length }) => {
                self.change_file(KINDS[kind], place, (seed, *length.end()), random);
            }
            _ => self.rewrite(place, &self.at(place), random),
        }
    }

    fn change_file(&self, kind: &str, place: Place, was: (u64, u64), random: &mut Random) {
        let (path, (seed, length)) = (self.at(place), was);
        match kind {
            "in place" if length <= IN_PLACE_MAX => self.write_in_place(place, length, random),
            "in place again and again" if length <= IN_PLACE_MAX => {
                (0..5).for_each(|_| self.write_in_place(place, length, random));
            }
            "appended" => {
                let after = length + 1 + random.below(100_000);
                let through = [Content::growing(seed, length..=after), Content::bytes(seed, after)];
                self.change(place, &through, || {
                    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
                    let bytes = bytes_of(seed, after);
                    file.write_all(&bytes[length as usize..]).unwrap();
                });
            }
            "shortened" => {
                let after = random.below(length + 1);
                self.change(place, &[Content::bytes(seed, after)], || {
                    OpenOptions::new().write(true).open(&path).unwrap().set_len(after).unwrap();
                });
            }
            "deleted" => {
                self.change(place, &[Content::Absent], || fs::remove_file(&path).unwrap());
            }
            "closed and opened" => {
                self.change(place, &[Content::Unreadable], || close(&path, 0));
                sleep(Duration::from_millis(random.below(40)));
                self.change(place, &[Content::bytes(seed, length)], || close(&path, 0o644));
            }
            "written by another name" if !path.is_symlink() => {
                let other = self.outside.join(format!("of-{}-{}", place.directory, place.name));
                fs::hard_link(&path, &other).unwrap();
                // The second name of the file becomes visible with its next change.
                close(&path, 0o644);
                self.rewrite(place, &other, random);
                sleep(Duration::from_millis(random.below(40)));
                self.rewrite(place, &other, random);
                fs::remove_file(other).unwrap();
            }
            _ => self.rewrite(place, &path, random),
        }
    }

    fn replace(&self, place: Place, random: &mut Random) {
        let (seed, length) = (mix(random.word()), size(random, place.name));
        let new = self.directory(place.directory).join("new");
        create(&new, seed, length);
        let content = [Content::bytes(seed, length)];
        self.change(place, &content, || fs::rename(new, self.at(place)).unwrap());
    }

    fn rewrite(&self, place: Place, by: &Path, random: &mut Random) {
        let (seed, length) = (mix(random.word()), size(random, place.name));
        let through = [Content::growing(seed, 0..=length), Content::bytes(seed, length)];
        self.change(place, &through, || create(by, seed, length));
    }

    fn write_in_place(&self, place: Place, length: u64, random: &mut Random) {
        let (seed, history) = (mix(random.word()), self.history(place));
        let bytes = bytes_of(seed, length);
        let file = OpenOptions::new().write(true).open(self.at(place)).unwrap();
        history.begin([Content::bytes(seed, length)]);
        let begin = Instant::now();
        file.write_all_at(&bytes, 0).unwrap();
        if begin.elapsed() < MOMENT {
            history.end();
        }
    }

    /// Moves the file's bytes elsewhere in the tree, where they also change.
    fn link(&self, place: Place, random: &mut Random) {
        let (seed, length) = (mix(random.word()), size(random, place.name));
        let store = self.root.join("store");
        let (target, new) = (store.join(format!("{seed:016x}")), store.join(format!("{seed:x}.l")));
        create(&target, seed, length);
        symlink(&target, &new).unwrap();
        let content = [Content::bytes(seed, length)];
        self.change(place, &content, || fs::rename(&new, self.at(place)).unwrap());
        sleep(Duration::from_millis(random.below(40)));
        self.rewrite(place, &target, random);
    }

    fn move_away(&self, directory: usize, random: &mut Random) {
        let (path, away) = (self.directory(directory), self.outside.join(directory.to_string()));
        let files = &self.files[directory];
        let rests: Vec<Content> = files.iter().map(History::last).collect();
        files.iter().for_each(|file| file.begin([Content::Absent]));
        fs::rename(&path, &away).unwrap();
        files.iter().for_each(History::end);
        sleep(Duration::from_millis(random.below(40)));
        files.iter().zip(rests).for_each(|(file, rest)| file.begin([rest]));
        fs::rename(&away, &path).unwrap();
        files.iter().for_each(History::end);
    }

    fn exchange(&self, one: usize, other: usize) {
        let pairs = || self.files[one].iter().zip(&self.files[other]);
        for (one, other) in pairs() {
            let (first, second) = (one.last(), other.last());
            one.begin([second]);
            other.begin([first]);
        }
        let (a, b) = (self.directory(one), self.directory(other));
        renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
        pairs().for_each(|(one, other)| [one, other].iter().for_each(|file| file.end()));
    }

    fn rebuild(&self, directory: usize, random: &mut Random) {
        let (path, files) = (self.directory(directory), &self.files[directory]);
        files.iter().for_each(|file| file.begin([Content::Absent]));
        fs::remove_dir_all(&path).unwrap();
        fs::create_dir(&path).unwrap();
        files.iter().for_each(History::end);
        for name in 0..NAMES.len() {
            let place = Place { directory, name };
            self.rewrite(place, &self.at(place), random);
        }
    }

    /// Causes more events in a served directory than the kernel queues for a program that does not
    /// read them meanwhile.
    pub fn burst(&self) {
        let paths = ["noise", "more-noise"].map(|name| self.directory(0).join(name));
        // The directory may be away.
        let files = paths.each_ref().map(|path| File::create(path).ok());
        let [Some(one), Some(other)] = &files else { return };
        for turn in 0..BURST {
            // The kernel merges equal consecutive events, so two files take turns.
            let mut file = if turn % 2 == 0 { one } else { other };
            file.write_all(b"x").unwrap();
        }
        paths.iter().for_each(|path| fs::remove_file(path).unwrap_or_default());
    }
}
