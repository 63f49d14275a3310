//! The state of a file: metadata that changes when its bytes do.
//!
//! A version is what the kernel reports about a file besides its bytes: device, inode, size, and
//! the times of the last change of the bytes (`mtime`) and of anything (`ctime`). Programs can set
//! `mtime` back, but not `ctime`. Two equal versions therefore have the same bytes, with these
//! exceptions, which no reader of files can detect:
//!
//! * The kernel's clock for these times advances in ticks of 1 to 10 ms. A second write within one
//!   tick leaves no trace, so a version is reliable only once its tick has passed
//!   ([`Version::is_settled`]). Linux 6.13 has finer times on some file systems, and does not
//!   report on which.
//! * One `write` call sets the times when it begins. Bytes that it overwrites later, without a
//!   change of size, become visible while it runs.
//! * Writes through a mapping (`mmap`) set the times only at the first write, until the kernel
//!   writes the page back.
//!
//! Files that are replaced with `rename` are not affected by any of these.

use std::time::{Duration, SystemTime};

use rustix::fs::Stat;
use semantics::{Time, date};
use xxhash_rust::xxh3::xxh3_128;

/// Two ticks of the slowest clock that Linux can be built with (100 Hz).
const TICKS: Duration = Duration::from_millis(20);

/// The coarsest resolution of file systems that store whole seconds: 2 s on FAT.
const WHOLE_SECONDS: Duration = Duration::from_secs(2);

/// The state of a file at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// The device number of the file system.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// The length in bytes.
    pub size: u64,
    /// The time of the last change of the bytes (`mtime`); programs can set it.
    pub modified: Timestamp,
    /// The time of the last change of anything about the file (`ctime`).
    pub changed: Timestamp,
}

/// A point in time as file systems record it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z; negative before.
    pub seconds: i64,
    /// Nanoseconds after `seconds`.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// Returns the time since 1970 began, zero for earlier times.
    fn since_epoch(self) -> Duration {
        let seconds = u64::try_from(self.seconds).unwrap_or(0);
        Duration::new(seconds, self.nanoseconds)
    }
}

impl Version {
    /// Creates the version from the kernel's `stat` data.
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

    /// Returns a strong entity tag (RFC 9110, 8.8.3), with its quotes, for a representation derived
    /// from the file's bytes in the way that `how` names; an empty `how` means the bytes
    /// themselves. The same name must always stand for the same bytes.
    ///
    /// The tag depends only on size and `mtime`, so a copy that preserves both has the same tag,
    /// including on another node. It is only as reliable as the version: mark it weak until the
    /// version is settled.
    pub fn etag(&self, how: &str) -> String {
        etag_of(&[&bytes_of(&self.of_bytes())[..], how.as_bytes()].concat())
    }

    /// Returns a text that differs after any change visible in the version, including those that
    /// the entity tag does not show. `how` is the same as for the tag.
    pub fn identity(&self, how: &str) -> String {
        let Version { device, inode, changed, .. } = *self;
        let (seconds, nanoseconds) = (changed.seconds.cast_unsigned(), changed.nanoseconds.into());
        let others = bytes_of(&[device, inode, seconds, nanoseconds]);
        let bytes = [&bytes_of(&self.of_bytes())[..], &others, how.as_bytes()].concat();
        format!("{:032x}", xxh3_128(&bytes))
    }

    /// Returns the fields that describe the bytes alone.
    fn of_bytes(&self) -> [u64; 3] {
        let Timestamp { seconds, nanoseconds } = self.modified;
        [self.size, seconds.cast_unsigned(), nanoseconds.into()]
    }

    /// Returns the value of `Last-Modified`, which must not be later than `Date` (RFC 9110,
    /// 8.8.2.1). `None` for a file from before 1970.
    pub fn last_modified(&self, now: SystemTime) -> Option<String> {
        let seconds = u64::try_from(self.modified.seconds).ok()?;
        let latest = since_epoch(now).as_secs();
        Some(date::format(Time::from_unix(seconds.min(latest))))
    }

    /// Returns whether any later change will show in the version. `now` is a time from before the
    /// version was read.
    ///
    /// The clock for `ctime` may stand still for up to 10 ms, so the version settles after 20 ms;
    /// on a file system that stores whole seconds the clock may stand still for up to 2 s more. A
    /// change time in the future (the clock was set back, or a server's clock is ahead) does not
    /// settle before that time has come, because a change at that moment would get the same time.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let step = if self.changed.nanoseconds == 0 { WHOLE_SECONDS } else { Duration::ZERO };
        self.changed.since_epoch() + step + TICKS <= since_epoch(now)
    }

    /// Returns whether a file that had this version certainly still has the same bytes.
    ///
    /// When the last name of an open file is removed, for example because a new file takes that
    /// name, `ctime` changes but no byte does. In that case only the other fields have to match.
    pub(crate) fn holds(&self, stat: &Stat) -> bool {
        let now = Version::of(stat);
        let is_gone = stat.st_nlink == 0;
        *self == now || (is_gone && *self == Version { changed: self.changed, ..now })
    }

    /// Returns whether a file that had this version still begins with the same bytes, as far as
    /// size and `mtime` tell. Permissions and names may have changed, and bytes may have been
    /// appended.
    pub(crate) fn holds_at_start(&self, stat: &Stat) -> bool {
        let now = Version::of(stat);
        now.size > self.size || now.of_bytes() == self.of_bytes()
    }
}

/// Returns the entity tag of some bytes.
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
        // A time in whole seconds may come from a file system with a resolution of two seconds.
        let changed = Timestamp { seconds: 784_111_778, nanoseconds: 0 };
        let coarse = Version { changed, ..version };
        assert!(!coarse.is_settled(at(784_111_780, 19)));
        assert!(coarse.is_settled(at(784_111_780, 20)));
    }
}
