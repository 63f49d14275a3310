//! The declaration of one setting, and the assignment of its value to a typed field.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fleet::MemberId;
use fleet::class::{Copies, EvictionStep, LookupStep, SitePattern, TypePattern};
use fleet::member::Address;
use http::{HeaderName, Method};
use ipnet::IpNet;
use membership::gossip::Seed;
use net::networks::Networks;
use proxy::observe::access_log::Format;
use proxy::origin::path_prefix::PathPrefix;
use proxy::rules::access::{HostPattern, PortRange};
use proxy::rules::purge_dialect::{PurgeField, PurgeMethod};
use purge_stream::StreamAddress;
use semantics::settings::stale_cases::StaleCases;
use semantics::trusted::{TrustedField, TrustedFields};
use semantics::{Lifetime, Seconds, StatusPattern};
use store::policy::{AdmissionName, PolicyName};
use store::{IndexKind, LayoutName};
use upstream::message::pseudonym::Pseudonym;

pub use crate::config::configuration::{Config, Site};
use crate::config::fleet::listed::Listed;
use crate::config::listen_addr::ListenAddr;
use crate::config::status_times;
use crate::config::value::{Kind, Value};

/// When a changed value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// At a reload (SIGHUP).
    Reload,
    /// At the next start.
    Restart,
    /// When the cache is created; an existing cache keeps the value that it was created with.
    Creation,
}

/// One key of a table that configures a `T`.
pub struct Field<T: 'static> {
    /// The name in the file, `table.key` for keys in tables; flags add `--`.
    pub key: &'static str,
    pub kind: Kind,
    /// An additional word that is accepted and stands for no value.
    pub word: Option<&'static str>,
    /// The default as written in a file; `None` if the key is required.
    pub default: Option<&'static [&'static str]>,
    /// The value that the example file shows in place of the default, as written in a file.
    pub example: Option<&'static str>,
    pub effect: Effect,
    /// The flag of `larder serve` that sets the key, without its dashes.
    pub flag: Option<&'static str>,
    /// The description for help and documentation: one or more sentences.
    pub text: &'static str,
    set: fn(&mut T, Value),
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Field<T> {
        *self
    }
}

impl<T> Copy for Field<T> {}

impl<T> Field<T> {
    /// Declares an optional key: its default as written in a file, and the function that sets its
    /// value.
    pub const fn new(
        key: &'static str,
        kind: Kind,
        default: &'static [&'static str],
        set: fn(&mut T, Value),
        text: &'static str,
    ) -> Field<T> {
        let (word, effect) = (None, Effect::Restart);
        // The text of a doc comment line begins with a space.
        let text = text.split_at(1).1;
        let (default, example) = (Some(default), None);
        Field { key, kind, word, default, example, effect, flag: None, text, set }
    }

    /// Makes this list the default, as written in a file.
    pub const fn defaults(self, default: &'static [&'static str]) -> Field<T> {
        Field { default: Some(default), ..self }
    }

    /// Makes the key accept this word as well, which stands for no value.
    pub const fn word(self, word: &'static str) -> Field<T> {
        Field { word: Some(word), ..self }
    }

    /// Makes the example file show this value, as written in a file.
    pub const fn example(self, example: &'static str) -> Field<T> {
        Field { example: Some(example), ..self }
    }

    /// Makes the key required: it has no default.
    pub const fn required(self) -> Field<T> {
        Field { default: None, ..self }
    }

    /// Adds a flag of the same name to `larder serve`.
    pub const fn flag(self) -> Field<T> {
        let name = self.key;
        self.flag_called(name)
    }

    /// Adds a flag with a different name to `larder serve`.
    pub const fn flag_called(self, name: &'static str) -> Field<T> {
        Field { flag: Some(name), ..self }
    }

    /// Makes a reload apply a changed value.
    pub const fn live(self) -> Field<T> {
        Field { effect: Effect::Reload, ..self }
    }

    /// Makes the key apply only to a cache that is being created.
    pub const fn at_creation(self) -> Field<T> {
        Field { effect: Effect::Creation, ..self }
    }

    /// Parses one value from text; accepts the special word, too.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        match self.word {
            Some(word) if word == text => Ok(Value::Word(word)),
            Some(_) => self
                .kind
                .parse(text)
                .map_err(|why| why.replacen(&self.kind.expected(), &self.expected(), 1)),
            None => self.kind.parse(text),
        }
    }

    /// Returns the error message for a value of the wrong type.
    pub fn expected_not(&self, got: &str) -> String {
        format!("expected {}, got {got}", self.expected())
    }

    /// Returns a description of the accepted values, including the special word; of a list, of its
    /// elements.
    pub fn expected(&self) -> String {
        let kind = match self.kind {
            Kind::List(item) => item.expected(),
            kind => kind.expected(),
        };
        match self.word {
            Some(word) => format!("{kind}, or {word:?}"),
            None => kind,
        }
    }

    pub fn apply(&self, target: &mut T, value: Value) {
        (self.set)(target, value);
    }

    /// Returns the default as a value. Panics if the declaration itself is wrong, which a test
    /// rules out.
    pub fn default_value(&self) -> Option<Value> {
        let read = |text: &&str| match self.parse(text) {
            Ok(value) => value,
            Err(why) => panic!("declaration of {}: {why}", self.key),
        };
        let texts = self.default?;
        Some(match (self.kind, texts) {
            (Kind::List(_), [word]) if self.word == Some(word) => Value::Word(word),
            (Kind::List(_), texts) => Value::List(
                texts
                    .iter()
                    .flat_map(|text| match read(text) {
                        Value::List(values) => values,
                        single => vec![single],
                    })
                    .collect(),
            ),
            (_, [text]) => read(text),
            _ => panic!("declaration of {}: a default is one value", self.key),
        })
    }
}

