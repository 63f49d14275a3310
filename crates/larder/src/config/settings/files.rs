//! Declarations for served directories of files: the keys of `[files]`, and those that a `[[site]]`
//! may set for itself.

use files::{Coding, Symlinks};

use super::common::{hours, ms};
use crate::config::setting::{Take, choice, for_all_and_site};
use crate::config::value::Kind;
use crate::config::webroot::FileSettings;

choice!(SYMLINKS for Symlinks {
    "never" => Symlinks::Never,
    "inside" => Symlinks::Inside,
    "anywhere" => Symlinks::Anywhere,
});
choice!(pub CODING for Coding {
    "br" => Coding::Brotli,
    "zstd" => Coding::Zstd,
    "gzip" => Coding::Gzip,
});

/// The media types that are compressed by default, in files and in responses of origin servers.
pub const COMPRESSED_TYPES: &[&str] = &[
    "text/html",
    "text/css",
    "text/plain",
    "text/javascript",
    "text/markdown",
    "text/xml",
    "text/csv",
    "text/calendar",
    "application/javascript",
    "application/json",
    "application/ld+json",
    "application/manifest+json",
    "application/geo+json",
    "application/xml",
    "application/xhtml+xml",
    "application/rss+xml",
    "application/atom+xml",
    "application/wasm",
    "image/svg+xml",
    "image/bmp",
    "font/ttf",
    "font/otf",
];

for_all_and_site! {
    "files", FileSettings, files, own_files;

    /// Files that stand for their directory; the first that exists.
    "index", Kind::List(&Kind::Text("the name of a file")), ["index.html"] -> options.files.index;

    /// Lists a directory that has no index file; else 403.
    "listing", Kind::Bool, ["false"] -> options.files.listing;

    /// Answers /about with about.html if no such file exists.
    "clean-urls", Kind::Bool, ["false"] -> options.files.clean_urls;

    /// Names tried for a path, in order: "$uri" as a file, "$uri/" as a directory, with any text
    /// around it; "/index.html" a file for every path (single-page applications); "=404" at the end
    /// a status. None: file, then directory.
    "try-files", Kind::List(&Kind::Text("a pattern such as $uri.html")), [] -> try_files;

    /// Serves names that begin with a dot. `.well-known` always is.
    "dotfiles", Kind::Bool, ["false"] => |m, v| m.options.files.hide_dotfiles = !bool::take(v);

    /// Takes %2F in a path for a separator of names. Otherwise such a path gets 404.
    "encoded-slashes", Kind::Bool, ["true"] -> options.files.encoded_slashes;

    /// Symbolic links that are followed: none, those inside the directory, or all. Files behind
    /// links are looked up for every request.
    "symlinks", SYMLINKS, ["inside"] -> options.files.symlinks;

    /// Codings of compressed files beside others (page.html.br), for clients that accept them.
    "precompressed", Kind::List(&CODING), ["br", "zstd", "gzip"] -> options.files.precompressed;

    /// Codings in which other files are compressed once per version and stored, for clients that
    /// accept them, by their preference.
    "compress", Kind::List(&CODING), [] -> options.files.compress.codings;

    /// Media types of files that are compressed.
    "compress-types", Kind::List(&Kind::Text("a media type such as text/html")), [],
        defaults(COMPRESSED_TYPES) -> options.files.compress.types;

    /// Smallest file that is compressed.
    "compress-min", Kind::Size(0, 256 << 20), ["1K"] -> options.files.compress.least;

    /// Largest file that is compressed. It is held in memory meanwhile, on at most one thread per
    /// two processors.
    "compress-max", Kind::Size(0, 256 << 20), ["10M"] -> options.files.compress.most;

    /// Pages for statuses 400, 403, 404, 405, 412, 416, 500, 503 and the status that ends
    /// `try-files`, such as "404=/404.html".
    "error-pages", Kind::List(&Kind::Text("a status and a path such as 404=/404.html")), []
        -> error_pages;

    /// Media types by extension that differ from the usual ones, such as "md=text/markdown".
    "media-types", Kind::List(&Kind::Text("an extension and a type such as md=text/markdown")), []
        -> media_types;

    /// Media type of files without a known extension.
    "default-type", Kind::Text("a media type such as text/plain"), ["application/octet-stream"]
        -> options.files.default_type;

    /// How long a check of a file holds where the kernel reports no changes (docs/guide/static.md).
    /// Also the time between two checks of the root's path.
    "look-interval", Kind::Time(ms(0), hours(24)), ["1s"] -> options.watch.interval;

    /// Longest time that a check of a file holds where the kernel reports changes.
    "recheck-interval", Kind::Time(ms(0), hours(24 * 365)), ["10s"] -> options.recheck;

    /// Most directories watched by the kernel; 0: none, all are checked every `look-interval`. Each
    /// takes about 1 KB of kernel memory (fs.inotify.max_user_watches).
    "watches", Kind::Int(0, 16_000_000), ["65536"]
        => |m, v| m.options.watch.most = u64::take(v) as usize;

    /// Most stored responses known to be current, 16 bytes each. The files of others are checked.
    "known", Kind::Int(1024, 1_000_000_000), ["1048576"]
        => |m, v| m.options.answers = u64::take(v) as usize;

    /// Largest file that the kernel may keep in its page cache after Larder stored it; larger ones
    /// are dropped from there. Files that Larder does not store stay.
    "page-cache-max", Kind::Size(0, 1 << 40), ["0"] -> options.page_cache_max;
}
