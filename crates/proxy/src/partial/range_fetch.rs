//! Task that fetches a gap of an object stored in parts: one request to the origin for consecutive
//! windows, each a fill of its own that any number of clients follow.
//!
//! Windows are begun one by one, so that a request for later bytes does not wait for the bytes
//! before them. The task ends at the end of the gap, where another fetch has begun, where the store
//! takes no more, or with the window after which no client holds an interest.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use http::Response;
use http_body::Body;
use semantics::partial::Verdict;
use semantics::range::ByteRange;
use semantics::{ExchangeTimes, PartHead, partial};
use store::{FetchToken, Hint, Key};
use tokio::task::spawn_local;
use upstream::connection::origin_body::OriginBody;

use crate::fill::pump::{Carried, Incoming, Pump, ReaderlessProgress};
use crate::fill::sink::Sink;
use crate::fill::state::{End, Failed, Fill, FillStage, PartStage};
use crate::object::store::Writer;
use crate::observe::event::Event;
use crate::observe::outcome::Error;
use crate::origin::failure::Failure;
use crate::partial::partial_object::{Part, PartialObject};
use crate::request::upstream_request;
use crate::services::Services;

pub(crate) struct RangeFetch {
    parts: Rc<PartialObject>,
    gap: ByteRange,
    interest: Weak<()>,
    now: RegisteredFill,
    other_response: Rc<Cell<Option<OtherResponse>>>,
}

/// Response that does not fill the gap, unchanged. It may answer the client's own request.
pub(crate) struct OtherResponse {
    pub response: Response<OriginBody>,
    pub times: ExchangeTimes,
    /// True if the origin has another representation now.
    pub changed: bool,
    /// Token taken before the request was sent to the origin.
    pub token: FetchToken,
}

/// Registered fill. It is removed from the registry and ended however the task ends.
struct RegisteredFill {
    parts: Rc<PartialObject>,
    fill: Arc<Fill>,
    key: Key,
}

impl RegisteredFill {
    /// Removes the fill from the registry. New requests find what it stored.
    fn unregister(&self) {
        self.parts.services.shared.fills.remove(self.key.as_bytes(), &self.fill);
    }
}

impl Drop for RegisteredFill {
    fn drop(&mut self) {
        self.unregister();
        // Neither has an effect if the fill has a head and its body has ended.
        self.fill.publish(FillStage::Absent(false), None);
        self.fill.end(End::Broken(Error::Draining));
    }
}

struct PartWriter {
    sink: Sink,
    /// Bytes of the old part that precede the fetched ones.
    before: u64,
    /// The old part, if it continues after the fetched bytes.
    after: Option<Part>,
}

impl RangeFetch {
    /// Creates a fetch of `gap`, whose first window is `fill`, registered under `key`.
    pub fn new(
        parts: Rc<PartialObject>,
        gap: ByteRange,
        interest: &Arc<()>,
        fill: Arc<Fill>,
        key: Key,
    ) -> RangeFetch {
        let now = RegisteredFill { parts: parts.clone(), fill, key };
        RangeFetch {
            parts,
            gap,
            interest: Arc::downgrade(interest),
            now,
            other_response: Rc::default(),
        }
    }

    /// Returns the slot for a response that does not fill the gap. It is filled before the fill
    /// ends as [`FillStage::Absent`].
    pub fn other_response(&self) -> Rc<Cell<Option<OtherResponse>>> {
        self.other_response.clone()
    }

    /// Requests the gap from the origin and carries the response.
    pub async fn fetch(mut self) {
        self.parts.count(Event::FillBegun);
        let parts = self.parts.clone();
        let mut upstream_request = parts.upstream_request.clone();
        partial::ask(&mut upstream_request.headers, &parts.head, self.gap);
        let mut token = parts.store.begin_fetch(&parts.primary);
        let clock = parts.services.clock;
        let requested = clock.time();
        let mut response = match upstream_request.run(&parts.services, &parts.options, None).await {
            Ok(response) => response,
            Err(failure) => return self.fail(failure),
        };
        let times = ExchangeTimes { requested, received: clock.time() };
        let (version, as_it_came) = (response.version(), response.headers().clone());
        upstream_request::sanitize_response(
            &parts.services,
            response.headers_mut(),
            version,
            false,
        );
        match self.judge(&response, times) {
            Verdict::Fits(end) => {
                self.gap.end = end;
                parts.refresh(response.headers(), times).await;
                self.carry(response.into_body()).await;
            }
            verdict => {
                log::debug!("a part of a stored object cannot be fetched: {verdict:?}");
                let changed = verdict == Verdict::Changed;
                if changed {
                    parts.forget(&mut token).await;
                }
                *response.headers_mut() = as_it_came;
                self.other_response.set(Some(OtherResponse { response, times, changed, token }));
                self.now.unregister();
                self.now.fill.publish(FillStage::Absent(changed), None);
                parts.count(Event::FillAborted);
            }
        }
    }

    fn fail(self, failure: Failure) {
        self.now.unregister();
        let failed = Failed::of(failure);
        self.now.fill.publish(FillStage::Failed(Arc::new(failed)), None);
        self.parts.count(Event::FillAborted);
    }

