//! The example configuration file: every key with its default and its description, generated from
//! the declarations of the settings (`larder print-config`, `packaging/larder.toml`).

use std::fmt::Write;

use crate::config::setting::Field;
use crate::config::settings::{Writer, write_all};

const WIDTH: usize = 100;

pub fn example() -> String {
    let head = comment(
        "An example of Larder's configuration file, made of the declarations of the settings. \
         Every key is here; those behind a # show their default, in the tables at the end an \
         example. docs/reference/configuration.md explains them; `larder check-config FILE` names \
         everything wrong in a file.",
    );
    let mut example = Example { text: head, part: Part::General };
    write_all(&mut example);
    example.text
}

struct Example {
    text: String,
    part: Part,
}

/// The part of the file that contains the next keys.
enum Part {
    General,
    Group,
    Repeated,
}

impl Writer for Example {
    fn group(&mut self, name: &str) {
        self.part = Part::Group;
        self.text.extend(["\n[", name, "]\n"]);
    }

    fn table(&mut self, name: &str, text: &str) {
        self.part = Part::Repeated;
        self.text.extend(["\n", &comment(text), "\n#[[", name, "]]\n"]);
    }

    fn key<T>(&mut self, key: &str, field: &Field<T>) {
        if matches!(self.part, Part::General) {
            self.text.push('\n');
        }
        let is_shown = field.example.is_some() && !matches!(self.part, Part::Repeated);
        let hidden = if is_shown { "" } else { "#" };
        let default = || field.default_value().map(|value| value.literal());
        let value = field.example.map(str::to_owned).or_else(default).unwrap_or_default();
        self.text.push_str(&comment(field.text));
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{hidden}{key} = {value}");
    }
}

fn comment(text: &str) -> String {
    let options = textwrap::Options::new(WIDTH)
        .initial_indent("# ")
        .subsequent_indent("# ")
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(text, options) + "\n"
}
