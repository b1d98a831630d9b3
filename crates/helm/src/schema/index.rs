//! Resolves references in a schema to the schemas that they may point to.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

use super::bounds::{BoundError, MAX_NAMES, MAX_SCHEMA_NODES, MAX_STEPS};
use super::compile::Document;

/// The position of a base in the index.
type BaseId = usize;

/// A draft of JSON Schema: 4, 6, 7, 2019 or 2020, or 0 if it is unknown.
type Draft = u16;

/// The names in a schema.
pub(super) struct Index<'a> {
    /// The draft of the document whose names are being collected.
    draft: Draft,
    /// The bases: the documents, and every object with an `$id`.
    bases: Vec<Base<'a>>,
    /// The innermost base around each object, by the object's address.
    scopes: HashMap<*const Json, BaseId>,
    anchors: HashMap<&'a str, Vec<&'a Json>>,
    dynamic_anchors: HashMap<&'a str, Vec<&'a Json>>,
    /// Whether each base has `$recursiveAnchor`.
    recursive: Vec<bool>,
    /// Whether a name or reference may lead to a metaschema.
    metaschemas: bool,
    /// Whether a schema depends on what other schemas have evaluated.
    pub(super) tracks_evaluated: bool,
    nodes: usize,
    names: usize,
    lookups: u64,
}

/// A schema that relative references may start from.
struct Base<'a> {
    schema: &'a Json,
    /// The last segment of its URL, or `None` if it is uncertain.
    name: Option<&'a str>,
    parent: Option<BaseId>,
    /// Whether the validator certainly treats it as a base.
    is_certain: bool,
}

