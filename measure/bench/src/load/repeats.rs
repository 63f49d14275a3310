//! A model of an infinite cache: the hit ratio that a workload offers.

use crate::object::{Ask, Condition, Method};

/// The objects in an infinite cache, each in its latest version.
#[derive(Debug, Default)]
pub struct Repeats {
    /// By object: the version plus one, truncated to 32 bits; 0: none.
    known: Vec<u32>,
}

impl Repeats {
    /// Returns whether the cache has the requested object in this version. Afterwards it has the
    /// object that the response brought.
    pub fn ask(&mut self, ask: &Ask, version: u64) -> bool {
        if ask.object.uncacheable || ask.method == Method::Post {
            return false;
        }
        let place = ask.object.id as usize;
        let version = (version as u32).wrapping_add(1).max(1);
        let has = self.known.get(place) == Some(&version);
        let is_asked = ask.condition == Condition::Reload;
        // A condition that holds brings no body, nor does HEAD; a part is not the whole.
        let brings = ask.method == Method::Get
            && ask.condition != Condition::Since304
            && ask.range.is_none();
        if brings && !has {
            if place >= self.known.len() {
                self.known.resize((place + 1).next_power_of_two(), 0);
            }
            self.known[place] = version;
        }
        has && !is_asked
    }
}

#[test]
fn it_has_what_it_was_given_until_that_changes() {
    use crate::object::Object;

    let mut repeats = Repeats::default();
    let object = |id| Object { id, size: 1, ..Object::default() };
    let ask = |id| Ask { object: object(id), ..Ask::default() };
    assert!(!repeats.ask(&ask(5), 0) && repeats.ask(&ask(5), 0));
    assert!(!repeats.ask(&ask(5), 1) && repeats.ask(&ask(5), 1), "a new version");
    let reload = Ask { condition: Condition::Reload, ..ask(5) };
    assert!(!repeats.ask(&reload, 1), "the origin has to be asked");
    let condition = Ask { condition: Condition::Since304, ..ask(6) };
    assert!(!repeats.ask(&condition, 0) && !repeats.ask(&condition, 0), "nothing is brought");
    let private = Ask { object: Object { uncacheable: true, ..object(7) }, ..ask(7) };
    assert!(!repeats.ask(&private, 0) && !repeats.ask(&private, 0));
}
