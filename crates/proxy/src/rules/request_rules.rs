//! The operator's rules, which treat some requests differently from the rest.
//!
//! A rule states which requests it is for ([`Condition`]) and how they are treated ([`Rule`]).
//! Rules are tried in order. The first that matches decides, and rules that continue
//! ([`Rule::continues`]) add to the one that decides after them. A rule inherits any setting that
//! it omits from the whole proxy.
//!
//! Rules may change the key of an object (query parameters that do not count). They must therefore
//! be applied to every name under which an object is stored, removed or purged: [`Rules::names`]
//! returns all names that a URL may have under any rule.
//!
//! The rules are compiled when they are loaded (`RuleIndex`), so that rules that do not match cost
//! a request almost nothing. Rules that were once taken together are kept as one.

use std::sync::Arc;

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use http::header::HeaderName;
use semantics::{EditFields, Fields, Settings, Url, UsualNames};

use crate::rules::classes::{Classes, KEY_CLASSES};
use crate::rules::limits::Limit;
use crate::rules::request_rules::rule::{AND, NONE};
use crate::rules::request_rules::rule_index::{Matched, RuleIndex};
use crate::rules::tables::rule_set::numbers;

pub(crate) use response_rule::DECISION;
pub(crate) use rule::{DECIDED_BY, KEY_COOKIES};
pub(crate) use server_template::NamedServer;

pub use action::{Actions, Follow, Location, Reply, ReplyBody, Rewrite, TriedName, TryRoot};
pub use condition::{Condition, HeaderTest, ListenerTest, NamedTest, PathTest, RuleFacts, Share};
pub use key_path::KeyPath;
pub use location_rewrite::LocationRewrite;
pub use response_rule::{ResponseRule, ResponseRules, ResponseTests};
pub use rule::{AnswerEdits, QuerySend, Rule, SettingsLayer, Settled};
pub use server_template::ServerTemplate;
pub(crate) use substitution::Replacing;
pub use substitution::{Substitute, Substitution};
pub use timeouts::Timeouts;

pub(crate) mod action;
mod condition;
mod key_path;
mod location_rewrite;
mod response_rule;
mod rule;
mod rule_index;
mod server_template;
mod substitution;
mod timeouts;

/// Removes the fields that only the proxy may set from a client's request. Applies even without
/// rules: objects stored under a removed rule may still exist.
pub(crate) fn distrust(request: &mut impl EditFields) {
    request.remove_in(UsualNames::NONE, |name| {
        let own = [DECIDED_BY, KEY_COOKIES, KEY_CLASSES];
        own.iter().any(|own| name.eq_ignore_ascii_case(own.as_str()))
    });
}

/// All rules, in order.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    list: Vec<Arc<Rule>>,
    index: Arc<RuleIndex>,
    /// The settings for requests that no rule matches.
    base: Settings,
    /// All classes, whether or not a rule uses them.
    pub(crate) classes: Classes,
    together: Arc<ArcSwap<Together>>,
}

/// Rules that were taken together.
type Together = HashMap<Matched<Vec<u64>>, Arc<Rule>>;

/// Maximum number of entries of [`Together`], which begins anew when it is full: clients that
/// choose fields and query can make as many as there are subsets of the rules.
const TOGETHER_MAX: usize = 1024;

impl Rules {
    /// Compiles these rules, in this order. Requests that none matches have the settings `base`.
    pub fn new(list: Vec<Rule>, base: &Settings) -> Rules {
        let changes_query = list.iter().any(|rule| !rule.query.is_default());
        let mut known = HashMap::new();
        let marked = |mut rule: Rule| {
            if let Some(actions) =
                rule.actions.as_mut().filter(|actions| !actions.limits.is_empty())
            {
                let limits = &mut Arc::make_mut(actions).limits;
                limits.iter_mut().for_each(|limit| *limit = Arc::new(limit.shared(&mut known)));
            }
            Arc::new(rule.identified().marked(changes_query))
        };
        Rules::compiled(list.into_iter().map(marked).collect(), base.clone())
    }

    fn compiled(list: Vec<Arc<Rule>>, base: Settings) -> Rules {
        let index = Arc::new(RuleIndex::new(&list));
        Rules { index, list, base, classes: Classes::default(), together: Arc::default() }
    }

    /// Returns the rules with the classes that they use.
    pub fn with_classes(self, classes: Classes) -> Rules {
        Rules { classes, ..self }
    }

    /// Adds these request fields to the key of every object. Requests that no rule of the operator
    /// matches get a rule with this `name`.
    pub fn with_key_fields(mut self, name: &str, fields: &[HeaderName]) -> Rules {
        if fields.is_empty() {
            return self;
        }
        self.list.push(Arc::new(Rule::new(name.to_owned(), self.base.clone()).identified()));
        for rule in &mut self.list {
            Arc::make_mut(rule).key_headers.extend_from_slice(fields);
        }
        Rules::compiled(self.list, self.base).with_classes(self.classes)
    }

