//! A set of field names, optimised for few names.

use http::HeaderName;

/// A set of field names, in insertion order. The first two need no allocation: most requests that
/// identify a client do so by `Cookie` and `Authorization`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameSet {
    first: [Option<HeaderName>; 2],
    more: Vec<HeaderName>,
}

impl NameSet {
    /// Adds a name if it is absent.
    pub fn insert(&mut self, name: HeaderName) {
        if self.iter().any(|known| *known == name) {
            return;
        }
        match self.first.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(name),
            None => self.more.push(name),
        }
    }

    /// Returns the names.
    pub fn iter(&self) -> impl Iterator<Item = &HeaderName> {
        self.first.iter().flatten().chain(&self.more)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Removes the names for which `wanted` returns false.
    pub fn retain(&mut self, wanted: impl Fn(&HeaderName) -> bool) {
        if !self.iter().all(&wanted) {
            *self = self.iter().filter(|name| wanted(name)).cloned().collect();
        }
    }
}

impl FromIterator<HeaderName> for NameSet {
    fn from_iter<I: IntoIterator<Item = HeaderName>>(names: I) -> NameSet {
        let mut set = NameSet::default();
        names.into_iter().for_each(|name| set.insert(name));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_there_once_and_in_order() {
        let set = |names: &[&'static str]| -> NameSet {
            names.iter().map(|name| HeaderName::from_static(name)).collect()
        };
        let texts = |set: &NameSet| set.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut names = set(&["cookie", "x-a", "cookie", "x-b", "x-a", "x-b", "x-c"]);
        assert_eq!(texts(&names), ["cookie", "x-a", "x-b", "x-c"]);
        names.retain(|name| *name != "cookie" && *name != "x-b");
        assert_eq!(names, set(&["x-a", "x-c"]));
        names.retain(|_| false);
        assert!(names.is_empty() && names == NameSet::default());
    }
}
