//! Drawings as files of their own: SVG that turns dark where the reader likes it dark, and PNG.

use std::fmt;
use std::sync::{Arc, OnceLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, Options, Tree, fontdb::Database};

use super::palette::dark_rules;

/// A drawing that cannot be made a picture.
#[derive(Debug)]
pub struct NotPainted(String);

impl fmt::Display for NotPainted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot be made a picture: {}", self.0)
    }
}

impl std::error::Error for NotPainted {}

/// A drawing with the rules for dark ground inside.
pub fn standalone(svg: &str) -> String {
    let rules = dark_rules("svg");
    let style = format!("<style>@media (prefers-color-scheme: dark){{{rules}}}</style>");
    match svg.find('>') {
        Some(end) => format!("{}{style}{}", &svg[..=end], &svg[end + 1..]),
        None => svg.to_owned(),
    }
}

/// A drawing as PNG, on light ground, in letters that are part of this program (DejaVu Sans).
pub fn png(svg: &str) -> Result<Vec<u8>, NotPainted> {
    let options = Options { fontdb: fonts(), font_family: FAMILY.to_owned(), ..Options::default() };
    let failed = |why: &dyn fmt::Display| NotPainted(why.to_string());
    let tree = Tree::from_str(svg, &options).map_err(|error: usvg::Error| failed(&error))?;
    let size = tree.size().to_int_size();
    let pixmap = Pixmap::new(size.width(), size.height());
    let mut pixmap = pixmap.ok_or_else(|| failed(&"it has no size"))?;
    resvg::render(&tree, Transform::identity(), &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|error| failed(&error))
}

const FAMILY: &str = "DejaVu Sans";

fn fonts() -> Arc<Database> {
    static FONTS: OnceLock<Arc<Database>> = OnceLock::new();
    let load = || {
        let mut fonts = Database::new();
        fonts.load_font_data(dejavu::sans::regular().to_vec());
        fonts.set_sans_serif_family(FAMILY);
        Arc::new(fonts)
    };
    Arc::clone(FONTS.get_or_init(load))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_painted() {
        let svg = |text: &str| {
            format!(
                "<svg width=\"200\" height=\"40\" xmlns=\"http://www.w3.org/2000/svg\"><text \
                 x=\"5\" y=\"30\" font-family=\"sans-serif\" font-size=\"24\" \
                 fill=\"#262B33\">{text}</text></svg>"
            )
        };
        let [none, some, other] = ["", "ms", "GB"].map(|text| png(&svg(text)).unwrap());
        assert!(none.starts_with(b"\x89PNG"));
        assert!(none != some && some != other, "the letters are not there");
        assert!(png("<svg").is_err());
        let dark = standalone(&svg("x"));
        assert!(dark.contains("svg [fill=\"#262B33\"]{fill:#e6e9ee}"), "{dark}");
        assert_eq!(png(&dark).unwrap(), png(&svg("x")).unwrap());
    }
}
