//! Lists of permissions and denials, of which the first that matches decides.

use crate::convert::cases::{Cases, both_also, merge, negated};
use crate::convert::rule_draft::Tests;

/// The decisions of the lists so far.
pub struct Decisions {
    /// Requests that the lists so far allow.
    allowed: Cases,
    denied: Cases,
    /// Requests of which no list decides yet.
    open: Cases,
    /// The last list denies; `None` if there is none.
    denies: Option<bool>,
}

impl Default for Decisions {
    fn default() -> Decisions {
        let open = vec![Tests::default()];
        Decisions { allowed: Cases::new(), denied: Cases::new(), open, denies: None }
    }
}

impl Decisions {
    /// Decides on the requests of a list, `None` for none. After an error a denial is for all that
    /// no list decides on, and a permission for none.
    pub fn decide(
        &mut self,
        when: Result<Option<Tests>, String>,
        denies: bool,
    ) -> Result<(), String> {
        self.denies = Some(denies);
        let found = when.and_then(|when| when.map_or(Ok(()), |when| self.part(when, denies)));
        if found.is_err() && denies {
            self.denied.append(&mut self.open);
        }
        found
    }

    fn part(&mut self, when: Tests, denies: bool) -> Result<(), String> {
        let when = vec![when];
        let decided = both_also(&self.open, &when)?;
        let others = negated(&when).and_then(|others| both_also(&self.open, &others));
        // A request that both lists are for is denied as well.
        self.open = if denies { others.unwrap_or_else(|_| self.open.clone()) } else { others? };
        if denies {
            self.denied.extend(decided)
        } else {
            self.allowed.extend(decided)
        }
        Ok(())
    }

    /// Returns the requests that are allowed. The opposite of the last list is for those of which
    /// no list decides.
    pub fn allowed(self) -> Cases {
        let is_open = self.denies != Some(false);
        merged(self.allowed, self.open, is_open)
    }

    /// Returns the requests that are denied.
    pub fn denied(self) -> Cases {
        let is_closed = self.denies == Some(false);
        merged(self.denied, self.open, is_closed)
    }
}

fn merged(mut decided: Cases, open: Cases, is_opposite: bool) -> Cases {
    decided.extend(open.into_iter().filter(|_| is_opposite));
    merge(&mut decided);
    decided
}
