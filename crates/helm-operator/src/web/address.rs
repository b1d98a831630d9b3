//! Parses requests from path and query, and writes links. Pure.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Serialize;
use strum::{EnumString, IntoStaticStr};

use super::actions::{FIELD, PageAction};
use crate::inspect::model::Name;

pub(crate) const STYLE: &str = "/style.css";
pub(crate) const SCRIPT: &str = "/page.js";
/// The address of the process's own state.
pub(crate) const PROCESS: &str = "/process";

/// The maximum length of a word in a filter, in bytes. Names have at most 253.
const MAX_WORD: usize = 253;

/// Characters that a link does not encode: the ones in names of kinds, namespaces and resources.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// A caller's request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Overview(Filter),
    Release(Wanted, View),
    Process,
    Style,
    Script,
    Nothing,
}

/// What to show of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Whole,
    Values(ValueRows),
    /// What changed between two revisions; the first one may be 0, before the release existed.
    Differences {
        from: u32,
        to: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueRows {
    /// Only values other than the charts' own defaults.
    Changed,
    All,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, EnumString, IntoStaticStr)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub(crate) enum Order {
    /// Releases that need attention first, grouped by cause.
    #[default]
    #[strum(to_string = "")]
    Worst,
    Name,
    Chart,
    Revision,
    /// The newest first.
    Age,
}

impl Order {
    /// Returns the word in addresses; empty for the default.
    pub(crate) fn word(self) -> &'static str {
        self.into()
    }
}

/// Which releases to show; what is empty does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Filter {
    /// A kind, or `KIND.GROUP`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    /// A part of a name, chart, reason or message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) q: String,
    /// A state, as in the JSON.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) state: String,
    pub(crate) sort: Order,
}

/// The resource whose release is requested.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) kind: String,
    pub(crate) group: String,
    /// Empty for a cluster-scoped resource.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Address {
    /// Reads an address: `/`, `/KIND.GROUP/NAMESPACE/NAME`, or `/KIND.GROUP/NAME` for a cluster-scoped resource.
    pub(crate) fn parse(path: &str, query: &str) -> Address {
        match path {
            "/" => return Address::Overview(Filter::parse(query)),
            STYLE => return Address::Style,
            SCRIPT => return Address::Script,
            PROCESS => return Address::Process,
            _ => {}
        }
        let parts: Option<Vec<String>> = path.strip_prefix('/').unwrap_or(path).split('/').map(decode).collect();
        let wanted = match parts.as_deref() {
            Some([kind, name]) => wanted(kind, "", name),
            Some([kind, namespace, name]) if !namespace.is_empty() => wanted(kind, namespace, name),
            _ => None,
        };
        wanted.map_or(Address::Nothing, |wanted| Address::Release(wanted, View::parse(query)))
    }
}

impl View {
    /// Reads `view=values`, `view=values&all=1` or `view=diff&from=1&to=2`. Anything else is the whole release.
    fn parse(query: &str) -> View {
        let number = |key: &str| value(query, key).and_then(|value| value.parse().ok()).unwrap_or_default();
        match value(query, "view").as_deref() {
            Some("values") => View::Values(if number("all") > 0 { ValueRows::All } else { ValueRows::Changed }),
            Some("diff") => View::Differences { from: number("from"), to: number("to") },
            _ => View::Whole,
        }
    }
}

pub(crate) fn value(query: &str, key: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    decode(&pairs.find(|(found, _)| *found == key)?.1.replace('+', " "))
}

impl Filter {
    fn parse(query: &str) -> Filter {
        let mut filter = Filter::default();
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let Some(mut word) = decode(&value.replace('+', " ")) else { continue };
            word.truncate(word.floor_char_boundary(MAX_WORD));
            let word = word.trim().to_owned();
            match key {
                "kind" => filter.kind = word,
                "namespace" => filter.namespace = word,
                "q" => filter.q = word,
                "state" => filter.state = word,
                "sort" => filter.sort = word.parse().unwrap_or_default(),
                _ => {}
            }
        }
        filter
    }

    /// Returns the link to the overview with this filter.
    pub(crate) fn link(&self) -> String {
        let Filter { kind, namespace, q, state, sort } = self;
        let pairs = [("kind", &**kind), ("namespace", namespace), ("q", q), ("state", state), ("sort", sort.word())];
        let pairs = pairs.iter().filter(|(_, value)| !value.is_empty());
        let pairs: Vec<String> =
            pairs.map(|(key, value)| format!("{key}={}", utf8_percent_encode(value, KEPT))).collect();
        if pairs.is_empty() { "/".to_owned() } else { format!("/?{}", pairs.join("&")) }
    }

    pub(crate) fn selects_kind(&self, group: &str, kind: &str) -> bool {
        let asked = self.kind.as_str();
        asked.is_empty() || asked.eq_ignore_ascii_case(kind) || asked.eq_ignore_ascii_case(&format!("{kind}.{group}"))
    }

    /// Returns whether one of these texts contains what is searched for, in any case.
    pub(crate) fn finds(&self, texts: &[&str]) -> bool {
        let asked = self.q.to_lowercase();
        asked.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(&asked))
    }
}

