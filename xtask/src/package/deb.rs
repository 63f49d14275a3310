//! The package for Debian and its relatives: an `ar` archive of two tar archives.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use super::archive::{File, gzip, tar};
use super::contents::{CHANGELOG, CONFIGURATION, Contents, Folders, ROTATION};
use crate::workspace::VERSION;

const FOLDERS: Folders = Folders { zsh: "vendor-completions" };

const SCRIPTS: &[(&str, &str)] = &[
    ("postinst", include_str!("../../../packaging/deb/postinst")),
    ("postrm", include_str!("../../../packaging/deb/postrm")),
    ("prerm", include_str!("../../../packaging/deb/prerm")),
];

/// Says why the programs are linked statically, to the checker of packages.
const OVERRIDES: &str = include_str!("../../../packaging/deb/lintian-overrides");

const MAINTAINER: &str = "Larder developers <larder@packages.debian.org>";

/// Returns the package.
///
/// # Errors
///
/// When an archive cannot be made.
pub fn write(contents: &Contents, time: u64) -> Result<Vec<u8>, String> {
    let mut files = contents.installed(&FOLDERS)?;
    let doc = |name: &str, bytes: Vec<u8>| {
        File::new(format!("usr/share/doc/larder/{name}"), 0o644, bytes)
    };
    files.push(doc("copyright", COPYRIGHT.into()));
    files.push(doc("NEWS.gz", gzip(CHANGELOG.as_bytes())?));
    files.push(doc("changelog.gz", gzip(changelog(time).as_bytes())?));
    files.push(File::new("usr/share/lintian/overrides/larder", 0o644, OVERRIDES));
    let size: usize = files.iter().filter_map(|file| file.bytes.as_ref()).map(Vec::len).sum();
    let control = control(size.div_ceil(1024));
    let mut parts = vec![
        File::new("control", 0o644, control),
        File::new("conffiles", 0o644, format!("/{CONFIGURATION}\n/{ROTATION}\n")),
        File::new("md5sums", 0o644, md5sums(&files)),
    ];
    parts.extend(SCRIPTS.iter().map(|(name, text)| File::new(*name, 0o755, *text)));
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&tar(&with_root(parts), "./", time)?)?),
        ("data.tar.gz", gzip(&tar(&with_root(files), "./", time)?)?),
    ];
    Ok(ar(&members, time))
}

/// Adds the root directory, which dpkg expects.
fn with_root(mut files: Vec<File>) -> Vec<File> {
    files.push(File::directory("", 0o755, 0));
    files
}

fn control(kilobytes: usize) -> String {
    format!(
        "\
Package: larder
Version: {VERSION}
Architecture: amd64
Maintainer: {MAINTAINER}
Installed-Size: {kilobytes}
Depends: adduser, init-system-helpers (>= 1.54~)
Recommends: ca-certificates
Suggests: logrotate
Section: web
Priority: optional
Description: caching HTTP proxy that manages its own disk
 Larder is a caching HTTP proxy, reverse and forward, and a web server for
 files. It stores its cache in one preallocated file, or on a raw block
 device, that it manages itself: there is no file per object, and a hit from
 disk is one read. The cache survives restarts and crashes.
"
    )
}

const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: larder

Files: *
Copyright: 2026 the authors of Larder
License: Apache-2.0
 On Debian systems, the text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
";

/// Returns the changelog of the package, in the format of Debian.
fn changelog(time: u64) -> String {
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(time));
    let date = date.replace("GMT", "+0000");
    format!(
        "larder ({VERSION}) unstable; urgency=medium\n\n  * Changes are in NEWS.gz.\n\n \
         -- {MAINTAINER}  {date}\n"
    )
}

fn md5sums(files: &[File]) -> String {
    let mut sums = String::new();
    for file in files.iter().filter(|file| !file.path.starts_with("etc/")) {
        let digest = md5::compute(file.bytes.as_deref().unwrap_or_default());
        // Writing to a string cannot fail.
        let _ = writeln!(sums, "{digest:x}  {}", file.path);
    }
    sums
}

/// Returns an archive in the format of ar(5).
fn ar(members: &[(&str, Vec<u8>)], time: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let size = bytes.len();
        let head =
            format!("{name:<16}{time:<12}{0:<6}{0:<6}{mode:<8}{size:<10}`\n", 0, mode = 100_644);
        archive.extend_from_slice(head.as_bytes());
        archive.extend_from_slice(bytes);
        if size % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}
