//! Answers questions of other fleet nodes. A question is a client's request for an object, in the
//! form in which the origin would get it.
//!
//! Only connections between nodes reach this code. The node refuses a question if it has missed
//! purges that the asking node knows of, if the question has passed too many nodes, or if it would
//! store the object under another key. The asking node then turns to the origin.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use fleet::class::LookupStep;
use fleet::lookup::{MAX_HOPS, Reach};
use fleet::{KeyHash, Protocols};
use http::header::HeaderValue;
use http::{Method, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use http1::{RequestHead, RequestTarget};
use net::address;
use semantics::{EditFields, Fields, Identity, value};
use store::{Key, Retention};
use tokio::time::{sleep, timeout};
use upstream::message::request_body::RequestBody;

use crate::client::handle::Client;
use crate::client::pool::Pooled;
use crate::fleet_control::answers;
use crate::fleet_control::message::HELLO;
use crate::get::{cache_request, cached};
use crate::object::store::Store;
use crate::observe::outcome::{Error, Invalid, Outcome};
use crate::options::Options;
use crate::peers::node::Node;
use crate::peers::origin::SIGN_EVERY;
use crate::peers::question::{
    DIGEST_UNKNOWN, FLEET, NotUnderstood, OWNERS, PURGES, Question, of_protocol,
};
use crate::request::context::RequestContext;
use crate::request::negotiated::Negotiated;
use crate::request::prepare::Prepared;
use crate::request::request_values::Requester;
use crate::request::target;
use crate::request::target::TargetPlace;
use crate::response::error_response;
use crate::response::pass_through::relay;
use crate::response::response_body::ResponseBody;
use crate::response::stored_fields;
use crate::response::transaction::Transaction;
use crate::rules::classes::ClassValues;
use crate::rules::request_rules;
use crate::rules::request_rules::Rule;
use crate::services::Services;

/// Delay before the first 102 response, which tells the asking node that this one is working. Most
/// responses are faster.
const FIRST_SIGN: std::time::Duration = std::time::Duration::from_millis(20);

/// Maximum size of a control message in bytes: enough for the purges that a node is told at once.
const MESSAGE_MAX: usize = 1 << 20;

/// Answers a question of another node. A question that cannot be parsed gets an error response.
pub(crate) async fn answer(
    services: &Rc<Services>,
    client: &Rc<Client>,
    options: &Arc<Options>,
    mut head: Pooled<RequestHead>,
    body: RequestBody,
) -> Response<ResponseBody> {
    if head.method == Method::POST {
        return control(services, client, &head, body).await;
    }
    let node = services.shared.node.as_ref();
    let understood = node.map_or(Protocols::OWN, |node| node.protocols());
    let question = Question::take(&mut head.fields, understood);
    let scheme =
        question.as_ref().map_or(crate::message::scheme::Scheme::Http, |asked| asked.scheme);
    let asking_client = question.as_ref().ok().map(|asked| client.on_behalf_of(asked.client));
    let client = asking_client.as_ref().unwrap_or(client);
    let from = Requester::at(client.address, &options.forwarded);
    let logged = services.observer.log_format().map(|format| (format, from));
    let transaction = Transaction::open(services, client, &head, scheme, logged);
    let mut response = match (&services.shared.node, question) {
        (Some(node), Ok(question)) => {
            let _busy = node.busy();
            let asked = ParsedQuestion { services, client, options, node };
            match asked.at_once(head, question, transaction) {
                Ok(response) => response,
                Err(valid) => {
                    let answering = Box::pin(asked.later(*valid));
                    // The 102 responses must be sent before the response.
                    relay(client, None, pin!(with_signs(client, answering))).await
                }
            }
        }
        (None, _) => refuse(transaction, StatusCode::NOT_FOUND, "This is not a node of a fleet."),
        (Some(_), Err(why)) => refuse(transaction, StatusCode::BAD_REQUEST, &why.to_string()),
    };
    let outcome = response.body().outcome().map_or("".into(), Outcome::text);
    let outcome = HeaderValue::try_from(&*outcome).unwrap_or(HeaderValue::from_static(""));
    response.headers_mut().insert(FLEET, outcome);
    response
}

async fn control(
    services: &Rc<Services>,
    client: &Rc<Client>,
    head: &RequestHead,
    body: RequestBody,
) -> Response<ResponseBody> {
    let scheme = crate::message::scheme::Scheme::Http;
    let options = services.options();
    let from = Requester::at(client.address, &options.forwarded);
    let logged = services.observer.log_format().map(|format| (format, from));
    let transaction = Transaction::open(services, client, head, scheme, logged);
    let Some(node) = &services.shared.node else {
        return refuse(transaction, StatusCode::NOT_FOUND, "This is not a node of a fleet.");
    };
    let text = head.fields.line(&FLEET).and_then(value::text);
    let is_understood = text.is_some_and(|text| of_protocol(text, node.protocols()).is_some());
    if !is_understood && head.target.path() != HELLO {
        let why = NotUnderstood(node.protocols()).to_string();
        return refuse(transaction, StatusCode::BAD_REQUEST, &why);
    }
    let read = timeout(SIGN_EVERY * 5, Limited::new(body, MESSAGE_MAX).collect()).await;
    let body = match read {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) | Err(_) => {
            return refuse(transaction, StatusCode::BAD_REQUEST, "The message is incomplete.");
        }
    };
    let answer = Box::pin(answers::answer(services, node, head.target.path(), &body)).await;
    let (status, body) = match answer {
        Ok(answer) => (StatusCode::OK, answer),
        Err(why) => (StatusCode::UNPROCESSABLE_ENTITY, format!("{why}\n")),
    };
    error_response::with_type(transaction, status, Outcome::Fleet, "application/json", body.into())
}

