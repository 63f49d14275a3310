//! Rules of the location into which a `rewrite` leads.

use crate::convert::nginx::backend::is_program;
use crate::convert::nginx::matching::{self, Kind, Location};
use crate::convert::nginx::replies::{self, Place};
use crate::convert::nginx::restrictions::is_stricter;
use crate::convert::nginx::rewritten::Rewritten;
use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::server::LocationOf;
use crate::convert::nginx::syntax::Directive;
use crate::convert::nginx::tries;
use crate::convert::output::{Output, text};
use crate::convert::rule_draft::RuleDraft;

impl<'a> LocationOf<'a, '_> {
    /// Writes the rules for the requests of `draft`, the path of which a `rewrite` of `from`
    /// changes. Returns false if they stay with the rules for the path before.
    pub fn enter(
        &self,
        (from, is_server): (&Scope<'a>, bool),
        one: &Directive,
        draft: &RuleDraft,
        out: &mut Output,
    ) -> bool {
        let server = self.http.scope.inner(self.server.block());
        let (locations, _) = matching::ordered(self.server.block());
        let rewritten = Rewritten::new(one);
        let is_same =
            |one: &Location<'_>, other: &Location<'_>| std::ptr::eq(one.directive, other.directive);
        let is_here =
            |to: &Location<'_>| !is_server && std::ptr::eq(to.directive.inner(), from.block());
        let here = locations.iter().position(is_here);
        let is_before = |to: &Location<'_>| {
            let at = locations.iter().position(|one| is_same(one, to));
            here.is_some_and(|here| at < Some(here))
        };
        let sample = rewritten.sample();
        let target = locations.iter().find(|to| to.matches(&sample));
        let base = target.map_or(from.clone(), |to| to.scope(&server));
        let others = locations.iter().filter(|to| {
            let is_target = target.is_some_and(|target| is_same(target, to));
            !is_target && !is_here(to) && rewritten.may_reach(to, &locations)
        });
        let is_passed = [&base, from].iter().any(|scope| scope.own("proxy_pass").is_some());
        for other in others {
            let is_program = !is_passed && runs(other);
            let is_other = is_program || self.restrictions.exceed(other, &base);
            // The client's path may have led there already.
            if !is_other || (is_before(other) && rewritten.keeps(other)) {
                continue;
            }
            let part = part(&rewritten, other, draft);
            let is_stated = part.is_some_and(|part| match other.kind {
                Kind::Regex if draft.any.is_empty() => self.take(other, from, one, &part, out),
                _ if is_program => unserve(one, other, &part, out),
                _ => self.check(other, &part, out).is_some(),
            });
            match is_stated {
                true => {}
                false if is_program => return unserve(one, other, draft, out),
                false => return close(one, other, draft, out),
            }
        }
        // A server with one location has its rules for all paths.
        let is_alone = is_server && locations.len() == 1;
        match target.filter(|to| !is_here(to) && !is_alone) {
            Some(target) => self.take(target, from, one, draft, out),
            None => false,
        }
    }

    /// Writes the rules of `target` for the requests of `draft`.
    fn take(
        &self,
        target: &Location<'a>,
        from: &Scope<'a>,
        one: &Directive,
        draft: &RuleDraft,
        out: &mut Output,
    ) -> bool {
        let server = self.http.scope.inner(self.server.block());
        let scope = target.scope(&server);
        match self.check(target, draft, out) {
            Some(true) => return true,
            Some(false) => {}
            None if self.restrictions.exceed(target, from) => {
                return close(one, target, draft, out);
            }
            None => return unstated(one, target, from, draft, out),
        }
        let Some(pass) = scope.own("proxy_pass").map(|pass| pass.arg(0)) else {
            return unstated(one, target, from, draft, out);
        };
        if pass.split_once("://").is_none_or(|(_, rest)| rest.contains(['/', '$'])) {
            return unserve(one, target, draft, out);
        }
        let entered =
            Location { when: draft.when.clone(), any: draft.any.clone(), ..target.clone() };
        self.with_place(&scope, draft, |place| {
            self.answered(&entered, place, (None, &scope), Some(draft), out);
        });
        true
    }

    /// Writes the access rules of a location for the requests of `draft`. Returns whether they
    /// answer all requests; `None` if they depend on the path.
    fn check(&self, to: &Location<'a>, draft: &RuleDraft, out: &mut Output) -> Option<bool> {
        let server = self.http.scope.inner(self.server.block());
        let scope = to.scope(&server);
        let behind = tries::behind(&scope, &server);
        let is_stricter = behind.is_some_and(|behind| is_stricter(&behind.scope, &scope));
        if is_stricter || to.is_wider || tries::changes_by_path(scope.block()) {
            return None;
        }
        Some(self.with_place(&scope, draft, |place| self.checked(place, None, out)))
    }

    fn with_place<T>(
        &self,
        scope: &Scope<'a>,
        draft: &RuleDraft,
        run: impl FnOnce(&Place<'a, '_>) -> T,
    ) -> T {
        let mut variables = self.http.variables.clone();
        replies::collect(self.server.block(), &mut variables);
        replies::collect(scope.block(), &mut variables);
        run(&Place {
            when: &draft.when,
            any: &draft.any,
            name: &draft.name,
            server_name: self.name,
            scope,
            variables: &variables,
            is_server: false,
            enter: None,
        })
    }
}

