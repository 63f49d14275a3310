//! Piggyback validation: after a validation, validates stale objects near the validated one in the
//! background, on connections that are already open (systems C14; Krishnamurthy and Wills; section
//! 5 of the UCFS paper would group by clusters). Off unless the operator sets a number.
//!
//! These are ordinary conditional requests, one after another. Each is the validation that the
//! first client to request the neighbour would have waited for: it keeps the stored head or brings
//! a new response, and requests that arrive meanwhile join it. Guarantees:
//!
//! * Only stale objects are validated, and only if they are stored whole, belong to the same site
//!   and front, lie in the same cluster or directory, and would be fresh again. They are in memory;
//!   if too few are, one read brings those around the validated object on the device.
//! * Of the client's own fields a request carries only `User-Agent`. The fields named by the key of
//!   the stored response select the variant; if they are personal (`Cookie`, `Authorization`),
//!   nothing is sent. Forwarding headers, where configured, name the client's address.
//! * No request exceeds the budget: a limit per validation, a rate per site, one request at a time
//!   per site and worker, no new connection.
//! * An object validated this way and not requested since is not validated this way again, whether
//!   or not the origin had a usable response.
//! * No client gets an error that it would not have got otherwise.

use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use http::header::HeaderMap;

use crate::message::scheme::Scheme;
use http::{Method, header};
use http1::RequestHead;
use semantics::reuse::Fallback;
use semantics::{
    IdentifyingFields, RequestFacts, Settings, Time, Url, VaryMarker, cache_key, meta, reuse,
};
use store::{Home, Key, Neighbour, Source};

use crate::fetch::fetch_task::{FetchPurpose, FetchTask};
use crate::fill::state::Fill;
use crate::object::key;
use crate::object::lookup;
use crate::object::stored_response::StoredResponse;
use crate::observe::event::Event;
use crate::options::Options;
use crate::origin::site::Front;
use crate::origin::target::Target;
use crate::request::prepare::{Prepared, prepare};
use crate::request::request_values::{RequestValues, Requester};
use crate::request::upstream_request::UpstreamRequest;
use crate::request::{key_check, target};
use crate::rules::access::{Query, Verdict};
use crate::rules::request_rules::Rule;
use crate::services::Services;

/// Maximum number of sites whose neighbours one worker validates at a time.
const VALIDATED_SITES_MAX: usize = 16;

/// Marks a site whose neighbours a worker validates, until dropped.
struct SiteGuard {
    services: Rc<Services>,
    site: u64,
}

impl SiteGuard {
    /// Marks the site. Returns `None` if its neighbours are being validated already, or if
    /// [`VALIDATED_SITES_MAX`] sites are marked.
    fn begin(services: &Rc<Services>, site: u64) -> Option<SiteGuard> {
        let mut validated_sites = services.validated_sites.borrow_mut();
        let free = validated_sites.len() < VALIDATED_SITES_MAX && validated_sites.insert(site);
        free.then(|| SiteGuard { services: services.clone(), site })
    }
}

impl Drop for SiteGuard {
    fn drop(&mut self) {
        self.services.validated_sites.borrow_mut().remove(&self.site);
    }
}

/// Returns whether to validate the neighbours of the object that `fetch_task` fetches.
pub(crate) fn has(fetch_task: &FetchTask) -> bool {
    most(fetch_task) > 0
        && fetch_task.stale.is_some()
        && fetch_task.purpose != FetchPurpose::Neighbour
}

fn most(fetch_task: &FetchTask) -> u8 {
    fetch_task.upstream_request.settings(&fetch_task.options).validate_neighbours
}

/// Returns the stale neighbours in memory of the object that `fetch_task` validates, nearest first.
pub(crate) fn near(fetch_task: &FetchTask) -> Vec<Key> {
    let settings = fetch_task.upstream_request.settings(&fetch_task.options);
    let (now, joinable) =
        (fetch_task.services.clock.time(), &fetch_task.services.shared.neighbours);
    let is_wanted = |neighbour: &Neighbour| {
        is_worth_it(&neighbour.meta, neighbour.outdated_since, now, settings)
            && !joinable.is_marked(neighbour.key.as_bytes())
    };
    let neighbours = fetch_task.store.neighbours(&fetch_task.key);
    neighbours.into_iter().filter(is_wanted).map(|neighbour| neighbour.key).collect()
}

