//! The name of an object, which contains everything that the origin needs to know about it.
//!
//! A path is `/RUN/GROUP/OBJECT-SIZE[-rREVISION][-lSECONDS][-u].KIND`. `RUN` separates the objects
//! of different runs. `GROUP` is the page or directory that the object belongs to, `OBJECT` its
//! number and `SIZE` the bytes of its body. `REVISION` is given for documents that get a new name
//! when they change, `SECONDS` (the length of the life cycle) for those that change under one name.
//! `u` means that the response must not be stored.

use std::fmt::Write;

use super::content::Content;
use super::life::Life;

/// The kind of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A page.
    Html,
    /// A picture.
    Image,
    /// A large file.
    Download,
    /// Anything else.
    #[default]
    Other,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Html, Kind::Image, Kind::Download, Kind::Other];

    fn extension(self) -> &'static str {
        match self {
            Kind::Html => "html",
            Kind::Image => "gif",
            Kind::Download => "zip",
            Kind::Other => "bin",
        }
    }

    /// Returns the media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Kind::Html => "text/html",
            Kind::Image => "image/gif",
            Kind::Download => "application/zip",
            Kind::Other => "application/octet-stream",
        }
    }
}

/// An object that can be requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// The number of the object.
    pub id: u64,
    /// The page or directory that it belongs to.
    pub group: u64,
    /// Bytes of its body.
    pub size: u64,
    /// The revision, for documents that get a new name when they change.
    pub revision: u32,
    /// Length of its life cycle in seconds; 0: it never changes.
    pub cycle: u32,
    /// True if its responses must not be stored.
    pub uncacheable: bool,
    /// The kind of the object.
    pub kind: Kind,
}

impl Object {
    /// Returns its life cycle; `None` if it never changes.
    pub fn life(&self) -> Option<Life> {
        (self.cycle > 0).then(|| Life::new(self.id, self.cycle))
    }

    /// Returns its version at a time in seconds since 1970.
    pub fn version(&self, seconds: u64) -> u64 {
        self.life().map_or(u64::from(self.revision), |life| life.version(seconds))
    }

    /// Returns the body of a version.
    pub fn content(&self, version: u64) -> Content {
        Content::of(self.id, version)
    }

    /// Appends its path.
    pub fn write_path(&self, run: &str, path: &mut String) {
        let Object { id, group, size, revision, cycle, .. } = self;
        // Writing to a string cannot fail.
        let _ = write!(path, "/{run}/{group}/{id}-{size}");
        if *revision > 0 {
            let _ = write!(path, "-r{revision}");
        }
        if *cycle > 0 {
            let _ = write!(path, "-l{cycle}");
        }
        if self.uncacheable {
            path.push_str("-u");
        }
        path.push('.');
        path.push_str(self.kind.extension());
    }

    /// Parses a path of any run; returns `None` if it names no object.
    pub fn read_path(path: &str) -> Option<Object> {
        let mut parts = path.strip_prefix('/')?.split('/').skip(1);
        let (group, name) = (parts.next()?.parse().ok()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let (name, extension) = name.split_once('.')?;
        let kind = Kind::ALL.into_iter().find(|kind| kind.extension() == extension)?;
        let mut fields = name.split('-');
        let (id, size) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let mut object = Object { id, group, size, kind, ..Object::default() };
        for field in fields {
            match field.split_at_checked(1)? {
                ("r", number) => object.revision = number.parse().ok()?,
                ("l", number) => object.cycle = number.parse().ok()?,
                ("u", "") => object.uncacheable = true,
                _ => return None,
            }
        }
        Some(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_everything() {
        let object = Object { id: 12, group: 3, size: 4_096, ..Object::default() };
        let all = [
            object,
            Object { kind: Kind::Html, uncacheable: true, ..object },
            Object { kind: Kind::Image, cycle: 86_400, ..object },
            Object { revision: 7, kind: Kind::Download, cycle: 5, uncacheable: true, ..object },
        ];
        for object in all {
            let mut path = String::new();
            object.write_path("bench-1", &mut path);
            assert_eq!(Object::read_path(&path), Some(object), "{path}");
        }
        let mut path = String::new();
        all[3].write_path("x", &mut path);
        assert_eq!(path, "/x/3/12-4096-r7-l5-u.zip");
    }

    #[test]
    fn other_paths_are_no_objects() {
        let paths = [
            "",
            "/",
            "/favicon.ico",
            "/a/1/2.bin",
            "/a/1/2-3.exe",
            "/a/1/2-3-q.bin",
            "/a/1/2-3.bin/x",
            "/a/b/2-3.bin",
            "/a/1/2-3-r.bin",
            "/a/1/2--3.bin",
            "/a/1/-5.bin",
        ];
        for path in paths {
            assert_eq!(Object::read_path(path), None, "{path}");
        }
    }
}
