//! A running proxy that a pid file names: its configuration file and its admin address, from its
//! command line.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The flags of a running `larder serve` that lead to its admin interface.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ServeFlags {
    pub config: Option<PathBuf>,
    pub admin: Option<SocketAddr>,
}

/// Returns the flags of the process that a pid file names. The error is a sentence.
pub(super) fn flags_of(pid_file: &Path) -> Result<ServeFlags, String> {
    let at = pid_file.display();
    let text = fs::read_to_string(pid_file).map_err(|error| format!("{at}: {error}"))?;
    let pid: u32 = text.trim().parse().map_err(|_| format!("{at}: it names no process"))?;
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let arguments = String::from_utf8_lossy(&arguments);
    let arguments: Vec<&str> = arguments.split('\0').collect();
    if !arguments.contains(&"serve") {
        return Err(format!("{at}: process {pid} is no running larder"));
    }
    let flags = flags(&arguments);
    let folder = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    Ok(ServeFlags { config: flags.config.map(|path| folder.join(path)), ..flags })
}

fn flags(arguments: &[&str]) -> ServeFlags {
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| {
            argument.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })?;
        match arguments[at].split_once('=') {
            Some((_, value)) => Some(value),
            None => arguments.get(at + 1).copied(),
        }
    };
    ServeFlags {
        config: value("--config").map(PathBuf::from),
        admin: value("--admin").and_then(|value| value.parse().ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_found_in_both_forms() {
        let found = flags(&["larder", "serve", "--config", "a.toml", "--admin=127.0.0.1:9"]);
        let config = Some(PathBuf::from("a.toml"));
        assert_eq!(found, ServeFlags { config, admin: "127.0.0.1:9".parse().ok() });
        assert_eq!(flags(&["larder", "serve"]), ServeFlags::default());
    }
}
