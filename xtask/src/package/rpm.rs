//! The package for Fedora, Red Hat, SUSE and their relatives.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder};

use super::contents::{CHANGELOG, CONFIGURATION, Contents, Folders, LICENSE, ROTATION};
use crate::workspace::VERSION;

const FOLDERS: Folders = Folders { zsh: "site-functions" };

/// The file with the licence.
const LICENSED: &str = "usr/share/licenses/larder/LICENSE";

/// Returns the directories on the way to a file that are of this package alone, so that its removal
/// removes them.
fn own_directories(path: &Path) -> impl Iterator<Item = PathBuf> {
    let is_own = |directory: &&Path| directory.iter().any(|name| name == "larder");
    path.ancestors().skip(1).filter(is_own).map(Path::to_owned)
}

/// Returns the package.
///
/// # Errors
///
/// When it cannot be made.
pub fn write(contents: &Contents, time: u64) -> Result<Vec<u8>, String> {
    let failed = |error: rpm::Error| format!("rpm: {error}");
    let time = u32::try_from(time).map_err(|_| format!("rpm: no time after 2106: {time}"))?;
    let config = BuildConfig::v4().source_date(time).compression(CompressionWithLevel::Zstd(19));
    let summary = "Caching HTTP proxy that manages its own disk";
    let mut package = PackageBuilder::new("larder", VERSION, "Apache-2.0", "x86_64", summary);
    package
        .using_config(config)
        .release("1")
        .description(
            "Larder is a caching HTTP proxy, reverse and forward, and a web server for files. It \
             stores its cache in one preallocated file, or on a raw block device, that it manages \
             itself. The cache survives restarts and crashes.",
        )
        .requires(Dependency::any("/bin/sh"))
        .requires(Dependency::script_pre("/usr/sbin/useradd"))
        .recommends(Dependency::any("ca-certificates"))
        .pre_install_script(include_str!("../../../packaging/rpm/pre"))
        .post_install_script(include_str!("../../../packaging/rpm/post"))
        .pre_uninstall_script(include_str!("../../../packaging/rpm/preun"))
        .post_uninstall_script(include_str!("../../../packaging/rpm/postun"));
    let mut files = contents.installed(&FOLDERS)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let paths = files.iter().map(|file| Path::new(&file.path)).chain([Path::new(LICENSED)]);
    let directories: BTreeSet<PathBuf> = paths.flat_map(own_directories).collect();
    for file in files {
        let mode = u16::try_from(file.mode).unwrap_or_default();
        let mut options = FileOptions::new(format!("/{}", file.path)).permissions(mode);
        if [CONFIGURATION, ROTATION].contains(&file.path.as_str()) {
            options = options.config().noreplace();
        } else if file.path.starts_with("usr/share/doc/") || file.path.contains("/man/") {
            options = options.doc();
        }
        package.with_file_contents(file.bytes.unwrap_or_default(), options).map_err(failed)?;
    }
    for directory in directories {
        let options = FileOptions::dir(format!("/{}", directory.display())).permissions(0o755);
        package.with_dir_entry(options).map_err(failed)?;
    }
    package
        .with_file_contents(
            LICENSE,
            FileOptions::new(format!("/{LICENSED}")).permissions(0o644).license(),
        )
        .and_then(|package| {
            let path = "/usr/share/doc/larder/CHANGELOG.md";
            package.with_file_contents(CHANGELOG, FileOptions::new(path).permissions(0o644).doc())
        })
        .map_err(failed)?;
    let mut bytes = Vec::new();
    package.build().and_then(|package| package.write(&mut bytes)).map_err(failed)?;
    Ok(bytes)
}
