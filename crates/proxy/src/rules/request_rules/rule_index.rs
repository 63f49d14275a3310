//! The conditions of a list of rules, compiled so that a request finds its rule without trying each
//! rule ([`tables`](crate::rules::tables)).

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use hashbrown::Equivalent;
use http::{HeaderMap, Method};
use semantics::readings::{Readings, UrlReadings};
use semantics::scanned_path::ScannedPath;
use semantics::{Fields, Pattern, UsualNames, readings};
use smallvec::SmallVec;

use crate::message::scheme::Scheme;
use crate::rules::classes::FoundClasses;
use crate::rules::request_rules::condition::{Condition, PathTest, RuleFacts};
use crate::rules::request_rules::rule::Rule;
use crate::rules::tables::column::Column;
use crate::rules::tables::host_table::HostTable;
use crate::rules::tables::pattern_table::PatternTable;
use crate::rules::tables::rule_set::{
    RuleSet, bits_of, contains, numbers, numbers_from, words_for,
};
use crate::rules::tables::selection::Selection;
use crate::rules::tables::words::Words;

/// The rules of a request, with a bit for each rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Matched<B> {
    /// Rules that match, up to the first that does not continue.
    pub rules: B,
    /// Rules that match the place of the request, but whose conditions on what is not in the key do
    /// not hold. Empty if there are none.
    pub missed: B,
}

impl Matched<Vec<u64>> {
    /// Returns the set of these rules and of these missed ones.
    pub fn of(rules: &[usize], missed: &[usize]) -> Self {
        let bits = |numbers: &[usize]| {
            let mut bits = Vec::new();
            numbers.iter().for_each(|number| insert(&mut bits, *number));
            bits
        };
        Matched { rules: bits(rules), missed: bits(missed) }
    }

    pub fn as_slices(&self) -> Matched<&[u64]> {
        Matched { rules: &self.rules, missed: &self.missed }
    }
}

impl Matched<&[u64]> {
    pub fn to_vecs(self) -> Matched<Vec<u64>> {
        Matched { rules: self.rules.to_vec(), missed: self.missed.to_vec() }
    }
}

impl Equivalent<Matched<Vec<u64>>> for Matched<&[u64]> {
    fn equivalent(&self, key: &Matched<Vec<u64>>) -> bool {
        *self == key.as_slices()
    }
}

fn insert(bits: &mut Vec<u64>, number: usize) {
    if bits.len() < words_for(number + 1) {
        bits.resize(words_for(number + 1), 0);
    }
    bits[number / 64] |= 1 << (number % 64);
}

/// Compiled conditions of a list of rules. A column is `None` if no rule has a condition of its
/// kind.
#[derive(Debug, Default)]
pub(super) struct RuleIndex {
    count: usize,
    all: Box<[u64]>,
    /// Rules that keep requests from the cache. They apply to every spelling of a path and of a
    /// method.
    keep_out: Box<[u64]>,
    /// The same for requests that ask for another protocol; `None` if no rule refuses upgrades.
    keep_upgrades_out: Option<Box<[u64]>>,
    sites: Option<Column<Words<RuleSet>>>,
    hosts: Option<Column<HostTable<RuleSet>>>,
    methods: Option<Column<Words<RuleSet>>>,
    paths: Option<Column<PatternTable<RuleSet>>>,
    fields: Option<FieldTests>,
    /// The rest of the rules' conditions beside the columns; `None` if nothing is of any rule.
    rests: Option<Box<[Option<Condition>]>>,
    /// The rules that do not continue.
    deciding: Box<[u64]>,
    looks_at_clients: bool,
    looks_at_urls: bool,
    /// Rules that have a mark; `None` if none has.
    marked: Option<Box<[u64]>>,
    /// The rules, with the conditions that a place alone decides.
    places: Box<[Option<Condition>]>,
}

