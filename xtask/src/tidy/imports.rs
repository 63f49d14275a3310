//! The imports between the files of a crate, read from the sources.
//!
//! An arrow leads from a file to each file that defines something it names with a path through
//! `crate`, `super` or a child module: in `use`, in code and in macros. A re-export is followed to
//! the definition and is no arrow by itself, so a folder's front that only re-exports depends on
//! nothing. Tests are not counted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// A module of a crate by its path: empty for the root.
pub type Module = Vec<String>;

/// The arrows between the files of one crate.
#[derive(Debug, Default)]
pub struct Graph {
    /// File (as its module) → the files that it imports.
    pub arrows: BTreeMap<Module, BTreeSet<Module>>,
}

/// The imports and definitions of one file.
#[derive(Default)]
struct Facts {
    /// Paths that it names, each from the root of the crate.
    named: BTreeSet<Vec<String>>,
    /// Re-exports: name → path from the root of the crate.
    handed_on: BTreeMap<String, Vec<String>>,
}

impl Graph {
    /// Reads the arrows of the crate whose sources are `files` (path below `src` → text).
    pub fn read(files: &BTreeMap<PathBuf, String>) -> Graph {
        let parsed: BTreeMap<Module, syn::File> = files
            .iter()
            .filter_map(|(path, text)| Some((module_of(path), syn::parse_file(text).ok()?)))
            .collect();
        let tests = test_modules(&parsed);
        let modules: BTreeSet<Module> =
            parsed.keys().filter(|m| !is_below(m, &tests)).cloned().collect();
        let facts: BTreeMap<&Module, Facts> =
            modules.iter().map(|m| (m, facts(m, &parsed[m], &modules))).collect();
        let mut arrows = BTreeMap::new();
        for (module, said) in &facts {
            let to = said.named.iter().filter_map(|path| definition(path, &modules, &facts, 0));
            arrows.insert((*module).clone(), to.filter(|to| to != *module).collect());
        }
        Graph { arrows }
    }

    /// Returns the cycles of more than `allowed` files: sets of files each of which reaches all
    /// others.
    pub fn circles(&self, allowed: usize) -> Vec<Vec<Module>> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            self.arrows.keys().map(|m| (m, self.reach(m))).collect();
        let mut seen = BTreeSet::new();
        let mut circles = Vec::new();
        for (module, below) in &reached {
            if !below.contains(module) || seen.contains(module) {
                continue;
            }
            let circle: Vec<Module> = below
                .iter()
                .filter(|m| reached[**m].contains(module))
                .map(|m| (*m).clone())
                .collect();
            seen.extend(below.iter().copied().filter(|m| circle.contains(m)));
            if circle.len() > allowed {
                circles.push(circle);
            }
        }
        circles
    }

    /// Returns all files that `from` imports, directly or through others.
    fn reach<'a>(&'a self, from: &Module) -> BTreeSet<&'a Module> {
        let mut reached = BTreeSet::new();
        let mut queue: Vec<&Module> = self.arrows[from].iter().collect();
        while let Some(next) = queue.pop() {
            if reached.insert(next) {
                queue.extend(&self.arrows[next]);
            }
        }
        reached
    }
}

/// Returns the module of a file below `src`.
fn module_of(path: &Path) -> Module {
    let without = path.with_extension("");
    let mut parts: Module =
        without.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod")
        || matches!(&parts[..], [one] if one == "lib" || one == "main")
    {
        parts.pop();
    }
    parts
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|a| match &a.meta {
        syn::Meta::List(list) => {
            list.path.is_ident("cfg") && list.tokens.to_string().contains("test")
        }
        _ => false,
    })
}

/// Returns the modules that exist in tests only.
fn test_modules(parsed: &BTreeMap<Module, syn::File>) -> BTreeSet<Module> {
    let mut tests = BTreeSet::new();
    for (module, file) in parsed {
        for item in &file.items {
            if let syn::Item::Mod(child) = item
                && is_test(&child.attrs)
            {
                let mut path = module.clone();
                path.push(child.ident.to_string());
                tests.insert(path);
            }
        }
    }
    tests
}

fn is_below(module: &Module, set: &BTreeSet<Module>) -> bool {
    (1..=module.len()).any(|n| set.contains(&module[..n]))
}

fn facts(module: &Module, file: &syn::File, modules: &BTreeSet<Module>) -> Facts {
    let mut reader = Reader { at: module.clone(), modules, facts: Facts::default() };
    reader.visit_file(file);
    reader.facts
}

/// Collects the paths of one file.
struct Reader<'a> {
    /// The module that is being read: deeper than the file's in an inline module.
    at: Module,
    modules: &'a BTreeSet<Module>,
    facts: Facts,
}

