//! Tests with well-formed and hostile pages.

use super::*;

fn found(html: &str) -> Vec<String> {
    references(html.as_bytes(), &Url::parse("http://a.example/d/e/page?q=/x/").unwrap())
}

#[test]
fn references_that_a_browser_loads_are_found_once_and_resolved() {
    let html = r#"<!doctype html><html><head>
        <link rel="stylesheet" href="/css/a.css?v=3"><link href='b.css' rel='Alternate STYLESHEET'>
        <link rel=canonical href=/elsewhere><link href=/none><link rel=icon href=../icon.png>
        <script src=/js/a%2Ejs></script><script>"<img src=/no.png>"</script>
        <style>/* <img src=/no.png> */</style><!-- <img src=/no.png> -->
        </head><body><img src="x y.png" alt="<img src=/no.png>"><img src="x%20y.png#part">
        <IMG SRC = "&#47;i.png&amp;a">
        <picture><source srcset="s1.png 1x, /s2.png 2x,s3.png"></picture>
        <video src=v.mp4 poster=//A.example/p.jpg></video><object data=https://a.example/o.svg>
        <img src=http://b.example/no.png><img src=//b.example/no.png>
        <img src=data:image/png;base64,x>
        <img src=/dir/><img src=""><img src=" "><img><a href=/no.html></a><iframe src=/no.html>"#;
    let expected = [
        "/css/a.css",
        "/d/e/b.css",
        "/d/icon.png",
        "/js/a.js",
        "/d/e/x%20y.png",
        "/i.png&a",
        "/d/e/s1.png",
        "/s2.png",
        "/d/e/s3.png",
        "/d/e/v.mp4",
        "/p.jpg",
        "/o.svg",
    ];
    assert_eq!(found(html), expected.map(|path| canonical_path(path.as_bytes()).unwrap()));
}

#[test]
fn a_base_moves_what_is_relative_and_only_the_first_one_counts() {
    let page = "<base href=/other/><base href=/third/><img src=a.png><img src=/b.png>";
    assert_eq!(found(page), ["/other/a.png", "/b.png"]);
    let page = "<base target=_blank><base href=sub/x><img src=a.png><img src=../b.png>";
    assert_eq!(found(page), ["/d/e/sub/a.png", "/d/e/b.png"]);
    let page = "<base href=http://b.example/><img src=a.png><img src=//a.example/b.png>";
    assert_eq!(found(page), ["/b.png"]);
}

#[test]
fn a_page_without_end_of_references_is_left_off() {
    let many =
        |of: &str| -> String { (0..100_000).map(|n| of.replace('N', &n.to_string())).collect() };
    assert_eq!(found(&many("<img src=N.png>")).len(), REFERENCES_MAX);
    assert_eq!(found(&format!("<img srcset='{}'>", many("N.png 2x,"))).len(), REFERENCES_MAX);
    assert_eq!(found(&many("<img src=//b.example/N><img src=../../../../../N>")).len(), 64);
    assert_eq!(found(&many("<img src=//b.example/N.png>")), Vec::<String>::new());
    assert_eq!(
        found(&format!("<img src={}>", "x".repeat(REFERENCE_MAX + 1))),
        Vec::<String>::new()
    );
}

/// Fragments that may confuse a tokenizer.
const PIECES: [&str; 40] = [
    "<img src=",
    "<link rel=stylesheet href=",
    "<base href=",
    "<script",
    "</script>",
    "<style>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<!doctype",
    "\"",
    "'",
    ">",
    "/>",
    "<",
    "</",
    "=",
    " ",
    "\n",
    "\0",
    "&#0;",
    "&#x110000;",
    "&amp",
    "&notit;",
    "\u{fffd}",
    "\u{202e}",
    "/",
    "..",
    "//",
    "?",
    "#",
    "%",
    "%zz",
    "%00",
    "a.example",
    "http:",
    ":",
    "srcset='",
    ",",
];

#[test]
fn no_page_breaks_it() {
    let seed =
        std::env::var("LARDER_SEED").map_or_else(|_| fastrand::u64(..), |s| s.parse().unwrap());
    eprintln!("LARDER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let url = Url::parse("http://a.example/d/page").unwrap();
    let mut some = 0;
    for _ in 0..3_000 {
        let mut html = Vec::new();
        for _ in 0..random.usize(..60) {
            match random.u8(..10) {
                0 => html.push(random.u8(..)),
                1 => html.extend(format!("{}.png", random.u8(..)).bytes()),
                _ => html.extend(PIECES[random.usize(..PIECES.len())].bytes()),
            }
        }
        let found = references(&html, &url);
        some += usize::from(!found.is_empty());
        assert!(found.len() <= REFERENCES_MAX);
        for path in &found {
            assert_eq!(
                canonical_path(path.as_bytes()).as_ref(),
                Ok(path),
                "{}",
                html.escape_ascii()
            );
            assert!(!path.ends_with('/'));
        }
    }
    assert!(some > 100, "only {some} pages refer to anything");
}
