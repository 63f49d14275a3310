//! Restrictions of a location that requests for another one must not evade by a spelling that only
//! some servers read as a path of the restricted location.

use crate::convert::nginx::checks::{checks, refuses};
use crate::convert::nginx::matching::{Kind, Location};
use crate::convert::nginx::scope::{ACCESS_LISTS, Scope};
use crate::convert::nginx::syntax::Directive;
use crate::convert::nginx::tries::behind;

/// The refusals of a scope.
#[derive(Clone, Debug)]
struct Refusals<'a> {
    lists: Vec<&'a Directive>,
    checks: Vec<&'a Directive>,
    users: Option<&'a str>,
    limits: Vec<&'a Directive>,
    /// Its own block refuses some requests.
    are_own: bool,
}

impl<'a> Refusals<'a> {
    fn of(scope: &Scope<'a>) -> Refusals<'a> {
        let lists = scope.all(&ACCESS_LISTS);
        let denies = lists.iter().any(|one| one.name == "deny");
        let is_refusal = |one: &Directive| match one.name.as_str() {
            "limit_except" => true,
            "return" => refuses(one),
            "if" => one.inner().iter().any(refuses),
            _ => false,
        };
        Refusals {
            lists: if denies { lists } else { Vec::new() },
            checks: checks(scope),
            users: scope.arg("auth_basic_user_file"),
            limits: [scope.all(&["limit_req"]), scope.all(&["limit_conn"])].concat(),
            // Locations within an internal one are internal.
            are_own: scope.get("internal").is_some() || scope.block().iter().any(is_refusal),
        }
    }

    fn has_password(&self) -> bool {
        self.checks.iter().any(|one| one.name == "auth_basic")
    }

    /// Returns whether requests are refused that the other scope does not refuse.
    fn exceed(&self, other: &Refusals<'_>) -> bool {
        let is_same =
            |one: &Directive, other: &Directive| one.name == other.name && one.args == other.args;
        let lacks = |others: &[&Directive], one: &Directive| {
            !others.iter().any(|other| is_same(one, other))
        };
        let is_same_list = self.lists.len() == other.lists.len()
            && self.lists.iter().zip(&other.lists).all(|(one, other)| is_same(one, other));
        self.are_own
            || !(self.lists.is_empty() || is_same_list)
            || self.checks.iter().any(|one| lacks(&other.checks, one))
            || self.limits.iter().any(|one| lacks(&other.limits, one))
            || (self.has_password() && self.users != other.users)
    }
}

/// The refusals of the locations of a server, in the order of their rules.
#[derive(Debug)]
pub struct Restrictions<'a> {
    /// Of each location, and of what is behind its files.
    all: Vec<(&'a Directive, Vec<Refusals<'a>>)>,
    /// Of paths without a location.
    rest: Option<Refusals<'a>>,
}

impl<'a> Restrictions<'a> {
    pub fn new(locations: &[Location<'a>], server: &Scope<'a>) -> Restrictions<'a> {
        let of_location = |one: &Location<'a>| {
            let scope = one.scope(server);
            let behind = behind(&scope, server).map(|behind| Refusals::of(&behind.scope));
            (one.directive, [Some(Refusals::of(&scope)), behind].into_iter().flatten().collect())
        };
        let is_rest = |one: &Location<'_>| one.kind == Kind::Prefix && one.path == "/";
        let rest = !locations.iter().any(is_rest);
        Restrictions {
            all: locations.iter().map(of_location).collect(),
            rest: rest.then(|| Refusals::of(server)),
        }
    }

    /// Returns whether a later location than `one`, or the server for paths without a location,
    /// refuses requests that `one` does not refuse.
    pub fn are_later(&self, one: &Location<'_>) -> bool {
        let (own, mut later) = self.around(one);
        own.is_some_and(|own| later.any(|there| there.exceed(own)))
    }

    /// Returns whether a later location than `one` has another password.
    pub fn has_other_password(&self, one: &Location<'_>) -> bool {
        let (own, mut later) = self.around(one);
        let own = own.filter(|own| own.has_password());
        own.is_some_and(|own| later.any(|there| there.has_password() && there.users != own.users))
    }

    /// Returns whether a location refuses requests that are not refused in a scope.
    pub fn exceed(&self, one: &Location<'_>, here: &Scope<'_>) -> bool {
        let here = Refusals::of(here);
        let all = self.all.iter().filter(|(other, _)| std::ptr::eq(*other, one.directive));
        all.flat_map(|(_, refusals)| refusals).any(|there| there.exceed(&here))
    }

    /// Returns the refusals of a location, and those after it.
    fn around(
        &self,
        one: &Location<'_>,
    ) -> (Option<&Refusals<'a>>, impl Iterator<Item = &Refusals<'a>>) {
        let is_here = |(other, _): &(&Directive, _)| std::ptr::eq(*other, one.directive);
        let at = self.all.iter().position(is_here);
        let own = at.and_then(|at| self.all[at].1.first());
        let later = &self.all[at.map_or(self.all.len(), |at| at + 1)..];
        (own, later.iter().flat_map(|(_, refusals)| refusals).chain(&self.rest))
    }
}

/// Returns whether requests are refused in one scope that are not in another.
pub fn is_stricter(there: &Scope<'_>, here: &Scope<'_>) -> bool {
    Refusals::of(there).exceed(&Refusals::of(here))
}
