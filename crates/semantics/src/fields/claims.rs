//! Claims: request fields by which a proxy in front states the host, scheme, path, client or user
//! of a request. A client can send them, too.
//!
//! A reverse proxy removes claims unless a trusted proxy sent the request and the operator's
//! `forwarded.trust-fields` names the field. Kept claims are of three kinds. Addresses and
//! users concern a single client. Any other claim may change the response for every client, so it
//! is part of the key.

use http::Method;

use crate::fields::field_names::as_variable;
use crate::fields::list;
use crate::fields::view::{EditFields, Fields};
use crate::settings::name_filter::{NameParts, WholeNames, begins_with};
use crate::settings::usual_names::UsualNames;

/// Names of claims, sorted by bytes. Some frameworks answer for another host, scheme or path if
/// such a field names one; others trust it for an address or a user. `Proxy` sets an environment
/// variable of CGI programs. `X-Now-Route-Matches` controls the router of a framework. Collected
/// from the documentation of frameworks and delivery networks, and from published lists of fields
/// that have poisoned caches.
const CLAIMS: [&str; 104] = [
    "base-url",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-ipcountry",
    "cf-pseudo-ipv4",
    "cf-visitor",
    "client-address",
    "client-ip",
    "clientaddress",
    "clientip",
    "context-path",
    "fastly-client-ip",
    "fastly-host",
    "fastly-ssl",
    "fly-client-ip",
    "forwarded",
    "forwarded-for",
    "forwarded-for-ip",
    "forwarded-host",
    "forwarded-proto",
    "front-end-https",
    "host-name",
    "http-host",
    "http-url",
    "https",
    "https-from-lb",
    "incap-client-ip",
    "orig-path-info",
    "path-info",
    "path-translated",
    "pc-remote-addr",
    "proxy",
    "proxy-client-ip",
    "proxy-host",
    "proxy-port",
    "proxy-request-fulluri",
    "proxy-url",
    "real-ip",
    "remote-addr",
    "remote-email",
    "remote-groups",
    "remote-host",
    "remote-host-wp",
    "remote-name",
    "remote-user",
    "request-uri",
    "script-name",
    "server-name",
    "server-port",
    "server-port-secure",
    "sp-host",
    "ssl-https",
    "ssl-offloaded",
    "true-client-ip",
    "unencoded-url",
    "wl-proxy-client-ip",
    "wl-proxy-ssl",
    "x-azc-remote-addr",
    "x-base-url",
    "x-cf-url",
    "x-cisco-bbsm-clientip",
    "x-client-host",
    "x-client-ip",
    "x-clientip",
    "x-cluster-client-ip",
    "x-coming-from",
    "x-custom-ip-authorization",
    "x-fb-user-remote-addr",
    "x-forward-for",
    "x-forward-host",
    "x-forward-proto",
    "x-forwarder-for",
    "x-gateway-host",
    "x-host",
    "x-http-destinationurl",
    "x-http-host",
    "x-http-host-override",
    "x-http-path-override",
    "x-https",
    "x-ip",
    "x-kaltura-remote-addr",
    "x-matched-path",
    "x-nfsn-https",
    "x-ning-request-uri",
    "x-nokia-ipaddress",
    "x-now-route-matches",
    "x-orchestra-scheme",
    "x-orig-client",
    "x-originating-ip",
    "x-proxy-url",
    "x-proxyuser-ip",
    "x-replaced-path",
    "x-request-uri",
    "x-sakura-forwarded-for",
    "x-scheme",
    "x-script-name",
    "x-server-name",
    "x-server-port",
    "x-sina-proxyuser",
    "x-ssl",
    "x-true-ip",
    "x-url-scheme",
    "x-wap-network-client-ip",
    "xxx-real-ip",
];

/// Name prefixes of further claims: families too large or open-ended to list. `X-Accel-` and
/// `X-Sendfile` are instructions from an application to the server in front of it; some
/// applications copy them from the request.
const FAMILIES: [&str; 23] = [
    "client-cert",
    "cloudfront-",
    "ssl-client",
    "x-accel-",
    "x-amzn-remapped-",
    "x-appengine-",
    "x-arr-",
    "x-auth-request-",
    "x-authenticated-",
    "x-authentik-",
    "x-azure-",
    "x-backend-",
    "x-envoy-",
    "x-forwarded",
    "x-invoke-",
    "x-middleware-",
    "x-original",
    "x-real-",
    "x-remote-",
    "x-rewrite-",
    "x-sendfile",
    "x-ssl-",
    "x-webauth-",
];

