//! The device class of a client: four words in place of thousands of `User-Agent` values.
//!
//! If a site serves different pages to phones and desktops with `Vary: User-Agent`, every browser
//! version gets its own stored copy. The class is guessed from words that browser vendors
//! recommend (`Mobi` anywhere means a phone) and from `Sec-CH-UA-Mobile` if present. Do not use it
//! for an origin that needs a more precise distinction.

use http::HeaderName;
use http::header::USER_AGENT;

use crate::fields::view::Fields;
use crate::settings::name_filter::{NameParts, begins_with};

static SEC_CH_UA_MOBILE: HeaderName = HeaderName::from_static("sec-ch-ua-mobile");

/// A device class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceClass {
    /// A crawler that fetches pages for an index.
    Bot,
    /// A tablet.
    Tablet,
    /// A phone.
    Mobile,
    /// Anything else.
    Desktop,
}

const BOT: u8 = 1;
const TABLET: u8 = 2;
const PHONE: u8 = 4;
const MOBILE: u8 = 8;
const ANDROID: u8 = 16;

/// Words in `User-Agent`, in lower case, and the class that each suggests.
const WORDS: [(&str, u8); 14] = [
    ("bot", BOT),
    ("crawler", BOT),
    ("spider", BOT),
    ("slurp", BOT),
    ("ipad", TABLET),
    ("tablet", TABLET),
    ("kindle", TABLET),
    ("silk/", TABLET),
    ("mobi", MOBILE),
    ("iphone", PHONE),
    ("ipod", PHONE),
    ("opera mini", PHONE),
    ("windows phone", PHONE),
    ("android", ANDROID),
];

static FILTER: NameParts = {
    let mut words = [""; WORDS.len()];
    let mut number = 0;
    while number < WORDS.len() {
        words[number] = WORDS[number].0;
        number += 1;
    }
    NameParts::of_beginnings(&words)
};

/// Returns the classes suggested by the words in `agent`, as bits.
fn suggested(agent: &[u8]) -> u8 {
    let mut found = 0;
    for (at, three) in agent.windows(3).enumerate() {
        if FILTER.may_begin(three) {
            let here = WORDS.iter().filter(|(word, _)| begins_with(&agent[at..], word));
            found |= here.fold(0, |all, (_, kind)| all | kind);
        }
    }
    found
}

impl DeviceClass {
    /// Returns the class that the fields of a request suggest.
    pub fn of(request: &impl Fields) -> DeviceClass {
        let suggested = suggested(request.line(&USER_AGENT).unwrap_or_default());
        let has = |kinds: u8| suggested & kinds != 0;
        if has(BOT) {
            DeviceClass::Bot
        } else if has(TABLET) || (has(ANDROID) && !has(MOBILE)) {
            DeviceClass::Tablet
        } else if has(PHONE | MOBILE) || request.line(&SEC_CH_UA_MOBILE) == Some(b"?1") {
            DeviceClass::Mobile
        } else {
            DeviceClass::Desktop
        }
    }

    /// Returns the name of the class.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceClass::Bot => "bot",
            DeviceClass::Tablet => "tablet",
            DeviceClass::Mobile => "mobile",
            DeviceClass::Desktop => "desktop",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    #[test]
    fn user_agents_become_words() {
        for (agent, word) in [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0", "desktop"),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/130.0",
                "desktop",
            ),
            ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Mobile/15E148", "mobile"),
            (
                "Mozilla/5.0 (Linux; Android 14; Pixel 8) Chrome/130.0 Mobile Safari/537.36",
                "mobile",
            ),
            ("Mozilla/5.0 (Linux; Android 13; SM-X700) Chrome/130.0 Safari/537.36", "tablet"),
            ("Mozilla/5.0 (iPad; CPU OS 16_0 like Mac OS X) Mobile/15E148", "tablet"),
            ("Mozilla/5.0 (compatible; Googlebot/2.1) Mobile", "bot"),
            ("curl/8.0", "desktop"),
            ("", "desktop"),
        ] {
            let class = DeviceClass::of(&headers(&[&format!("User-Agent: {agent}")]));
            assert_eq!(class.name(), word, "{agent}");
        }
        let hinted = headers(&["User-Agent: x", "Sec-CH-UA-Mobile: ?1"]);
        assert_eq!(DeviceClass::of(&hinted), DeviceClass::Mobile);
        assert_eq!(DeviceClass::of(&headers(&[])), DeviceClass::Desktop);
    }
}
