//! The source of a document in a fleet: the other nodes that its plan names, and then its origin.
//!
//! It promises: a node that fails, or shows no sign of work in time, is passed by, and the request
//! ends as it would without a fleet; a node is believed only what it says is an answer. A node that
//! cannot connect to the origin asks others to fetch.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fleet::breaker::Permit;
use fleet::lookup::{Ask, Reach, Role};
use fleet::round_trips::PATIENCE_MAX;
use http::header::HeaderValue;
use http::{HeaderMap, Request, Response, StatusCode, header};
use tokio::time::{sleep, timeout};
use upstream::connection::origin_body::OriginBody;
use upstream::connection::request_body::OutBody;
use upstream::failure::error::{Failure, Reason};
use upstream::message::informational::Informational;
use upstream::send::attempts::Attempts;
use upstream::send::origin::{Connector, Origin, Sending, Voucher};
use upstream::send::outgoing::Outgoing;
use upstream::settings::endpoint::{At, Endpoint};

use crate::peers::asking::Asking;
use crate::peers::question::{DIGEST_UNKNOWN, FLEET, PURGES, Question, Reply, take_owners};
use crate::peers::tally::{Tally, Told};

/// An answer that came from another node: an extension of the response.
#[derive(Clone, Debug)]
pub(crate) struct FromPeer {
    /// It had been stored there.
    pub hit: bool,
    /// Its body continues from elsewhere if the node stops.
    pub is_continued: bool,
}

/// A node that works on an answer sends a sign of it at least this often.
pub(crate) const SIGN_EVERY: Duration = Duration::from_secs(1);

/// A node that has shown that it works may then be silent for so long.
const SILENCE: Duration = Duration::from_secs(4);

/// The source of one document.
pub(crate) struct FleetOrigin {
    asking: Arc<Asking>,
    origin: Arc<dyn Origin>,
    /// Number of the origin in the table of outages.
    number: u64,
}

impl FleetOrigin {
    /// Makes the source of what `origin` has, by this plan.
    pub fn new(asking: Arc<Asking>, origin: Arc<dyn Origin>, number: u64) -> FleetOrigin {
        FleetOrigin { asking, origin, number }
    }

    /// Fetches from the origin. Other nodes are asked to fetch while there is no connection to it,
    /// once connecting has failed, and first of all where it has failed repeatedly.
    async fn fetch(&self, with: Connector<'_>, mut request: Outgoing<'_>) -> Answer {
        let (asking, origin) = (&self.asking, self.origin.clone());
        let permit = asking.node().permit_origin(self.number);
        if permit == Permit::No {
            if let Some(response) = self.ask_substitutes(with, &mut request).await {
                return Ok(response);
            }
            if asking.is_for_peer() {
                let cause = "it could not be reached lately".to_owned();
                return Err(Failure::Failed(Reason::Connect, cause));
            }
            return origin.send(with, request).await;
        }
        let mut question = without_request(&request);
        let (attempts, trail) = (Attempts::default(), request.trail);
        let tried = Tried { origin: self, permit, attempts: &attempts, trail, ended: false };
        let mut own = pin!(origin.send(with, Outgoing { trail: Some(&attempts), ..request }));
        let early = self.while_reachable(with, own.as_mut(), &attempts).await;
        let mut others = pin!(self.ask_substitutes(with, &mut question));
        let answer = match early {
            Some(answer) => answer,
            None => tokio::select! {
                answer = own.as_mut() => answer,
                response = others.as_mut() => {
                    let answer = match response {
                        Some(response) => {
                            tried.end(false);
                            return Ok(response);
                        }
                        None => own.await,
                    };
                    tried.end(!is_of_connection(&answer));
                    return answer;
                }
            },
        };
        let is_reached = !is_of_connection(&answer);
        tried.end(is_reached);
        match answer {
            Err(failure) if !is_reached => {
                // They have had as long already; no other is waited for as long again.
                let others = timeout(asking.node().patience(), others).await;
                others.ok().flatten().ok_or(failure)
            }
            answer => answer,
        }
    }