fn wanted(kind: &str, namespace: &str, name: &str) -> Option<Wanted> {
    let (kind, group) = kind.split_once('.')?;
    let is_named = !kind.is_empty() && !name.is_empty();
    is_named.then(|| Wanted {
        kind: kind.to_owned(),
        group: group.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// Decodes a part of an address; returns `None` if it is not UTF-8.
fn decode(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}

/// Returns the link to a release after this action was requested on its page.
pub(crate) fn after(resource: &Name, action: PageAction) -> String {
    format!("{}?{FIELD}={}", link(resource), action.word())
}

pub(crate) fn link(resource: &Name) -> String {
    let Name { group, kind, namespace, name } = resource;
    let parts = [format!("{kind}.{group}"), namespace.clone(), name.clone()];
    let parts = parts.iter().filter(|part| !part.is_empty()).map(|part| utf8_percent_encode(part, KEPT));
    parts.fold(String::new(), |path, part| format!("{path}/{part}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(namespace: &str, name: &str) -> Name {
        Name { group: "g.io".into(), kind: "Shop".into(), namespace: namespace.into(), name: name.into() }
    }

    #[test]
    fn each_link_leads_back_to_its_release() {
        for (namespace, name, path) in [
            ("ns", "web", "/Shop.g.io/ns/web"),
            ("", "web.a", "/Shop.g.io/web.a"),
            ("n/s", "\"><script>", "/Shop.g.io/n%2Fs/%22%3E%3Cscript%3E"),
        ] {
            assert_eq!(link(&named(namespace, name)), path);
            let Address::Release(found, View::Whole) = Address::parse(path, "") else { panic!("{path}") };
            assert_eq!((&*found.kind, &*found.group), ("Shop", "g.io"));
            assert_eq!((&*found.namespace, &*found.name), (namespace, name));
        }
    }

    #[test]
    fn what_names_nothing_is_nothing() {
        for path in ["", "/a", "/Shop/ns/web", "/.g/ns/web", "/Shop.g//web", "/Shop.g/ns/", "/S.g/a/b/c", "/S.g/%ff"] {
            assert_eq!(Address::parse(path, ""), Address::Nothing, "{path}");
        }
        assert_eq!(Address::parse("/style.css", "x=y"), Address::Style);
    }

    #[test]
    fn a_view_of_a_release_is_read_from_the_query() {
        for (query, expected) in [
            ("", View::Whole),
            ("view=other&from=1", View::Whole),
            ("view=values", View::Values(ValueRows::Changed)),
            ("all=1&view=values", View::Values(ValueRows::All)),
            ("view=diff&from=1&to=20", View::Differences { from: 1, to: 20 }),
            ("view=diff&from=-1&to=99999999999", View::Differences { from: 0, to: 0 }),
        ] {
            let Address::Release(_, view) = Address::parse("/Shop.g/ns/web", query) else { panic!("{query}") };
            assert_eq!(view, expected, "{query}");
        }
    }

    #[test]
    fn the_link_of_a_filter_leads_back_to_it() {
        for query in ["", "kind=Shop.g&q=a%26b%22&sort=age", "namespace=n&state=failed"] {
            let Address::Overview(filter) = Address::parse("/", query) else { panic!() };
            let link = filter.link();
            assert_eq!(link, if query.is_empty() { "/".to_owned() } else { format!("/?{query}") });
        }
    }

    #[test]
    fn a_filter_is_read_from_the_query() {
        let read = |query: &str| {
            let Address::Overview(filter) = Address::parse("/", query) else { panic!() };
            [filter.kind, filter.namespace, filter.q]
        };
        assert_eq!(read(""), ["", "", ""]);
        assert_eq!(read("kind=Shop.g&namespace=ns&q=a+b%3C&other=1&bare"), ["Shop.g", "ns", "a b<"]);
        assert_eq!(read(&format!("q={}", "ä".repeat(500)))[2].len(), MAX_WORD - 1);
        let filter = Filter { kind: "shop".into(), q: "WEB".into(), ..Filter::default() };
        assert!(filter.selects_kind("g", "Shop") && !filter.selects_kind("g", "Shops"));
        assert!(filter.finds(&["ns/my-web"]) && !filter.finds(&["ns/shop"]));
    }
}