impl<'a> Index<'a> {
    /// Collects the names in all documents.
    pub(super) fn of(documents: &'a [Document]) -> Result<Index<'a>, BoundError> {
        let mut index = Index {
            draft: 0,
            bases: Vec::new(),
            scopes: HashMap::new(),
            anchors: HashMap::new(),
            dynamic_anchors: HashMap::new(),
            recursive: Vec::new(),
            metaschemas: false,
            tracks_evaluated: false,
            nodes: 0,
            names: 0,
            lookups: 0,
        };
        for Document { url, json } in documents {
            index.draft = draft(json);
            index.bases.push(Base { schema: json, name: last_segment(url), parent: None, is_certain: true });
            index.recursive.push(false);
            index.collect(json, index.bases.len() - 1, true)?;
        }
        let extends = index.dynamic_anchors.contains_key("meta") || index.recursive.contains(&true);
        if index.metaschemas && extends {
            return Err(BoundError::Metaschema);
        }
        Ok(index)
    }

    /// Collects the names in a value. `is_schema` is true if the validator certainly treats the value as a schema.
    fn collect(&mut self, value: &'a Json, base: BaseId, is_schema: bool) -> Result<(), BoundError> {
        self.nodes += 1;
        if self.nodes > MAX_SCHEMA_NODES {
            return Err(BoundError::TooLarge);
        }
        match value {
            Json::Array(items) => items.iter().try_for_each(|item| self.collect(item, base, false)),
            Json::Object(entries) => {
                let base = self.names(value, entries, base, is_schema)?;
                self.scopes.insert(value, base);
                entries.iter().try_for_each(|(keyword, entry)| self.collect_entry(keyword, entry, base, is_schema))
            }
            _ => Ok(()),
        }
    }

    fn collect_entry(
        &mut self,
        keyword: &str,
        entry: &'a Json,
        base: BaseId,
        is_schema: bool,
    ) -> Result<(), BoundError> {
        let holds = if is_schema { holds(keyword, self.draft) } else { Holds::Nothing };
        match (entry, holds) {
            (_, Holds::Schema) | (Json::Object(_), Holds::SchemaOrList) => self.collect(entry, base, true),
            (Json::Array(items), Holds::List | Holds::SchemaOrList) => {
                items.iter().try_for_each(|item| self.collect(item, base, true))
            }
            (Json::Object(entries), Holds::Map) => entries.values().try_for_each(|item| self.collect(item, base, true)),
            _ => self.collect(entry, base, false),
        }
    }

    /// Adds the object's names. Returns the base of its content.
    fn names(
        &mut self,
        object: &'a Json,
        entries: &'a Map<String, Json>,
        outer: BaseId,
        is_schema: bool,
    ) -> Result<BaseId, BoundError> {
        let mut base = outer;
        let is_ignored = |keyword: &str| match self.draft {
            0 => false,
            4 => keyword == "$id" || entries.contains_key("$ref"),
            6 | 7 => keyword == "id" || entries.contains_key("$ref"),
            _ => keyword == "id",
        };
        let (no_id, no_old_id) = (is_ignored("$id"), is_ignored("id"));
        for (keyword, value) in entries {
            match (keyword.as_str(), value) {
                ("$id", Json::String(_)) if no_id => {}
                ("id", Json::String(_)) if no_old_id => {}
                ("$id" | "id", Json::String(id)) => {
                    self.names += 1;
                    base = self.add_base(object, id, base, is_schema && self.draft != 0);
                }
                ("$anchor", Json::String(anchor)) => {
                    self.names += 1;
                    self.anchors.entry(anchor).or_default().push(object);
                }
                ("$dynamicAnchor", Json::String(anchor)) => {
                    self.names += 1;
                    self.anchors.entry(anchor).or_default().push(object);
                    self.dynamic_anchors.entry(anchor).or_default().push(object);
                }
                ("$ref", Json::String(reference)) => self.metaschemas |= names_metaschema(reference),
                ("unevaluatedProperties" | "unevaluatedItems", _) => self.tracks_evaluated = true,
                _ => {}
            }
        }
        if entries.get("$recursiveAnchor").and_then(Json::as_bool) == Some(true) {
            self.recursive[base] = true;
        }
        if self.names > MAX_NAMES {
            return Err(BoundError::TooManyNames);
        }
        Ok(base)
    }

    fn add_base(&mut self, schema: &'a Json, id: &'a str, parent: BaseId, is_certain: bool) -> BaseId {
        self.metaschemas |= names_metaschema(id);
        let (url, fragment) = id.split_once('#').unwrap_or((id, ""));
        if !fragment.is_empty() {
            self.anchors.entry(fragment).or_default().push(schema);
        }
        if url.is_empty() {
            return parent;
        }
        self.bases.push(Base { schema, name: last_segment(url), parent: Some(parent), is_certain });
        self.recursive.push(false);
        self.bases.len() - 1
    }

    /// Returns whether the object belongs to a resource with `$recursiveAnchor`.
    pub(super) fn is_recursive(&self, object: &Json) -> bool {
        let base = self.scopes.get(&std::ptr::from_ref(object));
        base.is_some_and(|base| self.recursive[*base])
    }

    pub(super) fn may_be_metaschema(&self, reference: &str) -> bool {
        self.metaschemas && !reference.starts_with('#')
    }

    /// Returns all schemas that the reference in this object may lead to.
    pub(super) fn targets(
        &mut self,
        object: &Json,
        keyword: &str,
        reference: &str,
    ) -> Result<Vec<&'a Json>, BoundError> {
        let (url, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let fragment = percent_decoded(fragment);
        let mut targets = match fragment.is_empty() || fragment.starts_with('/') {
            true => self.pointed(object, url, &fragment)?,
            false => self.anchors.get(fragment.as_str()).cloned().unwrap_or_default(),
        };
        if keyword == "$dynamicRef" {
            targets.extend(self.dynamic_anchors.get(fragment.as_str()).into_iter().flatten());
        }
        targets.sort_by_key(|target| std::ptr::from_ref(*target));
        targets.dedup_by_key(|target| std::ptr::from_ref(*target));
        Ok(targets)
    }

    fn pointed(&mut self, object: &Json, url: &str, pointer: &str) -> Result<Vec<&'a Json>, BoundError> {
        let bases = match url {
            "" => self.around(object),
            url => self.called(last_segment(url)),
        };
        self.lookups += (bases.len() * (1 + pointer.len() / 16)) as u64 + self.bases.len() as u64 / 16;
        if self.lookups > MAX_STEPS {
            return Err(BoundError::TooManySteps);
        }
        Ok(bases.into_iter().filter_map(|base| lookup(self.bases[base].schema, pointer)).collect())
    }