    /// Returns the answer of the origin. `None` if there is no connection to it: none comes about
    /// within the patience for a node, neither for the request nor, where that waits on a
    /// connection that was open before, for a trial.
    async fn while_reachable(
        &self,
        with: Connector<'_>,
        mut own: Pin<&mut impl Future<Output = Answer>>,
        attempts: &Attempts,
    ) -> Option<Answer> {
        let node = self.asking.node();
        let begun = node.now();
        if let Ok(answer) = timeout(node.patience(), own.as_mut()).await {
            return Some(answer);
        }
        if !node.reached_since(self.number, begun) {
            let is_reachable = async { attempts.had_connection() && self.dial(with).await };
            tokio::select! {
                answer = own.as_mut() => return Some(answer),
                is_reachable = is_reachable => match is_reachable {
                    true => node.note_reached(self.number),
                    false => return None,
                },
            }
        }
        Some(own.await)
    }

    /// Returns whether a connection to one of the origin's servers comes about in time.
    async fn dial(&self, with: Connector<'_>) -> bool {
        let Connector { upstream, limits, check } = with;
        let dialling = async {
            for endpoint in (0..).map_while(|number| self.origin.endpoint(number)) {
                let is_socket = matches!(endpoint.at, At::Unix(_));
                if is_socket || upstream.dial(endpoint, limits, check).await.is_ok() {
                    return true;
                }
            }
            false
        };
        timeout(self.asking.node().patience(), dialling).await.unwrap_or(false)
    }

    /// Asks the nodes that may fetch in place of this one. `None`: none has an answer.
    async fn ask_substitutes(
        &self,
        with: Connector<'_>,
        question: &mut Outgoing<'_>,
    ) -> Option<Response<OriginBody>> {
        for ask in self.asking.substitutes() {
            if let Some(response) = self.ask(&ask, with, question).await {
                return Some(response);
            }
        }
        None
    }

    /// Asks one node, with the digest of the purges here, and again with all of them if it does not
    /// know the digest. `None`: it has no answer.
    async fn ask(
        &self,
        ask: &Ask,
        with: Connector<'_>,
        outgoing: &mut Outgoing<'_>,
    ) -> Option<Response<OriginBody>> {
        // Asked before the purges are read: one that is made here in between is among them.
        if !self.asking.node().purges().may_ask() {
            return None;
        }
        let told = self.asking.node().purges().told();
        match self.ask_with(ask, with, outgoing, &told.digest).await {
            Err(DigestUnknown) => {
                let again = self.ask_with(ask, with, outgoing, &told.vector);
                Box::pin(again).await.ok().flatten()
            }
            Ok(response) => response,
        }
    }