/// Name prefixes of claims that state the user or client certificate of a request.
const USERS: [&str; 20] = [
    "client-cert",
    "remote-email",
    "remote-groups",
    "remote-name",
    "remote-user",
    "ssl-client",
    "x-auth-request-",
    "x-authenticated-",
    "x-authentik-",
    "x-forwarded-access-token",
    "x-forwarded-client-cert",
    "x-forwarded-email",
    "x-forwarded-groups",
    "x-forwarded-preferred-username",
    "x-forwarded-user",
    "x-remote-extra-",
    "x-remote-group",
    "x-remote-user",
    "x-ssl-client",
    "x-webauth-",
];

/// Claims that state only the address of a client, sorted by bytes.
const ADDRESSES: [&str; 45] = [
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-pseudo-ipv4",
    "client-address",
    "client-ip",
    "clientaddress",
    "clientip",
    "cloudfront-viewer-address",
    "fastly-client-ip",
    "fly-client-ip",
    "forwarded-for",
    "forwarded-for-ip",
    "incap-client-ip",
    "pc-remote-addr",
    "proxy-client-ip",
    "real-ip",
    "remote-addr",
    "true-client-ip",
    "wl-proxy-client-ip",
    "x-appengine-user-ip",
    "x-azc-remote-addr",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-cisco-bbsm-clientip",
    "x-client-ip",
    "x-clientip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-fb-user-remote-addr",
    "x-forward-for",
    "x-forwarded-for",
    "x-forwarder-for",
    "x-ip",
    "x-kaltura-remote-addr",
    "x-nokia-ipaddress",
    "x-original-forwarded-for",
    "x-originating-ip",
    "x-proxyuser-ip",
    "x-real-ip",
    "x-remote-addr",
    "x-remote-ip",
    "x-sakura-forwarded-for",
    "x-true-ip",
    "x-wap-network-client-ip",
    "xxx-real-ip",
];

/// Fields that make an application treat a request as one with another method.
const METHODS: [&str; 7] = [
    "real-method",
    "request-method",
    "x-ajax-real-method",
    "x-http-method",
    "x-http-method-override",
    "x-method",
    "x-method-override",
];

const USUAL_CLAIMS: UsualNames = UsualNames::of(&[
    "cf-connecting-ip",
    "cf-ipcountry",
    "cf-visitor",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-real-ip",
]);

static CLAIM_FILTER: WholeNames = WholeNames::of(&CLAIMS);
static FAMILY_FILTER: NameParts = NameParts::of_beginnings(&FAMILIES);
static USER_FILTER: NameParts = NameParts::of_beginnings(&USERS);
static METHOD_FILTER: WholeNames = WholeNames::of(&METHODS);

/// Removes every claim from a request, in any spelling
/// ([`field_names`](crate::fields::field_names)), except the fields to keep: the usual names in
/// `usual`, and the others that `unusual` selects. A field is only kept under its exact name,
/// ignoring case, since a program may take another spelling for the same field.
pub fn remove_claims(
    request: &mut impl EditFields,
    usual: UsualNames,
    unusual: impl Fn(&str) -> bool,
) {
    let unkept = |name: &str| is_unusual_claim(name) && !unusual(name);
    request.remove_in(USUAL_CLAIMS.without(usual), unkept);
}

/// Returns whether a program may take the field for a claim.
pub fn is_claim(name: &str) -> bool {
    USUAL_CLAIMS.has_or(name, is_unusual_claim)
}

fn is_unusual_claim(name: &str) -> bool {
    (CLAIM_FILTER.may_have(name.as_bytes()) && is_one_of(&CLAIMS, name))
        || (FAMILY_FILTER.may_begin(name.as_bytes())
            && FAMILIES
                .iter()
                .any(|family| as_variable(name).take(family.len()).eq(family.bytes())))
}

/// Returns whether a claim states the user or client certificate of a request. `name` may be a
/// prefix: the result then holds for every field with that prefix. Case does not matter.
pub fn names_user(name: &str) -> bool {
    let name = name.as_bytes();
    USER_FILTER.may_begin(name) && USERS.iter().any(|begin| begins_with(name, begin))
}

/// Returns whether a claim states only the address of a client. `name` is in lower case.
pub fn names_address(name: &str) -> bool {
    ADDRESSES.binary_search(&name).is_ok()
}

/// Removes fields that request another method from a GET or HEAD. The response to the other method
/// would be stored and served to real GET requests.
pub fn remove_other_methods(request: &mut impl EditFields) {
    request.remove_in(UsualNames::NONE, asks_for_method);
}

