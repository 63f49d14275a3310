//! The task that fetches a gap of an object that is stored in parts: one request to the origin, a
//! run of windows, each a fill of its own that any number of clients follow.
//!
//! Windows are begun one by one, so that whoever wants bytes further on does not wait for those
//! before them. It ends at the gap's end, where another fetch has begun, or with the window after
//! which nobody holds an interest in it.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use semantics::partial::Verdict;
use semantics::range::ByteRange;
use semantics::{Exchange, PartHead, partial};
use store::{FetchToken, Hint, Key, PIECE_MAX};

use crate::fill::state::{End, Failed, Fill, PartStage, Stage};
use crate::fill::writer::{Sink, Step, UNSTORED_WINDOW, next_frame};
use crate::net::wall_clock::now;
use crate::object::stored_response::Writer;
use crate::observe::event::Event;
use crate::observe::outcome::Error;
use crate::origin::failure::Failure;
use crate::partial::partial_object::{Part, PartialObject};
use crate::request::upstream_request;
use crate::upstream::origin_body::OriginBody;

/// See the module.
pub(crate) struct RangeFetch {
    parts: Rc<PartialObject>,
    gap: ByteRange,
    interest: Weak<()>,
    now: RegisteredFill,
    unfit: Rc<Cell<Option<OtherResponse>>>,
}

/// An answer that does not fill the gap, whole as it came: it may be one to the client's request.
pub(crate) struct OtherResponse {
    pub response: Response<OriginBody>,
    pub exchange: Exchange,
    /// The origin has another representation by now.
    pub changed: bool,
    /// From before the origin was asked; `None`: the object was removed since, by another request.
    pub token: Option<FetchToken>,
}

/// A fill in the table: taken out and ended, however the task ends.
struct RegisteredFill {
    parts: Rc<PartialObject>,
    fill: Arc<Fill>,
    key: Key,
}

impl RegisteredFill {
    /// New requests no longer find the fill: they find what it stored.
    fn leave_table(&self) {
        self.parts.services.shared.fills.remove(self.key.as_bytes(), &self.fill);
    }
}

impl Drop for RegisteredFill {
    fn drop(&mut self) {
        self.leave_table();
        // Both do nothing unless the task was dropped on the way.
        self.fill.publish(Stage::Absent(false), None);
        self.fill.end(End::Broken(Error::Draining));
    }
}

/// How a window ended.
enum Window {
    Full,
    Broken(Error),
    Abandoned,
}

/// The part of one window while it is made.
struct PartWriter {
    sink: Sink,
    /// Bytes of the old part that lie before ours.
    before: u64,
    /// The old part, when it goes on where ours ends.
    after: Option<Part>,
}

impl RangeFetch {
    /// A filler for `gap`, whose first window is `fill`, known under `key`.
    pub fn new(
        parts: Rc<PartialObject>,
        gap: ByteRange,
        interest: &Arc<()>,
        fill: Arc<Fill>,
        key: Key,
    ) -> RangeFetch {
        let now = RegisteredFill { parts: parts.clone(), fill, key };
        RangeFetch { parts, gap, interest: Arc::downgrade(interest), now, unfit: Rc::default() }
    }

    /// Where an answer is put that does not fill the gap, before the fill ends as
    /// [`Stage::Absent`].
    pub fn unfit(&self) -> Rc<Cell<Option<OtherResponse>>> {
        self.unfit.clone()
    }

    /// Asks the origin for the gap and carries what comes.
    pub async fn fetch(mut self) {
        self.parts.count(Event::FillBegun);
        let parts = self.parts.clone();
        let mut errand = parts.errand.clone();
        partial::ask(&mut errand.headers, &parts.head, self.gap);
        let token = parts.store.begin_fetch(&parts.primary);
        let requested = now();
        let mut response = match errand.run(&parts.services, &parts.options, None).await {
            Ok(response) => response,
            Err(failure) => return self.fail(failure),
        };
        let exchange = Exchange { requested, received: now() };
        let (version, as_it_came) = (response.version(), response.headers().clone());
        upstream_request::sanitize_response(
            &parts.services,
            response.headers_mut(),
            version,
            false,
        );
        match self.judge(&response, exchange) {
            Verdict::Fits(end) => {
                self.gap.end = end;
                parts.refresh(response.headers(), exchange).await;
                self.carry(response.into_body()).await;
            }
            verdict => {
                log::debug!("a part of a stored object is not to be had: {verdict:?}");
                let changed = verdict == Verdict::Changed;
                let removal = async {
                    if changed {
                        parts.forget().await;
                    }
                };
                let ((), token) = token.outlive(removal).await;
                *response.headers_mut() = as_it_came;
                self.unfit.set(Some(OtherResponse { response, exchange, changed, token }));
                self.now.leave_table();
                self.now.fill.publish(Stage::Absent(changed), None);
                parts.count(Event::FillAborted);
            }
        }
    }

