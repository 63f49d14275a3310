//! Aspects of rules that the scripts of tests/http/rules.http cannot express: background requests,
//! and what the tools report of rules.

use std::process::ExitStatus;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::address::free;
use testkit::client::{get, request};
use testkit::io::eventually;
use testkit::larder::{Larder, Setup, percent};
use testkit::origin::Origin;

/// Returns the response of `/explain` to a query.
fn explain(larder: &Larder, query: &str) -> Value {
    let target = format!("http://{}/explain?{query}", larder.admin());
    let method = if query.contains("ask=true") { "POST" } else { "GET" };
    let reply = larder.admin_send(request(method, &target).body(b""));
    assert_eq!(reply.status, 200, "{:?}", String::from_utf8_lossy(&reply.body));
    serde_json::from_slice(&reply.body).unwrap()
}

#[test]
fn what_is_popular_is_validated_before_it_expires() {
    let origin = Origin::start();
    let setup = Setup::forward().config("[caching]\nrefresh-ahead = 90\n");
    let (larder, target) = (setup.start(), "/page?cc=max-age=20&etag=1");
    larder.get(&origin.url(target)).verify(target);
    sleep(Duration::from_millis(3_100));
    // One of eight hits refreshes: a hundred hits without a refresh do not occur.
    let refreshed = eventually(|| {
        let reply = larder.get(&origin.url(target));
        reply.verify(target);
        assert_eq!(reply.outcome(), "HIT_RAM");
        origin.fetches(target) > 1
    });
    assert!(refreshed);
    let asked = origin.requests_for(target);
    assert!(asked[1].head.get("if-none-match").is_some(), "{:?}", asked[1]);
}

/// Returns the output of `larder explain` for a URL, with a request to its origin.
fn in_lines(larder: &Larder, url: &str) -> (ExitStatus, String) {
    let admin = larder.admin().to_string();
    let header = "Accept-Language: de";
    testkit::larder::larder(&["explain", url, "--ask", "--header", header, "--admin", &admin])
}

#[test]
fn a_request_is_explained() {
    let origin = Origin::start();
    let rules = "
        [[rule]]
        name = 'no account'
        paths = ['/account/*']
        bypass = true
        [[rule]]
        name = 'pages'
        paths = ['/page*']
        query-drop = ['utm_*']
        key-languages = ['en', 'de']
        default-ttl = '1h'
        answer-set = ['X-Edited: yes']
        max-ttl = '50s'
    ";
    let larder = Setup::reverse(&format!("http://{}", origin.address())).config(rules).start();
    let base = format!("http://{}", larder.address());
    let target = "/page?cc=max-age=100&utm_source=x";
    let page = percent(&format!("{base}{target}"));
    let before = explain(&larder, &format!("url={page}&header=Accept-Language:de-CH"));
    assert_eq!((&before["rule"], &before["stored"]), (&json!("pages"), &Value::Null), "{before}");
    assert_eq!(before["would"], "ask the origin", "{before}");
    assert_eq!(before["key"]["url"], format!("{base}/page?cc=max-age=100"), "{before}");
    assert_eq!(origin.fetches(target), 0);

    // The origin gets the URL of the key.
    let sent = "/page?cc=max-age=100";
    assert_eq!(before["sent"], sent, "{before}");
    larder.send(&get(&format!("{base}{target}")).header("Accept-Language", "de-CH")).verify(sent);
    assert_eq!((origin.fetches(sent), origin.fetches(target)), (1, 0));
    let after = explain(&larder, &format!("url={page}&header=Accept-Language:de,fr"));
    assert_eq!(after["key"]["fields"], json!({"accept-language": "de"}), "{after}");
    assert_eq!(after["stored"]["lifetime"], 50, "{after}");
    assert_eq!(after["stored"]["in"], "memory", "{after}");
    assert!(after["would"].as_str().unwrap().contains("fresh"), "{after}");
    let other = explain(&larder, &format!("url={page}&header=Accept-Language:fr"));
    assert_eq!((&other["stored"], &other["would"]), (&Value::Null, &json!("ask the origin")));

    let asked = explain(&larder, &format!("url={page}&ask=true"));
    let told = json!({
        "from": "origin", "status": 200, "stored": true, "why": null, "lifetime": 50,
        "lifetime_from": "max-ttl of pages", "not_applied": null, "responses": [],
        "vary": ["accept-language"],
    });
    assert_eq!(asked["answer"], told, "{asked}");
    let given = format!("url={page}&answer=Cache-Control:private&status=404");
    let given = explain(&larder, &given);
    let answer = &given["answer"];
    assert_eq!((&answer["stored"], &answer["why"]), (&json!(false), &json!("private")));
    let not_applied = "default-ttl and the edits do not apply to 404";
    assert_eq!(given["answer"]["not_applied"], not_applied, "{given}");

    let (status, said) = in_lines(&larder, &format!("{base}{target}"));
    assert!(status.success(), "{said}");
    for line in [
        "rule     pages",
        "for      accept-language: de",
        "sent     /page?cc=max-age=100\n",
        "answer   200 of the origin",
    ] {
        assert!(said.contains(line), "{said}");
    }
    let (status, said) = in_lines(&larder, "nonsense");
    assert!(status.code() == Some(1) && said.contains("scheme"), "{said}");

    let past = explain(&larder, &format!("url={}", percent(&format!("{base}/account/x"))));
    assert_eq!((&past["rule"], &past["past_the_cache"]), (&json!("no account"), &json!("rule")));
}