    async fn ask_with(
        &self,
        ask: &Ask,
        with: Connector<'_>,
        outgoing: &mut Outgoing<'_>,
        purges: &HeaderValue,
    ) -> Result<Option<Response<OriginBody>>, DigestUnknown> {
        let node = self.asking.node();
        let Some((peer, permit)) = node.permit(&ask.member) else { return Ok(None) };
        let guard = Asked { asking: &self.asking, ask, permit, ended: false };
        let signs = Arc::<Informational>::default();
        // A request with a body cannot be made again; it goes to its origin.
        let Some(again) = outgoing.again else { return Ok(None) };
        let make = || self.question(ask, (peer.protocol, purges), again());
        let request = outgoing.request.take().unwrap_or_else(again);
        let connector =
            Connector { upstream: with.upstream, limits: node.limits(), check: &|_| true };
        let question = Outgoing {
            request: Some(self.question(ask, (peer.protocol, purges), request)),
            interim: Some(&signs),
            again: Some(&make),
            idempotent: true,
            ..without_request(outgoing)
        };
        let sending = peer.endpoint.clone().send(connector, question);
        let told = outgoing.interim;
        let begun = node.now();
        let patience = match permit {
            Permit::Try => PATIENCE_MAX.max(node.patience()),
            _ => peer.patience(node.patience()),
        };
        let first_sign = Cell::new(None);
        let answer = while_it_works(sending, &signs, patience, |status, fields| {
            first_sign.set(first_sign.get().or(Some(node.now())));
            if status != StatusCode::PROCESSING
                && let Some(told) = told
            {
                told.receive(status, fields);
            }
        });
        let answer = answer.await;
        if !matches!(answer, Some(Err(_))) {
            peer.note_time(first_sign.get().unwrap_or(node.now()).saturating_sub(begun));
        }
        let mut response = match answer {
            Some(Ok(response)) => response,
            Some(Err(_)) | None => {
                guard.end(false);
                peer.tally.count(Told::Failed);
                return Ok(None);
            }
        };
        guard.end(true);
        if response.headers_mut().remove(PURGES).is_some_and(|told| told == DIGEST_UNKNOWN) {
            response.body_mut().take_whole();
            return Err(DigestUnknown);
        }
        let Some(reply) = self.reply(ask, &peer.tally, response.headers_mut()) else {
            // A short text, after which the connection can be used again.
            response.body_mut().take_whole();
            return Ok(None);
        };
        response
            .extensions_mut()
            .insert(FromPeer { hit: reply == Reply::Hit, is_continued: false });
        Ok(Some(response))
    }

    /// Takes what a response says of itself out of its fields, and notes what follows from it.
    /// Returns `None` if it is no answer.
    fn reply(&self, ask: &Ask, tally: &Tally, fields: &mut HeaderMap) -> Option<Reply> {
        let (node, key) = (self.asking.node(), self.asking.about.key);
        let owners = take_owners(fields);
        let reply = Reply::take(fields);
        tally.count(match reply {
            Reply::Hit => Told::Hit,
            Reply::Fetched => Told::Fetched,
            Reply::None => Told::Absent,
        });
        match reply {
            Reply::None if ask.role == Role::Holder => node.forget_holder(key, &ask.member),
            Reply::Hit | Reply::Fetched if ask.role == Role::Owner => {
                node.note_told_owners(key, owners);
            }
            _ => {}
        }
        (reply != Reply::None).then_some(reply)
    }

    /// Makes the request that the origin would get a question.
    fn question(
        &self,
        ask: &Ask,
        (protocol, purges): (u16, &HeaderValue),
        mut request: Box<Request<OutBody>>,
    ) -> Box<Request<OutBody>> {
        let (node, about) = (self.asking.node(), &self.asking.about);
        // Its signs are another's than the origin's would be: the connection to a node tells them.
        request.extensions_mut().clear();
        if let Some(uri) = &about.uri {
            *request.uri_mut() = uri.clone();
        }
        let fields = request.headers_mut();
        fields.insert(header::HOST, about.authority.clone());
        fields.insert(FLEET, Question::of(ask, node.id(), about).value(protocol));
        fields.insert(PURGES, purges.clone());
        request
    }
}

/// The node that was asked does not know the purges here by their digest.
struct DigestUnknown;

/// Result of a request to an origin.
type Answer = Result<Response<OriginBody>, Failure>;

fn is_of_connection(answer: &Answer) -> bool {
    answer.as_ref().is_err_and(Failure::is_of_connection)
}

/// Returns what questions to other nodes are made from.
fn without_request<'a>(of: &Outgoing<'a>) -> Outgoing<'a> {
    Outgoing {
        request: None,
        spellings: of.spellings.clone(),
        progress: None,
        interim: of.interim,
        again: of.again,
        idempotent: of.idempotent,
        rewrite_host: false,
        reuse_only: false,
        place: "",
        pinned: None,
        store_max: 0,
        upgrade: None,
        trail: of.trail,
        next_server: of.next_server,
    }
}

