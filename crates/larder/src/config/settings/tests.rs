//! Tests that the declarations are consistent, and agree with the documentation.

use super::*;
use crate::config::setting::Field;
use crate::config::value::{Kind, Value};

fn example(kind: Kind) -> Value {
    let text = match kind {
        Kind::Bool => "true".to_owned(),
        Kind::Int(min, _) | Kind::Size(min, _) => min.to_string(),
        Kind::Time(min, _) => cli::units::duration(min),
        Kind::Addr | Kind::Listen => "[::1]:1".to_owned(),
        Kind::Mode => "600".to_owned(),
        Kind::Network => "10.0.0.0/8".to_owned(),
        Kind::Origin => "http://a".to_owned(),
        Kind::Host | Kind::HostPattern | Kind::CertificateHost => "a".to_owned(),
        Kind::Method | Kind::Token | Kind::Header => "GET".to_owned(),
        Kind::Ports => "80-81".to_owned(),
        Kind::PathPrefix => "/a/".to_owned(),
        Kind::LogFormat => "json".to_owned(),
        Kind::Path | Kind::Text(_) => "x".to_owned(),
        Kind::Checked(checked) => checked.example.to_owned(),
        Kind::OneOf(words) => words[words.len() - 1].to_owned(),
        Kind::List(item) => return Value::List(vec![example(*item)]),
    };
    kind.parse(&text).unwrap()
}

/// Checks that each declaration is consistent: default, example and word fit kind and field.
fn check<T: Default>(fields: &[Field<T>]) {
    for field in fields {
        let mut target = T::default();
        if let Some(value) = field.default_value() {
            field.apply(&mut target, value);
        }
        field.apply(&mut target, example(field.kind));
        if let Kind::OneOf(words) = field.kind {
            for word in words {
                field.apply(&mut target, field.parse(word).unwrap());
            }
        }
        if let Some(word) = field.word {
            field.apply(&mut target, field.parse(word).unwrap());
        }
        assert!(field.text.ends_with('.'), "{}", field.key);
        let same = fields.iter().filter(|other| other.key == field.key).count();
        assert_eq!(same, 1, "{} is declared {same} times", field.key);
    }
}

#[test]
fn declarations_agree_with_themselves() {
    check(SETTINGS);
    check(SITE);
    check(ACCESS);
    check(CLASS);
    check(RULE);
    check(LISTENER);
    check(CERTIFICATE);
    check(FLEET_CLASS);
}

#[test]
fn every_flag_of_the_manual_is_a_setting() {
    let flags = [
        "listen",
        "reverse",
        "static",
        "cache",
        "cache-size",
        "memory",
        "preset",
        "layout",
        "admin",
        "access-log",
        "log-format",
        "workers",
        "allow",
        "user",
        "pid-file",
        "fleet",
        "join",
        "fleet-advertise",
        "fleet-node",
        "fleet-key",
    ];
    let declared: Vec<_> = SETTINGS.iter().filter_map(|s| s.flag).collect();
    assert_eq!(declared, flags);
}

#[test]
fn every_eviction_policy_can_be_chosen() {
    let Kind::OneOf(words) = storing::POLICY else { panic!("{:?}", storing::POLICY) };
    assert_eq!(words, store::policy::PolicyName::ALL.map(|name| name.as_str()));
}
