//! Statements of subroutines as rules.

mod edits;
mod lifetimes;

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::convert::cases::{Cases, STATUS, both_also, merge, negated};
use crate::convert::nginx::values::braced;
use crate::convert::output::{Output, list, text};
use crate::convert::rule_draft::{RuleDraft, Tests};
use crate::convert::source::At;
use crate::convert::vcl::acl::Acls;
use crate::convert::vcl::backends::Backends;
use crate::convert::vcl::bans;
use crate::convert::vcl::careful;
use crate::convert::vcl::condition::{Edited, Parser};
use crate::convert::vcl::idioms::{self, Edit};
use crate::convert::vcl::idle_subs::Hints;
use crate::convert::vcl::purgers;
use crate::convert::vcl::refusal::{
    chooses_by_host, ends, has_lifetime, has_pass, has_uncacheable, is_answered, is_refusal,
    keeps_from_cache, only_edits, refuses, turns_away,
};
use crate::convert::vcl::syntax::{Kind, Statement, Token};
use crate::convert::vcl::walk::edits::template;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sub {
    Recv,
    Hash,
    Response,
    Deliver,
    /// One behind `vcl_recv` of which only refusals are translated.
    Late,
}

/// Response to requests whose backend is unknown.
const NO_BACKEND: &str = "\"501 Not converted: backend\"";
/// Depth of nested `call`.
const CALLS_MAX: usize = 16;
/// Most statements that are walked, counting those of called subroutines each time.
const STATEMENTS_MAX: usize = 20_000;

/// A branch of an `if`.
struct Branch<'a> {
    one: &'a Statement,
    /// The condition.
    tokens: &'a [Token],
    /// It is the `else`.
    is_last: bool,
    is_first: bool,
    has_others: bool,
}

pub struct Walk<'a> {
    acls: &'a Acls,
    backends: &'a Backends<'a>,
    subs: &'a BTreeMap<&'a str, Vec<&'a Statement>>,
    hints: Hints<'a>,
    kind: Sub,
    /// The conditions of the branches around, without those of requests that ended before.
    within: Cases,
    calls: usize,
    statements: usize,
    /// Names of the cookies that are left.
    kept: Vec<String>,
    removes_some: bool,
    edited: Edited,
    /// A ban that is not made comes before this statement.
    has_lost_ban: bool,
    /// Responses that state no lifetime above zero are not stored, whatever is set later.
    keeps_stated: bool,
    /// The statements are for responses that may be stored alone.
    is_for_stored: bool,
    /// Responses that were last said not to be stored.
    uncacheable: Cases,
    /// Responses that no statement so far has kept from the cache.
    storable: Cases,
    /// Statuses of which no response is stored.
    unstored: Vec<String>,
    /// The statuses beside which no other is stored.
    stored: Option<Vec<String>>,
    /// Lifetimes so far.
    ttls: Vec<(Tests, Vec<String>)>,
    /// True once an entry of `responses` was pushed.
    has_entry: Cell<bool>,
    /// Fields for clients of which such an entry decides.
    entry_fields: Vec<String>,
    /// The rule has to be an entry, behind another.
    is_repeated: bool,
}

