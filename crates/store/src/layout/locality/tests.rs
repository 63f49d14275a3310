//! Tests of the buffers against the paper's rule, applied to plain lists.

use std::collections::BTreeMap;

use super::*;
use crate::test_seed::seeds;

/// An item: its number, site and size in bytes.
type Item = (u32, u64, u32);

/// The rule: per site, the number of the last item added and the waiting items.
#[derive(Default)]
struct Rule {
    buffers: BTreeMap<u64, (u32, Vec<Item>)>,
}

impl Rule {
    fn push(&mut self, count: usize, size: u32, item: Item) -> Vec<Vec<Item>> {
        let mut written = Vec::new();
        if !self.buffers.contains_key(&item.1) && self.buffers.len() == count {
            let victim = *self.buffers.iter().min_by_key(|(_, buffer)| buffer.0).unwrap().0;
            written.extend(self.buffers.remove(&victim).map(|buffer| buffer.1));
        }
        let (last, items) = self.buffers.entry(item.1).or_default();
        *last = item.0;
        let bytes: u32 = items.iter().map(|item| item.2).sum();
        if bytes + item.2 > size && !items.is_empty() {
            written.push(std::mem::take(items));
        }
        items.push(item);
        if items.iter().map(|item| item.2).sum::<u32>() >= size {
            written.extend(self.buffers.remove(&item.1).map(|buffer| buffer.1));
        }
        written
    }
}

#[test]
fn batches_are_those_of_the_rule() {
    for seed in seeds("locality::batches_are_those_of_the_rule", 100) {
        let mut random = fastrand::Rng::with_seed(seed);
        let (count, size) = (random.usize(1..10), random.u32(1..2000));
        let sites = random.u64(1..30);
        let mut buffers = LocalityBuffers::new(count, size);
        let mut rule = Rule::default();
        let mut out: Vec<Item> = Vec::new();
        let mut gone: Vec<Item> = Vec::new();
        for number in 0..500 {
            let item = (number, random.u64(..sites), random.u32(1..=size * 5 / 4));
            let expected = rule.push(count, size, item);
            let mut written = Vec::new();
            buffers.push(item.1, item.2, item, &mut written);
            assert_eq!(written, expected);
            out.extend(written.into_iter().flatten());
            if random.u8(..20) == 0 {
                let unlucky = random.u32(..3);
                gone.extend(buffers.iter().filter(|item| item.0 % 3 == unlucky));
                buffers.retain(|item| item.0 % 3 != unlucky, |item| item.2);
                for (_, items) in rule.buffers.values_mut() {
                    items.retain(|item| item.0 % 3 != unlucky);
                }
                rule.buffers.retain(|_, buffer| !buffer.1.is_empty());
            }
            let waiting = rule.buffers.values().flat_map(|buffer| &buffer.1);
            assert_eq!(buffers.bytes(), waiting.map(|item| u64::from(item.2)).sum::<u64>());
            assert!(buffers.bytes() < count as u64 * u64::from(size));
        }
        while let Some(batch) = buffers.take_oldest() {
            out.extend(batch);
        }
        assert!(buffers.is_empty());
        out.extend(gone);
        out.sort_unstable();
        assert!(out.iter().map(|item| item.0).eq(0..500), "each item once");
    }
}

#[test]
fn what_a_site_stores_among_others_lies_side_by_side() {
    let mut buffers = LocalityBuffers::new(2, 3000);
    let mut written = Vec::new();
    for number in 0..6 {
        buffers.push(number % 2, 1000, number, &mut written);
    }
    assert_eq!(written, [[0, 2, 4], [1, 3, 5]]);
    assert!(buffers.is_empty());
}

#[test]
fn the_least_recently_filled_buffer_is_the_victim() {
    let mut buffers = LocalityBuffers::new(2, 3000);
    let mut written = Vec::new();
    for (site, item) in [(1, "first of 1"), (2, "of 2"), (1, "second of 1"), (3, "of 3")] {
        buffers.push(site, 1000, item, &mut written);
    }
    assert_eq!(written, [["of 2"]]);
    assert_eq!(buffers.take_oldest().unwrap(), ["first of 1", "second of 1"]);
    assert_eq!(buffers.take_oldest().unwrap(), ["of 3"]);
    assert_eq!(buffers.take_oldest(), None);
}
