//! The state of a file: what changes when its bytes do.
//!
//! A version is what the kernel tells about a file beside its bytes: device, inode, size, and the
//! times of the last change of the bytes (`mtime`) and of anything (`ctime`). Programs may set the
//! first time back; nobody can set the second. So two equal versions are the same bytes, but for
//! what no reader of files can see:
//!
//! * The kernel's clock for these times advances with its tick, every 1 to 10 ms. A second write
//!   within one tick leaves no trace, so a version is sure only when its time is past for good
//!   ([`Version::is_settled`]). Linux 6.13 has finer times on some file systems, and does not say
//!   on which.
//! * One `write` call sets the times when it begins. What it changes in place afterwards, in a file
//!   of the same size, shows while it runs.
//! * Writes through a mapping (`mmap`) set the times at the first one only, until the kernel writes
//!   the page back.
//!
//! Files that are replaced, as `rename` does it, have none of these gaps.

use std::time::{Duration, SystemTime};

use rustix::fs::Stat;
use semantics::{Time, date};
use xxhash_rust::xxh3::xxh3_128;

/// Two ticks of the slowest clock that Linux is built with (100 Hz).
const TICKS: Duration = Duration::from_millis(20);

/// The step of file systems that keep no parts of a second: FAT has the longest.
const WHOLE_SECONDS: Duration = Duration::from_secs(2);

/// The state of a file at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// The device of its file system.
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// The length in bytes.
    pub size: u64,
    /// When its bytes were changed, as programs may set it.
    pub modified: Timestamp,
    /// When anything about it was changed.
    pub changed: Timestamp,
}

/// A point in time, as file systems tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z, or before it.
    pub seconds: i64,
    /// Nanoseconds after that.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// Returns the time after 1970 began, and zero for what was before.
    fn since_epoch(self) -> Duration {
        let seconds = u64::try_from(self.seconds).unwrap_or(0);
        Duration::new(seconds, self.nanoseconds)
    }
}

impl Version {
    /// Reads a version off what the kernel says of a file.
    pub(crate) fn of(stat: &Stat) -> Version {
        Version {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: Timestamp {
                seconds: stat.st_mtime,
                nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
            },
            changed: Timestamp {
                seconds: stat.st_ctime,
                nanoseconds: u32::try_from(stat.st_ctime_nsec).unwrap_or(0),
            },
        }
    }

    /// Returns a strong entity tag (RFC 9110, 8.8.3), with its quotes, of what was made of the
    /// file's bytes in a way that `how` names; of the bytes themselves, if that is empty. The same
    /// name stands for the same bytes.
    ///
    /// It follows from size and `mtime` alone: a copy that keeps both has the same tag, on another
    /// node too. It is as sure as the version is: mark it weak as long as that is not settled.
    pub fn etag(&self, how: &str) -> String {
        etag_of(&[&bytes_of(&self.of_bytes())[..], how.as_bytes()].concat())
    }

    /// Returns a text that is another one after any change that shows in the version, also one that
    /// the entity tag does not show; `how` as for the tag.
    pub fn identity(&self, how: &str) -> String {
        let Version { device, inode, changed, .. } = *self;
        let (seconds, nanoseconds) = (changed.seconds.cast_unsigned(), changed.nanoseconds.into());
        let others = bytes_of(&[device, inode, seconds, nanoseconds]);
        let bytes = [&bytes_of(&self.of_bytes())[..], &others, how.as_bytes()].concat();
        format!("{:032x}", xxh3_128(&bytes))
    }

    /// Returns the facts about the bytes alone.
    fn of_bytes(&self) -> [u64; 3] {
        let Timestamp { seconds, nanoseconds } = self.modified;
        [self.size, seconds.cast_unsigned(), nanoseconds.into()]
    }

    /// Returns the value of `Last-Modified`, which must not lie after that of `Date` (RFC 9110,
    /// 8.8.2.1). None for a file from before 1970.
    pub fn last_modified(&self, now: SystemTime) -> Option<String> {
        let seconds = u64::try_from(self.modified.seconds).ok()?;
        let latest = since_epoch(now).as_secs();
        Some(date::format(Time::from_unix(seconds.min(latest))))
    }