    fn fail(self, failure: Failure) {
        self.now.leave_table();
        let failed = Failed::of(failure);
        self.now.fill.publish(Stage::Failed(Arc::new(failed)), None);
        self.parts.count(Event::FillAborted);
    }

    fn judge<B: Body>(&self, response: &Response<B>, exchange: Exchange) -> Verdict {
        let parts = &self.parts;
        let settings = parts.errand.settings(&parts.options);
        let body = response.body().size_hint().exact();
        let answer = (response.status(), response.headers(), body);
        partial::weigh(&parts.head, parts.layout.length, self.gap, answer, exchange, settings)
    }

    /// Carries the bytes of the gap to the readers and into the store, window by window.
    pub async fn carry(mut self, mut body: OriginBody) {
        let parts = self.parts.clone();
        let (mut at, mut rest) = (self.gap.start, Bytes::new());
        let mut counted = Event::FillStored;
        loop {
            let end = parts.layout.around(at).end.min(self.gap.end);
            let mut making = self.begin_part(ByteRange { start: at, end }).await;
            let range = ByteRange { start: at, end };
            let stage = PartStage { range, interest: self.interest.clone() };
            let partial = making.sink.partial();
            let fill = self.now.fill.clone();
            fill.publish_behind(Stage::Part(Arc::new(stage)), partial, making.before);
            let (window, last) = self.window(&mut body, &mut rest, &mut at, end, &mut making).await;
            // Whoever reads on finds the next window before this one has ended.
            let full = matches!(window, Window::Full);
            let wanted = self.interest.strong_count() > 0 && matches!(making.sink, Sink::Open(_));
            let next = match full && wanted && at < self.gap.end {
                true => parts.next_fill(at),
                false => None,
            };
            self.finish_part(&mut making, at, full).await;
            if !matches!(making.sink, Sink::Committed) {
                counted = Event::FillUnstored;
            }
            self.now.leave_table();
            fill.push(last);
            let ended = match window {
                Window::Full => End::Whole(None),
                Window::Broken(why) => End::Broken(why),
                Window::Abandoned => End::Broken(Error::Upstream),
            };
            if !full {
                counted = Event::FillAborted;
            }
            fill.end(ended);
            making.sink.let_go(&fill).await;
            match next {
                Some((key, fill)) => self.now = RegisteredFill { parts: parts.clone(), fill, key },
                None => break,
            }
        }
        parts.count(counted);
    }

    /// Opens the part for `range` of a window, with what the window has before it.
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

    /// A writer that has the first `count` bytes of an old part already.
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

    /// Carries one window. The last bytes are not pushed but returned: whoever has them and asks
    /// again is to find the part in the store.
    async fn window(
        &mut self,
        body: &mut OriginBody,
        rest: &mut Bytes,
        at: &mut u64,
        end: u64,
        making: &mut PartWriter,
    ) -> (Window, Bytes) {
        let limits = &self.parts.options.fill;
        let (fill, begin) = (&self.now.fill, *at);
        loop {
            making.sink.let_go(fill).await;
            if !making.sink.stores() {
                poll_fn(|cx| fill.poll_room(cx, UNSTORED_WINDOW)).await;
            }
            let alone = self.interest.strong_count() == 0 && !fill.is_followed();
            if alone && (!making.sink.stores() || end - *at > limits.finish_rest) {
                return (Window::Abandoned, Bytes::new());
            }
            if rest.is_empty() {
                match poll_fn(|cx| next_frame(body, cx)).await {
                    Step::Data(data) => *rest = data,
                    Step::Trailers(_) => {}
                    Step::End | Step::Abandoned | Step::Unstored => {
                        return (Window::Broken(Error::Upstream), Bytes::new());
                    }
                    Step::Broken(why) => return (Window::Broken(why), Bytes::new()),
                }
                continue;
            }
            let count = usize::try_from(end - *at).unwrap_or(usize::MAX).min(rest.len());
            let bytes = rest.split_to(count);
            *at += count as u64;
            making.sink.write(bytes.clone()).await;
            if *at == end {
                return (Window::Full, bytes);
            }
            fill.push(bytes);
            if making.sink.stores() {
                // The store reads back only whole pieces of its own.
                let own = u64::from(PIECE_MAX);
                let keep = self.parts.services.shared.windows.keep(own, limits.window as u64);
                let written = making.before + (*at - begin);
                fill.trim(keep, written.saturating_sub(own).saturating_sub(making.before));
            }
        }
    }

    /// Joins what the window had behind, and makes the part visible. Of a window that broke off
    /// what has come is kept.
    async fn finish_part(&self, making: &mut PartWriter, at: u64, full: bool) {
        if let Some(after) = making.after.take().filter(|_| full) {
            let skip = at.saturating_sub(after.range.start);
            let mut old = after.entry.body(skip..after.entry.len());
            while let Some(Ok(chunk)) = old.next().await {
                making.sink.write(chunk).await;
            }
        }
        if self.parts.token.overtaken() {
            making.sink.refused(store::Refusal::Overtaken);
        }
        making.sink.commit().await;
    }
}
