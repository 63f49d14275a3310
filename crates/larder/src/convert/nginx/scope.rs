//! Directives in effect: those of a block or, where it has none of a name, of the blocks around.

use crate::convert::nginx::classes::{ClassDraft, ClassDrafts};
use crate::convert::nginx::syntax::Directive;
use crate::convert::nginx::values;

/// Directives of which the first that names the client decides.
pub const ACCESS_LISTS: [&str; 2] = ["allow", "deny"];

/// Blocks, the innermost first.
#[derive(Clone, Debug, Default)]
pub struct Scope<'a> {
    levels: Vec<&'a [Directive]>,
    classes: Option<&'a ClassDrafts>,
}

impl<'a> Scope<'a> {
    pub fn inner(&self, block: &'a [Directive]) -> Scope<'a> {
        let mut levels = vec![block];
        levels.extend(&self.levels);
        Scope { levels, classes: self.classes }
    }

    /// Returns the scope of a block without those around it.
    pub fn alone(&self, block: &'a [Directive]) -> Scope<'a> {
        Scope { levels: vec![block], classes: self.classes }
    }

    /// Returns the scope with the variables that have become classes.
    pub fn with_classes(self, classes: &'a ClassDrafts) -> Scope<'a> {
        Scope { classes: Some(classes), ..self }
    }

    /// Returns whether the key has the value of a variable if it has the class of that name.
    pub fn has_key_class(&self, variable: &str) -> bool {
        let is_in_key = |text: &String| ["{host}", "{path}", "{uri}"].contains(&text.as_str());
        let is_partial = || self.partial(variable)?.otherwise().map(is_in_key);
        let is_class = self.classes.is_some_and(|classes| classes.get(variable).is_some());
        is_class || is_partial() == Some(true)
    }

    /// Returns the class of a variable whose empty value stands for a text with variables.
    pub fn partial(&self, variable: &str) -> Option<&'a ClassDraft> {
        Some(self.classes?.partial(variable)?)
    }

    /// Returns the values that a variable which has become a class can have.
    pub fn class_values(&self, variable: &str) -> Option<&'a [String]> {
        let classes = self.classes?;
        Some(classes.get(variable).or_else(|| classes.partial(variable))?.possible_values())
    }

    /// Returns a text with the variables of requests; `None` if one has no equivalent.
    pub fn template(&self, text: &str, server_name: &str) -> Option<String> {
        self.template_with(text, server_name, &|_| None)
    }

    /// Returns a text with the variables of requests, first those that `own` knows; `None` if one
    /// has no equivalent.
    pub fn template_with(
        &self,
        text: &str,
        server_name: &str,
        own: &dyn Fn(&str) -> Option<String>,
    ) -> Option<String> {
        let class = |name: &str| own(name).or_else(|| self.classes?.text(name));
        values::template_with(text, server_name, &class)
    }

    /// Returns the directives with one of these names of the innermost block that has any.
    pub fn all(&self, names: &[&str]) -> Vec<&'a Directive> {
        let of = |block: &'a [Directive]| {
            block.iter().filter(|one| names.contains(&one.name.as_str())).collect::<Vec<_>>()
        };
        self.levels.iter().map(|block| of(block)).find(|all| !all.is_empty()).unwrap_or_default()
    }

    /// Returns the directives in effect whose names fit, one of each name.
    pub fn named(&self, fits: impl Fn(&str) -> bool) -> Vec<&'a Directive> {
        let mut found: Vec<&'a Directive> = Vec::new();
        for one in self.levels.iter().flat_map(|block| block.iter().rev()) {
            if fits(&one.name) && !found.iter().any(|known| known.name == one.name) {
                found.push(one);
            }
        }
        found
    }

    /// Returns the `add_header` and the like in effect: with `add_header_inherit merge` those of
    /// all blocks, with `off` those of the innermost.
    pub fn added(&self, names: &[&str]) -> Vec<&'a Directive> {
        let of = |block: &'a [Directive]| {
            block.iter().filter(|one| names.contains(&one.name.as_str())).collect::<Vec<_>>()
        };
        match self.arg("add_header_inherit") {
            Some("merge") => self.levels.iter().rev().flat_map(|block| of(block)).collect(),
            Some("off") => of(self.block()),
            _ => self.all(names),
        }
    }

    /// Returns whether directives with these names have the same effect in another scope.
    pub fn shares(&self, names: &[&str], other: &Scope<'_>) -> bool {
        let (own, others) = (self.all(names), other.all(names));
        let is_same = |(own, other): (&&Directive, &&Directive)| {
            own.name == other.name && own.args == other.args
        };
        own.len() == others.len() && own.iter().zip(&others).all(is_same)
    }

    /// Returns the scope of the outermost block with locations: the server's.
    pub fn of_server(&self) -> Scope<'a> {
        let has_locations = |block: &&[Directive]| block.iter().any(|one| one.name == "location");
        let at = self.levels.iter().rposition(has_locations).unwrap_or(0);
        Scope { levels: self.levels[at..].to_vec(), classes: self.classes }
    }

    /// Returns the directive with this name that is in effect.
    pub fn get(&self, name: &str) -> Option<&'a Directive> {
        self.all(&[name]).last().copied()
    }

    /// Returns the first argument of a directive.
    pub fn arg(&self, name: &str) -> Option<&'a str> {
        self.get(name).map(|directive| directive.arg(0))
    }

    pub fn is_on(&self, name: &str) -> bool {
        self.arg(name) == Some("on")
    }

    /// Returns the directive of the innermost block only.
    pub fn own(&self, name: &str) -> Option<&'a Directive> {
        self.levels.first()?.iter().find(|one| one.name == name)
    }

    /// Returns the locations of all blocks.
    pub fn locations(&self) -> impl Iterator<Item = &'a Directive> {
        self.levels.iter().flat_map(|block| block.iter()).filter(|one| one.name == "location")
    }

    /// Returns the maps of all blocks.
    pub fn maps(&self) -> impl Iterator<Item = &'a Directive> {
        self.levels.iter().flat_map(|block| block.iter()).filter(|one| one.name == "map")
    }

    pub fn block(&self) -> &'a [Directive] {
        self.levels.first().copied().unwrap_or_default()
    }
}
