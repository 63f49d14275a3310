//! Limits of rules: what a request holds ends with it, and a slow response slows no other one.

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use http::{Request, StatusCode};
use proxy::options::Options;
use proxy::rules::limits::{Limit, LimitTerms};
use proxy::rules::request_rules::{Actions, Condition, Rule, Rules};
use testkit::origin::{Origin, Then, ok};

use crate::http2_clients::on_connection;
use crate::rig::{Rig, wait_until};

/// Sets one rule that continues, with this limit.
fn limit(options: &mut Options, headers: &str, terms: LimitTerms) {
    let headers = if headers.is_empty() { vec![] } else { vec![headers.parse().unwrap()] };
    let limits = vec![Arc::new(Limit::new(terms))];
    let rule = Rule {
        when: Condition { headers, ..Condition::default() },
        continues: true,
        states: vec!["limit-x = 1".to_owned()],
        actions: Some(Arc::new(Actions { limits, ..Actions::default() })),
        ..Rule::new("limited".to_owned(), options.semantics.clone())
    };
    options.rules = Rules::new(vec![rule], &options.semantics);
}

#[test]
fn permits_end_with_a_request_however_it_ends() {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.clone();
    let origin = Origin::scripted(move |request, stream| {
        if request.path.starts_with("/held") {
            drop(gate.lock());
        }
        let _ = stream.write_all(ok("Cache-Control: no-store\r\n", "x").as_bytes());
        Then::Stay
    });
    let rig = Rig::h2c_with(origin.address(), |options| {
        let status = StatusCode::TOO_MANY_REQUESTS;
        limit(options, "", LimitTerms { concurrent: Some(2), status, ..LimitTerms::default() });
    });
    let held = closed.lock().unwrap();
    let text = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let mut clients = [rig.client(), rig.client()];
    for (client, path) in clients.iter_mut().zip(["/held/1", "/held/2"]) {
        client.send(text(path));
    }
    wait_until("both requests are asked", || origin.requests().len() == 2);
    let status = || rig.client().get("http://a.example/other").status;
    let refused = rig.client().get("http://a.example/other");
    assert_eq!((refused.status, refused.header("retry-after")), (429, "1"));
    let [first, mut second] = clients;
    first.reset();
    wait_until("a permit of a reset connection is free", || status() == 200);
    on_connection(rig.address, async |mut sender| {
        let request = || Request::get("http://a.example/held/3").body(()).unwrap();
        let (response, stream) = sender.send_request(request(), true).unwrap();
        let other = async || {
            let request = Request::get("http://a.example/other").body(()).unwrap();
            let (response, _) = sender.clone().send_request(request, true).unwrap();
            response.await.unwrap().status().as_u16()
        };
        while other().await != 429 {}
        drop((response, stream));
        while other().await != 200 {}
    });
    drop(held);
    assert_eq!(second.answer().status, 200);
    wait_until("the permit of an answered request is free", || status() == 200);
}

#[test]
fn a_slow_response_slows_no_other_one() {
    let body = "x".repeat(3 << 20);
    let origin = Origin::always(ok("Cache-Control: max-age=600\r\n", &body));
    let rig = Rig::h2c_with(origin.address(), |options| {
        let terms =
            LimitTerms { bandwidth: Some(8000), bandwidth_after: 1, ..LimitTerms::default() };
        limit(options, "X-Slow", terms);
    });
    let mut slow = rig.client();
    slow.send("GET /a HTTP/1.1\r\nHost: a.example\r\nX-Slow: 1\r\n\r\n");
    assert_eq!(slow.head().status().unwrap(), 200);
    for outcome in ["HIT", "HIT"] {
        let reply = rig.client().get("http://a.example/a");
        assert_eq!((reply.status, reply.body.len()), (200, body.len()));
        assert!(reply.outcome().starts_with(outcome), "{}", reply.outcome());
    }
    let mut some = Vec::new();
    assert!(slow.exactly(1001, &mut some));
    assert_eq!(origin.requests().len(), 1);
}
