//! Settings of directories of files, those of `[files]` for all sites and those of a `[[site]]` for
//! itself, translated for their origin.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use files::Pattern;
use files::origin::file_origin::FileOrigin;
use files::origin::options::FileOptions;
use proxy::origin::path_prefix::PathPrefix;

/// The settings of a site's files, before its directory is opened.
#[derive(Clone, Debug, Default)]
pub struct FileSettings {
    /// All options except those of the next fields.
    pub options: FileOptions,
    pub try_files: Vec<String>,
    pub error_pages: Vec<String>,
    pub media_types: Vec<String>,
}

impl FileSettings {
    /// Returns a problem of the settings: the key and a sentence.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        match self.options() {
            Err(problem) => Some(problem),
            Ok(options) => options.files.check().err().map(|why| (key_of(&why), why.to_string())),
        }
    }

    fn options(&self) -> Result<FileOptions, (&'static str, String)> {
        let mut options = self.options.clone();
        for text in &self.try_files {
            let pattern = text.parse::<Pattern>();
            options.files.try_files.push(pattern.map_err(|why| ("try-files", why.to_string()))?);
        }
        for text in &self.error_pages {
            let wrong = || {
                (
                    "error-pages",
                    format!("expected a status and a path such as 404=/404.html, got {text:?}"),
                )
            };
            let (status, path) = text.split_once('=').ok_or_else(wrong)?;
            let status = status.trim().parse().map_err(|_| wrong())?;
            options.files.error_pages.insert(status, path.trim().to_owned());
        }
        for text in &self.media_types {
            let (extension, kind) = text.split_once('=').ok_or_else(|| {
                (
                    "media-types",
                    format!(
                        "expected an extension and a type such as md=text/markdown, got {text:?}"
                    ),
                )
            })?;
            let extension = extension.trim().trim_start_matches('.').to_owned();
            options.files.media_types.insert(extension, kind.trim().to_owned());
        }
        Ok(options)
    }

    /// Opens the directory of a site, unless it is already open. `strip` are prefixes of URL paths
    /// to remove before a file is looked up.
    ///
    /// # Errors
    ///
    /// A sentence.
    pub fn open(
        &self,
        site: &str,
        root: &Path,
        strip: &[PathPrefix],
        open: &OpenRoots,
        private: &[PrivateFile],
    ) -> Result<Arc<FileOrigin>, String> {
        let options = self.options().map_err(|(key, why)| format!("site {site}: {key}: {why}"));
        let mut options = options?;
        let name = |prefix: &PathPrefix| prefix.as_str().trim_start_matches('/').into();
        options.files.strip = strip.iter().map(name).collect();
        open.origin(root, options, private).map_err(|why| format!("site {site}: {why}"))
    }

    /// Returns the settings for files alone: no path of a directory has a response.
    pub fn without_directories(&self) -> FileSettings {
        let mut settings = self.without_listings();
        settings.options.files.index.clear();
        settings
    }

    /// Returns the settings for files, and index files of directories.
    pub fn without_listings(&self) -> FileSettings {
        let mut settings = self.clone();
        settings.options.files.listing = false;
        settings.try_files.clear();
        settings.error_pages.clear();
        settings
    }
}

/// A file of the proxy that no root may serve.
#[derive(Clone, Debug, PartialEq)]
pub struct PrivateFile {
    /// Noun for messages.
    pub kind: &'static str,
    pub path: PathBuf,
}

/// The open directories, so that a reload or a second site can reuse one with all that is known of
/// it.
#[derive(Clone, Debug, Default)]
pub struct OpenRoots(Arc<Mutex<Vec<OpenRoot>>>);

#[derive(Debug)]
struct OpenRoot {
    path: PathBuf,
    options: FileOptions,
    origin: Weak<FileOrigin>,
}