impl RuleIndex {
    pub fn new(rules: &[Arc<Rule>]) -> RuleIndex {
        let (count, when) = (rules.len(), |number: usize| &rules[number].when);
        let refuse_upgrades = rules.iter().any(|rule| rule.refuse_upgrades);
        let methods = |number| {
            let named = &when(number).methods;
            // GET includes HEAD.
            let head = named.contains(&Method::GET).then_some("HEAD");
            named.iter().map(Method::as_str).chain(head).collect()
        };
        let rests: Box<[_]> = rules.iter().map(|rule| rule.when.rest()).collect();
        RuleIndex {
            count,
            all: bits_of(count, |_| true),
            keep_out: bits_of(count, |number| rules[number].keeps_out()),
            keep_upgrades_out: refuse_upgrades.then(|| {
                bits_of(count, |number| rules[number].keeps_out() || rules[number].refuse_upgrades)
            }),
            sites: Column::new(count, |number| {
                when(number).sites.iter().map(String::as_str).collect()
            }),
            hosts: Column::new(count, |number| when(number).hosts.iter().collect()),
            methods: Column::new(count, methods),
            paths: Column::new(count, |number| when(number).patterns().unwrap_or_default()),
            fields: FieldTests::new(rules),
            rests: Some(rests).filter(|rests| rests.iter().any(Option::is_some)),
            deciding: bits_of(count, |number| !rules[number].continues),
            marked: rules
                .iter()
                .any(|rule| rule.mark.is_some())
                .then(|| bits_of(count, |number| rules[number].mark.is_some())),
            looks_at_clients: rules.iter().any(|rule| rule.looks_at_client()),
            looks_at_urls: rules.iter().any(|rule| rule.when.looks_at_url()),
            places: rules.iter().map(|rule| rule.when.of_place().rest()).collect(),
        }
    }

    /// Returns whether the choice of a rule depends on [`RuleFacts::client`].
    pub fn looks_at_clients(&self) -> bool {
        self.looks_at_clients
    }

    /// Returns whether the choice of a rule depends on [`RuleFacts::upgrade`].
    pub fn looks_at_upgrades(&self) -> bool {
        self.keep_upgrades_out.is_some()
    }

    /// Calls `take` with the rules that match a request with these fields, up to the first that
    /// does not continue; and the marked rules before it that match the place of the request and
    /// not the rest. `take` must not look for rules.
    pub fn find<T>(
        &self,
        asked: &RuleFacts<'_>,
        fields: &impl Fields,
        take: impl FnOnce(Matched<&[u64]>) -> T,
    ) -> T {
        let keep_out = match &self.keep_upgrades_out {
            Some(keep_out) if asked.upgrade => keep_out,
            _ => &self.keep_out,
        };
        Selection::with(self.count, |fitting| {
            self.narrow_by_place(fitting, asked.site, asked.host);
            let readings = match self.paths.is_some() || self.rests.is_some() {
                true => readings::readings(asked.path),
                false => Readings::new(),
            };
            self.narrow_by_path(fitting, &readings, keep_out);
            let here: SmallVec<[u64; 16]> = match &self.marked {
                Some(marked) => fitting.bits().iter().zip(marked).map(|(a, b)| a & b).collect(),
                None => SmallVec::new(),
            };
            if let Some(methods) = &self.methods {
                fitting.narrow_by_method((methods, keep_out), asked.method);
            }
            if let Some(tests) = &self.fields {
                fitting.narrow_by_layers(&tests.layers, |layers| tests.look_up(fields, layers));
            }
            let readings = LazyCell::new(|| match self.looks_at_urls {
                true => readings::with_query(asked.path.text, &readings),
                false => readings::of_path(&readings),
            });
            let rules = fitting.bits_mut();
            if let Some(rests) = &self.rests {
                let holds = |number: usize| {
                    let keeps_out = contains(keep_out, number);
                    rests[number]
                        .as_ref()
                        .is_none_or(|rest| rest_holds(rest, asked, fields, (&readings, keeps_out)))
                };
                self.narrow_by_rests(rules, holds);
            }
            let decider = self.end_at_decider(rules);
            let missed = missed(rules, decider, &here, |number| {
                let mut readings = readings.iter();
                self.places[number].as_ref().is_none_or(|place| {
                    readings.any(|reading| place.holds(asked, &HeaderMap::new(), reading, true))
                })
            });
            take(Matched { rules, missed: &missed })
        })
    }