/// Denies the requests that a `rewrite` may lead into a location with restrictions.
fn close(one: &Directive, to: &Location<'_>, draft: &RuleDraft, out: &mut Output) -> bool {
    let what = format!("rewrite to location {}", to.path);
    out.lose(&one.at, &what, "its refusals cannot be stated for these paths: denied to all");
    let mut rule = RuleDraft::new(&draft.name, &draft.when);
    rule.any.clone_from(&draft.any);
    rule.set("deny", "true");
    rule.push(out);
    true
}

/// Answers requests that a `rewrite` may lead into a location of an application. Returns true.
fn unserve(one: &Directive, to: &Location<'_>, draft: &RuleDraft, out: &mut Output) -> bool {
    let what = format!("rewrite to location {}", to.path);
    out.lose(&one.at, &what, "not stated for these paths: answered with 501");
    let mut rule = RuleDraft::new(&draft.name, &draft.when);
    rule.any.clone_from(&draft.any);
    rule.set("respond", text("501 Not converted: rewrite"));
    rule.push(out);
    true
}

/// Lists that the rules for the path before a `rewrite` hold, unless they would send a program.
fn unstated(
    one: &Directive,
    to: &Location<'_>,
    from: &Scope<'_>,
    draft: &RuleDraft,
    out: &mut Output,
) -> bool {
    if runs(to) && from.own("proxy_pass").is_none() && is_program(&Rewritten::new(one).sample()) {
        return unserve(one, to, draft, out);
    }
    let what = format!("rewrite to location {}", to.path);
    out.lose(&one.at, &what, "the location is chosen by the path before the rewrite");
    false
}

/// Returns whether an application answers the requests for a location.
fn runs(to: &Location<'_>) -> bool {
    to.directive.inner().iter().any(|one| one.name.ends_with("_pass"))
}

/// Returns the part of a draft's requests that a `rewrite` leads into a location.
fn part(rewritten: &Rewritten<'_>, to: &Location<'_>, draft: &RuleDraft) -> Option<RuleDraft> {
    let (before, mut part) = (rewritten.before(to)?, draft.clone());
    if to.kind == Kind::Regex && draft.any.is_empty() {
        // The path is made of what the expression of the `rewrite` captures.
        part.any.push(before);
    } else {
        part.when.0.retain(|(key, _)| key != "paths");
        part.when = part.when.and(&before)?;
    }
    Some(part)
}