/// A request to the origin whose end is told to the breaker, however it ends.
struct Tried<'a> {
    origin: &'a FleetOrigin,
    permit: Permit,
    attempts: &'a Attempts,
    trail: Option<&'a Attempts>,
    ended: bool,
}

impl Tried<'_> {
    fn end(mut self, had_connection: bool) {
        self.ended = true;
        let FleetOrigin { asking, number, .. } = self.origin;
        asking.node().note_origin(*number, self.permit, had_connection);
    }
}

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        if let Some(trail) = self.trail {
            trail.append(self.attempts);
        }
        if !self.ended && self.permit == Permit::Try {
            self.origin.asking.node().note_origin(self.origin.number, self.permit, false);
        }
    }
}

/// A question whose end is told to the breaker, however it ends.
struct Asked<'a> {
    asking: &'a Asking,
    ask: &'a Ask,
    permit: Permit,
    ended: bool,
}

impl Asked<'_> {
    fn end(mut self, well: bool) {
        self.ended = true;
        match well {
            true => self.asking.node().succeeded(&self.ask.member, self.permit),
            false => self.asking.node().failed(&self.ask.member, self.permit),
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        // Taken back by who asked: it says nothing of the node, unless it was being tried.
        if !self.ended && self.permit == Permit::Try {
            self.asking.node().failed(&self.ask.member, self.permit);
        }
    }
}

/// Waits for an answer while its node shows that it works on it: first for `patience`, then for
/// [`SILENCE`] after each sign, which goes to `tell`.
async fn while_it_works<T>(
    answer: impl Future<Output = T>,
    signs: &Informational,
    patience: Duration,
    tell: impl Fn(StatusCode, &HeaderMap),
) -> Option<T> {
    let mut answer = pin!(answer);
    let mut silent = pin!(sleep(patience));
    poll_fn(|cx| {
        if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
            return Poll::Ready(Some(answer));
        }
        while let Poll::Ready(sign) = signs.poll_head(cx) {
            silent.set(sleep(SILENCE));
            tell(sign.status(), sign.headers());
        }
        silent.as_mut().poll(cx).map(|()| None)
    })
    .await
}

impl Origin for FleetOrigin {
    fn send<'a>(self: Arc<Self>, with: Connector<'a>, mut request: Outgoing<'a>) -> Sending<'a> {
        Box::pin(async move {
            let memories_only = self.asking.memories_only();
            for (number, ask) in self.asking.unanswered() {
                if memories_only && ask.reach != Reach::Memory {
                    continue;
                }
                if let Some(response) = self.ask(ask, with, &mut request).await {
                    self.asking.note_answered(number);
                    self.asking.note_document(&response);
                    return Ok(response);
                }
                // The next owner of the document has it from the nodes that pass by this one.
                if ask.reach == Reach::Origin
                    && self.asking.node().avoided().contains(&ask.member)
                    && let Some(response) = Box::pin(self.ask_substitutes(with, &mut request)).await
                {
                    return Ok(response);
                }
            }
            if memories_only {
                let cause = "no node that was asked has it in memory".to_owned();
                return Err(Failure::Failed(Reason::UpstreamBusy, cause));
            }
            let sent = match self.origin.endpoint(0) {
                Some(_) => Box::pin(self.fetch(with, request)).await,
                None => self.origin.clone().send(with, request).await,
            };
            sent.inspect(|response| self.asking.note_document(response))
        })
    }

    fn endpoint(&self, number: usize) -> Option<&Endpoint> {
        self.origin.endpoint(number)
    }

    fn voucher(&self) -> Option<&dyn Voucher> {
        self.origin.voucher()
    }
}

impl fmt::Debug for FleetOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.origin.fmt(f)
    }
}

impl fmt::Display for FleetOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.origin, f)
    }
}
