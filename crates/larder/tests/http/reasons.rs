//! Reasons why Larder differs from widely used proxies, by script. A difference in a script that is
//! not listed fails ([`crate::peers`]).

/// Name of a script, and the reason.
pub type Reasons = &'static [(&'static str, &'static str)];

pub const NGINX: Reasons = &[
    ("age", "it reads no Age and no Date and sends no Age: an answer would live twice as long"),
    ("cache-status", "RFC 9211 is unknown to it"),
    ("conditional", "it drops conditions on what is not stored and answers If-Match by itself"),
    ("errors", "RFC 9209 is unknown to it"),
    ("freshness", "it makes no guesses"),
    ("head", "it fetches a HEAD as GET, and a GET with the condition of a HEAD"),
    ("hops", "it writes no Via, leaves fields of one hop, passes no 1xx answers and no trailers"),
    ("invalidation", "an unsafe method leaves what it has stored"),
    ("partial", "it asks for wholes only, and stores a part that comes unasked as if it were one"),
    ("request-directives", "it heeds none of them unless configured to"),
    ("stale", "its configuration alone decides; the directives of origin and client do not"),
    (
        "storing",
        "it stores nothing with Set-Cookie, nothing of a POST and no trailers, and shares \
         answers to Authorization",
    ),
    ("targeted", "RFC 9213 is unknown to it"),
    (
        "validation",
        "it stores nothing that is stale at once; a 304 renews its lifetime and none of the \
         stored fields",
    ),
    (
        "vary",
        "it compares values byte by byte, keeps one set of fields for all answers, and asks \
         about no other variant",
    ),
];

pub const VARNISH: Reasons = &[
    ("age", "it looks at no Date, and reads an odd Age as zero freshness"),
    ("cache-status", "RFC 9211 is unknown to it"),
    (
        "conditional",
        "a list of tags is compared as one text; conditions on what is not stored go no further",
    ),
    ("errors", "RFC 9209 is unknown to it; its error is 503"),
    ("freshness", "it makes no guesses"),
    ("head", "it fetches a HEAD as GET, lets it change nothing, and cuts ranges for it"),
    ("hops", "it speaks of no Via to the origin, knows no 1xx answers, leaves fields of one hop"),
    ("invalidation", "an unsafe method leaves what it has stored"),
    ("partial", "it asks for wholes only, and takes a part that comes unasked for an error"),
    ("request-directives", "it heeds none of them unless told to in its language"),
    ("stale", "its grace of 10 seconds decides; the directives of origin and client do not"),
    (
        "storing",
        "it stores nothing with Cookie, Set-Cookie or Authorization, whatever the origin \
         says, nothing of a POST and no trailers",
    ),
    ("targeted", "RFC 9213 is unknown to it"),
    (
        "validation",
        "within its grace it answers with what is stale and asks behind; it stores nothing \
         that is stale at once",
    ),
    (
        "vary",
        "it compares values byte by byte, takes an asterisk for a name, and asks about no \
         other variant",
    ),
];

pub const SQUID: Reasons = &[
    ("age", "it asks with a condition where the stored answer has no validator of the origin's"),
    ("cache-status", "of RFC 9211 it writes its own members only"),
    ("conditional", "its 304 leaves fields out; conditions on what is stale are not judged by us"),
    ("errors", "RFC 9209 is unknown to it"),
    ("freshness", "it makes a condition of the time of receipt, also without a Last-Modified"),
    (
        "head",
        "an answer to a HEAD does not touch what is stored, and is not stored unless as that \
         of a GET",
    ),
    ("hops", "1xx answers lose their fields and trailers are dropped"),
    ("invalidation", "a relative Location is not resolved"),
    ("partial", "parts are neither kept nor combined, and it asks for no part by itself"),
    ("request-directives", "it validates with a condition of its own where we fetch anew"),
    ("stale", "it serves nothing stale for an origin that is gone, unless configured to"),
    (
        "storing",
        "it stores no answer with no-cache=\"field\" or private=\"field\", nothing of a POST \
         and no trailers",
    ),
    ("targeted", "RFC 9213 is unknown to it"),
    (
        "validation",
        "weak tags are not asked for, and a 304 may change what belongs to the stored bytes",
    ),
    (
        "vary",
        "it compares values byte by byte, keeps one set of fields for all answers, and asks \
         about no other variant",
    ),
];

pub const TRAFFIC_SERVER: Reasons = &[
    ("age", "what stands behind an Age spoils it; one too long does not"),
    ("cache-status", "RFC 9211 is unknown to it"),
    ("conditional", "If-Match is answered from what is stored; lines are not joined"),
    ("errors", "RFC 9209 is unknown to it"),
    ("freshness", "dates are read loosely"),
    ("head", "an answer to a HEAD does not touch what is stored, and is not stored"),
    ("hops", "what Connection names goes on, 1xx answers end a request, trailers are dropped"),
    ("invalidation", "PATCH, unknown methods and Location leave what is stored"),
    ("partial", "parts are neither kept nor combined, and it asks for no part by itself"),
    ("request-directives", "those of clients are ignored unless configured otherwise"),
    ("stale", "it serves what is stale also against no-cache; no outcome can be read off"),
    (
        "storing",
        "Authorization and no-store of a request do not keep its answer out; nothing of a \
         POST is stored",
    ),
    ("targeted", "RFC 9213 is unknown to it"),
    ("validation", "weak tags become strong, a 304 changes what belongs to stored bytes"),
    (
        "vary",
        "values are compared without regard to case, the lines of a Vary not joined, and it \
         asks about no other variant",
    ),
];