impl<'a> Walk<'a> {
    pub fn new(
        acls: &'a Acls,
        backends: &'a Backends<'a>,
        subs: &'a BTreeMap<&'a str, Vec<&'a Statement>>,
        hints: Hints<'a>,
    ) -> Walk<'a> {
        Walk {
            acls,
            backends,
            subs,
            hints,
            kind: Sub::Recv,
            within: vec![Tests::default()],
            calls: 0,
            statements: 0,
            kept: Vec::new(),
            removes_some: false,
            edited: Edited::default(),
            has_lost_ban: false,
            keeps_stated: false,
            is_for_stored: false,
            uncacheable: Vec::new(),
            storable: vec![Tests::default()],
            unstored: Vec::new(),
            stored: None,
            ttls: Vec::new(),
            has_entry: Cell::new(false),
            entry_fields: Vec::new(),
            is_repeated: false,
        }
    }

    /// Walks a subroutine, and adds what Varnish does at its end.
    pub fn run(&mut self, name: &'a str, kind: Sub, out: &mut Output) {
        self.kind = kind;
        self.within = vec![Tests::default()];
        let statements = self.subs.get(name).cloned().unwrap_or_default();
        let rest = self.block(&statements, vec![Tests::default()], out);
        if kind == Sub::Recv {
            self.built_in(rest, out);
        }
    }

    /// Walks what has no equivalent behind `vcl_recv`, for its refusals.
    pub fn late(&mut self, out: &mut Output) {
        self.kind = Sub::Late;
        for statements in std::mem::take(&mut self.hints.late).into_values() {
            if !self.turn_away(&statements, 0) {
                continue;
            }
            self.within = vec![Tests::default()];
            self.block(&statements, vec![Tests::default()], out);
        }
    }

    /// Returns whether statements, or those of called subroutines, refuse requests.
    fn turn_away(&self, all: &[&Statement], depth: usize) -> bool {
        let of = |one: &&Statement| {
            let called = (one.word(0) == "call").then(|| self.subs.get(one.word(1))).flatten();
            let inner: Vec<&Statement> = one.inner().iter().collect();
            turns_away(one)
                || self.turn_away(&inner, depth + 1)
                || called.is_some_and(|called| self.turn_away(called, depth + 1))
        };
        // What is nested too deeply may refuse.
        depth > CALLS_MAX || all.iter().any(of)
    }

    /// Requests with a cookie or credentials pass, unless `vcl_recv` returned before.
    fn built_in(&mut self, rest: Cases, out: &mut Output) {
        if rest.is_empty() {
            return;
        }
        let credentials = vec![Tests::one("headers", "Authorization")];
        if self.removes_some && self.kept.is_empty() {
            let reason = "requests pass that had only cookies that are removed: name those that \
                          matter in cookie-keep, and pass by them";
            let at = self.subs.get("vcl_recv").and_then(|all| all.first()).map(|one| one.at());
            out.lose(&at.unwrap_or_default(), "vcl_recv", reason);
        }
        let cookies = match self.kept.is_empty() {
            true => vec![Tests::one("headers", "Cookie")],
            false => vec![Tests(vec![("cookies".to_owned(), self.kept.clone())])],
        };
        let with_cookies =
            negated(&self.edited.uncookied).and_then(|others| both_also(&cookies, &others));
        let all = with_cookies.and_then(|mut all| {
            all.extend(credentials.clone());
            both_also(&rest, &all)
        });
        // Where the condition cannot be stated, more requests pass.
        let mut all = all.unwrap_or_else(|_| [cookies, credentials].concat());
        all.retain(|case| !case.0.is_empty());
        for case in all {
            self.rule("built-in pass", &case, |rule| rule.set("bypass", "true"), out);
        }
    }

    /// Walks statements that run under `live`; returns the requests that go on behind them.
    fn block(&mut self, all: &[&'a Statement], live: Cases, out: &mut Output) -> Cases {
        let mut live = live;
        let mut at = 0;
        while let Some(one) = all.get(at) {
            at += 1;
            self.statements += 1;
            if self.statements > STATEMENTS_MAX || live.is_empty() {
                return live;
            }
            if one.word(0) != "if" {
                live = self.statement(one, live, out);
                continue;
            }
            let mut branches = vec![*one];
            while let Some(next) = all
                .get(at)
                .filter(|next| matches!(next.word(0), "else" | "elsif" | "elseif" | "elif"))
            {
                branches.push(next);
                at += 1;
            }
            live = self.branches(&branches, live, out);
        }
        live
    }

    fn branches(&mut self, all: &[&'a Statement], live: Cases, out: &mut Output) -> Cases {
        let mut rest = live.clone();
        let mut after: Cases = Vec::new();
        // What one branch sets, the conditions of others do not see.
        let edited = self.edited.clone();
        if self.kind != Sub::Late && all.iter().any(|one| is_of_hits(&one.tokens)) {
            self.hits(all, &live, out);
            return live;
        }
        if self.is_idle(all, out) {
            return live;
        }
        for (number, one) in all.iter().enumerate() {
            let inner: Vec<&Statement> = one.inner().iter().collect();
            let tokens: &[Token] = match one.word(0) {
                "else" if one.word(1) == "if" => &one.tokens[2..],
                "else" => &[],
                _ => &one.tokens[1..],
            };
            let is_last = one.word(0) == "else" && tokens.is_empty();
            if self.is_step(tokens, &inner) {
                let (with, without) = self.by_cookies_left(rest, one, out);
                after.extend(without);
                rest = with;
                continue;
            }
            let others = (all.len() == 1, is_last.then(|| &all[..number]));
            if self.is_idiom(others, tokens, &inner, (&live, &rest), out) {
                continue;
            }
            if all.len() == 1 && self.kind == Sub::Response && has_lifetime(tokens, one) {
                let tokens = tokens.get(5..tokens.len() - 1).unwrap_or_default();
                let is_last = tokens.is_empty();
                self.is_for_stored = true;
                let branch = Branch { one, tokens, is_last, is_first: true, has_others: false };
                self.branch(&branch, rest, &edited, out);
                self.is_for_stored = false;
                return live;
            }
            if let Some(undone) = self.default_tests(one, tokens, &inner) {
                let tests = undone.tests;
                self.surrogates(tokens, &rest, out);
                if undone.has_lifetime {
                    self.without_lifetime(&rest, out);
                }
                self.keeps_stated |= tokens.iter().any(|token| token.text == "beresp.ttl");
                rest = self.stated(one, (tests, number == 0), rest, &edited, &mut after, out);
                continue;
            }
            // The opposite is needed only if something runs under it.
            let is_decided = matches!(self.kind, Sub::Recv | Sub::Late) && is_answered(one.inner());
            let has_others = !is_decided && (number + 1 < all.len() || ends(one.inner()));
            let branch = Branch { one, tokens, is_last, is_first: number == 0, has_others };
            let is_storable = self.kind == Sub::Response && rest == self.storable;
            let (ended, others) = self.branch(&branch, rest, &edited, out);
            if is_storable && keeps_from_cache(one.inner()) {
                self.storable.clone_from(&others);
            }
            after.extend(ended);
            rest = others;
        }
        after.extend(rest);
        merge(&mut after);
        if after.len() > 64 {
            return live;
        }
        // Where no branch ends, all requests go on.
        let ends = all.iter().any(|one| ends(one.inner()));
        if ends { after } else { live }
    }

    /// Reads a branch that has no need of its condition, with whether it is the only one, and the
    /// branches before an `else`. Returns false if it is another.
    fn is_idiom(
        &mut self,
        (is_alone, before): (bool, Option<&[&Statement]>),
        tokens: &[Token],
        inner: &[&'a Statement],
        (live, rest): (&Cases, &Cases),
        out: &mut Output,
    ) -> bool {
        if self.kind == Sub::Recv && self.purges(tokens, inner, out) {
            return true;
        }
        // Codings and streams of responses are the same for all.
        let is_coding =
            |one: &&Statement| matches!(one.word(1), "beresp.do_gzip" | "beresp.do_stream");
        if is_alone && inner.iter().all(is_coding) {
            self.block(inner, live.clone(), out);
            return true;
        }
        let has_key = |one: &&Statement| is_key(&one.inner().iter().collect::<Vec<_>>());
        // The key of the other branch tells the requests of this one apart.
        let is_other_key = before.is_some_and(|before| before.iter().all(has_key))
            && inner.iter().all(|one| one.word(0) == "hash_data");
        is_other_key || self.bounds(tokens, inner, rest, out)
    }

    /// Returns the tests that have to be stated of a branch that does what Larder does; `None` if
    /// it does something else.
    fn default_tests<'t>(
        &self,
        one: &Statement,
        tokens: &'t [Token],
        inner: &[&Statement],
    ) -> Option<careful::Undone<'t>> {
        if !careful::is_default(tokens, inner) {
            return None;
        }
        let mut edits = careful::Edits::new(self.subs, one);
        edits.sub("vcl_backend_response");
        careful::undone(tokens, &edits.fields)
    }

    /// Walks a branch under one test after the other, of which one must hold; adds the responses
    /// behind it to `after` and returns the others.
    fn stated(
        &mut self,
        one: &'a Statement,
        (tests, is_first): (Vec<&'a [Token]>, bool),
        rest: Cases,
        edited: &Edited,
        after: &mut Cases,
        out: &mut Output,
    ) -> Cases {
        tests.into_iter().fold(rest, |rest, tokens| {
            let branch = Branch { one, tokens, is_last: false, is_first, has_others: true };
            let (ended, others) = self.branch(&branch, rest, edited, out);
            after.extend(ended);
            others
        })
    }

    /// Walks a branch under its condition; returns the requests behind it, and those of the other
    /// branches.
    fn branch(
        &mut self,
        branch: &Branch<'a>,
        rest: Cases,
        edited: &Edited,
        out: &mut Output,
    ) -> (Cases, Cases) {
        let Branch { one, tokens, is_last, has_others, .. } = *branch;
        let inner: Vec<&Statement> = one.inner().iter().collect();
        // More in the key makes no response wrong.
        let is_key = self.kind == Sub::Hash && is_key(&inner);
        let is_always = is_last
            || is_key
            || tidies_url(tokens, &inner)
            || (!has_others && unsets_tested(tokens, &inner));
        let (is_refusal, acls) = (is_refusal(one.inner()), self.acls);
        // Each request is in one of both, so that what is behind keeps it out.
        let opposite = || Parser::new(tokens, acls, edited, is_refusal).parse_opposite();
        let found = match is_always {
            true => Ok((vec![Tests::default()], None)),
            false => parsed(branch, acls, edited, is_refusal, out),
        };
        let split = found.and_then(|(cases, mut inexact)| {
            // A key for fewer requests would mix their responses.
            if let Some(why) = inexact.take_if(|_| self.kind == Sub::Hash) {
                return Err(why);
            }
            let others = match (is_last, has_others && !is_always) {
                (true, _) => Vec::new(),
                (false, true) => others(one, &rest, opposite(), &mut inexact)?,
                (false, false) => rest.clone(),
            };
            Ok((both_also(&rest, &cases)?, cases, others, inexact))
        });
        let what = one.text();
        let wide = |out: &mut Output| {
            let found = parsed(branch, acls, edited, true, out);
            found.and_then(|(wide, _)| both_also(&rest, &wide))
        };
        match split {
            Ok((cases, own, others, inexact)) => {
                if let Some(why) = inexact {
                    out.lose(&one.at(), &what, &why);
                    if !is_refusal {
                        let wide = wide(out).unwrap_or_else(|_| rest.clone());
                        self.keep_out(one, &wide, out);
                    }
                }
                if cases.iter().any(Tests::adds_head) {
                    out.note(&one.at(), &what, "GET includes HEAD in a rule");
                }
                (self.block_within(branch, (cases, &own), out), others)
            }
            // More in the key makes no response wrong.
            Err(why) if self.kind == Sub::Hash && self.only_adds(&inner, 0) => {
                out.lose(&one.at(), &what, &format!("{why}: in the key of all requests"));
                (self.block(&inner, rest.clone(), out), rest)
            }
            Err(why) => {
                match wide(out).ok().filter(|_| !is_refusal && self.kind != Sub::Hash) {
                    Some(wide) => {
                        out.lose(&one.at(), &what, &why);
                        self.keep_out(one, &wide, out);
                    }
                    None => self.lost(one, &what, &why, &rest, out),
                }
                (Vec::new(), rest)
            }
        }
    }

    /// Walks the block of a branch for the requests in `cases`; `own` is the branch's condition.
    fn block_within(
        &mut self,
        branch: &Branch<'a>,
        (cases, own): (Cases, &Cases),
        out: &mut Output,
    ) -> Cases {
        let within = self.within.clone();
        self.within = match branch.is_first {
            true => both_also(&within, own).unwrap_or_else(|_| cases.clone()),
            false => cases.clone(),
        };
        let inner: Vec<&Statement> = branch.one.inner().iter().collect();
        let behind = self.block(&inner, cases, out);
        self.within = within;
        behind
    }

    /// Returns whether statements do nothing but put texts into the key.
    fn only_adds(&self, all: &[&Statement], depth: usize) -> bool {
        let of = |one: &&Statement| match one.word(0) {
            _ if depth > CALLS_MAX => false,
            "hash_data" => true,
            "call" => self.subs.get(one.word(1)).is_some_and(|all| self.only_adds(all, depth + 1)),
            _ => {
                let inner: Vec<&Statement> = one.inner().iter().collect();
                !inner.is_empty() && self.only_adds(&inner, depth + 1)
            }
        };
        all.iter().all(of)
    }

    /// Keeps requests out that a branch might pass or refuse, beside what else it does.
    fn keep_out(&self, one: &Statement, cases: &Cases, out: &mut Output) {
        let inner = one.inner();
        let (key, value) = match self.kind {
            Sub::Recv | Sub::Deliver | Sub::Late if inner.iter().any(turns_away) => {
                ("deny", "true")
            }
            Sub::Recv if chooses_by_host(one) => ("respond", NO_BACKEND),
            Sub::Recv if has_pass(inner) => ("bypass", "true"),
            Sub::Response if has_uncacheable(inner) => ("store", "false"),
            _ => return,
        };
        for case in cases {
            let case = if key == "deny" { of_request(case) } else { case.clone() };
            self.rule("more requests", &case, |rule| rule.set(key, value), out);
        }
    }

    /// Reports a condition without an equivalent. If it would pass requests, all pass.
    fn lost(&self, one: &Statement, what: &str, why: &str, live: &Cases, out: &mut Output) {
        let passes = self.kind == Sub::Recv && has_pass(one.inner());
        let is_private = self.kind == Sub::Response && has_uncacheable(one.inner());
        if self.kind == Sub::Recv && chooses_by_host(one) {
            out.lose(&one.at(), what, &format!("{why}: answered with 501"));
            self.each("lost backend", live, false, |rule| rule.set("respond", NO_BACKEND), out);
        } else if passes || is_private || self.kind == Sub::Hash {
            out.lose(&one.at(), what, &format!("{why}: nothing is answered from the cache here"));
            for case in live {
                self.rule("lost condition", case, |rule| rule.set("bypass", "true"), out);
            }
        } else if self.kind != Sub::Response && one.inner().iter().any(turns_away) {
            out.lose(&one.at(), what, &format!("{why}: denied to all"));
            for case in live {
                let mut rule = RuleDraft::new("lost condition", &of_request(case));
                rule.set("deny", "true");
                rule.push(out);
            }
        } else {
            out.lose(&one.at(), what, why);
        }
    }

    /// Returns whether branches do nothing that Larder does not do by itself, or one loss.
    fn is_idle(&self, all: &[&Statement], out: &mut Output) -> bool {
        let only = |field| all.iter().all(|one| only_edits(one.inner(), field));
        let Some(first) = all.first() else { return false };
        if self.kind == Sub::Response && only("beresp.http.vary") {
            let reason = "Vary stays as the server sends it: more copies are stored";
            out.lose(&first.at(), &first.text(), reason);
            return true;
        }
        if self.kind != Sub::Recv {
            return false;
        }
        let inner: Vec<&Statement> = first.inner().iter().collect();
        if only("req.http.accept-encoding") {
            out.note(&first.at(), &first.text(), "codings are agreed on with each client");
        }
        only("req.http.accept-encoding")
            || only("req.http.x-forwarded-for")
            || (all.len() == 1 && self.is_step(&first.tokens[1..], &inner))
    }

    /// Keeps responses from the cache whose lifetime is not above zero.
    fn without_lifetime(&self, rest: &Cases, out: &mut Output) {
        for test in careful::without_lifetime() {
            let cases = both_also(rest, &vec![test]).unwrap_or_else(|_| rest.clone());
            self.each("not stored", &cases, false, |rule| rule.set("store", "false"), out);
        }
    }

    /// Returns whether a branch only tidies up: `if (req.http.Cookie == "") { unset … }`.
    fn is_step(&self, tokens: &[Token], inner: &[&Statement]) -> bool {
        let words: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
        let is_empty = matches!(
            words[..],
            ["(", "req.http.Cookie" | "req.http.cookie", "==" | "~", "" | "^\\s*$" | "^ *$", ")"]
        );
        is_empty && inner.iter().all(|one| one.word(0) == "unset")
    }

    /// Parts requests at `if (req.http.Cookie == "")`: those with cookies left, and the others.
    fn by_cookies_left(&self, rest: Cases, one: &Statement, out: &mut Output) -> (Cases, Cases) {
        let kept = vec![Tests(vec![("cookies".to_owned(), self.kept.clone())])];
        let parts = negated(&kept)
            .and_then(|none| Ok((both_also(&rest, &kept)?, both_also(&rest, &none)?)));
        match parts {
            Ok(parts) if !self.kept.is_empty() => parts,
            _ if self.removes_some => {
                let reason = "tested before cookies are removed: name those that matter in \
                              cookie-keep";
                out.lose(&one.at(), &one.text(), reason);
                (rest.clone(), rest)
            }
            _ => (rest.clone(), rest),
        }
    }

    /// Keeps the responses that a test of `Surrogate-Control` is for from the cache.
    fn surrogates(&self, tokens: &[Token], rest: &Cases, out: &mut Output) {
        for test in careful::tests_of_surrogates(tokens) {
            let found = Parser::new(test, self.acls, &Edited::default(), true).parse();
            let cases = found.and_then(|cases| both_also(rest, &cases));
            let cases = cases.unwrap_or_else(|_| rest.clone());
            self.each("not stored", &cases, false, |rule| rule.set("store", "false"), out);
        }
    }

    /// Reads the usual ways to purge: `if (req.method == "PURGE") { if (client.ip !~ acl) … }`, and
    /// the same with another method or a ban.
    fn purges(&self, tokens: &[Token], inner: &[&Statement], out: &mut Output) -> bool {
        let words: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
        let ["(", "req.method", "==", method, ")"] = words[..] else { return false };
        if method != "PURGE" && !bans::purge(inner) {
            return false;
        }
        bans::translate(method, inner, false, out);
        let at = tokens.first().map(|token| token.at.clone()).unwrap_or_default();
        let found = match self.within[..] == [Tests::default()] {
            true => purgers::acl(inner, self.subs),
            false => Err("a condition around it decides on purges".to_owned()),
        };
        let known = found.map(|name| name.and_then(|name| self.acls.get(name)));
        let old = out.get("purge.from").cloned();
        match (known, old) {
            (Ok(Some(acl)), None) => out.set("purge.from", list(&acl.networks)),
            (Ok(Some(acl)), Some(old)) if old == list(&acl.networks) => {}
            (Ok(None), Some(_)) => {}
            (Ok(None), None) => {
                let why = "purge.from names the networks that may purge: set it";
                self.no_purges(&at, why, out);
            }
            (Ok(Some(_)), Some(_)) => self.no_purges(&at, "methods have different acls", out),
            (Err(why), _) => self.no_purges(&at, &why, out),
        }
        true
    }

    /// Reports a test of clients that purge that has no equivalent: no client may.
    fn no_purges(&self, at: &At, why: &str, out: &mut Output) {
        out.lose(at, "purge", &format!("{why}: no client may purge"));
        // Without a network, purges would be passed on.
        out.set("purge.from", list(&["0.0.0.0/32"]));
    }

    fn rule(&self, name: &str, case: &Tests, with: impl FnOnce(&mut RuleDraft), out: &mut Output) {
        let mut when = case.clone();
        let statuses = when.get(STATUS).cloned();
        when.0.retain(|(key, _)| key != STATUS && !key.starts_with("responses."));
        let mut rule = RuleDraft::new(name, &when);
        rule.continues = true;
        // Entries apply after the keys of rules, so what follows an entry has to be one.
        let is_behind = self.is_repeated || (self.kind == Sub::Response && self.has_entry.get());
        if case.is_of_response() || is_behind {
            with(&mut rule);
            if rule.fits_entry() {
                self.has_entry.set(true);
                rule.make_entry(case, statuses.as_ref());
            }
            return rule.push(out);
        }
        if let Some(statuses) = statuses {
            rule.set("statuses", list(&statuses));
        }
        with(&mut rule);
        rule.push(out);
    }

    fn statement(&mut self, one: &'a Statement, live: Cases, out: &mut Output) -> Cases {
        let what = one.text();
        match one.word(0) {
            word if self.kind == Sub::Late && !matches!(word, "return" | "call") => {
                if turns_away(one) {
                    self.lost(one, &what, "it depends on what was before", &live, out);
                }
            }
            "return" => return self.returned(one, live, out),
            "call" => {
                let called = self.subs.get(one.word(1)).cloned().unwrap_or_default();
                self.calls += 1;
                let rest = match self.calls > CALLS_MAX {
                    true => live,
                    false => self.block(&called, live, out),
                };
                self.calls -= 1;
                return rest;
            }
            "set" | "unset" | "remove" => {
                let name = one.word(1);
                let value = one.tokens.get(3..).unwrap_or_default();
                let found = match one.word(0) {
                    "set" => self.set(name, value, &live, out),
                    _ => self.unset(name, &live, out),
                };
                if let Err(why) = found {
                    out.lose(&one.at(), &what, &why);
                }
            }
            "hash_data" => self.hashed(one, &live, out),
            // Conditions look at every line of Cookie.
            "std.collect" if one.word(2).eq_ignore_ascii_case("req.http.cookie") => {}
            "std.collect" if self.is_for_stored => {}
            // Larder has no log of the kind.
            "std.log" => {}
            "synthetic" | "std.collect" | "std.syslog" => {
                out.lose(&one.at(), &what, "no equivalent of this statement");
            }
            "ban" if one.tokens.len() == 4 && one.tokens[2].kind == Kind::Word => {
                let reason = "a URL or field alone is no ban: Varnish refuses it, too";
                out.note(&one.at(), &what, reason);
            }
            "ban" | "std.ban" => {
                self.has_lost_ban = true;
                out.lose(&one.at(), &what, "purge by prefix, host or tag instead");
            }
            _ => out.lose(&one.at(), &what, "unknown statement"),
        }
        live
    }

    fn returned(&mut self, one: &Statement, live: Cases, out: &mut Output) -> Cases {
        let (action, status) = (one.word(2), one.word(4));
        let reason = one.tokens.get(6).filter(|token| token.kind == Kind::Text);
        let reason = reason.map_or("", |token| token.text.as_str());
        let has_lost_ban = std::mem::take(&mut self.has_lost_ban);
        match (self.kind, action) {
            (Sub::Recv, "pass" | "pipe") => {
                for case in &live {
                    self.rule(action, case, |rule| rule.set("bypass", "true"), out);
                }
            }
            (Sub::Deliver, "synth") => self.replaced(one, &live, out),
            (Sub::Recv | Sub::Late, "synth") => {
                let redirect = self.redirect(one);
                for case in &live {
                    let mut rule = RuleDraft::new("synth", case);
                    let code: u16 = status.parse().unwrap_or(0);
                    match code {
                        _ if redirect.is_some() => {
                            rule.set("redirect", text(redirect.as_deref().unwrap_or_default()));
                        }
                        403 => rule.set("deny", "true"),
                        200..300 if has_lost_ban => {
                            rule.set("respond", text("501 Not converted: ban"));
                        }
                        200..600 => {
                            let text_of = format!("{code} {}", braced(reason));
                            rule.set("respond", text(text_of.trim()));
                        }
                        _ => {
                            let why = "vcl_synth makes this response: answered with 500";
                            out.lose(&one.at(), &one.text(), why);
                            rule.set("respond", text("500 Not converted"));
                        }
                    }
                    rule.push(out);
                }
            }
            (Sub::Recv | Sub::Late | Sub::Deliver, "fail") => {
                for case in &live {
                    let mut rule = RuleDraft::new("fail", &of_request(case));
                    rule.set("respond", text("503 Service Unavailable"));
                    rule.push(out);
                }
            }
            (Sub::Recv, "hash" | "lookup") | (Sub::Hash, "lookup") | (Sub::Deliver, "deliver") => {}
            (Sub::Response, "deliver") | (Sub::Late, _) => {}
            (Sub::Response, "abandon") if self.abandons(&live, out) => {}
            (Sub::Response, "pass") => {
                for case in &live {
                    self.rule("not stored", case, |rule| rule.set("store", "false"), out);
                }
            }
            _ => {
                // No response of a fetch that ends so is stored.
                let of = live.iter().filter_map(|case| case.get(STATUS));
                self.unstored.extend(of.flatten().cloned());
                out.lose(&one.at(), &one.text(), "no equivalent of this end");
            }
        }
        Vec::new()
    }

    /// Reads `return (synth(…))` of `vcl_deliver`: in place of errors a page, otherwise a denial,
    /// whatever the response is.
    fn replaced(&self, one: &Statement, live: &Cases, out: &mut Output) {
        let status = one.word(4);
        let reason = one.tokens.get(6).filter(|token| token.kind == Kind::Text);
        let is_status = status.parse().is_ok_and(|code: u16| (400..600).contains(&code));
        for case in live {
            let page = reason.filter(|_| is_status && is_of_errors(case));
            if let (Some(page), Some(statuses)) = (page, case.get(STATUS)) {
                let pages =
                    statuses.iter().map(|of| format!("{of} {status} {}", braced(&page.text)));
                let pages: Vec<String> = pages.collect();
                let mut rule = RuleDraft::new("synth", &of_request(case));
                rule.continues = true;
                rule.set("error-page", list(&pages));
                rule.push(out);
                continue;
            }
            if !turns_away(one) || is_of_errors(case) {
                out.lose(&one.at(), &one.text(), "no equivalent of this end");
                continue;
            }
            if *case != of_request(case) {
                out.lose(&one.at(), &one.text(), "denied whatever the response is");
            }
            self.rule("synth", &of_request(case), |rule| rule.set("deny", "true"), out);
        }
    }

    /// Reads `return (abandon)` for errors, in place of which Varnish sends 503. Returns false if
    /// it is for other responses.
    fn abandons(&mut self, live: &Cases, out: &mut Output) -> bool {
        if !live.iter().all(is_of_errors) {
            return false;
        }
        for case in live {
            let statuses = case.get(STATUS).cloned().unwrap_or_default();
            let page = |of: &String| format!("{of} 503 Service Unavailable");
            let pages: Vec<String> = statuses.iter().map(page).collect();
            self.rule("not stored", case, |rule| rule.set("store", "false"), out);
            let mut rule = RuleDraft::new("abandon", &of_request(case));
            rule.continues = true;
            rule.set("error-page", list(&pages));
            rule.push(out);
            self.unstored.extend(statuses);
        }
        true
    }

    /// Returns the redirect that `vcl_synth` makes of `return (synth(…))`.
    fn redirect(&self, one: &Statement) -> Option<String> {
        let (sent, location) = self.hints.redirects.get(one.word(4))?;
        let end = one.tokens.len().saturating_sub(2);
        let reason = one.tokens.get(6..end).unwrap_or_default();
        Some(format!("{sent} {}", template(location.unwrap_or(reason))?))
    }

    /// Pushes a rule for each case; one about responses is for all statuses unless they are given.
    fn each(
        &self,
        name: &str,
        live: &Cases,
        is_answer: bool,
        with: impl Fn(&mut RuleDraft),
        out: &mut Output,
    ) {
        for case in live {
            let edit = |rule: &mut RuleDraft| {
                if is_answer && !rule.has("statuses") {
                    rule.set("statuses", list(&["2xx", "3xx", "4xx", "5xx"]));
                }
                with(rule);
            };
            self.rule(name, case, edit, out);
        }
    }
}

/// Reads the condition of a branch: its cases, and why they are not exact.
fn parsed(
    branch: &Branch<'_>,
    acls: &Acls,
    edited: &Edited,
    widens: bool,
    out: &mut Output,
) -> Result<(Cases, Option<String>), String> {
    let one = branch.one;
    let mut parser = Parser::new(branch.tokens, acls, edited, widens);
    let is_removal = |one: &Statement| one.word(0) == "unset" && is_of_cookies(one);
    parser.may_narrow = one.inner().iter().all(is_removal);
    let cases = parser.parse()?;
    let mut inexact = parser.inexact;
    match parser.by_path {
        // A refusal is not to be for other requests.
        Some(how) if one.inner().iter().any(refuses) => {
            inexact.get_or_insert_with(|| how.to_owned());
        }
        Some(how) => out.note(&one.at(), &one.text(), how),
        None => {}
    }
    Ok((cases, inexact))
}

/// Returns the tests of the request alone.
fn of_request(case: &Tests) -> Tests {
    let mut case = case.clone();
    case.0.retain(|(key, _)| key != STATUS && !key.starts_with("responses."));
    case
}

/// Returns whether a case is for some statuses of errors.
fn is_of_errors(case: &Tests) -> bool {
    let is_error = |status: &String| status.starts_with(['4', '5']);
    case.get(STATUS).is_some_and(|all| all.iter().all(is_error)) && !case.is_of_response()
}

/// Returns whether a statement removes cookies.
fn is_of_cookies(one: &Statement) -> bool {
    let name = one.word(1).to_ascii_lowercase();
    matches!(name.as_str(), "req.http.cookie" | "bereq.http.cookie" | "beresp.http.set-cookie")
}

/// Returns whether a branch removes the field whose presence it tests, which needs no condition.
fn unsets_tested(tokens: &[Token], inner: &[&Statement]) -> bool {
    let [open, name, close] = tokens else { return false };
    let is_own =
        |one: &&Statement| one.word(0) == "unset" && one.word(1).eq_ignore_ascii_case(&name.text);
    open.is("(") && close.is(")") && !inner.is_empty() && inner.iter().all(is_own)
}

/// Returns the requests of the other branches, where `opposite` is that of the condition.
fn others(
    one: &Statement,
    rest: &Cases,
    opposite: Result<Cases, String>,
    inexact: &mut Option<String>,
) -> Result<Cases, String> {
    let found = opposite.and_then(|others| both_also(rest, &others));
    // What is not stored may share what is done behind it.
    let is_unstored = is_refusal(one.inner()) && has_uncacheable(one.inner());
    found.or_else(|why| match is_unstored {
        true => {
            inexact.get_or_insert(format!("{why}: what follows is done to both"));
            Ok(rest.clone())
        }
        false => Err(why),
    })
}

/// Returns whether a condition is one of hits, which have two numbers in `X-Varnish`.
fn is_of_hits(tokens: &[Token]) -> bool {
    let is_id = |test: &[Token]| {
        test[0].text.eq_ignore_ascii_case("resp.http.x-varnish") && test[2].text == " "
    };
    tokens.iter().any(|token| token.text == "obj.hits") || tokens.windows(3).any(is_id)
}

/// Returns whether a branch only takes parameters out of the URL, which needs no condition.
fn tidies_url(tokens: &[Token], inner: &[&Statement]) -> bool {
    let is_url = tokens.get(1).is_some_and(|token| token.text == "req.url");
    is_url
        && inner.iter().all(|one| {
            one.word(0) == "set"
                && one.word(1) == "req.url"
                && matches!(
                    idioms::of_url(one.tokens.get(3..).unwrap_or_default()),
                    Some(Edit::QueryDrop(_) | Edit::QuerySort | Edit::Step)
                )
        })
}

/// Returns whether a branch does nothing but put fields into the key.
fn is_key(inner: &[&Statement]) -> bool {
    let is_field = |token: &Token| token.kind == Kind::Word && token.text.contains(".http.");
    inner.iter().all(|one| one.word(0) == "hash_data" && one.tokens.iter().any(is_field))
}