impl Reader<'_> {
    /// Returns `path` from the root of the crate; `None` when it leads out of the crate or is
    /// local.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let mut base = match path.first()?.as_str() {
            "crate" => Module::new(),
            "self" | "super" => self.at.clone(),
            first => {
                let mut child = self.at.clone();
                child.push(first.to_owned());
                if !self.modules.contains(&child) {
                    return None;
                }
                child.extend_from_slice(&path[1..]);
                return Some(child);
            }
        };
        let ups = path.iter().take_while(|s| *s == "super").count();
        base.truncate(base.len().checked_sub(ups)?);
        base.extend_from_slice(&path[ups.max(1)..]);
        Some(base)
    }

    fn name(&mut self, path: &[String]) {
        self.facts.named.extend(self.absolute(path));
    }

    fn tree(&mut self, tree: &syn::UseTree, before: &mut Vec<String>, hands_on: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.tree(&path.tree, before, hands_on);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.tree(tree, before, hands_on);
                }
            }
            syn::UseTree::Name(name) => self.leaf(before, &name.ident, &name.ident, hands_on),
            syn::UseTree::Rename(name) => self.leaf(before, &name.ident, &name.rename, hands_on),
            syn::UseTree::Glob(_) if !hands_on => self.name(before),
            _ => {}
        }
    }

    fn leaf(&mut self, before: &[String], name: &syn::Ident, called: &syn::Ident, hands_on: bool) {
        let mut path = before.to_vec();
        if name != "self" {
            path.push(name.to_string());
        }
        if !hands_on {
            return self.name(&path);
        }
        if let Some(path) = self.absolute(&path) {
            self.facts.handed_on.insert(called.to_string(), path);
        }
    }

    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.name(&std::mem::take(&mut path));
                        path.clear();
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.name(&std::mem::take(&mut path));
                    self.tokens(group.stream());
                }
                _ => self.name(&std::mem::take(&mut path)),
            }
        }
        self.name(&path);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_use(&mut self, node: &'ast syn::ItemUse) {
        if !is_test(&node.attrs) {
            let hands_on = !matches!(node.vis, syn::Visibility::Inherited);
            self.tree(&node.tree, &mut Vec::new(), hands_on);
        }
    }

    fn visit_item_mod(&mut self, node: &'ast syn::ItemMod) {
        if !is_test(&node.attrs) && node.content.is_some() {
            self.at.push(node.ident.to_string());
            visit::visit_item_mod(self, node);
            self.at.pop();
        }
    }

    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        if !is_test(&node.attrs) {
            visit::visit_item_fn(self, node);
        }
    }

    fn visit_item_impl(&mut self, node: &'ast syn::ItemImpl) {
        if !is_test(&node.attrs) {
            visit::visit_item_impl(self, node);
        }
    }

    fn visit_path(&mut self, node: &'ast syn::Path) {
        let path: Vec<String> = node.segments.iter().map(|s| s.ident.to_string()).collect();
        if path.len() > 1 {
            self.name(&path);
        }
        visit::visit_path(self, node);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_macro(&mut self, node: &'ast syn::Macro) {
        self.tokens(node.tokens.clone());
    }
}

/// Returns the file that defines what `path` names: the deepest module on it, through re-exports.
fn definition(
    path: &[String],
    modules: &BTreeSet<Module>,
    facts: &BTreeMap<&Module, Facts>,
    depth: usize,
) -> Option<Module> {
    let deepest = (0..=path.len()).rev().find(|n| modules.contains(&path[..*n]))?;
    let module = path[..deepest].to_vec();
    let handed_on = path.get(deepest).and_then(|name| facts[&module].handed_on.get(name));
    match handed_on {
        Some(onward) if depth < 8 => {
            let rest = onward.iter().chain(&path[deepest + 1..]).cloned().collect::<Vec<_>>();
            definition(&rest, modules, facts, depth + 1)
        }
        _ => Some(module),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(list: &[(&str, &str)]) -> Graph {
        Graph::read(&list.iter().map(|(p, t)| (PathBuf::from(p), (*t).to_owned())).collect())
    }

    fn arrows(graph: &Graph) -> Vec<String> {
        let each = |(from, to): (&Module, &BTreeSet<Module>)| {
            to.iter()
                .map(|to| format!("{} -> {}", from.join("::"), to.join("::")))
                .collect::<Vec<_>>()
        };
        graph.arrows.iter().flat_map(each).collect()
    }

    #[test]
    fn an_arrow_leads_to_the_file_that_defines_a_thing() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod b; pub use a::inner::Thing;"),
            ("a.rs", "mod inner; pub use inner::{Thing, Other as Renamed};"),
            ("a/inner.rs", "pub struct Thing; fn f() { super::super::b::g() }"),
            ("b.rs", "use crate::a::Renamed; fn g() { info!(\"{}\", crate::a::inner::x()) }"),
        ]);
        assert_eq!(arrows(&graph), ["a::inner -> b", "b -> a::inner"]);
    }

    #[test]
    fn tests_and_names_of_other_crates_count_for_nothing() {
        let graph = graph(&[
            ("main.rs", "mod a; mod b; #[cfg(test)] mod long;"),
            ("a.rs", "use std::fmt; #[cfg(test)] mod tests { use crate::b::B; }"),
            ("b.rs", "use http::b::B; #[cfg(test)] use crate::a::A;"),
            ("long.rs", "use crate::a::A;"),
        ]);
        assert_eq!(arrows(&graph), Vec::<String>::new());
    }

    #[test]
    fn circles_are_found_by_size() {
        let graph = graph(&[
            ("lib.rs", ""),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::C;"),
            ("c.rs", "use crate::{a::A, d::D};"),
            ("d.rs", "use crate::e::E;"),
            ("e.rs", "use crate::d::D;"),
        ]);
        let names = |allowed| -> Vec<String> {
            let circles = graph.circles(allowed);
            circles.iter().map(|c| c.iter().map(|m| m.join("::")).collect()).collect()
        };
        assert_eq!(names(2), ["abc"]);
        assert_eq!(names(1), ["abc", "de"]);
        assert_eq!(names(3), Vec::<String>::new());
    }
}
