//! The source of requests: any workload as one sequence, shared by all clients.

use std::sync::Arc;

use workload::generator::distributions::SplitMix;
use workload::request::Request;

use super::options::{LoadOptions, PhaseKind, Workload};
use super::polymix::PolyMixSource;
use super::replay::Replay;
use super::site::Site;
use super::synthetic::Synthetic;
use crate::object::{Ask, Method};

/// A source of requests.
pub struct Source {
    stream: Stream,
    options: LoadOptions,
    dice: SplitMix,
}

enum Stream {
    PolyMix(Box<PolyMixSource>),
    Requests(Box<dyn Iterator<Item = Request>>),
    Synthetic(Box<Synthetic>),
    Replay(Box<Replay>),
    Site(Box<Site>),
    Listed(Arc<[Ask]>, usize),
}

impl Source {
    /// Creates a source.
    ///
    /// # Errors
    /// Fails if a parameter is out of range, or a trace cannot be read.
    pub fn new(options: &LoadOptions) -> Result<Source, String> {
        let LoadOptions { seed, sizes, uncacheable, .. } = *options;
        let stream = match &options.workload {
            Workload::PolyMix(polymix) => {
                Stream::PolyMix(Box::new(PolyMixSource::new(*polymix, seed)))
            }
            Workload::Generated(workload) => Stream::Requests(Box::new(workload.iter(seed))),
            Workload::Zipf { objects, alpha, drift } => {
                let zipf = Synthetic::zipf(*objects, *alpha, sizes, uncacheable, seed)?;
                Stream::Synthetic(Box::new(zipf.drifting(*drift)))
            }
            Workload::Listed(asks) => Stream::Listed(Arc::clone(asks), 0),
            Workload::Unique => {
                Stream::Synthetic(Box::new(Synthetic::unique(sizes, uncacheable, seed)))
            }
            Workload::Site { pages } => Stream::Site(Box::new(Site::new(*pages, seed))),
            Workload::Replay { files, options } => {
                Stream::Replay(Box::new(Replay::new(files, *options)))
            }
        };
        let dice = SplitMix::new(seed ^ 0x736f_7572_6365);
        Ok(Source { stream, options: options.clone(), dice })
    }

    /// Starts a phase.
    pub fn enter(&mut self, phase: PhaseKind) {
        match &mut self.stream {
            Stream::PolyMix(polymix) => polymix.enter(phase),
            Stream::Synthetic(synthetic) => synthetic.enter(phase),
            Stream::Site(site) => site.enter(phase),
            Stream::Requests(_) | Stream::Replay(_) | Stream::Listed(..) => {}
        }
    }

    /// Returns the next request; `None` at the end of a trace.
    ///
    /// # Errors
    /// Fails if the trace cannot be read further.
    pub fn ask(&mut self) -> Result<Option<Ask>, String> {
        let ask = match &mut self.stream {
            Stream::PolyMix(polymix) => Some(polymix.next()),
            Stream::Requests(requests) => requests.next().map(|request| Ask::from(&request)),
            Stream::Synthetic(synthetic) => Some(synthetic.next()),
            Stream::Site(site) => Some(site.next()),
            Stream::Listed(asks, next) => {
                let ask = asks.get(*next % asks.len().max(1)).copied();
                *next += 1;
                ask
            }
            Stream::Replay(replay) => replay
                .next()?
                .map(|request| Ask { at_ms: Some(request.time_ms), ..Ask::from(&request) }),
        };
        Ok(ask.map(|ask| self.dressed(ask)))
    }

    /// Returns notes on skipped lines of traces, for the report.
    pub fn notes(&self) -> Vec<String> {
        match &self.stream {
            Stream::Replay(replay) => replay.notes(),
            _ => Vec::new(),
        }
    }

    /// Applies the options that go beyond the workload to a request.
    fn dressed(&mut self, mut ask: Ask) -> Ask {
        let LoadOptions { seed, lifetime, ranges, .. } = self.options;
        if lifetime > 0 && ask.object.cycle == 0 && !ask.object.uncacheable {
            // From half the mean to one and a half times the mean.
            let share = SplitMix::of(seed ^ 0x6379_636c, ask.object.id).uniform() + 0.5;
            ask.object.cycle = (f64::from(lifetime) * share).max(1.0) as u32;
        }
        let size = ask.object.size;
        if ranges > 0.0 && size > 1 && ask.method == Method::Get && self.dice.chance(ranges) {
            let from = self.dice.below(size);
            let to = from + 1 + self.dice.below(size - from);
            ask.range = Some((from, to));
        }
        ask
    }
}
