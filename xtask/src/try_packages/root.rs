//! A root directory in which packages are installed, and commands in it.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use flate2::read::GzDecoder;
use tempfile::TempDir;

use crate::workspace;

/// Where a system writes on its own: state and logs of package managers, backups of accounts.
const NOT_COMPARED: &[&str] = &[
    "dev",
    "etc/group-",
    "etc/gshadow-",
    "etc/passwd-",
    "etc/shadow-",
    "proc",
    "run/adduser",
    "sys",
    "tmp",
    "var/cache",
    "var/lib/dpkg",
    "var/lib/rpm",
    "var/log",
];

/// A root directory, which is removed at the end.
pub struct Root {
    directory: TempDir,
}

impl Root {
    /// Returns an empty directory that every user may enter.
    pub fn empty() -> Result<Root, String> {
        let directory = tempfile::tempdir().map_err(|error| failed("a root", &error))?;
        let all = fs::Permissions::from_mode(0o755);
        fs::set_permissions(directory.path(), all).map_err(|error| failed("a root", &error))?;
        Ok(Root { directory })
    }

    /// Returns a small system of Debian, downloaded by mmdebstrap.
    pub fn of_debian(release: &str) -> Result<Root, String> {
        let root = Root::empty()?;
        let mut command = Command::new("mmdebstrap");
        command.args(["--quiet", "--variant=essential", "--include=adduser,init-system-helpers"]);
        command.arg(release).arg(root.path());
        workspace::succeed(command)?;
        Ok(root)
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the name of the only file or directory.
    pub fn only_entry(&self) -> Result<String, String> {
        let mut paths = fs::read_dir(self.path()).map_err(|error| failed("a root", &error))?;
        let entry = paths.next().ok_or("an archive is empty")?;
        let entry = entry.map_err(|error| failed("a root", &error))?;
        Ok(entry.file_name().to_string_lossy().into_owned())
    }

    /// Unpacks a tar archive, with its modes and owners.
    pub fn unpack(&self, tar: &[u8]) -> Result<(), String> {
        unpack(tar, self.path())
    }

    /// Unpacks a compressed tar archive.
    pub fn unpack_gz(&self, tar: &[u8]) -> Result<(), String> {
        unpack(GzDecoder::new(tar), self.path())
    }

    /// Returns a command that the user runs in this root, started by the words of `through`.
    pub fn command(&self, through: &[&str], user: u32, program: &str) -> Command {
        let (first, rest) = through.split_first().map_or(("chroot", None), |(f, r)| (*f, Some(r)));
        let mut command = Command::new(first);
        if let Some(rest) = rest {
            command.args(rest).arg("chroot");
        }
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.arg(format!("--userspec={user}:{user}")).arg(self.path()).arg(program);
        command
    }

    /// Returns a command of root in this root.
    pub fn root_command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = self.command(&[], 0, program);
        command.args(words).env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    pub fn make_directory(&self, path: &str, mode: u32, owner: u32) -> Result<(), String> {
        let path = self.path().join(path);
        fs::create_dir_all(&path)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
            .and_then(|()| chown(&path, Some(owner), Some(owner)))
            .map_err(|error| failed(&path.display().to_string(), &error))
    }

    /// Creates the devices of random bytes, which every container and chroot has.
    pub fn make_random_devices(&self) -> Result<(), String> {
        self.make_directory("dev", 0o755, 0)?;
        [("random", "8"), ("urandom", "9")].iter().try_for_each(|(name, minor)| {
            let mut command = Command::new("mknod");
            command.arg("--mode=666").arg(self.path().join("dev").join(name));
            command.args(["c", "1", minor]);
            workspace::succeed(command)
        })
    }

    pub fn copy(&self, from: &Path, to: &str) -> Result<(), String> {
        let copied = fs::copy(from, self.path().join(to));
        copied.map(drop).map_err(|error| failed(&from.display().to_string(), &error))
    }

    pub fn remove(&self, path: &str) -> Result<(), String> {
        fs::remove_file(self.path().join(path)).map_err(|error| failed(path, &error))
    }

    /// Returns the id of a user of this root; `None` if there is none.
    pub fn user(&self, name: &str) -> Result<Option<u32>, String> {
        let path = self.path().join("etc/passwd");
        let text = fs::read_to_string(&path).map_err(|error| failed("/etc/passwd", &error))?;
        let line = text.lines().find(|line| line.starts_with(&format!("{name}:")));
        Ok(line.and_then(|line| line.split(':').nth(2)?.parse().ok()))
    }

    /// Returns the paths of all files and directories, sorted.
    pub fn paths(&self) -> Result<Vec<String>, String> {
        let mut paths = Vec::new();
        collect(self.path(), self.path(), &mut paths).map_err(|error| failed("a root", &error))?;
        paths.sort();
        Ok(paths)
    }
}

fn collect(root: &Path, folder: &Path, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        if NOT_COMPARED.contains(&name.as_str()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            collect(root, &path, paths)?;
        }
        paths.push(name);
    }
    Ok(())
}

fn unpack(tar: impl io::Read, into: &Path) -> Result<(), String> {
    let mut archive = tar::Archive::new(tar);
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(true);
    archive.unpack(into).map_err(|error| failed("an archive", &error))
}

fn failed(what: &str, error: &io::Error) -> String {
    format!("{what}: {error}")
}