/// Returns whether an object with this metadata is worth a background validation.
fn is_worth_it(meta: &[u8], outdated: Option<u64>, now: Time, settings: &Settings) -> bool {
    let outdated = outdated.map(Time::from_unix);
    meta::facts(meta)
        .is_some_and(|facts| reuse::is_worth_validating(&facts, outdated, now, settings))
}

/// Validates the keys of `near` that still need it, one after another, if the origin had a usable
/// response for the validation `of`. If too few were in memory and the object of `of` was read from
/// the device, reads the objects around it there first.
pub(crate) async fn validate_neighbours(of: &FetchTask, mut near: Vec<Key>, ended: Event) {
    if ended == Event::FillAborted {
        return;
    }
    let (services, options) = (&of.services, &of.options);
    let site = of.primary.locality().site;
    let Some(_attended) = SiteGuard::begin(services, site) else { return };
    let joinable = &services.shared.neighbours;
    let mut left = most(of);
    let from_device = of.stale.as_ref().is_some_and(|stale| stale.entry.source() == Source::Disk);
    if near.len() < usize::from(left) && from_device && ended == Event::FillValidated {
        of.store.bring_neighbours(&of.key, 2 * usize::from(left)).await;
        near = self::near(of);
    }
    for key in near {
        if left == 0 {
            return;
        }
        let Some(question) = NeighbourValidation::about(&key, of) else { continue };
        if !joinable.take(site, options.fill.neighbour_rate, services.clock.instant()) {
            return;
        }
        let Some(mut fetch_task) = question.ask(of) else { continue };
        left -= 1;
        joinable.mark(key.as_bytes());
        let event = match fetch_task.fetch().await {
            Event::FillValidated => Event::NeighbourValidated,
            Event::FillStored => Event::NeighbourReplaced,
            _ => Event::NeighbourUnchanged,
        };
        services.observer.count(event, 1);
    }
}

struct NeighbourValidation {
    key: Key,
    primary: Key,
    marker: Option<VaryMarker>,
    stored: Rc<StoredResponse>,
    upstream_request: UpstreamRequest,
    /// Fields by which the origin would select a variant.
    request: HeaderMap,
    facts: RequestFacts,
    fallback: Fallback,
}

impl NeighbourValidation {
    /// Returns the validation of the object in memory under `key`, on behalf of the client whose
    /// request began `of`. Returns `None` if it is not needed or not permitted, or if the original
    /// request cannot be repeated.
    fn about(key: &Key, of: &FetchTask) -> Option<NeighbourValidation> {
        let options = &of.options;
        let name = cache_key::describe(key.as_bytes())?;
        let url = Url::parse(name.url).ok().filter(|_| name.spelled.is_none())?;
        if name.front != cache_key::describe(of.key.as_bytes())?.front {
            return None;
        }
        let (primary, marker, mut fields) = selection(key, of)?;
        if !fields.contains_key(header::USER_AGENT)
            && let Some(agent) = of.upstream_request.headers.get(header::USER_AGENT)
        {
            fields.insert(header::USER_AGENT, agent.clone());
        }
        let client = of.upstream_request.client();
        let mut head = head(&url, &options.front, &fields);
        let scheme = Scheme::named(url.scheme())?;
        let scheme = target::distrust(&mut head.fields, client.ip(), scheme, options);
        let from = Requester::at(client, &options.forwarded);
        let prepared = prepare(&mut head, options, scheme, from).ok()?;
        let Prepared { target, rule, classes, identity, .. } = prepared;
        let (head, target) = (&head, target.target(&head, &options.front));
        // If the key omits query parameters, the query sent to the origin is unknown.
        let is_unknown = |rule: &Rule| {
            let is_named_whole = rule.query.is_default();
            rule.bypass
                || rule.key_path.is_some()
                || !(is_named_whole || rule.rewrites_query(&Method::GET))
        };
        if rule.as_deref().is_some_and(is_unknown) {
            return None;
        }
        let settings = rule.as_ref().map_or(&options.semantics, |rule| &rule.settings);
        let asked = target.url(&options.upstream)?;
        let same = target.site.key(&asked)? == primary
            && marker.as_ref().is_none_or(|marker| {
                key::variant_key(&primary, marker, &head.fields).as_ref() == Some(key)
            });
        if !same || settings.validate_neighbours == 0 || !may_ask(options, client, &target) {
            return None;
        }
        let stored = lookup::resident(&of.store, key, marker.clone())?;
        let entry = &stored.entry;
        if !is_worth_it(entry.meta(), entry.outdated_since(), of.services.clock.time(), settings)
            || !key_check::is_keyed_by_rule(rule.as_deref(), |name| stored.is_selected_by(name))
        {
            return None;
        }
        let site = options.origin_site(target.site, rule.as_deref());
        let mut upstream_request =
            UpstreamRequest::new(&of.services, client, options, head, &Target { site, ..target });
        upstream_request.interim = None;
        let with_classes = rule.as_deref().map(|rule| (rule, &classes));
        let values = RequestValues::new(from, head, &target, with_classes);
        upstream_request.apply_rule(rule.as_ref(), &values, &target, options);
        upstream_request.reuse_only = true;
        let (key, request) = (key.clone(), head.fields.to_map(0));
        let facts = target.site.facts(head, identity, (&options.semantics, rule.as_deref()));
        upstream_request.follow_redirects(options, head, &target, &facts);
        let fallback = Fallback::on(settings.stale_if);
        Some(NeighbourValidation {
            fallback,
            key,
            primary,
            marker,
            stored,
            upstream_request,
            request,
            facts,
        })
    }

