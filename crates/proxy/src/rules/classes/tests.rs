//! Tests of classes alone: which value a request has, and what is refused.

use std::net::IpAddr;

use http::HeaderMap;
use semantics::scanned_path::ScannedPath;

use super::*;
use crate::message::scheme::Scheme;

fn texts(entries: &[&str]) -> Vec<String> {
    entries.iter().map(|text| (*text).to_owned()).collect()
}

/// Returns classes with one of this text.
fn class(of: &str, entries: &[&str]) -> Classes {
    let mut classes = Classes::default();
    classes.add("it", of, Entries::Values(&texts(entries)), "other").unwrap();
    classes
}

fn wrong(of: &str, entries: &[&str]) -> String {
    let entries = texts(entries);
    let added = Classes::default().add("it", of, Entries::Values(&entries), "other");
    let (key, why) = added.unwrap_err();
    format!("{key}: {why}")
}

/// Returns the value of the last class for a request.
fn value(classes: &Classes, path: &str, client: &str, fields: &HeaderMap) -> (String, String) {
    let known = FoundClasses::default();
    let asked = RuleFacts {
        site: Some("shop"),
        host: "WWW.example.com",
        path: ScannedPath::new(path),
        method: "GET",
        scheme: Scheme::Https,
        client: client.parse::<IpAddr>().unwrap(),
        listener: None,
        upgrade: false,
        classes: &known,
    };
    let (_, value, by) = classes.described(&asked, fields).pop().unwrap();
    let class = classes.0.last().unwrap();
    let again = ClassValues::of(std::slice::from_ref(class), &asked, fields);
    assert_eq!(again.get(class.name()), value);
    (value, by)
}

fn agent(lines: &[&[u8]]) -> HeaderMap {
    let line = |line: &&[u8]| (http::header::USER_AGENT, HeaderValue::from_bytes(line).unwrap());
    lines.iter().map(line).collect()
}

#[test]
fn an_equal_text_comes_before_the_first_pattern_that_matches() {
    let of = class(
        "{header.user-agent}",
        &[
            "*bot* => crawler",
            "~Mobi(le)? => phone",
            "~*android => phone",
            "*tv* => screen",
            "Mobile TV => both",
            "=> none",
            "a => b => arrow",
        ],
    );
    for (lines, expected, by) in [
        (&[&b"GoogleBot Mobile"[..]][..], "crawler", "by *bot*"),
        (&[b"x Mobile tv"], "phone", "by ~Mobi(le)?"),
        (&[b"mobile tv"], "both", "by its text"),
        (&[b"x mobile tv"], "screen", "by *tv*"),
        (&[b"ANDROID"], "phone", "by ~*android"),
        (&[], "none", "by its text"),
        (&[b""], "none", "by its text"),
        (&[b"curl"], "other", "by default"),
        (&[b"\xff bot \xff"], "crawler", "by *bot*"),
        (&[b"\xff\xfe"], "other", "by default"),
        (&[b"mobile", b"tv"], "screen", "by *tv*"),
        (&[b"a => b"], "arrow", "by its text"),
    ] {
        let found = value(&of, "/", "10.0.0.1", &agent(lines));
        assert_eq!(found, (expected.to_owned(), by.to_owned()), "{lines:?}");
    }
}

#[test]
fn the_longest_network_counts() {
    let of = class("{client_ip}", &["10.0.0.0/8 => in", "10.1.0.9/16 => lab", "2001:db8::1 => v6"]);
    for (client, expected, by) in [
        ("10.1.2.3", "lab", "by 10.1.0.0/16"),
        ("10.2.0.1", "in", "by 10.0.0.0/8"),
        ("11.0.0.1", "other", "by default"),
        ("2001:db8::1", "v6", "by 2001:db8::1/128"),
    ] {
        let found = value(&of, "/", client, &HeaderMap::new());
        assert_eq!(found, (expected.to_owned(), by.to_owned()), "{client}");
    }
}

