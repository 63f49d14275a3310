//! Answers what other nodes of the fleet ask: a request for a document, which one of their clients
//! began, as the origin would get it.
//!
//! It promises: only connections between nodes lead here; a node that lags behind in purges says so
//! and answers nothing; a question that travelled too far, or that this node would file under
//! another key, is refused, and who asked goes to the origin.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use fleet::class::{DocumentFacts, Lookup};
use fleet::lookup::{MAX_HOPS, Reach};
use fleet::{KeyHash, Protocols, PurgePositions};
use http::header::HeaderValue;
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Limited};
use message::request_body::RequestBody;
use net::address;
use semantics::Identity;
use tokio::time::{sleep, timeout};

use crate::client::handle::Client;
use crate::fleet_control::answers;
use crate::fleet_control::message::HELLO;
use crate::get::cache_request;
use crate::observe::outcome::{Error, Invalid, Outcome};
use crate::options::Options;
use crate::peers::node::Node;
use crate::peers::origin::SIGN_EVERY;
use crate::peers::question::{FLEET, NotUnderstood, OWNERS, PURGES, Question, of_protocol};
use crate::request::context::RequestContext;
use crate::request::target;
use crate::response::error_response;
use crate::response::response_body::ResponseBody;
use crate::response::transaction::Transaction;
use crate::rules::request_rules;
use crate::rules::request_rules::Rule;
use crate::services::Services;

/// After so long without an answer the first sign of work is sent: most answers come before.
const FIRST_SIGN: std::time::Duration = std::time::Duration::from_millis(20);

/// Bytes of what another node tells at most: the positions in the logs of as many members as there
/// may be. What it is told may be longer.
const MESSAGE_MAX: usize = 1 << 20;

/// Answers a question of another node. What it does not understand becomes an answer, too.
pub(crate) async fn answer(
    services: &Rc<Services>,
    client: &Rc<Client>,
    options: &Arc<Options>,
    request: Request<RequestBody>,
) -> Response<ResponseBody> {
    if request.method() == Method::POST {
        return control(services, client, request).await;
    }
    let (mut parts, _body) = request.into_parts();
    let node = services.shared.node.as_ref();
    let understood = node.map_or(Protocols::OWN, |node| node.protocols());
    let question = Question::take(&mut parts.headers, understood);
    let scheme = question.as_ref().map_or(message::scheme::Scheme::Http, |asked| asked.scheme);
    let transaction = Transaction::open(services, client, &parts, scheme);
    let mut response = match (&services.shared.node, question) {
        (Some(node), Ok(question)) => {
            let _busy = node.busy();
            let asked = Asked { services, client, options, node };
            let answering = asked.answer(&mut parts, question, transaction);
            Box::pin(with_signs(client, answering)).await
        }
        (None, _) => refuse(transaction, StatusCode::NOT_FOUND, "This is no node of a fleet."),
        (Some(_), Err(why)) => refuse(transaction, StatusCode::BAD_REQUEST, &why.to_string()),
    };
    let outcome = response.body().outcome().map_or("".into(), Outcome::text);
    let outcome = HeaderValue::try_from(&*outcome).unwrap_or(HeaderValue::from_static(""));
    response.headers_mut().insert(FLEET, outcome);
    response
}

/// Answers what another node tells, or asks besides documents.
async fn control(
    services: &Rc<Services>,
    client: &Rc<Client>,
    request: Request<RequestBody>,
) -> Response<ResponseBody> {
    let (parts, body) = request.into_parts();
    let scheme = message::scheme::Scheme::Http;
    let transaction = Transaction::open(services, client, &parts, scheme);
    let Some(node) = &services.shared.node else {
        return refuse(transaction, StatusCode::NOT_FOUND, "This is no node of a fleet.");
    };
    let text = parts.headers.get(FLEET).and_then(|value| value.to_str().ok());
    let is_understood = text.is_some_and(|text| of_protocol(text, node.protocols()).is_some());
    if !is_understood && parts.uri.path() != HELLO {
        let why = NotUnderstood(node.protocols()).to_string();
        return refuse(transaction, StatusCode::BAD_REQUEST, &why);
    }
    let read = timeout(SIGN_EVERY * 5, Limited::new(body, MESSAGE_MAX).collect()).await;
    let body = match read {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) | Err(_) => {
            return refuse(transaction, StatusCode::BAD_REQUEST, "The message did not come whole.");
        }
    };
    let answer = Box::pin(answers::answer(services, node, parts.uri.path(), &body)).await;
    let (status, body) = match answer {
        Ok(answer) => (StatusCode::OK, answer),
        Err(why) => (StatusCode::UNPROCESSABLE_ENTITY, format!("{why}\n")),
    };
    error_response::with_type(transaction, status, Outcome::Fleet, "application/json", body.into())
}

/// A question that is understood.
struct Asked<'a> {
    services: &'a Rc<Services>,
    client: &'a Rc<Client>,
    options: &'a Arc<Options>,
    node: &'a Arc<Node>,
}

