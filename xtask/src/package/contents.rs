//! The files of all packages, and where a tarball and the packages of distributions have them.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::archive::{File, gzip};
use super::programs::Programs;
use crate::workspace;
use crate::workspace::{at, output};

/// The configuration file of the service.
pub const CONFIGURATION: &str = "etc/larder/larder.toml";
/// The rotation of its access log.
pub const ROTATION: &str = "etc/logrotate.d/larder";

/// Where distributions have completions of zsh.
pub struct Folders {
    pub zsh: &'static str,
}

/// The contents of the packages.
pub struct Contents {
    pub larder: Vec<u8>,
    lab: Vec<u8>,
    /// The example configuration, with the defaults of this build.
    configuration: String,
    /// Names and texts of the man pages, sorted.
    pages: Vec<(String, String)>,
    bash: String,
    fish: String,
    zsh: String,
}

impl Contents {
    /// Reads the programs, and lets larder write its man pages and completions.
    ///
    /// # Errors
    ///
    /// When a program cannot be read or run.
    pub fn collect(programs: &Programs) -> Result<Contents, String> {
        let read = |path: &Path| fs::read(path).map_err(|error| at(path, &error));
        let printed = |words: &[&str]| {
            let mut larder = Command::new(&programs.larder);
            larder.args(words);
            output(larder)
        };
        Ok(Contents {
            larder: read(&programs.larder)?,
            lab: read(&programs.lab)?,
            configuration: printed(&["print-config"])?,
            pages: man_pages(&programs.larder)?,
            bash: printed(&["completions", "bash"])?,
            fish: printed(&["completions", "fish"])?,
            zsh: printed(&["completions", "zsh"])?,
        })
    }

    /// Returns the files of the tarball, to be installed by hand.
    pub fn by_hand(&self) -> Vec<File> {
        let mut files = vec![
            File::new("larder", 0o755, self.larder.clone()),
            File::new("larder-lab", 0o755, self.lab.clone()),
            File::new("larder.service", 0o644, SERVICE),
            File::new("larder.toml", 0o644, self.configuration.as_str()),
            File::new("larder.logrotate", 0o644, LOGROTATE),
            File::new("grafana/larder.json", 0o644, DASHBOARD),
            File::new("prometheus/alerts.yaml", 0o644, ALERTS),
            File::new("README.md", 0o644, README),
            File::new("CHANGELOG.md", 0o644, CHANGELOG),
            File::new("LICENSE", 0o644, LICENSE),
            File::new("completions/larder.bash", 0o644, self.bash.as_str()),
            File::new("completions/larder.fish", 0o644, self.fish.as_str()),
            File::new("completions/_larder", 0o644, self.zsh.as_str()),
        ];
        let page = |(name, text): &(String, String)| {
            File::new(format!("man/{name}"), 0o644, text.as_str())
        };
        files.extend(self.pages.iter().map(page));
        files
    }

    /// Returns the files that the packages of all distributions install.
    ///
    /// # Errors
    ///
    /// When a man page cannot be compressed.
    pub fn installed(&self, folders: &Folders) -> Result<Vec<File>, String> {
        let share = |path: &str, text: &str| File::new(format!("usr/share/{path}"), 0o644, text);
        let mut files = vec![
            File::new("usr/bin/larder", 0o755, self.larder.clone()),
            File::new("usr/bin/larder-lab", 0o755, self.lab.clone()),
            File::new(
                "usr/lib/systemd/system/larder.service",
                0o644,
                SERVICE.replace("/usr/local/bin/", "/usr/bin/"),
            ),
            File::new(CONFIGURATION, 0o644, self.configuration.as_str()),
            File::new(ROTATION, 0o644, LOGROTATE),
            share("larder/grafana/larder.json", DASHBOARD),
            share("larder/prometheus/alerts.yaml", ALERTS),
            share("doc/larder/README.md", README),
            share("bash-completion/completions/larder", &self.bash),
            share("fish/vendor_completions.d/larder.fish", &self.fish),
            share(&format!("zsh/{}/_larder", folders.zsh), &self.zsh),
        ];
        for (name, text) in &self.pages {
            let bytes = gzip(text.as_bytes())?;
            files.push(File::new(format!("usr/share/man/man1/{name}.gz"), 0o644, bytes));
        }
        Ok(files)
    }
}

const SERVICE: &str = include_str!("../../../packaging/larder.service");
const LOGROTATE: &str = include_str!("../../../packaging/larder.logrotate");
const DASHBOARD: &str = include_str!("../../../packaging/grafana/larder.json");
const ALERTS: &str = include_str!("../../../packaging/prometheus/alerts.yaml");
const README: &str = include_str!("../../../README.md");
pub const CHANGELOG: &str = include_str!("../../../CHANGELOG.md");
pub const LICENSE: &str = include_str!("../../../LICENSE");

/// Lets `larder` write its man pages.
fn man_pages(larder: &Path) -> Result<Vec<(String, String)>, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("a temporary folder: {error}"))?;
    let mut command = Command::new(larder);
    command.arg("man").arg(folder.path());
    workspace::succeed(command)?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder.path()).map_err(|error| at(folder.path(), &error))? {
        let path = entry.map_err(|error| at(folder.path(), &error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        pages.push((name, fs::read_to_string(&path).map_err(|error| at(&path, &error))?));
    }
    pages.sort();
    Ok(pages)
}