/// Returns the methods that such fields of a request name.
pub fn other_methods(request: &impl Fields) -> Vec<Method> {
    let asked = request.lines_in(UsualNames::NONE, asks_for_method);
    let members = asked.flat_map(|(_, value)| list::split(value));
    members.filter_map(|member| Method::from_bytes(member).ok()).collect()
}

fn asks_for_method(name: &str) -> bool {
    METHOD_FILTER.may_have(name.as_bytes()) && is_one_of(&METHODS, name)
}

/// Returns whether a program may take the field for one of `names`, which are sorted.
fn is_one_of(names: &[&str], name: &str) -> bool {
    names.binary_search_by(|known| known.bytes().cmp(as_variable(name))).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    #[test]
    fn the_lists_are_sorted() {
        assert!(CLAIMS.is_sorted() && METHODS.is_sorted() && ADDRESSES.is_sorted());
    }

    #[test]
    fn usual_names_are_in_the_lists_that_have_them() {
        assert_eq!(UsualNames::all_in(is_unusual_claim), USUAL_CLAIMS);
        assert_eq!(UsualNames::all_in(asks_for_method), UsualNames::NONE);
        assert_eq!(UsualNames::all_in(names_user), UsualNames::NONE);
    }

    #[test]
    fn users_and_addresses_are_claims() {
        for name in USERS.iter().chain(&ADDRESSES) {
            assert!(is_claim(name), "{name}");
        }
        assert!(names_user("x-auth-request-email") && !names_user("x-forwarded-host"));
        assert!(names_address("x-real-ip") && !names_address("x-forwarded-host"));
    }

    #[test]
    fn claims_are_removed_in_every_spelling() {
        let mut request =
            headers(&["X-Real-IP: 1", "Forwarded: for=x", "X-Rewrite-URL: /x", "A: b"]);
        remove_claims(&mut request, UsualNames::NONE, |_| false);
        assert_eq!(request, headers(&["A: b"]));
        let claims = CLAIMS.iter().map(|name| (*name).to_owned());
        let families = FAMILIES.iter().map(|begin| format!("{begin}-thing"));
        let named = [
            "x-forwarded-host",
            "x-forwarded-path",
            "x-forwarded-anything",
            "x-forwarded",
            "x-real-ip",
            "x-backend-host",
            "x-backend-server",
            "x-accel-redirect",
            "x-sendfile",
            "http-url",
            "client-ip",
            "true-client-ip",
            "cf-connecting-ip",
            "fastly-client-ip",
            "x-cluster-client-ip",
            "x-proxyuser-ip",
            "x-original-url",
            "x-envoy-original-path",
            "x-remote-user",
            "x-authenticated-user",
            "x-auth-request-email",
            "x-webauth-user",
            "client-cert",
            "client-cert-chain",
            "ssl-client-verify",
            "x-ssl-client-cn",
            "x-http-host",
            "x-middleware-prefetch",
            "x-now-route-matches",
        ];
        for name in claims.chain(families).chain(named.map(str::to_owned)) {
            for name in [name.to_ascii_uppercase(), name.replace('-', "_"), name.replace('-', ".")]
            {
                let mut request = headers(&[&format!("{name}: 1"), "A: b"]);
                remove_claims(&mut request, UsualNames::NONE, |_| false);
                assert_eq!(request, headers(&["A: b"]), "{name}");
            }
        }
        let mut fine = headers(&["Host: a", "X-Request-ID: 1", "Origin: b", "User-Agent: c"]);
        remove_claims(&mut fine, UsualNames::NONE, |_| false);
        assert_eq!(fine.len(), 4);
    }

    #[test]
    fn a_kept_claim_is_kept_under_its_exact_name_alone() {
        let mut request =
            headers(&["X-Real-IP: 1", "X_Real_IP: 2", "X.Real-IP: 3", "X-IP: 4", "Forwarded: 5"]);
        let usual = UsualNames::of(&["x-real-ip"]);
        remove_claims(&mut request, usual, |name| name == "x-ip");
        assert_eq!(request, headers(&["X-Real-IP: 1", "X-IP: 4"]));
    }

    #[test]
    fn fields_that_ask_for_another_method_are_found_and_removed() {
        let mut request = headers(&["X-HTTP-Method-Override: DELETE, PUT", "x_http_method: x"]);
        let expected = [Method::DELETE, Method::PUT, "x".parse().unwrap()];
        assert_eq!(other_methods(&request), expected);
        request.insert("a", "b".parse().unwrap());
        remove_other_methods(&mut request);
        assert_eq!(request, headers(&["A: b"]));
    }
}
