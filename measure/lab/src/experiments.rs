//! All experiments, one file each, by paper.

pub mod extensions;
pub mod markatos;
pub mod olaru_tichy;
pub(crate) mod shared_runs;
pub mod tfs;
pub mod ucfs;
pub mod unified;

use crate::experiment::{Experiment, Failed, Paper};
use crate::run::whole_cache::CacheError;
use crate::space::manager::SpaceError;

impl From<CacheError> for Failed {
    fn from(why: CacheError) -> Failed {
        Failed(why.0)
    }
}

impl From<SpaceError> for Failed {
    fn from(why: SpaceError) -> Failed {
        Failed(why.to_string())
    }
}

/// Returns the experiments of a paper, in the order of the paper.
pub fn of(paper: Paper) -> &'static [Experiment] {
    match paper {
        Paper::Markatos => markatos::EXPERIMENTS,
        Paper::Ucfs => ucfs::EXPERIMENTS,
        Paper::Tfs => tfs::EXPERIMENTS,
        Paper::Unified => unified::EXPERIMENTS,
        Paper::OlaruTichy => olaru_tichy::EXPERIMENTS,
        Paper::Beyond => extensions::EXPERIMENTS,
    }
}

/// Returns all experiments, paper by paper.
pub fn all() -> impl Iterator<Item = &'static Experiment> {
    Paper::ALL.into_iter().flat_map(of)
}

/// Returns the experiment called `name`.
pub fn named(name: &str) -> Option<&'static Experiment> {
    all().find(|experiment| experiment.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_tell_the_paper_and_are_given_once() {
        let mut names = BTreeSet::new();
        for paper in Paper::ALL {
            assert!(!of(paper).is_empty(), "{paper}");
            for experiment in of(paper) {
                let name = experiment.name;
                assert_eq!(experiment.paper, paper, "{name}");
                assert!(name.starts_with(&format!("{paper}-")), "{name}");
                let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                assert!(name.chars().all(plain), "{name}");
                assert!(names.insert(name), "{name} is given twice");
                assert!(!experiment.parameters.is_empty(), "{name} has no parameters");
            }
        }
        assert!(named("ucfs-disk").is_some());
        assert!(named("ucfs-").is_none());
    }
}
