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
choice!(CODING for Coding {
    "br" => Coding::Brotli,
    "zstd" => Coding::Zstd,
    "gzip" => Coding::Gzip,
});

for_all_and_site! {
    "files", FileSettings, files, own_files;

    /// The files that stand for their directory, the first that exists.
    "index", Kind::List(&Kind::Text("the name of a file")), ["index.html"] -> options.files.index;

    /// Whether a directory without one is listed; else it is forbidden (403).
    "listing", Kind::Bool, ["false"] -> options.files.listing;

    /// Whether /about is answered by about.html where there is no file of that name.
    "clean-urls", Kind::Bool, ["false"] -> options.files.clean_urls;

    /// What is tried for a path, in this order: "$uri" is the path as a file, "$uri/" as a
    /// directory; any text may stand around it; a path such as "/index.html" is that file for every
    /// path (an application of a single page); "=404" at the end is a status. None: the path as a
    /// file, then as a directory.
    "try-files", Kind::List(&Kind::Text("a pattern such as $uri.html")), [] -> try_files;

    /// Whether names that begin with a dot are served, too. `.well-known` always is.
    "dotfiles", Kind::Bool, ["false"] => |m, v| m.options.files.hide_dotfiles = !bool::take(v);

    /// Takes an encoded slash (%2F) in a path for one that separates names. Without it such a path
    /// names nothing (404).
    "encoded-slashes", Kind::Bool, ["true"] -> options.files.encoded_slashes;

    /// Which symbolic links are followed: none, those that stay inside of the directory, or all.
    /// What lies behind one is looked at for every request.
    "symlinks", SYMLINKS, ["inside"] -> options.files.symlinks;

    /// The codings of files that may lie compressed beside others (page.html.br), for clients that
    /// accept them.
    "precompressed", Kind::List(&CODING), ["br", "zstd", "gzip"] -> options.files.precompressed;

    /// The codings in which files are compressed that do not lie compressed beside others, once for
    /// each version: the cache keeps it. For clients that accept them, what they like best.
    "compress", Kind::List(&CODING), [] -> options.files.compress.codings;

    /// Media types of files that are compressed.
    "compress-types", Kind::List(&Kind::Text("a media type such as text/html")), [
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
        "font/otf"
    ] -> options.files.compress.types;

    /// The smallest file that is compressed.
    "compress-min", Kind::Size(0, 256 << 20), ["1K"] -> options.files.compress.least;

    /// The largest file that is compressed; larger ones are sent as they are. It is held in memory
    /// meanwhile, on at most one thread for two processors.
    "compress-max", Kind::Size(0, 256 << 20), ["10M"] -> options.files.compress.most;

    /// Pages for the statuses 400, 403, 404, 405, 412, 416, 500 and 503, and for one that
    /// `try-files` ends with: the status and a path, such as "404=/404.html".
    "error-pages", Kind::List(&Kind::Text("a status and a path such as 404=/404.html")), []
        -> error_pages;

    /// Media types by extension that differ from the usual ones, such as "md=text/markdown".
    "media-types", Kind::List(&Kind::Text("an extension and a type such as md=text/markdown")), []
        -> media_types;

    /// Media type of files whose extension has none, or that have no extension.
    "default-type", Kind::Text("a media type such as text/plain"), ["application/octet-stream"]
        -> options.files.default_type;

    /// How long a look at a file holds where the kernel does not report changes: on file systems of
    /// other machines, and beyond `watches`. Also the time between two looks at the root's path,
    /// which may be a link.
    "look-interval", Kind::Time(ms(0), hours(24)), ["1s"] -> options.watch.interval;

    /// How long a look at a file holds at most, even where the kernel reports changes: it does not
    /// report writes by a name elsewhere (a hard link) that a file got later. Longer saves looks.
    "recheck-interval", Kind::Time(ms(0), hours(24 * 365)), ["10s"] -> options.recheck;

    /// Directories that the kernel is asked to report changes of, at most; 0: none, and all are
    /// looked at every `look-interval`. Each takes about 1 KB of the kernel's memory
    /// (fs.inotify.max_user_watches).
    "watches", Kind::Int(0, 16_000_000), ["65536"]
        => |m, v| m.options.watch.most = u64::take(v) as usize;

    /// Stored answers that are known to be current, at most; each takes 16 bytes of memory. The
    /// files of others are looked at.
    "known", Kind::Int(1024, 1_000_000_000), ["1048576"]
        => |m, v| m.options.answers = u64::take(v) as usize;

    /// Largest file that the kernel may keep in its own cache when it was read for Larder's; larger
    /// ones are dropped from there, but for those that Larder does not store.
    "page-cache-max", Kind::Size(0, 1 << 40), ["0"] -> options.page_cache_max;
}