    /// Removes the rules that do not hold, up to the first that holds and does not continue.
    fn narrow_by_rests(&self, rules: &mut [u64], holds: impl Fn(usize) -> bool) {
        let mut at = 0;
        loop {
            let next = numbers_from(rules, at).next();
            let Some(number) = next else { return };
            if !holds(number) {
                rules[number / 64] &= !(1 << (number % 64));
            } else if contains(&self.deciding, number) {
                return;
            }
            at = number + 1;
        }
    }

    /// Removes the rules behind the first that does not continue, and returns its number.
    fn end_at_decider(&self, rules: &mut [u64]) -> Option<usize> {
        let both = rules.iter().zip(&self.deciding).map(|(rules, ends)| rules & ends);
        if both.fold(0, |all, word| all | word) == 0 {
            return None;
        }
        let at = rules.iter().zip(&self.deciding).position(|(rules, ends)| rules & ends != 0)?;
        let bit = (rules[at] & self.deciding[at]).trailing_zeros();
        rules[at] &= u64::MAX >> (63 - bit);
        rules[at + 1..].fill(0);
        Some(at * 64 + bit as usize)
    }

    /// Returns the numbers of all rules that match this site, host and path for some method, fields
    /// and client.
    pub fn of_place(&self, site: Option<&str>, host: &str, path: &str) -> Vec<usize> {
        let path = ScannedPath::new(path);
        let readings = readings::readings(path);
        let (scheme, client) = (Scheme::Http, IpAddr::from(Ipv4Addr::UNSPECIFIED));
        let (method, listener, classes) = ("", None, &FoundClasses::default());
        let upgrade = false;
        let asked =
            RuleFacts { site, host, path, method, scheme, client, listener, upgrade, classes };
        let paths = readings::of_path(&readings);
        let fits = |number: &usize| {
            let mut paths = paths.iter();
            self.places[*number].as_ref().is_none_or(|place| {
                paths.any(|reading| place.holds(&asked, &HeaderMap::new(), reading, true))
            })
        };
        Selection::with(self.count, |fitting| {
            self.narrow_by_place(fitting, site, host);
            self.narrow_by_path(fitting, &readings, &self.all);
            numbers(fitting.bits()).filter(fits).collect()
        })
    }

    fn narrow_by_place(&self, fitting: &mut Selection, site: Option<&str>, host: &str) {
        if let Some(sites) = &self.sites {
            fitting.narrow(sites, |sites, fits| {
                let named = site.into_iter().flat_map(|site| sites.find(site));
                let exact = named.filter(|(name, _)| Some(*name) == site);
                exact.for_each(|(_, rules)| rules.add_to(fits));
            });
        }
        if let Some(hosts) = &self.hosts {
            fitting.narrow(hosts, |hosts, fits| hosts.each(host, |rules| rules.add_to(fits)));
        }
    }

    /// Keeps the rules that match a path. Which of its readings the origin uses is unknown
    /// ([`readings`]). A rule that keeps requests from the cache matches if the path matches in any
    /// reading; any other rule matches only if it does in all readings.
    fn narrow_by_path(&self, fitting: &mut Selection, readings: &Readings<'_>, keep_out: &[u64]) {
        if let Some(paths) = &self.paths {
            fitting.narrow_by_readings((paths, keep_out), readings, |paths, reading, fits| {
                paths.each(reading, |rules| rules.add_to(fits));
            });
        }
    }
}