#[test]
fn a_text_may_have_several_variables_and_other_classes() {
    let mut of = class("{query.plan}", &["pro => paid", "gold => paid"]);
    let entries = texts(&["shop:www.example.com:https:/a:paid => yes"]);
    let text = "{site}:{host}:{scheme}:{path}:{class.it}";
    of.add("deep", text, Entries::Values(&entries), "no").unwrap();
    for (path, expected) in
        [("/a?x&plan=%70ro", "yes"), ("/a?plan=free&plan=pro", "no"), ("/b?plan=pro", "no")]
    {
        assert_eq!(value(&of, path, "10.0.0.1", &HeaderMap::new()).0, expected, "{path}");
    }
    let deep = of.named("deep").unwrap();
    assert!(deep.looks_past_key() && !deep.looks_at_client());
    assert!(!class("{host}{path}", &[]).named("it").unwrap().looks_past_key());
}

#[test]
fn shares_divide_texts() {
    let mut of = Classes::default();
    let entries = texts(&["20% => a", "30% => b"]);
    of.add("it", "{header.user-agent}", Entries::Shares(&entries), "rest").unwrap();
    let mut counts = [0; 3];
    for number in 0..2000 {
        let agent = agent(&[format!("agent {number}").as_bytes()]);
        let (found, _) = value(&of, "/", "10.0.0.1", &agent);
        counts[["a", "b", "rest"].iter().position(|name| *name == found).unwrap()] += 1;
    }
    assert!((300..500).contains(&counts[0]) && (500..700).contains(&counts[1]), "{counts:?}");
}

#[test]
fn wrong_classes_are_refused() {
    for (of, entries, words) in [
        ("{header.a}", &["x"][..], "values: expected \"PATTERN => VALUE\", got \"x\""),
        ("{header.a}", &["a => 1", "A => 2"], "values: \"A => 2\" contradicts another entry"),
        ("{header.a}", &["a* => 1", "a* => 2"], "values: \"a* => 2\" contradicts another entry"),
        ("{header.a}", &["~( => 1"], "expected a regular expression after ~"),
        ("{header.a}", &["~a{1000}{1000} => 1"], "expected a regular expression after ~"),
        ("{header.a}", &["a => \u{7}"], "expected a value of at most 256 bytes"),
        ("{client_ip}", &["10.0.0.0/8 => 1", "10.1.0.0/8 => 2"], "contradicts another entry"),
        ("{client_ip}", &["10.* => 1"], "expected a network or address before =>"),
        ("{capture.1}", &[], "of: {capture.1} is not known yet when rules are chosen"),
        ("{status}", &[], "of: {status} is not known yet"),
        ("{class.it}", &[], "of: there is no class \"it\" before this one"),
    ] {
        let told = wrong(of, entries);
        assert!(told.contains(words), "{told}");
    }
    let add = |name, entries| Classes::default().add(name, "{host}", entries, "");
    assert!(add("a b", Entries::Values(&[])).is_err());
    let shares = texts(&["60% => a", "50% => b"]);
    assert!(add("a", Entries::Shares(&shares)).is_err());
    assert!(add("a", Entries::Values(&texts(&["a => b", "A => b"]))).is_ok());
}

#[test]
fn conditions_name_a_value_of_the_table() {
    let of = class("{host}", &["a => x"]);
    assert!(of.test("it=x").is_ok() && of.test("it = other").is_ok());
    for (text, words) in [
        ("it", "expected \"NAME=VALUE\""),
        ("at=x", "there is no class \"at\""),
        ("it=y", "the class \"it\" never has the value \"y\""),
    ] {
        assert!(of.test(text).unwrap_err().contains(words), "{text}");
    }
}

#[test]
fn values_are_written_for_other_nodes_and_keys() {
    let pair = |name: &str, value: &str| (name.into(), value.into());
    let values = ClassValues(vec![pair("b", "x; a=1 é,"), pair("a", "")]);
    let word = values.word().unwrap();
    assert_eq!(word, "b=x%3B%20a%3D1%20%C3%A9%2C;a=");
    assert_eq!(ClassValues::read(&word), Some(values));
    assert_eq!(ClassValues::read("a"), None);
    assert_eq!(ClassValues::default().word(), None);
    let both: Vec<_> =
        [class("{host}", &[]), class("{path}", &[])].map(|of| of.0[0].clone()).into();
    assert_eq!(ClassValues(vec![pair("it", "1")]).key(&both[..1]), "it=1");
}
