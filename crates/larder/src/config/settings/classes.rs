//! Declarations of the keys of a `[[class]]` table.

use crate::config::class::Class;
use crate::config::setting::{Field, fields};
use crate::config::value::{Checked, Kind};

const ENTRY: Kind = Kind::Checked(&Checked {
    check: |text| text.contains("=>") && !text.contains('\0'),
    expected: "\"PATTERN => VALUE\"",
    value_name: "ENTRY",
    example: "*bot* => bot",
});

const SHARE: Kind = Kind::Checked(&Checked {
    check: |text| text.contains("=>") && !text.contains('\0'),
    expected: "\"PERCENTAGE => VALUE\"",
    value_name: "SHARE",
    example: "20% => b",
});

const ANY_TEXT: Kind = Kind::Checked(&Checked {
    check: |text| !text.contains('\0'),
    expected: "a text",
    value_name: "TEXT",
    example: "other",
});

/// The keys of a `[[class]]` table.
pub const CLASS: &[Field<Class>] = fields! {
    Class;

    /// Name, for {class.NAME}, `classes` and `key-classes`.
    "name", Kind::Text("a name"), [], required, live, example(r#""plan""#) -> name;

    /// Text that is looked up, with variables that are known when rules are chosen, and classes
    /// before this one.
    "of", Kind::Text("a text with variables"), [], required, live,
        example(r#""{header.x-plan}""#) -> of;

    /// Entries of the table. The pattern is a text (in either case), a text with *, or a regular
    /// expression after ~ (~* in either case). If `of` is "{client_ip}", networks
    /// (docs/guide/rules.md, "Classes").
    "values", Kind::List(&ENTRY), [], live, example(r#"["gold => paid", "pro* => paid"]"#)
        -> values;

    /// In place of `values`: shares of the texts, such as "20% => b", chosen by a digest so that a
    /// text stays in its share.
    "shares", Kind::List(&SHARE), [], live -> shares;

    /// Value where no entry matches.
    "default", ANY_TEXT, [""], live, example(r#""free""#) -> default;
};