impl Asked<'_> {
    async fn answer(
        &self,
        parts: &mut Parts,
        question: Question,
        transaction: Transaction,
    ) -> Response<ResponseBody> {
        let positions = parts.headers.remove(PURGES);
        if !self.is_up_to_date(positions.as_ref()) {
            return refuse(transaction, StatusCode::CONFLICT, "This node has missed purges.");
        }
        if question.hops == 0 || question.hops > MAX_HOPS {
            return refuse(transaction, StatusCode::LOOP_DETECTED, "It came over too many nodes.");
        }
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            return refuse(transaction, StatusCode::METHOD_NOT_ALLOWED, "Nodes ask with GET.");
        }
        name_whole_url(parts, &question);
        let rule = match question.rule.as_deref().map(|name| self.options.rules.named(name)) {
            None => None,
            Some(Some(rule)) => Some(rule.clone()),
            Some(None) => return refuse(transaction, StatusCode::CONFLICT, "No such rule here."),
        };
        let identity = self.prepare(parts, rule.as_deref());
        let parts = &*parts;
        let target = match target::target(parts, &self.options.front, question.scheme) {
            Ok(target) => target,
            Err(refused) => return refuse(transaction, refused.status, refused.text),
        };
        let (key, (services, client)) = (question.key, (self.services, self.client));
        let is_whole = question.reach == Reach::Origin;
        let context = RequestContext::new(
            services,
            client,
            self.options,
            parts,
            target,
            (rule, identity),
            None,
        )
        .with_question(question);
        let primary = context.url().and_then(|url| context.key(&url));
        let Some(primary) = primary.filter(|primary| self.node.hash(primary.as_bytes()) == key)
        else {
            let text = "This node files it under another key: the configurations differ.";
            return refuse(transaction, StatusCode::CONFLICT, text);
        };
        let Some(store) = context.store() else {
            return refuse(transaction, StatusCode::SERVICE_UNAVAILABLE, "There is no cache here.");
        };
        let owners = if is_whole { self.node.note_asked(key) } else { 1 };
        let mut response =
            cache_request::answer(&context, &store, &primary, transaction, RequestBody::Empty)
                .await;
        // What an origin says of it means nothing.
        response.headers_mut().remove(OWNERS);
        if owners > 1 {
            response.headers_mut().insert(OWNERS, HeaderValue::from(owners));
        }
        self.note_holder(&context, key, &response);
        response
    }

    /// Names the rule in a request that the asking node has prepared by it, where the rule is part
    /// of the key. Returns the identity of the node's client: fields that the rule sets are the
    /// proxy's.
    fn prepare(&self, parts: &mut Parts, rule: Option<&Rule>) -> Identity {
        request_rules::distrust(&mut parts.headers);
        let settings = rule.map_or(&self.options.semantics, |rule| &rule.settings);
        let identity = Identity::of(&parts.headers, settings);
        match rule {
            None => identity,
            Some(rule) => {
                rule.mark(&mut parts.headers);
                identity.without(|name| rule.sets(name))
            }
        }
    }

    /// Notes that the asking node has a copy in memory now, if its class has it keep one.
    fn note_holder(
        &self,
        context: &RequestContext<'_>,
        key: KeyHash,
        response: &Response<ResponseBody>,
    ) {
        let Some(question) = &context.question else { return };
        let host = address::bare(context.target.place().0);
        let policy = self.node.policy(&DocumentFacts { host, ..DocumentFacts::default() });
        let is_answer = response.status() == StatusCode::OK && question.reach == Reach::Origin;
        if is_answer && policy.lookup == Lookup::Cooperate && policy.copies.at_reader() {
            self.node.note_holder(key, &question.from);
        }
    }

    /// Returns whether this node has carried out all purges that the asking one knows of.
    fn is_up_to_date(&self, theirs: Option<&HeaderValue>) -> bool {
        let own = self.node.positions();
        let Some(theirs) = theirs else { return false };
        if *theirs == own.value {
            return true;
        }
        let theirs = theirs.to_str().ok().and_then(|text| text.parse::<PurgePositions>().ok());
        let Some(theirs) = theirs else { return false };
        self.node.purges().learn(&theirs, self.node.now());
        own.positions.cover(&theirs)
    }
}

/// Names the whole URL in the request line, with the scheme that the client asked with: that of the
/// connection between the nodes says nothing of it.
fn name_whole_url(parts: &mut Parts, question: &Question) {
    let authority = match parts.uri.authority() {
        Some(authority) => Some(authority.clone()),
        None => {
            let host = parts.headers.get(header::HOST);
            host.and_then(|host| Authority::try_from(host.as_bytes()).ok())
        }
    };
    let path = parts.uri.path_and_query().cloned();
    let uri = authority.and_then(|authority| {
        Uri::builder()
            .scheme(question.scheme.name())
            .authority(authority)
            .path_and_query(path.unwrap_or(PathAndQuery::from_static("/")))
            .build()
            .ok()
    });
    uri.into_iter().for_each(|uri| parts.uri = uri);
}

/// Waits for an answer, and meanwhile lets the asking node see that this one is at work.
async fn with_signs<T>(peer: &Client, answer: impl Future<Output = T>) -> T {
    let mut answer = pin!(answer);
    let mut sign = pin!(sleep(FIRST_SIGN));
    poll_fn(|cx| {
        if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
            return Poll::Ready(answer);
        }
        while sign.as_mut().poll(cx).is_ready() {
            let mut processing = Response::new(());
            *processing.status_mut() = StatusCode::PROCESSING;
            peer.inform(processing);
            sign.set(sleep(SIGN_EVERY));
        }
        Poll::Pending
    })
    .await
}

/// Refuses a question: who asked goes elsewhere.
fn refuse(transaction: Transaction, status: StatusCode, why: &str) -> Response<ResponseBody> {
    let outcome = match status {
        StatusCode::SERVICE_UNAVAILABLE => Outcome::Error(Error::Draining),
        StatusCode::LOOP_DETECTED => Outcome::Error(Error::Loop),
        _ => Outcome::Invalid(Invalid::Misdirected),
    };
    log::debug!("a question of another node is refused: {why}");
    error_response::plain(transaction, status, outcome, format!("{why}\n"))
}