    fn judge<B: Body>(&self, response: &Response<B>, times: ExchangeTimes) -> Verdict {
        let parts = &self.parts;
        let settings = parts.upstream_request.settings(&parts.options);
        let body = response.body().size_hint().exact();
        let answer = (response.status(), response.headers(), body);
        partial::weigh(&parts.head, parts.layout.length, self.gap, answer, times, settings)
    }

    /// Carries the bytes of the gap to the readers and into the store, window by window.
    pub async fn carry(mut self, body: OriginBody) {
        let parts = self.parts.clone();
        let (mut at, mut body) = (self.gap.start, Incoming::new(body));
        let mut counted = Event::FillStored;
        loop {
            let end = parts.layout.around(at).end.min(self.gap.end);
            let range = ByteRange { start: at, end };
            let mut part_writer = self.begin_part(range).await;
            let stage = PartStage { range, interest: self.interest.clone() };
            let unfinished = part_writer.sink.unfinished();
            let fill = self.now.fill.clone();
            fill.publish_behind(FillStage::Part(Arc::new(stage)), unfinished, part_writer.before);
            let carried = self.window(&mut body, range, &mut part_writer).await;
            // Begin the next window before this one ends, so that readers that continue find it.
            let is_full = matches!(carried, Carried::Complete { .. });
            let wanted =
                self.interest.strong_count() > 0 && matches!(part_writer.sink, Sink::Open(_));
            let next = match is_full && wanted && end < self.gap.end {
                true => parts.next_fill(end),
                false => None,
            };
            self.finish_part(&mut part_writer, end, is_full).await;
            if !matches!(part_writer.sink, Sink::Committed) {
                counted = Event::FillUnstored;
            }
            if !is_full {
                counted = Event::FillAborted;
            }
            self.now.unregister();
            fill.end(match carried {
                Carried::Complete { last, .. } => {
                    fill.push(last);
                    End::Whole(None)
                }
                Carried::Broken(why) => End::Broken(why),
                Carried::Abandoned => End::Broken(Error::Upstream),
            });
            let mut sink = part_writer.sink;
            if matches!(sink, Sink::Refused(_)) {
                spawn_local(async move { sink.drop_when_unneeded(&fill).await });
            }
            match next {
                Some((key, fill)) => self.now = RegisteredFill { parts: parts.clone(), fill, key },
                None => break,
            }
            at = end;
        }
        parts.count(counted);
    }

    /// Opens the part for `range` of a window, starting with the window's bytes before `range`.
    async fn begin_part(&self, range: ByteRange) -> PartWriter {
        let part = self.parts.part(self.parts.layout.number(range.start)).await;
        let mut after = None;
        if let Some(part) = part {
            let old = part.range;
            if old.start < range.start && old.end >= range.start {
                let before = range.start - old.start;
                if let Some(writer) = self.begin_behind(&part, before).await {
                    return PartWriter { sink: Sink::Open(writer), before, after: None };
                }
            } else if old.start <= range.end && old.end > range.end {
                after = Some(part);
            }
        }
        let sink = self.begin_writing(range.start).await.map_or(Sink::Nowhere, Sink::Open);
        PartWriter { sink, before: 0, after }
    }

    /// Opens a writer and copies the first `count` bytes of an old part to it.
    async fn begin_behind(&self, part: &Part, count: u64) -> Option<Writer> {
        let mut writer = self.begin_writing(part.range.start).await?;
        let mut old = part.entry.body(0..count);
        while let Some(chunk) = old.next().await {
            writer.write(chunk.ok()?).await.ok()?;
        }
        Some(writer)
    }

    async fn begin_writing(&self, start: u64) -> Option<Writer> {
        let meta = PartHead { start }.encode();
        let (store, token) = (&self.parts.store, &self.parts.token);
        let begun = store.insert(token, &self.now.key, meta, Hint::default()).await;
        if let Err(refusal) = &begun {
            log::debug!("a part is not stored: {refusal}");
        }
        begun.ok()
    }

    async fn window(
        &self,
        body: &mut Incoming<OriginBody>,
        range: ByteRange,
        part_writer: &mut PartWriter,
    ) -> Carried {
        let PartialObject { services, options, .. } = &*self.parts;
        let Services { leases, clock, .. } = &**services;
        let sink = (&mut part_writer.sink, part_writer.before);
        let mut pump = Pump::new(leases, *clock, &options.fill, &self.now.fill, sink);
        let is_wanted = |unwatched: ReaderlessProgress| {
            let left = range.count() - unwatched.carried;
            self.interest.strong_count() > 0
                || (unwatched.is_stored && left <= options.fill.finish_rest)
        };
        pump.carry(body, Some(range.count()), is_wanted).await
    }

    /// Appends the old bytes after the range if it is complete, then commits the part. Keeps the
    /// start of a window that broke off.
    async fn finish_part(&self, part_writer: &mut PartWriter, at: u64, full: bool) {
        let _lease = self.parts.services.leases.lease_until_done();
        if let Some(after) = part_writer.after.take().filter(|_| full) {
            let skip = at.saturating_sub(after.range.start);
            let mut old = after.entry.body(skip..after.entry.len());
            while let Some(Ok(chunk)) = old.next().await {
                part_writer.sink.write(chunk).await;
            }
        }
        if self.parts.token.overtaken() {
            part_writer.sink.refused(store::Refusal::Overtaken);
        }
        part_writer.sink.commit().await;
    }
}