/// A question that this node may answer, and cannot answer at once.
struct ValidQuestion {
    context: RequestContext,
    store: Store,
    primary: Key,
    transaction: Transaction,
    key: KeyHash,
    /// Number of owners of the document.
    owners: u32,
}

/// Reason to refuse a question because of the purges that it names.
enum PurgeRefusal {
    /// This node lacks some of them.
    Missed,
    /// Their digest is not known here.
    UnknownDigest,
}

impl PurgeRefusal {
    fn respond(self, transaction: Transaction) -> Response<ResponseBody> {
        let text = match self {
            PurgeRefusal::Missed => "This node has missed purges.",
            PurgeRefusal::UnknownDigest => "This node does not know these purges by their digest.",
        };
        let mut response = refuse(transaction, StatusCode::CONFLICT, text);
        if matches!(self, PurgeRefusal::UnknownDigest) {
            response.headers_mut().insert(PURGES, DIGEST_UNKNOWN);
        }
        response
    }
}

struct ParsedQuestion<'a> {
    services: &'a Rc<Services>,
    client: &'a Rc<Client>,
    options: &'a Arc<Options>,
    node: &'a Arc<Node>,
}

impl ParsedQuestion<'_> {
    /// Answers a question from memory or refuses it; otherwise returns what is left to do.
    fn at_once(
        &self,
        mut head: Pooled<RequestHead>,
        question: Question,
        transaction: Transaction,
    ) -> Result<Response<ResponseBody>, Box<ValidQuestion>> {
        if let Some(refused) = self.purge_refusal(&head) {
            return Ok(refused.respond(transaction));
        }
        head.fields.remove_lines(&PURGES);
        if question.hops == 0 || question.hops > MAX_HOPS {
            let text = "It passed too many nodes.";
            return Ok(refuse(transaction, StatusCode::LOOP_DETECTED, text));
        }
        if !matches!(head.method, Method::GET | Method::HEAD) {
            let text = "Nodes must ask with GET.";
            return Ok(refuse(transaction, StatusCode::METHOD_NOT_ALLOWED, text));
        }
        name_whole_url(&mut head, &question);
        let rule = match question.rule.as_deref().map(|name| self.options.rules.with_id(name)) {
            None => None,
            Some(Some(rule)) => Some(rule),
            Some(None) => {
                return Ok(refuse(transaction, StatusCode::CONFLICT, "No such rule here."));
            }
        };
        let classes = question.classes.as_deref().map(ClassValues::read);
        let Some(classes) = classes.unwrap_or_else(|| Some(ClassValues::default())) else {
            return Ok(refuse(transaction, StatusCode::BAD_REQUEST, "Its classes are not valid."));
        };
        let identity = self.prepare(&mut head, rule.as_deref(), &classes);
        let mut host = head.target.take_host();
        let target = match target::target(&head, &self.options.front, question.scheme) {
            Ok(target) => {
                host.push_str(target.host);
                TargetPlace::of(&target)
            }
            Err(refused) => return Ok(refuse(transaction, refused.status, refused.text)),
        };
        head.target.note_host(host);
        let (key, (services, client)) = (question.key, (self.services, self.client));
        let is_whole = question.reach == Reach::Origin;
        let negotiated = Negotiated::default();
        let prepared = Prepared { target, rule, classes, identity, negotiated };
        let options = self.options.clone();
        let context = RequestContext::new(services, client, options, head, prepared, None);
        let context = context.with_question(question);
        let primary = context.primary_key().flatten();
        let Some(primary) = primary.filter(|primary| self.node.hash(primary.as_bytes()) == key)
        else {
            let text = "This node stores it under another key: the configurations differ.";
            return Ok(refuse(transaction, StatusCode::CONFLICT, text));
        };
        let Some(store) = context.store() else {
            let text = "There is no cache here.";
            return Ok(refuse(transaction, StatusCode::SERVICE_UNAVAILABLE, text));
        };
        let owners = if is_whole { self.node.note_asked(key) } else { 1 };
        // A hit from memory leaves the object there.
        let found = match context.lookup_options(&primary).retention {
            Retention::Keep => cached::answer(&context, &store, transaction),
            Retention::Exclusive => Err(transaction),
        };
        match found {
            Ok(response) => Ok(self.finished(&context, (key, owners), response)),
            Err(transaction) => {
                Err(Box::new(ValidQuestion { context, store, primary, transaction, key, owners }))
            }
        }
    }

    /// Returns the reason to refuse a question because of purges: this node may lack some that the
    /// asking node has.
    fn purge_refusal(&self, head: &RequestHead) -> Option<PurgeRefusal> {
        let theirs = head.fields.line(&PURGES).and_then(value::text);
        match theirs.map_or(Some(false), |theirs| self.node.purges().covers(theirs)) {
            Some(true) => None,
            Some(false) => Some(PurgeRefusal::Missed),
            None => Some(PurgeRefusal::UnknownDigest),
        }
    }

    async fn later(&self, question: ValidQuestion) -> Response<ResponseBody> {
        let ValidQuestion { context, store, primary, transaction, key, owners } = question;
        let body = RequestBody::Empty;
        let response = cache_request::answer(&context, &store, &primary, transaction, body).await;
        self.finished(&context, (key, owners), response)
    }

    /// Removes fields that have no meaning in a response of an origin, adds the number of owners,
    /// and remembers the document.
    fn finished(
        &self,
        context: &RequestContext,
        (key, owners): (KeyHash, u32),
        mut response: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        if response.body().has_stored_field(&[FLEET, OWNERS, PURGES].each_ref().map(|f| f.as_str()))
        {
            let is_head = context.head.method == Method::HEAD;
            response = stored_fields::with_map(response, self.services, (is_head, true));
        }
        response.headers_mut().remove(OWNERS);
        response.headers_mut().remove(PURGES);
        if owners > 1 {
            response.headers_mut().insert(OWNERS, HeaderValue::from(owners));
        }
        self.note_answer(context, key, &response);
        response
    }

    /// Marks a request with its rule if the rule is part of the key; the asking node has already
    /// applied the rule. Returns the identity of that node's client, for which fields set by the
    /// rule do not count.
    fn prepare(
        &self,
        head: &mut RequestHead,
        rule: Option<&Rule>,
        classes: &ClassValues,
    ) -> Identity {
        request_rules::distrust(&mut head.fields);
        let settings = rule.map_or(&self.options.semantics, |rule| &rule.settings);
        let identity = Identity::of(&head.fields, settings);
        match rule {
            None => identity,
            Some(rule) => {
                rule.mark(&mut head.fields, classes);
                identity.without(|name| rule.sets(name))
            }
        }
    }

    /// Remembers the document in the answer, and that the asking node now has a copy in memory, if
    /// its class makes it keep one.
    fn note_answer(
        &self,
        context: &RequestContext,
        key: KeyHash,
        response: &Response<ResponseBody>,
    ) {
        let Some(question) = &context.question else { return };
        if response.status() != StatusCode::OK || context.head.method != Method::GET {
            return;
        }
        let size = response.body().size_hint().exact();
        let kind = response.body().stored_content_type();
        let kind = kind.or_else(|| Some(response.headers().get(header::CONTENT_TYPE)?.as_bytes()));
        let content_type = kind.and_then(|kind| std::str::from_utf8(kind).ok());
        self.node.note_document(key, size, content_type);
        let host = address::bare(context.target().place().0);
        let policy = self.node.policy(&self.node.facts(key, size, content_type, host));
        let is_whole = question.reach == Reach::Origin;
        if is_whole && policy.lookup.has(LookupStep::Peers) && policy.copies.at_reader() {
            self.node.note_holder(key, &question.from);
        }
    }
}

/// Puts the absolute URL into the request line, with the scheme that the client used. The scheme of
/// the connection between nodes is unrelated.
fn name_whole_url(head: &mut RequestHead, question: &Question) {
    let host = head.fields.line(&header::HOST).and_then(value::text);
    let Some(authority) = head.target.authority().or(host) else { return };
    let path = head.target.path_and_query();
    let mut target = RequestTarget::default();
    target.read_parts(Some(question.scheme.name()), Some(authority), path);
    head.target = target;
}

/// Waits for a response and sends 102 responses meanwhile.
async fn with_signs<T>(peer: &Client, mut answer: Pin<Box<impl Future<Output = T>>>) -> T {
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

/// Refuses a question. The asking node then turns elsewhere.
fn refuse(transaction: Transaction, status: StatusCode, why: &str) -> Response<ResponseBody> {
    let outcome = match status {
        StatusCode::SERVICE_UNAVAILABLE => Outcome::Error(Error::Draining),
        StatusCode::LOOP_DETECTED => Outcome::Error(Error::Loop),
        _ => Outcome::Invalid(Invalid::Misdirected),
    };
    log::debug!("a question of another node is refused: {why}");
    error_response::plain(transaction, status, outcome, format!("{why}\n"))
}