    /// Begins the fill. Returns `None` if another request fetches the object, its response could
    /// recently not be shared, or the window budget is full.
    fn ask(self, of: &FetchTask) -> Option<FetchTask> {
        let NeighbourValidation {
            fallback,
            key,
            primary,
            marker,
            stored,
            upstream_request,
            request,
            facts,
        } = self;
        let (shared, now) = (&of.services.shared, of.services.clock.instant());
        if shared.fill_budget.is_full() || shared.fills.hit_for_miss(key.as_bytes(), now).is_some()
        {
            return None;
        }
        let share = || shared.fill_budget.share(primary.locality().site);
        let new = || Fill::new(of.store.begin_fetch(&primary), now, share());
        let (fill, began) = shared.fills.join_or_begin(key.as_bytes(), new);
        began.then(|| FetchTask {
            services: of.services.clone(),
            options: of.options.clone(),
            store: of.store.clone(),
            fill,
            key,
            primary,
            marker,
            upstream_request,
            facts,
            request,
            stale: Some(stored),
            fallback,
            ranged: false,
            asks_for_client: false,
            joinable: true,
            purpose: FetchPurpose::Neighbour,
            group: None,
            asking: None,
            home: Home::default(),
            is_driven: false,
            is_kept: true,
            handed_over: None,
        })
    }
}

/// Reads from a key how its response is selected: by the primary key, and for a variant by the
/// marker and its fields. Returns `None` if that is unknown or the fields are personal.
fn selection(key: &Key, of: &FetchTask) -> Option<(Key, Option<VaryMarker>, HeaderMap)> {
    let Some(primary) = cache_key::primary_of(key.as_bytes()) else {
        return Some((key.clone(), None, HeaderMap::new()));
    };
    let primary = Key::new(Bytes::copy_from_slice(primary), key.locality())?;
    let marker = lookup::resident_marker(&of.store, &primary)?;
    let (marker, fields) = marker.choices().find_map(|marker| {
        cache_key::selecting(key.as_bytes(), &marker).map(|fields| (marker, fields))
    })?;
    // A response selected by personal fields is for one user only, whatever the operator lists as
    // identifying.
    let (known, own) = (IdentifyingFields::default(), &of.options.semantics.identifying);
    let identifies = |name: &str| known.includes(name) || own.includes(name);
    let is_personal = marker.names().iter().any(|name| identifies(name.as_str()));
    (!is_personal).then_some((primary, Some(marker), fields))
}

/// Returns the head of a request for `url`, as a client of this front would send it.
fn head(url: &Url, front: &Front, fields: &HeaderMap) -> RequestHead {
    let mut head = RequestHead::default();
    let target = if front.takes_whole_urls() { url.as_str() } else { url.path_and_query() };
    head.target.read(target, false);
    head.fields.read_map(fields);
    head.fields.remove_all("host");
    head.fields.push("host", url.authority().as_bytes());
    head
}

/// Returns whether the access rules permit the client this request. The server's address is checked
/// when a connection is chosen.
fn may_ask(options: &Options, client: SocketAddr, target: &Target<'_>) -> bool {
    let method = &Method::GET;
    let query = Query { client: client.ip(), method, host: target.host, port: target.port };
    !matches!(options.access.before(&query), Verdict::Deny(_))
}