    /// Returns whether any later change shows in the version. `now` is a time from before the
    /// version was read.
    ///
    /// The clock of the change may stand still for up to 10 ms, hence 20; on a file system that
    /// keeps whole seconds, for up to 2 s. A change from the future (the clock was set back, or a
    /// server's clock is ahead) is not settled before that time has come, since a change then would
    /// bear the same.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let step = if self.changed.nanoseconds == 0 { WHOLE_SECONDS } else { Duration::ZERO };
        self.changed.since_epoch() + step + TICKS <= since_epoch(now)
    }

    /// Returns whether a file that had this version surely still has these bytes.
    ///
    /// When the last name of a file goes, as when a new file takes that name, `ctime` changes and
    /// no byte does: then it is enough that the other facts hold.
    pub(crate) fn holds(&self, stat: &Stat) -> bool {
        let now = Version::of(stat);
        let is_gone = stat.st_nlink == 0;
        *self == now || (is_gone && *self == Version { changed: self.changed, ..now })
    }

    /// Returns whether a file that had this version still has these bytes at its beginning, as far
    /// as size and `mtime` tell: permissions and names may have changed, and bytes may have been
    /// appended.
    pub(crate) fn holds_at_start(&self, stat: &Stat) -> bool {
        let now = Version::of(stat);
        now.size > self.size || now.of_bytes() == self.of_bytes()
    }
}

/// Returns the tag of some bytes.
pub(crate) fn etag_of(bytes: &[u8]) -> String {
    format!("\"{:032x}\"", xxh3_128(bytes))
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Version {
        Version {
            device: 1,
            inode: 2,
            size: 3,
            modified: Timestamp { seconds: 784_111_777, nanoseconds: 5 },
            changed: Timestamp { seconds: 784_111_778, nanoseconds: 7 },
        }
    }

    fn at(seconds: u64, millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(millis)
    }

    #[test]
    fn the_tag_has_the_facts_that_copies_keep_and_the_identity_has_all() {
        let changes: [fn(&mut Version); 7] = [
            |v| v.size += 1,
            |v| v.modified.seconds += 1,
            |v| v.modified.nanoseconds += 1,
            |v| v.device += 1,
            |v| v.inode += 1,
            |v| v.changed.seconds += 1,
            |v| v.changed.nanoseconds += 1,
        ];
        let (mut tags, mut identities) = (vec![], vec![sample().identity("")]);
        for change in changes {
            let mut version = sample();
            change(&mut version);
            tags.push(version.etag(""));
            identities.push(version.identity(""));
        }
        assert!(tags[3..].iter().all(|tag| *tag == sample().etag("")));
        tags.extend(["gzip", "br"].map(|how| sample().etag(how)));
        identities.extend(["gzip", "br"].map(|how| sample().identity(how)));
        assert!(tags.iter().all(|tag| semantics::EntityTag::parse(tag.as_bytes()).is_some()));
        for (mut all, expected) in [(tags, 6), (identities, 10)] {
            all.sort();
            all.dedup();
            assert_eq!(all.len(), expected);
        }
    }

    #[test]
    fn last_modified_is_never_in_the_future() {
        let version = sample();
        let text = Some("Sun, 06 Nov 1994 08:49:37 GMT".to_owned());
        assert_eq!(version.last_modified(at(784_111_777, 0)), text);
        assert_eq!(version.last_modified(at(1_784_111_777, 0)), text);
        let earlier = Some("Sun, 06 Nov 1994 08:49:36 GMT".to_owned());
        assert_eq!(version.last_modified(at(784_111_776, 999)), earlier);
        let modified = Timestamp { seconds: -1, nanoseconds: 0 };
        assert_eq!(Version { modified, ..version }.last_modified(at(1, 0)), None);
    }

    #[test]
    fn a_version_settles_two_ticks_after_the_change() {
        let version = sample();
        for (now, expected) in [
            (at(784_111_778, 0), false),
            (at(784_111_778, 20), false),
            (at(784_111_778, 21), true),
            (at(784_111_777, 999), false),
            (at(0, 0), false),
            (at(1_784_111_778, 0), true),
        ] {
            assert_eq!(version.is_settled(now), expected, "{now:?}");
        }
        // What keeps whole seconds may be a file system that keeps every other one.
        let changed = Timestamp { seconds: 784_111_778, nanoseconds: 0 };
        let coarse = Version { changed, ..version };
        assert!(!coarse.is_settled(at(784_111_780, 19)));
        assert!(coarse.is_settled(at(784_111_780, 20)));
    }
}
