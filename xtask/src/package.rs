//! Packages of the programs: a tarball, a deb, an rpm, an image for containers, and their sums.
//!
//! All contain the same static programs, which run on any Linux with this processor. Nothing but
//! the programs depends on this machine: entries are sorted and belong to root, and their time is
//! `SOURCE_DATE_EPOCH`, or that of the last commit. So the same programs make the same bytes.

mod archive;
mod contents;
mod deb;
mod image;
mod programs;
mod rpm;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use archive::sha256;
use clap::Args;

use crate::workspace;
use crate::workspace::{VERSION, at, output};

/// Where to write the packages, and of which programs.
#[derive(Args)]
pub struct Options {
    /// The folder for the packages; created if missing.
    #[arg(long)]
    pub out: PathBuf,
    /// The larder to pack, with larder-lab beside it; both are built, statically, when absent.
    #[arg(long)]
    pub binary: Option<PathBuf>,
}

/// Writes all packages, and prints their sizes.
///
/// # Errors
///
/// When a program cannot be built or run, or a file cannot be written.
pub fn run(options: &Options) -> Result<(), String> {
    let programs = match &options.binary {
        Some(larder) => programs::beside(larder)?,
        None => programs::build()?,
    };
    let time = time()?;
    let contents = contents::Contents::collect(&programs)?;
    let packages = [
        (format!("larder-{VERSION}-x86_64-linux.tar.gz"), tarball(&contents, time)?),
        (format!("larder_{VERSION}_amd64.deb"), deb::write(&contents, time)?),
        (format!("larder-{VERSION}.x86_64.rpm"), rpm::write(&contents, time)?),
        (format!("larder-{VERSION}.oci.tar"), image::write(&contents, time)?),
    ];
    fs::create_dir_all(&options.out).map_err(|error| at(&options.out, &error))?;
    let mut sums = String::new();
    for (name, bytes) in &packages {
        let path = options.out.join(name);
        fs::write(&path, bytes).map_err(|error| at(&path, &error))?;
        println!("{:>11} {}", bytes.len(), path.display());
        // Writing to a string cannot fail.
        let _ = writeln!(sums, "{}  {name}", sha256(bytes));
    }
    let path = options.out.join("SHA256SUMS");
    fs::write(&path, sums).map_err(|error| at(&path, &error))
}

/// Returns the tarball: one folder, named after the version.
fn tarball(contents: &contents::Contents, time: u64) -> Result<Vec<u8>, String> {
    let mut files = contents.by_hand();
    for file in &mut files {
        file.path = format!("larder-{VERSION}/{}", file.path);
    }
    archive::gzip(&archive::tar(&files, "", time)?)
}

/// Returns the time of all entries, in seconds since 1970.
fn time() -> Result<u64, String> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => {
            let mut git = Command::new("git");
            git.args(["log", "-1", "--format=%ct"]).current_dir(workspace::root());
            output(git)?
        }
    };
    text.trim().parse().map_err(|_| {
        format!("SOURCE_DATE_EPOCH, or the last commit's time: expected seconds, got {text:?}")
    })
}