impl OpenRoots {
    /// Returns the origin of a directory with these options. Opens the directory if it is not open.
    /// Refuses a directory that a `private` file lies in.
    fn origin(
        &self,
        path: &Path,
        options: FileOptions,
        private: &[PrivateFile],
    ) -> Result<Arc<FileOrigin>, String> {
        if let Some(file) = private.iter().find(|file| is_inside(&file.path, path)) {
            let (kind, file, root) = (file.kind, file.path.display(), path.display());
            return Err(format!(
                "the {kind} {file} lies in the root {root}, which would serve it: move one"
            ));
        }
        let mut roots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        roots.retain(|root| root.origin.strong_count() > 0);
        let same = |root: &&OpenRoot| root.path == path && root.options == options;
        if let Some(origin) = roots.iter().find(same).and_then(|root| root.origin.upgrade()) {
            return Ok(origin);
        }
        let origin = FileOrigin::open(path, options.clone()).map_err(|why| why.to_string())?;
        let weak = Arc::downgrade(&origin);
        roots.push(OpenRoot { path: path.to_owned(), options, origin: weak });
        Ok(origin)
    }
}

/// Returns whether a file lies, or would lie, in a directory.
fn is_inside(file: &Path, directory: &Path) -> bool {
    let parent = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (parent, directory) = (parent.canonicalize(), directory.canonicalize());
    parent.is_ok_and(|parent| directory.is_ok_and(|directory| parent.starts_with(directory)))
}

fn key_of(why: &files::BadOptions) -> &'static str {
    match why {
        files::BadOptions::Index(_) => "index",
        files::BadOptions::StatusFirst => "try-files",
        files::BadOptions::ErrorStatus(_) | files::BadOptions::ErrorPage(..) => "error-pages",
        files::BadOptions::CompressType(_) => "compress-types",
        files::BadOptions::CompressSizes => "compress-min",
        files::BadOptions::DefaultType(_) => "default-type",
        files::BadOptions::Extension(_) | files::BadOptions::MediaType(_) => "media-types",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::configuration::{Config, Site};

    #[test]
    fn a_directory_is_opened_once_for_the_same_options() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (roots, settings) = (OpenRoots::default(), FileSettings::default());
        let open = |site: &str, root: &Path, strip: &[PathPrefix]| {
            settings.open(site, root, strip, &roots, &[]).unwrap()
        };
        let first = open("a", one.path(), &[]);
        assert!(Arc::ptr_eq(&first, &open("b", one.path(), &[])));
        assert!(!Arc::ptr_eq(&first, &open("b", other.path(), &[])));
        let prefix = ["/x".parse().unwrap()];
        assert!(!Arc::ptr_eq(&first, &open("a", one.path(), &prefix)));
        // An unused root is closed.
        let closed = Arc::downgrade(&first);
        drop(first);
        assert!(closed.upgrade().is_none());
        open("a", one.path(), &[]);
    }

    #[test]
    fn a_root_with_a_private_file_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| Some(root.path().join(name));
        let site = Site { name: Some("a".into()), access_log: path("site.log"), ..Site::default() };
        let of = |change: fn(&mut Config, Option<PathBuf>), path| {
            let mut config = Config::default();
            change(&mut config, path);
            config.private_files()
        };
        let roots = OpenRoots::default();
        let opened = |private: &[PrivateFile]| {
            let opened = FileSettings::default().open("a", root.path(), &[], &roots, private);
            opened.map_err(|why| why.replace(&root.path().display().to_string(), "ROOT"))
        };
        // An open root is refused too: a reload may move the log into it.
        let _open = opened(&[]).unwrap();
        let log = of(|config, path| config.access_log = path, path("access.log"));
        let expected = "site a: the access log ROOT/access.log lies in the root ROOT, which would \
                        serve it: move one";
        assert_eq!(opened(&log).unwrap_err(), expected);
        let token = of(|config, path| config.admin_token_file = path, path("token"));
        assert!(opened(&token).unwrap_err().contains("admin token"));
        let of_site = Config { sites: vec![site], ..Config::default() }.private_files();
        assert!(opened(&of_site).unwrap_err().contains("access log"));
        for elsewhere in ["-", "syslog:localhost:514"] {
            let log = of(|config, path| config.access_log = path, Some(elsewhere.into()));
            assert_eq!(log, [], "{elsewhere}");
        }
    }
}