/// A key of a repeated table that overrides a value for all: its value, and how to apply it to a
/// `T`.
pub struct OwnKey<T> {
    pub key: &'static str,
    pub value: Value,
    set: fn(&mut T, Value),
}

impl<T> OwnKey<T> {
    /// Adds a key, unless its value is the word that keeps the value for all.
    pub fn add(keys: &mut Vec<OwnKey<T>>, key: &'static str, value: Value, set: fn(&mut T, Value)) {
        if !matches!(value, Value::Word(_)) {
            keys.push(OwnKey { key, value, set });
        }
    }

    /// Applies the keys over the values for all.
    pub fn lay_over(keys: &[OwnKey<T>], mut general: T) -> T {
        OwnKey::apply_all(keys, &mut general);
        general
    }

    /// Applies the keys.
    pub fn apply_all(keys: &[OwnKey<T>], to: &mut T) {
        keys.iter().for_each(|own| (own.set)(to, own.value.clone()));
    }
}

impl<T> Clone for OwnKey<T> {
    fn clone(&self) -> OwnKey<T> {
        OwnKey { key: self.key, value: self.value.clone(), set: self.set }
    }
}

impl<T> PartialEq for OwnKey<T> {
    fn eq(&self, other: &OwnKey<T>) -> bool {
        (self.key, &self.value) == (other.key, &other.value)
    }
}

impl<T> fmt::Debug for OwnKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.key, self.value)
    }
}

