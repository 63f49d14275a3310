//! The order of a crate's folders: which may import which.
//!
//! A crate declares it in its `Cargo.toml`, from the top to the bottom:
//!
//! ```toml
//! [package.metadata.folders]
//! server = ["cache", "message"]
//! cache = ["message"]
//! message = []
//! ```
//!
//! A top-level module is a folder here, even if it is a single file. Every crate of more than one
//! file has such a table. Findings are: an import that the table does not allow, a table with a
//! cycle, and a cycle of more than [`CIRCLE_MAX`] files. The root (`lib.rs`, `main.rs`) may import
//! everything, and every file may import the root's own definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::finding::{Finding, finding};
use super::imports::{Graph, Module};

/// Maximum number of files in an import cycle.
const CIRCLE_MAX: usize = 3;

/// Folder → the folders that it may import.
type Table = BTreeMap<String, Vec<String>>;

/// Returns the findings about the imports of the crates among `files` (path below the root of the
/// workspace → text).
pub fn check(files: &BTreeMap<PathBuf, String>) -> Vec<Finding> {
    crates(files).into_iter().flat_map(|(root, graph)| check_crate(files, &root, &graph)).collect()
}

/// Returns the crates and their imports, by folder.
pub fn crates(files: &BTreeMap<PathBuf, String>) -> BTreeMap<PathBuf, Graph> {
    let manifests = files.keys().filter(|p| p.file_name().is_some_and(|n| n == "Cargo.toml"));
    let mut crates = BTreeMap::new();
    for root in manifests.filter_map(|p| p.parent()) {
        let src = root.join("src");
        let own: BTreeMap<PathBuf, String> = files
            .iter()
            .filter(|(path, _)| path.extension().is_some_and(|e| e == "rs"))
            .filter_map(|(path, text)| {
                Some((path.strip_prefix(&src).ok()?.to_owned(), text.clone()))
            })
            .collect();
        if !own.is_empty() {
            crates.insert(root.to_owned(), Graph::read(&own));
        }
    }
    crates
}

fn check_crate(files: &BTreeMap<PathBuf, String>, root: &Path, graph: &Graph) -> Vec<Finding> {
    let manifest = root.join("Cargo.toml");
    let what: Vec<String> = match table(&files[&manifest]) {
        Ok(Some(table)) => {
            circles(graph).chain(descent(&table)).chain(upward(graph, &table)).collect()
        }
        Ok(None) if graph.arrows.len() > 1 => {
            vec!["without package.metadata.folders, the table of its folders".to_owned()]
        }
        Ok(None) => Vec::new(),
        Err(e) => vec![format!("package.metadata.folders: {e}")],
    };
    what.into_iter().map(|what| finding(&manifest, 1, what)).collect()
}

/// Returns the table in a manifest.
fn table(manifest: &str) -> Result<Option<Table>, String> {
    let parsed: toml::Table = manifest.parse().map_err(|e: toml::de::Error| e.to_string())?;
    let folders = parsed
        .get("package")
        .and_then(|package| package.get("metadata"))
        .and_then(|metadata| metadata.get("folders"));
    folders
        .map(|folders| folders.clone().try_into::<Table>().map_err(|e| e.to_string()))
        .transpose()
}

/// Returns the cycles of files that are too large.
fn circles(graph: &Graph) -> impl Iterator<Item = String> {
    graph.circles(CIRCLE_MAX).into_iter().map(|circle| {
        let names: Vec<String> = circle.iter().map(|m| m.join("::")).collect();
        format!("{} files import each other: {}", names.len(), names.join(", "))
    })
}

/// Returns the folders of `table` that are part of a cycle.
fn descent(table: &Table) -> impl Iterator<Item = String> {
    let mut arrows: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (folder, below) in table {
        let below = below.iter().map(|b| vec![b.clone()]);
        arrows.entry(vec![folder.clone()]).or_default().extend(below.clone());
        below.for_each(|b| {
            arrows.entry(b).or_default();
        });
    }
    let circles = Graph { arrows }.circles(1);
    circles
        .into_iter()
        .map(|c| format!("folders allowed to import each other: {}", c.concat().join(", ")))
}

/// Returns the imports that `table` does not allow.
fn upward<'a>(graph: &'a Graph, table: &'a Table) -> impl Iterator<Item = String> + 'a {
    let arrows = graph.arrows.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    arrows.filter_map(move |(from, to)| {
        let (above, below) = (from.first()?, to.first()?);
        if above == below {
            return None;
        }
        let (from, to) = (from.join("::"), to.join("::"));
        match table.get(above) {
            None => Some(format!("the folder {above} ({from}) is not in package.metadata.folders")),
            Some(allowed) if allowed.contains(below) => None,
            Some(_) => Some(format!("{from} imports {to}: {above} may not import {below}")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(manifest: &str) -> Vec<String> {
        let files = [
            ("crates/a/Cargo.toml", manifest),
            ("crates/a/src/lib.rs", "mod high; mod low;"),
            ("crates/a/src/high.rs", "mod one; use crate::low::Low;"),
            ("crates/a/src/high/one.rs", "use crate::high::two::Two;"),
            ("crates/a/src/low.rs", ""),
        ];
        let files = files.iter().map(|(p, t)| (PathBuf::from(p), (*t).to_owned())).collect();
        check(&files).into_iter().map(|f| f.what).collect()
    }

    #[test]
    fn imports_follow_the_table() {
        let none = Vec::<String>::new();
        let without = found("[package]\nname = \"a\"");
        assert_eq!(without, ["without package.metadata.folders, the table of its folders"]);
        assert_eq!(found("[package.metadata.folders]\nhigh = [\"low\"]\nlow = []"), none);
        let upward = found("[package.metadata.folders]\nhigh = []\nlow = [\"high\"]");
        assert_eq!(upward, ["high imports low: high may not import low"]);
        let missing = found("[package.metadata.folders]\nlow = []");
        assert_eq!(missing, ["the folder high (high) is not in package.metadata.folders"]);
    }

    #[test]
    fn a_table_leads_down_only() {
        let found = found("[package.metadata.folders]\nhigh = [\"low\"]\nlow = [\"high\"]");
        assert_eq!(found, ["folders allowed to import each other: high, low"]);
        assert!(self::found("[package.metadata.folders]\nhigh = 3")[0].contains("folders: "));
    }
}
