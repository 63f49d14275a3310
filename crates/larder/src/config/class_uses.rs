//! Where rules and classes use classes, and what `check-config` says of it.

use std::collections::BTreeSet;

use proxy::message::template::{Stage, Template, Variable};
use proxy::rules::classes::Classes;

use crate::config::configuration::Config;
use crate::config::request_rule::RequestRule;
use crate::config::rule_response::RuleResponse;

impl Config {
    /// Returns the classes as the proxy uses them. The error is a sentence.
    pub fn classes_to_proxy(&self) -> Result<Classes, String> {
        let mut classes = Classes::default();
        for class in &self.classes {
            let added = class.add_to(&mut classes);
            added.map_err(|(key, why)| format!("class.{key} of {:?}: {why}", class.name))?;
        }
        Ok(classes)
    }

    /// Returns a sentence for each rule that keeps requests out by a class of the path.
    pub fn loose_classes(&self) -> Vec<String> {
        let of_path = |name: &str| {
            let class = self.classes.iter().find(|class| class.name == name);
            class.is_some_and(|class| class.of.contains("{path}") || class.of.contains("{uri}"))
        };
        let mut told = Vec::new();
        for (at, rule) in self.rules.iter().enumerate().filter(|(_, rule)| rule.keeps_out()) {
            for name in rule.when.class_names().filter(|name| of_path(name)) {
                told.push(format!(
                    "rule {:?}: class {name:?} sees one reading of a path, and a server may read \
                     it as another page: use paths to keep requests out",
                    rule.called(at + 1)
                ));
            }
        }
        told
    }

    /// Returns a sentence for each class that nothing uses.
    pub fn idle_classes(&self) -> Vec<String> {
        let mut used: BTreeSet<String> = BTreeSet::new();
        for rule in &self.rules {
            used.extend(rule.class_names());
            used.extend(rule.when.class_names().map(str::to_owned));
        }
        self.classes.iter().for_each(|class| used.extend(names_in(&class.of)));
        let idle = self.classes.iter().filter(|class| !used.contains(&class.name));
        idle.map(|class| format!("class {:?} has no effect: no rule uses it", class.name)).collect()
    }
}

impl RequestRule {
    /// Returns the names of the classes that the rule uses beside its conditions.
    pub fn class_names(&self) -> BTreeSet<String> {
        let responses = self.responses.iter().flat_map(RuleResponse::texts);
        let texts = self.client_set.iter().chain(responses).chain(self.actions.texts());
        let names = texts.flat_map(|text| names_in(text));
        names.chain(self.origin_class_names()).chain(self.key_classes.iter().cloned()).collect()
    }

    /// Returns the names of the classes that decide what the origin is asked or what is stored.
    pub fn origin_class_names(&self) -> BTreeSet<String> {
        let responses = self.responses.iter().flat_map(|entry| &entry.answer_set);
        let edits = self.request_set.iter().chain(&self.answer_set).chain(responses);
        let made = self.actions.made_texts().map(|(_, text)| text);
        edits.chain(&self.location_rewrite).chain(made).flat_map(|text| names_in(text)).collect()
    }
}

/// Returns the names of the classes among the variables of a text. Other checks refuse a text that
/// cannot be parsed.
fn names_in(text: &str) -> Vec<String> {
    let Ok(template) = Template::parse(text, Stage::Response) else { return Vec::new() };
    let name = |variable: &Variable| match variable {
        Variable::Class(name) => Some(name.clone()),
        _ => None,
    };
    template.variables().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::config::file::File;
    use crate::config::layers::Layer;
    use crate::config::loaded::Loaded;

    const PLAN: &str = "[[class]]\nname = 'plan'\nof = '{header.x-plan}'\nvalues = ['a => b']\n";

    fn load(text: &str) -> Result<Loaded, String> {
        let file = File::parse("larder.toml", text).map_err(|problems| problems.to_string())?;
        Loaded::build(&file, &Layer::new()).map_err(|problems| problems.to_string())
    }

    #[test]
    fn wrong_uses_of_classes_are_named() {
        for (text, words) in [
            ("[[rule]]\nclasses = ['plan=c']", "4: rule.classes: the class \"plan\" never has"),
            ("[[rule]]\nkey-classes = ['plans']", "rule.key-classes: there is no class \"plans\""),
            ("[[rule]]\nclient-set = ['A: {class.x}']", "there is no class \"x\""),
            ("[[rule]]\nany = [{ not-classes = ['x=b'] }]", "rule.any: not-classes: there is no"),
            (PLAN, "5: class.name: expected another name than that of line 1"),
            (
                "[[class]]\nname = 'x'\nof = 'x'\nvalues = ['a']",
                "class.values: expected \"PATTERN => VALUE\", such as",
            ),
            (
                "[[class]]\nname = 'x'\nof = 'x'\nvalues = ['a => b', 'A => c']",
                "class.values: \"A => c\" contradicts another entry for the same",
            ),
        ] {
            let told = load(&format!("{PLAN}{text}\n")).unwrap_err();
            let words = words.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':');
            assert!(told.contains(words), "{told}");
        }
    }

    #[test]
    fn unused_classes_and_those_of_the_path_are_told() {
        let warnings = |text: &str| {
            let config = load(text).unwrap().config;
            [config.idle_classes(), config.loose_classes(), config.unkeyed_edits()].concat()
        };
        assert_eq!(warnings(PLAN), ["class \"plan\" has no effect: no rule uses it"]);
        for rule in [
            "classes = ['plan=b']",
            "any = [{ not-classes = ['plan='] }]",
            "key-classes = ['plan']",
            "request-set = ['A: {class.plan}']",
            "respond = '200 {class.plan}'",
            "responses = [{ types = ['a/b'], client-set = ['A: {class.plan}'] }]",
        ] {
            let text = format!("{PLAN}[[rule]]\n{rule}\n");
            assert_eq!(warnings(&text), Vec::<String>::new(), "{rule}");
        }
        let of_path = PLAN.replace("{header.x-plan}", "{path}");
        let told = warnings(&format!("{of_path}[[rule]]\nclasses = ['plan=b']\ndeny = true"));
        assert!(told[0].contains("sees one reading of a path"), "{told:?}");
    }

    #[test]
    fn entries_are_read_from_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("entries");
        fs::write(&path, "# comment\n10.0.0.0/8\n10.1.0.0/16 => lab\n").unwrap();
        let text = |file: &str| {
            let values = format!("['@{}{file}', '::1 => v6']", path.display());
            format!("[[class]]\nname = 'x'\nof = '{{client_ip}}'\nvalues = {values}")
        };
        let loaded = load(&text(" => in")).unwrap();
        let expected = ["10.0.0.0/8 => in", "10.1.0.0/16 => lab", "::1 => v6"];
        assert_eq!(loaded.config.classes[0].values, expected);
        assert!(loaded.sources.lists.contains_key(&path));
        let told = load(&text("")).unwrap_err();
        assert!(told.contains("entries:2: expected \"PATTERN => VALUE\""), "{told}");
    }
}
