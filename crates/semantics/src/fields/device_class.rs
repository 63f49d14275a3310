//! The kind of device that a client names: four words in place of thousands of `User-Agent`s.
//!
//! A site that answers phones with other pages than desktops would, with `Vary: User-Agent`, be
//! stored once for every browser there is. The words that tell the kinds apart are the ones that
//! browsers' makers recommend (`Mobi` anywhere means a phone), and `Sec-CH-UA-Mobile` decides where
//! it is sent. It is a guess; an origin that needs to know better must not be put behind it.

use http::HeaderMap;
use http::header::USER_AGENT;

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceClass {
    /// A program that fetches pages for an index.
    Bot,
    /// A tablet.
    Tablet,
    /// A phone.
    Mobile,
    /// Anything else.
    Desktop,
}

const BOTS: [&str; 4] = ["bot", "crawler", "spider", "slurp"];
const TABLETS: [&str; 4] = ["ipad", "tablet", "kindle", "silk/"];
const PHONES: [&str; 5] = ["mobi", "iphone", "ipod", "opera mini", "windows phone"];

impl DeviceClass {
    /// Returns the kind that a request's fields suggest.
    pub fn of(headers: &HeaderMap) -> DeviceClass {
        let agent = headers.get(USER_AGENT).map(|value| value.as_bytes().to_ascii_lowercase());
        let agent = String::from_utf8_lossy(agent.as_deref().unwrap_or_default()).into_owned();
        let has = |words: &[&str]| words.iter().any(|word| agent.contains(word));
        if has(&BOTS) {
            DeviceClass::Bot
        } else if has(&TABLETS) || (agent.contains("android") && !agent.contains("mobi")) {
            DeviceClass::Tablet
        } else if has(&PHONES) || headers.get("sec-ch-ua-mobile").is_some_and(|hint| hint == "?1") {
            DeviceClass::Mobile
        } else {
            DeviceClass::Desktop
        }
    }

    /// Returns the word for it.
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
