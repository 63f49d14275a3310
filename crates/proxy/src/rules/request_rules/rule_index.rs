//! The conditions of a list of rules, compiled so that a request finds its rule without trying each
//! rule ([`tables`](crate::rules::tables)).

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;
use semantics::{Pattern, readings};

use crate::rules::request_rules::{Rule, RuleFacts};
use crate::rules::tables::column::Column;
use crate::rules::tables::host_table::HostTable;
use crate::rules::tables::pattern_table::PatternTable;
use crate::rules::tables::rule_set::{RuleSet, bits_of, numbers, words_for};
use crate::rules::tables::selection::Selection;
use crate::rules::tables::words::Words;

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
        RuleIndex {
            count,
            all: bits_of(count, |_| true),
            keep_out: bits_of(count, |number| rules[number].bypass),
            keep_upgrades_out: refuse_upgrades.then(|| {
                bits_of(count, |number| rules[number].bypass || rules[number].refuse_upgrades)
            }),
            sites: Column::new(count, |number| {
                when(number).sites.iter().map(String::as_str).collect()
            }),
            hosts: Column::new(count, |number| when(number).hosts.iter().collect()),
            methods: Column::new(count, methods),
            paths: Column::new(count, |number| when(number).paths.iter().collect()),
            fields: FieldTests::new(rules),
        }
    }

    /// Returns whether the choice of a rule depends on [`RuleFacts::upgrade`].
    pub fn looks_at_upgrades(&self) -> bool {
        self.keep_upgrades_out.is_some()
    }

    /// Returns the number of the first rule that matches a request with these fields.
    pub fn find<'f>(
        &self,
        asked: RuleFacts<'_>,
        fields: impl Iterator<Item = (&'f str, &'f [u8])>,
    ) -> Option<usize> {
        let keep_out = match &self.keep_upgrades_out {
            Some(keep_out) if asked.upgrade => keep_out,
            _ => &self.keep_out,
        };
        Selection::with(self.count, |fitting| {
            self.narrow_by_place(fitting, asked.site, asked.host);
            if let Some(methods) = &self.methods {
                fitting.narrow_by_method((methods, keep_out), asked.method);
            }
            if let Some(tests) = &self.fields {
                fitting.narrow_by_layers(&tests.layers, |layers| tests.look_up(fields, layers));
            }
            self.narrow_by_path(fitting, asked.path, keep_out);
            fitting.first()
        })
    }

    /// Returns the numbers of all rules that match this site, host and path for some method and
    /// fields.
    pub fn of_place(&self, site: Option<&str>, host: &str, path: &str) -> Vec<usize> {
        Selection::with(self.count, |fitting| {
            self.narrow_by_place(fitting, site, host);
            self.narrow_by_path(fitting, path, &self.all);
            numbers(fitting.bits()).collect()
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
    fn narrow_by_path(&self, fitting: &mut Selection, path: &str, keep_out: &[u64]) {
        if let Some(paths) = &self.paths {
            let readings = readings::readings(path);
            fitting.narrow_by_readings((paths, keep_out), &readings, |paths, reading, fits| {
                paths.each(reading, |rules| rules.add_to(fits));
            });
        }
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
            for test in &rule.when.headers {
                layer += usize::from(!test.negated);
                let at = if test.negated { 0 } else { layer } * stride + number;
                let of_field = names.entry(test.name.as_str()).or_default();
                let of_value = of_field.entry(test.value.as_ref()).or_default();
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
        let names = names.into_iter().map(|(name, mut tests)| {
            let present = RuleSet::new(tests.remove(&None).unwrap_or_default());
            let of_value = |(pattern, at): (Option<_>, _)| Some((pattern?, RuleSet::new(at)));
            (
                name,
                TestsOfField { present, values: tests.into_iter().filter_map(of_value).collect() },
            )
        });
        Some(FieldTests { layers: bits_of(layers * stride, is_met), names: names.collect() })
    }

    /// Adds the tests that succeed to the layers. One matching line of a field is enough.
    fn look_up<'f>(&self, fields: impl Iterator<Item = (&'f str, &'f [u8])>, layers: &mut [u64]) {
        for (name, value) in fields.filter(|(name, _)| self.names.may_have(name)) {
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