    /// Lets limits that state the same as before continue with their counters.
    pub(crate) fn adopt(&self, before: &Rules) {
        let limits = |rules: &'_ Rules| -> Vec<Arc<Limit>> {
            let actions = rules.list.iter().filter_map(|rule| rule.actions.as_ref());
            actions.flat_map(|actions| actions.limits.iter().cloned()).collect()
        };
        let known = limits(before);
        limits(self).iter().for_each(|limit| limit.adopt(known.iter()));
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the rule with this id, or the rules with these ids taken together; `None` if none
    /// states the same.
    pub fn with_id(&self, id: &str) -> Option<Arc<Rule>> {
        let number = |name: &str| self.list.iter().position(|rule| rule.id == name);
        if let Some(number) = number(id) {
            return self.list.get(number).cloned();
        }
        let (mut rules, mut missed) = (Vec::new(), Vec::new());
        for name in id.split(AND) {
            match number(name) {
                // They were taken together in this order.
                Some(number) if rules.last().is_some_and(|last| number <= *last) => return None,
                Some(number) => rules.push(number),
                // A missed rule that is not known.
                None if name == NONE => missed.push(self.list.len()),
                None => return None,
            }
        }
        self.taken(Matched::of(&rules, &missed).as_slices())
    }

    /// Returns whether a rule depends on [`RuleFacts::upgrade`].
    pub fn look_at_upgrades(&self) -> bool {
        self.index.looks_at_upgrades()
    }

    /// Returns whether a rule depends on [`RuleFacts::client`].
    pub fn look_at_clients(&self) -> bool {
        self.index.looks_at_clients()
    }

    /// Returns whether a rule for this place that keeps requests out looks at what is not known of
    /// the target of a redirect that the proxy follows.
    pub fn hide_from_redirects(&self, site: Option<&str>, host: &str, path: &str) -> bool {
        let hides = |rule: &Rule| rule.keeps_out() && rule.when.looks_past_redirects();
        let places = self.index.of_place(site, host, path);
        places.into_iter().any(|number| hides(&self.list[number]))
    }

    /// Returns a rule as one that keeps requests from the cache.
    pub(crate) fn past_cache(&self, rule: Option<Arc<Rule>>) -> Arc<Rule> {
        let rule = rule.map(|rule| Rule::clone(&rule));
        let rule = rule.unwrap_or_else(|| Rule::new(NONE.to_owned(), self.base.clone()));
        Arc::new(Rule { bypass: true, ..rule })
    }

    /// Returns the rule for a request with these fields: the rules that match it, taken together.
    pub fn find(&self, asked: &RuleFacts<'_>, fields: &impl Fields) -> Option<Arc<Rule>> {
        self.index.find(asked, fields, |matched| self.taken(matched))
    }

    /// Returns the matched rules taken together; `None` if there are none.
    fn taken(&self, matched: Matched<&[u64]>) -> Option<Arc<Rule>> {
        if matched.missed.is_empty() {
            let mut all = numbers(matched.rules);
            match (all.next(), all.next()) {
                (None, _) => return None,
                (Some(number), None) => return self.list.get(number).cloned(),
                _ => {}
            }
        }
        if let Some(rule) = self.together.load().get(&matched) {
            return Some(rule.clone());
        }
        let made = Arc::new(self.make(matched));
        self.together.rcu(|together| {
            let is_full = together.len() >= TOGETHER_MAX;
            let mut together = if is_full { Together::new() } else { Together::clone(together) };
            together.insert(matched.to_vecs(), made.clone());
            together
        });
        Some(made)
    }

    /// Makes the rule that [`Rules::taken`] returns.
    fn make(&self, matched: Matched<&[u64]>) -> Rule {
        let nothing = Rule::new(NONE.to_owned(), self.base.clone());
        let mut rules = numbers(matched.rules).filter_map(|number| self.list.get(number)).cloned();
        let first = rules.next().unwrap_or_else(|| Arc::new(nothing.clone()));
        let made = rules.fold(first, |rule, later| Arc::new(rule.then(&later)));
        let missed: Vec<usize> = numbers(matched.missed).collect();
        let mut all = missed.iter().fold(Rule::clone(&made), |made, number| {
            made.without(self.list.get(*number).map_or(&nothing, |rule| rule))
        });
        if !missed.is_empty() && made.mark.is_none() && made.name != NONE {
            // Another node must know that the key says which rules did not match.
            all.id = format!("{}{AND}{NONE}", made.id);
            all.parts = if made.parts.is_empty() { vec![made] } else { made.parts.clone() };
        }
        all
    }

    /// Returns every name that the object of `url` may have been stored under. Any of the rules for
    /// its host and path may apply, because the method and fields of the request are unknown here.
    pub fn names(&self, site: Option<&str>, url: &Url) -> Vec<Url> {
        let mut names = vec![url.clone()];
        let mut before = 1;
        for number in self.index.of_place(site, host(url), url.path_and_query()) {
            let rule = &self.list[number];
            if rule.is_named_by_url() {
                continue;
            }
            for at in 0..before {
                let name = rule.key_url(&names[at]);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            // Rules after one that decides do not apply to its names, and need not be excluded.
            if rule.continues {
                before = names.len();
            }
        }
        names
    }
}

/// Returns the host of a URL without its port.
pub(crate) fn host(url: &Url) -> &str {
    let authority = url.authority();
    match authority.rfind(':') {
        Some(at) if !authority.ends_with(']') => &authority[..at],
        _ => authority,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