/// Returns the rules of `here` before the one that decides that do not match and might have.
/// `may_match` tells whether the place of the request is that of a rule.
fn missed(
    rules: &[u64],
    decider: Option<usize>,
    here: &[u64],
    may_match: impl Fn(usize) -> bool,
) -> Vec<u64> {
    let mut missed = Vec::new();
    let before = numbers(here).take_while(|number| decider.is_none_or(|last| *number < last));
    for number in before.filter(|number| !contains(rules, *number)) {
        if may_match(number) {
            insert(&mut missed, number);
        }
    }
    missed
}

/// Returns whether `rest`, what the columns do not cover of a rule's condition, holds: in any
/// reading of path and query for a rule that keeps requests out, else in all of them.
fn rest_holds(
    rest: &Condition,
    asked: &RuleFacts<'_>,
    fields: &impl Fields,
    (readings, keeps_out): (&UrlReadings<'_>, bool),
) -> bool {
    let mut readings = readings.iter();
    let mut holds = |reading| rest.holds_for_url(asked, fields, reading, keeps_out);
    rest.holds_apart_from_url(asked, fields, keeps_out)
        && match keeps_out {
            true => readings.any(&mut holds),
            false => readings.all(&mut holds),
        }
}

/// Conditions on fields. All conditions of a rule must hold. The sets have several layers: the
/// first for all tests that must not succeed, the second for the first test of each rule that must
/// succeed, and so on.
#[derive(Debug)]
struct FieldTests {
    /// The layers for a request without fields, concatenated.
    layers: Box<[u64]>,
    names: Words<TestsOfField>,
    /// The usual names among `names`.
    usual: UsualNames,
}

/// Tests of one field, as the layer positions that a success sets.
#[derive(Debug)]
struct TestsOfField {
    present: RuleSet,
    values: PatternTable<RuleSet>,
}

impl FieldTests {
    /// Compiles the conditions of these rules; `None` if there are none.
    fn new(rules: &[Arc<Rule>]) -> Option<FieldTests> {
        let stride = 64 * words_for(rules.len());
        let mut names: BTreeMap<&str, BTreeMap<Option<&Pattern>, Vec<u32>>> = BTreeMap::new();
        let mut required = Vec::with_capacity(rules.len());
        for (number, rule) in rules.iter().enumerate() {
            let mut layer = 0;
            for test in rule.when.headers.iter().filter(|test| !test.is_regex()) {
                let value = match &test.value {
                    Some(PathTest::Pattern(pattern)) => Some(pattern),
                    _ => None,
                };
                layer += usize::from(!test.negated);
                let at = if test.negated { 0 } else { layer } * stride + number;
                let of_field = names.entry(test.name.as_str()).or_default();
                let of_value = of_field.entry(value).or_default();
                // Memory holds far fewer tests than `u32::MAX`.
                of_value.push(u32::try_from(at).unwrap_or(u32::MAX));
            }
            required.push(layer);
        }
        if names.is_empty() {
            return None;
        }
        let layers = 1 + required.iter().max().copied().unwrap_or(0);
        let is_met = |at: usize| {
            let (layer, number) = (at / stride, at % stride);
            layer > 0 && required.get(number).is_some_and(|required| *required < layer)
        };
        let usual = UsualNames::all_in(|name| names.contains_key(name));
        let names = names.into_iter().map(|(name, mut tests)| {
            let present = RuleSet::new(tests.remove(&None).unwrap_or_default());
            let of_value = |(pattern, at): (Option<_>, _)| Some((pattern?, RuleSet::new(at)));
            (
                name,
                TestsOfField { present, values: tests.into_iter().filter_map(of_value).collect() },
            )
        });
        let layers = bits_of(layers * stride, is_met);
        Some(FieldTests { layers, names: names.collect(), usual })
    }

    /// Adds the tests that succeed to the layers. One matching line of a field is enough.
    fn look_up(&self, fields: &impl Fields, layers: &mut [u64]) {
        for (name, value) in fields.lines_in(self.usual, |name| self.names.may_have(name)) {
            for (_, tests) in self.names.find(name) {
                tests.present.add_to(layers);
                tests.values.each(value, |rules| rules.add_to(layers));
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