#[test]
fn a_response_that_is_not_stored_is_explained_as_such() {
    let larder = Setup::reverse("http://127.0.0.1:9").start();
    let stored = |query: &str| {
        let query = format!("url=http://a.test/&answer=Cache-Control:max-age%3D60{query}");
        let answer = explain(&larder, &query)["answer"].clone();
        (answer["stored"] == json!(true), answer["why"].clone())
    };
    assert_eq!(stored("&answer=Vary:Accept"), (true, Value::Null));
    for vary in ["X-Forwarded-For", "Accept,X-Forwarded-For"] {
        let expected = (false, json!("varies-by-client"));
        assert_eq!(stored(&format!("&answer=Vary:{vary}")), expected, "{vary}");
    }
    assert_eq!(stored("&header=If-Match:*"), (false, json!("precondition")));
    let since = "&header=If-Unmodified-Since:Mon,+01+Jan+2024+00:00:00+GMT";
    assert_eq!(stored(since), (false, json!("precondition")));
}

#[test]
fn a_body_that_turns_out_too_large_is_not_stored() {
    let origin = Origin::start();
    let rule = "[[rule]]\nresponses = [{ larger-than = '10K', store = false }]\n";
    let larder = Setup::forward().config(rule).start();
    for (target, fetches) in [
        ("/x?how=chunked&size=50000&cc=max-age=100", 2),
        ("/x?how=chunked&size=5000&cc=max-age=100", 1),
        ("/x?size=50000&cc=max-age=100", 2),
    ] {
        for _ in 0..2 {
            larder.get(&origin.url(target)).verify(target);
        }
        assert_eq!(origin.fetches(target), fetches, "{target}");
    }
}

#[test]
fn entries_for_responses_are_explained() {
    let rule = "
        [[rule]]
        name = 'pages'
        [[rule.responses]]
        larger-than = '1G'
        store = false
        [[rule.responses]]
        types = ['image/*']
        ttl = '9s'
    ";
    let larder = Setup::forward().config(rule).start();
    let said = explain(&larder, "url=http://a.test/&answer=Content-Type:image/png");
    let answer = &said["answer"];
    assert_eq!((&answer["responses"], &answer["lifetime"]), (&json!([2]), &json!(9)), "{said}");
    assert_eq!(answer["lifetime_from"], "ttl of pages", "{said}");
}

#[test]
fn rules_tell_listeners_apart() {
    let (origin, second) = (Origin::start(), free());
    let rules = format!(
        "[[listener]]\naddress = \"{second}\"\n
        [[rule]]\nlisteners = [\"{second}\"]\nthen = 'continue'\nclient-set = ['X-Second: yes']\n
        [[rule]]\nnot-listeners = [\"{}\"]\nclient-set = ['X-First: yes']\n",
        second.port()
    );
    let setup = Setup::reverse(&format!("http://{}", origin.address())).config(&rules);
    let larder = setup.start();
    for (address, name, other) in
        [(second, "x-second", "x-first"), (larder.address(), "x-first", "x-second")]
    {
        let reply = get("/page").send(address);
        assert_eq!((reply.header(name), reply.header(other)), ("yes", ""), "{:?}", reply.head);
    }
}