    /// Returns the innermost base around the object, and the bases outside it as long as it is uncertain.
    fn around(&self, object: &Json) -> Vec<BaseId> {
        let innermost = self.scopes.get(&std::ptr::from_ref(object)).copied();
        std::iter::successors(innermost, |base| {
            let base = &self.bases[*base];
            base.parent.filter(|_| !base.is_certain)
        })
        .collect()
    }

    /// Returns the bases that may have this URL.
    fn called(&self, name: Option<&str>) -> Vec<BaseId> {
        let may_be = |base: &Base<'_>| name.is_none() || base.name.is_none() || base.name == name;
        self.bases.iter().enumerate().filter(|(_, base)| may_be(base)).map(|(id, _)| id).collect()
    }
}

/// Returns the draft that the document's `$schema` names, or the latest draft without it.
fn draft(document: &Json) -> Draft {
    let Some(url) = document.get("$schema") else { return 2020 };
    let url = url.as_str().unwrap_or_default().trim_end_matches('#');
    match url.trim_start_matches("https://").trim_start_matches("http://") {
        "json-schema.org/draft-04/schema" => 4,
        "json-schema.org/draft-06/schema" => 6,
        "json-schema.org/draft-07/schema" => 7,
        "json-schema.org/draft/2019-09/schema" => 2019,
        "json-schema.org/draft/2020-12/schema" => 2020,
        _ => 0,
    }
}

/// The position of schemas in a keyword's value.
enum Holds {
    Nothing,
    Schema,
    List,
    Map,
    SchemaOrList,
}

/// Returns where in a keyword's value the validator looks for schemas, and so for the names that they declare.
fn holds(keyword: &str, draft: Draft) -> Holds {
    let (since, holds) = match keyword {
        "not" | "additionalProperties" | "additionalItems" => (4, Holds::Schema),
        "allOf" | "anyOf" | "oneOf" => (4, Holds::List),
        "definitions" | "properties" | "patternProperties" | "dependencies" => (4, Holds::Map),
        "items" => (4, Holds::SchemaOrList),
        "propertyNames" | "contains" => (6, Holds::Schema),
        "if" | "then" | "else" => (7, Holds::Schema),
        "$defs" | "dependentSchemas" => (2019, Holds::Map),
        "unevaluatedProperties" | "unevaluatedItems" => (2019, Holds::Schema),
        "prefixItems" => (2020, Holds::List),
        _ => return Holds::Nothing,
    };
    if draft >= since { holds } else { Holds::Nothing }
}

/// Returns whether the URL may be that of a metaschema, or relative to it.
fn names_metaschema(url: &str) -> bool {
    url.contains('%') || url.to_ascii_lowercase().contains("json-schema.org")
}

/// Returns the last segment of a URL's path, which resolving a reference keeps, or `None` if resolving could change it.
fn last_segment(url: &str) -> Option<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/:".contains(c);
    let (path, last) = url.rsplit_once('/').unwrap_or(("", url));
    let is_clear = url.chars().all(plain) && !last.contains(':') && !path.ends_with('/') && last != "." && last != "..";
    is_clear.then_some(last)
}

/// Follows a JSON pointer. Like the validator, accepts any number as an index.
fn lookup<'a>(document: &'a Json, pointer: &str) -> Option<&'a Json> {
    pointer.split('/').skip(1).try_fold(document, |value, token| match value {
        Json::Array(items) => items.get(token.parse::<usize>().ok()?),
        Json::Object(entries) => entries.get(&token.replace("~1", "/").replace("~0", "~")),
        _ => None,
    })
}

pub(crate) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match hex {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
