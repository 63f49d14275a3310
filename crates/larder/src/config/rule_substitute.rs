//! The texts that a rule replaces in bodies (`substitute`), and their translation for the proxy.

use std::sync::Arc;

use proxy::rules::request_rules::{Substitute, Substitution};
use semantics::Pattern;

use crate::config::rule_condition::Wrong;

/// The key of the texts.
pub const SUBSTITUTE: &str = "substitute";

/// One text and what replaces it.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct RuleSubstitute {
    pub from: String,
    pub to: String,
    pub once: bool,
}

/// The replacements of a rule.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct RuleSubstitution {
    pub list: Vec<RuleSubstitute>,
    pub types: Vec<String>,
    pub ignore_case: bool,
}

impl RuleSubstitution {
    /// Returns the replacements as the proxy uses them; `None` if there are none.
    pub fn to_proxy(&self) -> Result<Option<Arc<Substitution>>, Wrong> {
        if self.list.is_empty() {
            return Ok(None);
        }
        let one = |one: &RuleSubstitute| Substitute::new(&one.from, &one.to, one.once);
        let types = self.types.iter().map(|kind| Pattern::ignoring_case(kind)).collect();
        let list = self.list.iter().map(one).collect::<Result<_, _>>();
        let made = list.and_then(|list| Substitution::new(list, types, self.ignore_case));
        Ok(Some(Arc::new(made.map_err(|why| (SUBSTITUTE, why))?)))
    }
}
