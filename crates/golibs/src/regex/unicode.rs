//! Translates Unicode categories and scripts, `\pL`, `\p{Greek}` and `\P{^Lu}`, by the names that Go knows.

use super::Error;

/// The scripts that Go's `\p` finds. It looks names up without underscores, so it finds only those of one word.
const SCRIPTS: &str = " Adlam Ahom Arabic Armenian Avestan Balinese Bamum Batak Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese \
    Buhid Carian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Dogra Duployan Elbasan \
    Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Han Hangul Hanunoo Hatran Hebrew Hiragana Inherited \
    Javanese Kaithi Kannada Katakana Kawi Kharoshthi Khmer Khojki Khudawadi Lao Latin Lepcha Limbu Lisu Lycian Lydian Mahajani Makasar \
    Malayalam Mandaic Manichaean Marchen Medefaidrin Miao Modi Mongolian Mro Multani Myanmar Nabataean Nandinagari Newa Nko Nushu \
    Ogham Oriya Osage Osmanya Palmyrene Phoenician Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham Sinhala Sogdian Soyombo \
    Sundanese Syriac Tagalog Tagbanwa Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai \
    Vithkuqi Wancho Yezidi Yi ";

/// The short name of each category, and Go's long names without underscores.
const CATEGORIES: [(&str, &[&str]); 38] = [
    ("C", &["Other"]),
    ("Cc", &["Control", "Cntrl"]),
    ("Cf", &["Format"]),
    ("Cn", &["Unassigned"]),
    ("Co", &["Privateuse"]),
    ("Cs", &["Surrogate"]),
    ("L", &["Letter"]),
    ("Lc", &["Casedletter"]),
    ("Ll", &["Lowercaseletter"]),
    ("Lm", &["Modifierletter"]),
    ("Lo", &["Otherletter"]),
    ("Lt", &["Titlecaseletter"]),
    ("Lu", &["Uppercaseletter"]),
    ("M", &["Mark", "Combiningmark"]),
    ("Mc", &["Spacingmark"]),
    ("Me", &["Enclosingmark"]),
    ("Mn", &["Nonspacingmark"]),
    ("N", &["Number"]),
    ("Nd", &["Decimalnumber", "Digit"]),
    ("Nl", &["Letternumber"]),
    ("No", &["Othernumber"]),
    ("P", &["Punctuation", "Punct"]),
    ("Pc", &["Connectorpunctuation"]),
    ("Pd", &["Dashpunctuation"]),
    ("Pe", &["Closepunctuation"]),
    ("Pf", &["Finalpunctuation"]),
    ("Pi", &["Initialpunctuation"]),
    ("Po", &["Otherpunctuation"]),
    ("Ps", &["Openpunctuation"]),
    ("S", &["Symbol"]),
    ("Sc", &["Currencysymbol"]),
    ("Sk", &["Modifiersymbol"]),
    ("Sm", &["Mathsymbol"]),
    ("So", &["Othersymbol"]),
    ("Z", &["Separator"]),
    ("Zl", &["Lineseparator"]),
    ("Zp", &["Paragraphseparator"]),
    ("Zs", &["Spaceseparator"]),
];

/// Translates the leading class, which is `\p` or `\P` and a name; also returns the rest.
pub(super) fn translate(text: &str) -> Result<(String, &str), Error> {
    let invalid = |part: &str| Error::new("invalid character class range", part);
    let first = text[2..].chars().next().ok_or_else(|| invalid(text))?;
    let (length, name) = if first == '{' {
        let end = text.find('}').ok_or_else(|| invalid(text))?;
        (end + 1, &text[3..end])
    } else {
        let length = 2 + first.len_utf8();
        (length, &text[2..length])
    };
    let (written, rest) = text.split_at(length);
    let negated = text.starts_with("\\P") != name.starts_with('^');
    let inside = inside(&canonical(name.strip_prefix('^').unwrap_or(name))).ok_or_else(|| invalid(written))?;
    Ok((format!("[{}{inside}]", if negated { "^" } else { "" }), rest))
}

/// Capitalizes the name and removes spaces, dashes and underscores.
fn canonical(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
    letters.enumerate().map(|(i, c)| if i == 0 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }).collect()
}

/// Returns the members of the class in the `regex` crate's syntax.
fn inside(name: &str) -> Option<String> {
    let category = CATEGORIES.iter().find(|(short, long)| *short == name || long.contains(&name));
    Some(match (name, category) {
        ("Any" | "Assigned" | "Ascii", _) => format!("\\p{{{name}}}"),
        (_, Some(("Lc", _))) => "\\p{Lu}\\p{Ll}\\p{Lt}".to_owned(),
        (_, Some((short, _))) => format!("\\p{{{short}}}"),
        _ if SCRIPTS.contains(&format!(" {name} ")) => format!("\\p{{sc={name}}}"),
        _ => return None,
    })
}
