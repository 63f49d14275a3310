//! Responses that a rule gives in place of the origin's.

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body::Body as _;
use semantics::{MethodClass, Url, claims};
use upstream::message::request_body::RequestBody;

use crate::observe::cache_status::CacheStatus;
use crate::observe::outcome::{Denied, Invalid, Outcome};
use crate::origin::failure::Failure;
use crate::request::context::RequestContext;
use crate::request::request_values::RequestValues;
use crate::request::server_choice::ServerChoice;
use crate::response::client_response::ClientResponse;
use crate::response::error_response;
use crate::response::failure::failed;
use crate::response::response_body::{BodySource, ResponseBody};
use crate::response::transaction::Transaction;
use crate::rules::access::Denial;
use crate::rules::request_rules::action::reply_fields;
use crate::rules::request_rules::{Actions, Reply};

/// Answers or refuses a request as its rule says. Returns the transaction if the request goes on.
pub(crate) fn answer(
    context: &RequestContext,
    actions: &Actions,
    transaction: Transaction,
    body: &RequestBody,
) -> Result<ClientResponse, Transaction> {
    let rule = told_rule(context);
    if actions.deny {
        let text = format!("This request is denied here{rule}.\n");
        return Ok(failed(transaction, Failure::Denied(Denial { reason: Denied::Rule, text })));
    }
    if matches!(context.server_choice(), ServerChoice::Refused) {
        let text = format!("Requests for this host are not passed on{rule}.\n");
        return Ok(failed(transaction, Failure::Denied(Denial { reason: Denied::Rule, text })));
    }
    let others = || match context.facts.class {
        MethodClass::Cacheable => Vec::new(),
        _ => claims::other_methods(&context.head.fields),
    };
    let is_allowed = |method: &Method| actions.allows(method);
    if !is_allowed(&context.head.method)
        || !(actions.allow_methods.is_empty() || others().iter().all(is_allowed))
    {
        let (status, outcome) = (StatusCode::METHOD_NOT_ALLOWED, Outcome::Denied(Denied::Rule));
        let text = format!("This method is not allowed here{rule}.\n");
        let mut response = error_response::plain(transaction, status, outcome, text);
        response.headers_mut().insert(header::ALLOW, actions.allow());
        return Ok(response);
    }
    if actions.max_body.is_some_and(|max| body.size_hint().lower() > max) {
        // The rest of the body is not read.
        transaction.mark_last();
        let outcome = Outcome::Invalid(Invalid::Body);
        let text = format!("The request's body is larger than permitted{rule}.\n");
        return Ok(error_response::plain(
            transaction,
            StatusCode::PAYLOAD_TOO_LARGE,
            outcome,
            text,
        ));
    }
    if actions.makes_paths() && has_dot_segments(context.target().path.text) {
        let (status, outcome) = (StatusCode::BAD_REQUEST, Outcome::Invalid(Invalid::Target));
        let text = format!("A path with dot segments is not passed on{rule}.\n");
        return Ok(error_response::plain(transaction, status, outcome, text));
    }
    match &actions.reply {
        Some(reply) => Ok(give(context, reply, transaction, body)),
        None => Err(transaction),
    }
}

/// Returns the name of the request's rule in parentheses. Clients of a reverse proxy learn nothing
/// about its configuration.
pub(crate) fn told_rule(context: &RequestContext) -> String {
    let rule = context.rule.as_ref().filter(|_| context.options.front.is_clients_choice());
    rule.map_or(String::new(), |rule| format!(" (rule {})", rule.name))
}

/// Returns whether a path has dot segments for any server, which would lead out of a prefix.
fn has_dot_segments(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default().to_ascii_lowercase();
    let path = path.replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    let bare = |segment: &str| segment.split([';', '%']).next().unwrap_or_default().to_owned();
    path.split(['/', '\\']).any(|segment| [".", ".."].contains(&bare(segment).as_str()))
}

fn give(
    context: &RequestContext,
    reply: &Reply,
    mut transaction: Transaction,
    body: &RequestBody,
) -> ClientResponse {
    if !body.is_end_stream() {
        transaction.mark_last();
    }
    let url = context.url();
    let normal = url.as_ref().map(Url::path_and_query);
    let values = RequestValues { normal, ..context.values() };
    let mut fields: HeaderMap = reply_fields(reply, &values);
    let names = context.rule.as_ref().and_then(|rule| rule.choice_names());
    names.into_iter().for_each(|names| _ = fields.insert(header::VARY, names));
    let (status, bytes) = match reply {
        Reply::Redirect(status, _) => (*status, bytes::Bytes::new()),
        Reply::Respond(status, kind, body) => {
            let bytes = body.bytes(&values);
            if !bytes.is_empty() {
                fields.insert(header::CONTENT_TYPE, kind.clone());
            }
            (*status, bytes)
        }
    };
    // Whether it may be kept is not known here; a rule may say so by `client-set`.
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    CacheStatus::new(Outcome::Reply).append_to(transaction.pseudonym(), &mut fields);
    transaction.note_answer(status, Outcome::Reply, &fields);
    let source = if bytes.is_empty() { BodySource::Empty } else { BodySource::Whole(bytes) };
    let mut response = Response::new(ResponseBody::new(source, transaction));
    *response.status_mut() = status;
    *response.headers_mut() = fields;
    response
}
