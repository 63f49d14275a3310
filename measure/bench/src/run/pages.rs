//! Pages in flight, and the images that wait for them: a browser requests embedded objects once it
//! has the page.

use std::collections::HashMap;

use crate::object::{Ask, Kind, Object};

/// The pages in flight. A page and its images belong to one group.
#[derive(Debug, Default)]
pub struct Pages {
    /// Keyed by group.
    loading: HashMap<u64, Loading>,
}

#[derive(Debug, Default)]
struct Loading {
    /// Number of requests for the page that are in flight.
    requests: u32,
    waiting: Vec<Ask>,
}

impl Pages {
    /// Returns whether the request must wait for its page; if so, holds it.
    pub fn hold(&mut self, ask: &Ask) -> bool {
        let loading = match ask.object.kind {
            Kind::Image => self.loading.get_mut(&ask.object.group),
            _ => None,
        };
        let is_held = loading.is_some();
        loading.into_iter().for_each(|loading| loading.waiting.push(*ask));
        is_held
    }

    /// Records that a request was sent.
    pub fn sent(&mut self, object: &Object) {
        if object.kind == Kind::Html {
            self.loading.entry(object.group).or_default().requests += 1;
        }
    }

    /// Records that a request has ended, and returns the requests that waited for it.
    pub fn ended(&mut self, object: &Object) -> Vec<Ask> {
        if object.kind != Kind::Html {
            return Vec::new();
        }
        let Some(loading) = self.loading.get_mut(&object.group) else { return Vec::new() };
        loading.requests = loading.requests.saturating_sub(1);
        let waited = std::mem::take(&mut loading.waiting);
        if loading.requests == 0 {
            self.loading.remove(&object.group);
        }
        waited
    }

    /// Discards the waiting requests.
    pub fn give_up(&mut self) {
        self.loading.values_mut().for_each(|loading| loading.waiting.clear());
    }
}

#[test]
fn images_wait_for_their_page_and_for_no_other() {
    let ask =
        |group, kind| Ask { object: Object { group, kind, ..Object::default() }, ..Ask::default() };
    let (page, image) = (ask(1, Kind::Html), ask(1, Kind::Image));
    let mut pages = Pages::default();
    assert!(!pages.hold(&image), "the page is not under way");
    pages.sent(&page.object);
    pages.sent(&page.object);
    assert!(pages.hold(&image) && !pages.hold(&page) && !pages.hold(&ask(2, Kind::Image)));
    assert_eq!(pages.ended(&image.object), []);
    assert_eq!(pages.ended(&page.object), [image]);
    assert!(pages.hold(&image), "another has asked for it");
    pages.give_up();
    assert_eq!(pages.ended(&page.object), []);
    assert!(!pages.hold(&image));
}
