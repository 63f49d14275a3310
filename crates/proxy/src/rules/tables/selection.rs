//! The rules that match a request by the conditions checked so far.

use std::cell::RefCell;
use std::mem;

use crate::rules::tables::column::Column;
use crate::rules::tables::rule_set::{RuleSet, numbers, words_for};
use crate::rules::tables::words::Words;

/// Rules that match so far; initially all of them. Once none is left, lookups are skipped.
pub(crate) struct Selection {
    fits: Vec<u64>,
    /// Buffers of the columns; no bit is set between two of them.
    strict: Vec<u64>,
    loose: Vec<u64>,
    /// Buffer of several readings or layers.
    part: Vec<u64>,
}

thread_local! {
    /// The buffers of this thread's last selection.
    static BUFFERS: RefCell<Selection> = const { RefCell::new(Selection::EMPTY) };
}

impl Selection {
    const EMPTY: Selection =
        Selection { fits: Vec::new(), strict: Vec::new(), loose: Vec::new(), part: Vec::new() };

    /// Calls `use_it` with the selection of all `count` rules. It must not begin another selection.
    pub fn with<R>(count: usize, use_it: impl FnOnce(&mut Selection) -> R) -> R {
        BUFFERS.with_borrow_mut(|selection| {
            let words = words_for(count);
            selection.fits.clear();
            selection.fits.resize(words, u64::MAX);
            selection.strict.resize(words, 0);
            selection.loose.resize(words, 0);
            if let Some(last) = selection.fits.last_mut()
                && !count.is_multiple_of(64)
            {
                *last = (1 << (count % 64)) - 1;
            }
            use_it(selection)
        })
    }

    /// Returns the matching rules, as bits.
    pub fn bits(&self) -> &[u64] {
        &self.fits
    }

    pub fn bits_mut(&mut self) -> &mut [u64] {
        &mut self.fits
    }

    pub fn is_empty(&self) -> bool {
        self.fits.iter().fold(0, |all, word| all | word) == 0
    }

    pub fn first(&self) -> Option<usize> {
        numbers(&self.fits).next()
    }

    /// Keeps the rules whose condition matches. `look_up` adds the rules that name a matching entry
    /// of the table to the bits, which already contain the rules without a condition.
    pub fn narrow<T>(&mut self, column: &Column<T>, look_up: impl FnOnce(&T, &mut [u64])) {
        if self.is_empty() {
            return;
        }
        look_up(&column.table, &mut self.strict);
        self.keep_found(&column.any);
    }

    /// Keeps the rules of `any` and those in `strict`.
    fn keep_found(&mut self, any: &[u64]) {
        for ((to, found), any) in self.fits.iter_mut().zip(&mut self.strict).zip(any) {
            *to &= mem::take(found) | any;
        }
    }

    /// Keeps the rules of `loosely` whose condition matches loosely, and the other rules whose
    /// condition matches strictly. `look_up` adds to the bits of both, strict ones first.
    pub fn narrow_by_two<T>(
        &mut self,
        (column, loosely): (&Column<T>, &[u64]),
        look_up: impl FnOnce(&T, &mut [u64], &mut [u64]),
    ) {
        if self.is_empty() {
            return;
        }
        look_up(&column.table, &mut self.strict, &mut self.loose);
        self.keep(&column.any, loosely);
    }

    /// Keeps the rules of `loosely` that name a method in any case, and the other rules that name
    /// it in its exact case.
    pub fn narrow_by_method(
        &mut self,
        column_and_loosely: (&Column<Words<RuleSet>>, &[u64]),
        method: &str,
    ) {
        self.narrow_by_two(column_and_loosely, |methods, exact, any_case| {
            for (name, rules) in methods.find(method) {
                rules.add_to(any_case);
                if name == method {
                    rules.add_to(exact);
                }
            }
        });
    }

    /// Keeps the rules of `loosely` whose condition matches in any of several readings of a
    /// request, and the other rules whose condition matches in all of them.
    pub fn narrow_by_readings<T, R>(
        &mut self,
        (column, loosely): (&Column<T>, &[u64]),
        readings: impl IntoIterator<Item = R>,
        mut look_up: impl FnMut(&T, R, &mut [u64]),
    ) {
        if self.is_empty() {
            return;
        }
        let mut readings = readings.into_iter();
        if let Some(first) = readings.next() {
            look_up(&column.table, first, &mut self.strict);
        }
        let Some(second) = readings.next() else {
            return self.keep_found(&column.any);
        };
        copy(&self.strict, &mut self.loose);
        for reading in std::iter::once(second).chain(readings) {
            self.part.clear();
            self.part.resize(self.fits.len(), 0);
            look_up(&column.table, reading, &mut self.part);
            and(&mut self.strict, &self.part);
            self.loose.iter_mut().zip(&self.part).for_each(|(to, from)| *to |= from);
        }
        self.keep(&column.any, loosely);
    }

    /// Keeps the rules for which all of several conditions match. `layers` holds one set per
    /// condition, concatenated; the first set is for conditions that must not match. `look_up` adds
    /// to the layers.
    pub fn narrow_by_layers(&mut self, layers: &[u64], look_up: impl FnOnce(&mut [u64])) {
        if self.is_empty() {
            return;
        }
        copy(layers, &mut self.part);
        look_up(&mut self.part);
        let (broken, holding) = self.part.split_at(self.fits.len());
        self.fits.iter_mut().zip(broken).for_each(|(to, broken)| *to &= !broken);
        holding.chunks(self.fits.len()).for_each(|layer| and(&mut self.fits, layer));
    }

    /// Keeps the rules of `any`, those of `loosely` in `loose`, and the others in `strict`.
    fn keep(&mut self, any: &[u64], loosely: &[u64]) {
        let both = self.strict.iter_mut().zip(&mut self.loose).zip(any.iter().zip(loosely));
        for (to, ((strict, loose), (any, loosely))) in self.fits.iter_mut().zip(both) {
            *to &= (loosely & mem::take(loose)) | (!loosely & mem::take(strict)) | any;
        }
    }
}

fn copy(from: &[u64], to: &mut Vec<u64>) {
    to.clear();
    to.extend_from_slice(from);
}

fn and(to: &mut [u64], other: &[u64]) {
    to.iter_mut().zip(other).for_each(|(to, other)| *to &= other);
}