/// Declares the fields of a table that configures a type. Each has a doc comment that describes it;
/// its key, kind and default; further properties as methods of [`Field`]; and either the place of
/// its value (`->`), its place among the own keys (`~>`, see [`OwnKey`]) or the function that sets
/// it (`=>`).
macro_rules! fields {
    ($of:ty; $(
        $(#[doc = $text:literal])+
        $key:literal, $kind:expr, [$($default:expr),*] $(, $method:ident $(($argument:expr))?)*
            $(-> $($place:ident).+)? $(~> $($own:ident).+)? $(=> $set:expr)?;
    )*) => {
        &[$(
            $crate::config::setting::Field::<$of>::new(
                $key,
                $kind,
                &[$($default),*],
                $(|target, value| {
                    $crate::config::setting::Take::set(&mut target.$($place).+, value)
                })?
                $(|target, value| {
                    $crate::config::setting::OwnKey::add(&mut target.own, $key, value, |t, v| {
                        $crate::config::setting::Take::set(&mut t.$($own).+, v);
                    });
                })?
                $($set)?,
                concat!($($text),+),
            )
            $(.$method($($argument)?))*
        ),*]
    };
}
pub(crate) use fields;

/// Declares keys that a table of the file has for all sites and a `[[site]]` for itself: the table,
/// the type that they configure, its place in the configuration, and the list of a site's own keys.
/// The rest is as in [`fields`].
macro_rules! for_all_and_site {
    ($table:literal, $of:ty, $all:ident, $own:ident; $(
        $(#[doc = $text:literal])+
        $key:literal, $kind:expr, [$($default:expr),*] $(, word($word:literal))?
            $(, defaults($defaults:expr))? $(-> $($place:ident).+)? $(=> $set:expr)?;
    )*) => {
        pub const FOR_ALL: &[$crate::config::setting::ForAll] = &[$(
            $crate::config::setting::Field::new(
                concat!($table, ".", $key),
                $kind,
                &[$($default),*],
                |config: &mut $crate::config::setting::Config, value| {
                    let set = $crate::config::setting::setter::<$of>(
                        $(|m, v| $crate::config::setting::Take::set(&mut m.$($place).+, v))?
                        $($set)?
                    );
                    set(&mut config.$all, value);
                },
                concat!($($text),+),
            )
            $(.word($word))?
            $(.defaults($defaults))?
            .live(),
        )*];

        pub const FOR_SITE: &[$crate::config::setting::ForSite] = &[$(
            $crate::config::setting::Field::new(
                $key,
                $kind,
                &["inherit"],
                |site: &mut $crate::config::setting::Site, value| {
                    let set = $crate::config::setting::setter::<$of>(
                        $(|m, v| $crate::config::setting::Take::set(&mut m.$($place).+, v))?
                        $($set)?
                    );
                    $crate::config::setting::OwnKey::add(&mut site.$own, $key, value, set);
                },
                concat!(" As `", $key, "` of `[", $table, "]`; \"inherit\" takes that."),
            )
            .word("inherit")
            .live(),
        )*];
    };
}
pub(crate) use for_all_and_site;

pub type ForAll = Field<Config>;

pub type ForSite = Field<Site>;

/// Returns `set`, a function that sets a key of a `T`; this determines the closure's types.
pub const fn setter<T>(set: fn(&mut T, Value)) -> fn(&mut T, Value) {
    set
}

/// Declares the words of a choice together with their meanings.
macro_rules! choice {
    ($visibility:vis $name:ident for $type:ty { $($word:literal => $variant:expr),* $(,)? }) => {
        $visibility const $name: $crate::config::value::Kind =
            $crate::config::value::Kind::OneOf(&[$($word),*]);
        impl $crate::config::setting::Take for $type {
            fn take(value: $crate::config::value::Value) -> $type {
                match &value {
                    $($crate::config::value::Value::Text(word) if word == $word => $variant,)*
                    other => $crate::config::setting::misdeclared(other),
                }
            }
        }
    };
}
pub(crate) use choice;

/// Returns the number of fields in all parts of a table.
pub const fn count<T>(parts: &[&[Field<T>]]) -> usize {
    let (mut part, mut sum) = (0, 0);
    while part < parts.len() {
        sum += parts[part].len();
        part += 1;
    }
    sum
}

/// Joins the parts of a table; each topic declares its part in its own file.
pub const fn joined<T, const N: usize>(parts: &[&[Field<T>]]) -> [Field<T>; N] {
    let mut all = [parts[0][0]; N];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        let mut i = 0;
        while i < parts[part].len() {
            all[at] = parts[part][i];
            at += 1;
            i += 1;
        }
        part += 1;
    }
    all
}

/// A field type to which a [`Value`] can be converted. Panics on a kind that the field was not
/// declared with: a test applies a value of its kind to every declared field.
pub trait Take: Sized {
    /// Returns the value as this type.
    fn take(value: Value) -> Self;

    /// Replaces this value; a word that stands for no value leaves it unchanged.
    fn set(&mut self, value: Value) {
        given(self, value);
    }
}

/// Replaces `target` by a value, unless the value is a word, which leaves it unchanged.
pub fn given<T: Take>(target: &mut T, value: Value) {
    if !matches!(value, Value::Word(_)) {
        *target = T::take(value);
    }
}

/// Panics: a field was declared with a kind that it cannot hold.
pub fn misdeclared<T>(value: &Value) -> T {
    panic!("a setting was declared with a kind that its field cannot hold: {value:?}")
}

macro_rules! take {
    ($($type:ty: $pattern:pat => $taken:expr),* $(,)?) => {$(
        impl Take for $type {
            fn take(value: Value) -> $type {
                match value {
                    $pattern => $taken,
                    other => misdeclared(&other),
                }
            }
        }
    )*};
}

take! {
    bool: Value::Bool(value) => value,
    u64: Value::Int(value) | Value::Size(value) => value,
    Duration: Value::Time(value) => value,
    SocketAddr: Value::Addr(value) => value,
    IpNet: Value::Network(value) => value,
    String: Value::Text(value) => value,
    PathBuf: Value::Text(value) => value.into(),
    ListenAddr: Value::Listen(value) => value,
    Seconds: Value::Time(value) => Seconds::new(value.as_secs()),
}

/// Implements [`Take`] for types that parse text; the kind of the setting has already validated it.
macro_rules! parsed {
    ($($type:ty),*) => {$(
        impl Take for $type {
            fn take(value: Value) -> $type {
                let text = String::take(value.clone());
                text.parse().unwrap_or_else(|_| misdeclared(&value))
            }
        }
    )*};
}

parsed!(proxy::rules::limits::LimitKey, proxy::rules::limits::Rate);
parsed!(HeaderName, Method, HostPattern, PathPrefix, PortRange, AdmissionName, PolicyName);
parsed!(Format, StatusPattern);
parsed!(
    Address,
    Copies,
    EvictionStep,
    Listed,
    LookupStep,
    MemberId,
    Seed,
    SitePattern,
    TypePattern
);
parsed!(PurgeField, PurgeMethod, StreamAddress, TrustedField);

impl Take for StaleCases {
    fn take(value: Value) -> StaleCases {
        let names = Vec::<String>::take(value.clone());
        StaleCases::named(names.iter().map(String::as_str)).unwrap_or_else(|| misdeclared(&value))
    }
}

impl Take for Lifetime {
    fn take(value: Value) -> Lifetime {
        status_times::lifetime(&value).unwrap_or_else(|| misdeclared(&value))
    }
}

/// Implements [`Take`] for types that are found by name.
macro_rules! named {
    ($($type:ty: $find:path),* $(,)?) => {$(
        impl Take for $type {
            fn take(value: Value) -> $type {
                $find(&String::take(value.clone())).unwrap_or_else(|| misdeclared(&value))
            }
        }
    )*};
}

named! {
    Pseudonym: Pseudonym::new,
    LayoutName: LayoutName::from_name,
    IndexKind: IndexKind::from_name,
}

/// Implements [`Take`] for narrower integers; the bounds of the setting keep the number in range.
macro_rules! narrow {
    ($($type:ty),*) => {$(
        impl Take for $type {
            fn take(value: Value) -> $type {
                <$type>::try_from(u64::take(value.clone())).unwrap_or_else(|_| misdeclared(&value))
            }
        }
    )*};
}

narrow!(usize, u32, u16, u8);

impl Take for Networks {
    fn take(value: Value) -> Networks {
        Vec::<IpNet>::take(value).into()
    }
}

impl Take for TrustedFields {
    fn take(value: Value) -> TrustedFields {
        Vec::<TrustedField>::take(value).into()
    }
}

impl<T: Take> Take for Option<T> {
    fn take(value: Value) -> Option<T> {
        match value {
            Value::Word(_) => None,
            value => Some(T::take(value)),
        }
    }

    fn set(&mut self, value: Value) {
        *self = <Self as Take>::take(value);
    }
}

impl<T: Take> Take for Vec<T> {
    fn take(value: Value) -> Vec<T> {
        match value {
            Value::List(values) => values.into_iter().map(T::take).collect(),
            other => misdeclared(&other),
        }
    }
}
